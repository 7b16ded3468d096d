//! Rendering: turns a plan into the bytes of a PNG, in pure steps.
//!
//! slice → downsample → window → colour → encode. The steps work on buffers and numbers; they know no cache, settings
//! or names. Voxels come from the plan's volumes. Buffers are in a [`Scratch`], which is reused for every tile: page
//! faults on fresh memory cost more than most of the steps.

mod composite;
mod cutout;
mod downsample;
mod encode;
mod overview;
mod slice;
mod window;

use crate::color::Colour;
use crate::geometry::{Patch, TILE};
use crate::paint::PngProfile;
use crate::plan::{Layer, Picture, PixelKind, Plan, Source};
use crate::trace::{self, Stage};
use crate::volume::{ReadError, ReadPolicy, Samples};

pub use cutout::{cached as cached_box, cutout};
pub use encode::{EncodeBuffers, EncodeError, encode};
pub use overview::{Thumbnail, overview, thumbnail};

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

/// Buffers that rendering reuses: a few MiB, not counting decoded chunks, which are in the chunk cache.
#[derive(Debug, Default)]
pub struct Scratch {
    drawing: Drawing,
    encoder: EncodeBuffers,
}

#[derive(Debug, Default)]
struct Drawing {
    /// Stored voxels.
    block: Samples,
    /// Sums from which means are computed.
    sums: downsample::SumBuffer,
    /// The voxels of the level, one for each distinct row and column of the patch.
    field: Samples,
    /// `field`, windowed to 8 bits.
    shades: Vec<u8>,
    pixels: Vec<u8>,
}

/// Draws one tile without encoding it: its pixels, row by row.
pub fn draw<'s>(plan: &Plan, scratch: &'s mut Scratch) -> Result<&'s [u8], ReadError> {
    scratch.drawing.draw(plan)
}

/// Renders one tile to a PNG.
pub fn render(plan: &Plan, scratch: &mut Scratch) -> Result<Vec<u8>, RenderError> {
    let Scratch { drawing, encoder } = scratch;
    let trace = plan.policy.trace.as_deref();
    let pixels = trace::drawing(trace, || drawing.draw(plan))?;
    let encode = || encode(pixels, plan.picture.pixels(), plan.profile, encoder);
    Ok(trace::stage(trace, Stage::Encode, encode)?)
}

/// The tile for addresses outside every volume.
pub fn black(kind: PixelKind, profile: PngProfile) -> Result<Vec<u8>, EncodeError> {
    encode(&vec![0; TILE * TILE * kind.bytes()], kind, profile, &mut EncodeBuffers::default())
}

impl Drawing {
    fn draw(&mut self, plan: &Plan) -> Result<&[u8], ReadError> {
        let policy = &plan.policy;
        match &plan.picture {
            Picture::Grey(layer) => return self.grey(layer, policy),
            Picture::Composite(layers) => {
                self.clear(PixelKind::Rgb);
                for (layer, colour) in layers {
                    self.shade(layer, policy, |shades, patch, pixels| {
                        composite::add(shades, patch, *colour, pixels);
                    })?;
                }
            }
            Picture::Rgb(layers) => {
                self.clear(PixelKind::Rgb);
                for (layer, colour) in layers.iter().zip([Colour::Red, Colour::Green, Colour::Blue]) {
                    self.shade(layer, policy, |shades, patch, pixels| {
                        composite::add(shades, patch, colour, pixels);
                    })?;
                }
            }
            Picture::Labels(source) => self.labels(source, policy)?,
        }
        Ok(&self.pixels)
    }

    fn clear(&mut self, kind: PixelKind) {
        self.pixels.clear();
        self.pixels.resize(TILE * TILE * kind.bytes(), 0);
    }

    /// Draws one layer. If it fills the tile, its shades are the pixels, and nothing is copied.
    fn grey(&mut self, layer: &Layer, policy: &ReadPolicy) -> Result<&[u8], ReadError> {
        match &layer.source.patch {
            Some(patch) if patch.is_whole_tile() => {
                let blank = slice::means(
                    &layer.source,
                    patch,
                    policy,
                    &mut self.block,
                    &mut self.sums,
                    &mut self.field,
                )?;
                Ok(window::apply(&self.field, &layer.window, layer.gamma, &blank, &mut self.shades))
            }
            _ => {
                self.clear(PixelKind::Grey);
                self.shade(layer, policy, composite::grey)?;
                Ok(&self.pixels)
            }
        }
    }

    /// Reads a layer, windows it to 8 bits and paints it; a layer outside the volume adds nothing.
    fn shade(
        &mut self,
        layer: &Layer,
        policy: &ReadPolicy,
        paint: impl Fn(&[u8], &Patch, &mut [u8]),
    ) -> Result<(), ReadError> {
        let Some(patch) = &layer.source.patch else { return Ok(()) };
        let blank =
            slice::means(&layer.source, patch, policy, &mut self.block, &mut self.sums, &mut self.field)?;
        let shades = window::apply(&self.field, &layer.window, layer.gamma, &blank, &mut self.shades);
        paint(shades, patch, &mut self.pixels);
        Ok(())
    }

    fn labels(&mut self, source: &Source, policy: &ReadPolicy) -> Result<(), ReadError> {
        self.clear(PixelKind::Rgb);
        let Some(patch) = &source.patch else { return Ok(()) };
        slice::picks(source, patch, policy, &mut self.block, &mut self.field)?;
        composite::labels(&self.field, patch, &source.missing, &mut self.pixels);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
