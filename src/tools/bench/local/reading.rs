//! A snapshot of the clocks and counters, taken before and after.

use super::super::machine::bytes_from_disk;
use super::super::row::ChunkUse;
use crate::metrics::Metrics;

/// The clocks and counters at one moment.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub read: f64,
    pub inflate: f64,
    pub library: f64,
    pub wait: f64,
    pub chunks: ChunkUse,
    pub disk: Option<u64>,
}

impl Reading {
    /// Before anything was counted.
    pub const NOTHING: Self = {
        let chunks = ChunkUse { decoded: 0, found: 0, stored_bytes: 0, decoded_bytes: 0 };
        Self { read: 0.0, inflate: 0.0, library: 0.0, wait: 0.0, chunks, disk: Some(0) }
    };

    /// As it is now.
    pub fn of(metrics: &Metrics) -> Self {
        Self {
            read: metrics.chunk_reading.seconds() + metrics.copying.seconds(),
            inflate: metrics.chunk_decoding.seconds(),
            library: metrics.library.seconds(),
            wait: metrics.chunk_waiting.seconds(),
            chunks: ChunkUse {
                decoded: metrics.chunk_reads.get(),
                found: metrics.chunk_hits.get(),
                stored_bytes: metrics.chunk_stored_bytes.get(),
                decoded_bytes: metrics.chunk_decoded_bytes.get(),
            },
            disk: bytes_from_disk(),
        }
    }

    fn zip(self, other: Self, number: fn(f64, f64) -> f64, count: fn(u64, u64) -> u64) -> Self {
        let (a, b) = (self.chunks, other.chunks);
        Self {
            read: number(self.read, other.read),
            inflate: number(self.inflate, other.inflate),
            library: number(self.library, other.library),
            wait: number(self.wait, other.wait),
            chunks: ChunkUse {
                decoded: count(a.decoded, b.decoded),
                found: count(a.found, b.found),
                stored_bytes: count(a.stored_bytes, b.stored_bytes),
                decoded_bytes: count(a.decoded_bytes, b.decoded_bytes),
            },
            disk: self.disk.zip(other.disk).map(|(a, b)| count(a, b)),
        }
    }
}

impl std::ops::Sub for Reading {
    type Output = Self;
    fn sub(self, before: Self) -> Self {
        self.zip(before, |a, b| a - b, u64::saturating_sub)
    }
}

impl std::ops::AddAssign for Reading {
    fn add_assign(&mut self, more: Self) {
        *self = self.zip(more, |a, b| a + b, u64::saturating_add);
    }
}
