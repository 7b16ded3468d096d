//! Requests to object storage and to web servers that hold volumes.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::clock::Clock;

metrics! {
    /// The counters of all stores together; clones share the values.
    pub struct StoreMetrics {
        /// Repeated requests count, second requests that race a slow one do not.
        pub requests: Counter = "store_requests", "Requests to object storage and web servers";
        pub failures: Counter = "store_failures", "Requests to object storage that failed";
        pub retries: Counter = "store_retries", "Requests to object storage repeated after a failure";
        pub refused: Counter = "store_refused", "Requests not made because the store does not answer";
        pub chunks_found: Counter = "store_block_hits", "Stored chunks found in the cache directory";
        pub chunks_evicted: Counter = "store_blocks_evicted", "Stored chunks evicted from the cache directory";
        pub chunk_errors: Counter = "store_block_errors", "Failed reads and writes of stored chunks on disk";
        pub bytes: Counter = "store_bytes", "Bytes received from object storage and web servers";
        pub request_time: Clock = "store_seconds", "Time from requests to object storage to the end of their answers";
        pub chunk_bytes: Gauge = "store_block_bytes", "Bytes of stored chunks in the cache directory";
        pub unreachable: Gauge = "stores_unreachable", "Stores that do not answer";
    }
}

impl StoreMetrics {
    /// Counts a request that took `span`. `bytes` is the length of its answer, or `None` if the
    /// request failed.
    pub fn observe(&self, span: Duration, bytes: Option<u64>) {
        self.requests.inc();
        self.request_time.add(span);
        match bytes {
            Some(bytes) => {
                self.bytes.inc_by(bytes);
            }
            None => {
                self.failures.inc();
            }
        }
    }
}
