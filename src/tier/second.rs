//! The disk cache as the service uses it: read before a tile is rendered, written after the response.
//!
//! Adds metrics, a log and a write queue to any backend.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::error_log::ErrorLog;
use super::writer::{Waiting, Writer};
use super::{TierError, TileTier};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::tile::{Tile, TileKey};

/// A backend with metrics, a log, and a queue of tiles to be written.
pub struct SecondTier {
    counted: Arc<Counted>,
    writer: Writer,
}

struct Counted {
    tier: Box<dyn TileTier>,
    metrics: Metrics,
    log: ErrorLog,
    /// The last error, unless a tile has been written since.
    problem: Mutex<Option<String>>,
}

impl SecondTier {
    /// Wraps a backend and starts its writer thread.
    pub fn new(tier: impl TileTier + 'static, metrics: &Metrics) -> io::Result<Self> {
        let (tier, metrics) = (Box::new(tier), metrics.clone());
        let (log, problem) = (ErrorLog::default(), Mutex::default());
        let counted = Arc::new(Counted { tier, metrics: metrics.clone(), log, problem });
        let write_to = Arc::clone(&counted);
        let write = move |token: &Name, key: &TileKey, png: &Bytes| {
            // `put` has counted and logged the error.
            drop(write_to.put(token, key, png));
        };
        Ok(Self { counted, writer: Writer::start(write, metrics)? })
    }

    /// The PNG of a tile; `None` if there is none, or it is damaged or unreadable (which is counted and logged).
    pub fn find(&self, token: &Name, key: &TileKey) -> Option<Bytes> {
        self.counted.get(token, key)
    }

    /// Queues a tile to be written and returns at once. It is dropped if the queue is full, or if `still_so` is false
    /// when its turn comes.
    pub fn keep_later(&self, token: Name, tile: &Tile, still_so: impl FnOnce() -> bool + Send + 'static) {
        let (key, png) = (tile.key, tile.png.clone());
        self.writer.write(Waiting { token, key, png, still_so: Box::new(still_so) });
    }

    /// Writes a tile and waits until that is done.
    pub fn keep(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        self.counted.put(token, key, png)
    }

    /// Whether a tile exists; its checksum is not verified.
    pub fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        self.counted.noted(self.counted.tier.has(token, key))
    }

    /// Why tiles could not be read or written, if none has been written since.
    pub fn problem(&self) -> Option<String> {
        self.counted.problem().clone()
    }

    /// Closes the queue and waits until it is empty, for at most `within`; the rest is dropped.
    pub fn finish(&self, within: Duration) {
        let dropped = self.writer.finish(within);
        if dropped > 0 {
            tracing::warn!("{dropped} tiles could not be written to cache.directory within {within:?}");
        }
    }
}

impl Counted {
    fn get(&self, token: &Name, key: &TileKey) -> Option<Bytes> {
        let found = self.noted(self.tier.get(token, key)).ok().flatten();
        if found.is_some() {
            self.metrics.tier_hits.inc();
        }
        found
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        self.noted(self.tier.put(token, key, png))?;
        *self.problem() = None;
        self.metrics.tier_writes.inc();
        Ok(())
    }

    fn noted<T>(&self, result: Result<T, TierError>) -> Result<T, TierError> {
        result.inspect_err(|error| {
            match error {
                TierError::Corrupt { .. } => self.metrics.tier_corrupt.inc(),
                TierError::Away { .. } => self.metrics.tier_dropped.inc(),
                _ => self.metrics.tier_errors.inc(),
            };
            // A damaged tile is removed, which ends the problem.
            if !matches!(error, TierError::Corrupt { .. }) {
                *self.problem() = Some(error.to_string());
            }
            self.log.log(error);
        })
    }

    fn problem(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
