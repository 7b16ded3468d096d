//! Locates, fetches and decodes one stored chunk of a dataset.
//!
//! Chunks whose filters voltile supports are fetched and decoded by the calling thread; others are read by the
//! library in one step.

use std::time::Instant;

use super::bytes::Fetched;
use super::chunks::Chunk;
use super::dataset::{Storage, StoredDataset};
use super::filters::Pipeline;
use super::grid::{Position, StoredBox};
use super::index::Entry;
use crate::metrics::Metrics;
use crate::volume::{ReadError, Samples, VoxelType};

/// A position in the chunk grid, and the index entry of the chunk there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located {
    pub at: Position,
    /// `None` if it was never written.
    entry: Option<Entry>,
}

/// A chunk before decoding.
pub(super) enum Stored<'a> {
    /// It was never written: all its voxels have the fill value.
    Nothing,
    /// Its stored bytes, and what decodes them.
    Bytes(Entry, Fetched, &'a Pipeline),
    /// Not fetched: the library reads and decodes it in one step.
    InLibrary,
}

impl StoredDataset {
    /// Whether chunks are decoded by voltile, outside the library's lock.
    pub(super) fn is_decoded_directly(&self) -> bool {
        self.direct_pipeline().is_some()
    }

    fn direct_pipeline(&self) -> Option<&Pipeline> {
        let direct = matches!(self.storage, Storage::Chunked { .. }) && self.stored.plain;
        self.pipeline.as_ref().filter(|_| direct)
    }

    /// Finds a chunk in the index. Reads from the file only until the index is loaded.
    pub(super) fn locate(&self, at: Position) -> Result<Located, ReadError> {
        Ok(Located { at, entry: self.entry(&at)? })
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

    /// Reads the stored bytes of a chunk.
    pub(super) fn fetch(&self, chunk: &Located, metrics: &Metrics) -> Result<Stored<'_>, ReadError> {
        let Some(entry) = chunk.entry else { return Ok(Stored::Nothing) };
        let Some(pipeline) = self.direct_pipeline() else {
            self.file.bytes.ensure_reaches(entry.end(), &self.place())?;
            return Ok(Stored::InLibrary);
        };
        // A damaged file can give any length. Checked against the most that the filters can produce before memory is
        // allocated.
        if entry.length as usize > pipeline.most_stored(self.decoded_bytes()) {
            let problem = format!(
                "chunk {} has an impossible stored size, {} bytes",
                self.chunk_name(&chunk.at),
                entry.length
            );
            return Err(self.damaged(&problem));
        }
        let began = Instant::now();
        let fetched = self.file.bytes.fetch(entry.address, entry.length as usize, &self.place())?;
        metrics.chunk_stored_bytes.inc_by(u64::from(entry.length));
        metrics.chunk_reading.add(began.elapsed());
        Ok(Stored::Bytes(entry, fetched, pipeline))
    }

    /// Decodes at least the first `wanted` voxels of a chunk, to type `voxel`.
    pub(super) fn decode(
        &self,
        chunk: &Located,
        stored: &Stored<'_>,
        wanted: u64,
        voxel: VoxelType,
        metrics: &Metrics,
    ) -> Result<Chunk, ReadError> {
        match stored {
            Stored::Nothing => Ok(Chunk::never_written(
                *self.grid.chunk(),
                self.fill_value(self.grid.origin(&chunk.at), voxel)?,
            )),
            Stored::Bytes(entry, bytes, pipeline) => {
                let began = Instant::now();
                let edge_is_plain = self.edges_are_plain && self.grid.is_cut(&chunk.at);
                let mask = if edge_is_plain { u32::MAX } else { entry.mask };
                let wanted =
                    usize::try_from(wanted).unwrap_or(usize::MAX).saturating_mul(self.stored_bytes());
                let decoded =
                    pipeline.decode(bytes, mask, self.decoded_bytes(), wanted).map_err(|error| {
                        let problem = format!("chunk {}: {error}", self.chunk_name(&chunk.at));
                        let place = self.place();
                        match error.is_corrupt() {
                            true => ReadError::Corrupt { place, problem },
                            false => ReadError::Damaged { place, problem },
                        }
                    })?;
                let chunk = Chunk::new(*self.grid.chunk(), self.samples(decoded, voxel));
                metrics.chunk_decoding.add(began.elapsed());
                Ok(chunk)
            }
            Stored::InLibrary => metrics.library.time(|| self.decode_through_library(&chunk.at, voxel)),
        }
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

    /// The size of a whole decoded chunk, in bytes.
    fn decoded_bytes(&self) -> usize {
        self.grid.voxels() as usize * self.stored_bytes()
    }
}
