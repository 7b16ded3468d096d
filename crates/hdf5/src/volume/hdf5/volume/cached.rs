//! Collects cached chunks, so that voxels are copied from several at a time.
//!
//! A cached chunk is usually no longer in the processor's caches, nor its pages in the TLB, and
//! copying from chunks one by one waits for each miss. Reading the start of every wanted row of
//! several chunks first, with no other work in between, overlaps the misses. If many rows of a
//! chunk are wanted it is copied from at once: it may just have been decoded.

use std::sync::Arc;

use crate::volume::hdf5::chunks::Chunk;
use crate::volume::hdf5::grid::{ChunkPart, Position};
use crate::volume::scatter::Sieve;

/// Chunks are collected until they exceed this size in bytes, then copied from. They stay in memory
/// until then, even if the cache evicts them.
const MAX_BYTES: usize = 2 << 20;
/// With more wanted rows in a chunk than this, the copy takes so long that touching them first
/// gains nothing.
const MAX_ROWS: u64 = 128;

/// A chunk that contains wanted voxels.
pub(super) struct WantedChunk {
    /// Its position in the grid.
    pub at: Position,
    /// Its intersection with the box.
    pub part: ChunkPart,
    /// The wanted voxels of that part.
    pub sieve: Sieve,
}

impl WantedChunk {
    /// Whether it has enough rows to be copied at once.
    pub fn is_tall(&self) -> bool {
        self.sieve.count.y * self.sieve.count.z > MAX_ROWS
    }
}

/// Cached chunks that have been collected, and their total size.
#[derive(Default)]
pub(super) struct CachedChunks {
    chunks: Vec<(Arc<Chunk>, WantedChunk)>,
    bytes: usize,
}

impl CachedChunks {
    pub fn add(&mut self, chunk: Arc<Chunk>, wanted: WantedChunk) {
        self.bytes += chunk.samples.bytes().len();
        self.chunks.push((chunk, wanted));
    }

    /// Whether it is time to copy from them.
    pub fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    /// The chunks collected so far.
    pub fn take(&mut self) -> Vec<(Arc<Chunk>, WantedChunk)> {
        self.bytes = 0;
        std::mem::take(&mut self.chunks)
    }
}
