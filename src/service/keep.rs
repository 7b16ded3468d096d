//! Finds tiles in the tiers, and keeps new ones there: only once their chunks are verified.
//!
//! A tile made from unverified chunks is in the memory cache at once, but is written to the tiers
//! only when all of its chunks are verified: tiers outlive the process, and after a restart nothing
//! would know which tiles must be removed. A tile that touches a corrupt chunk is not served from
//! any cache and gets no 304: it is rendered again, which fails until the file is repaired.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::error::TileError;
use super::footprint::Footprint;
use super::health::Part;
use crate::base::tile::{Tile, TileKey};
use crate::catalog::Origin;
use crate::flow::lock;
use crate::flow::trace::Outcome;
use crate::tier::{Backend, TierError, Tiers};
use crate::volume::ChunkId;
use crate::volume::hdf5::{ChunkStore, Standing};

/// The maximum size in bytes of tiles waiting for verification: 32 MiB.
const MAX_BYTES: usize = 32 << 20;

/// The tiers, if there are any, and the tiles that wait for verification of the chunks that they
/// were made from.
pub(super) struct Keeper {
    tiers: Option<Tiers>,
    pub chunks: ChunkStore,
    waiting: Mutex<Waiting>,
    /// The number of waiting tiles, readable without the lock.
    parked: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    tiles: VecDeque<Parked>,
    bytes: usize,
}

struct Parked {
    tile: Tile,
    origin: Origin,
    chunks: Vec<ChunkId>,
    given_up: u64,
}

impl Keeper {
    pub fn new(tiers: Option<Tiers>, chunks: ChunkStore) -> Self {
        let (waiting, parked) = Default::default();
        Self {
            tiers,
            chunks,
            waiting,
            parked,
        }
    }

    pub fn has_tiers(&self) -> bool {
        self.tiers.is_some()
    }

    /// Why tiers could not be read or written lately.
    pub fn problems(&self) -> Vec<(Part, String)> {
        let problems = self.tiers.iter().flat_map(Tiers::problems);
        problems
            .map(|(backend, problem)| (Part::Tier(backend), problem))
            .collect()
    }

    /// The tile, and the outcome of a request for it; `None` if no tier has it, or if it may touch
    /// a corrupt chunk. Blocks.
    pub fn find(
        &self,
        origin: &Origin,
        key: TileKey,
        footprint: &Footprint,
    ) -> Option<(Tile, Outcome)> {
        let is_refused = self.chunks.has_refused() && footprint.may_be_refused();
        let tiers = self.tiers.as_ref().filter(|_| !is_refused)?;
        let found = tiers.find(origin.token(), &key)?;
        let outcome = match found.backend {
            Backend::Directory => Outcome::Disk,
            Backend::Redis | Backend::Objects => Outcome::Shared,
        };
        Some((Tile::new(key, found.png), outcome))
    }

    /// Whether every tier that is meant to last has a tile. Blocks.
    pub fn has(&self, origin: &Origin, key: TileKey) -> Result<bool, TierError> {
        self.tiers
            .as_ref()
            .map_or(Ok(false), |tiers| tiers.has(origin.token(), &key))
    }

    /// Whether any tier has a tile. Blocks.
    pub fn has_anywhere(&self, origin: &Origin, key: TileKey) -> bool {
        self.tiers
            .as_ref()
            .is_some_and(|tiers| tiers.has_any(origin.token(), &key))
    }

    /// Writes a newly rendered tile to the tiers, unless its files have changed, and waits until
    /// that is done.
    pub fn keep_now(&self, origin: &Origin, tile: &Tile) -> Result<(), TileError> {
        let Some(tiers) = &self.tiers else {
            return Ok(());
        };
        if !origin.was_unchanged_at(Instant::now()) {
            return Err(TileError::Changed {
                token: origin.token().clone(),
            });
        }
        Ok(tiers.keep(origin.token(), tile)?)
    }

    /// Writes a newly rendered tile to the tiers in the background, now or once its chunks are
    /// verified; `given_up` is the chunk store's count from before the render.
    pub fn keep_later(&self, origin: &Origin, tile: &Tile, footprint: &Footprint, given_up: u64) {
        let Some(tiers) = &self.tiers else { return };
        if !tiers.take_writes() {
            return tiers.count_dropped();
        }
        match footprint
            .unverified()
            .filter(|_| self.chunks.given_up() == given_up)
        {
            Some(chunks) if chunks.is_empty() => write(tiers, origin.clone(), tile),
            Some(chunks) => {
                self.park(
                    tiers,
                    Parked {
                        tile: tile.clone(),
                        origin: origin.clone(),
                        chunks,
                        given_up,
                    },
                );
            }
            None => tiers.count_dropped(),
        }
    }

    fn park(&self, tiers: &Tiers, parked: Parked) {
        let mut waiting = lock(&self.waiting);
        waiting.bytes += parked.weight();
        waiting.tiles.push_back(parked);
        while waiting.bytes > MAX_BYTES
            && let Some(oldest) = waiting.tiles.pop_front()
        {
            waiting.bytes -= oldest.weight();
            tiers.count_dropped();
        }
        self.parked.store(waiting.tiles.len(), Ordering::Relaxed);
    }

    /// Writes the tiles whose chunks are verified by now, and drops tiles whose chunks will never
    /// be.
    pub fn release(&self) {
        let Some(tiers) = self.tiers.as_ref().filter(|_| self.has_parked()) else {
            return;
        };
        let mut waiting = lock(&self.waiting);
        let tiles = std::mem::take(&mut waiting.tiles);
        waiting.bytes = 0;
        for parked in tiles {
            match self.chunks.standing(&parked.chunks) {
                // Read the count after the standing: a chunk given up in between must not count as
                // verified.
                _ if self.chunks.given_up() != parked.given_up => tiers.count_dropped(),
                Standing::Refused => tiers.count_dropped(),
                Standing::Verified => write(tiers, parked.origin, &parked.tile),
                Standing::Unverified => {
                    waiting.bytes += parked.weight();
                    waiting.tiles.push_back(parked);
                }
            }
        }
        self.parked.store(waiting.tiles.len(), Ordering::Relaxed);
    }

    /// Waits until what is queued is written, at most for `within`; the rest is dropped.
    pub fn finish(&self, within: Duration) {
        self.tiers.iter().for_each(|tiers| tiers.finish(within));
    }

    pub fn has_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed) > 0
    }
}

impl Parked {
    fn weight(&self) -> usize {
        self.tile.weight() + self.chunks.len() * size_of::<ChunkId>()
    }
}

/// Queues a newly rendered tile for the tiers' writers, which skip it if its files have changed.
fn write(tiers: &Tiers, origin: Origin, tile: &Tile) {
    let (token, now) = (origin.token().clone(), Instant::now());
    tiers.keep_later(&token, tile, move || origin.was_unchanged_at(now));
}
