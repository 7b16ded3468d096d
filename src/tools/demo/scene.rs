//! Finding, for every voxel of a slice, where it lies among rods. Each block of voxels, and each
//! tile of many blocks, has a short list of the rods that can matter in it. What varies slowly is
//! computed at the corners of blocks and interpolated.

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

/// What lies at one voxel.
pub(super) struct Place<'a> {
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
    /// What `paint` makes of each voxel of some rows of slice `z`.
    pub fn slice<T>(
        &self,
        z: usize,
        rows: Range<usize>,
        width: usize,
        paint: fn(&Place<'_>) -> T,
    ) -> Vec<T> {
        let node = |y: usize, x: usize| {
            node(
                x as f32,
                (rows.start + y) as f32,
                z as f32 * self.slice_depth,
            )
        };
        let nodes = table(rows.len() / BLOCK + 2, width / BLOCK + 2, |y, x| {
            node(y * BLOCK, x * BLOCK)
        });
        let rods: Vec<_> = self.rods.iter().collect();
        let tiles = table(rows.len().div_ceil(TILE), width.div_ceil(TILE), |y, x| {
            shortlist(&rods, node(y * TILE + TILE / 2, x * TILE + TILE / 2), TILE)
        });
        let blocks = table(rows.len().div_ceil(BLOCK), width.div_ceil(BLOCK), |y, x| {
            let middle = between(nodes[y][x], nodes[y + 1][x + 1], BLOCK / 2);
            shortlist(&tiles[y * BLOCK / TILE][x * BLOCK / TILE], middle, BLOCK)
        });
        let lines = table(rows.len(), width / BLOCK + 2, |y, x| {
            between(nodes[y / BLOCK][x], nodes[y / BLOCK + 1][x], y)
        });
        let place = |y: usize, x: usize| {
            let [a, b, c, clumps, slow @ ..] =
                between(lines[y][x / BLOCK], lines[y][x / BLOCK + 1], x);
            let cell = Cell::containing([a, b, c], &blocks[y / BLOCK][x / BLOCK]);
            let [x, y, z] = [x, rows.start + y, z].map(|it| it as i32);
            let coarse = |shift| unit(hash([(x + shift) / 3, (y + 2 * shift) / 3, z], 6));
            let (grain, dice) = (coarse(0) + coarse(1) - 1.0, hash([x, y, z], self.salt));
            Place {
                point: [a, b, c],
                cell,
                grain,
                clumps,
                slow,
                dice,
            }
        };
        (0..rows.len() * width)
            .map(|i| paint(&place(i / width, i % width)))
            .collect()
    }
}

fn table<T>(rows: usize, columns: usize, make: impl Fn(usize, usize) -> T) -> Vec<Vec<T>> {
    (0..rows)
        .map(|y| (0..columns).map(|x| make(y, x)).collect())
        .collect()
}

/// A point in warped space, `clumps` and `slow`.
fn node(x: f32, y: f32, depth: f32) -> [f32; 8] {
    let straight = [x, y, depth];
    let [x, y, z] = moved(
        moved(straight, noise(straight, 170.0, 1), 30.0),
        noise(straight, 52.0, 2),
        7.0,
    );
    let ([clumps], [a, b, c, d]) = (noise(straight, 19.0, 3), noise(straight, 62.0, 4));
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

/// Those of `rods` that can be among the nearest three of a voxel in a square (1.8: its diagonal,
/// and more for the warp).
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
