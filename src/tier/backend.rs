//! The operations that every backend offers, and the kinds of tiers.

use bytes::Bytes;
use voltile_base::name::Name;
use voltile_base::tile::TileKey;

use super::error::TierError;

/// The kinds of tiers, by where they store tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TierKind {
    /// The disk cache.
    Directory,
    /// Redis.
    Redis,
    /// Object storage.
    Objects,
}

impl TierKind {
    /// The key that configures a tier of this kind; it also names the tier in messages.
    pub fn key(self) -> &'static str {
        match self {
            TierKind::Directory => "cache.directory",
            TierKind::Redis => "cache.redis",
            TierKind::Objects => "cache.store",
        }
    }

    /// Whether the tier keeps tiles long enough for `voltile warm` to be worthwhile; Redis may drop
    /// tiles at any time.
    pub fn is_lasting(self) -> bool {
        match self {
            TierKind::Directory | TierKind::Objects => true,
            TierKind::Redis => false,
        }
    }
}

/// A place where encoded tiles are stored.
///
/// Every method may block. Other threads and processes may use the same storage at the same time: a
/// tile that was there a moment ago may be gone.
pub trait Backend: Send + Sync {
    /// The PNG of a tile, complete and exactly as stored; `None` if there is none.
    ///
    /// For a damaged tile, which is removed, it returns [`TierError::Corrupt`]; later calls return
    /// `None`, unless the tile could not be removed.
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError>;

    /// Stores the PNG of a tile, replacing an existing one atomically.
    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError>;

    /// Whether a tile exists; its checksum is not verified.
    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError>;

    /// Whether a write may succeed now: not while a circuit breaker is open. Does not block.
    fn takes_writes(&self) -> bool {
        true
    }

    /// Why the backend as a whole cannot be used at present.
    fn problem(&self) -> Option<String> {
        None
    }
}
