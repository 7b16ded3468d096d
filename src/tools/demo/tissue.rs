//! The look of the tissue in each channel: an electron micrograph, two stains and the segmentation.

use super::noise::{Point, direction, dot, floor, length, mix, moved, normal, rehash, step, unit};
use super::rods::{Cell, Rod, scatter};
use super::scene::{Scene, VoxelPlace};

/// Radii of the rods of processes with synaptic vesicles, of myelinated ones, and (from here on) of
/// cell bodies.
const SENDERS: std::ops::Range<f32> = 11.0..30.0;
const MYELINATED: std::ops::Range<f32> = 30.0..60.0;
const BODY: f32 = 60.0;
/// The greys of membranes and of what they enclose.
const DARK: f32 = 46.0;
const LIGHT: f32 = 190.0;

/// The cells in `[z, y, x]` voxels of 30 × 4 × 4 nanometres.
pub(super) fn grow([depth, height, width]: [usize; 3]) -> Scene {
    let seeds = scatter([width as f32, height as f32, depth as f32 * 7.5], 100.0, 11);
    Scene {
        rods: seeds.map(|seed| shaped(&seed)).collect(),
        slice_depth: 7.5,
        salt: 12,
    }
}

/// The rod with the length and radius of a cell body or a process; some processes are myelinated.
fn shaped(seed: &Rod) -> Rod {
    let [x, y, z] = seed.center.map(|it| floor(it * (1.0 / 100.0)));
    let (half_length, radius) = match seed.dice(3) {
        // A lattice that keeps cell bodies apart.
        _ if (x + 9 * y + 4 * z).rem_euclid(15) == 0 => {
            (22.0 * seed.dice(4), 80.0 + 14.0 * seed.dice(5))
        }
        dice if dice < 0.016 => (240.0, 40.0),
        _ => (60.0 + 120.0 * seed.dice(4), 18.0 * seed.dice(5)),
    };
    Rod {
        half_length,
        radius,
        layered: MYELINATED.contains(&radius),
        ..*seed
    }
}

/// The micrograph, both stains (nuclei, actin) and the segmentation at one place.
pub(super) fn voxel(place: &VoxelPlace<'_>) -> (u8, u16, u16, u32) {
    let &VoxelPlace {
        point,
        ref cell,
        clumps,
        slow: [dents, patches, sheet, signals],
        dice,
        ..
    } = place;
    // Distances from the surfaces of the nucleus and the nucleolus, far outside a cell body.
    let mut nucleus = 1e6;
    let mut nucleolus = 1e6;
    let mut stain = 0.0;
    let mut bundles = 0.0;
    if cell.rod.radius > BODY {
        nucleus = (cell.distance + 27.0 + 8.0 * dents).max(10.0 - cell.depth);
        nucleolus = length(moved(
            moved(point, cell.rod.center, -1.0),
            cell.rod.axis,
            -24.0,
        )) - 17.0;
        stain =
            (10.0 + 4.0 * cell.rod.dice(2)) * (1.0 + 0.7 * clumps) * step(-28.0, 8.0, nucleolus);
        bundles =
            6.0 * step(0.1, 0.0, sheet.abs()) * step(0.2, -0.4, patches) * step(2.0, 20.0, nucleus);
    }
    let [sends, receives] = [cell.rod, cell.neighbour].map(|rod| SENDERS.contains(&rod.radius));
    let synapse = f32::from(sends != receives) * step(0.28, 0.4, signals);
    // Actin under every membrane, more at synapses, and in bundles in cell bodies.
    let cortex = step(9.5, 0.0, cell.depth) * (3.8 + 3.0 * patches + 5.0 * synapse);
    let actin = expose(0.015 + cortex + bundles, rehash(dice ^ 1));
    // In steps of 8: about as large as the noise, so they hardly show, and they halve the file.
    let em = (grey(place, nucleus, nucleolus, synapse).clamp(0.0, 255.0) * 0.125) as u8 * 8;
    let label = if cell.depth < 4.0 { 0 } else { cell.rod.id };
    (
        em,
        expose(0.012 + stain * step(9.0, -15.0, nucleus), dice),
        actin,
        label,
    )
}

/// The value that a 12-bit camera records for a mean number of photons: an offset, and a gain for
/// each photon.
pub(super) fn expose(photons: f32, dice: u32) -> u16 {
    let counted = photons + photons.sqrt() * 0.35 * normal(dice) + unit(rehash(dice));
    (counted.max(0.0) as u16)
        .saturating_mul(16)
        .saturating_add(100)
        .min(4095)
}

/// The grey of the electron micrograph, from the inside of a cell to its membrane.
fn grey(place: &VoxelPlace<'_>, nucleus: f32, nucleolus: f32, synapse: f32) -> f32 {
    let &VoxelPlace {
        ref cell,
        grain,
        clumps,
        slow: [_, patches, sheet, signals],
        dice,
        ..
    } = place;
    let rod = cell.rod;
    let noise = normal(rehash(dice ^ 2));
    let shade = if rod.dice(2) > 0.875 {
        136.0
    } else {
        160.0 + 20.0 * rod.dice(2)
    };
    let mut grey = shade + 9.0 * grain + 7.0 * clumps + 10.0 * patches;
    if rod.radius > BODY {
        // Ribosomes, endoplasmic reticulum where a noise is near 0, and the nucleus.
        grey -= 24.0 * step(0.2, 1.3, grain + 0.3 * noise);
        let room = step(8.0, 13.0, cell.depth.min(nucleus)) * step(-0.3, 0.0, patches);
        grey = sac(grey, sheet.abs() * 46.0, room);
        let inside = mix(
            grey,
            chromatin(place, nucleus, nucleolus),
            step(1.0, -1.0, nucleus),
        );
        grey = sac(inside, nucleus.abs(), 1.0);
    }
    if SENDERS.contains(&rod.radius) && signals > 0.0 {
        grey = vesicle(place, step(0.0, 0.4, signals), grey);
    }
    grey = mitochondrion(place, cell.depth.min(nucleus), grey);
    // A synapse is dark, more so on the side of the receiver.
    let width = if SENDERS.contains(&rod.radius) {
        7.0
    } else {
        12.0
    };
    grey = mix(
        grey,
        DARK,
        0.9 * synapse * step(width, 0.6 * width, cell.depth),
    );
    if rod.layered {
        // Dark layers, wound round and round.
        let layers = mix(
            128.0,
            DARK - 16.0,
            step(0.15, 0.6, ridge((cell.depth - 2.0) * (1.0 / 4.2))),
        );
        grey = mix(layers, grey + 10.0, step(19.0, 21.0, cell.depth));
    }
    border(grey, cell) + 5.0 * noise
}

/// The membrane, and a light gap between two cells. Cut obliquely they blur, as in a section of
/// some depth.
fn border(grey: f32, cell: &Cell<'_>) -> f32 {
    let wall = step(2.5 + 2.4 * cell.tilt, 1.2, (cell.depth - 2.5).abs()) * (1.0 - 0.4 * cell.tilt);
    let gap = step(1.6, 0.2, cell.depth) * step(0.7, 0.1, cell.tilt);
    mix(mix(grey, DARK, wall), LIGHT, gap)
}

/// The grey inside the nucleus.
fn chromatin(place: &VoxelPlace<'_>, nucleus: f32, nucleolus: f32) -> f32 {
    let clumps = place.clumps + 0.55 * step(-16.0, -4.0, nucleus) + 0.25 * place.grain;
    let chromatin = mix(164.0, 98.0, step(0.0, 0.6, clumps));
    let share = 0.85 * step(2.0, -3.0, nucleolus + 4.0 * clumps);
    mix(chromatin, 80.0, share) + 8.0 * place.grain
}

/// Two membranes with a lumen between; `distance` is the distance from its middle.
fn sac(grey: f32, distance: f32, strength: f32) -> f32 {
    let wall = mix(grey, DARK + 32.0, strength * step(3.6, 2.4, distance));
    mix(wall, LIGHT - 10.0, strength * step(1.8, 0.6, distance))
}

/// `point` in a space that is turned, so that no section shows the rows of a grid.
fn turned(point: Point) -> Point {
    [[2.0, -1.0, 2.0], [2.0, 2.0, -1.0], [-1.0, 2.0, 2.0]].map(|way| dot(point, way) * (1.0 / 3.0))
}

/// A little ring; the cubes of a grid have one each, with some probability.
fn vesicle(place: &VoxelPlace<'_>, probability: f32, grey: f32) -> f32 {
    let point = turned(place.point);
    let ball = Rod {
        radius: 3.9,
        ..Rod::new(point, 11.0, 0.16, 13)
    };
    let strength = f32::from(ball.dice(1) < probability);
    let beyond = ball.away(point).1.max(5.0 - place.cell.depth);
    let filled = mix(grey, LIGHT, strength * step(0.0, -1.5, beyond));
    mix(
        filled,
        DARK + 28.0,
        strength * step(1.9, 0.5, (beyond + 0.6).abs()),
    )
}

/// A grey matrix in a dark membrane, crossed by cristae. It keeps away from other membranes: `room`
/// is their distance.
fn mitochondrion(place: &VoxelPlace<'_>, room: f32, grey: f32) -> f32 {
    let cell = place.cell.rod;
    let mut point = place.point;
    if room < 10.0 || cell.radius < BODY && place.cell.distance + cell.radius > 36.0 {
        return grey;
    }
    let rod = if cell.radius > BODY {
        point = turned(point);
        Rod {
            half_length: 12.0,
            radius: 15.0,
            ..Rod::new(point, 72.0, 0.12, 14)
        }
    } else {
        // One after another along the process.
        let number = floor(dot(moved(point, cell.center, -1.0), cell.axis) * (1.0 / 90.0)) as f32;
        let seed = Rod::new([number, cell.id as f32, 0.0], 1.0, 0.0, 15);
        let center = moved(
            moved(cell.center, cell.axis, 90.0 * number + 45.0),
            seed.axis,
            7.0,
        );
        Rod {
            center,
            axis: direction(moved(cell.axis, seed.axis, 0.3)),
            half_length: 8.0 + 22.0 * seed.dice(2),
            radius: 9.0 + 5.0 * seed.dice(3),
            ..seed
        }
    };
    let beyond = rod.away(point).1 + 0.8 * (22.0 - room).max(0.0) + 2.0 * place.clumps;
    let along = dot(moved(point, rod.center, -1.0), rod.axis) * (1.0 / 8.0) + 0.9 * place.clumps;
    let crista = step(0.5, 0.75, ridge(along)) * step(-2.5, -4.5, beyond);
    let matrix = mix(112.0 + 9.0 * place.grain, DARK + 8.0, 0.8 * crista);
    let strength = f32::from(rod.dice(1) < 0.65);
    let filled = mix(grey, matrix, strength * step(0.8, -0.8, beyond));
    mix(
        filled,
        DARK,
        0.85 * strength * step(2.8, 1.2, (beyond + 1.2).abs()),
    )
}

/// 0 at whole numbers, 1 in the middle between two of them.
fn ridge(at: f32) -> f32 {
    1.0 - 2.0 * (at - floor(at) as f32 - 0.5).abs()
}
