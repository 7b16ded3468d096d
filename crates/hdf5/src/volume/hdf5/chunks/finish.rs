//! Decides how far chunks are decoded, and finishes prefix-decoded chunks while threads are idle.
//!
//! Where the filters allow it, a chunk is decoded only up to the last wanted voxel: for a random
//! tile, that is half of the chunk on average. When more of the same chunk is wanted later, the
//! client is probably scrolling through all slices of the chunk, so it is decoded whole. But if
//! requests have paused lately, a person is looking at the tiles: decoding a screen full of whole
//! chunks would take too long, so these chunks are finished in the next pauses.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;

use serde::Deserialize;
use voltile_base::flow::cache::Abandoned;
use voltile_base::flow::trace::RequestId;

use super::{Chunk, ChunkRequest, ChunkStore, WHOLE};
use crate::volume::hdf5::dataset::StoredDataset;
use crate::volume::hdf5::grid::Position;
use crate::volume::hdf5::index::Entry;
use crate::volume::{ReadError, VoxelType};

/// When the checksum of a chunk is verified if only a part of the chunk is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// While render threads are idle: they then decode the rest of each chunk.
    #[default]
    Idle,
    /// Before anything is shown: every chunk is decoded completely.
    Always,
    /// Only if the whole chunk is decoded for another reason.
    Never,
}

impl ChunkStore {
    /// Sets when chunks are verified (`render.verify`).
    pub fn verifying(self, verify: Verify) -> Self {
        Self { verify, ..self }
    }

    /// From now on, decodes chunks whole even under `render.verify = "idle"`: there will be no idle
    /// time.
    pub fn verify_at_once(&self) {
        self.verifies_at_once.store(true, Ordering::Relaxed);
    }

    fn verify(&self) -> Verify {
        if self.verify == Verify::Idle && self.verifies_at_once.load(Ordering::Relaxed) {
            Verify::Always
        } else {
            self.verify
        }
    }

    /// The number of voxels of a chunk to decode, counted from its first one. `decoded_at` is the
    /// time when the cached prefix, which is too short, was decoded; `None` if none is cached.
    fn voxels_to_decode(&self, wanted: &ChunkRequest<'_>, decoded_at: Option<Instant>) -> u64 {
        let verify = self.verify();
        if verify == Verify::Always
            || wanted.voxels >= wanted.dataset.grid.voxels()
            || wanted.dataset.is_corrupt(&wanted.at)
        {
            return WHOLE;
        }
        let is_interactive = verify == Verify::Idle && self.activity.paused_lately();
        // A tenth more than wanted: enough for the next slices until the chunk is finished.
        let a_tenth_more = wanted.voxels + wanted.voxels / 10;
        match decoded_at {
            None if is_interactive => a_tenth_more,
            None if self.scrolls_into_chunk(wanted) => WHOLE,
            None => wanted.voxels,
            // The chunk is wanted again, but only after a pause.
            Some(time) if is_interactive && self.activity.last_pause() > time => a_tenth_more,
            // The next slice came without a pause. Every longer prefix is decoded again from the
            // first voxel: doubling it keeps this repeated work small, and delays the slice less
            // than the whole chunk, as long as the prefix is much shorter.
            Some(_) if is_interactive && wanted.voxels <= wanted.dataset.grid.voxels() / 8 => {
                2 * wanted.voxels
            }
            // All slices of the chunk will probably be wanted.
            Some(_) => WHOLE,
        }
    }

    /// Whether the first slice of a chunk is wanted and the previous chunk along the slowest axis
    /// is cached whole: a client is scrolling, and will want every slice. A constant chunk does not
    /// count, since it is cached whole in any case.
    ///
    /// Only for chunks of at least 16 slices: if the cache is too small to keep the chunk until its
    /// next slice is wanted, it is decoded whole in vain, but at most for one slice in 16.
    fn scrolls_into_chunk(&self, wanted: &ChunkRequest<'_>) -> bool {
        let dataset = wanted.dataset;
        let at = &wanted.at;
        let chunk = dataset.grid.chunk();
        let Some(axis) = chunk.iter().position(|extent| *extent > 1) else {
            return false;
        };
        let Some(before) = at[axis].checked_sub(1) else {
            return false;
        };
        let slice_voxels = dataset.grid.voxels() / chunk[axis];
        if chunk[axis] < 16 || wanted.voxels > slice_voxels {
            return false;
        }
        let mut previous = *wanted;
        previous.at[axis] = before;
        self.cache
            .peek(&previous.key())
            .is_some_and(|chunk| chunk.is_whole && !chunk.is_constant)
    }

    /// Fetches the chunk with this index entry, and decodes it as far as
    /// [`ChunkStore::voxels_to_decode`] says. If its stream breaks off after the wanted voxels,
    /// decodes only these.
    pub(super) fn decode(
        &self,
        wanted: &ChunkRequest<'_>,
        entry: Option<Entry>,
        decoded_at: Option<Instant>,
    ) -> Result<Chunk, ReadError> {
        let dataset = wanted.dataset;
        let voxels = self.voxels_to_decode(wanted, decoded_at);
        let meter = self.meter(wanted);
        let stored = dataset.fetch(&wanted.at, entry, meter)?;
        let decode = |voxels| dataset.decode(&wanted.at, &stored, voxels, wanted.voxel, meter);
        let chunk = match decode(voxels) {
            Ok(chunk) => chunk,
            Err(error) => {
                let verifies = self.verify() != Verify::Never;
                if verifies && matches!(error, ReadError::Corrupt { .. }) {
                    self.refuse(&error, wanted);
                }
                let is_refused = verifies && dataset.is_corrupt(&wanted.at);
                let wants_less = wanted.voxels < voxels.min(dataset.grid.voxels());
                if is_refused || !wants_less {
                    return Err(error);
                }
                let prefix = decode(wanted.voxels);
                if voxels == WHOLE {
                    warn_of(&error, wanted.request_id);
                    // Nothing is left to be finished: the whole chunk could not be decoded.
                    if let Ok(prefix) = &prefix {
                        prefix.settle();
                    }
                }
                prefix?
            }
        };
        self.metrics
            .chunk_decoded_bytes
            .inc_by(chunk.samples.bytes().len() as u64);
        self.note_unfinished(&chunk, wanted);
        Ok(chunk)
    }

    /// If a chunk was decoded in part, adds it to the read's list of unfinished chunks.
    pub(super) fn note_unfinished(&self, chunk: &Chunk, wanted: &ChunkRequest<'_>) {
        if let Some(unfinished) = wanted.unfinished
            && !chunk.is_settled()
            && self.verify() == Verify::Idle
        {
            unfinished.add(UnfinishedChunk {
                store: self.clone(),
                dataset: Arc::downgrade(wanted.dataset),
                at: wanted.at,
                voxel: wanted.voxel,
                request_id: wanted.request_id.cloned(),
            });
        }
    }

    /// Makes every read of a chunk fail from now on.
    fn refuse(&self, error: &ReadError, wanted: &ChunkRequest<'_>) {
        if wanted.dataset.note_corrupt(&wanted.at) {
            self.metrics.chunks_refused.inc();
            tracing::error!(
                request = wanted.request_id.map(RequestId::as_str),
                "{error}; every tile that touches this chunk is an error until the file is mended"
            );
        }
        self.cache.discard(&wanted.key());
    }
}

/// A chunk that a read has decoded in part. It does not keep its file open.
#[derive(Debug)]
pub struct UnfinishedChunk {
    store: ChunkStore,
    dataset: Weak<StoredDataset>,
    at: Position,
    voxel: VoxelType,
    /// The id of the request that the chunk was read for, for the log.
    request_id: Option<RequestId>,
}

impl UnfinishedChunk {
    /// Decodes the whole chunk. Fails with [`ReadError::Corrupt`] if the checksum is wrong: from
    /// then on, every read of the chunk fails.
    pub fn finish(&self) -> Result<(), ReadError> {
        let store = &self.store;
        // The file may have been closed.
        let dataset = self.dataset.upgrade().ok_or(Abandoned)?;
        let wanted = ChunkRequest {
            request_id: self.request_id.as_ref(),
            ..ChunkRequest::new(&dataset, self.at, WHOLE, self.voxel)
        };
        let key = wanted.key();
        let prefix = store.cache.peek(&key);
        if prefix.as_ref().is_some_and(|chunk| chunk.is_settled()) {
            return Ok(());
        }
        let entry = dataset.entry(&self.at);
        match entry.and_then(|entry| store.decode(&wanted, entry, None)) {
            Ok(chunk) => {
                store.metrics.chunks_finished.inc();
                let weight = chunk.weight();
                let chunk = Arc::new(chunk);
                let cache = &store.cache;
                cache.replace_if(&key, chunk, weight, |known| !known.is_whole);
                Ok(())
            }
            // The prefix stays, and is not finished again.
            Err(damage @ ReadError::Damaged { .. }) => {
                warn_of(&damage, wanted.request_id);
                if let Some(prefix) = prefix {
                    prefix.settle();
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn warn_of(damage: &ReadError, request_id: Option<&RequestId>) {
    let request = request_id.map(RequestId::as_str);
    tracing::warn!(request, "{damage}; slices before the damage are shown");
}
