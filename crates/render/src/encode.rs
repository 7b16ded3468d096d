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

use image::error::{
    EncodingError, ParameterError, ParameterErrorKind, UnsupportedError, UnsupportedErrorKind,
};
use image::{DynamicImage, ExtendedColorType, ImageEncoder, ImageError, ImageFormat, ImageResult};
use libdeflater::{CompressionLvl, Compressor, crc32};
use voltile_base::geometry::TILE;
use voltile_base::paint::PngProfile;

use self::deflate::{SLACK, Stream};
use self::filter::Filter;
pub(super) use self::jpeg::jpeg;
use self::pairs::Pairs;
use crate::plan::PixelKind;

/// The pixels could not be encoded.
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

/// Encodes rows of 8-bit grey or colour pixels; replaces `png`.
#[derive(Debug)]
pub struct PngEncoder<'a> {
    /// The file.
    pub png: &'a mut Vec<u8>,
    /// Whether speed or size matters.
    pub profile: PngProfile,
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
        let kind = match colour {
            ExtendedColorType::L8 => PixelKind::Grey,
            ExtendedColorType::Rgb8 => PixelKind::Rgb,
            ExtendedColorType::La8 => PixelKind::GreyAlpha,
            ExtendedColorType::Rgba8 => PixelKind::Rgba,
            other => {
                let kind = UnsupportedErrorKind::Color(other);
                let error = UnsupportedError::from_format_and_kind(ImageFormat::Png.into(), kind);
                return Err(ImageError::Unsupported(error));
            }
        };
        let size = (width as usize, height as usize);
        let pixel = kind.bytes();
        let row = size.0 * pixel;
        if row == 0 || height == 0 || pixels.len() != row * size.1 {
            let kind = ParameterErrorKind::DimensionMismatch;
            return Err(ImageError::Parameter(ParameterError::from_kind(kind)));
        }
        let EncodeBuffers { filtered, pairs } = self.buffers;
        let filter = Filter::choose(pixels, row, pixel, filtered);
        filter.apply(pixels, row, pixel, filtered);
        let quick = Stream::new(filtered, pairs);
        if self.profile == PngProfile::Fast {
            *self.png = written(&quick, kind, size);
            return Ok(());
        }
        let mut spare = Vec::new();
        Filter::None.apply(pixels, row, pixel, &mut spare);
        let plain = matched(&spare)?;
        filter::least_sum(pixels, row, pixel, &mut spare);
        let summed = matched(&spare)?;
        let smaller = if summed.len() < plain.len() {
            summed
        } else {
            plain
        };
        let is_smaller = smaller.len() < quick.len();
        *self.png = if is_smaller {
            copied(&smaller, kind, size)
        } else {
            written(&quick, kind, size)
        };
        Ok(())
    }
}

/// Encodes the pixels of a tile: 512 rows of 512 pixels without gaps, with the bytes of their kind.
pub fn encode(
    pixels: &[u8],
    kind: PixelKind,
    profile: PngProfile,
    buffers: &mut EncodeBuffers,
) -> Result<Vec<u8>, EncodeError> {
    let colour = match kind {
        PixelKind::Grey => ExtendedColorType::L8,
        PixelKind::Rgb => ExtendedColorType::Rgb8,
        PixelKind::GreyAlpha => ExtendedColorType::La8,
        PixelKind::Rgba => ExtendedColorType::Rgba8,
    };
    sized(pixels, (TILE as u32, TILE as u32), colour, profile, buffers)
}

/// Encodes a picture of any size.
pub(super) fn picture(
    image: &DynamicImage,
    buffers: &mut EncodeBuffers,
) -> Result<Vec<u8>, EncodeError> {
    let size = (image.width(), image.height());
    let colour = image.color().into();
    sized(image.as_bytes(), size, colour, PngProfile::Fast, buffers)
}

fn sized(
    pixels: &[u8],
    (width, height): (u32, u32),
    colour: ExtendedColorType,
    profile: PngProfile,
    buffers: &mut EncodeBuffers,
) -> Result<Vec<u8>, EncodeError> {
    let mut png = Vec::new();
    let encoder = PngEncoder {
        png: &mut png,
        profile,
        buffers,
    };
    let encoded = encoder.write_image(pixels, width, height, colour);
    encoded.map_err(|e| EncodeError::new(pixels.len(), e.to_string()))?;
    Ok(png)
}

/// The zlib stream made by libdeflate.
fn matched(bytes: &[u8]) -> ImageResult<Vec<u8>> {
    deflated(bytes, SMALL_LEVEL, false)
        .map_err(|problem| EncodingError::new(ImageFormat::Png.into(), problem))
        .map_err(ImageError::Encoding)
}

/// Compresses bytes with libdeflate, as gzip or else as zlib. The error is a problem in words.
pub(super) fn deflated(bytes: &[u8], level: i32, is_gzip: bool) -> Result<Vec<u8>, String> {
    let level = CompressionLvl::new(level).map_err(|e| format!("{e:?}"))?;
    let mut compressor = Compressor::new(level);
    let bound = match is_gzip {
        true => compressor.gzip_compress_bound(bytes.len()),
        false => compressor.zlib_compress_bound(bytes.len()),
    };
    let mut out = vec![0; bound];
    let length = match is_gzip {
        true => compressor.gzip_compress(bytes, &mut out),
        false => compressor.zlib_compress(bytes, &mut out),
    };
    out.truncate(length.map_err(|e| e.to_string())?);
    Ok(out)
}

/// Wraps a stream of filtered rows in a PNG file.
fn written(stream: &Stream<'_>, kind: PixelKind, size: (usize, usize)) -> Vec<u8> {
    contained(stream.len(), kind, size, |room| stream.write(room))
}

/// Wraps a finished zlib stream in a PNG file.
fn copied(stream: &[u8], kind: PixelKind, size: (usize, usize)) -> Vec<u8> {
    contained(stream.len(), kind, size, |room| {
        room[..stream.len()].copy_from_slice(stream);
    })
}

/// A PNG file with a zlib stream of `length` bytes. `fill` writes it to the front of its argument,
/// which has at least [`SLACK`] more bytes of scratch space.
///
/// The file is built in an allocation of its exact size: tiles are cached, and the cache counts
/// length, not capacity.
fn contained(
    length: usize,
    kind: PixelKind,
    size: (usize, usize),
    fill: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
    /// Bytes around a chunk's body: length and name before it, checksum after it.
    const FRAME: usize = 12;
    // A checksum and a chunk without a body follow the stream.
    const _: () = assert!(4 + FRAME >= SLACK);
    let header = header(kind, size);
    let end = framed(*b"IEND", &[]);
    let mut png = vec![0; SIGNATURE.len() + header.len() + FRAME + length + end.len()];
    let (before, rest) = png.split_at_mut(SIGNATURE.len() + header.len());
    before.copy_from_slice(&[&SIGNATURE[..], &header].concat());
    fill(&mut rest[8..]);
    rest[..4].copy_from_slice(&(length as u32).to_be_bytes());
    rest[4..8].copy_from_slice(b"IDAT");
    let (body, behind) = rest.split_at_mut(8 + length);
    let check = crc32(&body[4..]).to_be_bytes();
    behind.copy_from_slice(&[&check[..], &end].concat());
    png
}

/// The IHDR chunk: eight bits per sample, not interlaced.
fn header(kind: PixelKind, (width, height): (usize, usize)) -> Vec<u8> {
    let colour_type = match kind {
        PixelKind::Grey => 0,
        PixelKind::Rgb => 2,
        PixelKind::GreyAlpha => 4,
        PixelKind::Rgba => 6,
    };
    let [width, height] = [width, height].map(|side| (side as u32).to_be_bytes());
    framed(
        *b"IHDR",
        &[&width[..], &height, &[8, colour_type, 0, 0, 0]].concat(),
    )
}

/// A chunk: length, name, body, checksum of name and body.
fn framed(name: [u8; 4], body: &[u8]) -> Vec<u8> {
    let named = [&name[..], body].concat();
    [
        &(body.len() as u32).to_be_bytes()[..],
        &named,
        &crc32(&named).to_be_bytes(),
    ]
    .concat()
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
        let (mut png, mut buffers) = (Vec::new(), EncodeBuffers::default());
        fn encoder<'a>(png: &'a mut Vec<u8>, buffers: &'a mut EncodeBuffers) -> PngEncoder<'a> {
            PngEncoder {
                png,
                profile: PngProfile::Fast,
                buffers,
            }
        }
        let small = image::RgbImage::from_fn(7, 3, |x, y| image::Rgb([x as u8, y as u8, 200]));
        small
            .write_with_encoder(encoder(&mut png, &mut buffers))
            .unwrap();
        assert_eq!(image::load_from_memory(&png).unwrap().to_rgb8(), small);
        let deep = image::ImageBuffer::<image::Luma<u16>, _>::new(7, 3);
        assert!(
            deep.write_with_encoder(encoder(&mut png, &mut buffers))
                .is_err()
        );
        assert!(
            encoder(&mut png, &mut buffers)
                .write_image(&[0; 20], 7, 3, ExtendedColorType::L8)
                .is_err()
        );
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
                comes_back(
                    &pixels,
                    kind,
                    &written(
                        &Stream::new(&filtered, &mut Pairs::default()),
                        kind,
                        (TILE, TILE),
                    ),
                );
            }
            let mut filtered = Vec::new();
            filter::least_sum(&pixels, TILE * kind.bytes(), kind.bytes(), &mut filtered);
            comes_back(
                &pixels,
                kind,
                &written(
                    &Stream::new(&filtered, &mut Pairs::default()),
                    kind,
                    (TILE, TILE),
                ),
            );
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
