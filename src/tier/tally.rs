//! The disk space used by a cache directory: counted by walking it, then updated by this process's own writes.
//!
//! Counts are sharded by the first byte of the key, so that one shard can be recounted while tiles are written to the
//! others. Changes by other processes are noticed at the next recount.

use std::sync::atomic::{AtomicI64, Ordering};

use prometheus_client::metrics::gauge::Gauge;

/// The block size of nearly all file systems.
const BLOCK: u64 = 4096;
/// The number of shards: one for each first byte.
pub(super) const PARTS: usize = 256;

/// The disk space of a file of that length, in bytes.
pub(super) fn on_disk(length: u64) -> u64 {
    length.div_ceil(BLOCK).min(i64::MAX as u64 / BLOCK) * BLOCK
}

/// Bytes and tiles per shard, and bytes in total.
#[derive(Debug)]
pub(super) struct Tally {
    parts: [Part; PARTS],
    bytes: AtomicI64,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Part {
    bytes: AtomicI64,
    tiles: AtomicI64,
}

/// A shard's counts when its recount began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counting {
    byte: u8,
    bytes: i64,
    tiles: i64,
}

impl Tally {
    /// Starts at zero; `gauge` follows the total bytes.
    pub fn new(gauge: Gauge) -> Self {
        Self { parts: std::array::from_fn(|_| Part::default()), bytes: AtomicI64::default(), gauge }
    }

    /// Adds a file of that length, which replaced one of length `before`, if any.
    pub fn put(&self, byte: u8, length: u64, before: Option<u64>) {
        let more = on_disk(length) as i64 - before.map_or(0, |length| on_disk(length) as i64);
        self.add(byte, more, i64::from(before.is_none()));
    }

    /// Subtracts a removed file of that length.
    pub fn removed(&self, byte: u8, length: u64) {
        self.add(byte, -(on_disk(length) as i64), -1);
    }

    /// Begins a recount of a shard.
    pub fn begin(&self, byte: u8) -> Counting {
        let part = self.part(byte);
        Counting {
            byte,
            bytes: part.bytes.load(Ordering::Relaxed),
            tiles: part.tiles.load(Ordering::Relaxed),
        }
    }

    /// Ends a recount with its result. Tiles written since `begin` are added to it, so some may be counted twice.
    pub fn end(&self, counting: Counting, bytes: u64, tiles: u64) {
        self.add(counting.byte, bytes as i64 - counting.bytes, tiles as i64 - counting.tiles);
    }

    /// The disk space of all files.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed).max(0) as u64
    }

    /// The number of tiles.
    pub fn tiles(&self) -> u64 {
        self.parts.iter().map(|part| part.tiles.load(Ordering::Relaxed).max(0) as u64).sum()
    }

    fn part(&self, byte: u8) -> &Part {
        &self.parts[usize::from(byte)]
    }

    fn add(&self, byte: u8, bytes: i64, tiles: i64) {
        let part = self.part(byte);
        let bytes = add_to(&part.bytes, bytes);
        add_to(&part.tiles, tiles);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.gauge.inc_by(bytes);
    }
}

/// Adds to a count, clamped at zero: a removed file was never counted if another process wrote it. Returns the
/// change.
fn add_to(count: &AtomicI64, more: i64) -> i64 {
    let added = |count: i64| count.saturating_add(more).max(0);
    let before = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some(added(count)));
    before.map_or(0, |before| added(before) - before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_in_blocks_and_once() {
        let tally = Tally::new(Gauge::default());
        tally.put(1, 1, None);
        tally.put(1, 4097, Some(1));
        tally.put(2, 4096, None);
        assert_eq!((tally.bytes(), tally.tiles(), tally.gauge.get()), (12288, 2, 12288));
        tally.removed(2, 4096);
        assert_eq!((tally.bytes(), tally.tiles()), (8192, 1));
    }

    #[test]
    fn counts_do_not_fall_below_zero() {
        let tally = Tally::new(Gauge::default());
        tally.put(1, 4096, None);
        tally.removed(2, 1 << 20);
        tally.removed(1, 1 << 20);
        assert_eq!((tally.bytes(), tally.tiles(), tally.gauge.get()), (0, 0, 0));
        tally.put(1, 4096, Some(u64::MAX));
        assert_eq!(tally.gauge.get(), 0);
        tally.put(2, 4096, None);
        assert_eq!((tally.bytes(), tally.gauge.get()), (4096, 4096));
    }

    #[test]
    fn a_recount_replaces_old_counts_but_keeps_concurrent_writes() {
        let tally = Tally::new(Gauge::default());
        tally.put(1, 40960, None);
        let counting = tally.begin(1);
        tally.put(1, 4096, None);
        tally.put(9, 4096, None);
        tally.end(counting, 8192, 5);
        assert_eq!((tally.bytes(), tally.tiles()), (16384, 7));
    }
}
