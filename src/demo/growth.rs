//! Where the cells of the demo tissue grow, and of what kind they are: dice thrown once for each place of a grid.
//!
//! A cell depends on its own place and on the cell bodies around it, not on how much tissue is grown: a small volume is
//! the corner of a large one. The odd thing: neurites make way for cell bodies, or they would run through their nuclei.

use super::cell::{Cell, Kind, Mitochondrion};
use super::ground::SLICE_DEPTH;
use super::noise::{hash, unit};
use super::vector::{Frame, Rod, Vector};

/// Mean distance of the rods' middles.
const SPACING: f32 = 112.0;
/// How many grid steps beyond the volume rods are grown, so that its edges look like its middle.
const MARGIN: i32 = 4;

/// The cells of `[z, y, x]` voxels, and some around them.
pub(super) fn grow_cells([depth, height, width]: [usize; 3]) -> Vec<Cell> {
    let steps = |length: f32| -MARGIN..(length / SPACING) as i32 + 1 + MARGIN;
    let (columns, rows, layers) =
        (steps(width as f32), steps(height as f32), steps(depth as f32 * SLICE_DEPTH));
    layers
        .flat_map(|z| {
            let columns = columns.clone();
            rows.clone().flat_map(move |y| columns.clone().map(move |x| grow_cell(x, y, z)))
        })
        .collect()
}

/// The cell at one place of the grid.
fn grow_cell(x: i32, y: i32, z: i32) -> Cell {
    let dice = |salt| unit(hash(x, y, z, salt));
    let kind = match dice(1) {
        _ if holds_body(x, y, z) => Kind::Body,
        small if small < 0.025 => Kind::Sheathed,
        _ => Kind::Neurite,
    };
    let direction = Vector::new(dice(2) - 0.5, dice(3) - 0.5, (dice(4) - 0.5) * 1.4).unit();
    let (half_length, radius) = match kind {
        Kind::Body => (8.0 + 14.0 * dice(5), 78.0 + 16.0 * dice(6)),
        Kind::Neurite => (60.0 + 120.0 * dice(5), 18.0 * dice(6)),
        Kind::Sheathed => (240.0, 40.0),
    };
    let rod = Rod::new(place(x, y, z), direction * half_length, radius);
    Cell {
        label: label(x, y, z),
        kind,
        rod: if kind == Kind::Body { rod } else { make_way(rod, x, y, z) },
        frame: Frame::leading(direction),
        character: dice(11),
        mitochondria: Vec::new(),
    }
}

/// Whether a cell body grows at a place of the grid: at every eleventh, evenly spread.
fn holds_body(x: i32, y: i32, z: i32) -> bool {
    (x + 3 * y + 5 * z).rem_euclid(11) == 0
}

/// Where the cell at a place of the grid has its middle.
fn place(x: i32, y: i32, z: i32) -> Vector {
    let along = |step: i32, salt| (step as f32 + 0.15 + 0.7 * unit(hash(x, y, z, salt))) * SPACING;
    Vector::new(along(x, 7), along(y, 8), along(z, 9))
}

/// The rod of the cell at a place of the grid, moved aside from the cell bodies around: no neurite runs through one.
fn make_way(rod: Rod, x: i32, y: i32, z: i32) -> Rod {
    const CLEARANCE: f32 = 108.0;
    let around = |step: i32| step - 3..=step + 3;
    let steps = around(z).flat_map(|z| around(y).flat_map(move |y| around(x).map(move |x| (x, y, z))));
    let bodies = steps.filter(|&(x, y, z)| holds_body(x, y, z)).map(|(x, y, z)| place(x, y, z));
    bodies.fold(rod, |rod, body| {
        let lacking = CLEARANCE - rod.distance(body);
        if lacking > 0.0 { rod.moved(rod.offset(body).unit() * -lacking) } else { rod }
    })
}

/// A number for the cell at one place of the grid; neighbours get numbers far apart, no two the same. They keep to 16
/// bits, so that half the bytes of the segmentation are 0 and cost nothing.
fn label(x: i32, y: i32, z: i32) -> u32 {
    let bits = |step: i32, count: u32| (step + 2 * MARGIN) as u32 & ((1 << count) - 1);
    let packed = bits(x, 6) | bits(y, 6) << 6 | bits(z, 4) << 12;
    packed.wrapping_mul(0x9E37) & 0xFFFF
}

impl Mitochondrion {
    /// One that a cell may have: round the nucleus of a body, else along the middle.
    pub fn propose(cell: &Cell, number: i32) -> Self {
        let dice = |salt: u32| unit(hash(number, 0, cell.label as i32, salt));
        let scatter = Vector::new(dice(21) - 0.5, dice(22) - 0.5, dice(23) - 0.5);
        let along = cell.frame.along * ((dice(24) - 0.5) * 300.0);
        let (offset, direction) = match cell.kind {
            Kind::Body => (scatter.unit() * (75.0 + 50.0 * dice(25)), scatter.cross(along)),
            _ => (along + scatter * 24.0, cell.frame.along + scatter * 0.3),
        };
        let half = direction.unit() * (6.0 + 36.0 * dice(26) * dice(28));
        let rod = Rod::new(cell.rod.center() + offset, half, 9.0 + 6.0 * dice(27));
        Self { rod, frame: Frame::leading(direction) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::demo::write::Extents;

    #[test]
    fn no_two_cells_of_the_demo_volume_share_a_label_and_none_has_0() {
        let cells = grow_cells(Extents::FULL.volume);
        let labels: BTreeSet<_> = cells.iter().map(|cell| cell.label).collect();
        assert_eq!(labels.len(), cells.len());
        assert!(!labels.contains(&0));
    }

    #[test]
    fn every_kind_of_cell_grows() {
        let cells = grow_cells([10, 500, 500]);
        for kind in [Kind::Body, Kind::Neurite, Kind::Sheathed] {
            assert!(cells.iter().any(|cell| cell.kind == kind), "{kind:?}");
        }
    }
}
