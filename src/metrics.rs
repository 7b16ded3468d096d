//! Counters of what the server did, in the text form that Prometheus reads.
//!
//! Whoever does a thing holds a handle and counts it; nothing is looked up by name on the way.

mod connections;

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub use connections::Connections;

/// The time that threads spent on one kind of work, all of them together; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Clock(Counter<f64, AtomicU64>);

impl Clock {
    /// Does some work, and counts how long that took.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.add(began.elapsed());
        result
    }

    /// Counts what was measured elsewhere.
    pub fn add(&self, span: Duration) {
        self.0.inc_by(span.as_secs_f64());
    }

    /// What has come together so far.
    pub fn seconds(&self) -> f64 {
        self.0.get()
    }
}

/// The counters; clones share their values.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Tiles rendered, whatever became of them.
    pub renders: Counter,
    /// Renders that ended in an error.
    pub render_errors: Counter,
    /// Tiles answered from the cache of encoded tiles.
    pub tile_hits: Counter,
    /// Requests that waited for a render that another one had started.
    pub tile_waits: Counter,
    /// Tiles answered with the shared black image.
    pub black_tiles: Counter,
    /// Answers 304, given without a tile.
    pub not_modified: Counter,
    /// Renders refused because the queue was full.
    pub rejected: Counter,
    /// Renders that wait for a thread, as asked last.
    pub waiting: Gauge,
    /// Renders given up before they began because nobody waited for them any more.
    pub abandoned: Counter,
    /// Tiles rendered before anybody asked for them.
    pub neighbours: Counter,
    /// Such renders given up because somebody asked for something.
    pub neighbours_given_up: Counter,
    /// Tiles found in the second tier.
    pub tier_hits: Counter,
    /// Tiles written into it.
    pub tier_writes: Counter,
    /// Tiles that were to be written, and were not: too many waited, or their files had changed.
    pub tier_dropped: Counter,
    /// Tiles in it that were found damaged.
    pub tier_corrupt: Counter,
    /// Tiles removed from it to keep to its budget.
    pub tier_evicted: Counter,
    /// Reads from it and writes into it that failed.
    pub tier_errors: Counter,
    /// Bytes of encoded tiles in it, as counted last.
    pub tier_bytes: Gauge,
    /// Log lines that could not be written.
    pub log_lines_lost: Counter,
    /// Bytes of encoded tiles held.
    pub tile_bytes: Gauge,
    /// Chunks found decoded.
    pub chunk_hits: Counter,
    /// Chunks read and decoded.
    pub chunk_reads: Counter,
    /// Chunks decoded in part that were finished, and verified, while threads were idle.
    pub chunks_finished: Counter,
    /// Chunks whose checksum turned out to be wrong.
    pub chunks_refused: Counter,
    /// Bytes that decoding brought forth.
    pub chunk_decoded_bytes: Counter,
    /// Bytes of decoded chunks held.
    pub chunk_bytes: Gauge,
    /// Bytes of chunks as they are stored that were read to be decoded.
    pub chunk_stored_bytes: Counter,
    /// Reading chunks as they are stored.
    pub chunk_reading: Clock,
    /// Decoding them.
    pub chunk_decoding: Clock,
    /// Waiting for a chunk that another thread decodes.
    pub chunk_waiting: Clock,
    /// Copying voxels without filters from files.
    pub copying: Clock,
    /// Reading through the HDF5 library, decoding included.
    pub library: Clock,
    /// Clients' connections.
    pub connections: Connections,
}

impl Metrics {
    /// Every value in Prometheus' text format.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix("voltile");
        let counters: [(&str, &str, &Counter); 23] = [
            ("renders", "Tiles rendered", &self.renders),
            ("render_errors", "Renders that ended in an error", &self.render_errors),
            ("tile_cache_hits", "Tiles answered from the cache", &self.tile_hits),
            ("tile_cache_waits", "Requests that joined a render under way", &self.tile_waits),
            ("black_tiles", "Tiles answered with the shared black image", &self.black_tiles),
            ("not_modified", "Answers 304", &self.not_modified),
            ("renders_rejected", "Renders refused because the queue was full", &self.rejected),
            ("renders_abandoned", "Renders nobody waited for any more", &self.abandoned),
            ("neighbours_rendered", "Tiles rendered before anybody asked for them", &self.neighbours),
            (
                "neighbours_given_up",
                "Such renders given up for what was asked for",
                &self.neighbours_given_up,
            ),
            ("tier_hits", "Tiles found in the second tier", &self.tier_hits),
            ("tier_writes", "Tiles written into the second tier", &self.tier_writes),
            ("tier_dropped", "Tiles that were to be written into it and were not", &self.tier_dropped),
            ("tier_corrupt", "Tiles in it found damaged, and dropped", &self.tier_corrupt),
            ("tier_evicted", "Tiles removed from it to keep to its budget", &self.tier_evicted),
            ("tier_errors", "Reads from it and writes into it that failed", &self.tier_errors),
            ("log_lines_lost", "Log lines that could not be written", &self.log_lines_lost),
            ("chunk_cache_hits", "Chunks found decoded", &self.chunk_hits),
            ("chunk_reads", "Chunks read and decoded", &self.chunk_reads),
            ("chunks_finished", "Chunks decoded in part, finished in idle time", &self.chunks_finished),
            ("chunks_refused", "Chunks whose checksum was found to be wrong", &self.chunks_refused),
            ("chunk_decoded_bytes", "Bytes that decoding chunks came to", &self.chunk_decoded_bytes),
            ("chunk_stored_bytes", "Bytes of stored chunks that were read", &self.chunk_stored_bytes),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let clocks: [(&str, &str, &Clock); 5] = [
            ("chunk_read_seconds", "Time of threads to read stored chunks", &self.chunk_reading),
            ("chunk_decode_seconds", "Time of threads to decode chunks", &self.chunk_decoding),
            ("chunk_wait_seconds", "Time of threads that waited for others' chunks", &self.chunk_waiting),
            ("copy_seconds", "Time of threads to copy voxels without filters", &self.copying),
            ("library_seconds", "Time of threads to read through the HDF5 library", &self.library),
        ];
        for (name, help, clock) in clocks {
            registry.register(name, help, clock.0.clone());
        }
        registry.register("renders_waiting", "Renders that wait for a thread", self.waiting.clone());
        registry.register("tile_cache_bytes", "Bytes of encoded tiles held", self.tile_bytes.clone());
        registry.register("tier_bytes", "Bytes of encoded tiles in the second tier", self.tier_bytes.clone());
        registry.register("chunk_cache_bytes", "Bytes of decoded chunks held", self.chunk_bytes.clone());
        self.connections.register(&mut registry);
        let mut text = String::new();
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
        let text = metrics.text().unwrap();
        assert!(text.contains("voltile_renders_total 3"), "{text}");
        assert!(text.contains("voltile_chunk_cache_bytes 0"), "{text}");
        assert!(text.contains("voltile_copy_seconds_total 1.5"), "{text}");
        assert!(text.contains("voltile_connections_closed_total{reason=\"evicted\"} 0"), "{text}");
    }
}
