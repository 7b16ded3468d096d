//! Lends the bytes of a memory-mapped file, from which unfiltered voxels are copied and chunks are
//! decoded.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use super::{ByteSource, FileBytes, system, truncated};
use crate::volume::ReadError;
use crate::volume::hdf5::mapping::{Gone, Mapping};

/// Lends ranges of a file's bytes as long as the file is unchanged.
pub(in super::super) struct Borrowed<'a> {
    bytes: &'a FileBytes,
    /// The file's length when the borrow began.
    length: u64,
    /// The end of the furthest range lent so far.
    reached: Cell<u64>,
    place: String,
}

impl FileBytes {
    /// Whether the file can be mapped into memory; some file systems do not support it.
    pub fn can_be_mapped(&self) -> bool {
        match &self.source {
            ByteSource::File { mapping_slot, .. } => {
                let known = &mapping_slot.can_be_mapped;
                *known.get_or_init(|| self.map(0).is_ok())
            }
            ByteSource::Object { .. } => false,
        }
    }

    /// Borrows the file's bytes; `place` is for errors.
    ///
    /// The file is checked now and by [`Borrowed::ensure_still_there`], not for every range: a tile
    /// may need 64 ranges.
    pub fn borrow(&self, place: String) -> Result<Borrowed<'_>, ReadError> {
        let length = self.length(&place)?;
        Ok(Borrowed {
            bytes: self,
            length,
            reached: Cell::new(0),
            place,
        })
    }

    /// A mapping of the file that reaches at least to `end`.
    fn map(&self, end: u64) -> io::Result<Arc<Mapping>> {
        let ByteSource::File { file, mapping_slot } = &self.source else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        mapping_slot.reaching(end, || Mapping::new(file, self.current_length()?))
    }
}

impl Borrowed<'_> {
    /// Longer ranges are announced to the system, because its own read-ahead does not cover them.
    const MAX_UNANNOUNCED: usize = 64 << 10;

    /// Maps the pages of `length` bytes at an offset in the file, so that [`Borrowed::lend`] need
    /// not wait for them. Returns false if they are not in the page cache, or cannot be mapped:
    /// then the caller should read them, because one long read is faster than many page faults.
    pub fn populate(&self, address: u64, length: usize) -> bool {
        let end = address.saturating_add(length as u64);
        let ByteSource::File { mapping_slot, .. } = &self.bytes.source else {
            return false;
        };
        // The pages between the first and the last are almost always in the page cache, too.
        let is_cached = length > 0
            && end <= self.length
            && self.bytes.is_cached(address)
            && self.bytes.is_cached(end - 1);
        if !is_cached {
            return false;
        }
        let _reading = self.bytes.reading();
        let Ok(mapping) = self.bytes.map(end) else {
            return false;
        };
        let is_populated = mapping.populate(&(address as usize..end as usize));
        // `count_populated` may drop the slot's mapping, which is unmapped once nobody holds it.
        drop(mapping);
        mapping_slot.count_populated(length as u64);
        is_populated
    }

    /// Lends `length` bytes at an offset in the file to `work`, which copies from them. `is_dense`:
    /// it copies so many that reading all of them ahead is worthwhile. Fails and discards the
    /// result of `work` if bytes turn out to be missing.
    pub fn lend<T>(
        &self,
        address: u64,
        length: usize,
        is_dense: bool,
        work: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, ReadError> {
        let end = address.saturating_add(length as u64);
        if end > self.length {
            return Err(truncated(&self.place, self.length, end));
        }
        self.reached.set(self.reached.get().max(end));
        let _reading = self.bytes.reading();
        let mapping = self.bytes.map(end).map_err(|e| system(&self.place, &e))?;
        let range = address as usize..end as usize;
        if is_dense && length > Self::MAX_UNANNOUNCED {
            mapping.announce(&range);
        }
        mapping.lend(range, work).map_err(|Gone| {
            // The next range is lent from a new mapping.
            if let ByteSource::File { mapping_slot, .. } = &self.bytes.source {
                mapping_slot.drop_mapping();
            }
            match self.ensure_still_there() {
                Err(changed) => changed,
                Ok(()) => ReadError::System {
                    place: self.place.clone(),
                    problem: "its bytes could not be read from the disk".to_owned(),
                },
            }
        })
    }

    /// Fails if the file has changed, or ends before the end of the ranges lent. Must be called
    /// after the last `lend`: if a file is truncated meanwhile, reading beyond its last page raises
    /// a signal (SIGBUS), but the rest of that page reads as zeros.
    pub fn ensure_still_there(&self) -> Result<(), ReadError> {
        self.bytes.ensure_reaches(self.reached.get(), &self.place)
    }
}
