//! Finds tiles in the tiers, and writes new tiles to them once their chunks are verified.
//!
//! A tile whose chunks were decoded in part is in the memory cache at once. While threads are idle,
//! the rest of its chunks is decoded, which verifies their checksums: then the tile is written to
//! the tiers, which outlive the process. If a chunk proves corrupt, the tile is removed from the
//! memory cache; drawing it again then fails.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use voltile_base::flow::cache::Cache;
use voltile_base::flow::trace::Outcome;
use voltile_base::tile::{Tile, TileKey};
use voltile_hdf5::volume::{ReadError, UnfinishedChunk};

use super::error::TileError;
use crate::catalog::Origin;
use crate::tier::{TierKind, Tiers};

/// The maximum size in bytes of the tiles that wait for verification, and of the list of their
/// chunks.
const MAX_BYTES: usize = 32 << 20;
/// The size of an entry of the list of chunks, in bytes.
const CHUNK_BYTES: usize = 200;

/// The tiers (there may be none), and the chunks that wait to be verified.
pub(super) struct TierWriter {
    pub tiers: Tiers,
    /// The tiles in memory.
    pub cache: Cache<TileKey, Tile, TileError>,
    waiting: Mutex<WaitingChunks>,
    /// The number of waiting chunks, readable without the lock.
    count: AtomicUsize,
}

/// The chunks that wait to be verified, each with its tile.
#[derive(Default)]
struct WaitingChunks {
    /// The newest are last, and verified first: the viewer is likely to need more of them soon.
    chunks: VecDeque<(Arc<UnverifiedTile>, UnfinishedChunk)>,
    bytes: usize,
}

/// A tile with chunks that may not be verified; each of these chunks holds a reference to it.
struct UnverifiedTile {
    key: TileKey,
    /// The tile and its origin, if it is to be written to the tiers.
    to_store: Option<(Origin, Tile)>,
    /// The bytes for which a waiting chunk of this tile counts: its share of the tile's weight, and
    /// the size of its entry in the list.
    bytes_per_chunk: usize,
    /// Whether a chunk was not verified, or is corrupt.
    is_given_up: AtomicBool,
}

impl TierWriter {
    pub fn new(tiers: Tiers, cache: Cache<TileKey, Tile, TileError>) -> Self {
        Self {
            tiers,
            cache,
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }

    pub fn has_tiers(&self) -> bool {
        !self.tiers.is_empty()
    }

    /// The tile, and the outcome of a request for it; `None` if no tier has it. Blocks.
    pub fn find(&self, origin: &Origin, key: TileKey) -> Option<(Tile, Outcome)> {
        let (png, kind) = self.tiers.find(origin.token(), &key)?;
        let outcome = match kind {
            TierKind::Directory => Outcome::Disk,
            TierKind::Redis | TierKind::Objects => Outcome::Shared,
        };
        Some((Tile::new(key, png), outcome))
    }

    /// Writes a newly rendered tile to the tiers, unless its files have changed, and waits until
    /// that is done.
    pub fn store_now(&self, origin: &Origin, tile: &Tile) -> Result<(), TileError> {
        if !self.has_tiers() {
            return Ok(());
        }
        if !origin.was_unchanged_at(Instant::now()) {
            return Err(TileError::Changed {
                token: origin.token().clone(),
            });
        }
        Ok(self.tiers.store(origin.token(), tile)?)
    }

    /// Has the rest of a tile's chunks decoded while threads are idle. If the tile `is_for_tiers`,
    /// it is written to the tiers in the background, now or once its chunks are verified.
    /// `unfinished` are the chunks that were decoded in part; `None` if they were too many to be
    /// listed: then the tile is not written.
    pub fn store_later(
        &self,
        origin: &Origin,
        tile: &Tile,
        is_for_tiers: bool,
        unfinished: Option<Vec<UnfinishedChunk>>,
    ) {
        let takes_writes = is_for_tiers && unfinished.is_some() && self.tiers.take_writes();
        if is_for_tiers && !takes_writes {
            self.tiers.count_dropped();
        }
        let unfinished = unfinished.unwrap_or_default();
        let to_store = takes_writes.then(|| (origin.clone(), tile.clone()));
        let weight = to_store.as_ref().map_or(0, |(_, tile)| tile.weight());
        let tile = Arc::new(UnverifiedTile {
            key: tile.key,
            to_store,
            bytes_per_chunk: weight / unfinished.len().max(1) + CHUNK_BYTES,
            is_given_up: AtomicBool::new(false),
        });
        let mut given_up = Vec::new();
        let mut waiting = self.waiting.lock();
        for chunk in unfinished {
            waiting.bytes += tile.bytes_per_chunk;
            waiting.chunks.push_back((Arc::clone(&tile), chunk));
        }
        while waiting.bytes > MAX_BYTES
            && let Some((oldest, _)) = waiting.chunks.pop_front()
        {
            waiting.bytes -= oldest.bytes_per_chunk;
            given_up.push(oldest);
        }
        self.count.store(waiting.chunks.len(), Ordering::Relaxed);
        drop(waiting);
        for tile in given_up {
            tile.is_given_up.store(true, Ordering::Relaxed);
            self.release(tile);
        }
        self.release(tile);
    }

    /// Decodes the rest of one chunk; returns false if no chunk waits.
    pub fn verify_one(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let Some((tile, chunk)) = waiting.chunks.pop_back() else {
            return false;
        };
        waiting.bytes -= tile.bytes_per_chunk;
        self.count.store(waiting.chunks.len(), Ordering::Relaxed);
        drop(waiting);
        if let Err(error) = chunk.finish() {
            tile.is_given_up.store(true, Ordering::Relaxed);
            if matches!(error, ReadError::Corrupt { .. }) {
                self.cache.discard(&tile.key);
            }
        }
        self.release(tile);
        true
    }

    /// Whether chunks wait to be verified.
    pub fn has_unverified(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Gives back a reference to a tile. With the last one, the tile is queued for the tiers'
    /// writers, which skip it if its files have changed.
    fn release(&self, tile: Arc<UnverifiedTile>) {
        let Some(tile) = Arc::into_inner(tile) else {
            return;
        };
        let Some((origin, to_store)) = tile.to_store else {
            return;
        };
        if tile.is_given_up.into_inner() {
            return self.tiers.count_dropped();
        }
        let token = origin.token().clone();
        let now = Instant::now();
        self.tiers
            .store_later(&token, &to_store, move || origin.was_unchanged_at(now));
    }
}
