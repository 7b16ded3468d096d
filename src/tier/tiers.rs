//! The tiers as the service uses them: any number of backends, in order, as one.
//!
//! A tile is looked for in each tier in turn; when one has it, it is also written to the tiers that
//! were asked before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use voltile_base::name::Name;
use voltile_base::tile::{Tile, TileKey};

use super::writer::Tier;
use super::{TierError, TierKind};

/// Backends in the order in which tiles are looked for: the fastest first.
#[derive(Default)]
pub struct Tiers(Vec<Tier>);

impl Tiers {
    /// Combines tiers in order.
    pub fn new(tiers: Vec<Tier>) -> Self {
        Self(tiers)
    }

    /// Whether there is no tier.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The PNG of a tile, and the tier that had it; `None` if no tier has it. Damaged and
    /// unreadable tiles are counted and logged.
    pub fn find(&self, token: &Name, key: &TileKey) -> Option<(Bytes, TierKind)> {
        for (index, tier) in self.0.iter().enumerate() {
            let Some(png) = tier.0.get(token, key) else {
                continue;
            };
            let tile = Tile::new(*key, png.clone());
            // The key alone determines the pixels, so the tile belongs to its key even if the files
            // have changed since.
            for nearer in &self.0[..index] {
                nearer.0.put_later(token, &tile, || true);
            }
            return Some((png, tier.0.kind));
        }
        None
    }

    /// Queues a tile to be written to every tier and returns at once. It is dropped where the queue
    /// is full, or if `is_current` is false when its turn comes.
    pub fn store_later(
        &self,
        token: &Name,
        tile: &Tile,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        let is_current = Arc::new(is_current);
        for tier in &self.0 {
            let is_current = Arc::clone(&is_current);
            tier.0.put_later(token, tile, move || is_current());
        }
    }

    /// Writes a tile to the tiers that are meant to last and waits until it is written; queues it
    /// for the other tiers. Returns the first error.
    pub fn store(&self, token: &Name, tile: &Tile) -> Result<(), TierError> {
        let (lasting, others): (Vec<_>, Vec<_>) = self.0.iter().partition(|tier| is_lasting(tier));
        for tier in others {
            tier.0.put_later(token, tile, || true);
        }
        let mut outcome = Ok(());
        for tier in lasting {
            // After an error, the other tiers are written to all the same.
            outcome = outcome.and(tier.0.put(token, &tile.key, &tile.bytes));
        }
        outcome
    }

    /// Whether every tier that is meant to last has a tile; false if there is no such tier. The
    /// tile's checksum is not verified.
    pub fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        for tier in self.0.iter().filter(|tier| is_lasting(tier)) {
            if !tier.0.has(token, key)? {
                return Ok(false);
            }
        }
        Ok(self.0.iter().any(is_lasting))
    }

    /// Whether a write to any tier may succeed now.
    pub fn take_writes(&self) -> bool {
        self.0.iter().any(|tier| tier.0.backend.takes_writes())
    }

    /// Counts a tile that is not written to any tier.
    pub fn count_dropped(&self) {
        for tier in &self.0 {
            tier.0.counters.dropped.inc();
        }
    }

    /// Why tiles could not be read or written lately.
    pub fn problems(&self) -> Vec<(TierKind, String)> {
        self.0.iter().filter_map(|tier| tier.0.problem()).collect()
    }

    /// Closes the queues and waits until they are empty, for at most `within`; tiles that are still
    /// queued then are dropped.
    pub fn finish(&self, within: Duration) {
        let until = Instant::now() + within;
        for tier in &self.0 {
            tier.0
                .finish(until.saturating_duration_since(Instant::now()));
        }
    }
}

fn is_lasting(tier: &Tier) -> bool {
    tier.0.kind.is_lasting()
}
