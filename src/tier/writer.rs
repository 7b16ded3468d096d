//! A backend with metrics, a log, and a thread that writes tiles after they were served.
//!
//! If the backend is slower than the render threads, its queue fills up and tiles are dropped: they
//! can be rendered again, and no request waits for them.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use voltile_base::flow::queue::Queue;
use voltile_base::flow::start_thread;
use voltile_base::metrics::TierCounters;
use voltile_base::name::Name;
use voltile_base::tile::{Tile, TileKey};

use super::error_log::ErrorLog;
use super::{Backend, TierError, TierKind};

/// The capacity of the queue in bytes of tiles.
const MAX_BYTES: usize = 32 << 20;

/// A backend with metrics, a log, and a queue of tiles to be written. Dropping it does not discard
/// queued tiles.
pub struct Tier(pub(super) Arc<MeteredTier>);

pub(super) struct MeteredTier {
    pub kind: TierKind,
    pub backend: Box<dyn Backend>,
    pub counters: TierCounters,
    log: ErrorLog,
    /// For each kind of operation, the last error that was not transient, unless an operation of
    /// that kind has succeeded since.
    problems: Mutex<[Option<String>; 2]>,
    queue: Queue<QueuedTile>,
}

/// A tile to be written.
struct QueuedTile {
    token: Name,
    key: TileKey,
    png: Bytes,
    /// Called before writing: whether the tile still matches its key. May block.
    is_current: Box<dyn FnOnce() -> bool + Send>,
}

/// A kind of operation; its value is an index of [`MeteredTier::problems`].
#[derive(Clone, Copy)]
enum Operation {
    Reading,
    Writing,
}

impl Tier {
    /// Wraps a backend and starts its writer thread.
    pub fn start(
        kind: TierKind,
        backend: impl Backend + 'static,
        counters: TierCounters,
    ) -> io::Result<Self> {
        let tier = Arc::new(MeteredTier {
            kind,
            backend: Box::new(backend),
            counters,
            log: ErrorLog::new(kind),
            problems: Mutex::default(),
            queue: Queue::new(MAX_BYTES),
        });
        let own = Arc::clone(&tier);
        start_thread("tier-writer", move || {
            // `_room` counts the tile against the queue's capacity until it is written.
            while let Some((tile, _room)) = own.queue.next() {
                if (tile.is_current)() {
                    // `put` counts and logs an error.
                    let _ = own.put(&tile.token, &tile.key, &tile.png);
                } else {
                    own.counters.dropped.inc();
                }
            }
        })?;
        Ok(Self(tier))
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

impl MeteredTier {
    /// The PNG of a tile; `None` if it is not there, or cannot be read.
    pub fn get(&self, token: &Name, key: &TileKey) -> Option<Bytes> {
        let began = Instant::now();
        let result = self.backend.get(token, key);
        if !result.as_ref().is_err_and(TierError::is_skipped) {
            self.counters.observe_lookup(began.elapsed());
        }
        let png = self.note(Operation::Reading, result).ok()?;
        match png {
            Some(_) => self.counters.hits.inc(),
            None => self.counters.misses.inc(),
        };
        png
    }

    /// Whether a tile is there; its checksum is not verified.
    pub fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        self.note(Operation::Reading, self.backend.has(token, key))
    }

    /// Queues a tile to be written; drops it if the queue is full or closed.
    pub fn put_later(
        &self,
        token: &Name,
        tile: &Tile,
        is_current: impl FnOnce() -> bool + Send + 'static,
    ) {
        let queued = QueuedTile {
            token: token.clone(),
            key: tile.key,
            png: tile.bytes.clone(),
            is_current: Box::new(is_current),
        };
        let no_wait = Some(Duration::ZERO);
        // A tile that the backend would not take is not queued: the writer thread would have to be
        // woken to drop it.
        if !self.backend.takes_writes() || !self.queue.push(queued, tile.bytes.len(), no_wait) {
            self.counters.dropped.inc();
        }
    }

    /// Why tiles could not be read or written lately.
    pub fn problem(&self) -> Option<(TierKind, String)> {
        let [reading, writing] = self.problems.lock().clone();
        let problem = self.backend.problem().or(writing).or(reading)?;
        Some((self.kind, problem))
    }

    /// Closes the queue and waits until all tiles are written, for at most `within`; tiles that are
    /// still queued then are dropped.
    pub fn finish(&self, within: Duration) {
        self.queue.close();
        self.queue.flush(Some(within));
        let dropped = self.queue.clear();
        self.counters.dropped.inc_by(dropped as u64);
        if dropped > 0 {
            let key = self.kind.key();
            tracing::warn!("{dropped} tiles could not be written to {key} within {within:?}");
        }
    }

    /// Writes a tile; counts and logs an error.
    pub fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        self.note(Operation::Writing, self.backend.put(token, key, png))?;
        self.counters.writes.inc();
        Ok(())
    }

    /// Counts and logs an error, and notes it as the problem of this kind of operation unless it is
    /// transient; a success clears the problem.
    fn note<T>(&self, operation: Operation, result: Result<T, TierError>) -> Result<T, TierError> {
        let Err(error) = &result else {
            self.problems.lock()[operation as usize] = None;
            return result;
        };
        let counters = &self.counters;
        match (error, operation) {
            (TierError::Corrupt { .. }, _) => counters.corrupt.inc(),
            (error, Operation::Writing) if error.is_skipped() => counters.dropped.inc(),
            (error, Operation::Reading) if error.is_skipped() => counters.skipped.inc(),
            _ => counters.errors.inc(),
        };
        if !error.is_transient() {
            self.problems.lock()[operation as usize] = Some(error.to_string());
        }
        self.log.log(error);
        result
    }
}
