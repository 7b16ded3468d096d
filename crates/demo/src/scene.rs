//! Finds where each voxel of a slice lies among rods. So that only a few rods are tried for each
//! voxel, each tile has a short list of the rods that may be nearest to its voxels, and so has each
//! block of a tile. Values that vary slowly are computed at the corners of blocks and interpolated.

use std::ops::Range;

use super::noise::{Point, hash, mix, noise, shift, unit};
use super::rods::{Cell, Rod};

/// The edges of tiles and blocks, in voxels.
const TILE: usize = 64;
const BLOCK: usize = 8;

/// The values that vary slowly: x, y and z in warped space, then [`VoxelPlace::clumps`] and
/// [`VoxelPlace::slow`].
type Node = [f32; 8];

/// Rods in a space that is warped, so that every border is wavy.
pub(crate) struct Scene {
    pub rods: Vec<Rod>,
    /// Distance of two slices in voxel widths.
    pub slice_depth: f32,
    /// Makes the dice of the scene's voxels differ from those of other scenes.
    pub salt: u32,
}

/// The surroundings of one voxel.
pub(crate) struct VoxelPlace<'a> {
    /// The voxel in warped space.
    pub point: Point,
    pub cell: Cell<'a>,
    /// Noise in about [-1, 1], with features of 3 voxels.
    pub grain: f32,
    /// The same with features of 19 voxels.
    pub clumps: f32,
    /// Four independent noises with features of 62 voxels.
    pub slow: [f32; 4],
    /// A hash of the voxel, for noise.
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
        // The nodes at the corners of the blocks: at least one more along each axis than blocks.
        let nodes = table(rows.len() / BLOCK + 2, width / BLOCK + 2, |y, x| {
            node(x * BLOCK, rows.start + y * BLOCK, depth)
        });
        let rods: Vec<_> = self.rods.iter().collect();
        // The rods near each tile, and of these the rods near each block.
        let by_tile = table(rows.len().div_ceil(TILE), width.div_ceil(TILE), |y, x| {
            let row = rows.start + y * TILE + TILE / 2;
            shortlist(&rods, node(x * TILE + TILE / 2, row, depth), TILE)
        });
        let by_block = table(rows.len().div_ceil(BLOCK), width.div_ceil(BLOCK), |y, x| {
            let middle = between(nodes[y][x], nodes[y + 1][x + 1], BLOCK / 2);
            shortlist(&by_tile[y * BLOCK / TILE][x * BLOCK / TILE], middle, BLOCK)
        });
        // The nodes of each row of voxels, at the left and right edges of blocks.
        let row_nodes = table(rows.len(), width / BLOCK + 2, |y, x| {
            between(nodes[y / BLOCK][x], nodes[y / BLOCK + 1][x], y)
        });
        let mut painted = Vec::with_capacity(rows.len() * width);
        for y in 0..rows.len() {
            for x in 0..width {
                let [a, b, c, clumps, slow @ ..] =
                    between(row_nodes[y][x / BLOCK], row_nodes[y][x / BLOCK + 1], x);
                let point = [a, b, c];
                let voxel = [x, rows.start + y, z].map(|it| it as i32);
                painted.push(paint(&VoxelPlace {
                    point,
                    cell: Cell::containing(point, &by_block[y / BLOCK][x / BLOCK]),
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

/// A number in [0, 1) for the square of 3 × 3 voxels around a voxel, in a grid of squares that is
/// shifted by `offset` along x and twice as far along y.
fn coarse([x, y, z]: [i32; 3], offset: i32) -> f32 {
    unit(hash([(x + offset) / 3, (y + 2 * offset) / 3, z], 6))
}

/// A table of the values that `make` gives for each row and column.
fn table<T>(rows: usize, columns: usize, make: impl Fn(usize, usize) -> T) -> Vec<Vec<T>> {
    (0..rows)
        .map(|y| (0..columns).map(|x| make(y, x)).collect())
        .collect()
}

/// The node of a point. Warping moves the point by up to 30 voxel widths smoothly, and by up to 7
/// more irregularly.
fn node(x: usize, y: usize, depth: f32) -> Node {
    let straight = [x as f32, y as f32, depth];
    let bent = shift(straight, noise(straight, 170.0, 1), 30.0);
    let [x, y, z] = shift(bent, noise(straight, 52.0, 2), 7.0);
    let [clumps] = noise(straight, 19.0, 3);
    let [a, b, c, d] = noise(straight, 62.0, 4);
    [x, y, z, clumps, a, b, c, d]
}

/// The node at the coordinate `at`, interpolated between the nodes at the edges of its block.
fn between(mut from: Node, to: Node, at: usize) -> Node {
    let share = (at % BLOCK) as f32 * (1.0 / BLOCK as f32);
    for (from, to) in from.iter_mut().zip(to) {
        *from = mix(*from, to, share);
    }
    from
}

/// The rods that can be among the nearest three of a voxel in the square around this node. A corner
/// is 0.7 edges from the middle: on the way there, the distance of the third rod can grow by 0.7
/// edges while that of another rod shrinks by as much, which is 1.4 edges together. Warping can
/// stretch the way, so 1.8 edges are allowed.
fn shortlist<'a>(rods: &[&'a Rod], [x, y, z, ..]: Node, edge: usize) -> Vec<&'a Rod> {
    let mut near: Vec<_> = rods
        .iter()
        .map(|rod| (rod.away([x, y, z]).1, *rod))
        .collect();
    let (_, (third, _), _) = near.select_nth_unstable_by(2, |a, b| a.0.total_cmp(&b.0));
    let farthest = *third + 1.8 * edge as f32;
    near.retain(|(distance, _)| *distance <= farthest);
    near.into_iter().map(|(_, rod)| rod).collect()
}
