//! Overviews: the tiles of one slice joined and shrunk to a thumbnail.
//!
//! Shades and colours are averaged; for labels each pixel is the colour of one id. Unlike levels,
//! which average stored values, this averages windowed 8-bit values: thumbnails are not for
//! measurements.

use image::imageops::{FilterType, resize, thumbnail as averaged};
use image::{DynamicImage, ImageBuffer, Luma, LumaA, Pixel, Rgb, Rgba};
use voltile_base::flow::trace::{self, Stage};
use voltile_base::geometry::TILE;
use voltile_hdf5::volume::ReadPolicy;

use super::drawing::{Drawn, RenderError, Scratch, with_alpha};
use super::encode::{EncodeBuffers, EncodeError, PngEncoder};
use crate::plan::{Overview, Picture, PixelKind};

/// Renders a thumbnail of one slice as a PNG.
pub fn overview(
    plan: &Overview,
    policy: &ReadPolicy,
    scratch: &mut Scratch,
) -> Result<Vec<u8>, RenderError> {
    let trace = policy.trace.as_deref();
    let thumbnail = trace::drawing(trace, || thumbnail(plan, policy, scratch))?;
    Ok(trace::stage(trace, Stage::Encode, || {
        encode_png(&thumbnail, &mut scratch.encoder)
    })?)
}

/// Encodes a thumbnail as a PNG.
fn encode_png(picture: &DynamicImage, buffers: &mut EncodeBuffers) -> Result<Vec<u8>, EncodeError> {
    let mut file = Vec::new();
    let encoder = PngEncoder {
        file: &mut file,
        buffers,
    };
    match picture.write_with_encoder(encoder) {
        Ok(()) => Ok(file),
        Err(error) => {
            let bytes = picture.as_bytes().len();
            Err(EncodeError::new(bytes, error.to_string()))
        }
    }
}

/// Renders a thumbnail of one slice without encoding it.
fn thumbnail(
    plan: &Overview,
    policy: &ReadPolicy,
    scratch: &mut Scratch,
) -> Result<DynamicImage, RenderError> {
    let first = plan.tiles.first().map(|tile| &tile.picture);
    let is_labels = matches!(first, Some(Picture::Labels(_)));
    let kind = first.map_or(PixelKind::Grey, Picture::pixels);
    let (pixels, alpha) = assemble(plan, kind, policy, scratch)?;
    let (pixels, kind) = if alpha.is_empty() {
        (pixels, kind)
    } else {
        (with_alpha(&pixels, &alpha, kind), kind.with_alpha())
    };
    Ok(match kind {
        PixelKind::Grey => shrink::<Luma<u8>>(plan, pixels, is_labels)?.into(),
        PixelKind::Rgb => shrink::<Rgb<u8>>(plan, pixels, is_labels)?.into(),
        PixelKind::GreyAlpha => shrink::<LumaA<u8>>(plan, pixels, is_labels)?.into(),
        PixelKind::Rgba => shrink::<Rgba<u8>>(plan, pixels, is_labels)?.into(),
    })
}

/// Shrinks the pixels of a whole slice to a thumbnail.
fn shrink<P: Pixel<Subpixel = u8> + 'static>(
    plan: &Overview,
    pixels: Vec<u8>,
    is_labels: bool,
) -> Result<ImageBuffer<P, Vec<u8>>, RenderError> {
    let (width, height) = plan.extent;
    let (small_width, small_height) = fitted(plan.extent, Overview::MAX_EXTENT);
    let whole: ImageBuffer<P, _> = ImageBuffer::from_raw(width as u32, height as u32, pixels)
        .ok_or_else(|| EncodeError::new(width * height, "there are too few pixels".to_owned()))?;
    if is_labels {
        return Ok(resize(
            &whole,
            small_width as u32,
            small_height as u32,
            FilterType::Nearest,
        ));
    }
    let mut small = averaged(&whole, small_width as u32, small_height as u32);
    small.pixels_mut().for_each(undarken);
    Ok(small)
}

/// Divides an averaged colour by its opacity: missing pixels, which are black, have darkened the
/// mean.
fn undarken<P: Pixel<Subpixel = u8>>(pixel: &mut P) {
    let alpha = u16::from(pixel.alpha());
    if alpha > 0 && alpha < 255 {
        pixel.apply_without_alpha(|component| (u16::from(component) * 255 / alpha).min(255) as u8);
    }
}

/// The pixels of the whole slice, row by row, and their opacity, which is empty if all are opaque.
fn assemble(
    plan: &Overview,
    kind: PixelKind,
    policy: &ReadPolicy,
    scratch: &mut Scratch,
) -> Result<(Vec<u8>, Vec<u8>), RenderError> {
    let (width, height) = plan.extent;
    let mut whole = vec![0; width * height * kind.bytes()];
    let mut opacity = Vec::new();
    for (index, tile) in plan.tiles.iter().enumerate() {
        let Drawn { pixels, alpha } = scratch.drawing.draw(tile, policy)?;
        let across = plan.across.max(1);
        let place = ((index % across) * TILE, (index / across) * TILE);
        paste(pixels, kind.bytes(), place, width, &mut whole);
        if !alpha.is_empty() {
            opacity.resize(width * height, 255);
            paste(alpha, 1, place, width, &mut opacity);
        }
    }
    Ok((whole, opacity))
}

/// Copies a tile into a picture that is `width` pixels wide, without the part beyond its edges.
/// `bytes` is the number of bytes per pixel.
fn paste(tile: &[u8], bytes: usize, (left, top): (usize, usize), width: usize, whole: &mut [u8]) {
    let taken = width.saturating_sub(left).min(TILE) * bytes;
    let rows = whole.chunks_exact_mut(width * bytes).skip(top);
    for (tile_row, row) in tile.chunks_exact(TILE * bytes).zip(rows) {
        if let Some(into) = row.get_mut(left * bytes..left * bytes + taken) {
            into.copy_from_slice(&tile_row[..taken]);
        }
    }
}

/// The size, reduced to at most the maximum width and height with its aspect ratio kept; at least
/// 1 × 1.
fn fitted(
    (width, height): (usize, usize),
    (most_wide, most_high): (usize, usize),
) -> (usize, usize) {
    if width <= most_wide && height <= most_high {
        (width, height)
    } else if width * most_high >= height * most_wide {
        (most_wide.max(1), (height * most_wide / width).max(1))
    } else {
        ((width * most_high / height).max(1), most_high.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::fitted;

    #[test]
    fn both_edges_fit_and_nothing_vanishes() {
        assert_eq!(fitted((400, 300), (192, 192)), (192, 144));
        assert_eq!(fitted((300, 400), (192, 192)), (144, 192));
        assert_eq!(fitted((500, 1), (192, 192)), (192, 1));
        assert_eq!(fitted((100, 50), (192, 192)), (100, 50));
        assert_eq!(fitted((400, 300), (80, 48)), (64, 48));
        assert_eq!(fitted((400, 100), (80, 48)), (80, 20));
        assert_eq!(fitted((60, 50), (80, 48)), (57, 48));
        assert_eq!(fitted((1, 500), (80, 48)), (1, 48));
    }
}
