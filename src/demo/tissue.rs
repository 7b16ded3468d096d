//! What the tissue looks like in each channel: an electron micrograph, two stains and the segmentation.

use super::noise::{dot, floor, length, mix, moved, normal, rehash, step, unit};
use super::rods::{Rod, scatter};
use super::scene::{Place, Scene};

/// From these radii on, rods are cell bodies, myelinated processes, and processes with synaptic vesicles.
const BODY: f32 = 60.0;
const MYELINATED: f32 = 30.0;
const SENDER: f32 = 11.0;

/// The greys of membranes and of what they enclose.
const DARK: f32 = 46.0;
const LIGHT: f32 = 190.0;

/// A voxel of each channel.
pub(super) struct Voxel {
    pub em: u8,
    pub nuclei: u16,
    pub actin: u16,
    pub label: u32,
}

/// The cells in `[z, y, x]` voxels of 30 × 4 × 4 nanometres.
pub(super) fn grow([depth, height, width]: [usize; 3]) -> Scene {
    let shaped = |seed: Rod| {
        let [x, y, z] = seed.center.map(|it| floor(it * (1.0 / 100.0)));
        let (half_length, radius) = match seed.dice(3) {
            // A lattice that keeps them apart.
            _ if (x + 9 * y + 4 * z).rem_euclid(15) == 0 => (22.0 * seed.dice(4), 80.0 + 14.0 * seed.dice(5)),
            dice if dice < 0.016 => (240.0, 40.0),
            _ => (60.0 + 120.0 * seed.dice(4), 18.0 * seed.dice(5)),
        };
        Rod { half_length, radius, ..seed }
    };
    let seeds = scatter([width as f32, height as f32, depth as f32 * 7.5], 100.0, 11);
    Scene { rods: seeds.map(shaped).collect(), slice_depth: 7.5, salt: 12 }
}

fn is_sender(rod: &Rod) -> bool {
    (SENDER..MYELINATED).contains(&rod.radius)
}

/// All channels at one place.
pub(super) fn voxel(place: &Place<'_>) -> Voxel {
    let &Place { point, ref cell, clumps, slow: [dents, patches, sheet, signals], dice, .. } = place;
    // Distances from the surfaces of the nucleus and the nucleolus.
    let envelope = if cell.rod.radius > BODY { cell.distance + 27.0 + 8.0 * dents } else { 1e6 };
    let nucleus = envelope.max(10.0 - cell.depth);
    let offset = moved(moved(point, cell.rod.center, -1.0), cell.rod.axis, -24.0);
    let nucleolus = length(offset) - 17.0 + 4.0 * clumps;
    let touch = is_sender(cell.rod) != is_sender(cell.neighbour);
    let synapse = f32::from(touch) * step(0.28, 0.4, signals);
    let stain = (6.0 + 8.0 * cell.rod.dice(2)) * (1.0 + 0.7 * clumps) * step(-28.0, 8.0, nucleolus);
    // Actin under every membrane, more at synapses, and in bundles in cell bodies.
    let cortex = step(13.0, 0.0, cell.depth).powi(2) * (3.8 + 3.0 * patches + 5.0 * synapse);
    let bundles = step(0.1, 0.0, sheet.abs()) * step(0.2, -0.4, patches) * step(2.0, 20.0, nucleus);
    Voxel {
        // In steps of 8: about as large as the noise, so they hardly show, and they halve the file.
        em: (grey(place, nucleus, nucleolus, synapse).clamp(0.0, 255.0) * 0.125) as u8 * 8,
        nuclei: expose(0.012 + stain * step(9.0, -15.0, nucleus), dice),
        actin: expose(0.015 + cortex + 6.0 * f32::from(cell.rod.radius > BODY) * bundles, rehash(dice ^ 1)),
        label: if cell.depth < 4.0 { 0 } else { cell.rod.id },
    }
}

/// What a 12-bit camera makes of a mean number of photons: an offset, and a gain for each photon.
pub(super) fn expose(photons: f32, dice: u32) -> u16 {
    let counted = photons + photons.sqrt() * 0.35 * normal(dice) + unit(rehash(dice));
    (counted.max(0.0) as u16).saturating_mul(16).saturating_add(100).min(4095)
}

/// The grey of the electron micrograph, from the inside of a cell to its membrane.
fn grey(place: &Place<'_>, nucleus: f32, nucleolus: f32, synapse: f32) -> f32 {
    let &Place { ref cell, grain, clumps, slow: [_, patches, sheet, signals], dice, .. } = place;
    let (rod, noise) = (cell.rod, normal(rehash(dice ^ 2)));
    // One cell in eight is darker.
    let shade = if rod.dice(2) > 0.875 { 136.0 } else { 160.0 + 20.0 * rod.dice(2) };
    let mut grey = shade + 9.0 * grain + 7.0 * clumps + 10.0 * patches;
    if rod.radius > BODY {
        // Ribosomes, endoplasmic reticulum where a noise is near 0, and the nucleus.
        grey -= 24.0 * step(0.2, 1.3, grain + 0.3 * noise);
        let room = step(8.0, 13.0, cell.depth.min(nucleus)) * step(-0.3, 0.0, patches);
        grey = sac(grey, sheet.abs() * 46.0, room);
        let rim = 0.55 * step(-16.0, -4.0, nucleus);
        let chromatin = mix(164.0, 98.0, step(0.0, 0.6, clumps + rim + 0.25 * grain));
        let inside = mix(chromatin, 80.0, 0.85 * step(2.0, -3.0, nucleolus)) + 8.0 * grain;
        grey = sac(mix(grey, inside, step(1.0, -1.0, nucleus)), nucleus.abs(), 1.0);
    }
    if is_sender(rod) {
        grey = vesicle(place, step(0.0, 0.4, signals), grey);
    }
    grey = mitochondrion(place, cell.depth.min(nucleus), grey);
    // A synapse is dark, more so on the side of the receiver.
    let width = if is_sender(rod) { 7.0 } else { 12.0 };
    grey = mix(grey, DARK, 0.9 * synapse * step(width, 0.6 * width, cell.depth));
    if (MYELINATED..BODY).contains(&rod.radius) {
        // Dark layers, wound round and round.
        let layers = mix(128.0, DARK - 16.0, step(0.15, 0.6, ridge((cell.depth - 2.0) * (1.0 / 4.2))));
        grey = mix(layers, grey + 10.0, step(19.0, 21.0, cell.depth));
    }
    // The membrane, and a light gap between two cells.
    grey = mix(grey, DARK, step(2.6, 1.2, (cell.depth - 2.5).abs()));
    mix(grey, LIGHT, step(1.6, 0.2, cell.depth)) + 5.0 * noise
}

/// Two membranes with a lumen between; `distance` is that from its middle.
fn sac(grey: f32, distance: f32, strength: f32) -> f32 {
    let wall = mix(grey, DARK + 32.0, strength * step(3.6, 2.4, distance));
    mix(wall, LIGHT - 10.0, strength * step(1.8, 0.6, distance))
}

/// A little ring; the cubes of a grid have one each, with some probability.
fn vesicle(place: &Place<'_>, probability: f32, grey: f32) -> f32 {
    let ball = Rod { radius: 4.1, ..Rod::new(place.point, 11.5, 0.14, 13) };
    let strength = f32::from(ball.dice(1) < probability);
    let beyond = ball.away(place.point).1.max(5.0 - place.cell.depth);
    let filled = mix(grey, LIGHT, strength * step(0.0, -1.5, beyond));
    mix(filled, DARK + 28.0, strength * step(1.9, 0.5, (beyond + 0.6).abs()))
}

/// A grey matrix in a dark membrane, crossed by cristae. It keeps away from other membranes: `room` is their distance.
fn mitochondrion(place: &Place<'_>, room: f32, grey: f32) -> f32 {
    if room < 12.0 {
        return grey;
    }
    let rod = Rod { half_length: 12.0, radius: 17.0, ..Rod::new(place.point, 72.0, 0.1, 14) };
    let beyond = rod.away(place.point).1 + 0.8 * (26.0 - room).max(0.0) + 2.0 * place.clumps;
    let along = dot(moved(place.point, rod.center, -1.0), rod.axis) * (1.0 / 8.0) + 0.9 * place.clumps;
    let crista = step(0.5, 0.75, ridge(along)) * step(-2.5, -4.5, beyond);
    let matrix = mix(112.0 + 9.0 * place.grain, DARK + 8.0, 0.8 * crista);
    mix(mix(grey, matrix, step(0.8, -0.8, beyond)), DARK, 0.85 * step(2.8, 1.2, (beyond + 1.2).abs()))
}

/// 1 in the middle between two whole numbers, 0 at them.
fn ridge(at: f32) -> f32 {
    1.0 - 2.0 * (at - floor(at) as f32 - 0.5).abs()
}
