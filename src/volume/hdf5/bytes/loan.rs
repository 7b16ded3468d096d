//! The bytes of a file as memory, for data whose voxels are copied straight from the file.

use std::cell::Cell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{FileBytes, system, truncated};
use crate::volume::ReadError;
use crate::volume::hdf5::mapping::{Gone, Mapping};

/// The current mapping of a file, made when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    mapping: Mutex<Option<Arc<Mapping>>>,
    possible: OnceLock<bool>,
}

/// The bytes of a file, from which pieces are copied one after the other.
pub(in super::super) struct Loan<'a> {
    bytes: &'a FileBytes,
    /// The file's length when the loan began.
    length: u64,
    /// The end of the furthest piece lent so far.
    reached: Cell<u64>,
    place: String,
}

impl FileBytes {
    /// Whether the file can be mapped into memory; some file systems do not support it.
    pub fn can_be_mapped(&self) -> bool {
        *self.mapped.possible.get_or_init(|| self.map(0).is_ok())
    }

    /// The file's bytes, to copy from; `place` is for errors.
    ///
    /// The file's length is checked now and at the end, not for every piece: a tile may be made of 64.
    pub fn borrow(&self, place: String) -> Result<Loan<'_>, ReadError> {
        let length = self.length(&place)?;
        Ok(Loan { bytes: self, length, reached: Cell::new(0), place })
    }

    /// Drops the mapping; the next loan makes a new one.
    pub fn unmap(&self) {
        *self.mapped.mapping.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A mapping of the file that reaches at least to `end`.
    fn map(&self, end: u64) -> std::io::Result<Arc<Mapping>> {
        let mut mapping = self.mapped.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapping) = mapping.as_ref().filter(|mapping| mapping.length() >= end) {
            return Ok(Arc::clone(mapping));
        }
        let fresh = Arc::new(Mapping::new(&self.file, self.current_length()?)?);
        *mapping = Some(Arc::clone(&fresh));
        Ok(fresh)
    }
}

impl Loan<'_> {
    /// Ranges longer than this are announced to the system, which reads ahead less than this by itself.
    const ANNOUNCED: usize = 64 << 10;

    /// Lends `length` bytes at a position of the file to `work`, which copies what it wants of them; `whole` says that
    /// this is most of them. The result of `work` is discarded if bytes turn out to be missing.
    pub fn lend<T>(
        &self,
        address: u64,
        length: usize,
        whole: bool,
        work: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, ReadError> {
        let end = address.saturating_add(length as u64);
        if end > self.length {
            return Err(truncated(&self.place, self.length, end));
        }
        self.reached.set(self.reached.get().max(end));
        let mapping = self.bytes.map(end).map_err(|e| system(&self.place, &e))?;
        let range = address as usize..end as usize;
        if whole && length > Self::ANNOUNCED {
            mapping.announce(&range);
        }
        mapping.lend(range, work).map_err(|Gone| {
            // The next loan maps the file as it is then.
            self.bytes.unmap();
            let changed = self.ensure_still_there().err();
            changed.unwrap_or_else(|| ReadError::System {
                place: self.place.clone(),
                problem: "its bytes could not be read from the disk".to_owned(),
            })
        })
    }

    /// Fails if the file has changed, or ends before what was copied. Must be called last: the rest of the last page of a
    /// file that was truncated during the loan reads as zeros, without any signal.
    pub fn ensure_still_there(&self) -> Result<(), ReadError> {
        self.bytes.ensure_reaches(self.reached.get(), &self.place)
    }
}
