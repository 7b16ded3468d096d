//! PNG: 8-bit grey or RGB, in two profiles.
//!
//! `fast` is the `png` crate's quickest compression (fdeflate) with a filter chosen for each row. `small` tries that
//! and libdeflate behind two ways of filtering, and keeps the smallest: matching pays for labels and flat images, and
//! loses nothing on noise. The container around libdeflate's stream follows the PNG specification (third edition,
//! sections 5, 9 and 11).

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use libdeflater::{CompressionLvl, Compressor};

use crate::geometry::TILE;
use crate::paint::PngProfile;
use crate::plan::PixelKind;

/// The pixels could not be encoded.
#[derive(Debug, Clone, thiserror::Error)]
#[error("a tile of {bytes} bytes could not be encoded: {problem}")]
pub struct EncodeError {
    /// How many bytes of pixels there were.
    bytes: usize,
    /// What the encoder said.
    problem: String,
}

/// The level from which libdeflate gains little and costs much.
const SMALL_LEVEL: i32 = 6;

/// Encodes the pixels of a tile, row by row without gaps.
pub(super) fn encode(pixels: &[u8], kind: PixelKind, profile: PngProfile) -> Result<Vec<u8>, EncodeError> {
    let mut png = fast(pixels, kind)?;
    if profile == PngProfile::Small {
        png = smallest(png, pixels, kind)?;
    }
    // Tiles are kept: the cache counts what they hold, not what was set aside for them.
    png.shrink_to_fit();
    Ok(png)
}

fn fast(pixels: &[u8], kind: PixelKind) -> Result<Vec<u8>, EncodeError> {
    let color = match kind {
        PixelKind::Grey => ExtendedColorType::L8,
        PixelKind::Rgb => ExtendedColorType::Rgb8,
    };
    let mut png = Vec::with_capacity(pixels.len() * 3 / 4);
    PngEncoder::new_with_quality(&mut png, CompressionType::Fast, FilterType::Adaptive)
        .write_image(pixels, TILE as u32, TILE as u32, color)
        .map_err(|e| EncodeError { bytes: pixels.len(), problem: e.to_string() })?;
    Ok(png)
}

fn smallest(fast: Vec<u8>, pixels: &[u8], kind: PixelKind) -> Result<Vec<u8>, EncodeError> {
    let mut best = fast;
    for choose in [unfiltered as Filtering, least_sum] {
        let png = contained(&deflated(&filtered(pixels, kind, choose))?, kind);
        if png.len() < best.len() {
            best = png;
        }
    }
    Ok(best)
}

fn deflated(bytes: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let wrong = |problem: String| EncodeError { bytes: bytes.len(), problem };
    let level = CompressionLvl::new(SMALL_LEVEL).map_err(|e| wrong(format!("{e:?}")))?;
    let mut compressor = Compressor::new(level);
    let mut out = vec![0; compressor.zlib_compress_bound(bytes.len())];
    let length = compressor.zlib_compress(bytes, &mut out).map_err(|e| wrong(e.to_string()))?;
    out.truncate(length);
    Ok(out)
}

/// Appends one filtered row: (row, the row above, bytes a pixel, where to).
type Filtering = fn(&[u8], &[u8], usize, &mut Vec<u8>);

fn filtered(pixels: &[u8], kind: PixelKind, choose: Filtering) -> Vec<u8> {
    let row = TILE * kind.bytes();
    let mut out = Vec::with_capacity(pixels.len() + TILE);
    let mut above = vec![0; row];
    for line in pixels.chunks_exact(row) {
        choose(line, &above, kind.bytes(), &mut out);
        above.copy_from_slice(line);
    }
    out
}

fn unfiltered(row: &[u8], _above: &[u8], _pixel: usize, out: &mut Vec<u8>) {
    out.push(0);
    out.extend_from_slice(row);
}

/// The filter whose differences, taken as signed, have the smallest sum: the specification's advice.
fn least_sum(row: &[u8], above: &[u8], pixel: usize, out: &mut Vec<u8>) {
    let left = |i: usize| if i < pixel { 0 } else { row[i - pixel] };
    let corner = |i: usize| if i < pixel { 0 } else { above[i - pixel] };
    let average = |i: usize| u16::midpoint(left(i).into(), above[i].into()) as u8;
    let guesses: [&dyn Fn(usize) -> u8; 4] =
        [&left, &|i| above[i], &average, &|i| paeth(left(i), above[i], corner(i))];
    let best = guesses
        .iter()
        .zip(1u8..)
        .map(|(guess, tag)| (tag, (0..row.len()).map(|i| row[i].wrapping_sub(guess(i))).collect::<Vec<u8>>()))
        .min_by_key(|(_, bytes)| {
            bytes.iter().map(|b| u64::from(b.cast_signed().unsigned_abs())).sum::<u64>()
        });
    if let Some((tag, bytes)) = best {
        out.push(tag);
        out.extend(bytes);
    }
}

/// Paeth's predictor, as the specification has it.
fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let estimate = i16::from(left) + i16::from(above) - i16::from(corner);
    let distance = |value: u8| (estimate - i16::from(value)).abs();
    if distance(left) <= distance(above) && distance(left) <= distance(corner) {
        left
    } else if distance(above) <= distance(corner) {
        above
    } else {
        corner
    }
}

/// The PNG file around a zlib stream of filtered rows.
fn contained(stream: &[u8], kind: PixelKind) -> Vec<u8> {
    const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
    let colour_type = match kind {
        PixelKind::Grey => 0,
        PixelKind::Rgb => 2,
    };
    let side = (TILE as u32).to_be_bytes();
    let header = [&side[..], &side[..], &[8, colour_type, 0, 0, 0][..]].concat();
    let mut png = Vec::with_capacity(stream.len() + 64);
    png.extend_from_slice(&SIGNATURE);
    for (name, body) in [(b"IHDR", header.as_slice()), (b"IDAT", stream), (b"IEND", &[])] {
        png.extend_from_slice(&(body.len() as u32).to_be_bytes());
        let start = png.len();
        png.extend_from_slice(name);
        png.extend_from_slice(body);
        let check = crc32fast::hash(&png[start..]);
        png.extend_from_slice(&check.to_be_bytes());
    }
    png
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pictures that lean on different filters: flat, smooth, noisy, and all of it in one.
    fn pictures(kind: PixelKind) -> Vec<Vec<u8>> {
        let length = TILE * TILE * kind.bytes();
        let noise = |i: usize| ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
        let flat = vec![7; length];
        let smooth: Vec<u8> = (0..length).map(|i| (i % 512 / 4 + i / 4096) as u8).collect();
        let noisy: Vec<u8> = (0..length).map(noise).collect();
        let mixed = (0..length).map(|i| if i < length / 2 { smooth[i] } else { noisy[i] / 16 }).collect();
        vec![vec![0; length], flat, smooth, noisy, mixed]
    }

    #[test]
    fn what_is_encoded_decodes_to_the_same_pixels() {
        for kind in [PixelKind::Grey, PixelKind::Rgb] {
            for pixels in pictures(kind) {
                for profile in [PngProfile::Fast, PngProfile::Small] {
                    let png = encode(&pixels, kind, profile).unwrap();
                    let image = image::load_from_memory(&png).unwrap();
                    assert_eq!((image.width(), image.height()), (512, 512));
                    assert_eq!(usize::from(image.color().bytes_per_pixel()), kind.bytes());
                    assert!(image.as_bytes() == pixels, "{kind:?} {profile:?}");
                }
            }
        }
    }

    #[test]
    fn the_libdeflate_container_is_sound_on_its_own() {
        for kind in [PixelKind::Grey, PixelKind::Rgb] {
            for pixels in pictures(kind) {
                for choose in [unfiltered as Filtering, least_sum] {
                    let png = contained(&deflated(&filtered(&pixels, kind, choose)).unwrap(), kind);
                    assert!(image::load_from_memory(&png).unwrap().as_bytes() == pixels);
                }
            }
        }
    }

    #[test]
    fn small_is_never_larger_than_fast() {
        for pixels in pictures(PixelKind::Grey) {
            let [fast, small] = [PngProfile::Fast, PngProfile::Small]
                .map(|p| encode(&pixels, PixelKind::Grey, p).unwrap().len());
            assert!(small <= fast, "{small} > {fast}");
        }
    }
}
