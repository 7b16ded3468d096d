//! Unfiltered voxels, contiguous or chunked, copied from the memory-mapped file.
//!
//! Only the pages that contain wanted voxels are touched. The voxels are not cached: the system caches the file's
//! pages, and copying from them costs no more than copying from a cache. Contiguous data counts as one chunk.

use super::bytes::Loan;
use super::dataset::{Storage, StoredDataset};
use super::grid::Position;
use crate::geometry::Xyz;
use crate::volume::scatter::{Lattice, copy_box, copy_elements};
use crate::volume::{ReadError, Samples, VoxelType};

/// A stored chunk without filters.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnfilteredChunk {
    /// The byte offset in the file.
    address: u64,
}

/// The bytes of a dataset's file, borrowed while one box is read.
pub(super) struct UnfilteredBytes<'a> {
    dataset: &'a StoredDataset,
    bytes: Loan<'a>,
}

impl StoredDataset {
    /// Whether its voxels can be copied from the mapped file: they are unfiltered, and the file can be mapped.
    pub(super) fn is_unfiltered(&self) -> bool {
        let placed =
            matches!(self.storage, Storage::Chunked { .. } | Storage::Contiguous { address: Some(_) });
        placed && self.filters.is_empty() && self.stored.plain && self.file.bytes.can_be_mapped()
    }

    /// The file's bytes. What is copied from them is valid only if [`UnfilteredBytes::ensure_still_there`] succeeds
    /// afterwards.
    pub(super) fn unfiltered_bytes(&self) -> Result<UnfilteredBytes<'_>, ReadError> {
        Ok(UnfilteredBytes { dataset: self, bytes: self.file.bytes.borrow(self.place())? })
    }

    /// The chunk at a position in the grid; `None` if it was never written.
    pub(super) fn unfiltered_chunk(&self, at: &Position) -> Result<Option<UnfilteredChunk>, ReadError> {
        if let Storage::Contiguous { address } = self.storage {
            return Ok(address.map(|address| UnfilteredChunk { address }));
        }
        let Some(entry) = self.entry(at)? else { return Ok(None) };
        let expected = self.grid.voxels().saturating_mul(self.stored_bytes() as u64);
        if u64::from(entry.length) < expected {
            let problem = format!(
                "chunk {} is stored in {} bytes; expected {expected}",
                self.chunk_name(at),
                entry.length
            );
            return Err(self.damaged(&problem));
        }
        Ok(Some(UnfilteredChunk { address: entry.address }))
    }
}

impl UnfilteredBytes<'_> {
    /// Copies a box of `size` voxels from the layout `from` in the chunk to the layout `target` in `into`, which
    /// contains voxels of type `voxel`.
    pub fn copy(
        &self,
        chunk: UnfilteredChunk,
        from: Lattice,
        into: &mut Samples,
        target: Lattice,
        size: Xyz<u64>,
        voxel: VoxelType,
    ) -> Result<(), ReadError> {
        if self.dataset.is_native() {
            return self.copy_bytes(chunk, from, into.bytes_mut(), target, size);
        }
        // Elements that need conversion are gathered first, and converted together.
        let (gathered, dense) = (size.volume() as usize, Lattice::dense(size, Xyz::all(0)));
        let mut bytes = vec![0; gathered * self.dataset.stored_bytes()];
        self.copy_bytes(chunk, from, &mut bytes, dense, size)?;
        let voxels = self.dataset.samples(bytes, voxel);
        if copy_box(&voxels, dense, into, target, size) {
            Ok(())
        } else {
            Err(self.dataset.damaged("its voxels were decoded to the wrong type"))
        }
    }

    fn copy_bytes(
        &self,
        chunk: UnfilteredChunk,
        from: Lattice,
        into: &mut [u8],
        target: Lattice,
        size: Xyz<u64>,
    ) -> Result<(), ReadError> {
        let width = self.dataset.stored_bytes();
        let span = from.span(size) * width;
        let start = chunk.address.saturating_add((from.start * width) as u64);
        // If at least a quarter of the bytes in the span are wanted, the whole span is announced to the system.
        let dense = span as u64 <= 4 * size.volume().saturating_mul(width as u64);
        let front = Lattice { start: 0, ..from };
        self.bytes.lend(start, span, dense, |bytes| match width {
            1 => copy_elements::<1>(bytes, front, into, target, size),
            2 => copy_elements::<2>(bytes, front, into, target, size),
            4 => copy_elements::<4>(bytes, front, into, target, size),
            _ => copy_elements::<8>(bytes, front, into, target, size),
        })
    }

    /// Fails if the file has changed, or ends before what was copied from it.
    pub fn ensure_still_there(&self) -> Result<(), ReadError> {
        self.bytes.ensure_still_there()
    }
}
