//! What a volume takes to store and to read, as its files tell before a voxel is read.
//!
//! A cost is counted from cold: nothing is in a cache. Compressed chunks are read whole and counted as inflated whole,
//! though some need not be to their end. Voxels without filters are copied from the file's pages: counted are the pages
//! that hold wanted voxels, since less is never read from a disk, and nothing is inflated. Chunks that were never written
//! cost nothing where none was; how long one is stored is the mean over all that were.

use std::ops::{AddAssign, Range};

use serde::Serialize;

use crate::geometry::Xyz;

/// Positions along x, y and z, in voxels: meant are the voxels at all their combinations.
pub type Positions = Xyz<Vec<Range<u64>>>;

/// What of a volume is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// The datasets that were looked at.
    pub datasets: u64,
    /// The chunks that they could have.
    pub chunks: u64,
    /// The chunks that were ever written.
    pub chunks_written: u64,
    /// The bytes that what is written takes in the file.
    pub stored_bytes: u64,
    /// The bytes that the same comes to once it is decoded.
    pub raw_bytes: u64,
}

impl Tally {
    /// How many times smaller it is stored than it is; `None` where nothing is.
    pub fn compression(&self) -> Option<f64> {
        (self.stored_bytes > 0).then(|| self.raw_bytes as f64 / self.stored_bytes as f64)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.datasets += other.datasets;
        self.chunks = self.chunks.saturating_add(other.chunks);
        self.chunks_written += other.chunks_written;
        self.stored_bytes = self.stored_bytes.saturating_add(other.stored_bytes);
        self.raw_bytes = self.raw_bytes.saturating_add(other.raw_bytes);
    }
}

/// What reading some voxels takes from cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ReadCost {
    /// The pieces of the file that are read: chunks, or runs of pages.
    pub reads: u64,
    /// The bytes of the file that are read.
    pub bytes_read: u64,
    /// The bytes that come out of the filters.
    pub bytes_inflated: u64,
}

impl ReadCost {
    /// The cost of so many of the same.
    pub fn times(self, count: u64) -> Self {
        Self {
            reads: self.reads.saturating_mul(count),
            bytes_read: self.bytes_read.saturating_mul(count),
            bytes_inflated: self.bytes_inflated.saturating_mul(count),
        }
    }
}
