//! How far chunks are decoded at first, and how those that were decoded in part are finished while threads are idle.
//!
//! If its filters allow it, a chunk is decoded only up to the last voxel wanted, because a random tile needs half of each
//! chunk on average. If more of it is wanted afterwards, all of its slices are likely to be, and it is decoded whole. But
//! if there have been pauses lately, a person is looking at the tiles: decoding a screen full of chunks whole would take
//! too long, and the next pauses are used to finish them.

use std::sync::Arc;

use super::unfinished::Unfinished;
use super::{Chunk, ChunkKey, ChunkRequest, ChunkStore};
use crate::config::Verify;
use crate::volume::hdf5::dataset::StoredDataset;
use crate::volume::hdf5::grid::{Position, StoredBox};
use crate::volume::hdf5::stored_chunk::{Located, Stored};
use crate::volume::{ChunkId, ReadError};

/// How much of a chunk is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Extent {
    /// All of it, with its checksum.
    Whole,
    /// Its first voxels, this many.
    Prefix(u64),
}

/// What is known of the checksums of the chunks that a tile was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// All are right.
    Verified,
    /// Some have yet to be compared.
    Unverified,
    /// Some are wrong.
    Refused,
}

impl ChunkStore {
    /// The same store with another setting of `render.verify`.
    pub fn verifying(self, verify: Verify) -> Self {
        Self { verify, ..self }
    }

    /// Decodes chunks whole from now on, even if they should be verified while idle: there will be no idle time.
    pub fn verify_at_once(&self) {
        self.at_once.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn verify(&self) -> Verify {
        let at_once = self.at_once.load(std::sync::atomic::Ordering::Relaxed);
        if at_once && self.verify == Verify::Idle { Verify::Always } else { self.verify }
    }

    /// How far to decode a wanted chunk; `is_begun` says that a shorter prefix of it is in the cache.
    pub(super) fn extent(&self, wanted: &ChunkRequest<'_>, is_begun: bool) -> Extent {
        let verify = self.verify();
        if verify == Verify::Always
            || wanted.voxels >= wanted.dataset.grid.voxels()
            || self.refused.has(&wanted.id())
        {
            return Extent::Whole;
        }
        let interactive = verify == Verify::Idle && self.activity.paused_lately();
        if interactive {
            // A little further than wanted: enough for the next slices while the chunk is being finished.
            return Extent::Prefix(wanted.voxels + wanted.voxels / 10);
        }
        match is_begun || self.follows_a_whole_one(wanted) {
            true => Extent::Whole,
            false => Extent::Prefix(wanted.voxels),
        }
    }

    /// Whether the first slice of a chunk is wanted and the previous chunk along that axis is cached whole, and not as a
    /// single value, which it would be however little of it was wanted: a client is scrolling, and will want every slice.
    ///
    /// The slice must be at most a sixteenth of the chunk: if the cache is too small for what is scrolled through, chunks
    /// that are decoded whole each time would cost twice as much.
    fn follows_a_whole_one(&self, wanted: &ChunkRequest<'_>) -> bool {
        let (dataset, at) = (wanted.dataset, &wanted.at);
        let chunk = dataset.grid.chunk();
        let Some(axis) = chunk.iter().position(|extent| *extent > 1) else { return false };
        let Some(before) = at[axis].checked_sub(1) else { return false };
        if chunk[axis] < 16 || wanted.voxels > dataset.grid.voxels() / chunk[axis] {
            return false;
        }
        let mut place = *at;
        place[axis] = before;
        let previous = self.cache.peek(&(dataset.id, dataset.grid.number(&place), wanted.voxel));
        previous.is_some_and(|chunk| chunk.whole && !chunk.constant)
    }

    /// Decodes a chunk to the extent. If its stream breaks off behind the wanted voxels, the prefix is enough.
    pub(in super::super) fn decode(
        &self,
        wanted: &ChunkRequest<'_>,
        located: &Located,
        stored: &Stored,
        extent: Extent,
    ) -> Result<Chunk, ReadError> {
        let decode = |voxels| wanted.dataset.decode(located, stored, voxels, wanted.voxel, &self.metrics);
        let voxels = if let Extent::Prefix(voxels) = extent { voxels } else { u64::MAX };
        let no_less = voxels == wanted.voxels || wanted.voxels >= wanted.dataset.grid.voxels();
        let chunk = match decode(voxels) {
            Ok(chunk) => chunk,
            Err(error) if no_less || !self.may_show_prefix(&error, wanted) => return Err(error),
            Err(_) if extent != Extent::Whole => decode(wanted.voxels)?,
            Err(damage) => {
                tracing::warn!("{damage}; slices before the damage are shown");
                let chunk = decode(wanted.voxels)?;
                chunk.settle();
                chunk
            }
        };
        self.metrics.chunk_decoded_bytes.inc_by(chunk.samples.bytes().len() as u64);
        self.note(&chunk, wanted);
        Ok(chunk)
    }

    /// Whether the prefix of a chunk that cannot be decoded whole may be shown. Refuses the chunk if it is corrupt.
    fn may_show_prefix(&self, error: &ReadError, wanted: &ChunkRequest<'_>) -> bool {
        if self.verify == Verify::Never {
            return true;
        }
        if matches!(error, ReadError::Corrupt { .. }) {
            self.refuse(error, wanted.id());
        }
        !self.refused.has(&wanted.id())
    }

    /// Puts a chunk that was decoded in part on the list of those to be finished, or takes it off.
    pub(super) fn note(&self, chunk: &Chunk, wanted: &ChunkRequest<'_>) {
        if chunk.whole {
            self.unfinished.remove(&wanted.id());
        } else if self.verify() == Verify::Idle && !chunk.is_settled() {
            let ChunkRequest { dataset, at, voxel, .. } = *wanted;
            let unfinished = || Unfinished { dataset: Arc::downgrade(dataset), at, voxel };
            self.unfinished.add(wanted.id(), unfinished);
        }
    }

    /// Whether there are chunks to be finished.
    pub fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Decodes the rest of one chunk that was decoded in part; false if there is none.
    pub fn finish_one(&self) -> bool {
        let Some((work, chunk)) = self.unfinished.take() else { return false };
        let Unfinished { dataset, at, voxel } = chunk;
        // The file has been closed: the chunk counts as given up.
        let Some(dataset) = dataset.upgrade() else { return true };
        let key = (dataset.id, work.id.number, voxel);
        let whole = dataset.locate(at).and_then(|located| {
            let stored = dataset.fetch(&located, &self.metrics)?;
            dataset.decode(&located, &stored, u64::MAX, voxel, &self.metrics)
        });
        match whole {
            Ok(chunk) => {
                self.metrics.chunks_finished.inc();
                self.metrics.chunk_decoded_bytes.inc_by(chunk.samples.bytes().len() as u64);
                let weight = chunk.weight();
                self.cache.replace_if(&key, Arc::new(chunk), weight, |kept| !kept.whole);
            }
            Err(error @ ReadError::Corrupt { .. }) => {
                self.refuse(&error, work.id);
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

    fn refuse(&self, error: &ReadError, id: ChunkId) {
        if self.refused.add(id) {
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
