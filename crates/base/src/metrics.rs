//! Metrics of the server in the Prometheus text format.
//!
//! Code that counts something holds a handle to its counter; no metric is looked up by name while
//! serving.

mod clock;
mod connections;
mod datasets;
mod histogram;
mod meter;
mod process;
mod renders;
mod requests;
mod stores;
mod tiers;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub use clock::Clock;
pub use connections::ConnectionMetrics;
pub use datasets::{DatasetCounters, DatasetMetrics};
pub use meter::Meter;
use renders::RenderTimes;
pub use renders::Rendered;
pub use requests::Form;
use requests::{RequestCounts, RequestTimes};
pub use stores::StoreMetrics;
pub use tiers::TierCounters;

use crate::flow::trace::{Outcome, Trace};
use crate::name::Name;

/// The counters; clones share their values.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Tiles rendered, whatever happened to them afterwards.
    pub renders: Counter,
    /// Renders that failed.
    pub render_errors: Counter,
    /// Tiles answered from the cache of encoded tiles.
    pub tile_hits: Counter,
    /// Requests that waited for a render another request had started.
    pub tile_waits: Counter,
    /// Requests answered with the shared black image.
    pub black_tiles: Counter,
    /// Stored chunks sent as they are, straight from the page cache.
    pub chunks_passed: Counter,
    /// Responses with status 304, without a tile.
    pub not_modified: Counter,
    /// Documents built for a request; all other documents were sent from memory.
    pub documents: Counter,
    /// Renders refused because the queue was full.
    pub rejected: Counter,
    /// Renders waiting for a thread, as of the last sample.
    pub waiting: Gauge,
    /// Renders abandoned before they began because no client waited for them any more.
    pub abandoned: Counter,
    /// Renders stopped between two chunks because no client waited for them any more.
    pub stopped: Counter,
    /// Requests answered with 503 because their render was not done within `render.deadline`.
    pub overdue: Counter,
    /// Tiles prefetched: rendered before any request.
    pub neighbours: Counter,
    /// Prefetches abandoned because a request came in.
    pub neighbours_given_up: Counter,
    /// The disk cache.
    pub tier: TierCounters,
    /// The cache in Redis.
    pub redis: TierCounters,
    /// The cache in object storage.
    pub tile_store: TierCounters,
    /// Requests to stores that hold volumes.
    pub stores: StoreMetrics,
    /// Tiles evicted from the disk cache to keep to its budget.
    pub tier_evicted: Counter,
    /// Bytes of encoded tiles in the disk cache, as last counted.
    pub tier_bytes: Gauge,
    /// Log lines that could not be written.
    pub log_lines_lost: Counter,
    /// Bytes of encoded tiles in memory.
    pub tile_bytes: Gauge,
    /// Bytes of tables of names in memory.
    pub names_bytes: Gauge,
    /// Chunks found decoded in the cache.
    pub chunk_hits: Counter,
    /// Chunks read and decoded.
    pub chunk_reads: Counter,
    /// Chunks decoded in part that were finished, and verified, while threads were idle.
    pub chunks_finished: Counter,
    /// Chunks whose checksum turned out to be wrong.
    pub chunks_refused: Counter,
    /// Bytes of decoded chunks produced.
    pub chunk_decoded_bytes: Counter,
    /// Bytes of decoded chunks in memory.
    pub chunk_bytes: Gauge,
    /// Bytes held for boxes of voxels that are being made or sent.
    pub box_bytes: Gauge,
    /// The maximum of `box_bytes`.
    pub box_limit: Gauge,
    /// Bytes of stored chunks that were read to be decoded.
    pub chunk_stored_bytes: Counter,
    /// Time spent reading stored chunks.
    pub chunk_reading: Clock,
    /// Time spent decoding chunks.
    pub chunk_decoding: Clock,
    /// Time spent waiting for a chunk that another thread decodes.
    pub chunk_waiting: Clock,
    /// Time spent copying unfiltered voxels from files.
    pub copying: Clock,
    /// Time spent reading through the HDF5 library, including decoding.
    pub library: Clock,
    /// Client connections.
    pub connections: ConnectionMetrics,
    /// Counters of each dataset.
    pub datasets: DatasetMetrics,
    by_request: Arc<ByRequest>,
}

/// The metrics of all requests and all renders.
#[derive(Debug, Default)]
struct ByRequest {
    counts: RequestCounts,
    times: RequestTimes,
    renders: RenderTimes,
}

/// A metric with its name, without prefix, and its help text.
type DescribedMetric<'m, T> = (&'static str, &'static str, &'m T);

impl Metrics {
    /// Counts an answered request.
    pub fn count_request(&self, form: Form, status: u16, outcome: Outcome, span: Duration) {
        self.by_request.counts.count(form, status, outcome);
        self.by_request.times.observe(form, span);
    }

    /// Records how long the stages of a render took.
    pub fn observe_render(&self, rendered: Rendered, trace: &Trace) {
        self.by_request.renders.observe(rendered, trace);
    }

    /// All values in the OpenMetrics text format; of the datasets, only the visible ones.
    pub fn text(&self, visible: impl Fn(&Name) -> bool) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix("voltile");
        let counters = self.answer_counters().into_iter();
        let counters = counters.chain(self.render_counters());
        for (name, help, counter) in counters.chain(self.chunk_counters()) {
            registry.register(name, help, counter.clone());
        }
        self.tier
            .register(&mut registry, "tier", "the disk cache", false);
        self.redis.register(&mut registry, "redis", "Redis", true);
        self.tile_store
            .register(&mut registry, "tile_store", "object storage", true);
        for (name, help, clock) in self.clocks() {
            registry.register(name, help, clock.0.clone());
        }
        for (name, help, gauge) in self.gauges() {
            registry.register(name, help, gauge.clone());
        }
        self.connections.register(&mut registry);
        self.by_request.register(&mut registry);
        self.stores.register(&mut registry);
        for (name, help, metric) in self.datasets.listed(visible).metrics() {
            registry.register(name, help, metric);
        }
        let mut process = Registry::default();
        process::register(&mut process);
        let mut text = String::new();
        encode_registry(&mut text, &process)?;
        encode(&mut text, &registry)?;
        Ok(text)
    }

    /// How requests were answered.
    fn answer_counters(&self) -> [DescribedMetric<'_, Counter>; 8] {
        [
            ("renders", "Tiles rendered", &self.renders),
            ("render_errors", "Renders that failed", &self.render_errors),
            (
                "tile_cache_hits",
                "Tiles answered from memory",
                &self.tile_hits,
            ),
            (
                "tile_cache_waits",
                "Requests that waited for a render already in flight",
                &self.tile_waits,
            ),
            (
                "black_tiles",
                "Requests answered with the shared black image",
                &self.black_tiles,
            ),
            (
                "chunks_passed_through",
                "Stored chunks sent as they are",
                &self.chunks_passed,
            ),
            (
                "not_modified",
                "Responses with status 304",
                &self.not_modified,
            ),
            (
                "documents_built",
                "Documents built, not sent from memory",
                &self.documents,
            ),
        ]
    }

    /// Results of renders and prefetches; evictions from the disk cache and lost log lines.
    fn render_counters(&self) -> [DescribedMetric<'_, Counter>; 8] {
        [
            (
                "renders_rejected",
                "Renders refused because the queue was full",
                &self.rejected,
            ),
            (
                "renders_abandoned",
                "Renders abandoned because no client waited any more",
                &self.abandoned,
            ),
            (
                "renders_stopped",
                "Renders stopped because no client waited any more",
                &self.stopped,
            ),
            (
                "renders_overdue",
                "Requests whose render was not done by the deadline",
                &self.overdue,
            ),
            (
                "neighbours_rendered",
                "Tiles prefetched: rendered before any request",
                &self.neighbours,
            ),
            (
                "neighbours_given_up",
                "Prefetches abandoned because a request came in",
                &self.neighbours_given_up,
            ),
            (
                "tier_evicted",
                "Tiles evicted from the disk cache",
                &self.tier_evicted,
            ),
            (
                "log_lines_lost",
                "Log lines that could not be written",
                &self.log_lines_lost,
            ),
        ]
    }

    /// Chunks of volumes.
    fn chunk_counters(&self) -> [DescribedMetric<'_, Counter>; 6] {
        [
            (
                "chunk_cache_hits",
                "Chunks found decoded in memory",
                &self.chunk_hits,
            ),
            ("chunk_reads", "Chunks read and decoded", &self.chunk_reads),
            (
                "chunks_finished",
                "Chunks decoded in part, finished in idle time",
                &self.chunks_finished,
            ),
            (
                "chunks_refused",
                "Chunks whose checksum was found to be wrong",
                &self.chunks_refused,
            ),
            (
                "chunk_decoded_bytes",
                "Bytes of decoded chunks produced",
                &self.chunk_decoded_bytes,
            ),
            (
                "chunk_stored_bytes",
                "Bytes of stored chunks that were read",
                &self.chunk_stored_bytes,
            ),
        ]
    }

    /// Times spent by threads.
    fn clocks(&self) -> [DescribedMetric<'_, Clock>; 5] {
        [
            (
                "chunk_read_seconds",
                "Thread time spent reading stored chunks",
                &self.chunk_reading,
            ),
            (
                "chunk_decode_seconds",
                "Thread time spent decoding chunks",
                &self.chunk_decoding,
            ),
            (
                "chunk_wait_seconds",
                "Thread time spent waiting for chunks that other threads decode",
                &self.chunk_waiting,
            ),
            (
                "copy_seconds",
                "Thread time spent copying unfiltered voxels",
                &self.copying,
            ),
            (
                "library_seconds",
                "Thread time spent reading through the HDF5 library",
                &self.library,
            ),
        ]
    }

    /// Values as they are now.
    fn gauges(&self) -> [DescribedMetric<'_, Gauge>; 7] {
        [
            (
                "renders_waiting",
                "Renders waiting for a thread",
                &self.waiting,
            ),
            (
                "tile_cache_bytes",
                "Bytes of encoded tiles in memory",
                &self.tile_bytes,
            ),
            (
                "names_bytes",
                "Bytes of tables of names in memory",
                &self.names_bytes,
            ),
            (
                "tier_bytes",
                "Bytes of encoded tiles in the disk cache",
                &self.tier_bytes,
            ),
            (
                "chunk_cache_bytes",
                "Bytes of decoded chunks in memory",
                &self.chunk_bytes,
            ),
            (
                "box_bytes",
                "Bytes of boxes of voxels being made or sent",
                &self.box_bytes,
            ),
            (
                "box_limit_bytes",
                "The limit of box_bytes (render.boxes)",
                &self.box_limit,
            ),
        ]
    }
}

impl ByRequest {
    fn register(self: &Arc<Self>, registry: &mut Registry) {
        let help = "Requests, by form, status and outcome in the cache";
        registry.register(
            "requests",
            help,
            RequestMetric(Arc::clone(self), |all| &all.counts),
        );
        let help = "Time from the head of a request to the head of its response, by form";
        registry.register(
            "request_seconds",
            help,
            RequestMetric(Arc::clone(self), |all| &all.times),
        );
        let help = "Time of each stage of a render, summed over threads";
        registry.register(
            "render_stage_seconds",
            help,
            RequestMetric(Arc::clone(self), |all| &all.renders),
        );
    }
}

/// A metric whose values are in [`ByRequest`].
struct RequestMetric<T>(Arc<ByRequest>, fn(&ByRequest) -> &T);

impl<T> std::fmt::Debug for RequestMetric<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestMetric").finish_non_exhaustive()
    }
}

impl<T: EncodeMetric> EncodeMetric for RequestMetric<T> {
    fn encode(&self, encoder: prometheus_client::encoding::MetricEncoder<'_>) -> std::fmt::Result {
        (self.1)(&self.0).encode(encoder)
    }

    fn metric_type(&self) -> prometheus_client::metrics::MetricType {
        (self.1)(&self.0).metric_type()
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
