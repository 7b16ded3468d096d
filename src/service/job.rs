//! Jobs of the render queue: what becomes of one when its turn comes, when nobody waits any more, when there is no room.

use std::hash::Hash;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;

use super::pool::{Busy, Turn};
use super::{TileError, Warmed};
use crate::cache::Flight;

/// Something to be done on a render thread.
pub(super) trait Job: Send {
    /// Does it. The turn is given back before anybody hears of the end: who asks again at once must find room.
    fn run(self: Box<Self>, turn: Turn);

    /// Tells whoever waits that the queue is full.
    fn refuse(self: Box<Self>, busy: Busy);

    /// The job, if anybody still waits for it; else it is over.
    fn if_wanted(self: Box<Self>) -> Option<Box<dyn Job>>;
}

/// Brings the value of a flight.
pub(super) struct Bring<K: Hash + Eq + Clone, V: Clone, F> {
    pub flight: Flight<K, V, TileError>,
    pub work: F,
    /// Counts those that were refused.
    pub rejected: Counter,
    /// Counts those that nobody waited for any more.
    pub abandoned: Counter,
}

impl<K, V, F> Job for Bring<K, V, F>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Clone + Send + 'static,
    F: FnOnce() -> Result<(V, usize), TileError> + Send + 'static,
{
    fn run(self: Box<Self>, turn: Turn) {
        let Self { flight, work, .. } = *self;
        let result = work();
        drop(turn);
        flight.land(result);
    }

    fn refuse(self: Box<Self>, busy: Busy) {
        self.rejected.inc();
        self.flight.land(Err(busy.into()));
    }

    fn if_wanted(self: Box<Self>) -> Option<Box<dyn Job>> {
        let Self { flight, work, rejected, abandoned } = *self;
        let Some(flight) = flight.still_wanted() else {
            abandoned.inc();
            return None;
        };
        Some(Box::new(Self { flight, work, rejected, abandoned }))
    }
}

/// Has a tile in the second tier, and tells the one who waits for that.
pub(super) struct Warm<F> {
    pub work: F,
    pub done: oneshot::Sender<Result<Warmed, TileError>>,
}

impl<F: FnOnce() -> Result<Warmed, TileError> + Send + 'static> Job for Warm<F> {
    fn run(self: Box<Self>, turn: Turn) {
        let Self { work, done } = *self;
        let result = work();
        drop(turn);
        // Who has left does not want to know.
        let _ = done.send(result);
    }

    fn refuse(self: Box<Self>, busy: Busy) {
        let _ = self.done.send(Err(busy.into()));
    }

    fn if_wanted(self: Box<Self>) -> Option<Box<dyn Job>> {
        (!self.done.is_closed()).then_some(self as Box<dyn Job>)
    }
}
