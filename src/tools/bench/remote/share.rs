//! What a server reports to have done: the difference of its counters before and after.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::tools::client::Client;

/// What a server did, for all its clients.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ServerShare {
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
    pub seconds: Option<ServerSeconds>,
}

/// Thread time by stage, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ServerSeconds {
    /// Reading stored chunks, and copying unfiltered voxels.
    pub read: f64,
    /// Decoding chunks.
    pub inflate: f64,
    /// Reading through the HDF5 library.
    pub library: f64,
    /// Waiting for chunks that another thread decodes.
    pub wait: f64,
}

/// All counters, by name without `voltile_` and `_total`.
type Counters = BTreeMap<String, f64>;

impl ServerShare {
    /// Tiles found in memory or on disk.
    pub fn kept(&self) -> u64 {
        self.hits + self.tier
    }

    /// The totals since the server started, if it reports any.
    pub(super) fn ask(client: &Client) -> Option<Self> {
        let answer = client.get("/metrics").ok()?.found().ok()?;
        Self::of(&counters(std::str::from_utf8(&answer.body).ok()?))
    }

    fn of(counters: &Counters) -> Option<Self> {
        let seconds = |name: &str| counters.get(name).copied();
        let count = |name: &str| seconds(name).map_or(0, |count| count as u64);
        counters.get("renders")?;
        let clocks = || {
            Some(ServerSeconds {
                read: seconds("chunk_read_seconds")? + seconds("copy_seconds")?,
                inflate: seconds("chunk_decode_seconds")?,
                library: seconds("library_seconds")?,
                wait: seconds("chunk_wait_seconds")?,
            })
        };
        Some(Self {
            hits: count("tile_cache_hits"),
            tier: count("tier_hits"),
            waits: count("tile_cache_waits"),
            renders: count("renders"),
            errors: count("render_errors"),
            black: count("black_tiles"),
            rejected: count("renders_rejected"),
            ahead: count("neighbours_rendered"),
            chunks: count("chunk_reads"),
            decoded_bytes: count("chunk_decoded_bytes"),
            seconds: clocks(),
        })
    }

    /// The difference; `None` if the server was restarted meanwhile.
    pub(super) fn since(&self, before: &Self) -> Option<Self> {
        let seconds = self.seconds.zip(before.seconds).map(|(now, then)| ServerSeconds {
            read: now.read - then.read,
            inflate: now.inflate - then.inflate,
            library: now.library - then.library,
            wait: now.wait - then.wait,
        });
        Some(Self {
            hits: self.hits.checked_sub(before.hits)?,
            tier: self.tier.checked_sub(before.tier)?,
            waits: self.waits.checked_sub(before.waits)?,
            renders: self.renders.checked_sub(before.renders)?,
            errors: self.errors.checked_sub(before.errors)?,
            black: self.black.checked_sub(before.black)?,
            rejected: self.rejected.checked_sub(before.rejected)?,
            ahead: self.ahead.checked_sub(before.ahead)?,
            chunks: self.chunks.checked_sub(before.chunks)?,
            decoded_bytes: self.decoded_bytes.checked_sub(before.decoded_bytes)?,
            seconds,
        })
    }
}

fn counters(text: &str) -> Counters {
    let lines = text.lines().filter_map(|line| line.strip_prefix("voltile_")?.split_once("_total "));
    lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use std::time::Duration;

    #[test]
    fn the_counters_of_a_server_are_read_and_their_growth_told() {
        let metrics = Metrics::default();
        let told = || ServerShare::of(&counters(&metrics.text(|_| true).unwrap())).unwrap();
        let before = told();
        metrics.tile_hits.inc_by(3);
        metrics.renders.inc();
        metrics.copying.add(Duration::from_millis(250));
        metrics.chunk_reading.add(Duration::from_millis(250));
        let seconds = Some(ServerSeconds { read: 0.5, ..ServerSeconds::default() });
        let grown = ServerShare { hits: 3, renders: 1, seconds, ..ServerShare::default() };
        assert_eq!(told().since(&before), Some(grown));
        assert_eq!(before.since(&told()), None);
    }

    #[test]
    fn what_is_no_voltile_tells_nothing() {
        assert_eq!(ServerShare::of(&counters("nginx_requests_total 5\n# EOF\n")), None);
        let old = ServerShare::of(&counters("voltile_renders_total 5\n")).unwrap();
        assert_eq!((old.renders, old.seconds), (5, None));
    }
}
