//! A queue bounded by the weight of its items, for example their bytes. Whoever adds an item says
//! how long to wait for room.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Items in order, each with a weight.
pub struct Queue<T> {
    capacity: usize,
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

struct QueueState<T> {
    items: VecDeque<(T, usize)>,
    /// The weight of the items that wait, and of the taken ones that are still being handled.
    weight: usize,
    is_closed: bool,
}

/// The room in the queue that an item takes up until it has been handled.
pub struct QueueRoom<'a, T> {
    queue: &'a Queue<T>,
    weight: usize,
}

impl<T> Queue<T> {
    /// An empty queue. It holds items of the weight `capacity` together, or one item of any weight.
    pub fn new(capacity: usize) -> Self {
        let state = QueueState {
            items: VecDeque::new(),
            weight: 0,
            is_closed: false,
        };
        Self {
            capacity,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Adds an item; waits for room until `patience` is over, without a limit if it is `None`.
    /// Returns whether the item was added: not if there is no room, or if the queue is closed.
    pub fn push(&self, item: T, weight: usize, patience: Option<Duration>) -> bool {
        let has_room =
            |state: &QueueState<T>| state.weight == 0 || state.weight + weight <= self.capacity;
        let mut state = self.wait(patience, |state| state.is_closed || has_room(state));
        let is_added = !state.is_closed && has_room(&state);
        if is_added {
            state.weight += weight;
            state.items.push_back((item, weight));
            self.changed.notify_all();
        }
        is_added
    }

    /// Waits for the next item; `None` once the queue is closed and empty.
    pub fn next(&self) -> Option<(T, QueueRoom<'_, T>)> {
        let mut state = self.wait(None, |state| state.is_closed || !state.items.is_empty());
        let (item, weight) = state.items.pop_front()?;
        let room = QueueRoom {
            queue: self,
            weight,
        };
        Some((item, room))
    }

    /// Accepts no more items.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until all items have been handled, or `patience` is over.
    pub fn flush(&self, patience: Option<Duration>) {
        drop(self.wait(patience, |state| state.weight == 0));
    }

    /// Removes the items that wait; returns their number.
    pub fn clear(&self) -> usize {
        let mut state = self.state.lock();
        let items = std::mem::take(&mut state.items);
        state.weight -= items.iter().map(|(_, weight)| weight).sum::<usize>();
        self.changed.notify_all();
        items.len()
    }

    /// Locks the state once `holds` is true of it, or once `patience` is over.
    fn wait(
        &self,
        patience: Option<Duration>,
        holds: impl Fn(&QueueState<T>) -> bool,
    ) -> MutexGuard<'_, QueueState<T>> {
        let until = patience.map(|patience| Instant::now() + patience);
        let mut state = self.state.lock();
        while !holds(&state) {
            match until {
                Some(until) if until <= Instant::now() => break,
                Some(until) => drop(self.changed.wait_until(&mut state, until)),
                None => self.changed.wait(&mut state),
            }
        }
        state
    }
}

impl<T> Drop for QueueRoom<'_, T> {
    fn drop(&mut self) {
        self.queue.state.lock().weight -= self.weight;
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn items_come_out_in_order_and_take_up_room_until_they_are_handled() {
        let queue = Queue::new(10);
        assert!(
            queue.push('a', 6, NO_TIME)
                && queue.push('b', 4, NO_TIME)
                && !queue.push('c', 1, NO_TIME)
        );
        let (first, room) = queue.next().unwrap();
        assert!(
            first == 'a' && !queue.push('c', 1, NO_TIME),
            "it is being handled"
        );
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.push('c', 6, None));
            drop(room);
            assert!(waiting.join().unwrap());
        });
        assert_eq!([(); 2].map(|()| queue.next().unwrap().0), ['b', 'c']);
        queue.flush(None);
    }

    #[test]
    fn an_empty_queue_takes_an_item_of_any_weight() {
        let queue = Queue::new(10);
        assert!(queue.push('a', 11, NO_TIME) && !queue.push('b', 0, NO_TIME));
    }

    #[test]
    fn a_closed_queue_gives_what_it_has_and_takes_nothing() {
        let queue = Queue::new(10);
        assert!(queue.push('a', 1, None) && queue.push('b', 1, None));
        queue.close();
        assert!(!queue.push('c', 1, None), "nobody waits");
        assert_eq!(queue.next().unwrap().0, 'a');
        assert_eq!((queue.clear(), queue.next().is_none()), (1, true));
        queue.flush(None);
    }
}
