//! Copying out of cached chunks, several at a time.
//!
//! A cached chunk has usually left the processor's caches, and its pages the table of recent addresses. Copying from one
//! chunk after another waits for each. Reading the start of every wanted row of several chunks first, with no other work
//! in between, overlaps these waits. If much of a chunk is wanted it is copied at once: it may just have been decoded.

use std::sync::Arc;

use super::{Hdf5Volume, Reading, Wanted};
use crate::volume::hdf5::chunks::Chunk;
use crate::volume::scatter::touch_box;
use crate::volume::{ReadError, Samples};

/// Chunks are copied from once they add up to this many bytes. Until then they stay in memory even if the cache evicts
/// them.
const MOST_BYTES: usize = 2 << 20;
/// Of chunks with more wanted rows than this so much is copied that touching them first gains nothing.
const MOST_ROWS: u64 = 128;

/// Cached chunks that wait to be copied from.
#[derive(Default)]
pub(super) struct CachedChunks {
    chunks: Vec<(Arc<Chunk>, Wanted)>,
    bytes: usize,
}

impl CachedChunks {
    /// Copies what is wanted of a chunk to its place, now or with that of others.
    pub fn copy(
        &mut self,
        volume: &Hdf5Volume,
        chunk: Arc<Chunk>,
        wanted: Wanted,
        reading: &Reading<'_>,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        let count = wanted.sieve.count;
        if chunk.constant || count.y * count.z > MOST_ROWS {
            return volume.copy(&chunk, &wanted, reading, into);
        }
        self.bytes += chunk.samples.bytes().len();
        self.chunks.push((chunk, wanted));
        if self.bytes < MOST_BYTES { Ok(()) } else { self.finish(volume, reading, into) }
    }

    /// Copies from all chunks that still wait.
    pub fn finish(
        &mut self,
        volume: &Hdf5Volume,
        reading: &Reading<'_>,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        for (chunk, wanted) in &self.chunks {
            touch_box(&chunk.samples, volume.within(chunk, wanted, reading), wanted.sieve.count);
        }
        self.bytes = 0;
        self.chunks.drain(..).try_for_each(|(chunk, wanted)| volume.copy(&chunk, &wanted, reading, into))
    }
}
