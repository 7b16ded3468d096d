//! Locates, fetches and decodes one stored chunk of a dataset.
//!
//! Chunks whose filters voltile supports are fetched and decoded by the calling thread; the library
//! reads all other chunks in one step.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use voltile_base::metrics::Meter;
use voltile_base::text::joined;

use super::bytes::{Borrowed, ReadBuffer};
use super::chunks::Chunk;
use super::dataset::{Storage, StoredDataset};
use super::filters::{self, Pipeline};
use super::grid::{Position, StoredBox};
use super::index::Entry;
use crate::volume::{ChunkCoding, ReadError, Samples, StoredRanges, VoxelType};

/// The maximum number of times that a chunk that cannot be decoded is read again, if it may have
/// been read while it was written.
const MAX_REREADS: usize = 5;
/// The pause before a chunk is read again.
const REREAD_PAUSE: Duration = Duration::from_millis(10);
/// The time limit for reading a chunk index to choose a chunk that is probed.
const MAX_PROBE: Duration = Duration::from_secs(2);

/// The lengths in bytes of stored chunks that are decoded from the mapped file. Copying a shorter
/// one costs no more than mapping its pages; decoding a longer one could be taken for a file that
/// hangs.
const MAPPED_LENGTHS: RangeInclusive<u32> = 16 << 10..=8 << 20;

/// A chunk before decoding.
pub(super) enum FetchedChunk<'a> {
    /// It was never written: all its voxels have the fill value.
    NeverWritten,
    /// Its index entry, its stored bytes, and their decoder.
    Bytes(Entry, StoredBytes<'a>, &'a Pipeline),
    /// It is not fetched: the library reads and decodes it in one step.
    InLibrary,
}

/// The stored bytes of a chunk.
pub(super) enum StoredBytes<'a> {
    Copied(ReadBuffer),
    /// In the page cache, lent by the mapped file.
    Mapped(Borrowed<'a>),
}

impl StoredDataset {
    /// Whether chunks are decoded by voltile, outside the library's lock.
    pub(super) fn is_decoded_directly(&self) -> bool {
        self.direct_pipeline().is_some()
    }

    /// The decoder of its chunks if voltile decodes them, outside the library's lock.
    pub(super) fn direct_pipeline(&self) -> Option<&Pipeline> {
        if !self.is_in_chunks() || !self.stored.plain {
            return None;
        }
        self.pipeline.as_ref()
    }

    /// Where chunks lie in an object of a store, given their positions and index entries; `None`
    /// for a local file, and for chunks that the library reads.
    pub(super) fn ranges(
        &self,
        chunks: impl Iterator<Item = (Position, Option<Entry>)>,
    ) -> Option<StoredRanges> {
        let object = Arc::clone(self.file.bytes.object()?);
        self.direct_pipeline()?;
        let mut ranges = Vec::new();
        for (at, entry) in chunks {
            // If a chunk cannot be read, reading it reports the error.
            if let Some(entry) = entry
                && self.is_readable(&at, entry)
                && entry.end() <= object.length()
            {
                ranges.push(entry.address..entry.end());
            }
        }
        Some(StoredRanges {
            ranges,
            object,
            place: self.place(),
        })
    }

    /// Fails if a chunk that a box intersects lies beyond the end of the file.
    pub(super) fn ensure_chunks_in_file(&self, stored: &StoredBox) -> Result<(), ReadError> {
        if !matches!(self.storage, Storage::Chunked { .. }) {
            return Ok(());
        }
        for at in self.grid.chunks_of(stored) {
            if let Some(entry) = self.entry(&at)? {
                self.file.bytes.ensure_reaches(entry.end(), &self.place())?;
            }
        }
        Ok(())
    }

    /// Reads the stored bytes of a chunk, given its index entry.
    pub(super) fn fetch(
        &self,
        at: &Position,
        entry: Option<Entry>,
        meter: Meter<'_>,
    ) -> Result<FetchedChunk<'_>, ReadError> {
        let Some(entry) = entry else {
            return Ok(FetchedChunk::NeverWritten);
        };
        let Some(pipeline) = self.direct_pipeline() else {
            self.file.bytes.ensure_reaches(entry.end(), &self.place())?;
            return Ok(FetchedChunk::InLibrary);
        };
        self.ensure_readable(at, entry, pipeline)?;
        let began = Instant::now();
        let fetched = match self.mapped_bytes(at, entry, pipeline)? {
            Some(mapped) => StoredBytes::Mapped(mapped),
            None => StoredBytes::Copied(self.bytes_of(&entry)?),
        };
        meter.read_chunk(u64::from(entry.length), began.elapsed());
        Ok(FetchedChunk::Bytes(entry, fetched, pipeline))
    }

    /// How programs that know nothing of HDF5 can decode its chunks to voxels of this type; an
    /// error is the reason why they cannot.
    pub(super) fn chunk_coding(&self, voxel: VoxelType) -> Result<ChunkCoding, String> {
        if !matches!(self.storage, Storage::Chunked { .. }) {
            return Err("it is not stored in chunks".to_owned());
        }
        if !self.stored.plain || self.stored.significant.is_some() {
            return Err("its numbers are packed".to_owned());
        }
        let is_zlib = self.pipeline.as_ref().is_some_and(Pipeline::is_deflate);
        if !is_zlib && !self.filters.is_empty() {
            let names = joined(self.filters.iter().map(filters::describe));
            return Err(format!("its filters are {names}, not deflate alone"));
        }
        Ok(ChunkCoding {
            is_zlib,
            voxel,
            is_big_endian: self.is_big_endian(),
        })
    }

    /// The bytes of a chunk as they are in the file; `None` if it was never written, or is not
    /// coded as the dataset says.
    pub(super) fn bytes_as_stored(
        &self,
        at: Position,
        meter: Meter<'_>,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let (Some(entry), Some(pipeline)) = (self.entry(&at)?, self.direct_pipeline()) else {
            return Ok(None);
        };
        if !self.is_coded_alike(&at, entry) {
            return Ok(None);
        }
        self.ensure_readable(&at, entry, pipeline)?;
        let mut bytes = vec![0; entry.length as usize];
        let began = Instant::now();
        self.file
            .bytes
            .read_exact_at(&mut bytes, entry.address, &self.place())?;
        meter.read_chunk(u64::from(entry.length), began.elapsed());
        Ok(Some(bytes))
    }

    /// Like [`StoredDataset::bytes_as_stored`], but also `None` if it had to wait: if the chunk
    /// index has not been read, or the bytes are not in the page cache.
    pub(super) fn cached_bytes_as_stored(&self, at: Position) -> Option<Bytes> {
        let entry = self.known_entry(&at)?;
        if !self.is_coded_alike(&at, entry) || !self.is_readable(&at, entry) {
            return None;
        }
        let bytes = &self.file.bytes;
        bytes.read_cached(entry.address, entry.length as usize)
    }

    /// Whether voltile decodes a chunk: it has all filters that the chunk went through, and the
    /// chunk is no longer than they can produce.
    pub(super) fn is_readable(&self, at: &Position, entry: Entry) -> bool {
        self.direct_pipeline()
            .is_some_and(|pipeline| self.ensure_readable(at, entry, pipeline).is_ok())
    }

    /// The filters that a chunk did not go through, each a set bit.
    fn skipped_filters(&self, at: &Position, entry: Entry) -> u32 {
        if self.edges_are_plain && self.grid.is_cut(at) {
            u32::MAX
        } else {
            entry.mask
        }
    }

    /// Whether a chunk is coded as the dataset says: it went through all filters or, if there are
    /// none, is stored in full length.
    pub(super) fn is_coded_alike(&self, at: &Position, entry: Entry) -> bool {
        if self.filters.is_empty() {
            u64::from(entry.length) == self.chunk_bytes()
        } else {
            self.skipped_filters(at, entry) == 0
        }
    }

    /// Fails if a chunk went through a filter that is missing here, or is longer than anything its
    /// filters can produce, as a damaged file may say. Checked before it is fetched, and before
    /// memory is allocated.
    fn ensure_readable(
        &self,
        at: &Position,
        entry: Entry,
        pipeline: &Pipeline,
    ) -> Result<(), ReadError> {
        pipeline
            .ensure_decodes(self.skipped_filters(at, entry))
            .map_err(|error| error.at(self.place(), &self.chunk_name(at)))?;
        if entry.length as usize <= pipeline.most_stored(self.chunk_bytes() as usize) {
            return Ok(());
        }
        let chunk = self.chunk_name(at);
        let length = entry.length;
        let problem = format!("chunk {chunk} has an impossible stored size, {length} bytes");
        Err(self.damaged(&problem))
    }

    /// Tests on one chunk, which went through as many filters as any other, whether chunks can be
    /// decoded; fails if not. A large chunk is not decoded. Succeeds at once if the list of filters
    /// alone tells; gives up on an index that takes long to read.
    pub(super) fn probe_chunk(&self, pipeline: &Pipeline) -> Result<(), ReadError> {
        let may_decode = self.is_light();
        if !pipeline.needs_probe() || (pipeline.is_complete() && !may_decode) {
            return Ok(());
        }
        let entries = self.entries(Some(Instant::now() + MAX_PROBE))?.iter();
        let Some(entry) = entries.min_by_key(|entry| entry.mask.count_ones()) else {
            return Ok(());
        };
        let at = self.grid.numbered(entry.number);
        self.ensure_readable(&at, *entry, pipeline)?;
        if !may_decode {
            return Ok(());
        }
        let bytes = StoredBytes::Copied(self.bytes_of(entry)?);
        self.decode_bytes(&at, entry, &bytes, pipeline, 1).map(drop)
    }

    /// Borrows the mapped file, with the stored bytes of a chunk in memory; `None` if the bytes
    /// must be copied.
    fn mapped_bytes(
        &self,
        at: &Position,
        entry: Entry,
        pipeline: &Pipeline,
    ) -> Result<Option<Borrowed<'_>>, ReadError> {
        let file = &self.file.bytes;
        let is_suitable = MAPPED_LENGTHS.contains(&entry.length)
            && pipeline.begins_with_deflate(self.skipped_filters(at, entry))
            && !self.may_change(at)
            && file.can_be_mapped();
        if !is_suitable {
            return Ok(None);
        }
        let borrowed = file.borrow(self.place())?;
        let is_populated = borrowed.populate(entry.address, entry.length as usize);
        Ok(is_populated.then_some(borrowed))
    }

    /// The stored bytes of a chunk.
    fn bytes_of(&self, entry: &Entry) -> Result<ReadBuffer, ReadError> {
        let length = entry.length as usize;
        self.file.bytes.fetch(entry.address, length, &self.place())
    }

    /// Decodes at least the first `wanted` voxels of a chunk, to type `voxel`.
    pub(super) fn decode(
        &self,
        at: &Position,
        fetched: &FetchedChunk<'_>,
        wanted: u64,
        voxel: VoxelType,
        meter: Meter<'_>,
    ) -> Result<Chunk, ReadError> {
        match fetched {
            // Each number in an element has a fill value of its own.
            FetchedChunk::NeverWritten if !self.stored.extents.is_empty() => {
                self.read_whole(at, voxel, Self::read_unfiltered_box)
            }
            FetchedChunk::NeverWritten => Ok(Chunk::never_written(
                *self.grid.chunk(),
                self.fill_value(self.grid.origin(at), voxel)?,
            )),
            FetchedChunk::Bytes(entry, bytes, pipeline) => {
                let began = Instant::now();
                let decoded = self.decode_bytes(at, entry, bytes, pipeline, wanted)?;
                let dims = self.extents(at);
                let chunk = Chunk::new(dims, self.samples(decoded, voxel));
                meter.decoded_chunk(began.elapsed());
                Ok(chunk)
            }
            FetchedChunk::InLibrary => {
                meter.read_in_library(|| self.read_whole(at, voxel, Self::read_box))
            }
        }
    }

    /// Decodes the stored bytes of a chunk, at least to its first `wanted` voxels.
    fn decode_bytes(
        &self,
        at: &Position,
        entry: &Entry,
        stored: &StoredBytes<'_>,
        pipeline: &Pipeline,
        wanted: u64,
    ) -> Result<Vec<u8>, ReadError> {
        let mask = self.skipped_filters(at, *entry);
        let voxel_bytes = self.stored_bytes();
        let wanted_bytes = usize::try_from(wanted)
            .unwrap_or(usize::MAX)
            .saturating_mul(voxel_bytes);
        let all_bytes = self.extents(at).iter().product::<u64>() as usize * voxel_bytes;
        let mut decoded = match stored {
            StoredBytes::Copied(bytes) => pipeline.decode(bytes, mask, all_bytes, wanted_bytes),
            StoredBytes::Mapped(borrowed) => {
                let length = entry.length as usize;
                // Not announced as dense: the pages are mapped already.
                let decoded = borrowed.lend(entry.address, length, false, |bytes| {
                    pipeline.decode(bytes, mask, all_bytes, wanted_bytes)
                })?;
                borrowed.ensure_still_there()?;
                decoded
            }
        };
        // A chunk may have been read while it was written again in the same place.
        let attempts = if self.may_change(at) { MAX_REREADS } else { 0 };
        for _ in 0..attempts {
            let Err(error) = &decoded else { break };
            if error.is_unsupported() {
                break;
            }
            thread::sleep(REREAD_PAUSE);
            let again = self.bytes_of(entry)?;
            decoded = pipeline.decode(&again, mask, all_bytes, wanted_bytes);
        }
        decoded.map_err(|error| {
            // The bytes are requested again next time: a store or a proxy may have garbled them.
            if let Some(object) = self.file.bytes.object() {
                object.forget(&(entry.address..entry.end()));
            }
            error.at(self.place(), &self.chunk_name(at))
        })
    }

    /// Reads a whole chunk as a box, which `read_box` reads through the library.
    fn read_whole(
        &self,
        at: &Position,
        voxel: VoxelType,
        read_box: fn(&Self, &StoredBox, &mut Samples) -> Result<(), ReadError>,
    ) -> Result<Chunk, ReadError> {
        let start = self.grid.origin(at);
        let count = self.grid.extents(at);
        let mut samples = Samples::default();
        samples.reset(voxel, count.iter().product::<u64>() as usize);
        read_box(self, &StoredBox { start, count }, &mut samples)?;
        Ok(Chunk::new(count, samples))
    }

    /// The extents of a chunk as it is stored: pieces are cut at the end of the dataset, chunks are
    /// not.
    fn extents(&self, at: &Position) -> Position {
        match self.pieces_at {
            Some(_) => self.grid.extents(at),
            None => *self.grid.chunk(),
        }
    }
}
