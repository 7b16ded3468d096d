//! Times that add up over threads.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;

/// The time that all threads spent on one kind of work; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Clock(pub(super) Counter<f64, AtomicU64>);

impl Clock {
    /// Runs `work` and adds its duration.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.add(began.elapsed());
        result
    }

    /// Adds a duration measured elsewhere.
    pub fn add(&self, span: Duration) {
        self.0.inc_by(span.as_secs_f64());
    }

    /// The total so far.
    pub fn seconds(&self) -> f64 {
        self.0.get()
    }
}
