//! A short time series of live nuclei that drift and divide; every change is a smooth function of
//! time.

use super::noise::{noise, shift, step, vector};
use super::rods::{Rod, scatter};
use super::scene::{Scene, VoxelPlace};
use super::tissue::expose;

/// The edge of the cubes that have one nucleus each, in voxel widths.
const CUBE: f32 = 62.0;

/// Slice `z` at time point `t`, of voxels of 1 × 0.2 × 0.2 micrometres.
pub(crate) fn slice(t: usize, z: usize, height: usize, width: usize) -> Vec<u16> {
    let seeds = scatter([width as f32, height as f32, 0.0], CUBE, 31);
    // All slices lie in one layer of cubes.
    let seeds = seeds.filter(|seed| (0.0..CUBE).contains(&seed.center[2]));
    let rods = seeds.flat_map(|seed| halves(&seed, t as f32)).collect();
    Scene {
        rods,
        slice_depth: 5.0,
        salt: 32 + t as u32,
    }
    .slice(z, 0..height, width, voxel)
}

/// The halves of a nucleus at time `t`. They lie in the same place until it divides, and then part
/// within three time points.
fn halves(seed: &Rod, t: f32) -> [Rod; 2] {
    // 45 % of all nuclei divide, at a time from 1 to 7.
    let division_time = if seed.dice(1) < 0.45 {
        1.0 + 6.0 * seed.dice(2)
    } else {
        f32::INFINITY
    };
    let parted = step(0.0, 3.0, t - division_time);
    let full_radius = 14.0 + 5.0 * seed.dice(7);
    let radius = full_radius * (1.0 - 0.2 * parted);
    // The movement from one time point to the next.
    let drift = [3, 4, 5].map(|salt| 8.0 * seed.dice(salt) - 4.0);
    let center = shift(seed.center, [drift[0], drift[1], 0.3 * drift[2]], t);
    [-1.3, 1.3].map(|side| Rod {
        center: shift(center, seed.axis, side * parted * full_radius),
        half_length: 0.3 * radius,
        radius,
        ..*seed
    })
}

/// The value of a voxel: a nucleus with clumps, the haze around it, and the background.
fn voxel(place: &VoxelPlace<'_>) -> u16 {
    let rod = place.cell.rod;
    let beyond = place.cell.distance;
    let [clumps] = if beyond < 12.0 {
        // Clumps move with the nucleus.
        noise(vector(rod.center, place.point), 9.0, rod.id)
    } else {
        [0.0]
    };
    let light = (6.0 + 8.0 * rod.dice(6)) * (1.0 + 0.8 * clumps);
    let nucleus = light * step(2.5, -5.0, beyond);
    let haze = 0.6 * step(12.0, 0.0, beyond);
    expose(0.1 + nucleus + haze, place.dice)
}
