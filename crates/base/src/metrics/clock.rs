//! Times that add up over threads.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;

/// The time that all threads spent on one kind of work; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Clock(Counter<f64, AtomicU64>);

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
}

impl EncodeMetric for Clock {
    fn encode(&self, encoder: MetricEncoder<'_>) -> std::fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }
}
