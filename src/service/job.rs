//! Jobs of the render queue: what happens when a job runs, is refused, or is no longer wanted.

use std::hash::Hash;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;

use super::pool::{Busy, Turn};
use super::{TileError, Warmed};
use crate::cache::Flight;

/// Work for a render thread.
pub(super) trait Job: Send {
    /// Runs the job. Drops the turn before it delivers the result, so that a client that requests another tile at
    /// once finds room in the queue.
    fn run(self: Box<Self>, turn: Turn);

    /// Fails the job because the queue is full.
    fn refuse(self: Box<Self>, busy: Busy);

    /// Returns the job if anybody still waits for it; otherwise drops it.
    fn if_wanted(self: Box<Self>) -> Option<Box<dyn Job>>;
}

/// Makes the value of a flight.
pub(super) struct Bring<K: Hash + Eq + Clone, V: Clone, F> {
    pub flight: Flight<K, V, TileError>,
    pub work: F,
    /// Counts refused jobs.
    pub rejected: Counter,
    /// Counts jobs that nobody waited for any more.
    pub abandoned: Counter,
    /// Counts jobs that were stopped while they ran, for the same reason.
    pub stopped: Counter,
}

impl<K, V, F> Job for Bring<K, V, F>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Clone + Send + 'static,
    F: FnMut() -> Result<(V, usize), TileError> + Send + 'static,
{
    fn run(self: Box<Self>, turn: Turn) {
        let Self { mut flight, mut work, stopped, .. } = *self;
        let result = loop {
            match work() {
                Err(error) if error.is_stopped() => match flight.still_wanted() {
                    // A request has joined since.
                    Some(again) => flight = again,
                    None => {
                        stopped.inc();
                        return;
                    }
                },
                result => break result,
            }
        };
        drop(turn);
        flight.land(result);
    }

    fn refuse(self: Box<Self>, busy: Busy) {
        self.rejected.inc();
        self.flight.land(Err(busy.into()));
    }

    fn if_wanted(self: Box<Self>) -> Option<Box<dyn Job>> {
        let Self { flight, work, rejected, abandoned, stopped } = *self;
        let Some(flight) = flight.still_wanted() else {
            abandoned.inc();
            return None;
        };
        Some(Box::new(Self { flight, work, rejected, abandoned, stopped }))
    }
}

/// Makes sure that a tile is in the disk cache, and reports the outcome.
pub(super) struct Warm<F> {
    pub work: F,
    pub done: oneshot::Sender<Result<Warmed, TileError>>,
}

impl<F: FnOnce() -> Result<Warmed, TileError> + Send + 'static> Job for Warm<F> {
    fn run(self: Box<Self>, turn: Turn) {
        let Self { work, done } = *self;
        let result = work();
        drop(turn);
        // Ignore the error: the receiver is gone.
        let _ = done.send(result);
    }

    fn refuse(self: Box<Self>, busy: Busy) {
        let _ = self.done.send(Err(busy.into()));
    }

    fn if_wanted(self: Box<Self>) -> Option<Box<dyn Job>> {
        (!self.done.is_closed()).then_some(self as Box<dyn Job>)
    }
}
