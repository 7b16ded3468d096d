//! How far chunks are decoded at first, and how those that were decoded in part are finished while threads are idle.
//!
//! A chunk is decoded no further than the last voxel wanted where its filters allow it, because a tile asked for at random
//! needs half of each chunk on average. If more of it is wanted at once, all slices are likely to be, and it is decoded
//! whole. If there was a pause before, somebody looks at what they see: then a screen full of chunks decoded whole
//! would take too long, and the next pauses are there to finish them.

use std::sync::Arc;

use super::unfinished::Unfinished;
use super::{Chunk, ChunkKey, ChunkStore};
use crate::activity::Moment;
use crate::config::Verify;
use crate::volume::hdf5::dataset::StoredDataset;
use crate::volume::hdf5::grid::{Position, StoredBox};
use crate::volume::{ChunkId, ReadError, VoxelType};

/// How much of a chunk is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it, with its checksum.
    Whole,
    /// So many voxels from the first on.
    Prefix(u64),
}

/// What became of chunks of which a tile was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Their checksums are right.
    Verified,
    /// Some have yet to be compared.
    Unverified,
    /// Some are wrong.
    Refused,
}

impl ChunkStore {
    /// The same store, which verifies chunks so.
    pub fn verifying(self, verify: Verify) -> Self {
        Self { verify, ..self }
    }

    /// Has chunks decoded whole from now on, also where they should be verified in idle time: there will be none.
    pub fn verify_at_once(&self) {
        self.at_once.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn verify(&self) -> Verify {
        let at_once = self.at_once.load(std::sync::atomic::Ordering::Relaxed);
        if at_once && self.verify == Verify::Idle { Verify::Always } else { self.verify }
    }

    /// How far a chunk is decoded, of which so many voxels are wanted and which is kept in part since `begun`.
    pub(super) fn extent(
        &self,
        dataset: &StoredDataset,
        at: &Position,
        wanted: u64,
        voxel: VoxelType,
        begun: Option<Moment>,
    ) -> Extent {
        let verify = self.verify();
        if verify == Verify::Always || wanted >= dataset.grid.voxels() || self.refused.has(&dataset.chunk_id(at))
        {
            return Extent::Whole;
        }
        let interactive = verify == Verify::Idle && self.activity.paused_lately();
        let whole = match begun {
            Some(begun) => verify == Verify::Never || self.activity.last_pause() <= begun,
            None => !interactive && self.follows_a_whole_one(dataset, at, wanted, voxel),
        };
        match whole {
            true => Extent::Whole,
            // A little further than wanted: enough for the next slices while the chunk is being finished.
            false if interactive => Extent::Prefix(wanted + wanted / 10),
            false => Extent::Prefix(wanted),
        }
    }

    /// Whether the first slice of a chunk is wanted and the chunk before it is kept whole, though not as a single value,
    /// which it would be however little was wanted: somebody goes through slices, and will want all of them. The first
    /// is to be no more than a sixteenth: where the cache has no room for all that is gone through, chunks that are
    /// decoded whole each time would cost twice as much.
    fn follows_a_whole_one(
        &self,
        dataset: &StoredDataset,
        at: &Position,
        wanted: u64,
        voxel: VoxelType,
    ) -> bool {
        let chunk = dataset.grid.chunk();
        let Some(axis) = chunk.iter().position(|extent| *extent > 1) else { return false };
        let Some(before) = at[axis].checked_sub(1) else { return false };
        if chunk[axis] < 16 || wanted > dataset.grid.voxels() / chunk[axis] {
            return false;
        }
        let mut place = *at;
        place[axis] = before;
        let kept = self.cache.peek(&(dataset.id, dataset.grid.number(&place), voxel));
        kept.is_some_and(|chunk| chunk.whole && !chunk.constant)
    }

    /// Decodes a chunk that far. Where its stream breaks off behind what is wanted, the beginning will do.
    pub(super) fn decode(
        &self,
        dataset: &Arc<StoredDataset>,
        at: &Position,
        wanted: u64,
        voxel: VoxelType,
        extent: Extent,
    ) -> Result<Chunk, ReadError> {
        let decode = |voxels| dataset.decode_chunk(at, voxels, voxel, &self.metrics);
        let voxels = if let Extent::Prefix(voxels) = extent { voxels } else { u64::MAX };
        let no_less = voxels == wanted || wanted >= dataset.grid.voxels();
        let chunk = match decode(voxels) {
            Ok(chunk) => chunk,
            Err(error) if !self.shows_before(&error, dataset, at) || no_less => return Err(error),
            Err(_) if extent != Extent::Whole => decode(wanted)?,
            Err(damage) => {
                tracing::warn!("{damage}; slices before the damage are shown");
                let chunk = decode(wanted)?;
                chunk.settle();
                chunk
            }
        };
        self.metrics.chunk_decoded_bytes.inc_by(chunk.samples.bytes().len() as u64);
        self.note(&chunk, dataset, at, voxel);
        Ok(chunk)
    }

    /// Whether the beginning of a chunk that cannot be decoded whole may be shown. Refuses one that is corrupt.
    fn shows_before(&self, error: &ReadError, dataset: &StoredDataset, at: &Position) -> bool {
        if self.verify == Verify::Never {
            return true;
        }
        if matches!(error, ReadError::Corrupt { .. }) {
            self.refuse(error, dataset, at);
        }
        !self.refused.has(&dataset.chunk_id(at))
    }

    /// Notes that a chunk is to be finished, or need not be any more.
    pub(super) fn note(&self, chunk: &Chunk, dataset: &Arc<StoredDataset>, at: &Position, voxel: VoxelType) {
        if chunk.whole {
            self.unfinished.remove(&dataset.chunk_id(at));
        } else if self.verify() == Verify::Idle && !chunk.is_settled() {
            let unfinished = || Unfinished { dataset: Arc::downgrade(dataset), at: *at, voxel };
            self.unfinished.add(dataset.chunk_id(at), unfinished);
        }
    }

    /// Whether there are chunks to be finished.
    pub fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Decodes one chunk whole of those that were decoded in part; false where none is left.
    pub fn finish_one(&self) -> bool {
        let Some((work, chunk)) = self.unfinished.take() else { return false };
        let Unfinished { dataset, at, voxel } = chunk;
        // Where the file was closed meanwhile nobody will know.
        let Some(dataset) = dataset.upgrade() else { return true };
        let key = (dataset.id, work.id.number, voxel);
        match dataset.decode_chunk(&at, u64::MAX, voxel, &self.metrics) {
            Ok(chunk) => {
                self.metrics.chunks_finished.inc();
                self.metrics.chunk_decoded_bytes.inc_by(chunk.samples.bytes().len() as u64);
                let weight = chunk.weight();
                self.cache.replace_if(&key, Arc::new(chunk), weight, |kept| !kept.whole);
            }
            Err(error @ ReadError::Corrupt { .. }) => {
                self.refuse(&error, &dataset, &at);
                self.cache.remove_if(&key, |kept| !kept.whole);
            }
            Err(damage @ ReadError::Damaged { .. }) => self.settle(&key, &damage),
            // It may be readable again later, and is not verified until then.
            Err(_) => return true,
        }
        work.done();
        true
    }

    /// A chunk whose stream breaks off stays as far as it was decoded.
    fn settle(&self, key: &ChunkKey, damage: &ReadError) {
        tracing::warn!("{damage}; slices before the damage are shown");
        if let Some(chunk) = self.cache.peek(key) {
            chunk.settle();
        }
    }

    fn refuse(&self, error: &ReadError, dataset: &StoredDataset, at: &Position) {
        if self.refused.add(dataset.chunk_id(at)) {
            self.metrics.chunks_refused.inc();
            tracing::error!(
                "{error}; every tile that touches this chunk is an error until the file is mended"
            );
        }
    }

    /// Whether any chunk was found to be corrupt.
    pub fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Whether a box of a dataset touches a chunk that was found to be corrupt.
    pub(in super::super) fn touches_refused(&self, dataset: &StoredDataset, stored: &StoredBox) -> bool {
        self.refused.touches(dataset.id, &dataset.grid, stored)
    }

    /// The chunks in a box of a dataset that are not known to be sound.
    pub(in super::super) fn unverified(&self, dataset: &StoredDataset, stored: &StoredBox) -> Vec<ChunkId> {
        if self.unfinished.is_empty() && self.refused.is_empty() {
            return Vec::new();
        }
        let all = dataset.grid.chunks_of(stored).map(|at| dataset.chunk_id(&at));
        all.filter(|id| self.unfinished.has(id) || self.refused.has(id)).collect()
    }

    /// What became of chunks that were not verified yet.
    pub fn standing(&self, chunks: &[ChunkId]) -> Standing {
        // In this order: a chunk is refused before it is taken off the list.
        if chunks.iter().any(|id| self.unfinished.has(id)) {
            Standing::Unverified
        } else if chunks.iter().any(|id| self.refused.has(id)) {
            Standing::Refused
        } else {
            Standing::Verified
        }
    }

    /// How many chunks were given up without anybody knowing whether they are sound.
    pub fn given_up(&self) -> u64 {
        self.unfinished.given_up()
    }
}

impl StoredDataset {
    /// What tells a chunk from all others.
    pub(super) fn chunk_id(&self, at: &Position) -> ChunkId {
        ChunkId { dataset: self.id, number: self.grid.number(at) }
    }
}
