//! The disk cache as the service uses it: looked into before a tile is rendered, written to behind the answer.
//!
//! What a backend does is counted, and what goes wrong in it is logged, here and for any backend.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::error_log::ErrorLog;
use super::writer::{Waiting, Writer};
use super::{TierError, TileTier};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::tile::{Tile, TileKey};

/// A backend that is counted, with a queue of tiles that are to be written into it.
pub struct SecondTier {
    counted: Arc<Counted>,
    writer: Writer,
}

/// A backend, its counters and its log.
struct Counted {
    tier: Box<dyn TileTier>,
    metrics: Metrics,
    log: ErrorLog,
}

impl SecondTier {
    /// Any backend as the second tier; starts the thread that writes into it.
    pub fn new(tier: impl TileTier + 'static, metrics: &Metrics) -> io::Result<Self> {
        let (tier, metrics) = (Box::new(tier), metrics.clone());
        let counted = Arc::new(Counted { tier, metrics: metrics.clone(), log: ErrorLog::default() });
        let write_to = Arc::clone(&counted);
        let write = move |token: &Name, key: &TileKey, png: &Bytes| {
            // Counted and logged already; there is nobody else to tell.
            drop(write_to.put(token, key, png));
        };
        Ok(Self { counted, writer: Writer::start(write, metrics)? })
    }

    /// The PNG of a tile, where it is there and whole. That it could not be read is counted and logged, and not told.
    pub fn find(&self, token: &Name, key: &TileKey) -> Option<Bytes> {
        self.counted.get(token, key)
    }

    /// Has a tile written when its turn comes, if it is `still_so` then; returns at once. Where too much waits already, the
    /// tile is dropped.
    pub fn keep_later(&self, token: Name, tile: &Tile, still_so: impl FnOnce() -> bool + Send + 'static) {
        let (key, png) = (tile.key, tile.png.clone());
        self.writer.write(Waiting { token, key, png, still_so: Box::new(still_so) });
    }

    /// Writes a tile, and returns when that is done.
    pub fn keep(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        self.counted.put(token, key, png)
    }

    /// Whether a tile is there, as far as can be told without reading it.
    pub fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        self.counted.noted(self.counted.tier.has(token, key))
    }

    /// Takes nothing more, and waits until what was taken is written, though not for longer than so.
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
            self.log.log(error);
        })
    }
}
