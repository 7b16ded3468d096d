//! Decides how far chunks are decoded, and finishes prefix-decoded chunks while threads are idle.
//!
//! If its filters allow it, a chunk is decoded only up to the last voxel wanted: a random tile
//! needs half of each chunk on average. If more of it is wanted later, all of its slices probably
//! are, and it is decoded whole. But if requests have paused lately, a person is looking at the
//! tiles: decoding a screen full of chunks whole would take too long, and they are finished in the
//! next pauses.

use std::sync::Arc;
use std::time::Instant;

use super::unfinished::Unfinished;
use super::{Chunk, ChunkKey, ChunkRequest, ChunkStore, Extent};
use crate::config::Verify;
use crate::flow::trace::RequestId;
use crate::metrics::Meter;
use crate::volume::hdf5::dataset::StoredDataset;
use crate::volume::hdf5::grid::{Position, StoredBox};
use crate::volume::hdf5::stored_chunk::{Located, Stored};
use crate::volume::{ChunkId, ReadError};

/// Whether the checksums of the chunks that a tile was made from are known to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// All are right.
    Verified,
    /// Some have not been compared yet.
    Unverified,
    /// At least one is wrong.
    Refused,
}

impl ChunkStore {
    /// Sets when chunks are verified (`render.verify`).
    pub fn verifying(self, verify: Verify) -> Self {
        Self { verify, ..self }
    }

    /// From now on, decodes chunks whole even under `render.verify = "idle"`: there will be no idle
    /// time.
    pub fn verify_at_once(&self) {
        self.at_once
            .store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn verify(&self) -> Verify {
        let at_once = self.at_once.load(std::sync::atomic::Ordering::Relaxed);
        if at_once && self.verify == Verify::Idle {
            Verify::Always
        } else {
            self.verify
        }
    }

    /// How far to decode a chunk. `begun` is when a shorter prefix of it was decoded that is in the
    /// cache.
    pub(super) fn extent(&self, wanted: &ChunkRequest<'_>, begun: Option<Instant>) -> Extent {
        let verify = self.verify();
        if verify == Verify::Always
            || wanted.voxels >= wanted.dataset.grid.voxels()
            || self.refused.has(&wanted.id())
        {
            return Extent::Whole;
        }
        let interactive = verify == Verify::Idle && self.activity.paused_lately();
        match begun {
            // A tenth more than wanted: enough for the next slices until the chunk is finished.
            None if interactive => Extent::Prefix(wanted.voxels + wanted.voxels / 10),
            None if self.follows_a_whole_one(wanted) => Extent::Whole,
            None => Extent::Prefix(wanted.voxels),
            Some(begun) if interactive && self.activity.last_pause() > begun => {
                Extent::Prefix(wanted.voxels + wanted.voxels / 10)
            }
            // The next slice came without a pause. A short prefix delays it least; doubling bounds
            // what is decoded again.
            Some(_) if interactive && wanted.voxels <= wanted.dataset.grid.voxels() / 8 => {
                Extent::Prefix(2 * wanted.voxels)
            }
            Some(_) => Extent::Whole,
        }
    }

    /// Whether the first slice of a chunk is wanted and the previous chunk along the slowest axis
    /// is cached whole: a client is scrolling, and will want every slice. A constant chunk does not
    /// count, since it is cached whole in any case.
    ///
    /// The slice must be at most a sixteenth of the chunk: if the cache is too small for the
    /// scroll, decoding chunks whole each time would cost twice as much.
    fn follows_a_whole_one(&self, wanted: &ChunkRequest<'_>) -> bool {
        let (dataset, at) = (wanted.dataset, &wanted.at);
        let chunk = dataset.grid.chunk();
        let Some(axis) = chunk.iter().position(|extent| *extent > 1) else {
            return false;
        };
        let Some(before) = at[axis].checked_sub(1) else {
            return false;
        };
        if chunk[axis] < 16 || wanted.voxels > dataset.grid.voxels() / chunk[axis] {
            return false;
        }
        let mut place = *at;
        place[axis] = before;
        let previous = self.cache.peek(&(
            dataset.content_id(&place),
            dataset.grid.number(&place),
            wanted.voxel,
        ));
        previous.is_some_and(|chunk| chunk.whole && !chunk.constant)
    }

    /// Decodes a chunk to the given extent. If its stream breaks off after the wanted voxels,
    /// decodes only these.
    pub(in super::super) fn decode(
        &self,
        wanted: &ChunkRequest<'_>,
        located: &Located,
        stored: &Stored<'_>,
        extent: Extent,
    ) -> Result<Chunk, ReadError> {
        let decode = |voxels| {
            wanted
                .dataset
                .decode(located, stored, voxels, wanted.voxel, self.meter(wanted))
        };
        let voxels = if let Extent::Prefix(voxels) = extent {
            voxels
        } else {
            u64::MAX
        };
        let no_less = voxels == wanted.voxels || wanted.voxels >= wanted.dataset.grid.voxels();
        let chunk = match decode(voxels) {
            Ok(chunk) => chunk,
            // Asked first: it refuses a corrupt chunk.
            Err(error) if !self.may_show_prefix(&error, wanted) || no_less => return Err(error),
            Err(_) if extent != Extent::Whole => decode(wanted.voxels)?,
            Err(damage) => {
                warn_of(&damage, wanted.request());
                let chunk = decode(wanted.voxels)?;
                chunk.settle();
                chunk
            }
        };
        self.metrics
            .chunk_decoded_bytes
            .inc_by(chunk.samples.bytes().len() as u64);
        self.note(&chunk, wanted);
        Ok(chunk)
    }

    /// Whether a prefix of a chunk that could not be decoded further may be shown. Refuses the
    /// chunk if it is corrupt.
    fn may_show_prefix(&self, error: &ReadError, wanted: &ChunkRequest<'_>) -> bool {
        if self.verify == Verify::Never {
            return true;
        }
        if matches!(error, ReadError::Corrupt { .. }) {
            self.refuse(error, wanted.id(), wanted.request());
        }
        !self.refused.has(&wanted.id())
    }

    /// Adds a prefix-decoded chunk to the list of chunks to be finished, or removes a whole one
    /// from it.
    pub(super) fn note(&self, chunk: &Chunk, wanted: &ChunkRequest<'_>) {
        if chunk.whole {
            self.unfinished.remove(&wanted.id());
        } else if self.verify() == Verify::Idle && !chunk.is_settled() {
            let ChunkRequest {
                dataset, at, voxel, ..
            } = *wanted;
            let request = || wanted.request().cloned();
            let unfinished = || Unfinished {
                dataset: Arc::downgrade(dataset),
                at,
                voxel,
                request: request(),
            };
            self.unfinished.add(wanted.id(), unfinished);
        }
    }

    /// Whether any chunk waits to be finished.
    pub fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Finishes one prefix-decoded chunk; false if there is none.
    pub fn finish_one(&self) -> bool {
        let Some((work, chunk)) = self.unfinished.take() else {
            return false;
        };
        let Unfinished {
            dataset,
            at,
            voxel,
            request,
        } = chunk;
        // The file is closed: the chunk is given up.
        let Some(dataset) = dataset.upgrade() else {
            return true;
        };
        let key = (dataset.content_id(&at), work.id.number, voxel);
        let meter = Meter::new(&self.metrics, None);
        let whole = dataset.locate(at).and_then(|located| {
            let stored = dataset.fetch(&located, meter)?;
            dataset.decode(&located, &stored, u64::MAX, voxel, meter)
        });
        match whole {
            Ok(chunk) => {
                self.metrics.chunks_finished.inc();
                self.metrics
                    .chunk_decoded_bytes
                    .inc_by(chunk.samples.bytes().len() as u64);
                let weight = chunk.weight();
                self.cache
                    .replace_if(&key, Arc::new(chunk), weight, |kept| !kept.whole);
            }
            Err(error @ ReadError::Corrupt { .. }) => {
                self.refuse(&error, work.id, request.as_ref());
                self.cache.remove_if(&key, |kept| !kept.whole);
            }
            Err(damage @ ReadError::Damaged { .. }) => {
                warn_of(&damage, request.as_ref());
                self.settle(&key);
            }
            // It may be readable later; until then it is unverified.
            Err(_) => return true,
        }
        work.done();
        true
    }

    /// Keeps the prefix of a chunk whose stream breaks off, and does not try to finish it again.
    fn settle(&self, key: &ChunkKey) {
        if let Some(chunk) = self.cache.peek(key) {
            chunk.settle();
        }
    }

    /// `request` wanted the chunk.
    fn refuse(&self, error: &ReadError, id: ChunkId, request: Option<&RequestId>) {
        if self.refused.add(id) {
            self.metrics.chunks_refused.inc();
            tracing::error!(
                request = request.map(RequestId::as_str),
                "{error}; every tile that touches this chunk is an error until the file is mended"
            );
        }
    }

    /// Whether any chunk is known to be corrupt.
    pub fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Whether a box of a dataset intersects a chunk that is known to be corrupt.
    pub(in super::super) fn touches_refused(
        &self,
        dataset: &StoredDataset,
        stored: &StoredBox,
    ) -> bool {
        self.refused.touches(dataset.id, &dataset.grid, stored)
    }

    /// The chunks that a box of a dataset intersects and that are unverified or corrupt.
    pub(in super::super) fn unverified(
        &self,
        dataset: &StoredDataset,
        stored: &StoredBox,
    ) -> Vec<ChunkId> {
        if self.unfinished.is_empty() && self.refused.is_empty() {
            return Vec::new();
        }
        let all = dataset
            .grid
            .chunks_of(stored)
            .map(|at| dataset.chunk_id(&at));
        all.filter(|id| self.unfinished.has(id) || self.refused.has(id))
            .collect()
    }

    /// The current standing of chunks that were unverified.
    pub fn standing(&self, chunks: &[ChunkId]) -> Standing {
        // In this order: a chunk is refused before it is removed from the list of unfinished ones.
        if chunks.iter().any(|id| self.unfinished.has(id)) {
            Standing::Unverified
        } else if chunks.iter().any(|id| self.refused.has(id)) {
            Standing::Refused
        } else {
            Standing::Verified
        }
    }

    /// The number of chunks that were given up unverified, since the start.
    pub fn given_up(&self) -> u64 {
        self.unfinished.given_up()
    }
}

fn warn_of(damage: &ReadError, request: Option<&RequestId>) {
    let request = request.map(RequestId::as_str);
    tracing::warn!(request, "{damage}; slices before the damage are shown");
}

impl StoredDataset {
    pub(super) fn chunk_id(&self, at: &Position) -> ChunkId {
        ChunkId {
            dataset: self.id,
            number: self.grid.number(at),
        }
    }
}
