//! Draws the demo's tissue in each of its channels: an electron micrograph, two stains and the
//! segmentation.

use super::noise::{
    Point, direction, dot, floor, length, mix, normal, rehash, shift, step, unit, vector,
};
use super::rods::{Cell, Rod, scatter};
use super::scene::{Scene, VoxelPlace};

/// The distance of two slices, in voxel widths: 30 nanometres, with voxels 4 nanometres wide.
const SLICE_DEPTH: f32 = 7.5;
/// The edge of the cubes that have one cell each.
const CUBE: f32 = 100.0;
/// The radii of processes with synaptic vesicles, which send signals to other cells.
const SENDER_RADII: std::ops::Range<f32> = 11.0..30.0;
/// The radii of myelinated processes.
const MYELINATED_RADII: std::ops::Range<f32> = 30.0..60.0;
/// Rods with a larger radius than this are cell bodies.
const BODY_RADIUS: f32 = 60.0;
/// The grey of membranes.
const DARK: f32 = 46.0;
/// The grey of gaps between cells, and of vesicles.
const LIGHT: f32 = 190.0;

/// Places cells in a volume of `[z, y, x]` voxels of 30 × 4 × 4 nanometres.
pub(crate) fn grow([depth, height, width]: [usize; 3]) -> Scene {
    let extents = [width as f32, height as f32, depth as f32 * SLICE_DEPTH];
    let seeds = scatter(extents, CUBE, 11);
    Scene {
        rods: seeds.map(|seed| with_shape(&seed)).collect(),
        slice_depth: SLICE_DEPTH,
        salt: 12,
    }
}

/// Makes a rod a cell body, a myelinated process or another process: sets its length and radius.
fn with_shape(seed: &Rod) -> Rod {
    let [x, y, z] = seed.center.map(|it| floor(it * (1.0 / CUBE)));
    // One cube in 15 has a cell body; these cubes form a lattice, which keeps the bodies apart.
    let is_body = (x + 9 * y + 4 * z).rem_euclid(15) == 0;
    let (half_length, radius) = if is_body {
        (22.0 * seed.dice(4), 80.0 + 14.0 * seed.dice(5))
    } else if seed.dice(3) < 0.016 {
        // A few processes are myelinated.
        (240.0, 40.0)
    } else {
        (60.0 + 120.0 * seed.dice(4), 18.0 * seed.dice(5))
    };
    Rod {
        half_length,
        radius,
        layered: MYELINATED_RADII.contains(&radius),
        ..*seed
    }
}

/// The values of a voxel in all channels: the micrograph, the stains of nuclei and of actin, and
/// the segmentation.
pub(crate) fn voxel(place: &VoxelPlace<'_>) -> (u8, u16, u16, u32) {
    let &VoxelPlace {
        point,
        ref cell,
        clumps,
        // `dents` shapes the nucleus, `patches` and `sheet` place the contents of cells, and
        // `signals` places synapses.
        slow: [dents, patches, sheet, signals],
        dice,
        ..
    } = place;
    // The distances from the surfaces of the nucleus and of the nucleolus, negative inside. Only
    // cell bodies have both; elsewhere they are far away.
    let mut nucleus = 1e6;
    let mut nucleolus = 1e6;
    let mut stain = 0.0;
    // The light from bundles of actin.
    let mut bundles = 0.0;
    if cell.rod.radius > BODY_RADIUS {
        // The nucleus lies about 27 below the surface of the rod, and at least 10 from other cells.
        nucleus = (cell.distance + 27.0 + 8.0 * dents).max(10.0 - cell.depth);
        // The nucleolus is a ball beside the center.
        let from_center = vector(cell.rod.center, point);
        nucleolus = length(shift(from_center, cell.rod.axis, -24.0)) - 17.0;
        let brightness = 10.0 + 4.0 * cell.rod.dice(2);
        stain = brightness * (1.0 + 0.7 * clumps) * step(-28.0, 8.0, nucleolus);
        bundles =
            6.0 * step(0.1, 0.0, sheet.abs()) * step(0.2, -0.4, patches) * step(2.0, 20.0, nucleus);
    }
    // Synapses lie between a cell that sends and one that does not.
    let is_sender = SENDER_RADII.contains(&cell.rod.radius);
    let is_neighbour_sender = SENDER_RADII.contains(&cell.neighbour.radius);
    let synapse = f32::from(is_sender != is_neighbour_sender) * step(0.28, 0.4, signals);
    // Actin lies under every membrane, more of it at synapses, and in bundles in cell bodies.
    let cortex = step(9.5, 0.0, cell.depth) * (3.8 + 3.0 * patches + 5.0 * synapse);
    let actin = expose(0.015 + cortex + bundles, rehash(dice ^ 1));
    let nuclei = expose(0.012 + stain * step(9.0, -15.0, nucleus), dice);
    // Greys are multiples of 8, which halves the file. The steps are about as large as the noise,
    // so they hardly show.
    let exact = grey(place, nucleus, nucleolus, synapse).clamp(0.0, 255.0);
    let em = (exact * 0.125) as u8 * 8;
    let label = if cell.depth < 4.0 { 0 } else { cell.rod.id };
    (em, nuclei, actin, label)
}

/// The value that a 12-bit camera records where on average `photons` photons arrive: an offset of
/// 100, and 16 for each photon that is counted, which varies with `dice`.
pub(crate) fn expose(photons: f32, dice: u32) -> u16 {
    let counted = photons + photons.sqrt() * 0.35 * normal(dice) + unit(rehash(dice));
    (counted.max(0.0) as u16)
        .saturating_mul(16)
        .saturating_add(100)
        .min(4095)
}

/// The grey of a voxel in the electron micrograph. What lies in a cell is drawn first, and its
/// membrane last; `nucleus` and `nucleolus` are distances from their surfaces.
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
    // One cell in eight is darker than all others.
    let shade = if rod.dice(2) > 0.875 {
        136.0
    } else {
        160.0 + 20.0 * rod.dice(2)
    };
    let mut grey = shade + 9.0 * grain + 7.0 * clumps + 10.0 * patches;
    // The distance from the nearest membrane of the cell or its nucleus.
    let room = cell.depth.min(nucleus);
    if rod.radius > BODY_RADIUS {
        // Ribosomes are dark grains.
        grey -= 24.0 * step(0.2, 1.3, grain + 0.3 * noise);
        // The endoplasmic reticulum lies where the noise `sheet` is near 0.
        let reticulum = step(8.0, 13.0, room) * step(-0.3, 0.0, patches);
        grey = sac(grey, sheet.abs() * 46.0, reticulum);
        // The nucleus is enclosed by a sac.
        let filling = chromatin(place, nucleus, nucleolus);
        grey = mix(grey, filling, step(1.0, -1.0, nucleus));
        grey = sac(grey, nucleus.abs(), 1.0);
    }
    let is_sender = SENDER_RADII.contains(&rod.radius);
    if is_sender && signals > 0.0 {
        grey = vesicle(place, step(0.0, 0.4, signals), grey);
    }
    grey = mitochondrion(place, room, grey);
    // A synapse is dark, to a greater depth on the side of the receiver.
    let width = if is_sender { 7.0 } else { 12.0 };
    grey = mix(
        grey,
        DARK,
        0.9 * synapse * step(width, 0.6 * width, cell.depth),
    );
    if rod.layered {
        // Myelin is wound around the process in dark layers.
        let darkness = step(0.15, 0.6, ridge((cell.depth - 2.0) * (1.0 / 4.2)));
        let myelin = mix(128.0, DARK - 16.0, darkness);
        grey = mix(myelin, grey + 10.0, step(19.0, 21.0, cell.depth));
    }
    border(grey, cell) + 5.0 * noise
}

/// Draws a cell's membrane over `grey`, and the light gap between two cells. Both blur where the
/// slice cuts them obliquely, as in a section that has some thickness.
fn border(grey: f32, cell: &Cell<'_>) -> f32 {
    let wall = step(2.5 + 2.4 * cell.tilt, 1.2, (cell.depth - 2.5).abs()) * (1.0 - 0.4 * cell.tilt);
    let gap = step(1.6, 0.2, cell.depth) * step(0.7, 0.1, cell.tilt);
    mix(mix(grey, DARK, wall), LIGHT, gap)
}

/// The grey inside the nucleus: clumps of chromatin, more of them along its membrane, and the
/// nucleolus.
fn chromatin(place: &VoxelPlace<'_>, nucleus: f32, nucleolus: f32) -> f32 {
    let clumps = place.clumps + 0.55 * step(-16.0, -4.0, nucleus) + 0.25 * place.grain;
    let chromatin = mix(164.0, 98.0, step(0.0, 0.6, clumps));
    let in_nucleolus = 0.85 * step(2.0, -3.0, nucleolus + 4.0 * clumps);
    mix(chromatin, 80.0, in_nucleolus) + 8.0 * place.grain
}

/// Draws two membranes with a light lumen between them over `grey`. `distance` is the distance from
/// the middle of the lumen; with `strength` 0 nothing is drawn.
fn sac(grey: f32, distance: f32, strength: f32) -> f32 {
    let wall = mix(grey, DARK + 32.0, strength * step(3.6, 2.4, distance));
    mix(wall, LIGHT - 10.0, strength * step(1.8, 0.6, distance))
}

/// `point` in a rotated space. Grids in this space are oblique to all sections, so that no section
/// shows their rows.
fn rotate(point: Point) -> Point {
    [[2.0, -1.0, 2.0], [2.0, 2.0, -1.0], [-1.0, 2.0, 2.0]].map(|way| dot(point, way) * (1.0 / 3.0))
}

/// Draws a synaptic vesicle, which looks like a little ring in a section, over `grey`. Each cube of
/// a grid contains a vesicle with the given probability.
fn vesicle(place: &VoxelPlace<'_>, probability: f32, grey: f32) -> f32 {
    let point = rotate(place.point);
    let ball = Rod {
        radius: 3.9,
        ..Rod::new(point, 11.0, 0.16, 13)
    };
    let strength = f32::from(ball.dice(1) < probability);
    // The distance outside the vesicle's surface; vesicles end before the cell's membrane.
    let beyond = ball.away(point).1.max(5.0 - place.cell.depth);
    let filled = mix(grey, LIGHT, strength * step(0.0, -1.5, beyond));
    mix(
        filled,
        DARK + 28.0,
        strength * step(1.9, 0.5, (beyond + 0.6).abs()),
    )
}

/// The distance from one mitochondrion to the next along a process.
const SPACING: f32 = 90.0;

/// Draws a mitochondrion over `grey`: a grey matrix in a dark membrane, crossed by dark cristae. It
/// keeps away from all other membranes, the nearest of which is at the distance `room`.
fn mitochondrion(place: &VoxelPlace<'_>, room: f32, grey: f32) -> f32 {
    let host = place.cell.rod;
    let is_in_body = host.radius > BODY_RADIUS;
    let from_line = place.cell.distance + host.radius;
    // In a process, mitochondria lie along its line, and none reaches further than this.
    if room < 10.0 || (!is_in_body && from_line > 36.0) {
        return grey;
    }
    let point = if is_in_body {
        rotate(place.point)
    } else {
        place.point
    };
    let rod = if is_in_body {
        // Each cube of a grid may have one.
        Rod {
            half_length: 12.0,
            radius: 15.0,
            ..Rod::new(point, 72.0, 0.12, 14)
        }
    } else {
        // Mitochondria follow one another along the process.
        let along_process = dot(vector(host.center, point), host.axis);
        let number = floor(along_process * (1.0 / SPACING)) as f32;
        let seed = Rod::new([number, host.id as f32, 0.0], 1.0, 0.0, 15);
        let on_line = shift(host.center, host.axis, SPACING * number + SPACING / 2.0);
        Rod {
            center: shift(on_line, seed.axis, 7.0),
            axis: direction(shift(host.axis, seed.axis, 0.3)),
            half_length: 8.0 + 22.0 * seed.dice(2),
            radius: 9.0 + 5.0 * seed.dice(3),
            ..seed
        }
    };
    // The distance outside the mitochondrion's surface, which is dented by membranes and by noise.
    let beyond = rod.away(point).1 + 0.8 * (22.0 - room).max(0.0) + 2.0 * place.clumps;
    // Cristae are 8 voxel widths apart along the axis.
    let along = dot(vector(rod.center, point), rod.axis) * (1.0 / 8.0) + 0.9 * place.clumps;
    let crista = step(0.5, 0.75, ridge(along)) * step(-2.5, -4.5, beyond);
    let matrix = mix(112.0 + 9.0 * place.grain, DARK + 8.0, 0.8 * crista);
    // Some places for a mitochondrion stay empty.
    let strength = f32::from(rod.dice(1) < 0.65);
    let filled = mix(grey, matrix, strength * step(0.8, -0.8, beyond));
    mix(
        filled,
        DARK,
        0.85 * strength * step(2.8, 1.2, (beyond + 1.2).abs()),
    )
}

/// A zigzag that is 0 at whole numbers and 1 halfway between them.
fn ridge(at: f32) -> f32 {
    1.0 - 2.0 * (at - floor(at) as f32 - 0.5).abs()
}
