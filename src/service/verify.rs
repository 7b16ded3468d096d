//! Chunks that were decoded in part are finished while the render threads are idle, and what was made from them waits.
//!
//! Finishing begins a moment after an answer, so that a client that asks again at once finds the threads free. It goes
//! before rendering ahead, which then only has to copy. Between two chunks it gives way to jobs, and to answers from the
//! cache, which need no render thread but a processor.
//!
//! A tile that was made from chunks not yet verified is in the memory cache at once, but written to the disk cache only
//! when all of them are: what is there outlives the process, and nobody would remember that it was to be removed. A
//! tile that touches a chunk that turned out to be wrong is taken from no cache and has no 304: it is drawn again,
//! which fails until the file is mended.

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
use crate::metrics::Metrics;
use crate::plan::Plan;
use crate::tier::SecondTier;
use crate::tile::Tile;
use crate::volume::hdf5::{ChunkStore, Standing};
use crate::volume::{ChunkId, Volume};

/// How long after an answer finishing begins: longer than a client takes that asks again at once.
const DELAY: Duration = Duration::from_millis(1);
/// The most bytes of tiles that wait to be written until their chunks are verified: 32 MiB.
const MOST: usize = 32 << 20;

/// The boxes of stored voxels that a tile is made from.
#[derive(Debug, Default)]
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

    fn may_be_refused(&self) -> bool {
        self.0.iter().any(|(volume, time, region)| volume.may_be_refused(*time, region))
    }

    fn unverified(&self) -> Option<Vec<ChunkId>> {
        let each = self.0.iter().map(|(volume, time, region)| volume.unverified(*time, region));
        Some(each.collect::<Option<Vec<_>>>()?.concat())
    }
}

/// Tiles that wait until the chunks that they were made from are verified.
pub(super) struct Provisional {
    pub chunks: ChunkStore,
    waiting: Mutex<Waiting>,
    /// How many tiles wait, to be read without the lock.
    parked: AtomicUsize,
    metrics: Metrics,
    /// Whether finishing is about to begin.
    is_due: AtomicBool,
    /// When anything was answered, while there was something to be finished.
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
    pub fn new(chunks: ChunkStore, metrics: Metrics) -> Self {
        let (waiting, parked, is_due, answered) = Default::default();
        Self { chunks, waiting, parked, metrics, is_due, answered }
    }

    /// Whether a tile may have been made from a chunk that is known to be wrong.
    pub fn is_suspect(&self, footprint: impl FnOnce() -> Footprint) -> bool {
        self.chunks.has_refused() && footprint().may_be_refused()
    }

    /// Has a tile written that was just drawn, now or once its chunks are verified; `given_up` is the store's count from
    /// before it was drawn.
    pub fn keep_later(
        &self,
        tier: Option<&SecondTier>,
        origin: Origin,
        tile: &Tile,
        footprint: &Footprint,
        given_up: u64,
    ) {
        if tier.is_none() {
            return;
        }
        match footprint.unverified().filter(|_| self.chunks.given_up() == given_up) {
            Some(chunks) if chunks.is_empty() => keep_later(tier, origin, tile),
            Some(chunks) => self.park(Parked { tile: tile.clone(), origin, chunks, given_up }),
            None => drop(self.metrics.tier_dropped.inc()),
        }
    }

    fn park(&self, parked: Parked) {
        let mut waiting = self.lock();
        waiting.bytes += parked.weight();
        waiting.tiles.push_back(parked);
        while waiting.bytes > MOST
            && let Some(oldest) = waiting.tiles.pop_front()
        {
            waiting.bytes -= oldest.weight();
            self.metrics.tier_dropped.inc();
        }
        self.parked.store(waiting.tiles.len(), Ordering::Relaxed);
    }

    /// Has those tiles written whose chunks are verified by now, and forgets those that never will be.
    fn release(&self, tier: Option<&SecondTier>) {
        if !self.has_parked() {
            return;
        }
        let mut waiting = self.lock();
        let tiles = std::mem::take(&mut waiting.tiles);
        waiting.bytes = 0;
        for parked in tiles {
            match self.chunks.standing(&parked.chunks) {
                // Asked afterwards: a chunk that is given up meanwhile must not be taken for verified.
                _ if self.chunks.given_up() != parked.given_up => drop(self.metrics.tier_dropped.inc()),
                Standing::Refused => drop(self.metrics.tier_dropped.inc()),
                Standing::Verified => keep_later(tier, parked.origin, &parked.tile),
                Standing::Unverified => {
                    waiting.bytes += parked.weight();
                    waiting.tiles.push_back(parked);
                }
            }
        }
        self.parked.store(waiting.tiles.len(), Ordering::Relaxed);
    }

    /// Whether nothing was answered for a moment.
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
    /// Whether a tile may have been made from a chunk that is known to be wrong: a client's copy of it is not to be
    /// confirmed.
    pub fn is_suspect(&self, identified: &Identified) -> bool {
        self.provisional.is_suspect(|| identified.footprint())
    }

    /// Uses the pause after an answer, if there is one: finishes chunks that were decoded in part, then renders ahead.
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

    /// Sets all idle threads to work.
    fn work_in_pause(self: &Arc<Self>) {
        self.provisional.is_due.store(false, Ordering::Relaxed);
        for _ in 0..self.pool.threads() {
            if self.pool.is_idle() {
                let service = Arc::clone(self);
                self.pool.run(move || service.work_while_idle());
            }
        }
    }

    /// Does what nobody has asked for, for as long as nobody asks for anything.
    pub(super) fn work_while_idle(&self) {
        while self.pool.is_idle() {
            if self.provisional.chunks.has_unfinished() {
                // Answers from the cache need no thread of ours, but a processor. They see to it that we go on later.
                if !self.provisional.is_quiet() {
                    break;
                }
                if self.pool.activity().finish(|| self.provisional.chunks.finish_one()) {
                    continue;
                }
            }
            self.provisional.release(self.tier.as_deref());
            match self.neighbours.next() {
                Some(tile) => self.render_neighbour(&tile),
                None => break,
            }
        }
    }

    /// Verifies what tiles wait for that are to be written to the second tier, but for no longer than until then.
    pub(super) fn finish_verifying(&self, until: Instant) {
        while self.provisional.has_parked() && Instant::now() < until {
            if self.provisional.chunks.finish_one() {
                continue;
            }
            // Render threads may be finishing the last chunks.
            let was_finishing = self.pool.activity().is_finishing();
            self.provisional.release(self.tier.as_deref());
            if !was_finishing {
                break;
            }
            thread::sleep(DELAY);
        }
        self.provisional.release(self.tier.as_deref());
    }
}

impl Identified {
    /// What it is made from; nothing of a tile that is black.
    fn footprint(&self) -> Footprint {
        match self {
            Identified::Black(_) => Footprint::default(),
            Identified::Made { resolved, .. } => Footprint::of(&[resolved.plan()]),
            Identified::Overview { overview, .. } => Footprint::of(&overview.plan().tiles),
        }
    }
}

impl Provisional {
    /// Whether what is to be drawn touches a chunk that is known to be wrong.
    pub fn is_refused(&self, drawing: &Drawing) -> bool {
        self.chunks.has_refused() && drawing.footprint.may_be_refused()
    }
}
