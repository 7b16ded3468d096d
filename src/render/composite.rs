//! Compositing: from 8-bit values, one for each distinct row and column, to the pixels of a tile.

use crate::color::{Colour, Rgb, label_colour};
use crate::geometry::{Patch, TILE};
use crate::volume::{Samples, Voxel, with_samples};

/// Puts shades into a grey tile.
pub(super) fn grey(shades: &[u8], patch: &Patch, pixels: &mut [u8]) {
    for (from, into) in rows(shades, patch, pixels, 1) {
        into[..from.len()].copy_from_slice(from);
    }
}

/// Adds shades to the components that a colour names; sums stop at 255.
pub(super) fn add(shades: &[u8], patch: &Patch, colour: Colour, pixels: &mut [u8]) {
    // A factor for each component keeps the inner loop free of branches.
    let factor = colour.components().map(u8::from);
    for (from, into) in rows(shades, patch, pixels, 3) {
        for (shade, pixel) in from.iter().zip(into.as_chunks_mut::<3>().0) {
            for (component, factor) in pixel.iter_mut().zip(factor) {
                *component = component.saturating_add(shade * factor);
            }
        }
    }
}

/// Puts shades into one component of a colour tile: 0 red, 1 green, 2 blue.
pub(super) fn component(shades: &[u8], patch: &Patch, component: usize, pixels: &mut [u8]) {
    for (from, into) in rows(shades, patch, pixels, 3) {
        for (shade, pixel) in from.iter().zip(into.as_chunks_mut::<3>().0) {
            pixel[component] = *shade;
        }
    }
}

/// Puts the colours of label ids into a colour tile.
pub(super) fn labels(ids: &Samples, patch: &Patch, pixels: &mut [u8]) {
    with_samples!(ids, ids => paint_labels(ids, patch, pixels));
}

fn paint_labels<T: Voxel>(ids: &[T], patch: &Patch, pixels: &mut [u8]) {
    // Neighbours mostly have the same id.
    let mut last: (u64, Rgb) = (0, [0; 3]);
    for (from, into) in rows(ids, patch, pixels, 3) {
        for (id, pixel) in from.iter().zip(into.as_chunks_mut::<3>().0) {
            let id = id.to_label();
            if id != last.0 {
                last = (id, label_colour(id));
            }
            *pixel = last.1;
        }
    }
}

/// The rows of a patch beside the rows of the tile that show them.
fn rows<'a, T>(
    values: &'a [T],
    patch: &'a Patch,
    pixels: &'a mut [u8],
    bytes: usize,
) -> impl Iterator<Item = (&'a [T], &'a mut [u8])> {
    let width = patch.width();
    let tile = pixels.chunks_exact_mut(TILE * bytes);
    patch.shown().zip(tile).map(move |(row, pixels)| (&values[row * width..][..width], pixels))
}
