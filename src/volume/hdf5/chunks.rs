//! Chunks once decoded, shared by all volumes under one budget of bytes.
//!
//! A chunk costs one positional read and its decoding, on the thread that wants it; threads that want the same chunk
//! wait for the one that decodes it. How far it is decoded, and what becomes of the rest, is in [`finish`].
//! `benches/RESULTS.md` has what else was tried. A chunk that was never written, or whose voxels are all equal, is kept
//! as that one value.

mod finish;
mod refused;
mod unfinished;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub use self::finish::Standing;
use self::refused::Refused;
use super::dataset::{Storage, StoredDataset};
use super::filters::Pipeline;
use super::grid::{Position, StoredBox};
use super::index::Entry;
use super::spare;
use crate::activity::{Activity, Moment};
use crate::cache::{Cache, Lookup, Waiter};
use crate::config::Verify;
use crate::metrics::Metrics;
use crate::tile::Fingerprint;
use crate::volume::{ReadError, Samples, VoxelType, with_samples};

/// A decoded chunk, or the beginning of one, dense in stored order.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Its extents; fewer than the dataset's chunks have where it was cut at the edge.
    pub dims: Position,
    /// Its voxels from the first on, or the one that all of them equal.
    pub samples: Samples,
    /// Whether `samples` is that one.
    pub constant: bool,
    /// Whether all of its voxels are here, one way or the other.
    whole: bool,
    /// When it was decoded.
    made: Moment,
    /// Whether no more of it can be decoded than is here.
    settled: AtomicBool,
}

impl Chunk {
    /// A whole chunk, or the beginning of one; where all its voxels are equal one is kept.
    fn new(dims: Position, samples: Samples) -> Self {
        let whole = samples.len() as u64 >= dims.iter().product();
        let constant = whole && is_constant(&samples);
        let samples = if constant { first_of(samples) } else { samples };
        Self { dims, samples, constant, whole, made: Moment::now(), settled: AtomicBool::new(whole) }
    }

    /// Notes that no more of it can be decoded.
    fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    /// Whether that many voxels from the first on are here, or all that there are.
    fn holds(&self, voxels: u64) -> bool {
        self.whole || self.samples.len() as u64 >= voxels
    }

    fn weight(&self) -> usize {
        const BOOKKEEPING: usize = 256;
        self.samples.bytes().len() + BOOKKEEPING
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // Voxels of more bytes lie in a buffer of their own, not in the one that was decoded to.
        if let (Samples::U8(buffer), true) = (&mut self.samples, self.whole) {
            spare::give(std::mem::take(buffer));
        }
    }
}

/// Whether all voxels have the same bytes.
fn is_constant(samples: &Samples) -> bool {
    let (bytes, voxel) = (samples.bytes(), samples.voxel_bytes());
    // Each voxel equals the next one: what takes long ends at the first that does not.
    bytes.len() > voxel && bytes[voxel..] == bytes[..bytes.len() - voxel]
}

fn first_of(samples: Samples) -> Samples {
    let first = with_samples!(&samples, voxels => crate::volume::Voxel::samples(voxels[..1].to_vec()));
    if let Samples::U8(buffer) = samples {
        spare::give(buffer);
    }
    first
}

/// A chunk in the cache: the dataset's id, the chunk's number, and what its voxels are taken for.
type ChunkKey = (Fingerprint, u64, VoxelType);

/// The cache of decoded chunks; clones share it.
#[derive(Clone)]
pub struct ChunkStore {
    cache: Cache<ChunkKey, Arc<Chunk>, ReadError>,
    largest: usize,
    metrics: Metrics,
    activity: Activity,
    verify: Verify,
    at_once: Arc<AtomicBool>,
    unfinished: unfinished::List,
    refused: Refused,
}

impl std::fmt::Debug for ChunkStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkStore").field("largest", &self.largest).finish_non_exhaustive()
    }
}

impl ChunkStore {
    /// A cache of at most `budget` bytes of decoded chunks.
    pub fn new(budget: usize, metrics: Metrics, activity: Activity) -> Self {
        // A chunk that would push out most others is read through the library, box by box.
        let largest = budget / 4;
        let cache = Cache::new(budget, metrics.chunk_bytes.clone());
        let (at_once, unfinished, refused) = Default::default();
        Self { cache, largest, metrics, activity, verify: Verify::default(), at_once, unfinished, refused }
    }

    /// Forgets every chunk.
    pub(super) fn clear(&self) {
        self.cache.clear();
    }

    /// The counters of whoever reads.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// How busy those are who decode chunks.
    pub(super) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Whether this dataset is read by whole chunks: also by large ones where the library lacks a filter for them.
    pub(super) fn serves(&self, dataset: &StoredDataset) -> bool {
        let small = dataset.grid.voxels().saturating_mul(8) <= self.largest as u64;
        let needed = dataset.is_decoded_directly() && !dataset.suits_library();
        matches!(dataset.storage, Storage::Chunked { .. }) && (small || needed)
    }

    /// The chunk at this place of the grid, with at least its first `wanted` voxels: from the cache or decoded now.
    pub(super) fn get(
        &self,
        dataset: &Arc<StoredDataset>,
        at: &Position,
        wanted: u64,
        voxel: VoxelType,
    ) -> Result<Arc<Chunk>, ReadError> {
        loop {
            match self.find(dataset, at, wanted, voxel)? {
                Found::Chunk(chunk) => return Ok(chunk),
                Found::Flying(waiter) => {
                    match self.metrics.chunk_waiting.time(|| waiter.wait_blocking()) {
                        Ok(chunk) if chunk.holds(wanted) => return Ok(chunk),
                        // The other thread wanted less of it: it is asked for again.
                        Ok(_) => {}
                        // The other thread may have wanted what is damaged, and this one what lies before it.
                        Err(_) => {
                            let extent = self.extent(dataset, at, wanted, voxel, None);
                            return self.decode(dataset, at, wanted, voxel, extent).map(Arc::new);
                        }
                    }
                }
            }
        }
    }

    /// The chunk where it is in the cache; `None` where it would have to be decoded, or waited for.
    pub(super) fn kept(
        &self,
        dataset: &Arc<StoredDataset>,
        at: &Position,
        wanted: u64,
        voxel: VoxelType,
    ) -> Option<Arc<Chunk>> {
        let key = (dataset.id, dataset.grid.number(at), voxel);
        let chunk = self.cache.get(&key).filter(|chunk| self.suffices(chunk, wanted, dataset, at))?;
        self.metrics.chunk_hits.inc();
        if !chunk.whole {
            self.note(&chunk, dataset, at, voxel);
        }
        Some(chunk)
    }

    /// Whether a kept chunk will do; of one that is corrupt no beginning will.
    fn suffices(&self, chunk: &Chunk, wanted: u64, dataset: &StoredDataset, at: &Position) -> bool {
        chunk.whole || (chunk.holds(wanted) && !self.refused.has(&dataset.chunk_id(at)))
    }

    /// The chunk as [`ChunkStore::get`] has it, but that what another thread decodes just now is not waited for.
    pub(super) fn find(
        &self,
        dataset: &Arc<StoredDataset>,
        at: &Position,
        wanted: u64,
        voxel: VoxelType,
    ) -> Result<Found, ReadError> {
        let key = (dataset.id, dataset.grid.number(at), voxel);
        let mut begun = None;
        let suffices = |chunk: &Arc<Chunk>| {
            begun = Some(chunk.made);
            self.suffices(chunk, wanted, dataset, at)
        };
        match self.cache.lookup_if(&key, suffices) {
            Lookup::Ready(chunk) => {
                self.metrics.chunk_hits.inc();
                if !chunk.whole {
                    self.note(&chunk, dataset, at, voxel);
                }
                Ok(Found::Chunk(chunk))
            }
            Lookup::Wait(waiter) => Ok(Found::Flying(waiter)),
            Lookup::Lead(flight) => {
                self.metrics.chunk_reads.inc();
                let extent = self.extent(dataset, at, wanted, voxel, begun);
                let chunk = self.decode(dataset, at, wanted, voxel, extent).map(Arc::new);
                flight.land(chunk.as_ref().map(|c| (Arc::clone(c), c.weight())).map_err(Clone::clone));
                chunk.map(Found::Chunk)
            }
        }
    }
}

/// A chunk, or the prospect of one.
pub(super) enum Found {
    /// Here it is.
    Chunk(Arc<Chunk>),
    /// Another thread decodes it, though maybe not as far as it is wanted.
    Flying(Waiter<Arc<Chunk>, ReadError>),
}

impl StoredDataset {
    /// Whether chunks are decoded here, outside the library's lock.
    pub(super) fn is_decoded_directly(&self) -> bool {
        self.direct_pipeline().is_some()
    }

    fn direct_pipeline(&self) -> Option<&Pipeline> {
        let direct = matches!(self.storage, Storage::Chunked { .. }) && self.stored.plain;
        self.pipeline.as_ref().filter(|_| direct)
    }

    /// Fails where a chunk that a box touches lies behind the end of the file.
    pub(super) fn ensure_chunks_in_file(&self, stored: &StoredBox) -> Result<(), ReadError> {
        if !matches!(self.storage, Storage::Chunked { .. }) {
            return Ok(());
        }
        for at in self.grid.chunks_of(stored) {
            if let Some(entry) = self.entry(&at)? {
                self.file.ensure_reaches(entry.end(), &self.place())?;
            }
        }
        Ok(())
    }

    /// Decodes a chunk as far as its first `wanted` voxels, or further.
    fn decode_chunk(
        &self,
        at: &Position,
        wanted: u64,
        voxel: VoxelType,
        metrics: &Metrics,
    ) -> Result<Chunk, ReadError> {
        let Some(entry) = self.entry(at)? else {
            return self.missing_chunk(at, voxel);
        };
        if let Some(pipeline) = self.direct_pipeline() {
            return self.decode_directly(at, entry, wanted, voxel, pipeline, metrics);
        }
        self.file.ensure_reaches(entry.end(), &self.place())?;
        metrics.library.time(|| self.decode_through_library(at, voxel))
    }

    fn decode_directly(
        &self,
        at: &Position,
        entry: Entry,
        wanted: u64,
        voxel: VoxelType,
        pipeline: &Pipeline,
        metrics: &Metrics,
    ) -> Result<Chunk, ReadError> {
        let size = self.grid.voxels() as usize * self.stored_bytes();
        // Held against what the filters could make of it before memory is taken for what the file claims.
        if entry.length as usize > pipeline.most_stored(size) {
            let problem =
                format!("chunk {} claims to be stored in {} bytes", self.chunk_name(at), entry.length);
            return Err(self.damaged(&problem));
        }
        let mask = if self.edges_are_plain && self.grid.is_cut(at) { u32::MAX } else { entry.mask };
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).saturating_mul(self.stored_bytes());
        let began = Instant::now();
        let mut read = began;
        let bytes = self.file.read_at(entry.address, entry.length as usize, &self.place(), |stored| {
            read = Instant::now();
            let decoded = pipeline.decode(stored, mask, size, wanted);
            decoded.map_err(|error| {
                let (place, problem) = (self.place(), format!("chunk {}: {error}", self.chunk_name(at)));
                match error.is_corrupt() {
                    true => ReadError::Corrupt { place, problem },
                    false => ReadError::Damaged { place, problem },
                }
            })
        })??;
        let chunk = Chunk::new(*self.grid.chunk(), self.samples(bytes, voxel));
        metrics.chunk_stored_bytes.inc_by(u64::from(entry.length));
        metrics.chunk_reading.add(read - began);
        metrics.chunk_decoding.add(read.elapsed());
        Ok(chunk)
    }

    fn decode_through_library(&self, at: &Position, voxel: VoxelType) -> Result<Chunk, ReadError> {
        let start = self.grid.origin(at);
        let room = |axis: usize| self.grid.shape()[axis] - start[axis];
        let count: Position = std::array::from_fn(|axis| room(axis).min(self.grid.chunk()[axis]));
        let mut samples = Samples::default();
        samples.reset(voxel, count.iter().product::<u64>() as usize);
        self.read_box(&StoredBox { start, count }, &mut samples)?;
        Ok(Chunk::new(count, samples))
    }

    /// A chunk that was never written.
    fn missing_chunk(&self, at: &Position, voxel: VoxelType) -> Result<Chunk, ReadError> {
        let samples = self.fill_value(self.grid.origin(at), voxel)?;
        let mut chunk = Chunk::new(*self.grid.chunk(), samples);
        (chunk.constant, chunk.whole) = (true, true);
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_voxels_are_kept_as_one() {
        let dims = [1, 1, 1, 2, 2];
        let equal = Chunk::new(dims, Samples::U16(vec![258; 4]));
        assert!(equal.constant && equal.samples == Samples::U16(vec![258]));
        // Its bytes repeat, its voxels do not; and the beginning of a chunk says nothing of the rest.
        assert!(!Chunk::new(dims, Samples::U16(vec![1, 1, 1, 2])).constant);
        let beginning = Chunk::new(dims, Samples::U16(vec![5; 3]));
        assert!(!beginning.constant && beginning.holds(3) && !beginning.holds(4));
        // One that was cut at the edge has fewer than its grid counts.
        assert!(Chunk::new(dims, Samples::U16(vec![1, 1, 1, 2])).holds(u64::MAX));
    }
}
