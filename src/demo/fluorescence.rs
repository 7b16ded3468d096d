//! The same tissue as a light microscope shows it: one stain for nuclei, one for actin.
//!
//! The camera counts photons: a voxel holds its offset plus the gain for each photon, and the number of photons
//! scatters as light does, by the square root of its mean. 12 bits, as such cameras have.

use super::cell::Kind;
use super::noise::{bell, mix, remix, step, unit};
use super::survey::Place;
use super::tissue::Synapse;

const OFFSET: u16 = 100;
const GAIN: u16 = 16;
const FULL: u16 = 4095;

/// The nuclear stain at a voxel: bright in chromatin, darker in the nucleolus.
pub(super) fn nuclei(place: &Place<'_>) -> u16 {
    let photons = 0.012 + chromatin(place);
    expose(photons, place.dice(0xA1))
}

fn chromatin(place: &Place<'_>) -> f32 {
    let inside = step(9.0, -15.0, place.beyond_nucleus);
    if inside == 0.0 {
        return 0.0;
    }
    let clumps = 1.0 + 0.45 * place.ground.clumps;
    let hole = mix(0.45, 1.0, step(-6.0, 8.0, place.cell.nucleolus(place.ground.point)));
    inside * clumps * hole * (6.0 + 8.0 * place.cell.character)
}

/// The actin stain at a voxel: the cortex under every membrane, bundles in cell bodies, spots at synapses.
pub(super) fn actin(place: &Place<'_>) -> u16 {
    let patches = 0.75 + 0.6 * place.ground.patches;
    let cortex = step(13.0, 0.0, place.depth);
    let photons = 0.015 + 5.0 * patches * cortex * cortex + bundles(place) + spots(place);
    expose(photons, place.dice(0xB2))
}

fn bundles(place: &Place<'_>) -> f32 {
    if place.cell.kind != Kind::Body {
        return 0.0;
    }
    let room = step(2.0, 20.0, place.beyond_nucleus);
    6.0 * room * step(0.12, 0.0, place.ground.fibre.abs()) * step(-0.2, 0.4, place.ground.patches)
}

fn spots(place: &Place<'_>) -> f32 {
    let spot = |synapse: &Synapse| step(30.0, 0.0, (place.ground.point - synapse.point).length());
    8.0 * place.contacts().map(spot).fold(0.0, f32::max)
}

/// What the camera makes of a mean number of photons, by a throw of dice.
pub(super) fn expose(mean: f32, dice: u32) -> u16 {
    let scattered = mean + mean.sqrt() * 0.35 * bell(dice) + unit(remix(dice));
    (scattered.max(0.0) as u16).saturating_mul(GAIN).saturating_add(OFFSET).min(FULL)
}
