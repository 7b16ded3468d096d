//! Unfiltered voxels, contiguous or chunked, copied from the memory-mapped file.
//!
//! Only the pages that contain wanted voxels are touched. The voxels are not cached: the system
//! caches the file's pages, and copying from them costs no more than copying from a cache.
//! Contiguous data counts as one chunk.

use super::bytes::Borrowed;
use super::dataset::{Storage, StoredDataset};
use super::grid::Position;
use crate::volume::scatter::{Strided, gathered};
use crate::volume::{BoxMut, ReadError, VoxelType};

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

    /// The byte offset of the chunk at a position in the grid; `None` if it was never written.
    pub(super) fn unfiltered_address(&self, at: &Position) -> Result<Option<u64>, ReadError> {
        if let Storage::Contiguous { address } = self.storage {
            return Ok(address);
        }
        let Some(entry) = self.entry(at)? else {
            return Ok(None);
        };
        let expected = self.chunk_bytes();
        let length = u64::from(entry.length);
        if length < expected {
            let chunk = self.chunk_name(at);
            let problem = format!("chunk {chunk} is stored in {length} bytes; expected {expected}");
            return Err(self.damaged(&problem));
        }
        Ok(Some(entry.address))
    }

    /// Copies the voxels at `place` in the chunk at the byte offset `address` of the file to
    /// `into`, which contains voxels of type `voxel`. The copy is valid only if
    /// [`Borrowed::ensure_still_there`] succeeds afterwards.
    pub(super) fn copy_unfiltered(
        &self,
        file: &Borrowed<'_>,
        address: u64,
        place: Strided,
        into: BoxMut<'_>,
        voxel: VoxelType,
    ) -> Result<(), ReadError> {
        let width = self.stored_bytes();
        let start = address.saturating_add((place.start * width) as u64);
        // In bytes, from the first to the last voxel.
        let span = place.span() * width;
        // The whole span is announced to the system if at least a quarter of its bytes are wanted.
        let wanted = width * place.size.iter().product::<usize>();
        let is_dense = span <= 4 * wanted;
        // From now on counted from the start of the lent bytes.
        let from = Strided { start: 0, ..place };
        let is_copied = if self.is_native() {
            file.lend(start, span, is_dense, |bytes| into.copy_bytes(bytes, from))?
        } else {
            // Elements that need conversion are gathered first, then converted all at once.
            let elements = file.lend(start, span, is_dense, |bytes| match width {
                1 => gathered::<1>(bytes, from),
                2 => gathered::<2>(bytes, from),
                4 => gathered::<4>(bytes, from),
                _ => gathered::<8>(bytes, from),
            })?;
            into.copy(&self.samples(elements, voxel), Strided::dense(from.size))
        };
        self.ensure_types_match(is_copied)
    }
}
