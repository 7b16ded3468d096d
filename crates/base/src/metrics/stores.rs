//! Requests to object storage and to web servers that hold volumes.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::clock::Clock;

/// The counters of all stores together; clones share the values.
#[derive(Debug, Clone, Default)]
pub struct StoreMetrics {
    /// Requests sent, including retries.
    pub requests: Counter,
    /// Requests that failed.
    pub failures: Counter,
    /// Requests repeated after a failure.
    pub retries: Counter,
    /// Requests that were not sent because the server had stopped answering.
    pub refused: Counter,
    /// Bytes received in answers.
    pub bytes: Counter,
    /// The sum of the times from each request to the end of its answer.
    pub waiting: Clock,
    /// The number of servers that do not answer at present.
    pub unreachable: Gauge,
    /// Stored chunks found in the cache directory.
    pub block_hits: Counter,
    /// Stored chunks removed from the cache directory because its budget was exceeded.
    pub blocks_evicted: Counter,
    /// Reads from the cache directory and writes to it that failed.
    pub block_errors: Counter,
    /// The size in bytes of all stored chunks in the cache directory.
    pub block_bytes: Gauge,
}

impl StoreMetrics {
    /// Counts a request that took `span`. `bytes` is the length of its answer, or `None` if the
    /// request failed.
    pub fn observe(&self, span: Duration, bytes: Option<u64>) {
        self.requests.inc();
        self.waiting.add(span);
        match bytes {
            Some(bytes) => {
                self.bytes.inc_by(bytes);
            }
            None => {
                self.failures.inc();
            }
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
