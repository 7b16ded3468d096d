//! Tile boundaries of a level along an axis, in voxels of full resolution.
//!
//! Tiles are numbered by row, column or slice. A ruler gives the start and end of each tile, and
//! the tiles that overlap a range of voxels. Boundaries are monotone in the tile number, so lookups
//! are binary searches.

use std::ops::Range;

use super::patch::shown_by;
use super::space::TILE;

/// The tiles of a level along one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ruler {
    tiles: u64,
    marks: Marks,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Marks {
    /// All tiles have this length.
    Even(u64),
    /// Rows of square pixels: pixel row j shows z = floor((j · across) / along) of the level.
    Stretched {
        across: f64,
        along: f64,
        factor: u64,
    },
}

impl Ruler {
    /// The slices of a level with this extent, whose voxels are `factor` times as long as those of
    /// full resolution.
    pub fn of_slices(extent: u64, factor: u64) -> Self {
        Self {
            tiles: extent,
            marks: Marks::Even(factor.max(1)),
        }
    }

    /// The tile rows or columns of a level drawn `drawn` pixels long, one pixel per voxel.
    pub fn of_tiles(drawn: u64, factor: u64) -> Self {
        let length = factor.max(1).saturating_mul(TILE as u64);
        Self {
            tiles: drawn.div_ceil(TILE as u64),
            marks: Marks::Even(length),
        }
    }

    /// The tile rows of a level drawn `drawn` pixels high with square pixels. A pixel is `across`
    /// wide and a voxel of the level `along` high, in the same unit.
    pub fn of_square_rows(drawn: u64, across: f64, along: f64, factor: u64) -> Self {
        let marks = Marks::Stretched {
            across,
            along,
            factor: factor.max(1),
        };
        Self {
            tiles: drawn.div_ceil(TILE as u64),
            marks,
        }
    }

    /// The number of tiles.
    pub fn tiles(&self) -> u64 {
        self.tiles
    }

    /// The first voxel of a tile.
    pub fn start(&self, tile: u64) -> u64 {
        match self.marks {
            Marks::Even(length) => tile.saturating_mul(length),
            Marks::Stretched {
                across,
                along,
                factor,
            } => (shown_by(tile.saturating_mul(TILE as u64), across, along) as u64)
                .saturating_mul(factor),
        }
    }

    /// The first voxel after a tile; for the last tile possibly past the end of the volume.
    pub fn end(&self, tile: u64) -> u64 {
        match self.marks {
            Marks::Even(length) => tile.saturating_add(1).saturating_mul(length),
            Marks::Stretched {
                across,
                along,
                factor,
            } => {
                let last = tile
                    .saturating_mul(TILE as u64)
                    .saturating_add(TILE as u64 - 1);
                (shown_by(last, across, along) as u64)
                    .saturating_add(1)
                    .saturating_mul(factor)
            }
        }
    }

    /// The maximum number of voxels that a tile covers.
    pub fn longest(&self) -> u64 {
        match self.marks {
            Marks::Even(length) => length,
            Marks::Stretched {
                across,
                along,
                factor,
            } => ((TILE as f64 * across / along).ceil() as u64)
                .saturating_add(1)
                .saturating_mul(factor),
        }
    }

    /// Whether all tiles have the same length.
    pub fn is_even(&self) -> bool {
        matches!(self.marks, Marks::Even(_))
    }

    /// The tiles that start in a range of voxels.
    pub fn starting_in(&self, voxels: &Range<u64>) -> Range<u64> {
        let first = |voxel: u64| self.first(|tile| self.start(tile) >= voxel);
        first(voxels.start)..first(voxels.end)
    }

    /// The tiles that overlap a range of voxels.
    pub fn touching(&self, voxels: &Range<u64>) -> Range<u64> {
        let first = self.first(|tile| self.end(tile) > voxels.start);
        let end = self.first(|tile| self.start(tile) >= voxels.end);
        first..end.max(first)
    }

    /// The voxels of a non-empty range of tiles.
    pub fn voxels(&self, tiles: &Range<u64>) -> Range<u64> {
        self.start(tiles.start)..self.end(tiles.end.saturating_sub(1))
    }

    /// The partition point of a monotone predicate: the first tile for which it holds.
    fn first(&self, holds: impl Fn(u64) -> bool) -> u64 {
        let (mut low, mut high) = (0, self.tiles);
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{
        Level, LevelView, Orthogonal, Placement, Plane, Scaling, TileAddress, Xyz, patch,
    };

    #[test]
    fn even_tiles_begin_and_end_where_they_should() {
        let ruler = Ruler::of_tiles(1300, 4);
        assert_eq!(
            (ruler.tiles(), ruler.start(2), ruler.end(2)),
            (3, 4096, 6144)
        );
        assert_eq!(ruler.starting_in(&(1..4096)), 1..2);
        assert_eq!(ruler.touching(&(2047..2049)), 0..2);
        assert_eq!(ruler.touching(&(2048..2048)), 1..1);
        let slices = Ruler::of_slices(10, 2);
        assert_eq!(
            (slices.starting_in(&(3..7)), slices.touching(&(3..7))),
            (2..4, 1..4)
        );
    }

    #[test]
    fn absurd_numbers_do_no_harm() {
        let ruler = Ruler::of_tiles(u64::MAX, u64::MAX);
        assert_eq!(ruler.touching(&(0..u64::MAX)).start, 0);
        assert_eq!(ruler.end(u64::MAX), u64::MAX);
    }

    #[test]
    fn square_rows_cover_the_voxels_that_their_tiles_show() {
        for (z, voxel) in [
            (310, 3.7),
            (7, 1.0),
            (100, 29.0),
            (450, 1.0 / 3.0),
            (5000, 0.1),
        ] {
            let stored = [(Level::FULL, 1, Xyz::new(700, 300, z))];
            for level in 0..3 {
                let view = LevelView::choose(Level::new(level).unwrap(), &stored, Scaling::Zslices)
                    .unwrap();
                let orthogonal = Orthogonal::Isotropic(Xyz::new(1.0, 1.0, voxel));
                let across = view.level.factor() as f64;
                let drawn = view.drawn(Plane::Xz, Xyz::all(0), orthogonal).1;
                let ruler = Ruler::of_square_rows(drawn, across, voxel, 1);
                for row in 0..ruler.tiles() {
                    let address = TileAddress {
                        plane: Plane::Xz,
                        level: view.level,
                        slice: 0,
                        row,
                        column: 0,
                    };
                    let patch = patch(&address, &view, Placement::default(), orthogonal).unwrap();
                    let first = patch.runs().first().unwrap().rows.start;
                    let end = patch.runs().last().unwrap().rows.end;
                    let told = (ruler.start(row), ruler.end(row));
                    // The last tile may end past its last row.
                    let is_last = row + 1 == ruler.tiles();
                    assert!(
                        told.0 == first && (told.1 == end || is_last && told.1 > end),
                        "{z} {voxel} {level}: {told:?} {:?}",
                        (first, end)
                    );
                    assert!(ruler.end(row) - ruler.start(row) <= ruler.longest());
                }
            }
        }
    }
}
