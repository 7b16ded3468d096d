//! What varies slowly across a slice: where its voxels lie in straight space, and several noises.
//!
//! They are evaluated at every fourth voxel and interpolated between, because noise is dear and there are tens of
//! millions of voxels. What varies faster than that is left to the painters.

use std::ops::Range;

use super::noise::{gradient, gradients, hash, mix, unit, value};
use super::vector::Vector;

/// Depth of a slice in voxel widths: voxels of 4 x 4 x 30 nanometres.
pub(super) const SLICE_DEPTH: f32 = 7.5;

/// Distance of the points that are evaluated, in voxels.
const GRID: usize = 4;

/// The slow things at one voxel; all noises lie in [-1, 1].
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground {
    /// The voxel in straight space.
    pub point: Vector,
    /// As fine as the grid itself: granules.
    pub grain: f32,
    /// Over 20 voxels: clumps of chromatin.
    pub clumps: f32,
    /// Over 60 voxels: patches of cytoplasm or stain.
    pub patches: f32,
    /// Over 60 voxels: dents of nuclei.
    pub dent: f32,
    /// Over 60 voxels, 0 on winding sheets: endoplasmic reticulum.
    pub sheet: f32,
    /// Drawn out, 0 on sheets that look like fibres in most sections: bundles of actin.
    pub fibre: f32,
}

impl Ground {
    fn at(x: i32, y: i32, z: i32) -> Self {
        let point = bend(Vector::new(x as f32, y as f32, z as f32 * SLICE_DEPTH));
        let drawn_out = Vector::new(point.x + point.y, (point.y - point.x) * 0.3, point.z * 0.5);
        let Vector { x: patches, y: dent, z: sheet } = gradients(point * (1.0 / 62.0), 3);
        Self {
            point,
            grain: unit(hash(x, y, z, 1)) * 2.0 - 1.0,
            clumps: value(point * (1.0 / 21.0), 2),
            patches,
            dent,
            sheet,
            fibre: gradient(drawn_out * (1.0 / 24.0), 4),
        }
    }

    /// `self` where `share` is 0, `other` where it is 1.
    fn blend(self, other: Self, share: f32) -> Self {
        Self {
            point: mix(self.point, other.point, share),
            grain: mix(self.grain, other.grain, share),
            clumps: mix(self.clumps, other.clumps, share),
            patches: mix(self.patches, other.patches, share),
            dent: mix(self.dent, other.dent, share),
            sheet: mix(self.sheet, other.sheet, share),
            fibre: mix(self.fibre, other.fibre, share),
        }
    }
}

/// Where a voxel of the volume lies in straight space.
fn bend(point: Vector) -> Vector {
    point + gradients(point * (1.0 / 170.0), 5) * 30.0 + gradients(point * (1.0 / 52.0), 6) * 7.0
}

/// The ground of one slice.
pub(super) struct Slice {
    pub z: usize,
    nodes_per_row: usize,
    nodes: Vec<Ground>,
}

impl Slice {
    pub fn new(z: usize, height: usize, width: usize) -> Self {
        let (rows, columns) = (height / GRID + 2, width / GRID + 2);
        let node =
            |row: usize, column: usize| Ground::at((column * GRID) as i32, (row * GRID) as i32, z as i32);
        let nodes = (0..rows).flat_map(|row| (0..columns).map(move |column| node(row, column))).collect();
        Self { z, nodes_per_row: columns, nodes }
    }

    /// The ground at voxel (x, y) of the slice.
    pub fn ground(&self, y: usize, x: usize) -> Ground {
        let share = |coordinate: usize| (coordinate % GRID) as f32 / GRID as f32;
        let upper_left = y / GRID * self.nodes_per_row + x / GRID;
        let row = |left: usize| self.nodes[left].blend(self.nodes[left + 1], share(x));
        row(upper_left).blend(row(upper_left + self.nodes_per_row), share(y))
    }

    /// Center and radius of a ball in straight space that holds all voxels of `rows` and `columns`.
    pub fn ball(&self, rows: &Range<usize>, columns: &Range<usize>) -> (Vector, f32) {
        let mut low = Vector::new(f32::INFINITY, f32::INFINITY, f32::INFINITY);
        let mut high = low * -1.0;
        for row in rows.start / GRID..=rows.end.div_ceil(GRID) {
            for column in columns.start / GRID..=columns.end.div_ceil(GRID) {
                let point = self.nodes[row * self.nodes_per_row + column].point;
                low = Vector::new(low.x.min(point.x), low.y.min(point.y), low.z.min(point.z));
                high = Vector::new(high.x.max(point.x), high.y.max(point.y), high.z.max(point.z));
            }
        }
        ((low + high) * 0.5, (high - low).length() * 0.5)
    }
}
