//! Metrics of the server in the Prometheus text format.
//!
//! Code that counts something holds a handle to its counter; no metric is looked up by name while
//! serving.

/// Defines a struct of metrics, with a field in each row, and its method `register`, which
/// registers them in this order. A metric's row ends with its name, without prefix, and its help
/// text, which is also the field's documentation. The row of a group of metrics ends with the
/// method that registers the group.
macro_rules! metrics {
    (
        $(#[$about:meta])*
        pub struct $metrics:ident {
            $(
                $(#[$documentation:meta])*
                $vis:vis $field:ident: $kind:ty
                    $(= $name:literal, $help:literal)?
                    $(=> $register:ident($($argument:expr),*))?;
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default)]
        pub struct $metrics {
            $($(#[$documentation])* $(#[doc = $help])? $vis $field: $kind,)*
        }

        impl $metrics {
            pub(super) fn register(&self, registry: &mut Registry) {
                $(
                    $(registry.register($name, $help, self.$field.clone());)?
                    $(self.$field.$register(registry, $($argument),*);)?
                )*
            }
        }
    };
}

mod clock;
mod datasets;
mod histogram;
mod meter;
mod process;
mod renders;
mod requests;
mod stores;
mod tiers;

use std::time::Duration;

use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub use clock::Clock;
pub use datasets::{DatasetCounters, DatasetMetrics};
pub use meter::Meter;
use renders::RenderTimes;
pub use requests::Form;
use requests::{RequestCounts, RequestTimes};
pub use stores::StoreMetrics;
pub use tiers::TierCounters;

use crate::flow::trace::{Outcome, Trace};
use crate::name::Name;

metrics! {
    /// The counters; clones share their values.
    pub struct Metrics {
        pub renders: Counter = "renders", "Tiles rendered";
        pub render_errors: Counter = "render_errors", "Renders that failed";
        pub tile_hits: Counter = "tile_cache_hits", "Tiles answered from memory";
        pub tile_waits: Counter = "tile_cache_waits", "Requests that waited for a render already in flight";
        pub black_tiles: Counter = "black_tiles", "Requests answered with the shared black image";
        pub chunks_passed: Counter = "chunks_passed_through", "Stored chunks sent as they are";
        pub not_modified: Counter = "not_modified", "Responses with status 304";
        pub documents: Counter = "documents_built", "Documents built, not sent from memory";
        pub rejected: Counter = "renders_rejected", "Renders refused because the queue was full";
        pub abandoned: Counter = "renders_abandoned", "Renders abandoned because no client waited any more";
        pub stopped: Counter = "renders_stopped", "Renders stopped because no client waited any more";
        pub overdue: Counter = "renders_overdue", "Requests whose render was not done by the deadline";
        pub neighbours: Counter = "neighbours_rendered", "Tiles prefetched: rendered before any request";
        pub neighbours_given_up: Counter = "neighbours_given_up", "Prefetches abandoned because a request came in";
        pub tier_evicted: Counter = "tier_evicted", "Tiles evicted from the disk cache";
        pub log_lines_lost: Counter = "log_lines_lost", "Log lines that could not be written";

        pub chunk_hits: Counter = "chunk_cache_hits", "Chunks found decoded in memory";
        pub chunk_reads: Counter = "chunk_reads", "Chunks read and decoded";
        pub chunks_finished: Counter = "chunks_finished", "Chunks decoded in part, finished in idle time";
        pub chunks_refused: Counter = "chunks_refused", "Chunks whose checksum was found to be wrong";
        pub chunk_decoded_bytes: Counter = "chunk_decoded_bytes", "Bytes of decoded chunks produced";
        pub chunk_stored_bytes: Counter = "chunk_stored_bytes", "Bytes of stored chunks that were read";

        /// The disk cache.
        pub tier: TierCounters => register("tier", "the disk cache", false);
        /// The cache in Redis.
        pub redis: TierCounters => register("redis", "Redis", true);
        /// The cache in object storage.
        pub tile_store: TierCounters => register("tile_store", "object storage", true);

        pub chunk_reading: Clock = "chunk_read_seconds", "Thread time spent reading stored chunks";
        pub chunk_decoding: Clock = "chunk_decode_seconds", "Thread time spent decoding chunks";
        pub chunk_waiting: Clock = "chunk_wait_seconds", "Thread time spent waiting for chunks that other threads decode";
        pub copying: Clock = "copy_seconds", "Thread time spent copying unfiltered voxels";
        pub library: Clock = "library_seconds", "Thread time spent reading through the HDF5 library";

        /// Updated when the metrics are requested.
        pub renders_waiting: Gauge = "renders_waiting", "Renders waiting for a thread";
        pub tile_bytes: Gauge = "tile_cache_bytes", "Bytes of encoded tiles in memory";
        pub names_bytes: Gauge = "names_bytes", "Bytes of tables of names in memory";
        pub tier_bytes: Gauge = "tier_bytes", "Bytes of encoded tiles in the disk cache";
        pub chunk_bytes: Gauge = "chunk_cache_bytes", "Bytes of decoded chunks in memory";
        pub box_bytes: Gauge = "box_bytes", "Bytes of boxes of voxels being made or sent";
        pub box_limit: Gauge = "box_limit_bytes", "The limit of box_bytes (render.boxes)";
        pub connections: Gauge = "connections", "Connections that are open";
        pub connection_limit: Gauge = "connections_limit", "Connections that may be open";

        request_counts: RequestCounts = "requests", "Requests, by form, status and outcome in the cache";
        request_times: RequestTimes = "request_seconds", "Time from the head of a request to the head of its response, by form";
        render_times: RenderTimes = "render_stage_seconds", "Time of each stage of a render, summed over threads";

        /// Requests to stores that hold volumes.
        pub stores: StoreMetrics => register();
        /// Counters of each dataset. They are registered apart: a request may not see all datasets.
        pub datasets: DatasetMetrics;
    }
}

impl Metrics {
    /// Counts an answered request.
    pub fn count_request(&self, form: Form, status: u16, outcome: Outcome, span: Duration) {
        self.request_counts.count(form, status, outcome);
        self.request_times.observe(form, span);
    }

    /// Records how long the stages of a render of this form took.
    pub fn observe_render(&self, form: Form, trace: &Trace) {
        self.render_times.observe(form, trace);
    }

    /// All values in the OpenMetrics text format; of the datasets, only the visible ones.
    pub fn text(&self, visible: impl Fn(&Name) -> bool) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix("voltile");
        self.register(&mut registry);
        self.datasets.register(&mut registry, visible);
        let mut process = Registry::default();
        process::register(&mut process);
        let mut text = String::new();
        encode_registry(&mut text, &process)?;
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_each_counter_with_its_value() {
        let metrics = Metrics::default();
        metrics.renders.inc_by(3);
        metrics.copying.add(Duration::from_millis(1500));
        let text = metrics.text(|_| true).unwrap();
        assert!(text.contains("voltile_renders_total 3"), "{text}");
        assert!(text.contains("voltile_chunk_cache_bytes 0"), "{text}");
        assert!(text.contains("voltile_copy_seconds_total 1.5"), "{text}");
    }
}
