//! The cost of storing and reading a volume, computed from its files without reading voxels.
//!
//! Costs assume cold caches. Compressed chunks are counted as read and inflated whole, although a
//! prefix may suffice. For unfiltered voxels, the pages that contain them are counted, because a
//! disk reads whole pages, and nothing is inflated. The stored length of a chunk is taken as the
//! mean over all written chunks; if none was written, the cost is zero.

use std::ops::{AddAssign, Range};

use serde::Serialize;
use voltile_base::geometry::Xyz;

/// Ranges of positions along x, y and z, in voxels; they denote their Cartesian product.
pub type Positions = Xyz<Vec<Range<u64>>>;

/// The stored size of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// The number of datasets inspected.
    pub datasets: u64,
    /// The number of datasets that could not be inspected, because they cannot be opened, or their
    /// chunks cannot be listed.
    pub unreadable: u64,
    /// The number of chunks if all were written.
    pub chunks: u64,
    /// The number of written chunks.
    pub chunks_written: u64,
    /// The stored size of the written chunks, in bytes.
    pub stored_bytes: u64,
    /// The decoded size of the written chunks, in bytes.
    pub raw_bytes: u64,
}

impl Tally {
    /// The compression ratio; `None` if nothing is stored.
    pub fn compression(&self) -> Option<f64> {
        (self.stored_bytes > 0).then(|| self.raw_bytes as f64 / self.stored_bytes as f64)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.datasets += other.datasets;
        self.unreadable += other.unreadable;
        self.chunks = self.chunks.saturating_add(other.chunks);
        self.chunks_written += other.chunks_written;
        self.stored_bytes = self.stored_bytes.saturating_add(other.stored_bytes);
        self.raw_bytes = self.raw_bytes.saturating_add(other.raw_bytes);
    }
}

/// The cost of reading voxels with cold caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ReadCost {
    /// The number of reads: chunks, or runs of pages.
    pub reads: u64,
    /// The bytes read from the file.
    pub bytes_read: u64,
    /// The bytes produced by the filters.
    pub bytes_inflated: u64,
}

impl AddAssign for ReadCost {
    fn add_assign(&mut self, other: Self) {
        self.reads = self.reads.saturating_add(other.reads);
        self.bytes_read = self.bytes_read.saturating_add(other.bytes_read);
        self.bytes_inflated = self.bytes_inflated.saturating_add(other.bytes_inflated);
    }
}

impl ReadCost {
    /// The cost of `count` identical reads.
    pub fn times(self, count: u64) -> Self {
        Self {
            reads: self.reads.saturating_mul(count),
            bytes_read: self.bytes_read.saturating_mul(count),
            bytes_inflated: self.bytes_inflated.saturating_mul(count),
        }
    }
}
