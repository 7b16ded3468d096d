//! Requests to object storage and to web servers that hold volumes.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::clock::Clock;

/// The counters of all stores together; clones share the values.
#[derive(Debug, Clone, Default)]
pub struct StoreMetrics {
    /// Requests, repeated ones too.
    pub requests: Counter,
    /// Requests that failed.
    pub failures: Counter,
    /// Requests repeated after a failure.
    pub retries: Counter,
    /// Requests that were not made because the server does not answer.
    pub refused: Counter,
    /// Bytes received.
    pub bytes: Counter,
    /// Time from a request to the end of its answer, summed.
    pub waiting: Clock,
    /// Servers that do not answer.
    pub unreachable: Gauge,
    /// Stored chunks found in the cache directory.
    pub block_hits: Counter,
    /// Stored chunks removed from there to keep to the budget.
    pub blocks_evicted: Counter,
    /// Failed reads from there and writes to it.
    pub block_errors: Counter,
    /// Bytes of stored chunks in the cache directory.
    pub block_bytes: Gauge,
}

impl StoreMetrics {
    /// Counts a request that took `span`; `bytes` is the length of the answer, or `None` if it
    /// failed.
    pub fn observe(&self, span: Duration, bytes: Option<u64>) {
        self.requests.inc();
        self.waiting.add(span);
        match bytes {
            Some(bytes) => drop(self.bytes.inc_by(bytes)),
            None => drop(self.failures.inc()),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let counters: [(&str, &str, &Counter); 8] = [
            (
                "store_requests",
                "Requests to object storage and web servers",
                &self.requests,
            ),
            (
                "store_failures",
                "Requests to object storage that failed",
                &self.failures,
            ),
            (
                "store_retries",
                "Requests to object storage repeated after a failure",
                &self.retries,
            ),
            (
                "store_refused",
                "Requests not made because the store does not answer",
                &self.refused,
            ),
            (
                "store_block_hits",
                "Stored chunks found in the cache directory",
                &self.block_hits,
            ),
            (
                "store_blocks_evicted",
                "Stored chunks evicted from the cache directory",
                &self.blocks_evicted,
            ),
            (
                "store_block_errors",
                "Failed reads and writes of stored chunks on disk",
                &self.block_errors,
            ),
            (
                "store_bytes",
                "Bytes received from object storage and web servers",
                &self.bytes,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let help = "Time from requests to object storage to the end of their answers";
        registry.register("store_seconds", help, self.waiting.0.clone());
        let help = "Bytes of stored chunks in the cache directory";
        registry.register("store_block_bytes", help, self.block_bytes.clone());
        registry.register(
            "stores_unreachable",
            "Stores that do not answer",
            self.unreachable.clone(),
        );
    }
}
