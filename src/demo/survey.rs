//! Finding, for every voxel of a slice, the cell it lies in and what of it is near.
//!
//! A slice is cut into tiles and the tiles into blocks; each has the short list of cells that can matter in it, so a
//! voxel is compared with a handful of cells instead of thousands. No seam can show: a list leaves out only cells that
//! are nowhere among the nearest three. What varies slowly comes from `ground`, the inner loop is in `nearest`.

use std::ops::Range;

use super::cell::{Cell, Kind, Mitochondrion};
use super::ground::{Ground, Slice};
use super::nearest::{Depth, Near, ROW, Rods};
use super::noise::{hash, remix};
use super::tissue::{Synapse, Tissue};
use super::vector::Vector;

/// Edge of a tile, in voxels; a block is as wide as a row of `nearest`.
const TILE: usize = 64;

/// What lies at one voxel.
pub(super) struct Place<'a> {
    /// The voxel.
    pub x: usize,
    pub y: usize,
    pub z: usize,
    dice: u32,
    /// Where it lies in straight space, and the slow noises there.
    pub ground: Ground,
    pub cell: &'a Cell,
    /// The cell's number in the tissue.
    pub index: usize,
    /// Distance from the cell's border; a little below 0 where three cells meet.
    pub depth: f32,
    /// How obliquely the slice cuts that border: 0 straight across, 1 along it.
    pub tilt: f32,
    /// Distance from the cell's nucleus, negative inside; infinite where it has none.
    pub beyond_nucleus: f32,
    nearby: &'a Nearby<'a>,
}

impl<'a> Place<'a> {
    /// A random number for this voxel alone; `salt` tells its uses apart.
    pub fn dice(&self, salt: u32) -> u32 {
        remix(self.dice ^ salt)
    }

    /// The cell's mitochondria that may be here.
    pub fn mitochondria(&self) -> impl Iterator<Item = &'a Mitochondrion> {
        self.nearby.mitochondria.iter().filter(|(owner, _)| *owner == self.index).map(|(_, found)| *found)
    }

    /// The synapse whose vesicles this cell may have here.
    pub fn outgoing(&self) -> Option<&'a Synapse> {
        self.nearby.synapses.iter().copied().find(|synapse| synapse.sender == self.index)
    }

    /// The synapses, of any cells, that may touch this voxel.
    pub fn contacts(&self) -> impl Iterator<Item = &'a Synapse> {
        self.nearby.contacts.iter().copied()
    }
}

impl Tissue {
    /// Calls `paint` once for each voxel of slice `z`, block by block.
    pub fn survey(&self, z: usize, height: usize, width: usize, mut paint: impl FnMut(&Place<'_>)) {
        let slice = Slice::new(z, height, width);
        for tile in squares(0..height, 0..width, TILE) {
            let (center, reach) = slice.ball(&tile.rows, &tile.columns);
            let cells = self.shortlist(0..self.cells.len(), center, reach);
            let synapses: Vec<_> = within(self.synapses.iter(), Synapse::CLOUD, center, reach).collect();
            for block in squares(tile.rows, tile.columns, ROW) {
                let ball = slice.ball(&block.rows, &block.columns);
                Nearby::new(self, &cells, &synapses, ball).survey(&slice, &block, &mut paint);
            }
        }
    }
}

/// Those of `synapses` that are within `distance` of some point within `reach` of `center`.
fn within<'a>(
    synapses: impl Iterator<Item = &'a Synapse>,
    distance: f32,
    center: Vector,
    reach: f32,
) -> impl Iterator<Item = &'a Synapse> {
    synapses.filter(move |synapse| (center - synapse.point).length() < distance + reach)
}

/// The cells and organelles that can matter in one block.
struct Nearby<'a> {
    cells: Vec<(usize, &'a Cell)>,
    /// Of the cells, in the same order.
    rods: Rods,
    /// With the number of the cell.
    mitochondria: Vec<(usize, &'a Mitochondrion)>,
    synapses: Vec<&'a Synapse>,
    contacts: Vec<&'a Synapse>,
}

impl<'a> Nearby<'a> {
    /// What of a tile's `cells` and `synapses` can matter within `reach` of `center`.
    fn new(
        tissue: &'a Tissue,
        cells: &[usize],
        synapses: &[&'a Synapse],
        (center, reach): (Vector, f32),
    ) -> Self {
        let near = tissue.shortlist(cells.iter().copied(), center, reach);
        let cells: Vec<_> =
            near.into_iter().filter_map(|index| Some((index, tissue.cells.get(index)?))).collect();
        let mitochondria =
            cells.iter().flat_map(|&(index, cell)| cell.mitochondria.iter().map(move |it| (index, it)));
        Self {
            rods: Rods(cells.iter().map(|(_, cell)| cell.rod).collect()),
            mitochondria: mitochondria.filter(|(_, it)| it.is_within(reach, center)).collect(),
            synapses: within(synapses.iter().copied(), Synapse::CLOUD, center, reach).collect(),
            contacts: within(synapses.iter().copied(), Synapse::CONTACT, center, reach).collect(),
            cells,
        }
    }

    fn survey(&self, slice: &Slice, block: &Square, paint: &mut impl FnMut(&Place<'_>)) {
        let last = block.columns.end.saturating_sub(1);
        for y in block.rows.clone() {
            // A block at the volume's edge may be narrower than a row; the rest of the row repeats its last voxel.
            let row: [Ground; ROW] =
                std::array::from_fn(|lane| slice.ground(y, last.min(block.columns.start + lane)));
            let nearest = self.rods.nearest(&row.each_ref().map(|ground| ground.point));
            for ((x, ground), nearest) in block.columns.clone().zip(row).zip(nearest) {
                if let Some(place) = self.place([slice.z, y, x], ground, nearest) {
                    paint(&place);
                }
            }
        }
    }

    fn place(&'a self, [z, y, x]: [usize; 3], ground: Ground, nearest: [Near; 3]) -> Option<Place<'a>> {
        let &(index, cell) = self.cells.get(nearest[0].rod)?;
        let Depth { depth, tilt } = match cell.kind {
            Kind::Sheathed => self.rods.smooth_depth(nearest, 18.0),
            Kind::Body | Kind::Neurite => self.rods.depth(nearest, ground.point, 9.0),
        };
        // Dented, and never up against the membrane.
        let beyond_nucleus = (cell.beyond_nucleus(ground.point) + 9.0 * ground.dent).max(16.0 - depth);
        let dice = hash(x as i32, y as i32, z as i32, 9);
        Some(Place { x, y, z, dice, ground, cell, index, depth, tilt, beyond_nucleus, nearby: self })
    }
}

/// A piece of a slice.
struct Square {
    rows: Range<usize>,
    columns: Range<usize>,
}

/// The pieces of `rows` x `columns`, at most `edge` long and wide.
fn squares(rows: Range<usize>, columns: Range<usize>, edge: usize) -> impl Iterator<Item = Square> {
    let cut = move |range: Range<usize>| {
        let end = range.end;
        range.step_by(edge).map(move |start| start..end.min(start + edge))
    };
    cut(rows)
        .flat_map(move |rows| cut(columns.clone()).map(move |columns| Square { rows: rows.clone(), columns }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Label and depth of each voxel of a slice.
    fn slice(extents: [usize; 3], z: usize) -> Vec<(u32, f32)> {
        let [_, height, width] = extents;
        let mut found = vec![(0, 0.0); height * width];
        Tissue::grow(extents).survey(z, height, width, |place| {
            found[place.y * width + place.x] = (place.cell.label, place.depth);
        });
        found
    }

    #[test]
    fn every_voxel_lies_in_the_cell_that_a_search_among_all_cells_finds() {
        let (height, width) = (70, 90);
        let tissue = Tissue::grow([2, height, width]);
        let mut voxels = 0;
        tissue.survey(1, height, width, |place| {
            let distances = tissue.cells.iter().map(|cell| cell.rod.distance(place.ground.point));
            let nearest = distances.enumerate().min_by(|first, second| first.1.total_cmp(&second.1));
            assert_eq!(nearest.map(|(index, _)| index), Some(place.index), "at {} {}", place.y, place.x);
            voxels += 1;
        });
        assert_eq!(voxels, height * width);
    }

    #[test]
    fn a_small_volume_is_the_corner_of_a_large_one() {
        let (small, large) = (slice([2, 20, 30], 1), slice([20, 150, 160], 1));
        for (y, row) in small.chunks(30).enumerate() {
            assert_eq!(row, &large[y * 160..][..30], "row {y}");
        }
    }

    #[test]
    fn neighbouring_slices_are_alike_and_distant_ones_are_not() {
        let slices = [0, 1, 20].map(|z| slice([21, 100, 100], z));
        let alike = |other: &[(u32, f32)]| {
            slices[0].iter().zip(other).filter(|(first, second)| first.0 == second.0).count()
        };
        assert!(alike(&slices[1]) > 8_500, "{} of 10000 voxels keep their cell", alike(&slices[1]));
        assert!(alike(&slices[2]) < 5_000, "{} of 10000 voxels keep their cell", alike(&slices[2]));
    }
}
