//! The order of tiles: every tile once, block by block, without listing them all.
//!
//! Blocks, and the tiles of each, are iterated from far to near along every axis. So the part of every box
//! that is stored last is requested first, and a server that only decodes prefixes of boxes decodes each
//! once, too. Within a block tiles are in quadtree order, coarser ones after the finer ones within them: the
//! next tile mostly needs the same boxes as the previous one, in case the cache is smaller than stated.

use std::cmp::Reverse;
use std::ops::Range;

use super::family::{Family, Tile};
use super::group::{Group, blocks};
use super::numbers::Runs;
use crate::base::shard::Step;
use crate::geometry::{Axis, Xyz};

/// All tiles of a group of families in order, except the first `skip`.
pub fn tiles<'a>(
    group: &'a Group,
    families: &'a [Family],
    skip: u64,
) -> impl Iterator<Item = Tile> + Send + 'a {
    let mut left = skip;
    let block_of = move |range: Xyz<Range<u64>>| Block { group, families, range };
    blocks_of(group, families).map(block_of).flat_map(move |block| {
        // Blocks that are skipped entirely are only counted.
        let skipped = left.min(if left > 0 { block.count() } else { 0 });
        left -= skipped;
        block.tiles(skipped)
    })
}

/// The blocks of a group in order, as steps whose weights are their numbers of tiles.
pub fn steps(group: &Group, families: &[Family]) -> Vec<Step> {
    let mut last: Option<Xyz<Range<u64>>> = None;
    let step = |range: Xyz<Range<u64>>| {
        let is_new = |axis: &Axis| last.as_ref().is_none_or(|last| last[*axis] != range[*axis]);
        // The outermost axis along which a step is made: boxes are shared across it, or along an axis further out.
        let made = group.walk.iter().position(is_new).unwrap_or_default();
        let is_apart = last.is_none() || group.apart.iter().take(made + 1).all(|apart| *apart);
        last = Some(range.clone());
        Step { weight: Block { group, families, range }.count(), is_apart }
    };
    blocks_of(group, families).map(step).collect()
}

/// The blocks of a group as ranges of voxels, from far to near.
fn blocks_of<'a>(
    group: &'a Group,
    families: &'a [Family],
) -> impl Iterator<Item = Xyz<Range<u64>>> + Send + 'a {
    let [outer, middle, inner] = group.walk;
    let [outer_runs, middle_runs, inner_runs] = group.walk.map(|axis| blocks(group, families, axis));
    let range = move |axis: Axis, block: u64| {
        let start = block.saturating_mul(group.block[axis]);
        start..start.saturating_add(group.block[axis])
    };
    outer_runs.falling().flat_map(move |o| {
        let inner_runs = inner_runs.clone();
        middle_runs.clone().falling().flat_map(move |m| {
            inner_runs.clone().falling().map(move |i| {
                let mut at = Xyz::all(()).map(|()| 0..0);
                (at[outer], at[middle], at[inner]) = (range(outer, o), range(middle, m), range(inner, i));
                at
            })
        })
    })
}

/// The tiles that begin in a box of voxels.
struct Block<'a> {
    group: &'a Group,
    families: &'a [Family],
    range: Xyz<Range<u64>>,
}

/// A row and column of tiles of one family, with all selected slices there.
struct Cell {
    family: usize,
    row: u64,
    column: u64,
    slices: Runs,
}

impl<'a> Block<'a> {
    /// The tiles of a family that begin in it.
    fn of(&self, family: &Family) -> Xyz<Runs> {
        Xyz::new(Axis::X, Axis::Y, Axis::Z).map(|axis| family.starting_in(axis, &self.range[axis]))
    }

    fn count(&self) -> u64 {
        let of = |place: &usize| self.of(&self.families[*place]).map(|runs| runs.count()).volume();
        self.group.families.iter().map(of).fold(0, u64::saturating_add)
    }

    /// All tiles except the first `skip`.
    fn tiles(&self, mut skip: u64) -> impl Iterator<Item = Tile> + Send + use<> {
        let mut cells = self.cells();
        let is_left = |cell: &Cell| {
            let count = cell.slices.count();
            let is_skipped = count <= skip;
            skip -= if is_skipped { count } else { 0 };
            !is_skipped
        };
        let first = cells.iter().position(is_left).unwrap_or(cells.len());
        cells.drain(..first);
        let tile = |cell: Cell| {
            let Cell { family, row, column, slices } = cell;
            slices.falling().map(move |slice| Tile { family, slice, row, column })
        };
        cells.into_iter().flat_map(tile).skip(usize::try_from(skip).unwrap_or(usize::MAX))
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for place in &self.group.families {
            self.add_cells(*place, &mut cells);
        }
        cells.sort_by_key(|(key, _)| *key);
        cells.into_iter().map(|(_, cell)| cell).collect()
    }

    fn add_cells(&self, place: usize, cells: &mut Vec<(Key, Cell)>) {
        let family = &self.families[place];
        let (row_axis, column_axis) = (family.plane.row_axis(), family.plane.column_axis());
        let mut tiles = self.of(family);
        let slices = std::mem::take(&mut tiles[family.plane.slice_axis()]);
        if slices.is_empty() {
            return;
        }
        let unit = Xyz::new(Axis::X, Axis::Y, Axis::Z).map(|axis| self.finest(family, axis));
        let at = |axis: Axis, tile: u64| {
            let start = family.rulers[axis].start(tile).saturating_sub(self.range[axis].start);
            u32::try_from(start / unit[axis]).unwrap_or(u32::MAX)
        };
        for row in tiles[row_axis].clone().falling() {
            for column in tiles[column_axis].clone().falling() {
                let corner = interleaved(at(row_axis, row), at(column_axis, column));
                let key = (family.plane.slice_axis() as u8, Reverse(corner), family.level.number(), place);
                cells.push((key, Cell { family: place, row, column, slices: slices.clone() }));
            }
        }
    }

    /// The length of the shortest tile in the family's plane.
    fn finest(&self, family: &Family, axis: Axis) -> u64 {
        let members = self.group.families.iter().map(|place| &self.families[*place]);
        let same = members.filter(|other| other.plane == family.plane);
        same.map(|other| other.rulers[axis].longest()).min().unwrap_or(1).max(1)
    }
}

/// The sort key of cells: by plane, from the far corner to the near one, finer tiles first.
type Key = (u8, Reverse<u64>, u8, usize);

/// Interleaves the bits of two numbers (Z-order): neighbours in a quadtree get neighbouring numbers.
fn interleaved(row: u32, column: u32) -> u64 {
    let spread = |number: u32| (0..32).fold(0, |bits, bit| bits | u64::from(number >> bit & 1) << (2 * bit));
    spread(row) << 1 | spread(column)
}
