//! Rendering: from a plan to the bytes of a PNG, in pure steps.
//!
//! slice → downsample → window → colour → encode. The steps know buffers and numbers: no cache, no settings, no names.
//! Reading is asked of the plan's volumes. Buffers live in a [`Scratch`] that its owner keeps from tile to tile, for
//! memory that is touched for the first time costs more than most of the steps.

mod composite;
mod downsample;
mod encode;
mod slice;
mod window;

use crate::geometry::TILE;
use crate::paint::PngProfile;
use crate::plan::{Layer, Picture, PixelKind, Plan, Source};
use crate::volume::{ReadError, Samples};

pub use encode::EncodeError;

/// Why a tile could not be rendered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RenderError {
    /// Its voxels could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its pixels could not be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Buffers that rendering reuses: about 20 MiB at most, the decoded chunks of others not counted.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Stored voxels as they were read.
    block: Samples,
    /// The voxels of the level, one for each distinct row and column of the patch.
    field: Samples,
    /// The field in 8 bits.
    shades: Vec<u8>,
    /// The tile's pixels.
    pixels: Vec<u8>,
}

/// Renders one tile to a PNG.
pub fn render(plan: &Plan, scratch: &mut Scratch) -> Result<Vec<u8>, RenderError> {
    let kind = plan.picture.pixels();
    draw(&plan.picture, scratch)?;
    Ok(encode::encode(&scratch.pixels, kind, plan.profile)?)
}

/// The tile that lies outside of every volume.
pub fn black(kind: PixelKind, profile: PngProfile) -> Result<Vec<u8>, EncodeError> {
    encode::encode(&vec![0; TILE * TILE * kind.bytes()], kind, profile)
}

/// Fills `scratch.pixels` with the picture's pixels, row by row.
fn draw(picture: &Picture, scratch: &mut Scratch) -> Result<(), ReadError> {
    scratch.pixels.clear();
    scratch.pixels.resize(TILE * TILE * picture.pixels().bytes(), 0);
    match picture {
        Picture::Grey(layer) => shade(layer, scratch, composite::grey)?,
        Picture::Composite(layers) => {
            for (layer, colour) in layers {
                shade(layer, scratch, |shades, patch, pixels| {
                    composite::add(shades, patch, *colour, pixels);
                })?;
            }
        }
        Picture::Rgb(layers) => {
            for (component, layer) in layers.iter().enumerate() {
                shade(layer, scratch, |shades, patch, pixels| {
                    composite::component(shades, patch, component, pixels);
                })?;
            }
        }
        Picture::Labels(source) => labels(source, scratch)?,
    }
    Ok(())
}

/// Reads a layer, makes it 8 bits and has it painted; a layer that lies outside adds nothing.
fn shade(
    layer: &Layer,
    scratch: &mut Scratch,
    paint: impl Fn(&[u8], &crate::geometry::Patch, &mut [u8]),
) -> Result<(), ReadError> {
    let Some(patch) = &layer.source.patch else { return Ok(()) };
    slice::means(&layer.source, patch, &mut scratch.block, &mut scratch.field)?;
    let shades = window::apply(&scratch.field, &layer.window, &mut scratch.shades);
    paint(shades, patch, &mut scratch.pixels);
    Ok(())
}

fn labels(source: &Source, scratch: &mut Scratch) -> Result<(), ReadError> {
    let Some(patch) = &source.patch else { return Ok(()) };
    slice::picks(source, patch, &mut scratch.block, &mut scratch.field)?;
    composite::labels(&scratch.field, patch, &mut scratch.pixels);
    Ok(())
}

#[cfg(test)]
mod tests;
