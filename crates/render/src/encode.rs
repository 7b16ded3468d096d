//! PNG encoding, in two profiles, and JPEG.
//!
//! `fast` uses one filter per tile and Huffman codes without match search: micrographs are encoded
//! smaller than by the fastest encoders of other crates, and no slower (`benches/RESULTS.md`).
//! `small` also tries libdeflate with two other ways of filtering, and takes the smallest of the
//! three: match search helps with labels and flat images. The container follows the PNG
//! specification (third edition, sections 5 and 11).

mod bits;
mod deflate;
mod entropy;
mod filter;
mod huffman;
mod jpeg;
mod pairs;

use image::error::{EncodingError, UnsupportedError, UnsupportedErrorKind};
use image::{ExtendedColorType, ImageEncoder, ImageError, ImageFormat, ImageResult};
use libdeflater::{CompressionLvl, Compressor, crc32};
use voltile_base::geometry::TILE;
use voltile_base::paint::PngProfile;

use self::deflate::{SLACK, Stream};
use self::filter::Filter;
pub(super) use self::jpeg::jpeg;
use self::pairs::Pairs;
use crate::plan::PixelKind;

/// The error if pixels or voxels cannot be encoded.
#[derive(Debug, Clone, thiserror::Error)]
#[error("a tile of {bytes} bytes could not be encoded: {problem}")]
pub struct EncodeError {
    bytes: usize,
    /// The encoder's message.
    problem: String,
}

impl EncodeError {
    pub(super) fn new(bytes: usize, problem: String) -> Self {
        Self { bytes, problem }
    }
}

/// The level of libdeflate for the profile `small`: higher ones gain little and cost much.
const SMALL_LEVEL: i32 = 6;

/// Memory that encoding reuses: about the size of a tile's pixels plus 320 KiB.
#[derive(Debug, Default)]
pub struct EncodeBuffers {
    filtered: Vec<u8>,
    pairs: Pairs,
}

/// Encodes the pixels of a tile: 512 rows of 512 pixels without gaps, with the bytes of their kind.
pub fn encode(
    pixels: &[u8],
    kind: PixelKind,
    profile: PngProfile,
    buffers: &mut EncodeBuffers,
) -> Result<Vec<u8>, EncodeError> {
    encode_sized(pixels, kind, (TILE, TILE), profile, buffers)
}

/// Encodes pictures of the crate `image`: of any size, with 8 bits per sample.
#[derive(Debug)]
pub struct PngEncoder<'a> {
    /// The file.
    pub file: &'a mut Vec<u8>,
    /// Memory that is reused.
    pub buffers: &'a mut EncodeBuffers,
}

impl ImageEncoder for PngEncoder<'_> {
    fn write_image(
        self,
        pixels: &[u8],
        width: u32,
        height: u32,
        colour: ExtendedColorType,
    ) -> ImageResult<()> {
        let format = ImageFormat::Png.into();
        let kind = match colour {
            ExtendedColorType::L8 => PixelKind::Grey,
            ExtendedColorType::Rgb8 => PixelKind::Rgb,
            ExtendedColorType::La8 => PixelKind::GreyAlpha,
            ExtendedColorType::Rgba8 => PixelKind::Rgba,
            other => {
                let kind = UnsupportedErrorKind::Color(other);
                let error = UnsupportedError::from_format_and_kind(format, kind);
                return Err(ImageError::Unsupported(error));
            }
        };
        let size = (width as usize, height as usize);
        *self.file = encode_sized(pixels, kind, size, PngProfile::Fast, self.buffers)
            .map_err(|error| ImageError::Encoding(EncodingError::new(format, error)))?;
        Ok(())
    }
}

/// Encodes a picture of any width and height, in rows of pixels without gaps.
fn encode_sized(
    pixels: &[u8],
    kind: PixelKind,
    size: (usize, usize),
    profile: PngProfile,
    buffers: &mut EncodeBuffers,
) -> Result<Vec<u8>, EncodeError> {
    let (width, height) = size;
    let pixel = kind.bytes();
    let row_bytes = width * pixel;
    if row_bytes == 0 || height == 0 || pixels.len() != row_bytes * height {
        let problem = format!("it does not have {width} × {height} pixels");
        return Err(EncodeError::new(pixels.len(), problem));
    }
    let EncodeBuffers { filtered, pairs } = buffers;
    let filter = Filter::choose(pixels, row_bytes, pixel, filtered);
    filter.apply(pixels, row_bytes, pixel, filtered);
    let quick = Stream::new(filtered, pairs);
    if profile == PngProfile::Small {
        let small = small_stream(pixels, row_bytes, pixel)
            .map_err(|problem| EncodeError::new(pixels.len(), problem))?;
        if small.len() < quick.len() {
            return Ok(png_file(kind, size, small.len(), |room| {
                room[..small.len()].copy_from_slice(&small);
            }));
        }
    }
    Ok(png_file(kind, size, quick.len(), |room| quick.write(room)))
}

/// Filters the pixels in two ways, compresses both with libdeflate, and returns the smaller zlib
/// stream.
fn small_stream(pixels: &[u8], row_bytes: usize, pixel: usize) -> Result<Vec<u8>, String> {
    let mut filtered = Vec::new();
    Filter::None.apply(pixels, row_bytes, pixel, &mut filtered);
    let unfiltered = zlib(&filtered, SMALL_LEVEL)?;
    filter::least_sum(pixels, row_bytes, pixel, &mut filtered);
    let least_sum = zlib(&filtered, SMALL_LEVEL)?;
    Ok(if least_sum.len() < unfiltered.len() {
        least_sum
    } else {
        unfiltered
    })
}

/// Compresses bytes with libdeflate to a zlib stream. The error is a problem in words.
pub(super) fn zlib(bytes: &[u8], level: i32) -> Result<Vec<u8>, String> {
    let mut compressor = compressor(level)?;
    let mut out = vec![0; compressor.zlib_compress_bound(bytes.len())];
    let length = compressor.zlib_compress(bytes, &mut out);
    out.truncate(length.map_err(|e| e.to_string())?);
    Ok(out)
}

/// Compresses bytes with libdeflate to a gzip file. The error is a problem in words.
pub(super) fn gzip(bytes: &[u8], level: i32) -> Result<Vec<u8>, String> {
    let mut compressor = compressor(level)?;
    let mut out = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let length = compressor.gzip_compress(bytes, &mut out);
    out.truncate(length.map_err(|e| e.to_string())?);
    Ok(out)
}

fn compressor(level: i32) -> Result<Compressor, String> {
    let level = CompressionLvl::new(level).map_err(|e| format!("{e:?}"))?;
    Ok(Compressor::new(level))
}

/// A PNG file of filtered rows in a zlib stream of `length` bytes. `write_stream` writes the stream
/// to the front of its argument, which has at least [`SLACK`] more bytes of scratch space.
///
/// The file is built in an allocation of its exact size: tiles are cached, and the cache counts
/// length, not capacity.
fn png_file(
    kind: PixelKind,
    size: (usize, usize),
    length: usize,
    write_stream: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
    const IDAT: &[u8] = b"IDAT";
    /// The IEND chunk, which is the same in all files.
    const IEND: &[u8] = b"\0\0\0\0IEND\xae\x42\x60\x82";
    const CHECKSUM: usize = 4;
    const _: () = assert!(CHECKSUM + IEND.len() >= SLACK);
    let header = header_chunk(kind, size);
    let before = [SIGNATURE, &header, &(length as u32).to_be_bytes(), IDAT].concat();
    let mut png = vec![0; before.len() + length + CHECKSUM + IEND.len()];
    let (front, room) = png.split_at_mut(before.len());
    front.copy_from_slice(&before);
    write_stream(room);
    let end = before.len() + length;
    // The checksum covers the chunk's name and its body.
    let checksum = crc32(&png[before.len() - IDAT.len()..end]).to_be_bytes();
    png[end..].copy_from_slice(&[&checksum, IEND].concat());
    png
}

/// The IHDR chunk: eight bits per sample, not interlaced.
fn header_chunk(kind: PixelKind, (width, height): (usize, usize)) -> Vec<u8> {
    let colour_type = match kind {
        PixelKind::Grey => 0,
        PixelKind::Rgb => 2,
        PixelKind::GreyAlpha => 4,
        PixelKind::Rgba => 6,
    };
    let [width, height] = [width, height].map(|side| (side as u32).to_be_bytes());
    let body = [&width[..], &height, &[8, colour_type, 0, 0, 0]].concat();
    let named = [&b"IHDR"[..], &body].concat();
    let length = (body.len() as u32).to_be_bytes();
    [&length, &named[..], &crc32(&named).to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pictures that favour different filters: flat, smooth, noisy, and a mixture.
    fn pictures(kind: PixelKind) -> Vec<Vec<u8>> {
        let length = TILE * TILE * kind.bytes();
        let noise = |i: usize| ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
        let flat = vec![7; length];
        let smooth: Vec<u8> = (0..length)
            .map(|i| (i % 512 / 4 + i / 4096) as u8)
            .collect();
        let noisy: Vec<u8> = (0..length).map(noise).collect();
        let mixed = (0..length)
            .map(|i| {
                if i < length / 2 {
                    smooth[i]
                } else {
                    noisy[i] / 16
                }
            })
            .collect();
        vec![vec![0; length], flat, smooth, noisy, mixed]
    }

    fn encoded(pixels: &[u8], kind: PixelKind, profile: PngProfile) -> Vec<u8> {
        encode(pixels, kind, profile, &mut EncodeBuffers::default()).unwrap()
    }

    /// A tile of filtered rows.
    fn png_of(filtered: &[u8], kind: PixelKind) -> Vec<u8> {
        let mut pairs = Pairs::default();
        let stream = Stream::new(filtered, &mut pairs);
        png_file(kind, (TILE, TILE), stream.len(), |room| stream.write(room))
    }

    /// Checks against the `png` crate: an independent inflater and filters.
    fn comes_back(pixels: &[u8], kind: PixelKind, png: &[u8]) {
        let image = image::load_from_memory(png).unwrap();
        assert_eq!((image.width(), image.height()), (512, 512));
        assert_eq!(usize::from(image.color().bytes_per_pixel()), kind.bytes());
        assert!(image.as_bytes() == pixels, "{kind:?}");
    }

    #[test]
    fn what_is_encoded_decodes_to_the_same_pixels() {
        for kind in [
            PixelKind::Grey,
            PixelKind::Rgb,
            PixelKind::GreyAlpha,
            PixelKind::Rgba,
        ] {
            for pixels in pictures(kind) {
                for profile in [PngProfile::Fast, PngProfile::Small] {
                    let png = encoded(&pixels, kind, profile);
                    assert_eq!(png.len(), png.capacity());
                    comes_back(&pixels, kind, &png);
                }
            }
        }
    }

    #[test]
    fn images_of_8_bits_and_any_size_are_encoded_and_others_are_refused() {
        let (mut file, mut buffers) = (Vec::new(), EncodeBuffers::default());
        fn encoder<'a>(file: &'a mut Vec<u8>, buffers: &'a mut EncodeBuffers) -> PngEncoder<'a> {
            PngEncoder { file, buffers }
        }
        let small = image::RgbImage::from_fn(7, 3, |x, y| image::Rgb([x as u8, y as u8, 200]));
        small
            .write_with_encoder(encoder(&mut file, &mut buffers))
            .unwrap();
        assert_eq!(image::load_from_memory(&file).unwrap().to_rgb8(), small);
        let deep = image::ImageBuffer::<image::Luma<u16>, _>::new(7, 3);
        assert!(
            deep.write_with_encoder(encoder(&mut file, &mut buffers))
                .is_err()
        );
        for (pixels, width) in [(&[0; 20][..], 7), (&[], 0)] {
            let encoder = encoder(&mut file, &mut buffers);
            let encoded = encoder.write_image(pixels, width, 3, ExtendedColorType::L8);
            assert!(encoded.is_err());
        }
    }

    #[test]
    fn every_filter_decodes_to_the_same_pixels() {
        let filters = [
            Filter::None,
            Filter::Sub,
            Filter::Up,
            Filter::Average,
            Filter::Paeth,
        ];
        for kind in [PixelKind::Grey, PixelKind::Rgb] {
            let pixels = pictures(kind).swap_remove(4);
            for filter in filters {
                let mut filtered = Vec::new();
                filter.apply(&pixels, TILE * kind.bytes(), kind.bytes(), &mut filtered);
                comes_back(&pixels, kind, &png_of(&filtered, kind));
            }
            let mut filtered = Vec::new();
            filter::least_sum(&pixels, TILE * kind.bytes(), kind.bytes(), &mut filtered);
            comes_back(&pixels, kind, &png_of(&filtered, kind));
        }
    }

    #[test]
    fn small_is_never_larger_than_fast_and_buffers_carry_nothing_over() {
        let mut buffers = EncodeBuffers::default();
        for pixels in pictures(PixelKind::Grey) {
            let mut length = |profile| {
                encode(&pixels, PixelKind::Grey, profile, &mut buffers)
                    .unwrap()
                    .len()
            };
            let (small, fast) = (length(PngProfile::Small), length(PngProfile::Fast));
            assert!(small <= fast, "{small} > {fast}");
            assert_eq!(
                fast,
                encoded(&pixels, PixelKind::Grey, PngProfile::Fast).len()
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Steps, slopes, noise and rectangles of one value, superimposed.
        #[test]
        fn any_picture_comes_back(
            colour in any::<bool>(),
            slope in (0..5usize, 0..5usize),
            noise in (any::<u64>(), 0..8u32),
            boxes in prop::collection::vec((0..512usize, 0..512usize, 1..400usize, 1..400usize, any::<u8>()), 0..12),
        ) {
            let kind = if colour { PixelKind::Rgb } else { PixelKind::Grey };
            let row = TILE * kind.bytes();
            let mut state = noise.0 | 1;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 33) as u8).checked_shr(8 - noise.1).unwrap_or(0)
            };
            let mut pixels: Vec<u8> =
                (0..TILE * row).map(|i| ((i % row * slope.0 + i / row * slope.1) as u8).wrapping_add(random())).collect();
            for (x, y, width, height, value) in boxes {
                for line in pixels.chunks_exact_mut(row).skip(y).take(height) {
                    line.iter_mut().skip(x).take(width).for_each(|byte| *byte = value);
                }
            }
            for profile in [PngProfile::Fast, PngProfile::Small] {
                comes_back(&pixels, kind, &encoded(&pixels, kind, profile));
            }
        }
    }
}
