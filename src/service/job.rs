//! The job of a flight: it is run, refused, or dropped when nobody wants it any more.

use std::hash::Hash;

use prometheus_client::metrics::counter::Counter;
use voltile_base::flow::cache::Flight;
use voltile_base::metrics::Metrics;

use super::error::TileError;
use super::pool::{Job, Turn};
use super::queue::Busy;

/// Makes the value of a flight.
pub(super) struct FlightJob<K: Hash + Eq + Clone, V: Clone, F> {
    pub flight: Flight<K, V, TileError>,
    pub work: F,
    /// Counts refused jobs.
    pub rejected: Counter,
    /// Counts jobs that nobody waited for any more.
    pub abandoned: Counter,
    /// Counts jobs that were stopped while they ran, because no request waited for them any more.
    pub stopped: Counter,
}

impl<K: Hash + Eq + Clone, V: Clone, F> FlightJob<K, V, F> {
    /// A job that counts its outcome in these metrics.
    pub fn new(flight: Flight<K, V, TileError>, work: F, metrics: &Metrics) -> Self {
        Self {
            flight,
            work,
            rejected: metrics.rejected.clone(),
            abandoned: metrics.abandoned.clone(),
            stopped: metrics.stopped.clone(),
        }
    }
}

impl<K, V, F> Job for FlightJob<K, V, F>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Clone + Send + 'static,
    F: FnMut() -> Result<(V, usize), TileError> + Send + 'static,
{
    fn run(self: Box<Self>, turn: Turn) {
        let Self {
            mut flight,
            mut work,
            stopped,
            ..
        } = *self;
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
        let job = *self;
        let Some(flight) = job.flight.still_wanted() else {
            job.abandoned.inc();
            return None;
        };
        Some(Box::new(Self { flight, ..job }))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use prometheus_client::metrics::gauge::Gauge;
    use voltile_base::flow::activity::Activity;
    use voltile_base::flow::cache::{Abandoned, Cache, Lookup};
    use voltile_hdf5::volume::ReadError;

    use super::super::client::{Client, Demand};
    use super::super::pool::RenderPool;
    use super::*;

    type Numbers = Cache<u8, u32, TileError>;

    fn lead(cache: &Numbers) -> Flight<u8, u32, TileError> {
        match cache.lookup(&1) {
            Lookup::Lead(flight) => flight,
            _ => panic!("the key is absent"),
        }
    }

    fn run(
        flight: Flight<u8, u32, TileError>,
        work: impl FnMut() -> Result<(u32, usize), TileError> + Send + 'static,
    ) -> Counter {
        let stopped = Counter::default();
        let (rejected, abandoned) = (Counter::default(), Counter::default());
        let job = FlightJob {
            flight,
            work,
            rejected,
            abandoned,
            stopped: stopped.clone(),
        };
        let pool = RenderPool::new(NonZeroUsize::MIN, 0, Activity::default()).unwrap();
        drop(pool.submit(None, Demand::wanted(Client::InProcess), Box::new(job)));
        stopped
    }

    fn stopped_render() -> TileError {
        ReadError::from(Abandoned).into()
    }

    #[test]
    fn a_stopped_render_begins_again_if_a_request_has_joined_since() {
        let cache = Numbers::new(9, Gauge::default());
        let flight = lead(&cache);
        let waiter = flight.join();
        let mut attempts = 0;
        let stopped = run(flight, move || {
            attempts += 1;
            if attempts == 1 {
                Err(stopped_render())
            } else {
                Ok((attempts, 1))
            }
        });
        assert_eq!(waiter.wait_blocking().unwrap(), 2);
        assert_eq!(stopped.get(), 0);
    }

    #[test]
    fn a_stopped_render_that_nobody_wants_frees_its_key() {
        let cache = Numbers::new(9, Gauge::default());
        let flight = lead(&cache);
        let (mut waiter, interest) = (Some(flight.join()), flight.interest());
        let stopped = run(flight, move || {
            drop(waiter.take());
            assert!(!interest.is_there());
            Err(stopped_render())
        });
        while stopped.get() == 0 {
            std::thread::yield_now();
        }
        assert!(matches!(cache.lookup(&1), Lookup::Lead(_)));
    }
}
