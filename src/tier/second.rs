//! The second tier as the service uses it: looked into before a tile is drawn, written to behind the answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::counted::Counted;
use super::writer::{Waiting, Writer};
use super::{TierError, TileTier};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::tile::{Tile, TileKey};

/// A tier that is counted, with a queue of tiles that are to be written into it.
pub struct SecondTier {
    tier: Arc<Counted>,
    writer: Writer,
}

impl SecondTier {
    /// Any tier as the second one; starts the thread that writes into it.
    pub fn new(tier: impl TileTier + 'static, metrics: &Metrics) -> io::Result<Self> {
        let tier = Arc::new(Counted::new(Box::new(tier), metrics.clone()));
        let writer = Writer::start(Arc::clone(&tier), metrics.clone())?;
        Ok(Self { tier, writer })
    }

    /// The PNG of a tile, where it is there and whole. That it could not be read is counted and logged, and not told.
    pub fn find(&self, token: &Name, key: &TileKey) -> Option<Bytes> {
        self.tier.get(token, key).ok().flatten()
    }

    /// Has a tile written when its turn comes, if it is `still_so` then; returns at once. Where too much waits already, the
    /// tile is dropped.
    pub fn keep_later(&self, token: Name, tile: &Tile, still_so: impl FnOnce() -> bool + Send + 'static) {
        let (key, png) = (tile.key, tile.png.clone());
        self.writer.write(Waiting { token, key, png, still_so: Box::new(still_so) });
    }

    /// Writes a tile, and returns when that is done.
    pub fn keep(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        self.tier.put(token, key, png)
    }

    /// Whether a tile is there, as far as can be told without reading it.
    pub fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        self.tier.has(token, key)
    }

    /// Takes nothing more, and waits until what was taken is written, though not for longer than so.
    pub fn finish(&self, within: Duration) {
        let dropped = self.writer.finish(within);
        if dropped > 0 {
            tracing::warn!("{dropped} tiles could not be written to cache.directory within {within:?}");
        }
    }
}
