//! Decides how far chunks are decoded, and finishes prefix-decoded chunks while threads are idle.
//!
//! If its filters allow it, a chunk is decoded only up to the last voxel wanted: a random tile
//! needs half of each chunk on average. If more of it is wanted later, all of its slices probably
//! are, and it is decoded whole. But if requests have paused lately, a person is looking at the
//! tiles: decoding a screen full of chunks whole would take too long, and they are finished in the
//! next pauses.

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

/// When the checksums of chunks that are needed only in part are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// While render threads are idle: they then decode the rest of each chunk.
    #[default]
    Idle,
    /// Before anything is shown: every chunk is decoded completely.
    Always,
    /// Not unless the rest of the chunk is needed.
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
    /// time when a shorter prefix of it was decoded; `None` if the cache has none.
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
            None if self.follows_a_whole_one(wanted) => WHOLE,
            None => wanted.voxels,
            // The chunk is wanted again, but only after a pause.
            Some(time) if is_interactive && self.activity.last_pause() > time => a_tenth_more,
            // The next slice came without a pause. A short prefix delays it least; doubling limits
            // the number of voxels that are decoded again.
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
    /// The slice must be at most a sixteenth of the chunk: if the cache is too small for the
    /// scroll, every slice decodes its chunks anew, and whole chunks cost twice as much.
    fn follows_a_whole_one(&self, wanted: &ChunkRequest<'_>) -> bool {
        let dataset = wanted.dataset;
        let at = &wanted.at;
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
                // Called in any case: it refuses a corrupt chunk.
                let may_show_prefix = self.may_show_prefix(&error, wanted);
                let has_more = voxels > wanted.voxels && wanted.voxels < dataset.grid.voxels();
                if !may_show_prefix || !has_more {
                    return Err(error);
                }
                if voxels == WHOLE {
                    warn_of(&error, wanted.request_id);
                }
                let chunk = decode(wanted.voxels)?;
                // Nothing is left to be finished: the rest could not be decoded just now.
                if voxels == WHOLE {
                    chunk.settle();
                }
                chunk
            }
        };
        self.metrics
            .chunk_decoded_bytes
            .inc_by(chunk.samples.bytes().len() as u64);
        self.note_unfinished(&chunk, wanted);
        Ok(chunk)
    }

    /// Whether a prefix of a chunk that could not be decoded further may be shown. Refuses the
    /// chunk if it is corrupt.
    fn may_show_prefix(&self, error: &ReadError, wanted: &ChunkRequest<'_>) -> bool {
        if self.verify == Verify::Never {
            return true;
        }
        if matches!(error, ReadError::Corrupt { .. }) {
            self.refuse(error, wanted);
        }
        !wanted.dataset.is_corrupt(&wanted.at)
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
    /// Decodes the rest. Fails with [`ReadError::Corrupt`] if the checksum is wrong: from then on,
    /// every read of the chunk fails.
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
