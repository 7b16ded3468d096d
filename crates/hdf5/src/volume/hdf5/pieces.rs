//! Contiguous data of an object in a store, read as if it were stored in chunks.
//!
//! A local file is mapped, and any voxel of it costs the same. Each read from a store is a request,
//! so contiguous data is read in pieces that are contiguous themselves: whole rows, or whole slices
//! if they are small. Pieces are cached like chunks.

use super::grid::{Grid, Position, linear};
use super::index::Entry;

/// The maximum size of a piece in bytes.
const PIECE_BYTES: u64 = 256 << 10;

/// The grid of the pieces of a dataset of this shape. A piece is whole along the fastest axes, part
/// of the first axis that does not fit, and one voxel thick along the axes before: [1, 256, 1024]
/// for voxels of a byte and the shape [5, 1024, 1024].
pub(super) fn grid(shape: &[u64], voxel_bytes: u64) -> Grid {
    let mut piece = vec![1; shape.len()];
    // The number of positions along the next axis that still fit.
    let mut room = (PIECE_BYTES / voxel_bytes.max(1)).max(1);
    for (extent, whole) in piece.iter_mut().zip(shape).rev() {
        *extent = room.min(*whole).max(1);
        if *extent < *whole {
            break;
        }
        room /= *extent;
    }
    Grid::new(shape, &piece)
}

/// Where the piece at a position in the grid is stored, if the first voxel of the dataset lies at
/// the byte offset `begin`.
pub(super) fn entry(grid: &Grid, begin: u64, voxel_bytes: u64, at: &Position) -> Entry {
    let first = linear(grid.shape(), &grid.origin(at));
    let voxels: u64 = grid.extents(at).iter().product();
    Entry {
        number: grid.number(at),
        address: begin.saturating_add(first.saturating_mul(voxel_bytes)),
        length: u32::try_from(voxels.saturating_mul(voxel_bytes)).unwrap_or(u32::MAX),
        mask: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::hdf5::grid::padded;

    #[test]
    fn pieces_are_contiguous_and_cover_the_data_once() {
        for shape in [
            vec![9, 100, 700],
            vec![40, 50, 60],
            vec![3, 2, 5, 300, 1000],
            vec![2, 1 << 20],
        ] {
            let grid = grid(&shape, 2);
            let mut end = 1000;
            for number in 0..grid.chunks() {
                let at = grid.numbered(number);
                let entry = entry(&grid, 1000, 2, &at);
                assert_eq!(
                    entry.address, end,
                    "{shape:?}: pieces follow each other in stored order"
                );
                assert!(u64::from(entry.length) <= PIECE_BYTES && entry.length > 0);
                end = entry.end();
            }
            assert_eq!(end, 1000 + 2 * shape.iter().product::<u64>());
        }
    }

    #[test]
    fn the_last_piece_is_cut() {
        let whole = grid(&[5, 1024, 1024], 1);
        assert_eq!(*whole.chunk(), padded(&[1, 256, 1024], 1));
        let cut = grid(&[5, 300, 1024], 1);
        assert_eq!(cut.extents(&[0, 0, 0, 1, 0]), [1, 1, 1, 44, 1024]);
    }
}
