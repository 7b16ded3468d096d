//! Progress of warming: tiles and bytes per second, and failures.

use crate::base::units::bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::cli::bar::Bar;

pub(super) struct Progress {
    bar: Bar,
    began: Instant,
    done: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
}

impl Progress {
    /// The progress of that many tiles.
    pub fn begin(tiles: u64) -> Self {
        let bar = Bar::new("warming".to_owned(), "tiles", "done");
        bar.begin(tiles, 0);
        Self {
            bar,
            began: Instant::now(),
            done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// One more tile is done, with this many bytes, or failed.
    pub fn advance(&self, bytes: u64, failed: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
        self.bar.advance(1, || self.text());
    }

    pub fn finish(&self) {
        self.bar.finish();
    }

    fn text(&self) -> String {
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let per_second = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / seconds;
        let (tiles, bytes) = (per_second(&self.done), bytes(per_second(&self.bytes) as u64));
        format!(", {tiles:.0} tiles/s, {bytes}/s, {} failed", self.failed.load(Ordering::Relaxed))
    }
}
