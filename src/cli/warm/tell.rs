//! Progress of warming: tiles and bytes per second, and failures.

use crate::units::bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::cli::bar::Bar;
use crate::warm::Progress;

pub(super) struct Tiles {
    bar: Bar,
    began: Instant,
    done: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
}

impl Tiles {
    pub fn new() -> Self {
        let bar = Bar::new("warming".to_owned(), "tiles", "done");
        Self {
            bar,
            began: Instant::now(),
            done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    pub fn finish(&self) {
        self.bar.finish();
    }

    fn told(&self) -> String {
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let per_second = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / seconds;
        let (tiles, bytes) = (per_second(&self.done), bytes(per_second(&self.bytes) as u64));
        format!(", {tiles:.0} tiles/s, {bytes}/s, {} failed", self.failed.load(Ordering::Relaxed))
    }
}

impl Progress for Tiles {
    fn begin(&self, total: u64, done: u64) {
        self.bar.begin(total, done);
    }

    fn advance(&self, bytes: u64, failed: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
        self.bar.advance(1, || self.told());
    }
}
