//! The tissue as an electron microscope shows it: heavy metal is dark, cytoplasm light grey.
//!
//! Each function paints one thing over the grey that it is given, from the inside of the cell to its membrane; the
//! detector comes last. What lies where is known to `tissue`, not here.

use super::cell::Kind;
use super::noise::{bell, floor, hash, mix, step, unit, value};
use super::survey::Place;
use super::tissue::Synapse;
use super::vector::Vector;

const DARK: f32 = 48.0;
const LUMEN: f32 = 196.0;
const MATRIX: f32 = 112.0;

/// Width of a cell's sheath of myelin.
const SHEATH: f32 = 19.0;

/// The grey of a voxel, in steps of 8: about as large as the noise, so it hardly shows, and it halves the file.
pub(super) fn grey(place: &Place<'_>) -> u8 {
    let noise = bell(place.dice(0x92));
    let mut grey = cytoplasm(place, noise);
    match place.cell.kind {
        Kind::Body => {
            grey = reticulum(place, grey);
            grey = nucleus(place, grey);
        }
        Kind::Neurite => grey = vesicles(place, grey),
        Kind::Sheathed => grey = mix(grey, LUMEN, 0.35),
    }
    grey = mitochondria(place, grey);
    grey = density(place, grey);
    grey = match place.cell.kind {
        Kind::Sheathed => sheath(place, grey),
        _ => membrane(place, grey),
    };
    let grey = grey + light(place) + 4.5 * noise;
    (grey.clamp(0.0, 255.0) * 0.125) as u8 * 8
}

/// Granular, and in bodies speckled with ribosomes; one cell in eight is a darker one.
fn cytoplasm(place: &Place<'_>, noise: f32) -> f32 {
    let character = place.cell.character;
    let shade = if character > 0.875 { 138.0 } else { 162.0 + 20.0 * character };
    let speckle = place.ground.grain + 0.4 * noise;
    let ribosomes = if place.cell.kind == Kind::Body { 26.0 * step(0.2, 1.3, speckle) } else { 0.0 };
    shade + 8.0 * place.ground.grain + 11.0 * place.ground.patches - ribosomes
}

/// Flat sacs between the nucleus and the membrane: sheets where a slow noise is near 0.
fn reticulum(place: &Place<'_>, grey: f32) -> f32 {
    let room = step(8.0, 13.0, place.depth.min(place.beyond_nucleus));
    let patch = step(-0.3, 0.0, place.ground.patches);
    paint_sac(grey, place.ground.sheet.abs() * 46.0, 0.9, patch * room)
}

/// A membrane on either side of a lumen: `distance` from its middle, `half` its width.
fn paint_sac(grey: f32, distance: f32, half: f32, strength: f32) -> f32 {
    let wall = step(half + 2.6, half + 1.4, distance);
    let lumen = step(half + 0.8, half - 0.4, distance);
    mix(mix(grey, DARK + 30.0, wall * strength), LUMEN - 14.0, lumen * strength)
}

/// Mottled chromatin, densest along the envelope, one dark nucleolus, and the envelope's two membranes.
fn nucleus(place: &Place<'_>, grey: f32) -> f32 {
    let beyond = place.beyond_nucleus;
    if beyond > 6.0 {
        return grey;
    }
    let ground = &place.ground;
    let rim = step(-16.0, -4.0, beyond) * 0.55;
    let chromatin =
        mix(166.0, 100.0, step(0.0, 0.6, ground.clumps + rim + 0.25 * ground.grain)) + 8.0 * ground.grain;
    let nucleolus = place.cell.nucleolus(place.ground.point) + 4.0 * ground.clumps;
    let inside = mix(chromatin, 82.0 + 8.0 * ground.grain, step(2.0, -3.0, nucleolus) * 0.85);
    paint_sac(mix(grey, inside, step(1.0, -1.0, beyond)), beyond.abs(), 1.1, 1.0)
}

/// A grey matrix in two membranes, crossed by dark cristae that start from either side in turn.
fn mitochondria(place: &Place<'_>, grey: f32) -> f32 {
    let room = (12.0 - place.depth).max(10.0 - place.beyond_nucleus);
    let Some((beyond, found)) =
        place.mitochondria().map(|it| (it.rod.distance(place.ground.point), it)).min_by(nearer)
    else {
        return grey;
    };
    let beyond = beyond.max(room) + 1.5 * place.ground.clumps;
    if beyond > 3.0 {
        return grey;
    }
    let local = found.frame.local(place.ground.point - found.rod.center());
    let turn = local.x * (1.0 / 8.0) + 0.8 * value(place.ground.point * (1.0 / 18.0), 72);
    let number = floor(turn);
    let side = if number & 1 == 0 { local.y } else { -local.y };
    let ridge = 1.0 - 2.0 * (turn - number as f32 - 0.5).abs();
    let crista = step(0.5, 0.75, ridge) * step(-9.0, -4.0, side) * step(-2.5, -4.5, beyond);
    let matrix = MATRIX + 9.0 * place.ground.grain;
    let inside = mix(matrix, DARK + 8.0, crista * 0.8);
    let body = mix(grey, inside, step(0.8, -0.8, beyond));
    mix(body, DARK, 0.85 * step(2.8, 1.2, (beyond + 1.2).abs()))
}

fn nearer<T>(first: &(f32, T), second: &(f32, T)) -> std::cmp::Ordering {
    first.0.total_cmp(&second.0)
}

/// Little rings, the denser the nearer to the synapse; at most one in each cube of a grid.
fn vesicles(place: &Place<'_>, grey: f32) -> f32 {
    const PITCH: f32 = 10.5;
    let Some(synapse) = place.outgoing() else { return grey };
    let low = place.ground.point * (1.0 / PITCH);
    let (x, y, z) = (floor(low.x), floor(low.y), floor(low.z));
    let dice = |salt| unit(hash(x, y, z, salt));
    let radius = 3.7 + 0.8 * dice(81);
    let spot = |corner: i32, salt| corner as f32 * PITCH + radius + (PITCH - 2.0 * radius) * dice(salt);
    let center = Vector::new(spot(x, 82), spot(y, 83), spot(z, 84));
    let near = (center - synapse.point).length();
    if dice(85) > 1.25 - near * (1.0 / 62.0) {
        return grey;
    }
    let beyond = ((place.ground.point - center).length() - radius).max(5.0 - place.depth);
    let filled = mix(grey, LUMEN, step(0.0, -1.5, beyond));
    mix(filled, DARK + 28.0, step(1.9, 0.5, (beyond + 0.6).abs()))
}

/// The dark band on the receiving side of a synapse, and a thinner one on the sending side.
fn density(place: &Place<'_>, grey: f32) -> f32 {
    if place.depth > 12.0 {
        return grey;
    }
    let strength = |synapse: &Synapse| {
        let band = match place.index {
            index if index == synapse.receiver => step(12.0, 7.0, place.depth),
            index if index == synapse.sender => step(7.5, 4.5, place.depth),
            _ => 0.0,
        };
        band * step(42.0, 28.0, (place.ground.point - synapse.point).length())
    };
    mix(grey, DARK - 6.0, 0.9 * place.contacts().map(strength).fold(0.0, f32::max))
}

/// A light gap between cells, then the membrane. Cut obliquely it blurs and the gap drowns in it, as in a section of
/// some depth.
fn membrane(place: &Place<'_>, grey: f32) -> f32 {
    if place.depth > 8.0 {
        return grey;
    }
    let blur = 0.8 + 2.4 * place.tilt * place.tilt;
    let wall = step(1.5 + blur, 1.2, (place.depth - 2.6).abs()) * (1.0 - 0.4 * place.tilt * place.tilt);
    let gap = step(1.6, 0.4, place.depth) * step(0.85, 0.35, place.tilt);
    mix(mix(grey, DARK, wall), LUMEN - 6.0, gap)
}

/// Myelin: dark lamellae wound round and round.
fn sheath(place: &Place<'_>, grey: f32) -> f32 {
    let turn = (place.depth - 2.0) * (1.0 / 4.2);
    let ridge = 1.0 - 2.0 * (turn - floor(turn) as f32 - 0.5).abs();
    let lamella = mix(128.0, DARK - 16.0, step(0.15, 0.6, ridge));
    let wound = mix(lamella, grey, step(SHEATH, SHEATH + 2.0, place.depth));
    mix(wound, LUMEN + 6.0, step(2.4, 0.8, place.depth))
}

/// Each slice is a little lighter or darker than the next, and the light is uneven.
fn light(place: &Place<'_>) -> f32 {
    let slice = 4.0 * bell(hash(0, 0, place.z as i32, 91));
    slice + (place.x as f32 - place.y as f32) * (1.0 / 128.0)
}
