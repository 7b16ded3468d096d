//! Turns in which clients share places for work: threads that render, or requests to stores and
//! tiers.
//!
//! Work that finds a place begins at once. Other work waits in a [queue](super::queue). A turn that
//! ends begins the next one. A thread that asks for the next work ([`Turn::end`]) does it itself:
//! another thread would have to be woken, and might wait while this thread's processor is idle.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};
use voltile_base::flow::cache::Abandoned;
use voltile_base::tile::TileKey;

use super::client::Demand;
use super::error::TileError;
use super::queue::rotation::SequenceNumber;
use super::queue::{Busy, Queue};

/// A number of places for work, with a bounded queue; clones share them.
#[derive(Clone)]
pub(super) struct Turns(Arc<SharedTurns>);

struct SharedTurns {
    state: Mutex<TurnState>,
    /// Starts work on a thread that may do it.
    start: Box<dyn Fn(NextWork) + Send + Sync>,
    /// Counts the work that is refused because the queue is full.
    rejected: Counter,
    /// Notified when a turn ends, or the number of places changes.
    ended: Notify,
}

struct TurnState {
    waiting: Queue<TileKey, Work>,
    /// The number of turns under way.
    active: usize,
    /// The number of turns that may be under way at once.
    places: usize,
}

/// Does work in its turn, or fails it because the queue is full; returns the work that its thread
/// does next.
type Work = Box<dyn FnOnce(Result<Turn, Busy>) -> Option<NextWork> + Send>;

/// Work whose turn has come.
pub(super) struct NextWork {
    turn: Turn,
    work: Work,
}

/// A turn under way. When it is dropped, also by a panic, it ends, and the next is started.
pub(super) struct Turn {
    /// `None` once it has ended.
    turns: Option<Turns>,
    /// Whether it is the turn of idle work, which gives back its place as soon as other work waits.
    is_idle_work: bool,
}

/// Work that waits in the queue; it leaves the queue when this is dropped.
pub(super) struct QueuedWork<'a> {
    turns: &'a Turns,
    number: SequenceNumber,
}

impl Turns {
    /// At most `places` turns are under way at once; the queue has room for `capacity` pieces of
    /// work. `start` has a thread run work.
    pub fn new(
        places: usize,
        capacity: usize,
        rejected: Counter,
        start: impl Fn(NextWork) + Send + Sync + 'static,
    ) -> Self {
        let state = TurnState {
            waiting: Queue::new(capacity, places),
            active: 0,
            places,
        };
        Self(Arc::new(SharedTurns {
            state: Mutex::new(state),
            start: Box::new(start),
            rejected,
            ended: Notify::new(),
        }))
    }

    /// Waits for a turn; fails if the queue is full. Requests for the same `key` can join
    /// meanwhile. If this future is dropped, it leaves the queue.
    pub async fn turn(&self, key: Option<TileKey>, demand: Demand) -> Result<Turn, TileError> {
        let (sender, turn) = oneshot::channel();
        let _queued = self.enter(key, demand, move |turn| {
            // A turn that nobody waits for any more ends at once.
            drop(sender.send(turn));
            None
        });
        Ok(turn.await.map_err(|_| Abandoned)??)
    }

    /// Begins work now if there is a place, and returns `None`. Otherwise queues it; if the queue
    /// is full, this work or the work that it displaces fails.
    pub fn enter(
        &self,
        key: Option<TileKey>,
        demand: Demand,
        work: impl FnOnce(Result<Turn, Busy>) -> Option<NextWork> + Send + 'static,
    ) -> Option<QueuedWork<'_>> {
        let mut state = self.0.state.lock();
        if state.active < state.places {
            state.active += 1;
            state.waiting.started(demand);
            drop(state);
            (self.0.start)(self.with_turn(Box::new(work)));
            return None;
        }
        let number = state.waiting.next;
        let loser = state
            .waiting
            .push(key, demand, Box::new(work), Instant::now());
        let busy = Busy {
            waiting: state.waiting.len(),
        };
        drop(state);
        if let Some(loser) = loser {
            self.0.rejected.inc();
            drop(loser(Err(busy)));
        }
        Some(QueuedWork {
            turns: self,
            number,
        })
    }

    /// The turn of idle work, if there is a place. Until it ends, the queue has room for the work
    /// that will take its place.
    pub fn idle_turn(&self) -> Option<Turn> {
        let mut state = self.0.state.lock();
        if state.active >= state.places {
            return None;
        }
        state.active += 1;
        state.waiting.extra += 1;
        drop(state);
        Some(Turn {
            turns: Some(self.clone()),
            is_idle_work: true,
        })
    }

    /// Lets waiting work also go at the turn of another client that wants it.
    pub fn join(&self, key: &TileKey, demand: Demand) {
        let mut state = self.0.state.lock();
        state.waiting.join(key, demand, Instant::now());
    }

    /// Changes how many turns may be under way at once, and begins waiting work for which there is
    /// now a place.
    pub fn set_places(&self, places: usize) {
        let mut startable = Vec::new();
        let mut state = self.0.state.lock();
        state.places = places;
        while state.active < places
            && let Some(work) = state.waiting.take(Instant::now())
        {
            state.active += 1;
            startable.push(work);
        }
        drop(state);
        for work in startable {
            (self.0.start)(self.with_turn(work));
        }
        self.0.ended.notify_waiters();
    }

    /// A future that waits until a turn ends, or the number of places changes, after this call.
    pub fn ended(&self) -> Notified<'_> {
        self.0.ended.notified()
    }

    /// The length of the queue.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().waiting.len()
    }

    /// The capacity of the queue.
    pub fn capacity(&self) -> usize {
        self.0.state.lock().waiting.capacity
    }

    /// How many turns may be under way at once, and how many more than usual may wait.
    #[cfg(test)]
    pub fn places(&self) -> (usize, usize) {
        let state = self.0.state.lock();
        (state.places, state.waiting.extra)
    }

    /// Work with the turn in which it is done.
    fn with_turn(&self, work: Work) -> NextWork {
        let turn = Turn {
            turns: Some(self.clone()),
            is_idle_work: false,
        };
        NextWork { turn, work }
    }

    /// Ends a turn, and begins the next if work waits. The caller has a thread do that work.
    fn end_turn(&self, is_idle_work: bool) -> Option<NextWork> {
        let mut state = self.0.state.lock();
        state.waiting.extra -= usize::from(is_idle_work);
        // There may be fewer places than when the turn began.
        let next = if state.active > state.places {
            None
        } else {
            state.waiting.take(Instant::now())
        };
        if next.is_none() {
            state.active -= 1;
        }
        drop(state);
        let Some(work) = next else {
            self.0.ended.notify_waiters();
            return None;
        };
        Some(self.with_turn(work))
    }
}

impl NextWork {
    /// Does the work, and then the work that follows it on this thread.
    pub fn run(self) {
        let mut next = Some(self);
        while let Some(Self { turn, work }) = next {
            next = work(Ok(turn));
        }
    }
}

impl Turn {
    /// Ends the turn. The caller does the work that is returned.
    pub fn end(mut self) -> Option<NextWork> {
        self.turns.take()?.end_turn(self.is_idle_work)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take()
            && let Some(next) = turns.end_turn(self.is_idle_work)
        {
            (turns.0.start)(next);
        }
    }
}

impl Drop for QueuedWork<'_> {
    fn drop(&mut self) {
        let _removed = self.turns.0.state.lock().waiting.remove(self.number);
        // The work is dropped here, not under the lock.
    }
}
