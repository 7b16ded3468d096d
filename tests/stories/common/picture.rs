//! The pixels of a PNG tile, grey or coloured, perhaps with opacity.

use sha2::{Digest, Sha256};

use image::{DynamicImage, ImageFormat};

/// The edge of a tile.
pub const TILE: usize = 512;

/// The decoded pixels of a tile.
#[derive(Clone, PartialEq)]
pub struct Picture {
    /// `L` (grey) or `RGB`, with an `A` if there is opacity, as in the fixtures.
    pub mode: &'static str,
    /// Row by row, one to four bytes for each pixel.
    pub pixels: Vec<u8>,
}

impl Picture {
    /// Decodes a tile, which must be an 8-bit PNG without a palette, 512 × 512.
    pub fn decode(png: &[u8]) -> Self {
        let header = png.get(24..26).expect("it is a PNG");
        let mode = match header {
            [8, 0] => "L",
            [8, 2] => "RGB",
            [8, 4] => "LA",
            [8, 6] => "RGBA",
            _ => panic!("bit depth and colour type are {header:?}"),
        };
        let decoded =
            image::load_from_memory_with_format(png, ImageFormat::Png).expect("it can be decoded");
        assert_eq!(
            (decoded.width() as usize, decoded.height() as usize),
            (TILE, TILE)
        );
        let pixels = match decoded {
            DynamicImage::ImageLuma8(grey) => grey.into_raw(),
            DynamicImage::ImageRgb8(rgb) => rgb.into_raw(),
            DynamicImage::ImageLumaA8(grey) => grey.into_raw(),
            DynamicImage::ImageRgba8(rgb) => rgb.into_raw(),
            other => panic!("it is {:?}", other.color()),
        };
        Self { mode, pixels }
    }

    /// A grey tile with a plane in its top left corner, and black elsewhere.
    pub fn of_plane(rows: usize, columns: usize, voxel: impl Fn(usize, usize) -> u8) -> Self {
        let mut pixels = vec![0; TILE * TILE];
        for row in 0..rows {
            (0..columns).for_each(|column| pixels[row * TILE + column] = voxel(row, column));
        }
        Self { mode: "L", pixels }
    }

    /// The SHA-256 of the pixels, in hexadecimal.
    pub fn sha256(&self) -> String {
        Sha256::digest(&self.pixels)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.mode, self.sha256())
    }
}
