//! Unfiltered voxels, contiguous or chunked, copied from the memory-mapped file.
//!
//! Only the pages that contain wanted voxels are touched. The voxels are not cached: the system
//! caches the file's pages, and copying from them costs no more than copying from a cache.
//! Contiguous data counts as one chunk.

use voltile_base::geometry::Xyz;

use super::bytes::Borrowed;
use super::dataset::{Storage, StoredDataset};
use super::grid::Position;
use crate::volume::scatter::{Strided, gathered};
use crate::volume::{BoxMut, ReadError, VoxelType};

/// The bytes of a dataset's file, borrowed while one box is read.
pub(super) struct UnfilteredBytes<'a> {
    dataset: &'a StoredDataset,
    bytes: Borrowed<'a>,
}

impl StoredDataset {
    /// Whether its voxels can be copied from the mapped file: they are unfiltered, and the file can
    /// be mapped.
    pub(super) fn is_unfiltered(&self) -> bool {
        let has_addresses = matches!(
            self.storage,
            Storage::Chunked { .. } | Storage::Contiguous { address: Some(_) }
        );
        has_addresses
            && self.filters.is_empty()
            && self.stored.plain
            && self.file.bytes.can_be_mapped()
    }

    /// The file's bytes. What is copied from them is valid only if
    /// [`UnfilteredBytes::ensure_still_there`] succeeds afterwards.
    pub(super) fn unfiltered_bytes(&self) -> Result<UnfilteredBytes<'_>, ReadError> {
        Ok(UnfilteredBytes {
            dataset: self,
            bytes: self.file.bytes.borrow(self.place())?,
        })
    }

    /// The byte offset of the chunk at a position in the grid; `None` if it was never written.
    pub(super) fn unfiltered_address(&self, at: &Position) -> Result<Option<u64>, ReadError> {
        if let Storage::Contiguous { address } = self.storage {
            return Ok(address);
        }
        let Some(entry) = self.entry(at)? else {
            return Ok(None);
        };
        let expected = self.chunk_bytes();
        if u64::from(entry.length) < expected {
            let problem = format!(
                "chunk {} is stored in {} bytes; expected {expected}",
                self.chunk_name(at),
                entry.length
            );
            return Err(self.damaged(&problem));
        }
        Ok(Some(entry.address))
    }
}

impl UnfilteredBytes<'_> {
    /// Copies `count` voxels from a place in the chunk at the byte offset `address` to `into`,
    /// which contains voxels of type `voxel`.
    pub fn copy(
        &self,
        address: u64,
        from: Strided,
        into: BoxMut<'_>,
        count: Xyz<u64>,
        voxel: VoxelType,
    ) -> Result<(), ReadError> {
        let is_copied = if self.dataset.is_native() {
            self.lend(address, from, |bytes, from| into.copy_bytes(bytes, from))?
        } else {
            // Elements that need conversion are gathered first, and converted together.
            let bytes = self.lend(address, from, |bytes, from| {
                match self.dataset.stored_bytes() {
                    1 => gathered::<1>(bytes, from),
                    2 => gathered::<2>(bytes, from),
                    4 => gathered::<4>(bytes, from),
                    _ => gathered::<8>(bytes, from),
                }
            })?;
            into.copy(&self.dataset.samples(bytes, voxel), Strided::dense(count))
        };
        self.dataset.ensure_types_match(is_copied)
    }

    /// Lends the bytes from the first to the last voxel of a box, and its place in them.
    fn lend<T>(
        &self,
        address: u64,
        at: Strided,
        work: impl FnOnce(&[u8], Strided) -> T,
    ) -> Result<T, ReadError> {
        let width = self.dataset.stored_bytes();
        let span = at.span() * width;
        let start = address.saturating_add((at.start * width) as u64);
        // The whole span is announced to the system if at least a quarter of its bytes are wanted.
        let wanted = width * at.size.iter().product::<usize>();
        let is_dense = span <= 4 * wanted;
        let from_first = Strided { start: 0, ..at };
        self.bytes
            .lend(start, span, is_dense, |bytes| work(bytes, from_first))
    }

    /// Fails if the file has changed, or ends before what was copied from it.
    pub fn ensure_still_there(&self) -> Result<(), ReadError> {
        self.bytes.ensure_still_there()
    }
}
