//! The context that all objects of a store share: threads, counters, and the stored chunks that are
//! on their way, have arrived, or are kept on a disk.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::Semaphore;
use voltile_base::flow::cache::{Cache, Flight};
use voltile_base::metrics::StoreMetrics;
use voltile_base::tile::TileKey;

use super::error::StoreError;
use super::threads::Threads;

/// Identifies a stored chunk by the number of its object, and its range of bytes there.
pub(super) type RangeKey = (u64, Range<u64>);
/// A stored chunk on its way.
pub(super) type ChunkFlight = Flight<RangeKey, Bytes, StoreError>;

/// A cache of stored chunks on a disk. `name` is the name of the chunk's object, for people. Every
/// method may block.
pub trait ChunkCache: Send + Sync {
    /// The bytes of a key, complete and exactly as kept; `None` if there are none.
    fn get(&self, name: &str, key: &TileKey) -> Result<Option<Bytes>, String>;

    /// Keeps the bytes of a key.
    fn put(&self, name: &str, key: &TileKey, bytes: &Bytes) -> Result<(), String>;

    /// Removes the bytes of a key, if there are any.
    fn remove(&self, name: &str, key: &TileKey) -> Result<(), String>;
}

/// The context that all objects of a store share.
pub(super) struct StoreContext {
    pub threads: Threads,
    pub metrics: StoreMetrics,
    /// The number of the next object that is opened.
    pub next_number: AtomicU64,
    /// The cache directory in which metadata is kept for the next start.
    pub metadata: Option<PathBuf>,
    /// The cache of stored chunks on a disk; unset if there is none.
    pub chunk_cache: OnceLock<Arc<dyn ChunkCache>>,
    /// A permit for each byte that may still wait to be written to that cache.
    pub unwritten: Arc<Semaphore>,
    /// Stored chunks on their way, and the chunks that arrived last.
    pub stored: Cache<RangeKey, Bytes, StoreError>,
}

impl fmt::Debug for StoreContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreContext").finish_non_exhaustive()
    }
}

impl StoreContext {
    /// Notes that stored chunks could not be read from the disk, or written to it: they are fetched
    /// again.
    pub fn note_cache_problem(&self, problem: &str) {
        self.metrics.chunk_errors.inc();
        tracing::debug!("cache.blocks: {problem}");
    }
}

/// Ends a flight with the bytes. In the cache, they weigh as much as they are long.
pub(super) fn land(flight: ChunkFlight, bytes: Result<Bytes, StoreError>) {
    flight.land(bytes.map(|bytes| {
        let weight = bytes.len();
        (bytes, weight)
    }));
}
