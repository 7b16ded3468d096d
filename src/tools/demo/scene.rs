//! Finding, for every voxel of a slice, where it lies among rods. Each block of voxels, and each
//! tile of many blocks, has a short list of the rods that can matter in it. Values that vary slowly
//! are computed at the corners of blocks and interpolated.

use std::ops::Range;

use super::noise::{Point, hash, mix, moved, noise, unit};
use super::rods::{Cell, Rod};

const TILE: usize = 64;
const BLOCK: usize = 8;

/// Rods in a space that is warped, so that every border is wavy.
pub(super) struct Scene {
    pub rods: Vec<Rod>,
    /// Distance of two slices in voxel widths.
    pub slice_depth: f32,
    pub salt: u32,
}

/// The surroundings of one voxel.
pub(super) struct VoxelPlace<'a> {
    /// The voxel in warped space.
    pub point: Point,
    pub cell: Cell<'a>,
    /// Noises in about [-1, 1], over 3, 19 and 62 voxels.
    pub grain: f32,
    pub clumps: f32,
    pub slow: [f32; 4],
    /// A hash of the voxel.
    pub dice: u32,
}

impl Scene {
    /// Paints each voxel of `rows` of slice `z`.
    pub fn slice<T>(
        &self,
        z: usize,
        rows: Range<usize>,
        width: usize,
        paint: fn(&VoxelPlace<'_>) -> T,
    ) -> Vec<T> {
        let depth = z as f32 * self.slice_depth;
        let nodes = table(rows.len() / BLOCK + 2, width / BLOCK + 2, |y, x| {
            node(x * BLOCK, rows.start + y * BLOCK, depth)
        });
        let rods: Vec<_> = self.rods.iter().collect();
        let tiles = table(rows.len().div_ceil(TILE), width.div_ceil(TILE), |y, x| {
            let row = rows.start + y * TILE + TILE / 2;
            shortlist(&rods, node(x * TILE + TILE / 2, row, depth), TILE)
        });
        let blocks = table(rows.len().div_ceil(BLOCK), width.div_ceil(BLOCK), |y, x| {
            let middle = between(nodes[y][x], nodes[y + 1][x + 1], BLOCK / 2);
            shortlist(&tiles[y * BLOCK / TILE][x * BLOCK / TILE], middle, BLOCK)
        });
        let lines = table(rows.len(), width / BLOCK + 2, |y, x| {
            between(nodes[y / BLOCK][x], nodes[y / BLOCK + 1][x], y)
        });
        let mut painted = Vec::with_capacity(rows.len() * width);
        for y in 0..rows.len() {
            for x in 0..width {
                let [a, b, c, clumps, slow @ ..] =
                    between(lines[y][x / BLOCK], lines[y][x / BLOCK + 1], x);
                let voxel = [x, rows.start + y, z].map(|it| it as i32);
                painted.push(paint(&VoxelPlace {
                    point: [a, b, c],
                    cell: Cell::containing([a, b, c], &blocks[y / BLOCK][x / BLOCK]),
                    grain: coarse(voxel, 0) + coarse(voxel, 1) - 1.0,
                    clumps,
                    slow,
                    dice: hash(voxel, self.salt),
                }));
            }
        }
        painted
    }
}

/// A number in [0, 1) for the block of 3 × 3 voxels around a voxel, in a grid that is off by
/// `shift`.
fn coarse([x, y, z]: [i32; 3], shift: i32) -> f32 {
    unit(hash([(x + shift) / 3, (y + 2 * shift) / 3, z], 6))
}

fn table<T>(rows: usize, columns: usize, make: impl Fn(usize, usize) -> T) -> Vec<Vec<T>> {
    (0..rows)
        .map(|y| (0..columns).map(|x| make(y, x)).collect())
        .collect()
}

/// A point in warped space, `clumps` and `slow`.
fn node(x: usize, y: usize, depth: f32) -> [f32; 8] {
    let straight = [x as f32, y as f32, depth];
    let [x, y, z] = moved(
        moved(straight, noise(straight, 170.0, 1), 30.0),
        noise(straight, 52.0, 2),
        7.0,
    );
    let [clumps] = noise(straight, 19.0, 3);
    let [a, b, c, d] = noise(straight, 62.0, 4);
    [x, y, z, clumps, a, b, c, d]
}

/// The node of a coordinate between two corners of a block.
fn between(mut from: [f32; 8], to: [f32; 8], at: usize) -> [f32; 8] {
    let share = (at % BLOCK) as f32 * (1.0 / BLOCK as f32);
    from.iter_mut()
        .zip(to)
        .for_each(|(from, to)| *from = mix(*from, to, share));
    from
}

/// The rods that can be among the nearest three of a voxel in a square. A square reaches 1.8 edges:
/// its diagonal, and more for the warp.
fn shortlist<'a>(rods: &[&'a Rod], [x, y, z, ..]: [f32; 8], edge: usize) -> Vec<&'a Rod> {
    let mut near: Vec<_> = rods
        .iter()
        .map(|rod| (rod.away([x, y, z]).1, *rod))
        .collect();
    let third = near
        .select_nth_unstable_by(2, |a, b| a.0.total_cmp(&b.0))
        .1
        .0;
    near.retain(|(distance, _)| *distance <= third + 1.8 * edge as f32);
    near.into_iter().map(|(_, rod)| rod).collect()
}
