//! Draws tiles: reads their voxels, shades them and paints them.

use super::downsample::SumBuffer;
use super::encode::{EncodeBuffers, EncodeError, encode};
use super::{composite, slice, window};
use crate::base::color::Colour;
use crate::base::paint::Style;
use crate::flow::trace::{self, Stage};
use crate::geometry::{Patch, TILE};
use crate::render::plan::{Layer, Picture, PixelKind, Plan, Source};
use crate::volume::{ReadError, ReadPolicy, Samples};

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
    pub(super) drawing: Drawing,
    pub(super) encoder: EncodeBuffers,
}

#[derive(Debug, Default)]
pub(super) struct Drawing {
    /// Stored voxels.
    pub(super) block: Samples,
    /// Sums from which means are computed.
    pub(super) sums: SumBuffer,
    /// The voxels of the level, one for each distinct row and column of the patch.
    pub(super) field: Samples,
    /// `field`, windowed to 8 bits.
    pub(super) shades: Vec<u8>,
    pub(super) pixels: Vec<u8>,
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
    let encode = || encode(pixels, plan.picture.pixels(), plan.style.png, encoder);
    Ok(trace::stage(trace, Stage::Encode, encode)?)
}

/// The tile for addresses outside every volume.
pub fn black(kind: PixelKind, style: Style) -> Result<Vec<u8>, EncodeError> {
    encode(&vec![0; TILE * TILE * kind.bytes()], kind, style.png, &mut EncodeBuffers::default())
}

impl Drawing {
    pub(super) fn draw(&mut self, plan: &Plan) -> Result<&[u8], ReadError> {
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
                Ok(window::apply(&self.field, &layer.shading, &blank, &mut self.shades))
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
        let shades = window::apply(&self.field, &layer.shading, &blank, &mut self.shades);
        paint(shades, patch, &mut self.pixels);
        Ok(())
    }

    fn labels(&mut self, source: &Source, policy: &ReadPolicy) -> Result<(), ReadError> {
        self.clear(PixelKind::Rgb);
        let Some(patch) = &source.patch else { return Ok(()) };
        slice::picks(source, patch, policy, &mut self.field)?;
        composite::labels(&self.field, patch, &source.missing, &mut self.pixels);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
