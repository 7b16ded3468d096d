//! What a server reports to have done: the growth of its counters.

use serde::Serialize;

use crate::tools::counts::Counts;

/// What a server did, for all its clients.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ServerWork {
    /// Tiles found in memory.
    pub hits: u64,
    /// Tiles found in the disk cache.
    pub tier: u64,
    /// Requests that waited for a tile in flight.
    pub waits: u64,
    /// Tiles rendered on request.
    pub renders: u64,
    /// Failed renders.
    pub errors: u64,
    /// Responses with the shared black tile.
    pub black: u64,
    /// Renders refused because too many were waiting: status 503.
    pub rejected: u64,
    /// Tiles prefetched.
    pub ahead: u64,
    /// Chunks read and decoded.
    pub chunks: u64,
    /// Their decoded size in bytes.
    pub decoded_bytes: u64,
    /// Thread time spent reading voxels, in seconds; absent if the server has no such clocks.
    pub seconds: Option<ReadTimes>,
}

/// Thread time spent on reading voxels, by stage.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ReadTimes {
    /// Reading stored chunks, and copying unfiltered voxels from the mapped file.
    pub read: f64,
    /// Decoding chunks: undoing all filters.
    pub inflate: f64,
    /// Reading through the HDF5 library, including filters.
    pub library: f64,
    /// Waiting for chunks that another thread was decoding.
    pub wait: f64,
}

impl ReadTimes {
    /// In seconds; `None` if there are no such clocks.
    pub(super) fn new(counts: &Counts) -> Option<Self> {
        Some(Self {
            read: counts.get("chunk_read_seconds")? + counts.get("copy_seconds")?,
            inflate: counts.get("chunk_decode_seconds")?,
            library: counts.get("library_seconds")?,
            wait: counts.get("chunk_wait_seconds")?,
        })
    }

    /// Each times a factor.
    pub(super) fn scaled(self, factor: f64) -> Self {
        let Self {
            read,
            inflate,
            library,
            wait,
        } = self;
        Self {
            read: read * factor,
            inflate: inflate * factor,
            library: library * factor,
            wait: wait * factor,
        }
    }

    /// The total.
    pub(super) fn sum(self) -> f64 {
        self.read + self.inflate + self.library + self.wait
    }
}

impl ServerWork {
    /// Tiles found in memory or on disk.
    pub fn kept(&self) -> u64 {
        self.hits + self.tier
    }

    /// From the growth of a server's counters.
    pub(super) fn new(counts: &Counts) -> Self {
        Self {
            hits: counts.count("tile_cache_hits"),
            tier: counts.count("tier_hits"),
            waits: counts.count("tile_cache_waits"),
            renders: counts.count("renders"),
            errors: counts.count("render_errors"),
            black: counts.count("black_tiles"),
            rejected: counts.count("renders_rejected"),
            ahead: counts.count("neighbours_rendered"),
            chunks: counts.count("chunk_reads"),
            decoded_bytes: counts.count("chunk_decoded_bytes"),
            seconds: ReadTimes::new(counts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use std::time::Duration;

    #[test]
    fn the_growth_of_a_servers_counters_is_what_it_did() {
        let metrics = Metrics::default();
        let counts = || Counts::parse(&metrics.text(|_| true).unwrap());
        let before = counts();
        metrics.tile_hits.inc_by(3);
        metrics.renders.inc();
        metrics.copying.add(Duration::from_millis(250));
        metrics.chunk_reading.add(Duration::from_millis(250));
        let seconds = Some(ReadTimes {
            read: 0.5,
            ..ReadTimes::default()
        });
        let grown = ServerWork {
            hits: 3,
            renders: 1,
            seconds,
            ..ServerWork::default()
        };
        assert_eq!(
            counts()
                .since(&before)
                .map(|growth| ServerWork::new(&growth)),
            Some(grown)
        );
        assert_eq!(before.since(&counts()), None);
    }

    #[test]
    fn what_a_server_does_not_count_is_unknown() {
        assert_eq!(
            Counts::parse("nginx_requests_total 5\n# EOF\n"),
            Counts::default()
        );
        let old = ServerWork::new(&Counts::parse("voltile_renders_total 5\n"));
        assert_eq!((old.renders, old.seconds), (5, None));
    }
}
