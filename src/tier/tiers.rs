//! The tiers as the service uses them: any number of backends, in order, as one.
//!
//! A tile is looked for in each in turn, and one that is found is also written to those before. Adds metrics, a log and
//! a write queue to every backend.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::error_log::ErrorLog;
use super::writer::{Waiting, Writer};
use super::{Backend, TierError, TileTier};
use crate::base::name::Name;
use crate::base::tile::{Tile, TileKey};
use crate::metrics::TierCounters;

/// Backends in the order in which tiles are looked for: the fastest first.
pub struct Tiers(Vec<Tier>);

/// A backend with metrics, a log, and a queue of tiles to be written.
pub struct Tier {
    counted: Arc<Counted>,
    writer: Writer,
}

/// A tile that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The PNG.
    pub png: Bytes,
    /// Where.
    pub backend: Backend,
}

struct Counted {
    backend: Backend,
    store: Box<dyn TileTier>,
    counters: TierCounters,
    log: ErrorLog,
    problems: Mutex<Problems>,
}

/// The last errors, unless the same has succeeded since.
#[derive(Default)]
struct Problems {
    reading: Option<String>,
    writing: Option<String>,
}

impl Tiers {
    /// These tiers in order; `None` if there are none.
    pub fn of(tiers: Vec<Tier>) -> Option<Self> {
        (!tiers.is_empty()).then_some(Self(tiers))
    }

    /// The PNG of a tile; `None` if no tier has it. What is damaged or unreadable is counted and logged.
    pub fn find(&self, token: &Name, key: &TileKey) -> Option<Found> {
        let found =
            self.0.iter().enumerate().find_map(|(at, tier)| Some((at, tier.counted.get(token, key)?)));
        let (at, png) = found?;
        let tile = Tile::new(*key, png.clone());
        for nearer in &self.0[..at] {
            // The key alone determines the pixels, so it is right whatever the files are by now.
            nearer.write_later(token, &tile, Box::new(|| true));
        }
        Some(Found { png, backend: self.0[at].counted.backend })
    }

    /// Queues a tile to be written to every tier and returns at once. It is dropped where the queue is full, or if
    /// `still_so` is false when its turn comes.
    pub fn keep_later(&self, token: &Name, tile: &Tile, still_so: impl Fn() -> bool + Send + Sync + 'static) {
        let still_so = Arc::new(still_so);
        for tier in &self.0 {
            let still_so = Arc::clone(&still_so);
            tier.write_later(token, tile, Box::new(move || still_so()));
        }
    }

    /// Writes a tile and waits until that is done, for the tiers that are meant to last; for the others it is queued.
    /// Returns the first error.
    pub fn keep(&self, token: &Name, tile: &Tile) -> Result<(), TierError> {
        let (lasting, others): (Vec<_>, Vec<_>) = self.0.iter().partition(|tier| tier.is_lasting());
        others.into_iter().for_each(|tier| tier.write_later(token, tile, Box::new(|| true)));
        let write = |tier: &Tier| tier.counted.put(token, &tile.key, &tile.bytes);
        // Every tier, also after an error.
        let written: Vec<_> = lasting.into_iter().map(write).collect();
        written.into_iter().collect()
    }

    /// Whether every tier that is meant to last has a tile; its checksum is not verified.
    pub fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        for tier in self.lasting() {
            if !tier.counted.noted(Doing::Reading, tier.counted.store.has(token, key))? {
                return Ok(false);
            }
        }
        Ok(self.has_lasting())
    }

    /// Whether any tier has a tile; its checksum is not verified. Errors are counted and logged.
    pub fn has_any(&self, token: &Name, key: &TileKey) -> bool {
        let has = |tier: &Tier| tier.counted.noted(Doing::Reading, tier.counted.store.has(token, key));
        self.0.iter().any(|tier| has(tier).unwrap_or(false))
    }

    /// Whether a tier is meant to last, so that tiles can be rendered ahead of requests.
    pub fn has_lasting(&self) -> bool {
        self.lasting().next().is_some()
    }

    fn lasting(&self) -> impl Iterator<Item = &Tier> {
        self.0.iter().filter(|tier| tier.is_lasting())
    }

    /// Whether a write to any tier may succeed now.
    pub fn take_writes(&self) -> bool {
        self.0.iter().any(|tier| tier.counted.store.takes_writes())
    }

    /// Counts a tile that is not written to any tier.
    pub fn count_dropped(&self) {
        for tier in &self.0 {
            tier.counted.counters.dropped.inc();
        }
    }

    /// Why tiles could not be read or written lately.
    pub fn problems(&self) -> Vec<(Backend, String)> {
        let problem = |tier: &Tier| Some((tier.counted.backend, tier.counted.problem()?));
        self.0.iter().filter_map(problem).collect()
    }

    /// Closes the queues and waits until they are empty, for at most `within`; the rest is dropped.
    pub fn finish(&self, within: Duration) {
        let until = Instant::now() + within;
        for tier in &self.0 {
            let dropped = tier.writer.finish(until.saturating_duration_since(Instant::now()));
            if dropped > 0 {
                let key = tier.counted.backend.key();
                tracing::warn!("{dropped} tiles could not be written to {key} within {within:?}");
            }
        }
    }
}

impl Tier {
    /// Wraps a backend and starts its writer thread.
    pub fn start(
        backend: Backend,
        store: impl TileTier + 'static,
        counters: TierCounters,
    ) -> io::Result<Self> {
        let (log, dropped) = (ErrorLog::of(backend), counters.dropped.clone());
        let problems = Mutex::default();
        let counted = Arc::new(Counted { backend, store: Box::new(store), counters, log, problems });
        let write_to = Arc::clone(&counted);
        let write = move |token: &Name, key: &TileKey, png: &Bytes| {
            // `put` has counted and logged the error.
            drop(write_to.put(token, key, png));
        };
        Ok(Self { counted, writer: Writer::start(write, dropped)? })
    }

    fn is_lasting(&self) -> bool {
        self.counted.backend.is_lasting()
    }

    fn write_later(&self, token: &Name, tile: &Tile, still_so: Box<dyn FnOnce() -> bool + Send>) {
        // Not even queued: the writer thread would have to be woken to drop it.
        if !self.counted.store.takes_writes() {
            self.counted.counters.dropped.inc();
            return;
        }
        let (token, key, png) = (token.clone(), tile.key, tile.bytes.clone());
        self.writer.write(Waiting { token, key, png, still_so });
    }
}

#[derive(Clone, Copy)]
enum Doing {
    Reading,
    Writing,
}

impl Counted {
    fn get(&self, token: &Name, key: &TileKey) -> Option<Bytes> {
        let began = Instant::now();
        let looked = self.store.get(token, key);
        if !matches!(looked, Err(TierError::Resting)) {
            self.counters.observe_lookup(began.elapsed());
        }
        let found = self.noted(Doing::Reading, looked).ok()?;
        match found {
            Some(_) => self.counters.hits.inc(),
            None => self.counters.misses.inc(),
        };
        found
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        self.noted(Doing::Writing, self.store.put(token, key, png))?;
        self.counters.writes.inc();
        Ok(())
    }

    fn noted<T>(&self, doing: Doing, result: Result<T, TierError>) -> Result<T, TierError> {
        match &result {
            Ok(_) => self.problems().clear(doing),
            Err(error) => {
                self.count(doing, error);
                if !error.is_transient() {
                    self.problems().set(doing, error.to_string());
                }
                self.log.log(error);
            }
        }
        result
    }

    fn count(&self, doing: Doing, error: &TierError) {
        let counters = &self.counters;
        match (error, doing) {
            (TierError::Corrupt { .. }, _) => counters.corrupt.inc(),
            (TierError::Away { .. }, _) | (TierError::Resting, Doing::Writing) => counters.dropped.inc(),
            (TierError::Resting, Doing::Reading) => counters.skipped.inc(),
            _ => counters.errors.inc(),
        };
    }

    fn problem(&self) -> Option<String> {
        let noted = || {
            let problems = self.problems();
            problems.writing.clone().or_else(|| problems.reading.clone())
        };
        self.store.problem().or_else(noted)
    }

    fn problems(&self) -> MutexGuard<'_, Problems> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Problems {
    fn clear(&mut self, doing: Doing) {
        *self.slot(doing) = None;
    }

    fn set(&mut self, doing: Doing, problem: String) {
        *self.slot(doing) = Some(problem);
    }

    fn slot(&mut self, doing: Doing) -> &mut Option<String> {
        match doing {
            Doing::Reading => &mut self.reading,
            Doing::Writing => &mut self.writing,
        }
    }
}
