//! Where the chunks of an extensible array really are: the library reports wrong coordinates for them.
//!
//! An extensible array has one element for each chunk of the dataset's *maximum* shape. So that it can grow at its end,
//! the one unlimited axis counts slowest: libhdf5 moves it to the front before it works out a chunk's element
//! (`H5VM_swizzle_coords` in `H5D__earray_idx_get_addr`, H5Dearray.c; the extents are `swizzled_max_down_chunks`). The
//! iteration over all elements does not undo this. `H5D__earray_idx_iterate_cb` counts the coordinates up in the order
//! of the axes, with `max_chunks` for the extents, where that of the unlimited axis is never reached. All of
//! `H5Dchunk_iter`, `H5Dget_chunk_info` and `H5Dget_chunk_info_by_coord` report these coordinates; reading voxels does
//! not use them. They are right only where the unlimited axis is the first, or all axes before it are one chunk long.
//!
//! Elements are reported in their order, though, and so an element's number can be had back from what is reported. Of
//! the other indexes none rearranges axes: the fixed array and the implicit index count over the maximum shape in the
//! order of the axes, there and back; both kinds of B-tree store coordinates; a single chunk has none.

use hdf5::Dataset;

use crate::volume::hdf5::grid::{Grid, Position, RANK, linear, padded};
use crate::volume::hdf5::library;

/// The order in which an extensible array counts chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rotation {
    /// The axis that counts slowest.
    unlimited: usize,
    /// How many chunks the dataset may have along each axis.
    most: Position,
}

impl Rotation {
    /// How the chunks of a dataset are reported; `None` where that is as they are.
    pub fn of(handle: &Dataset, grid: &Grid) -> hdf5::Result<Option<Self>> {
        if !library::is_extensible_array(handle)? {
            return Ok(None);
        }
        let shape: Vec<u64> =
            handle.space()?.maxdims().iter().map(|most| most.map_or(u64::MAX, |most| most as u64)).collect();
        Ok(Self::new(&shape, grid.chunk()))
    }

    /// The same of a maximum shape, where `u64::MAX` is unlimited.
    fn new(shape: &[u64], chunk: &Position) -> Option<Self> {
        let shape = padded(shape, 1);
        let unlimited = shape.iter().position(|most| *most == u64::MAX)?;
        let count = |axis: usize| match shape[axis] {
            u64::MAX => u64::MAX,
            most => most.div_ceil(chunk[axis]).max(1),
        };
        Some(Self { unlimited, most: std::array::from_fn(count) })
    }

    /// The true place in the grid of a chunk that is reported at another.
    pub fn undone(&self, reported: &Position) -> Position {
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

    /// `H5D__earray_idx_get_addr`: the element that holds a chunk.
    fn element(at: &Position, most: &Position, unlimited: usize) -> u64 {
        let turned = |of: &Position| {
            let mut turned = *of;
            turned[..=unlimited].rotate_right(1);
            turned
        };
        linear(&turned(most), &turned(at))
    }

    /// `H5D__earray_idx_iterate_cb`: the coordinates that it has reached at an element.
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
            let rotation = Rotation::new(&shape, &chunk).unwrap();
            let grid = Grid::new(&[7, 4, 3, 5, 6], &chunk);
            for number in 0..grid.chunks() {
                let at = grid.numbered(number);
                let element = element(&at, &rotation.most, unlimited);
                assert_eq!(rotation.undone(&reported(element, &rotation.most)), at, "axis {unlimited}");
            }
        }
    }

    #[test]
    fn nothing_is_undone_where_the_first_axis_is_the_unlimited_one_or_none_is() {
        let chunk = padded(&[10, 16, 16], 1);
        let first = Rotation::new(&[u64::MAX, 40, 50], &chunk).unwrap();
        for reported in [[0; RANK], [0, 0, 2, 1, 3], [0, 0, 90, 2, 0]] {
            assert_eq!(first.undone(&reported), reported);
        }
        assert_eq!(Rotation::new(&[30, 40, 50], &chunk), None);
    }

    #[test]
    fn odd_shapes_do_no_harm() {
        let rotation = Rotation::new(&[0, u64::MAX, u64::MAX - 1], &[1; RANK]).unwrap();
        rotation.undone(&[u64::MAX; RANK]);
    }
}
