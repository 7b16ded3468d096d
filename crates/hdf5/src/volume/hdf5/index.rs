//! The chunk index of a dataset: the addresses of its chunks, read through the library once, on
//! first use.
//!
//! An index takes 24 bytes per chunk and is sorted by chunk number. One thread reads it, and
//! threads that need it wait. Its errors do not name the dataset, which adds its name itself. A
//! known bug of the library is worked around ([`rotation`]), and a few entries of every index are
//! checked ([`spot_check`]).
//!
//! In remote files, version-1 B-trees are read without the library, in one round trip for each
//! level ([`header`], [`btree`]).

mod btree;
mod entry;
mod header;
mod metadata;
mod rotation;
mod spot_check;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hdf5::Dataset;
use parking_lot::Mutex;

pub(super) use self::entry::{Entry, IndexError};
use self::entry::{MAX_CHUNKS, ensure_few, ensure_in_time, is_late};
use self::header::ChunkTree;
use self::metadata::Metadata;
use self::rotation::ElementRotation;
use self::spot_check::SpotCheck;
use super::file::StoredFile;
use super::grid::{Grid, Position, RANK};
use super::library::{self, Superblock};
use super::library_lock;
use crate::volume::ReadError;

/// The lazily read chunk index of a dataset.
#[derive(Debug)]
pub(super) struct ChunkIndex {
    file: Arc<StoredFile>,
    /// The path of the dataset in the file, along hard links.
    object: Arc<str>,
    grid: Grid,
    /// Sorted by number.
    entries: OnceLock<Vec<Entry>>,
    /// Along each axis, the position of the furthest stored chunk, computed on first use.
    furthest: OnceLock<Position>,
    /// Held by the thread that reads the entries.
    filling: Mutex<()>,
}

/// The entry with this number.
fn find(entries: &[Entry], number: u64) -> Option<Entry> {
    entries
        .binary_search_by_key(&number, |entry| entry.number)
        .ok()
        .map(|at| entries[at])
}

impl ChunkIndex {
    /// Reads nothing yet.
    pub fn new(file: Arc<StoredFile>, object: Arc<str>, grid: Grid) -> Self {
        Self {
            file,
            object,
            grid,
            entries: OnceLock::new(),
            furthest: OnceLock::new(),
            filling: Mutex::default(),
        }
    }

    /// The entry of a chunk; `None` if it was never written.
    pub fn entry(&self, number: u64) -> Result<Option<Entry>, IndexError> {
        Ok(find(self.entries(None)?, number))
    }

    /// The entry of a chunk, if it was written and the index has been read.
    pub fn known_entry(&self, number: u64) -> Option<Entry> {
        find(self.entries.get()?, number)
    }

    /// Along each axis, the position of the furthest stored chunk, if the index has been read.
    pub fn furthest(&self) -> Option<&Position> {
        let entries = self.entries.get()?;
        Some(self.furthest.get_or_init(|| {
            let mut furthest = [0; RANK];
            for entry in entries {
                let at = self.grid.numbered(entry.number);
                furthest = std::array::from_fn(|axis| furthest[axis].max(at[axis]));
            }
            furthest
        }))
    }

    /// All stored chunks, sorted by number; an error if the index is not complete by `until`.
    pub fn entries(&self, until: Option<Instant>) -> Result<&[Entry], IndexError> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let _filling = self.filling.lock();
        // Another thread may have read them meanwhile.
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let entries = self.read(until)?;
        self.file.bytes.save_metadata();
        Ok(self.entries.get_or_init(|| entries))
    }

    /// Reads the index.
    fn read(&self, until: Option<Instant>) -> Result<Vec<Entry>, IndexError> {
        let opened = {
            let _library = library_lock::lock().map_err(ReadError::from)?;
            self.file.handles.dataset(&self.object)
        };
        let handle = &opened.map_err(unreadable)?;
        let mut direct = None;
        if self.file.bytes.is_remote() {
            direct = self.read_directly(handle, until)?;
        }
        let mut entries = match direct {
            Some(entries) => entries,
            None => self.read_through_library(handle, until)?,
        };
        entries.sort_unstable_by_key(|entry| entry.number);
        entries.shrink_to_fit();
        let _library = library_lock::lock().map_err(ReadError::from)?;
        SpotCheck {
            file: &self.file,
            handle,
            grid: &self.grid,
        }
        .run(&entries)?;
        Ok(entries)
    }

    /// Reads the index without the library, not sorted; `None` if it is no version-1 B-tree, or
    /// cannot be read in this way.
    fn read_directly(
        &self,
        handle: &Dataset,
        until: Option<Instant>,
    ) -> Result<Option<Vec<Entry>>, IndexError> {
        if !library::is_version_1_btree(handle).map_err(unreadable)? {
            return Ok(None);
        }
        let place = format!("{} in {}", self.object, self.file.location);
        let bytes = &self.file.bytes;
        let metadata = Metadata {
            superblock: self.superblock().map_err(unreadable)?,
            length: bytes.length(&place)?,
            read_many: &|ranges| bytes.read_many(ranges, &place),
        };
        match self.tree(handle, &metadata) {
            Ok(Some(tree)) => btree::entries(&metadata, &tree, &self.grid, until).map(Some),
            Ok(None) => Ok(None),
            // The library has read this header, so it may be intact, but in a form unknown here.
            Err(IndexError::Wrong(problem)) => {
                tracing::warn!(
                    "{place}: the index of its chunks is read through the HDF5 library: {problem}"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn superblock(&self) -> hdf5::Result<Superblock> {
        library::superblock(&self.file.handles.get()?.file)
    }

    fn tree(
        &self,
        handle: &Dataset,
        metadata: &Metadata<'_>,
    ) -> Result<Option<ChunkTree>, IndexError> {
        let header = library::header_address(handle).map_err(unreadable)?;
        header::tree(metadata, header, handle.ndim())
    }

    /// Reads the index through the library. Not sorted.
    fn read_through_library(
        &self,
        handle: &Dataset,
        until: Option<Instant>,
    ) -> Result<Vec<Entry>, IndexError> {
        let grid = &self.grid;
        let _library = library_lock::lock().map_err(ReadError::from)?;
        let rotation = ElementRotation::detect(handle, grid).map_err(unreadable)?;
        let mut entries = Vec::new();
        let visited = handle.chunks_visit(|info| {
            // HDF5 limits chunks to 4 GiB. An invalid length becomes an error when the chunk is
            // read.
            let length = u32::try_from(info.size).unwrap_or(u32::MAX);
            let reported = grid.containing(info.offset);
            let at = rotation.map_or(reported, |rotation| rotation.true_position(&reported));
            if grid.holds(&at) {
                entries.push(Entry {
                    number: grid.number(&at),
                    address: info.addr,
                    length,
                    mask: info.filter_mask,
                });
            }
            // Anything but 0 ends the visit.
            i32::from(entries.len() > MAX_CHUNKS || is_late(until))
        });
        visited.map_err(unreadable)?;
        ensure_few(entries.len())?;
        ensure_in_time(until)?;
        Ok(entries)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unreadable(error: hdf5::Error) -> String {
    format!("the list of its chunks cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_small_as_promised() {
        assert_eq!(size_of::<Entry>(), 24);
    }
}
