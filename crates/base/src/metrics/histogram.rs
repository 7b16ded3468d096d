//! Histograms of durations, in fixed arrays of atomics: the histogram of `prometheus_client` takes
//! a lock for each observation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The upper limits of the buckets in seconds, from 0.1 ms to 30 s; longer durations are in one
/// more bucket.
const LIMITS: [f64; 17] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// A histogram of durations; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct TimeHistogram(Arc<Durations>);

#[derive(Debug, Default)]
struct Durations {
    /// How many durations fell into each bucket.
    buckets: [AtomicU64; LIMITS.len() + 1],
    /// The sum of all durations.
    nanoseconds: AtomicU64,
}

impl TimeHistogram {
    pub fn observe(&self, span: Duration) {
        let seconds = span.as_secs_f64();
        let bucket = LIMITS.partition_point(|limit| *limit < seconds);
        self.0.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.0.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl EncodeMetric for TimeHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let buckets = self.0.buckets.iter();
        let counts = buckets.map(|bucket| bucket.load(Ordering::Relaxed));
        let limits = LIMITS.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = limits.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.0.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
