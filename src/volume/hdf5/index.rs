//! The chunk index of a dataset: the addresses of its chunks, read through the library once, on first use.
//!
//! An index takes 24 bytes per chunk and is sorted by chunk number. While one thread reads it, others wait. The index
//! has a grid and a handle, but not its dataset; errors are strings for the dataset to wrap. A known bug of the library
//! is worked around ([`rotation`]), and a few entries of every index are checked ([`spot_check`]).

mod rotation;
mod spot_check;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use hdf5::Dataset;

use self::rotation::Rotation;
use self::spot_check::SpotCheck;
use super::file::StoredFile;
use super::grid::Grid;

/// The lazily read chunk index of a dataset.
#[derive(Debug)]
pub(super) struct ChunkIndex {
    file: Arc<StoredFile>,
    handle: Dataset,
    grid: Grid,
    entries: OnceLock<Vec<Entry>>,
    filling: Mutex<()>,
}

/// Where one chunk is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// The chunk's number in stored order ([`Grid::number`]).
    number: u64,
    /// The byte offset in the file.
    pub address: u64,
    /// The stored length in bytes.
    pub length: u32,
    /// A set bit means that the filter at that position was skipped.
    pub mask: u32,
}

impl Entry {
    /// Of a chunk whose stored bytes are its voxels.
    pub fn unfiltered(number: u64, address: u64, length: u32) -> Self {
        Self { number, address, length, mask: 0 }
    }

    /// The byte offset just after the chunk; saturates.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(u64::from(self.length))
    }
}

/// The maximum number of stored chunks per dataset; their index takes 384 MiB.
const MOST_CHUNKS: usize = 1 << 24;

fn find(entries: &[Entry], number: u64) -> Option<Entry> {
    entries.binary_search_by_key(&number, |entry| entry.number).ok().map(|at| entries[at])
}

impl ChunkIndex {
    /// Reads nothing yet.
    pub fn new(file: Arc<StoredFile>, handle: Dataset, grid: Grid) -> Self {
        Self { file, handle, grid, entries: OnceLock::new(), filling: Mutex::default() }
    }

    /// The entry of a chunk; `None` if it was never written.
    pub fn entry(&self, number: u64) -> Result<Option<Entry>, String> {
        Ok(find(self.entries()?, number))
    }

    /// The entry of a chunk that was written, if the index has been read.
    pub fn known_entry(&self, number: u64) -> Option<Entry> {
        find(self.entries.get()?, number)
    }

    /// All stored chunks, sorted by number.
    pub fn entries(&self) -> Result<&[Entry], String> {
        self.entries_by(None)
    }

    /// The same, or an error if the index is not complete by `until`.
    pub fn entries_by(&self, until: Option<Instant>) -> Result<&[Entry], String> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let _filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        if self.entries.get().is_none() {
            let entries = self.taken(until)?;
            self.file.bytes.save_metadata();
            return Ok(self.entries.get_or_init(|| entries));
        }
        Ok(self.entries.get().map_or(&[], Vec::as_slice))
    }

    /// Reads the index through the library.
    fn taken(&self, until: Option<Instant>) -> Result<Vec<Entry>, String> {
        let (handle, grid) = (&self.handle, &self.grid);
        let unreadable = |e: hdf5::Error| format!("the list of its chunks cannot be read: {e}");
        let rotation = Rotation::of(handle, grid).map_err(unreadable)?;
        let is_late = || until.is_some_and(|until| Instant::now() > until);
        let mut entries = Vec::new();
        let visited = handle.chunks_visit(|info| {
            // HDF5 limits chunks to 4 GiB. An invalid length becomes an error when the chunk is read.
            let length = u32::try_from(info.size).unwrap_or(u32::MAX);
            let reported = grid.beginning_at(info.offset);
            let at = rotation.map_or(reported, |rotation| rotation.undone(&reported));
            if grid.holds(&at) {
                let (number, mask) = (grid.number(&at), info.filter_mask);
                entries.push(Entry { number, address: info.addr, length, mask });
            }
            i32::from(entries.len() > MOST_CHUNKS || is_late())
        });
        visited.map_err(unreadable)?;
        if entries.len() > MOST_CHUNKS {
            return Err(format!("it has more than {MOST_CHUNKS} chunks; store it in larger chunks"));
        }
        if is_late() {
            return Err("the list of its chunks could not be read within the time limit".to_owned());
        }
        entries.sort_unstable_by_key(|entry| entry.number);
        entries.shrink_to_fit();
        SpotCheck { file: &self.file, handle, grid }.run(&entries)?;
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_small_as_promised() {
        assert_eq!(size_of::<Entry>(), 24);
    }
}
