//! Works around wrong chunk coordinates that libhdf5 reports for datasets indexed by an extensible
//! array.
//!
//! An extensible array has one element for each chunk of the dataset's *maximum* shape. So that it
//! can grow at its end, its one unlimited axis must vary slowest: libhdf5 moves that axis to the
//! front before it computes the element of a chunk (`H5VM_swizzle_coords` and
//! `swizzled_max_down_chunks` in `H5D__earray_idx_get_addr`, H5Dearray.c). The iteration over all
//! elements does not undo this: `H5D__earray_idx_iterate_cb` counts coordinates up in the unchanged
//! order of the axes, over `max_chunks`, where the unlimited axis never wraps. `H5Dchunk_iter`,
//! `H5Dget_chunk_info` and `H5Dget_chunk_info_by_coord` all report the wrong coordinates. They are
//! right only if no axis before the unlimited one has more than one chunk. (Observed in 2.2.0. If a
//! later version fixes this, the spot check of every index will fail.)
//!
//! Example: the first axis has 2 chunks, the second is unlimited. The elements 0, 1, 2, 3 are the
//! chunks (0, 0), (1, 0), (0, 1), (1, 1), but are reported as (0, 0), (0, 1), (0, 2), (0, 3).
//!
//! The iteration order is invertible: the reported coordinates give the element number, and that
//! gives the true coordinates. No other index needs this: fixed arrays and the implicit index
//! number the chunks of the maximum shape in axis order, both in lookups and in iterations; B-trees
//! of either version store coordinates; the single chunk index has only one chunk.

use hdf5::Dataset;

use crate::volume::hdf5::grid::{Grid, Position, RANK, linear, padded};
use crate::volume::hdf5::library;

/// The numbering of the elements of an extensible array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ElementRotation {
    /// The unlimited axis, which varies slowest.
    unlimited: usize,
    /// The maximum number of chunks along each axis.
    most: Position,
}

impl ElementRotation {
    /// `None` if the library reports the true coordinates of the dataset.
    pub fn detect(handle: &Dataset, grid: &Grid) -> hdf5::Result<Option<Self>> {
        if !library::is_extensible_array(handle)? {
            return Ok(None);
        }
        let shape: Vec<u64> = handle
            .space()?
            .maxdims()
            .iter()
            .map(|most| most.map_or(u64::MAX, |extent| extent as u64))
            .collect();
        Ok(Self::new(&shape, grid.chunk()))
    }

    /// From the maximum shape, in which `u64::MAX` means unlimited.
    fn new(shape: &[u64], chunk: &Position) -> Option<Self> {
        let shape = padded(shape, 1);
        let unlimited = shape.iter().position(|extent| *extent == u64::MAX)?;
        let most = std::array::from_fn(|axis| match shape[axis] {
            u64::MAX => u64::MAX,
            extent => extent.div_ceil(chunk[axis]).max(1),
        });
        Some(Self { unlimited, most })
    }

    /// The true grid position of a chunk, given the reported one.
    pub fn true_position(&self, reported: &Position) -> Position {
        let mut element = linear(&self.most, reported);
        let mut at = [0; RANK];
        for axis in (0..RANK).rev().filter(|axis| *axis != self.unlimited) {
            at[axis] = element % self.most[axis];
            element /= self.most[axis];
        }
        at[self.unlimited] = element;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `H5D__earray_idx_get_addr`: the element number of a chunk.
    fn element(at: &Position, most: &Position, unlimited: usize) -> u64 {
        let turned = |of: &Position| {
            let mut turned = *of;
            turned[..=unlimited].rotate_right(1);
            turned
        };
        linear(&turned(most), &turned(at))
    }

    /// `H5D__earray_idx_iterate_cb`: the coordinates reported for an element.
    fn reported(element: u64, most: &Position) -> Position {
        let mut at = [0; RANK];
        for _ in 0..element {
            for axis in (0..RANK).rev() {
                at[axis] += 1;
                if at[axis] < most[axis] {
                    break;
                }
                at[axis] = 0;
            }
        }
        at
    }

    #[test]
    fn what_the_library_reports_is_put_right() {
        for unlimited in 0..RANK {
            let (mut shape, chunk) = ([7, 4, 3, 5, 6], [2, 1, 3, 4, 2]);
            shape[unlimited] = u64::MAX;
            let rotation = ElementRotation::new(&shape, &chunk).unwrap();
            let grid = Grid::new(&[7, 4, 3, 5, 6], &chunk);
            for number in 0..grid.chunks() {
                let at = grid.numbered(number);
                let element = element(&at, &rotation.most, unlimited);
                assert_eq!(
                    rotation.true_position(&reported(element, &rotation.most)),
                    at,
                    "axis {unlimited}"
                );
            }
        }
    }

    #[test]
    fn nothing_is_undone_where_the_first_axis_is_the_unlimited_one_or_none_is() {
        let chunk = padded(&[10, 16, 16], 1);
        let first = ElementRotation::new(&[u64::MAX, 40, 50], &chunk).unwrap();
        for reported in [[0; RANK], [0, 0, 2, 1, 3], [0, 0, 90, 2, 0]] {
            assert_eq!(first.true_position(&reported), reported);
        }
        assert_eq!(ElementRotation::new(&[30, 40, 50], &chunk), None);
    }

    #[test]
    fn odd_shapes_do_no_harm() {
        let rotation = ElementRotation::new(&[0, u64::MAX, u64::MAX - 1], &[1; RANK]).unwrap();
        rotation.true_position(&[u64::MAX; RANK]);
    }
}
