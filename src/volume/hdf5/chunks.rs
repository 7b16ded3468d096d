//! Where chunks lie, and chunks once decoded, shared by all volumes under one budget of bytes.
//!
//! The index of a dataset is taken from the library once, when its first chunk is wanted: 24 bytes a chunk. After
//! that a chunk costs one positional read and its decoding, on the thread that wants it. Threads that want the same
//! chunk wait for the one that decodes it. A chunk that was never written is kept as its one value.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::dataset::{Part, Storage, StoredBox, StoredDataset, linear};
use super::filters::Pipeline;
use crate::cache::{Cache, Lookup};
use crate::crew::Crew;
use crate::metrics::Metrics;
use crate::tile::Fingerprint;
use crate::volume::{ReadError, Samples, VoxelType};

/// A decoded chunk, or a part of one, dense in stored order.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Its extents; fewer than the dataset's chunks have where it was cut at the edge.
    pub dims: Vec<u64>,
    /// The first voxel that is held, by its index in the chunk: 0 unless only a part was read.
    pub first: usize,
    /// The voxels from there on, or the one that all of them equal.
    pub samples: Samples,
    /// Whether `samples` is that one.
    pub constant: bool,
}

impl Chunk {
    fn weight(&self) -> usize {
        const BOOKKEEPING: usize = 256;
        self.samples.bytes().len() + BOOKKEEPING
    }
}

/// The positions of a dataset's stored chunks, filled when first needed.
#[derive(Debug, Default)]
pub(super) struct ChunkIndex {
    entries: OnceLock<Vec<Entry>>,
    filling: Mutex<()>,
}

/// Where one chunk is stored.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The chunk's number, counted in stored order over the grid.
    number: u64,
    address: u64,
    length: u32,
    mask: u32,
}

/// The most chunks that one dataset may have: their index takes 384 MiB.
const MOST_CHUNKS: usize = 1 << 24;
/// A chunk in the cache: the dataset's id, the chunk's number, and what its voxels are taken for.
type ChunkKey = (Fingerprint, u64, VoxelType);

/// The cache of decoded chunks; clones share it.
#[derive(Clone)]
pub struct ChunkStore {
    cache: Cache<ChunkKey, Arc<Chunk>, ReadError>,
    largest: usize,
    metrics: Metrics,
    crew: Crew,
}

impl std::fmt::Debug for ChunkStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkStore").field("largest", &self.largest).finish_non_exhaustive()
    }
}

impl ChunkStore {
    /// A cache of at most `budget` bytes of decoded chunks.
    pub fn new(budget: usize, metrics: Metrics, crew: Crew) -> Self {
        // A chunk that would push out most others is read through the library, box by box.
        let largest = budget / 4;
        Self { cache: Cache::new(budget, metrics.chunk_bytes.clone()), largest, metrics, crew }
    }

    /// How busy those are who decode chunks.
    pub(super) fn crew(&self) -> &Crew {
        &self.crew
    }

    /// Whether this dataset is read by whole chunks: also by large ones where the library lacks a filter for them.
    pub(super) fn serves(&self, dataset: &StoredDataset) -> bool {
        let small = dataset.chunk_voxels().saturating_mul(8) <= self.largest as u64;
        let needed = dataset.is_decoded_directly() && !dataset.suits_library();
        matches!(dataset.storage, Storage::Chunked { .. }) && (small || needed)
    }

    /// The chunk at these coordinates of the chunk grid, from the cache or decoded now.
    ///
    /// Of a chunk without filters only the part that the box wants is read, and not kept: the system keeps it.
    pub(super) fn get(
        &self,
        dataset: &StoredDataset,
        coordinates: &[u64],
        wanted: &StoredBox,
        voxel: VoxelType,
    ) -> Result<Arc<Chunk>, ReadError> {
        if dataset.is_unfiltered()
            && let Some(part) = dataset.read_part(coordinates, wanted, voxel)?
        {
            return Ok(Arc::new(part));
        }
        let number = dataset.chunk_number(coordinates);
        match self.cache.lookup(&(dataset.id, number, voxel)) {
            Lookup::Ready(chunk) => {
                self.metrics.chunk_hits.inc();
                Ok(chunk)
            }
            Lookup::Wait(waiter) => waiter.wait_blocking(),
            Lookup::Lead(flight) => {
                self.metrics.chunk_reads.inc();
                let chunk = dataset.decode_chunk(coordinates, number, voxel).map(Arc::new);
                flight.land(chunk.as_ref().map(|c| (Arc::clone(c), c.weight())).map_err(Clone::clone));
                chunk
            }
        }
    }
}

impl ChunkIndex {
    fn entry(&self, dataset: &StoredDataset, number: u64) -> Result<Option<Entry>, ReadError> {
        let entries = self.entries(dataset)?;
        Ok(entries.binary_search_by_key(&number, |entry| entry.number).ok().map(|at| entries[at]))
    }

    fn entries(&self, dataset: &StoredDataset) -> Result<&[Entry], ReadError> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let _filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        if self.entries.get().is_none() {
            let entries = dataset.read_index()?;
            return Ok(self.entries.get_or_init(|| entries));
        }
        Ok(self.entries.get().map_or(&[], Vec::as_slice))
    }
}

impl StoredDataset {
    fn chunk_shape(&self) -> &[u64] {
        match &self.storage {
            Storage::Chunked { chunk } => chunk,
            _ => &self.shape,
        }
    }

    fn chunk_voxels(&self) -> u64 {
        self.chunk_shape().iter().fold(1, |product, n| product.saturating_mul(*n))
    }

    /// The chunk's number: its place when the grid is counted in stored order.
    fn chunk_number(&self, coordinates: &[u64]) -> u64 {
        let grid = self.shape.iter().zip(self.chunk_shape()).map(|(extent, chunk)| extent.div_ceil(*chunk));
        grid.zip(coordinates).fold(0, |number, (count, at)| number * count + at)
    }

    /// The dataset's position of the first voxel of a chunk.
    pub(super) fn chunk_origin(&self, coordinates: &[u64]) -> Vec<u64> {
        coordinates.iter().zip(self.chunk_shape()).map(|(at, chunk)| at * chunk).collect()
    }

    /// The grid coordinates of all chunks that a box touches.
    pub(super) fn chunks_of(&self, stored: &StoredBox) -> Vec<Vec<u64>> {
        let mut all = vec![Vec::with_capacity(self.shape.len())];
        for ((first, last), chunk) in stored.start.iter().zip(stored.last()).zip(self.chunk_shape()) {
            let range = first / chunk..=last / chunk;
            all = all
                .iter()
                .flat_map(|head| range.clone().map(move |at| [head.as_slice(), &[at]].concat()))
                .collect();
        }
        all
    }

    /// The part of a box that lies in the chunk at these coordinates.
    pub(super) fn part_of(&self, coordinates: &[u64], stored: &StoredBox) -> Part {
        let origin = self.chunk_origin(coordinates);
        let ends = origin.iter().zip(self.chunk_shape()).map(|(origin, extent)| origin + extent);
        let start: Vec<u64> =
            stored.start.iter().zip(&origin).map(|(box_start, origin)| *box_start.max(origin)).collect();
        let last = stored.last().zip(ends).map(|(last, end)| (last + 1).min(end));
        let count = last.zip(&start).map(|(end, start)| end.saturating_sub(*start)).collect();
        let within = start.iter().zip(&origin).map(|(start, origin)| start - origin).collect();
        Part { start, within, count }
    }

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
        for coordinates in self.chunks_of(stored) {
            if let Some(entry) = self.index.entry(self, self.chunk_number(&coordinates))? {
                self.ensure_reaches(entry)?;
            }
        }
        Ok(())
    }

    fn ensure_reaches(&self, entry: Entry) -> Result<(), ReadError> {
        self.file.ensure_reaches(entry.address.saturating_add(u64::from(entry.length)), &self.place())
    }

    /// Asks the library where all chunks are.
    fn read_index(&self) -> Result<Vec<Entry>, ReadError> {
        let mut entries = Vec::new();
        let visited = self.handle().chunks_visit(|info| {
            let grid = info.offset.iter().zip(self.chunk_shape()).map(|(at, chunk)| at / chunk);
            let coordinates: Vec<u64> = grid.collect();
            let inside = info.offset.iter().zip(&self.shape).all(|(at, extent)| at < extent);
            // No stored chunk is longer than 4 GiB; one that says so is left to fail when it is read.
            let length = u32::try_from(info.size).unwrap_or(u32::MAX);
            let (number, address) = (self.chunk_number(&coordinates), info.addr);
            if inside {
                entries.push(Entry { number, address, length, mask: info.filter_mask });
            }
            i32::from(entries.len() > MOST_CHUNKS)
        });
        visited.map_err(|e| self.damaged(&format!("the list of its chunks cannot be read: {e}")))?;
        if entries.len() > MOST_CHUNKS {
            return Err(
                self.damaged(&format!("it has more than {MOST_CHUNKS} chunks; store it in larger ones"))
            );
        }
        entries.sort_unstable_by_key(|entry| entry.number);
        entries.shrink_to_fit();
        Ok(entries)
    }

    fn decode_chunk(&self, coordinates: &[u64], number: u64, voxel: VoxelType) -> Result<Chunk, ReadError> {
        let Some(entry) = self.index.entry(self, number)? else {
            return self.missing_chunk(coordinates, voxel);
        };
        if let Some(pipeline) = self.direct_pipeline() {
            return self.decode_directly(coordinates, entry, voxel, pipeline);
        }
        self.ensure_reaches(entry)?;
        self.decode_through_library(coordinates, voxel)
    }

    /// Whether the bytes of a chunk are its voxels.
    fn is_unfiltered(&self) -> bool {
        self.filters.is_empty() && self.stored.plain
    }

    /// Reads the voxels of an unfiltered chunk from the first wanted to the last; `None` where it was never written.
    fn read_part(
        &self,
        coordinates: &[u64],
        wanted: &StoredBox,
        voxel: VoxelType,
    ) -> Result<Option<Chunk>, ReadError> {
        let Some(entry) = self.index.entry(self, self.chunk_number(coordinates))? else { return Ok(None) };
        let (part, shape, width) =
            (self.part_of(coordinates, wanted), self.chunk_shape(), self.stored_bytes());
        let first = linear(shape, part.within.iter().copied()) as usize;
        let last = linear(shape, part.within.iter().zip(&part.count).map(|(at, n)| at + n - 1)) as usize;
        let address = entry.address.saturating_add((first * width) as u64);
        let bytes = self.file.read_at(address, (last + 1 - first) * width, &self.place())?;
        let samples = self.samples(bytes, voxel);
        Ok(Some(Chunk { dims: shape.to_vec(), first, samples, constant: false }))
    }

    fn decode_directly(
        &self,
        coordinates: &[u64],
        entry: Entry,
        voxel: VoxelType,
        pipeline: &Pipeline,
    ) -> Result<Chunk, ReadError> {
        let size = self.chunk_voxels() as usize * self.stored_bytes();
        // Held against what the filters could make of it before memory is taken for what the file claims.
        if entry.length as usize > pipeline.most_stored(size) {
            let problem =
                format!("chunk {coordinates:?} claims {} bytes for {size} bytes of voxels", entry.length);
            return Err(self.damaged(&problem));
        }
        let raw = self.file.read_at(entry.address, entry.length as usize, &self.place())?;
        let mask = if self.is_unfiltered_edge(coordinates) { u32::MAX } else { entry.mask };
        let bytes = pipeline
            .decode(raw, mask, size)
            .map_err(|e| self.damaged(&format!("chunk {coordinates:?}: {e}")))?;
        let samples = self.samples(bytes, voxel);
        Ok(Chunk { dims: self.chunk_shape().to_vec(), first: 0, samples, constant: false })
    }

    fn decode_through_library(&self, coordinates: &[u64], voxel: VoxelType) -> Result<Chunk, ReadError> {
        let start = self.chunk_origin(coordinates);
        let room = self.shape.iter().zip(&start).map(|(extent, at)| extent - at);
        let dims: Vec<u64> = room.zip(self.chunk_shape()).map(|(room, chunk)| room.min(*chunk)).collect();
        let samples = self.read_dense(start, dims.clone(), voxel)?;
        Ok(Chunk { dims, first: 0, samples, constant: false })
    }

    /// A chunk that was never written: the library knows the value that stands for it.
    fn missing_chunk(&self, coordinates: &[u64], voxel: VoxelType) -> Result<Chunk, ReadError> {
        let one = StoredBox { start: self.chunk_origin(coordinates), count: vec![1; self.shape.len()] };
        let mut samples = Samples::default();
        samples.reset(voxel, 1);
        self.read_unfiltered_box(&one, &mut samples)?;
        Ok(Chunk { dims: self.chunk_shape().to_vec(), first: 0, samples, constant: true })
    }

    fn read_dense(&self, start: Vec<u64>, count: Vec<u64>, voxel: VoxelType) -> Result<Samples, ReadError> {
        let mut samples = Samples::default();
        samples.reset(voxel, count.iter().product::<u64>() as usize);
        self.read_box(&StoredBox { start, count }, &mut samples)?;
        Ok(samples)
    }

    /// Elements as they are stored, as voxels.
    fn samples(&self, mut bytes: Vec<u8>, voxel: VoxelType) -> Samples {
        if let Some(significant) = self.stored.significant {
            significant.widen(&mut bytes, self.stored_bytes(), self.stored.big_endian);
        }
        Samples::from_stored(voxel, bytes, self.stored.big_endian)
    }

    /// The size of an element in the file, of the plain types that are decoded directly.
    fn stored_bytes(&self) -> usize {
        if self.stored.voxel == VoxelType::F16 { 2 } else { self.stored.voxel.samples().voxel_bytes() }
    }

    fn is_unfiltered_edge(&self, coordinates: &[u64]) -> bool {
        self.edges_are_plain
            && self
                .chunk_origin(coordinates)
                .iter()
                .zip(self.chunk_shape())
                .zip(&self.shape)
                .any(|((origin, chunk), extent)| origin + chunk > *extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_small_as_promised() {
        assert_eq!(std::mem::size_of::<Entry>(), 24);
    }
}
