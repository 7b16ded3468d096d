//! Copies from cached chunks, several at a time.
//!
//! A cached chunk is usually no longer in the processor's caches, nor its pages in the TLB, and copying from chunks
//! one by one waits for each miss. Reading the start of every wanted row of several chunks first, with no other work
//! in between, overlaps the misses. If many rows of a chunk are wanted it is copied from at once: it may just have
//! been decoded.

use std::sync::Arc;

use super::{Hdf5Volume, Reading, Wanted};
use crate::volume::hdf5::chunks::Chunk;
use crate::volume::scatter::touch_box;
use crate::volume::{BoxMut, ReadError};

/// Chunks are collected until they exceed this size in bytes, then copied from. They stay in memory until then, even if
/// the cache evicts them.
const MAX_BYTES: usize = 2 << 20;
/// With more wanted rows in a chunk than this, the copy takes so long that touching them first gains nothing.
const MAX_ROWS: u64 = 128;

/// Cached chunks that have been collected, and their total size.
#[derive(Default)]
pub(super) struct CachedChunks {
    chunks: Vec<(Arc<Chunk>, Wanted)>,
    bytes: usize,
}

impl CachedChunks {
    /// Copies the wanted voxels of a chunk to their place, now or together with those of other chunks.
    pub fn copy(
        &mut self,
        volume: &Hdf5Volume,
        chunk: Arc<Chunk>,
        wanted: Wanted,
        reading: &Reading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let count = wanted.sieve.count;
        if chunk.constant || count.y * count.z > MAX_ROWS {
            return volume.copy(&chunk, &wanted, reading, into);
        }
        self.bytes += chunk.samples.bytes().len();
        self.chunks.push((chunk, wanted));
        if self.bytes < MAX_BYTES { Ok(()) } else { self.finish(volume, reading, into) }
    }

    /// Copies from all collected chunks.
    pub fn finish(
        &mut self,
        volume: &Hdf5Volume,
        reading: &Reading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        for (chunk, wanted) in &self.chunks {
            touch_box(&chunk.samples, volume.place(&chunk.dims, wanted, reading.request.step));
        }
        self.bytes = 0;
        self.chunks.drain(..).try_for_each(|(chunk, wanted)| volume.copy(&chunk, &wanted, reading, into))
    }
}
