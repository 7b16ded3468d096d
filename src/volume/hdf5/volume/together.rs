//! Chunks that were found, and are copied from together: what is wanted of them is asked of memory first.
//!
//! A kept chunk has most likely left the processor's caches, and its pages those of addresses. Copied from one by one, a
//! tile waits for each; where a line of each row is read first, and nothing else is done in between, all that comes side
//! by side. Where much of a chunk is wanted it is copied from at once: it may have been decoded just now.

use std::sync::Arc;

use super::{Hdf5Volume, Wanted, Wish};
use crate::volume::hdf5::chunks::Chunk;
use crate::volume::scatter::touch_box;
use crate::volume::{ReadError, Samples};

/// Chunks are copied from once so many bytes of them wait. Meanwhile they stay in memory even if the cache lets them go.
const HELD: usize = 2 << 20;
/// Of a chunk of which more rows are wanted, so many are copied that asking for them beforehand gains nothing.
const MOST_ROWS: u64 = 128;

/// Chunks that were found, of which something is wanted.
#[derive(Default)]
pub(super) struct Together {
    chunks: Vec<(Arc<Chunk>, Wanted)>,
    bytes: usize,
}

impl Together {
    /// Copies what is wanted of a chunk to its place, now or with that of others.
    pub fn place(
        &mut self,
        volume: &Hdf5Volume,
        chunk: Arc<Chunk>,
        wanted: Wanted,
        wish: &Wish,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        let count = wanted.sieve.count;
        if chunk.constant || count.y * count.z > MOST_ROWS {
            return volume.place(&chunk, &wanted, wish, into);
        }
        self.bytes += chunk.samples.bytes().len();
        self.chunks.push((chunk, wanted));
        if self.bytes < HELD { Ok(()) } else { self.finish(volume, wish, into) }
    }

    /// The same for all that are left.
    pub fn finish(&mut self, volume: &Hdf5Volume, wish: &Wish, into: &mut Samples) -> Result<(), ReadError> {
        for (chunk, wanted) in &self.chunks {
            touch_box(&chunk.samples, volume.within(chunk, wanted, wish), wanted.sieve.count);
        }
        self.bytes = 0;
        self.chunks.drain(..).try_for_each(|(chunk, wanted)| volume.place(&chunk, &wanted, wish, into))
    }
}
