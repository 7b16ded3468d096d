//! The memory mapping of a file.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::volume::hdf5::mapping::Mapping;

/// After this many bytes have been populated, the mapping is made anew: only then does the system
/// free the page tables of the old one, which take 2 MiB for each GiB.
const MAX_POPULATED: u64 = 4 << 30;

/// The mapping of a file, made when it is first needed, and again when the file has grown.
#[derive(Debug, Default)]
pub(super) struct MappingSlot {
    mapping: Mutex<Option<Arc<Mapping>>>,
    /// Whether the file can be mapped; unset until a caller asks for it.
    pub can_be_mapped: OnceLock<bool>,
    /// The number of bytes that were populated since the mapping was made anew.
    populated: AtomicU64,
}

impl MappingSlot {
    /// The mapping, if it reaches at least to `end`; otherwise the one that `map` makes.
    pub fn reaching(
        &self,
        end: u64,
        map: impl FnOnce() -> io::Result<Mapping>,
    ) -> io::Result<Arc<Mapping>> {
        let mut mapping = self.mapping.lock();
        if let Some(mapping) = mapping.as_ref().filter(|mapping| mapping.length() >= end) {
            return Ok(Arc::clone(mapping));
        }
        Ok(Arc::clone(mapping.insert(Arc::new(map()?))))
    }

    /// Drops the mapping; it is made again when needed.
    pub fn drop_mapping(&self) {
        let dropped = self.mapping.lock().take();
        // Not under the lock: unmapping may take long.
        drop(dropped);
    }

    /// Counts bytes that were populated; drops the mapping when it has [`MAX_POPULATED`].
    pub fn count_populated(&self, length: u64) {
        let before = self.populated.fetch_add(length, Ordering::Relaxed);
        if before + length >= MAX_POPULATED {
            self.populated.store(0, Ordering::Relaxed);
            self.drop_mapping();
        }
    }
}
