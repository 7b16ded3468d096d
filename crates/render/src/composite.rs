//! Compositing: turns shades or label ids into the pixels of a tile. Each row of the level is given
//! once, though several rows of the tile may show it.

use voltile_base::color::{Colour, Rgb, label_colour};
use voltile_base::geometry::{Patch, TILE};
use voltile_base::simd::multiversion;
use voltile_hdf5::volume::{Samples, Voxel, with_samples};

/// Copies shades into a grey tile, or opacities into those of a tile: one byte for each pixel.
pub(super) fn copy_bytes(values: &[u8], patch: &Patch, pixels: &mut [u8]) {
    for (from, into) in rows(values, patch, pixels, 1) {
        into[..from.len()].copy_from_slice(from);
    }
}

/// Adds shades in a colour, saturating at 255. Where `opacity` is 0, data is missing and nothing is
/// added, even if the first colour of the colour map is not black.
pub(super) fn add(shades: &[u8], opacity: &[u8], patch: &Patch, colour: Colour, pixels: &mut [u8]) {
    let rows = rows(shades, patch, pixels, 3);
    if let Some(components) = colour.components() {
        // A factor of 0 or 1 for each component keeps the inner loop free of branches.
        let factors = components.map(u8::from);
        return rows.for_each(|(from, into)| add_row(from, factors, into));
    }
    let table: [Rgb; 256] = std::array::from_fn(|shade| colour.of_shade(shade as u8));
    // For each tile row, the opacities from its first voxel on; empty if no data is missing.
    let opacities = patch
        .shown()
        .map(|row| opacity.get(row * patch.width()..).unwrap_or_default());
    for ((from, into), opacities) in rows.zip(opacities) {
        for (place, (shade, pixel)) in from.iter().zip(into.as_chunks_mut::<3>().0).enumerate() {
            if opacities.get(place) == Some(&0) {
                continue;
            }
            for (component, added) in pixel.iter_mut().zip(table[usize::from(*shade)]) {
                *component = component.saturating_add(added);
            }
        }
    }
}

multiversion! {
    fn add_row(shades: &[u8], factors: [u8; 3], pixels: &mut [u8]) {
        for (shade, pixel) in shades.iter().zip(pixels.as_chunks_mut::<3>().0) {
            for (component, factor) in pixel.iter_mut().zip(factors) {
                *component = component.saturating_add(shade * factor);
            }
        }
    }
}

/// Paints label ids into a colour tile, black where `opacity` is 0. Opacities are 0 or 255.
pub(super) fn labels(ids: &Samples, opacity: &[u8], patch: &Patch, pixels: &mut [u8]) {
    with_samples!(ids, ids => rows(ids, patch, pixels, 3).for_each(|(from, into)| label_row(from, into)));
    if !opacity.is_empty() {
        rows(opacity, patch, pixels, 3).for_each(|(from, into)| blacken(from, into));
    }
}

fn blacken(opacity: &[u8], pixels: &mut [u8]) {
    for (opacity, pixel) in opacity.iter().zip(pixels.as_chunks_mut::<3>().0) {
        pixel.iter_mut().for_each(|component| *component &= opacity);
    }
}

/// The number of ids that are coloured at a time.
const GROUP: usize = 32;

multiversion! {
    /// Neighbouring pixels mostly have the same id: a group with a single id is filled with its
    /// colour. At segment borders each pixel's colour is computed, which is cheap arithmetic.
    [T: Voxel] [T]
    fn label_row(ids: &[T], pixels: &mut [u8]) {
        let (groups, last_ids) = ids.as_chunks::<GROUP>();
        let pixels = pixels.as_chunks_mut::<3>().0;
        let (group_pixels, last_pixels) = pixels.split_at_mut(GROUP * groups.len());
        // The id of the last group with a single id, and its pixels. Label 0 is black.
        let mut uniform_id = 0;
        let mut uniform_pixels = [[0; 3]; GROUP];
        for (ids, pixels) in groups.iter().zip(group_pixels.as_chunks_mut::<GROUP>().0) {
            let first = ids[0].to_label();
            let differing_bits = ids.iter().fold(0, |bits, id| bits | (id.to_label() ^ first));
            if differing_bits == 0 {
                if first != uniform_id {
                    uniform_id = first;
                    uniform_pixels = [label_colour(first); GROUP];
                }
                *pixels = uniform_pixels;
            } else {
                colour_each(ids, pixels);
            }
        }
        colour_each(last_ids, last_pixels);
    }
}

#[inline(always)]
fn colour_each<T: Voxel>(ids: &[T], pixels: &mut [Rgb]) {
    ids.iter()
        .zip(pixels)
        .for_each(|(id, pixel)| *pixel = label_colour(id.to_label()));
}

/// Pairs each row of the tile, from the left edge of the patch on, with the row of values that it
/// shows. A pixel has `pixel_bytes` bytes.
fn rows<'a, T>(
    values: &'a [T],
    patch: &'a Patch,
    pixels: &'a mut [u8],
    pixel_bytes: usize,
) -> impl Iterator<Item = (&'a [T], &'a mut [u8])> {
    let width = patch.width();
    let left = patch.left() * pixel_bytes;
    let tile_rows = pixels
        .chunks_exact_mut(TILE * pixel_bytes)
        .skip(patch.top());
    patch
        .shown()
        .zip(tile_rows)
        .map(move |(row, pixels)| (&values[row * width..][..width], &mut pixels[left..]))
}
