//! Draws tiles: reads their voxels, shades them and paints them.

use voltile_base::flow::trace::{self, Stage};
use voltile_base::geometry::{Patch, TILE};
use voltile_base::paint::{Style, TileFormat};
use voltile_hdf5::volume::{ReadError, ReadPolicy};

use super::encode::{EncodeBuffers, EncodeError, encode, jpeg};
use super::mask::MissingMask;
use super::slice::{self, LevelBuffers};
use super::{composite, slab, window};
use crate::plan::{Layer, Picture, PixelKind, Plan, Source};

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

/// Buffers that rendering reuses: a few MiB, not counting decoded chunks, which are in the chunk
/// cache.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) drawing: Drawing,
    pub(super) encoder: EncodeBuffers,
}

/// The buffers of one tile while it is drawn.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    /// The voxels of the layer that is being drawn.
    pub(super) level: LevelBuffers,
    /// The field, windowed to 8 bits.
    pub(super) shades: Vec<u8>,
    pub(super) pixels: Vec<u8>,
    /// Whether gaps in volumes count as missing; otherwise they are drawn as they are read.
    wants_gaps: bool,
    /// The opacity of each pixel: 0 where every layer drawn so far lacks data, otherwise 255. Empty
    /// before the first layer. `None`: every pixel is opaque, whatever is drawn next.
    alpha: Option<Vec<u8>>,
}

/// The pixels of a tile, row by row, and their opacity: empty if all are opaque.
pub(super) struct Drawn<'d> {
    pub pixels: &'d [u8],
    pub alpha: &'d [u8],
}

/// Draws one tile without encoding it: its pixels, row by row.
pub fn draw<'s>(
    plan: &Plan,
    policy: &ReadPolicy,
    scratch: &'s mut Scratch,
) -> Result<&'s [u8], ReadError> {
    Ok(scratch.drawing.draw(plan, policy)?.pixels)
}

/// Renders one tile to a file of its format.
pub fn render(
    plan: &Plan,
    policy: &ReadPolicy,
    scratch: &mut Scratch,
) -> Result<Vec<u8>, RenderError> {
    let trace = policy.trace.as_deref();
    let Drawn { pixels, alpha } = trace::drawing(trace, || scratch.drawing.draw(plan, policy))?;
    let kind = plan.picture.pixels();
    let png = plan.style.png;
    let file = trace::stage(trace, Stage::Encode, || match (plan.format, alpha) {
        (TileFormat::Jpeg, _) => jpeg(pixels, kind),
        (TileFormat::Png, []) => encode(pixels, kind, png, &mut scratch.encoder),
        (TileFormat::Png, _) => {
            let pixels = with_alpha(pixels, alpha, kind);
            encode(&pixels, kind.with_alpha(), png, &mut scratch.encoder)
        }
    });
    Ok(file?)
}

/// Pixels of this kind, each followed by its opacity.
pub(super) fn with_alpha(pixels: &[u8], alpha: &[u8], kind: PixelKind) -> Vec<u8> {
    let mut all = Vec::with_capacity(pixels.len() + alpha.len());
    for (pixel, alpha) in pixels.chunks_exact(kind.bytes()).zip(alpha) {
        all.extend_from_slice(pixel);
        all.push(*alpha);
    }
    all
}

/// The tile for addresses outside every volume.
pub fn black(kind: PixelKind, style: Style, format: TileFormat) -> Result<Vec<u8>, EncodeError> {
    let pixels = vec![0; TILE * TILE * kind.bytes()];
    match format {
        TileFormat::Png => encode(&pixels, kind, style.png, &mut EncodeBuffers::default()),
        TileFormat::Jpeg => jpeg(&pixels, kind),
    }
}

impl Drawing {
    pub(super) fn draw(
        &mut self,
        plan: &Plan,
        policy: &ReadPolicy,
    ) -> Result<Drawn<'_>, ReadError> {
        self.wants_gaps = plan.shows_missing;
        self.alpha = plan.shows_missing.then(Vec::new);
        match &plan.picture {
            Picture::Grey(layer) => return self.draw_grey(layer, policy),
            Picture::Composite(layers) => {
                self.clear(PixelKind::Rgb);
                for (layer, colour) in layers {
                    self.draw_layer(layer, policy, |shades, opacity, patch, pixels| {
                        composite::add(shades, opacity, patch, *colour, pixels);
                    })?;
                }
            }
            Picture::Labels(source) => self.draw_labels(source, policy)?,
        }
        Ok(Drawn {
            pixels: &self.pixels,
            alpha: self.alpha.as_deref().unwrap_or_default(),
        })
    }

    fn clear(&mut self, kind: PixelKind) {
        self.pixels.clear();
        self.pixels.resize(TILE * TILE * kind.bytes(), 0);
    }

    /// Draws one layer. If it fills the tile, its shades are the pixels, and nothing is copied.
    fn draw_grey(&mut self, layer: &Layer, policy: &ReadPolicy) -> Result<Drawn<'_>, ReadError> {
        let patch = layer.source.patch.as_ref();
        let whole_tile = patch.filter(|patch| patch.is_whole_tile());
        let pixels: &[u8] = if let Some(patch) = whole_tile {
            self.read(&layer.source, patch, policy)?;
            let LevelBuffers { field, opacity, .. } = &self.level;
            window::apply(field, &layer.shading, opacity, &mut self.shades)
        } else {
            self.clear(PixelKind::Grey);
            self.draw_layer(layer, policy, |shades, _, patch, pixels| {
                composite::copy_bytes(shades, patch, pixels);
            })?;
            &self.pixels
        };
        Ok(Drawn {
            pixels,
            alpha: self.alpha.as_deref().unwrap_or_default(),
        })
    }

    /// Reads the intensities of a layer and computes their opacity.
    fn read(
        &mut self,
        source: &Source,
        patch: &Patch,
        policy: &ReadPolicy,
    ) -> Result<(), ReadError> {
        let level = &mut self.level;
        let mask = slab::read_intensities(source, patch, self.wants_gaps, policy, level)?;
        self.add_opacity(&mask, patch);
        Ok(())
    }

    /// Computes the opacity of a layer's voxels. A pixel of the tile is opaque if it is opaque in
    /// any layer; outside of `patch`, pixels are black, not missing, and therefore opaque.
    fn add_opacity(&mut self, mask: &MissingMask<'_>, patch: &Patch) {
        let opacity = &mut self.level.opacity;
        mask.opacity(&self.level.field, opacity);
        let Some(before) = self.alpha.take() else {
            return;
        };
        // If no voxel of the layer is missing, every pixel is opaque.
        if opacity.is_empty() {
            return;
        }
        let mut alpha = vec![255; TILE * TILE];
        composite::copy_bytes(opacity, patch, &mut alpha);
        // Before the first layer, `before` is empty and changes nothing.
        for (alpha, before) in alpha.iter_mut().zip(before) {
            *alpha |= before;
        }
        self.alpha = Some(alpha);
    }

    /// Reads a layer, windows it to 8 bits and paints it.
    fn draw_layer(
        &mut self,
        layer: &Layer,
        policy: &ReadPolicy,
        paint: impl Fn(&[u8], &[u8], &Patch, &mut [u8]),
    ) -> Result<(), ReadError> {
        let Some(patch) = &layer.source.patch else {
            // Pixels outside the volume are black, not missing: the whole tile is opaque.
            self.alpha = None;
            return Ok(());
        };
        self.read(&layer.source, patch, policy)?;
        let LevelBuffers { field, opacity, .. } = &self.level;
        let shades = window::apply(field, &layer.shading, opacity, &mut self.shades);
        paint(shades, opacity, patch, &mut self.pixels);
        Ok(())
    }

    fn draw_labels(&mut self, source: &Source, policy: &ReadPolicy) -> Result<(), ReadError> {
        self.clear(PixelKind::Rgb);
        let Some(patch) = &source.patch else {
            // The tile stays black and opaque: `alpha` is `None` or empty.
            return Ok(());
        };
        let field = &mut self.level.field;
        let mask = slice::read_first_voxels(source, patch, self.wants_gaps, policy, field)?;
        self.add_opacity(&mask, patch);
        let LevelBuffers { field, opacity, .. } = &self.level;
        composite::labels(field, opacity, patch, &mut self.pixels);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
