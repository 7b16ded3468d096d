//! Finishes partly decoded chunks while the render threads are idle, and until then holds back tiles from the tiers.
//!
//! Finishing begins a short delay after a response, so that a client that sends its next request at once finds the
//! threads free. It comes before prefetching, which then only has to copy. Between two chunks it yields to jobs, and
//! to cache hits, which need CPU time but no render thread.
//!
//! A tile made from unverified chunks is in the memory cache at once, but is written to the tiers only when all of
//! its chunks are verified: they outlive the process, and after a restart nothing would know that they must be
//! removed. A tile that touches a corrupt chunk is not served from any cache and gets no 304: it is rendered again,
//! which fails until the file is repaired.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::TileService;
use super::drawing::{Drawing, Identified, keep_later};
use crate::activity::Latest;
use crate::catalog::Origin;
use crate::geometry::Region;
use crate::plan::{Cutout, Plan};
use crate::tier::Tiers;
use crate::tile::Tile;
use crate::volume::hdf5::{ChunkStore, Standing};
use crate::volume::{ChunkId, ReadPolicy, Volume};

/// The delay between a response and finishing: longer than a client needs to send its next request.
const DELAY: Duration = Duration::from_millis(1);
/// The maximum size in bytes of tiles waiting for verification: 32 MiB.
const MOST: usize = 32 << 20;

/// The boxes of stored voxels that a tile is made from: volume, time point, box.
#[derive(Debug, Clone, Default)]
pub(super) struct Footprint(Vec<(Arc<dyn Volume>, u64, Region)>);

impl Footprint {
    pub fn of(plans: &[Plan]) -> Self {
        let sources = plans.iter().flat_map(|plan| plan.picture.sources());
        let boxes = |source: &crate::plan::Source| -> Vec<_> {
            let stored = source.regions();
            stored.map(|region| (Arc::clone(&source.volume), source.time, region)).collect()
        };
        Self(sources.flat_map(boxes).collect())
    }

    /// The box of stored voxels that a box of a level is made from.
    pub fn of_box(cutout: &Cutout) -> Self {
        let stored = cutout.view.stored_region(&cutout.region);
        let there = cutout.components.iter().filter(|_| cutout.is_there);
        Self(there.map(|volume| (Arc::clone(volume), cutout.time, stored)).collect())
    }

    /// The boxes: volume, time point, box.
    pub fn boxes(&self) -> impl Iterator<Item = &(Arc<dyn Volume>, u64, Region)> {
        self.0.iter()
    }

    fn may_be_refused(&self) -> bool {
        self.0.iter().any(|(volume, time, region)| volume.may_be_refused(*time, region))
    }

    fn unverified(&self) -> Option<Vec<ChunkId>> {
        let each = self.0.iter().map(|(volume, time, region)| volume.unverified(*time, region));
        Some(each.collect::<Option<Vec<_>>>()?.concat())
    }
}

/// Tiles waiting for verification of the chunks that they were made from.
pub(super) struct Provisional {
    pub chunks: ChunkStore,
    waiting: Mutex<Waiting>,
    /// The number of waiting tiles, readable without the lock.
    parked: AtomicUsize,
    /// Whether idle work is scheduled.
    is_due: AtomicBool,
    /// The time of the last response while there was something to finish.
    answered: Latest,
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

impl Provisional {
    pub fn new(chunks: ChunkStore) -> Self {
        let (waiting, parked, is_due, answered) = Default::default();
        Self { chunks, waiting, parked, is_due, answered }
    }

    /// Whether a tile may touch a chunk known to be corrupt.
    pub fn is_suspect(&self, footprint: impl FnOnce() -> Footprint) -> bool {
        self.chunks.has_refused() && footprint().may_be_refused()
    }

    /// Writes a newly rendered tile to the tiers, now or once its chunks are verified; `given_up` is the chunk
    /// store's count from before the render.
    pub fn keep_later(
        &self,
        tiers: Option<&Tiers>,
        origin: impl FnOnce() -> Origin,
        tile: &Tile,
        footprint: &Footprint,
        given_up: u64,
    ) {
        let Some(tiers) = tiers else { return };
        if !tiers.take_writes() {
            return tiers.count_dropped();
        }
        match footprint.unverified().filter(|_| self.chunks.given_up() == given_up) {
            Some(chunks) if chunks.is_empty() => keep_later(Some(tiers), origin(), tile),
            Some(chunks) => {
                self.park(tiers, Parked { tile: tile.clone(), origin: origin(), chunks, given_up });
            }
            None => tiers.count_dropped(),
        }
    }

    fn park(&self, tiers: &Tiers, parked: Parked) {
        let mut waiting = self.lock();
        waiting.bytes += parked.weight();
        waiting.tiles.push_back(parked);
        while waiting.bytes > MOST
            && let Some(oldest) = waiting.tiles.pop_front()
        {
            waiting.bytes -= oldest.weight();
            tiers.count_dropped();
        }
        self.parked.store(waiting.tiles.len(), Ordering::Relaxed);
    }

    /// Writes the tiles whose chunks are verified by now, and drops those that never will be.
    fn release(&self, tiers: Option<&Tiers>) {
        let Some(tiers) = tiers.filter(|_| self.has_parked()) else { return };
        let mut waiting = self.lock();
        let tiles = std::mem::take(&mut waiting.tiles);
        waiting.bytes = 0;
        for parked in tiles {
            match self.chunks.standing(&parked.chunks) {
                // Read the count after the standing: a chunk given up in between must not count as verified.
                _ if self.chunks.given_up() != parked.given_up => tiers.count_dropped(),
                Standing::Refused => tiers.count_dropped(),
                Standing::Verified => keep_later(Some(tiers), parked.origin, &parked.tile),
                Standing::Unverified => {
                    waiting.bytes += parked.weight();
                    waiting.tiles.push_back(parked);
                }
            }
        }
        self.parked.store(waiting.tiles.len(), Ordering::Relaxed);
    }

    /// Whether the last response was at least [`DELAY`] ago.
    fn is_quiet(&self) -> bool {
        self.answered.age() >= DELAY
    }

    fn has_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed) > 0
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parked {
    fn weight(&self) -> usize {
        self.tile.weight() + self.chunks.len() * size_of::<ChunkId>()
    }
}

impl TileService {
    /// Whether a tile may touch a chunk known to be corrupt: if so, a client's copy must not be confirmed with a 304.
    pub fn is_suspect(&self, identified: &Identified) -> bool {
        self.provisional.is_suspect(|| identified.footprint())
    }

    /// Schedules idle work after a response: finishing partly decoded chunks, then prefetching.
    pub fn use_pause(self: &Arc<Self>) {
        let provisional = &self.provisional;
        if !provisional.chunks.has_unfinished() && !provisional.has_parked() {
            return;
        }
        provisional.answered.note();
        if provisional.is_due.swap(true, Ordering::Relaxed) {
            return;
        }
        let service = Arc::clone(self);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                while !service.provisional.is_quiet() {
                    tokio::time::sleep(DELAY).await;
                }
                service.work_in_pause();
            })),
            Err(_) => service.work_in_pause(),
        }
    }

    /// Starts the work on all idle threads.
    fn work_in_pause(self: &Arc<Self>) {
        self.provisional.is_due.store(false, Ordering::Relaxed);
        for _ in 0..self.pool.threads() {
            if self.pool.is_idle() {
                let service = Arc::clone(self);
                self.pool.run(move || service.work_while_idle());
            }
        }
    }

    /// Finishes chunks and prefetches tiles for as long as the render threads are idle.
    pub(super) fn work_while_idle(&self) {
        while self.pool.is_idle() {
            if self.provisional.chunks.has_unfinished() {
                // Cache hits need CPU time but no render thread. Each schedules this work again.
                if !self.provisional.is_quiet() {
                    break;
                }
                if self.pool.activity().finish(|| self.provisional.chunks.finish_one()) {
                    continue;
                }
            }
            self.provisional.release(self.tiers.as_deref());
            match self.neighbours.next() {
                Some(tile) => self.render_neighbour(&tile),
                None => break,
            }
        }
    }

    /// Verifies the chunks of tiles that wait to be written to the disk cache, until the deadline at most.
    pub(super) fn finish_verifying(&self, until: Instant) {
        while self.provisional.has_parked() && Instant::now() < until {
            if self.provisional.chunks.finish_one() {
                continue;
            }
            // The last chunks may be in progress on render threads.
            let was_finishing = self.pool.activity().is_finishing();
            self.provisional.release(self.tiers.as_deref());
            if !was_finishing {
                break;
            }
            thread::sleep(DELAY);
        }
        self.provisional.release(self.tiers.as_deref());
    }
}

impl Identified {
    /// The stored voxels that the tile is made from; empty for a black tile.
    fn footprint(&self) -> Footprint {
        match self {
            Identified::Black(..) => Footprint::default(),
            Identified::Made { resolved, .. } => Footprint::of(&[resolved.plan()]),
            Identified::Overview { overview, .. } => Footprint::of(&overview.plan().tiles),
            Identified::Box { resolved, .. } => Footprint::of_box(&resolved.plan(ReadPolicy::default())),
        }
    }
}

impl Provisional {
    /// Whether the tile to be rendered may touch a chunk known to be corrupt.
    pub fn is_refused(&self, drawing: &Drawing) -> bool {
        self.chunks.has_refused() && drawing.footprint.may_be_refused()
    }
}
