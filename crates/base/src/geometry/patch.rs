//! The part of a tile that lies within a level: which voxels it shows, and in which rows.

use std::ops::Range;

use super::levels::{Level, LevelView};
use super::space::{Plane, Region, TILE, Xyz};

/// A tile of a channel: numbers as in the URL, relative to the plane, not yet known to lie inside
/// the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TileAddress {
    /// The orientation.
    pub plane: Plane,
    /// The level whose voxels are the tile's pixels.
    pub level: Level,
    /// The position along the plane's slice axis, in voxels of the level.
    pub slice: u64,
    /// The row of tiles, counted from the volume's first voxel.
    pub row: u64,
    /// The column of tiles, counted from the volume's first voxel.
    pub column: u64,
}

/// How xz and yz tiles show anisotropic voxels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Orthogonal {
    /// Each z is one row.
    Stored,
    /// Rows are resampled so that pixels are square, given the voxel size (in any unit; only ratios
    /// matter).
    Isotropic(Xyz<f64>),
}

/// The position of a channel in the tiles of its dataset, in voxels of level 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Placement {
    /// The dataset's offset, which shifts slice numbers only.
    pub slices: Xyz<i64>,
    /// The channel's offset in the grid of tiles, which shifts slice numbers, rows and columns.
    pub grid: Xyz<i64>,
}

/// Converts an offset from voxels of level 0 to voxels of a level with this downsample factor,
/// rounded down.
pub fn at_level(offset: Xyz<i64>, factor: Xyz<u64>) -> Xyz<i64> {
    // The quotient fits in i64: if the factor does not, the quotient is 0 or -1.
    offset.zip(factor, |offset, factor| {
        i128::from(offset).div_euclid(i128::from(factor.max(1))) as i64
    })
}

/// A run of adjacent rows of a level, and its position among the distinct rows of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowRun {
    /// Positions along the row axis, in voxels of the level.
    pub rows: Range<u64>,
    /// The index of the run's first row among the patch's distinct rows.
    pub first: usize,
}

/// The part of a level that a tile shows: never empty, always within the level.
///
/// Its *distinct rows* are the rows of the level that the tile shows, each counted once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    plane: Plane,
    /// The slices: several for a slab, otherwise one.
    slices: Range<u64>,
    columns: Range<u64>,
    runs: Vec<RowRun>,
    shown: ShownRows,
    /// The tile's rows above the first one shown.
    top: usize,
    /// The tile's columns left of the first one shown.
    left: usize,
}

/// Which distinct row each tile row shows, from [`Patch::top`] on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ShownRows {
    /// Every distinct row is shown once; there are this many.
    Each(usize),
    /// The index of the distinct row that each tile row shows.
    Stretched(Vec<usize>),
}

/// The patch that `address` shows of the level `view`; `None` if the tile lies entirely outside.
pub fn patch(
    address: &TileAddress,
    view: &LevelView,
    placement: Placement,
    orthogonal: Orthogonal,
) -> Option<Patch> {
    let end = address.slice.saturating_add(1);
    slab_patch(address, end, view, placement, orthogonal)
}

/// The patch of the slices from that of `address` up to `end`, which is exclusive; `None` if the
/// tile lies entirely outside in all of them.
pub fn slab_patch(
    address: &TileAddress,
    end: u64,
    view: &LevelView,
    placement: Placement,
    orthogonal: Orthogonal,
) -> Option<Patch> {
    let plane = address.plane;
    let shift = view.shift(placement.grid);
    let slices = slices(address, end, view, placement)?;
    let (columns, left) = span_of_tile(
        address.column,
        shift[plane.column_axis()],
        view.size[plane.column_axis()],
    )?;
    let (runs, shown, top) = match orthogonal {
        Orthogonal::Isotropic(voxel) if plane != Plane::Xy => {
            let (rows, top) = stretched_z(address, view, shift.z, voxel);
            let (runs, shown) = runs_of(&rows);
            (runs, shown, top)
        }
        _ => {
            let (rows, top) = span_of_tile(
                address.row,
                shift[plane.row_axis()],
                view.size[plane.row_axis()],
            )?;
            let count = (rows.end - rows.start) as usize;
            (vec![RowRun { rows, first: 0 }], ShownRows::Each(count), top)
        }
    };
    (!runs.is_empty()).then_some(Patch {
        plane,
        slices,
        columns,
        runs,
        shown,
        top,
        left,
    })
}

/// The existing slices of the level among those that URLs number from `address.slice` up to `end`;
/// `None` if none exists.
fn slices(
    address: &TileAddress,
    end: u64,
    view: &LevelView,
    placement: Placement,
) -> Option<Range<u64>> {
    let axis = address.plane.slice_axis();
    let shift = view.shift(placement.slices)[axis] + view.shift(placement.grid)[axis];
    let inside =
        |number: u64| (i128::from(number) - shift).clamp(0, i128::from(view.size[axis])) as u64;
    let slices = inside(address.slice)..inside(end);
    (!slices.is_empty()).then_some(slices)
}

/// The positions that the `index`-th tile shows along an axis of `extent` voxels, whose first voxel
/// lies `shift` pixels into tile 0; and the number of the tile's pixels before them. `None` if it
/// shows none.
///
/// With shift 100 and extent 600, tile 0 shows 0..412 after 100 pixels, and tile 1 shows 412..600
/// after 0.
fn span_of_tile(index: u64, shift: i128, extent: u64) -> Option<(Range<u64>, usize)> {
    let first = i128::from(index) * TILE as i128 - shift;
    let start = u64::try_from(first.max(0)).ok()?;
    let end = extent.min(u64::try_from(first + TILE as i128).ok()?);
    (start < end).then_some((start..end, (i128::from(start) - first) as usize))
}

/// For a tile drawn with square pixels: the z of each row that shows one, and the number of rows
/// above the first of these. The level's first voxel lies `shift` voxels below the first row of
/// tile 0.
fn stretched_z(
    address: &TileAddress,
    view: &LevelView,
    shift: i128,
    voxel: Xyz<f64>,
) -> (Vec<u64>, usize) {
    let (pixel, thickness) = view.row_heights(address.plane, voxel);
    let first = address.row.saturating_mul(TILE as u64);
    let rows = (0..TILE as u64)
        .map(|row| z_of_row(first.saturating_add(row), pixel, thickness) - shift as f64);
    let top = rows.clone().take_while(|z| *z < 0.0).count();
    let inside = rows.skip(top).take_while(|z| *z < view.size.z as f64);
    (inside.map(|z| z as u64).collect(), top)
}

/// The z shown by a row of a slice drawn with square pixels of the height `pixel`. `thickness` is
/// the height of a voxel of the level, in the same unit. Another order of the operations would
/// round to other rows.
fn z_of_row(row: u64, pixel: f64, thickness: f64) -> f64 {
    ((row as f64 * pixel) / thickness).floor()
}

/// Splits ascending rows, which may repeat, into runs of adjacent ones, and maps each row to the
/// index of its distinct row. The rows 4, 4, 5, 8 become the runs 4..6 and 8..9, and the indices
/// 0, 0, 1, 2.
fn runs_of(rows: &[u64]) -> (Vec<RowRun>, ShownRows) {
    let mut runs: Vec<RowRun> = Vec::new();
    let mut shown = Vec::with_capacity(rows.len());
    let mut distinct = 0;
    for &row in rows {
        match runs.last_mut() {
            Some(run) if row + 1 == run.rows.end => {}
            Some(run) if row == run.rows.end => {
                run.rows.end += 1;
                distinct += 1;
            }
            _ => {
                runs.push(RowRun {
                    rows: row..row + 1,
                    first: distinct,
                });
                distinct += 1;
            }
        }
        shown.push(distinct - 1);
    }
    (runs, ShownRows::Stretched(shown))
}

impl Patch {
    /// One xy section of a box within the level.
    pub fn section(z: u64, region: &Region) -> Self {
        let start = region.start;
        let end = region.end();
        let run = RowRun {
            rows: start.y..end.y,
            first: 0,
        };
        let shown = ShownRows::Each(region.size.y as usize);
        Self {
            plane: Plane::Xy,
            slices: z..z + 1,
            columns: start.x..end.x,
            runs: vec![run],
            shown,
            top: 0,
            left: 0,
        }
    }

    /// The plane of the tile.
    pub fn plane(&self) -> Plane {
        self.plane
    }

    /// The number of slices.
    pub fn depth(&self) -> u64 {
        self.slices.end - self.slices.start
    }

    /// The number of columns, at most 512.
    pub fn width(&self) -> usize {
        (self.columns.end - self.columns.start) as usize
    }

    /// The number of distinct rows of the level, at most 512.
    pub fn height(&self) -> usize {
        self.runs
            .iter()
            .map(|run| (run.rows.end - run.rows.start) as usize)
            .sum()
    }

    /// The runs of adjacent rows, in order.
    pub fn runs(&self) -> &[RowRun] {
        &self.runs
    }

    /// The number of black tile rows above the first one shown.
    pub fn top(&self) -> usize {
        self.top
    }

    /// The number of black tile columns left of the first one shown.
    pub fn left(&self) -> usize {
        self.left
    }

    /// For each tile row from [`Patch::top`], the index of its distinct row; tile rows after the
    /// last are black.
    pub fn shown(&self) -> impl Iterator<Item = usize> {
        // One type of iterator for both variants: one of the two parts is empty.
        let (each, stretched) = match &self.shown {
            ShownRows::Each(count) => (0..*count, [].as_slice()),
            ShownRows::Stretched(rows) => (0..0, rows.as_slice()),
        };
        each.chain(stretched.iter().copied())
    }

    /// Whether the patch's voxels, row by row, are exactly the tile's pixels.
    pub fn is_whole_tile(&self) -> bool {
        self.width() == TILE && self.shown == ShownRows::Each(TILE)
    }

    /// The voxels of the level in one of the patch's runs.
    pub fn region(&self, run: &RowRun) -> Region {
        let plane = self.plane;
        Region::between(
            plane.place(self.slices.start, run.rows.start, self.columns.start),
            plane.place(self.slices.end, run.rows.end, self.columns.end),
        )
    }
}

impl LevelView {
    /// The stored voxels that a region of this level is derived from, clipped to the stored level.
    pub fn stored_region(&self, region: &Region) -> Region {
        let start = region.start.zip(self.downsample, u64::saturating_mul);
        let end = region
            .end()
            .zip(self.downsample, u64::saturating_mul)
            .zip(self.stored_size, u64::min);
        Region::between(start, end)
    }

    /// Converts an offset from voxels of level 0 to voxels of this level, rounded down.
    pub fn shift(&self, offset: Xyz<i64>) -> Xyz<i128> {
        at_level(offset, self.factor).map(i128::from)
    }

    /// The end of a level along each axis in the grid of tiles, if its first voxel is at `grid`
    /// (voxels of level 0).
    pub(crate) fn end_in(&self, grid: Xyz<i64>) -> Xyz<u64> {
        self.shift(grid).zip(self.size, |shift, size| {
            u64::try_from((shift + i128::from(size)).max(0)).unwrap_or(u64::MAX)
        })
    }

    /// Where a drawn slice ends in the grid of tiles, in pixels: columns, then rows. If the level's
    /// first voxel is at 0 in this grid, that is the slice's size.
    pub fn drawn(&self, plane: Plane, grid: Xyz<i64>, orthogonal: Orthogonal) -> (u64, u64) {
        let end = self.end_in(grid);
        let rows = match orthogonal {
            Orthogonal::Isotropic(voxel) if plane != Plane::Xy => {
                self.stretched_rows(plane, end.z, voxel)
            }
            _ => end[plane.row_axis()],
        };
        (end[plane.column_axis()], rows)
    }

    /// The height of a pixel and of a voxel of this level, if a slice is drawn with square pixels,
    /// in the unit of `voxel`, the size of a voxel at level 0.
    fn row_heights(&self, plane: Plane, voxel: Xyz<f64>) -> (f64, f64) {
        let pixel = voxel[plane.column_axis()] * self.level.factor() as f64;
        let thickness = voxel.z * self.factor.z as f64;
        (pixel, thickness)
    }

    /// The number of rows that show z below `end`: estimated by a division, then corrected with
    /// [`z_of_row`].
    fn stretched_rows(&self, plane: Plane, end: u64, voxel: Xyz<f64>) -> u64 {
        let (pixel, thickness) = self.row_heights(plane, voxel);
        let estimate = (end as f64 * thickness / pixel).ceil() as u64;
        let near = estimate.saturating_sub(2)..=estimate.saturating_add(2);
        near.clone()
            .find(|row| z_of_row(*row, pixel, thickness) >= end as f64)
            .unwrap_or(*near.end())
    }

    /// The maximum number of stored voxels that one tile of this level is derived from.
    pub fn voxels_per_tile(&self, plane: Plane) -> u64 {
        self.voxels_per_slab(plane, 1)
    }

    /// The maximum number of stored voxels that one tile of a slab of `depth` slices is derived
    /// from.
    pub fn voxels_per_slab(&self, plane: Plane, depth: u64) -> u64 {
        let tile = plane
            .place(depth, TILE as u64, TILE as u64)
            .zip(self.size, u64::min);
        tile.zip(self.downsample, u64::saturating_mul)
            .zip(self.stored_size, u64::min)
            .volume()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Scaling;

    #[test]
    fn the_rows_of_a_drawn_slice_are_those_that_tiles_show() {
        for (z, voxel) in [
            (31, 3.7),
            (1, 0.01),
            (7, 1.0),
            (100, 29.0),
            (45, 1.0 / 3.0),
            (1000, 0.1),
        ] {
            let stored = [(Level::FULL, 1, Xyz::new(700, 300, z))];
            for level in 0..4 {
                let view = LevelView::choose(Level::new(level).unwrap(), &stored, Scaling::Zslices)
                    .unwrap();
                let orthogonal = Orthogonal::Isotropic(Xyz::new(1.0, 1.0, voxel));
                let (columns, rows) = view.drawn(Plane::Xz, NO_OFFSET, orthogonal);
                let shown = |row: u64| {
                    let address = TileAddress {
                        plane: Plane::Xz,
                        level: view.level,
                        slice: 0,
                        row,
                        column: 0,
                    };
                    patch(&address, &view, Placement::default(), orthogonal)
                        .map_or(0, |patch| patch.shown().count() as u64)
                };
                assert_eq!(columns, view.size.x);
                assert_eq!(
                    rows,
                    (0..7).map(shown).sum::<u64>(),
                    "{z} of {voxel} at level {level}"
                );
                assert_eq!(
                    view.drawn(Plane::Xz, NO_OFFSET, Orthogonal::Stored),
                    (view.size.x, z)
                );
                assert_eq!(
                    view.drawn(Plane::Xy, NO_OFFSET, orthogonal),
                    (view.size.x, view.size.y)
                );
            }
        }
    }

    fn view(size: Xyz<u64>, level: u64) -> LevelView {
        let stored = [(Level::FULL, 1, size)];
        LevelView::choose(Level::new(level).unwrap(), &stored, Scaling::Zslices).unwrap()
    }

    fn address(plane: Plane, slice: u64, row: u64, column: u64) -> TileAddress {
        TileAddress {
            plane,
            level: Level::FULL,
            slice,
            row,
            column,
        }
    }

    const NO_OFFSET: Xyz<i64> = Xyz { x: 0, y: 0, z: 0 };

    #[test]
    fn a_tile_at_the_edge_is_cut() {
        let level = view(Xyz::new(700, 600, 9), 0);
        let got = patch(
            &address(Plane::Xy, 3, 1, 1),
            &level,
            Placement::default(),
            Orthogonal::Stored,
        )
        .unwrap();
        let want = Region {
            start: Xyz::new(512, 512, 3),
            size: Xyz::new(188, 88, 1),
        };
        assert_eq!(got.region(&got.runs()[0]), want);
        assert_eq!(
            (got.width(), got.height(), got.shown().count()),
            (188, 88, 88)
        );
    }

    #[test]
    fn absurd_numbers_are_outside() {
        let level = view(Xyz::new(700, 600, 9), 0);
        for (slice, row, column) in [
            (u64::MAX, 0, 0),
            (0, u64::MAX, 0),
            (0, 0, u64::MAX),
            (9, 0, 0),
            (0, 2, 0),
        ] {
            for orthogonal in [
                Orthogonal::Stored,
                Orthogonal::Isotropic(Xyz::new(1.0, 1.0, 4.0)),
            ] {
                assert_eq!(
                    patch(
                        &address(Plane::Xy, slice, row, column),
                        &level,
                        Placement::default(),
                        orthogonal
                    ),
                    None
                );
            }
        }
        let far = address(Plane::Xz, 0, u64::MAX, 0);
        assert_eq!(
            patch(
                &far,
                &level,
                Placement::default(),
                Orthogonal::Isotropic(Xyz::all(1.0))
            ),
            None
        );
    }

    #[test]
    fn an_offset_shifts_slices_by_whole_voxels_of_the_level() {
        let level = view(Xyz::new(100, 100, 10), 1);
        let offset = Xyz::new(0, 7, 3);
        let at = |plane, slice| {
            let placement = Placement {
                slices: offset,
                ..Placement::default()
            };
            patch(
                &address(plane, slice, 0, 0),
                &level,
                placement,
                Orthogonal::Stored,
            )
            .map(|p| p.slices.start)
        };
        assert_eq!(at(Plane::Xy, 2), None);
        assert_eq!(at(Plane::Xy, 3), Some(0));
        assert_eq!(at(Plane::Xz, 4), Some(1));
    }

    #[test]
    fn a_channel_may_begin_within_a_tile_or_before_the_first() {
        let level = view(Xyz::new(600, 40, 5), 0);
        let placed = |grid, slice, row, column| {
            let placement = Placement {
                grid,
                ..Placement::default()
            };
            patch(
                &address(Plane::Xy, slice, row, column),
                &level,
                placement,
                Orthogonal::Stored,
            )
        };
        let inside = Xyz::new(100, 500, 2);
        let first = placed(inside, 2, 0, 0).unwrap();
        assert_eq!(
            (first.top(), first.left(), first.width(), first.height()),
            (500, 100, 412, 12)
        );
        assert_eq!(first.region(&first.runs()[0]).start, Xyz::new(0, 0, 0));
        let second = placed(inside, 6, 1, 1).unwrap();
        assert_eq!(
            (second.top(), second.left(), second.width(), second.height()),
            (0, 0, 188, 28)
        );
        assert_eq!(second.region(&second.runs()[0]).start, Xyz::new(412, 12, 4));
        assert_eq!(
            (
                placed(inside, 1, 0, 0),
                placed(inside, 7, 0, 0),
                placed(inside, 2, 2, 0)
            ),
            (None, None, None)
        );
        let before = placed(Xyz::new(-10, -3, -1), 0, 0, 0).unwrap();
        assert_eq!(
            (before.top(), before.left(), before.width(), before.height()),
            (0, 0, 512, 37)
        );
        assert_eq!(before.region(&before.runs()[0]).start, Xyz::new(10, 3, 1));
        assert_eq!(
            level.drawn(Plane::Xy, inside, Orthogonal::Stored),
            (700, 540)
        );
        assert_eq!(
            level.drawn(Plane::Xy, Xyz::all(-50), Orthogonal::Stored),
            (550, 0)
        );
    }

    #[test]
    fn offsets_are_rounded_down_at_each_level() {
        let level = view(Xyz::new(600, 40, 5), 2);
        assert_eq!(level.shift(Xyz::new(7, -1, 3)), Xyz::new(1, -1, 3));
    }

    #[test]
    fn square_pixels_begin_where_the_channel_does() {
        let level = view(Xyz::new(64, 64, 3), 0);
        let voxel = Orthogonal::Isotropic(Xyz::new(10.0, 10.0, 25.0));
        let placement = Placement {
            grid: Xyz::new(0, 0, 2),
            ..Placement::default()
        };
        let got = patch(&address(Plane::Xz, 0, 0, 0), &level, placement, voxel).unwrap();
        assert_eq!(
            (got.top(), got.shown().collect::<Vec<_>>()),
            (5, vec![0, 0, 0, 1, 1, 2, 2, 2])
        );
        assert_eq!(level.drawn(Plane::Xz, placement.grid, voxel), (64, 13));
    }

    #[test]
    fn thick_sections_are_drawn_several_rows_high() {
        let level = view(Xyz::new(64, 64, 3), 0);
        let voxel = Orthogonal::Isotropic(Xyz::new(10.0, 10.0, 25.0));
        let got = patch(
            &address(Plane::Xz, 0, 0, 0),
            &level,
            Placement::default(),
            voxel,
        )
        .unwrap();
        assert_eq!(got.shown().collect::<Vec<_>>(), [0, 0, 0, 1, 1, 2, 2, 2]);
        assert_eq!(
            got.runs(),
            [RowRun {
                rows: 0..3,
                first: 0
            }]
        );
    }

    #[test]
    fn flat_voxels_are_skipped_in_runs() {
        let level = view(Xyz::new(64, 64, 40), 0);
        let voxel = Orthogonal::Isotropic(Xyz::new(5.0, 5.0, 2.0));
        let got = patch(
            &address(Plane::Yz, 0, 0, 0),
            &level,
            Placement::default(),
            voxel,
        )
        .unwrap();
        assert_eq!(got.height(), got.shown().count());
        let starts: Vec<u64> = got
            .runs()
            .iter()
            .map(|run| run.rows.start)
            .take(4)
            .collect();
        assert_eq!(starts, [0, 2, 5, 7]);
    }

    #[test]
    fn making_a_level_counts_what_it_reads() {
        let level = view(Xyz::new(100_000, 100_000, 50), 4);
        assert_eq!(level.voxels_per_tile(Plane::Xy), 1 << 26);
        assert_eq!(level.voxels_per_tile(Plane::Xz), 512 * 16 * 16 * 50);
        let edge = Region {
            start: Xyz::new(6249, 6249, 0),
            size: Xyz::new(1, 1, 1),
        };
        assert_eq!(level.stored_region(&edge).size, Xyz::new(16, 16, 1));
    }
}
