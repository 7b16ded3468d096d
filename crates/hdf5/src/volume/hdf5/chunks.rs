//! The cache of decoded chunks, shared by all volumes, with one budget in bytes.
//!
//! Each chunk is decoded by one thread at a time; other threads that want it wait. [`finish`]
//! decides how far a chunk is decoded, and when its rest is decoded. Alternatives that were tried
//! are in `benches/RESULTS.md`. A chunk that was never written, or whose voxels are all equal, is
//! cached as one value.

mod finish;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use voltile_base::flow::activity::Activity;
use voltile_base::flow::cache::{Cache, Lookup, Waiter};
use voltile_base::flow::trace::{RequestId, Trace};
use voltile_base::metrics::{Meter, Metrics};
use voltile_base::tile::Fingerprint;

use super::dataset::StoredDataset;
use super::grid::Position;
use super::index::Entry;
use super::reused_buffer;
use crate::volume::{ReadError, Samples, UnfinishedChunks, Voxel, VoxelType, with_samples};
pub use finish::{UnfinishedChunk, Verify};

/// A decoded chunk, or a prefix of one, contiguous in stored order.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Its extents; smaller than the chunk shape if it was clipped at the edge of the dataset.
    pub dims: Position,
    /// Its voxels, or a prefix of them; one voxel if it is constant.
    pub samples: Samples,
    /// Whether all voxels equal the only one in `samples`.
    pub is_constant: bool,
    /// Whether all of its voxels are known.
    is_whole: bool,
    /// When it was decoded.
    decoded_at: Instant,
    /// Whether no more of it can be decoded: it is whole, or its stream breaks off.
    is_settled: AtomicBool,
}

impl Chunk {
    /// A whole chunk, or a prefix of one. If all voxels are equal only one is stored.
    pub fn new(dims: Position, samples: Samples) -> Self {
        let is_whole = samples.len() as u64 >= dims.iter().product();
        let is_constant = is_whole && are_all_equal(&samples);
        let samples = if is_constant {
            first_of(samples)
        } else {
            samples
        };
        Self {
            dims,
            samples,
            is_constant,
            is_whole,
            decoded_at: Instant::now(),
            is_settled: AtomicBool::new(is_whole),
        }
    }

    /// A chunk that was never written; `fill` is one voxel, the fill value.
    pub fn never_written(dims: Position, fill: Samples) -> Self {
        let mut chunk = Self::new(dims, fill);
        chunk.is_constant = true;
        chunk.is_whole = true;
        chunk.settle();
        chunk
    }

    /// Records that no more of it can be decoded.
    fn settle(&self) {
        self.is_settled.store(true, Ordering::Relaxed);
    }

    fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }

    /// Whether its first `voxels` voxels are known, or all of them if it has fewer.
    fn holds(&self, voxels: u64) -> bool {
        self.is_whole || self.samples.len() as u64 >= voxels
    }

    /// The number of bytes that it takes of the cache's budget.
    fn weight(&self) -> usize {
        // An estimate of the memory besides the voxels.
        const BOOKKEEPING: usize = 256;
        self.samples.bytes().len() + BOOKKEEPING
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // Voxels of one byte are still in the buffer that the chunk was decoded to; wider ones were
        // copied to another.
        if self.is_whole
            && let Samples::U8(buffer) = &mut self.samples
        {
            reused_buffer::give(std::mem::take(buffer));
        }
    }
}

/// Whether all voxels have the same bytes.
fn are_all_equal(samples: &Samples) -> bool {
    let bytes = samples.bytes();
    let voxel = samples.voxel_bytes();
    // Whether each voxel equals the next one. The comparison ends at the first difference, which is
    // usually near the start.
    bytes.len() > voxel && bytes[voxel..] == bytes[..bytes.len() - voxel]
}

/// The first voxel alone, in a buffer of its own: the long buffer is reused.
fn first_of(samples: Samples) -> Samples {
    let first = with_samples!(&samples, voxels => Voxel::samples(voxels[..1].to_vec()));
    if let Samples::U8(buffer) = samples {
        reused_buffer::give(buffer);
    }
    first
}

/// The number of voxels to ask for if the whole chunk is wanted. Decoding a whole chunk verifies
/// its checksum.
pub(super) const WHOLE: u64 = u64::MAX;

/// The cache key: the chunk's [`StoredDataset::content_id`], its number, and the type that its
/// voxels were decoded to.
type ChunkKey = (Fingerprint, u64, VoxelType);

/// The cache of decoded chunks; clones share it.
#[derive(Clone)]
pub struct ChunkStore {
    cache: Cache<ChunkKey, Arc<Chunk>, ReadError>,
    /// The maximum size of a cached chunk in bytes; each voxel counts as 8 bytes, the widest type.
    largest: usize,
    metrics: Arc<Metrics>,
    pub(super) activity: Activity,
    verify: Verify,
    /// Whether chunks are verified at once even under [`Verify::Idle`].
    verifies_at_once: Arc<AtomicBool>,
}

impl std::fmt::Debug for ChunkStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkStore")
            .field("largest", &self.largest)
            .finish_non_exhaustive()
    }
}

impl ChunkStore {
    /// A cache of at most `budget` bytes of decoded chunks.
    pub fn new(budget: usize, metrics: Metrics, activity: Activity) -> Self {
        // A larger chunk would evict too many chunks. It is read through the library, box by box.
        let largest = budget / 4;
        let cache = Cache::new(budget, metrics.chunk_bytes.clone());
        Self {
            cache,
            largest,
            metrics: Arc::new(metrics),
            activity,
            verify: Verify::default(),
            verifies_at_once: Arc::default(),
        }
    }

    /// Drops the decoded chunks of all volumes, for measurements without them.
    pub fn clear(&self) {
        self.cache.clear();
    }

    /// The metrics that it counts in.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The activity that decoding takes part in.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Whether chunks of this dataset are cached: they are small enough, or only voltile can decode
    /// them, because the library lacks one of their filters.
    pub(super) fn serves(&self, dataset: &StoredDataset) -> bool {
        let is_small = dataset.grid.voxels().saturating_mul(8) <= self.largest as u64;
        let must_be_decoded_here =
            dataset.is_decoded_directly() && !dataset.unavailable_filters().is_empty();
        dataset.is_in_chunks() && (is_small || must_be_decoded_here)
    }

    /// The chunk, if its wanted voxels are in the cache.
    pub(super) fn cached(&self, wanted: &ChunkRequest<'_>) -> Option<Arc<Chunk>> {
        let chunk = self.cache.get(&wanted.key())?;
        if !chunk.holds(wanted.voxels) {
            return None;
        }
        self.note_hit(&chunk, wanted);
        Some(chunk)
    }

    /// Whether the wanted voxels are in the cache; does not count as a use of them.
    pub(super) fn holds(&self, wanted: &ChunkRequest<'_>) -> bool {
        self.cache
            .peek(&wanted.key())
            .is_some_and(|chunk| chunk.holds(wanted.voxels))
    }

    /// The chunk with this index entry, with at least the wanted voxels: from the cache, from
    /// another thread that is decoding it, or decoded here.
    pub(super) fn get(
        &self,
        wanted: &ChunkRequest<'_>,
        entry: Option<Entry>,
    ) -> Result<Arc<Chunk>, ReadError> {
        loop {
            let waiter = match self.find(wanted, entry)? {
                FoundChunk::Chunk(chunk) => return Ok(chunk),
                FoundChunk::InFlight(waiter) => waiter,
            };
            match self.metrics.chunk_waiting.time(|| waiter.wait_blocking()) {
                Ok(chunk) if chunk.holds(wanted.voxels) => return Ok(chunk),
                // The other thread decoded a shorter prefix: look again.
                Ok(_) => {}
                // The other thread may have decoded further, and found damage beyond the voxels
                // wanted here.
                Err(_) => return self.decode(wanted, entry, None).map(Arc::new),
            }
        }
    }

    /// Like [`ChunkStore::get`], but returns at once if another thread is decoding the chunk.
    pub(super) fn find(
        &self,
        wanted: &ChunkRequest<'_>,
        entry: Option<Entry>,
    ) -> Result<FoundChunk, ReadError> {
        // When the cached chunk was decoded, if the cache has a shorter prefix of it.
        let mut decoded_at = None;
        let looked_up = self.cache.lookup_if(&wanted.key(), |chunk| {
            decoded_at = Some(chunk.decoded_at);
            chunk.holds(wanted.voxels)
        });
        match looked_up {
            Lookup::Ready(chunk) => {
                self.note_hit(&chunk, wanted);
                Ok(FoundChunk::Chunk(chunk))
            }
            Lookup::Wait(waiter) => Ok(FoundChunk::InFlight(waiter)),
            Lookup::Lead(flight) => {
                self.metrics.chunk_reads.inc();
                let chunk = self.decode(wanted, entry, decoded_at).map(Arc::new);
                flight.land(match &chunk {
                    Ok(chunk) => Ok((Arc::clone(chunk), chunk.weight())),
                    Err(error) => Err(error.clone()),
                });
                chunk.map(FoundChunk::Chunk)
            }
        }
    }

    /// Measures what is done for a request.
    pub(super) fn meter<'a>(&'a self, wanted: &ChunkRequest<'a>) -> Meter<'a> {
        Meter::new(&self.metrics, wanted.trace)
    }

    fn note_hit(&self, chunk: &Chunk, wanted: &ChunkRequest<'_>) {
        self.meter(wanted).found_chunk();
        self.note_unfinished(chunk, wanted);
    }
}

/// A chunk that a read wants, and how much of it.
#[derive(Clone, Copy)]
pub(super) struct ChunkRequest<'a> {
    pub dataset: &'a Arc<StoredDataset>,
    /// Its position in the grid.
    pub at: Position,
    /// The number of voxels wanted, counted from the first one in the chunk; [`WHOLE`]: all.
    pub voxels: u64,
    /// The type to decode to.
    pub voxel: VoxelType,
    /// The trace of the client's request, if there is one.
    pub trace: Option<&'a Trace>,
    /// The id of the client's request, for the log.
    pub request_id: Option<&'a RequestId>,
    /// The list to which the chunk is added if only part of it is decoded.
    pub unfinished: Option<&'a UnfinishedChunks>,
}

impl<'a> ChunkRequest<'a> {
    /// A request without a trace, an id, or a list of unfinished chunks.
    pub fn new(
        dataset: &'a Arc<StoredDataset>,
        at: Position,
        voxels: u64,
        voxel: VoxelType,
    ) -> Self {
        Self {
            dataset,
            at,
            voxels,
            voxel,
            trace: None,
            request_id: None,
            unfinished: None,
        }
    }

    fn key(&self) -> ChunkKey {
        let number = self.dataset.grid.number(&self.at);
        (self.dataset.content_id(&self.at), number, self.voxel)
    }
}

/// The result of looking for a chunk.
pub(super) enum FoundChunk {
    Chunk(Arc<Chunk>),
    /// Another thread is decoding it, perhaps to a shorter prefix than wanted.
    InFlight(Waiter<Arc<Chunk>, ReadError>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_voxels_are_kept_as_one() {
        let dims = [1, 1, 1, 2, 2];
        let equal = Chunk::new(dims, Samples::U16(vec![258; 4]));
        assert!(equal.is_constant && equal.samples == Samples::U16(vec![258]));
        // Its bytes repeat, its voxels do not. A prefix may be followed by other values.
        assert!(!Chunk::new(dims, Samples::U16(vec![1, 1, 1, 2])).is_constant);
        let beginning = Chunk::new(dims, Samples::U16(vec![5; 3]));
        assert!(!beginning.is_constant && beginning.holds(3) && !beginning.holds(4));
        // A chunk that was clipped at the edge has fewer voxels than the chunk shape.
        assert!(Chunk::new(dims, Samples::U16(vec![1, 1, 1, 2])).holds(u64::MAX));
    }

    #[test]
    fn a_chunk_that_was_never_written_needs_no_further_decoding() {
        let unwritten = Chunk::never_written([1, 1, 1, 2, 2], Samples::U16(vec![7]));
        assert!(unwritten.holds(WHOLE) && unwritten.is_settled());
    }
}
