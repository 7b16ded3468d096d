//! An LRU cache with a budget in bytes and built-in single-flight: a key is absent, in flight, or
//! ready.
//!
//! The first lookup of an absent key leads: it gets a [`Flight`] and must produce the value. Later
//! lookups wait. When the flight ends, the value is inserted and the waiters are removed in one
//! step under one lock, so there is no gap in which a second flight could start. The flight is
//! owned by a task or a thread of its own, not by a client, which may disconnect: [`Flight::run`]
//! goes on while anybody waits. A flight that is dropped (after a panic, or with an abandoned job)
//! frees the key and wakes its waiters with [`Abandoned`]. Errors are passed to the waiters and
//! never cached.
//!
//! It is used for encoded tiles and for samples (waiters are async), for decoded chunks (waiters
//! block a render thread), and for stored bytes that are fetched (both). The caller gives the
//! weight of each value in bytes.

use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lru::LruCache;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// The flight ended without a value: its job was abandoned or panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the job was abandoned before it finished; a new request starts it again")]
pub struct Abandoned;

/// The cache; clones share it.
#[derive(Clone)]
pub struct Cache<K: Hash + Eq, V, E>(Arc<Mutex<CacheState<K, V, E>>>);

struct CacheState<K: Hash + Eq, V, E> {
    slots: LruCache<K, Slot<V, E>>,
    /// The weight of all ready values.
    bytes: usize,
    /// The maximum of `bytes`.
    budget: usize,
    /// Shows `bytes`.
    held: Gauge,
}

enum Slot<V, E> {
    Flying(Waiters<V, E>),
    Ready { value: V, weight: usize },
}

/// The result of a lookup.
pub enum Lookup<K: Hash + Eq + Clone, V: Clone, E: Clone> {
    /// The cached value.
    Ready(V),
    /// The value is in flight.
    Wait(Waiter<V, E>),
    /// The key was absent: the caller must produce the value, or pass the flight to a job that
    /// does.
    Lead(Flight<K, V, E>),
}

/// The threads and requests that wait for a flight to land.
struct Waiters<V, E> {
    senders: Vec<oneshot::Sender<Result<V, E>>>,
    /// Whether the value is not to be cached.
    is_discarded: bool,
}

impl<V, E> Waiters<V, E> {
    fn add(&mut self) -> Waiter<V, E> {
        let (sender, receiver) = oneshot::channel();
        self.senders.push(sender);
        Waiter(receiver)
    }

    /// Ready once nobody waits; until then, the task is woken whenever one of the waiters leaves.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.senders
            .retain_mut(|waiter| waiter.poll_closed(context).is_pending());
        if self.senders.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Receives the result of a flight. Dropping it tells the flight that this waiter leaves.
pub struct Waiter<V, E>(oneshot::Receiver<Result<V, E>>);

impl<V, E: From<Abandoned>> Waiter<V, E> {
    /// Waits asynchronously.
    pub async fn wait(self) -> Result<V, E> {
        self.0.await.unwrap_or_else(|_| Err(Abandoned.into()))
    }

    /// Blocks the calling thread, which must not be an async one.
    pub fn wait_blocking(self) -> Result<V, E> {
        self.0
            .blocking_recv()
            .unwrap_or_else(|_| Err(Abandoned.into()))
    }
}

fn ready<V: Clone, E>(slot: Option<&Slot<V, E>>) -> Option<V> {
    match slot {
        Some(Slot::Ready { value, .. }) => Some(value.clone()),
        _ => None,
    }
}

/// The obligation to produce the value of a key; dropping it frees the key.
pub struct Flight<K: Hash + Eq + Clone, V: Clone, E: Clone> {
    cache: Cache<K, V, E>,
    key: K,
    /// Whether the flight has ended, so that dropping it has no effect.
    landed: bool,
}

impl<K: Hash + Eq + Clone, V: Clone, E: Clone> Cache<K, V, E> {
    /// A cache of at most `budget` bytes; `held` follows the bytes cached.
    pub fn new(budget: usize, held: Gauge) -> Self {
        let state = CacheState {
            slots: LruCache::unbounded(),
            bytes: 0,
            budget,
            held,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Returns the value, joins the flight that produces it, or starts one.
    pub fn lookup(&self, key: &K) -> Lookup<K, V, E> {
        self.lookup_if(key, |_| true)
    }

    /// Like [`Cache::lookup`], but a ready value for which `suffices` is false is dropped, and the
    /// caller leads.
    ///
    /// The value that a flight delivers to waiters is not checked: it may not suffice, and they
    /// must look up again.
    pub fn lookup_if(&self, key: &K, suffices: impl FnOnce(&V) -> bool) -> Lookup<K, V, E> {
        let mut state = self.0.lock();
        match state.slots.get_mut(key) {
            Some(Slot::Ready { value, .. }) if suffices(value) => {
                return Lookup::Ready(value.clone());
            }
            Some(Slot::Flying(waiters)) => {
                return Lookup::Wait(waiters.add());
            }
            _ => {}
        }
        let waiters = Waiters {
            senders: Vec::new(),
            is_discarded: false,
        };
        if let Some(Slot::Ready { weight, .. }) =
            state.slots.put(key.clone(), Slot::Flying(waiters))
        {
            state.reweigh(weight, 0);
        }
        Lookup::Lead(Flight {
            cache: self.clone(),
            key: key.clone(),
            landed: false,
        })
    }

    /// The value if it is ready, marked as recently used; starts no flight.
    pub fn get(&self, key: &K) -> Option<V> {
        ready(self.0.lock().slots.get(key))
    }

    /// The value if it is ready, without marking it as recently used; starts no flight.
    pub fn peek(&self, key: &K) -> Option<V> {
        ready(self.0.lock().slots.peek(key))
    }

    /// Caches a value that no flight has made, unless the key is in flight or ready.
    pub fn add(&self, key: &K, value: V, weight: usize) {
        let mut state = self.0.lock();
        if !state.slots.contains(key) {
            state.keep(key.clone(), value, weight);
        }
    }

    /// Replaces a ready value for which `is_worse` holds, without marking it as recently used.
    /// Returns false if there is no such value, or if `weight` exceeds the budget.
    pub fn replace_if(
        &self,
        key: &K,
        value: V,
        weight: usize,
        is_worse: impl FnOnce(&V) -> bool,
    ) -> bool {
        let mut state = self.0.lock();
        let budget = state.budget;
        let Some(Slot::Ready {
            value: ready_value,
            weight: ready_weight,
        }) = state.slots.peek_mut(key)
        else {
            return false;
        };
        if weight > budget || !is_worse(ready_value) {
            return false;
        }
        let old = std::mem::replace(ready_value, value);
        let old_weight = std::mem::replace(ready_weight, weight);
        state.reweigh(old_weight, weight);
        drop(state);
        // Freeing large values takes time: not under the lock.
        drop(old);
        true
    }

    /// Removes a value; a flight delivers its value, which is not cached.
    pub fn discard(&self, key: &K) {
        let mut state = self.0.lock();
        let removed = match state.slots.peek_mut(key) {
            Some(Slot::Flying(waiters)) => {
                waiters.is_discarded = true;
                None
            }
            Some(Slot::Ready { .. }) => state.slots.pop(key),
            None => None,
        };
        if let Some(Slot::Ready { weight, .. }) = &removed {
            state.reweigh(*weight, 0);
        }
        drop(state);
        // Freeing large values takes time: not under the lock.
        drop(removed);
    }

    /// Removes every value; flights continue.
    pub fn clear(&self) {
        let mut state = self.0.lock();
        let slots = std::mem::replace(&mut state.slots, LruCache::unbounded());
        let (flying, ready): (Vec<_>, Vec<_>) = slots
            .into_iter()
            .partition(|(_, slot)| matches!(slot, Slot::Flying(_)));
        for (key, flight) in flying {
            state.slots.put(key, flight);
        }
        let bytes = state.bytes;
        state.reweigh(bytes, 0);
        drop(state);
        // Freeing large values takes time: not under the lock.
        drop(ready);
    }
}

impl<K: Hash + Eq + Clone, V: Clone, E: Clone> Flight<K, V, E> {
    /// Adds a waiter, for the leader's own client.
    pub fn join(&self) -> Waiter<V, E> {
        match self.cache.0.lock().slots.get_mut(&self.key) {
            Some(Slot::Flying(waiters)) => waiters.add(),
            // Never: the slot is in flight until this flight ends.
            _ => Waiter(oneshot::channel().1),
        }
    }

    /// Returns once nobody waits for the flight any more. As a request may join at any moment,
    /// whoever wants to end the flight must then call [`Flight::still_wanted`].
    pub async fn unwanted(&self) {
        poll_fn(
            |context| match self.cache.0.lock().slots.peek_mut(&self.key) {
                Some(Slot::Flying(waiters)) => waiters.poll_gone(context),
                _ => Poll::Ready(()),
            },
        )
        .await;
    }

    /// The flight itself if it still has waiters; otherwise it ends, and its key is freed.
    ///
    /// Both happen under one lock, so nobody can join in between.
    pub fn still_wanted(mut self) -> Option<Self> {
        let mut state = self.cache.0.lock();
        let is_wanted = match state.slots.peek(&self.key) {
            Some(Slot::Flying(waiters)) => waiters.senders.iter().any(|sender| !sender.is_closed()),
            _ => false,
        };
        if !is_wanted {
            state.slots.pop(&self.key);
        }
        drop(state);
        self.landed = !is_wanted;
        is_wanted.then_some(self)
    }

    /// Lands with the value that `make` returns, and its weight. As soon as nobody waits, the
    /// flight ends without a value, and `make` is dropped.
    pub async fn run(self, make: impl Future<Output = Result<(V, usize), E>>) {
        let mut make = pin!(make);
        let mut flight = self;
        let result = loop {
            tokio::select! {
                biased;
                result = &mut make => break result,
                () = flight.unwanted() => match flight.still_wanted() {
                    // A request has joined since.
                    Some(again) => flight = again,
                    None => return,
                }
            }
        };
        flight.land(result);
    }

    /// Begins to make the value, and continues in a task of its own, which goes on for other
    /// waiters if the leader's client disconnects. Returns the waiter of the leader's client.
    pub fn launch(
        self,
        make: impl Future<Output = Result<(V, usize), E>> + Send + 'static,
    ) -> Waiter<V, E>
    where
        K: Send + Sync + 'static,
        V: Send + 'static,
        E: Send + 'static,
    {
        let waiter = self.join();
        let mut run = Box::pin(self.run(make));
        // The first poll is here, so that work is queued in the order of the requests.
        let begun = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if begun.is_pending() {
            drop(tokio::spawn(run));
        }
        waiter
    }

    /// Ends the flight: caches a value with its weight in bytes, and sends the result to every
    /// waiter.
    pub fn land(mut self, result: Result<(V, usize), E>) {
        let waiters = {
            let mut state = self.cache.0.lock();
            let waiters = state.end_flight(&self.key);
            let is_discarded = waiters.as_ref().is_some_and(|all| all.is_discarded);
            if !is_discarded && let Ok((value, weight)) = &result {
                state.keep(self.key.clone(), value.clone(), *weight);
            }
            waiters
        };
        self.landed = true;
        let answer = result.map(|(value, _)| value);
        for sender in waiters.into_iter().flat_map(|all| all.senders) {
            // The waiter may have disconnected.
            let _ = sender.send(answer.clone());
        }
    }
}

impl<K: Hash + Eq + Clone, V: Clone, E: Clone> Drop for Flight<K, V, E> {
    fn drop(&mut self) {
        if !self.landed {
            self.cache.0.lock().end_flight(&self.key);
        }
    }
}

impl<K: Hash + Eq, V, E> CacheState<K, V, E> {
    /// Frees a key that is in flight; returns the flight's waiters.
    fn end_flight(&mut self, key: &K) -> Option<Waiters<V, E>> {
        match self.slots.pop(key) {
            Some(Slot::Flying(waiters)) => Some(waiters),
            _ => None,
        }
    }

    /// Adds a value, unless it alone exceeds the budget.
    fn keep(&mut self, key: K, value: V, weight: usize) {
        if weight <= self.budget {
            self.slots.put(key, Slot::Ready { value, weight });
            self.reweigh(0, weight);
        }
    }

    /// Counts ready values of the weight `after` in place of values of the weight `before`, and
    /// evicts values until all are within the budget.
    fn reweigh(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes - before + after;
        let mut flying = Vec::new();
        while self.bytes > self.budget {
            match self.slots.pop_lru() {
                Some((_, Slot::Ready { weight, .. })) => self.bytes -= weight,
                Some(flight) => flying.push(flight),
                None => break,
            }
        }
        for (key, flight) in flying {
            self.slots.put(key, flight);
        }
        self.held.set(self.bytes as i64);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Failed(&'static str);

    impl From<Abandoned> for Failed {
        fn from(_: Abandoned) -> Self {
            Failed("lost")
        }
    }

    type TestCache = Cache<u32, String, Failed>;

    fn cache(budget: usize) -> TestCache {
        Cache::new(budget, Gauge::default())
    }

    fn lead(cache: &TestCache, key: u32) -> Flight<u32, String, Failed> {
        match cache.lookup(&key) {
            Lookup::Lead(flight) => flight,
            _ => panic!("{key} is not absent"),
        }
    }

    fn wait(cache: &TestCache, key: u32) -> Waiter<String, Failed> {
        match cache.lookup(&key) {
            Lookup::Wait(waiter) => waiter,
            _ => panic!("{key} is not in flight"),
        }
    }

    fn fill(cache: &TestCache, key: u32, weight: usize) {
        lead(cache, key).land(Ok((key.to_string(), weight)));
    }

    #[test]
    fn the_first_lookup_leads_and_others_wait_for_its_value() {
        let cache = cache(100);
        let flight = lead(&cache, 1);
        let waiters: Vec<_> = (0..5).map(|_| wait(&cache, 1)).collect();
        flight.land(Ok(("one".into(), 3)));
        for waiter in waiters {
            assert_eq!(waiter.wait_blocking(), Ok("one".into()));
        }
        assert!(matches!(cache.lookup(&1), Lookup::Ready(value) if value == "one"));
    }

    #[test]
    fn an_error_reaches_the_waiters_and_is_not_cached() {
        let cache = cache(100);
        let flight = lead(&cache, 1);
        let waiter = wait(&cache, 1);
        flight.land(Err(Failed("broken")));
        assert_eq!(waiter.wait_blocking(), Err(Failed("broken")));
        fill(&cache, 1, 1);
        assert_eq!(cache.peek(&1), Some("1".into()));
    }

    #[test]
    fn a_dropped_flight_wakes_its_waiters_and_frees_the_key() {
        let cache = cache(100);
        let flight = lead(&cache, 1);
        let waiter = wait(&cache, 1);
        drop(flight);
        assert_eq!(waiter.wait_blocking(), Err(Failed("lost")));
        fill(&cache, 1, 1);
    }

    #[test]
    fn a_flight_without_waiters_is_abandoned() {
        let cache = cache(100);
        let flight = lead(&cache, 1);
        let waiter = flight.join();
        let flight = flight.still_wanted().expect("its client waits");
        drop(waiter);
        assert!(flight.still_wanted().is_none());
        fill(&cache, 1, 1);
    }

    /// Polls once.
    fn is_ready(future: Pin<&mut impl Future<Output = ()>>) -> bool {
        future
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    #[test]
    fn a_flight_is_unwanted_once_the_last_waiter_has_left() {
        let cache = cache(100);
        let flight = lead(&cache, 1);
        assert!(is_ready(pin!(flight.unwanted())), "nobody has joined");
        let (first, second) = (flight.join(), wait(&cache, 1));
        let mut unwanted = Box::pin(flight.unwanted());
        assert!(!is_ready(unwanted.as_mut()));
        drop(first);
        assert!(!is_ready(unwanted.as_mut()));
        drop(second);
        assert!(is_ready(unwanted.as_mut()));
        drop(unwanted);
        let _late = wait(&cache, 1);
        assert!(flight.still_wanted().is_some());
    }

    #[test]
    fn a_run_ends_with_its_last_waiter_and_drops_what_was_being_made() {
        let cache = cache(100);
        let flight = lead(&cache, 1);
        let (leader, other) = (flight.join(), wait(&cache, 1));
        let (sender, made) = oneshot::channel();
        let mut run = Box::pin(flight.run(async { made.await.unwrap() }));
        assert!(!is_ready(run.as_mut()));
        drop(leader);
        assert!(!is_ready(run.as_mut()), "another one waits");
        drop(other);
        let joined = wait(&cache, 1);
        assert!(!is_ready(run.as_mut()), "a request has joined since");
        drop(joined);
        assert!(is_ready(run.as_mut()));
        drop(run);
        assert!(sender.is_closed());
        fill(&cache, 1, 1);
    }

    #[test]
    fn a_run_lands_with_what_was_made_even_if_nobody_waits_any_more() {
        let cache = cache(100);
        let flight = lead(&cache, 1);
        drop(flight.join());
        assert!(is_ready(pin!(flight.run(async { Ok(("1".into(), 1)) }))));
        assert_eq!(cache.peek(&1), Some("1".into()));
    }

    #[test]
    fn a_value_is_added_only_where_there_is_none() {
        let cache = cache(100);
        cache.add(&1, "one".into(), 3);
        cache.add(&1, "another".into(), 7);
        assert_eq!(cache.peek(&1), Some("one".into()));
        let flight = lead(&cache, 2);
        cache.add(&2, "two".into(), 3);
        assert_eq!(cache.peek(&2), None);
        flight.land(Ok(("2".into(), 1)));
        assert_eq!(
            (cache.peek(&2), cache.0.lock().held.get()),
            (Some("2".into()), 4)
        );
    }

    #[test]
    fn the_budget_is_in_bytes_and_the_least_recently_used_goes_first() {
        let cache = cache(10);
        for key in [1, 2, 3] {
            fill(&cache, key, 3);
        }
        assert!(
            cache.get(&1).is_some() && cache.peek(&2).is_some(),
            "only the first counts as a use"
        );
        fill(&cache, 4, 3);
        assert_eq!(
            [1, 2, 3, 4].map(|key| cache.peek(&key).is_some()),
            [true, false, true, true]
        );
        assert_eq!(cache.0.lock().held.get(), 9);
        fill(&cache, 5, 11);
        assert_eq!(cache.peek(&5), None);
        assert_eq!(cache.0.lock().held.get(), 9);
    }

    #[test]
    fn clearing_removes_values_and_flights_continue() {
        let cache = cache(100);
        fill(&cache, 1, 7);
        let flight = lead(&cache, 2);
        let waiter = wait(&cache, 2);
        cache.clear();
        assert_eq!((cache.peek(&1), cache.0.lock().held.get()), (None, 0));
        flight.land(Ok(("two".into(), 3)));
        assert_eq!(waiter.wait_blocking(), Ok("two".into()));
        assert_eq!(
            (cache.peek(&2), cache.0.lock().held.get()),
            (Some("two".into()), 3)
        );
    }

    #[test]
    fn a_value_that_does_not_suffice_is_produced_again() {
        let cache = cache(100);
        fill(&cache, 7, 40);
        let Lookup::Lead(flight) = cache.lookup_if(&7, |value| value.len() > 3) else {
            panic!("an insufficient value was returned");
        };
        assert_eq!(cache.0.lock().held.get(), 0);
        let waiter = wait(&cache, 7);
        flight.land(Ok(("seven".into(), 5)));
        assert_eq!(waiter.wait_blocking(), Ok("seven".into()));
        assert!(matches!(
            cache.lookup_if(&7, |value| value.len() > 3),
            Lookup::Ready(_)
        ));
    }

    #[test]
    fn replacing_keeps_the_lru_order_and_wrong_values_are_removed() {
        let cache = cache(10);
        fill(&cache, 1, 2);
        fill(&cache, 2, 2);
        assert!(
            !cache.replace_if(&3, "three".into(), 1, |_| true),
            "nothing is there"
        );
        assert!(
            !cache.replace_if(&1, "one".into(), 1, |_| false),
            "good enough"
        );
        assert!(
            !cache.replace_if(&1, "one".into(), 11, |_| true),
            "too large"
        );
        assert!(cache.replace_if(&1, "one".into(), 5, |value| value == "1"));
        assert_eq!(cache.0.lock().held.get(), 7);
        // Key 1 is still the least recently used.
        fill(&cache, 3, 4);
        assert_eq!(
            [1, 2, 3].map(|key| cache.peek(&key).is_some()),
            [false, true, true]
        );
        cache.discard(&3);
        assert_eq!([2, 3].map(|key| cache.peek(&key).is_some()), [true, false]);
        assert_eq!(cache.0.lock().held.get(), 2);
        let flight = lead(&cache, 4);
        assert!(
            !cache.replace_if(&4, "four".into(), 1, |_| true),
            "it is in flight"
        );
        cache.discard(&4);
        let waiter = wait(&cache, 4);
        flight.land(Ok(("4".into(), 1)));
        assert_eq!(waiter.wait_blocking(), Ok("4".into()));
        assert!(cache.peek(&4).is_none());
    }

    #[test]
    fn eviction_leaves_flights_alone() {
        let cache = cache(3);
        let flight = lead(&cache, 1);
        for key in [2, 3, 4] {
            fill(&cache, key, 3);
        }
        let waiter = wait(&cache, 1);
        flight.land(Ok(("one".into(), 3)));
        assert_eq!(waiter.wait_blocking(), Ok("one".into()));
    }
}
