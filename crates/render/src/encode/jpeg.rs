//! Lossy tiles, for slow lines: between a third and a half of the bytes of a PNG, for electron
//! micrographs.

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use voltile_base::geometry::TILE;

use super::EncodeError;
use crate::plan::PixelKind;

/// The quality, from 1 to 100. Addresses and keys do not contain it: whoever changes it must also
/// raise the number of the rules of rendering, which is in every key.
const QUALITY: u8 = 80;

/// Encodes the grey or coloured pixels of a tile as a baseline JPEG with colours in full
/// resolution.
pub fn jpeg(pixels: &[u8], kind: PixelKind) -> Result<Vec<u8>, EncodeError> {
    let colour = match kind {
        PixelKind::Grey => ColorType::Luma,
        PixelKind::Rgb => ColorType::Rgb,
        PixelKind::GreyAlpha | PixelKind::Rgba => {
            let problem = "JPEG has no opacity".to_owned();
            return Err(EncodeError::new(pixels.len(), problem));
        }
    };
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, QUALITY);
    encoder.set_sampling_factor(SamplingFactor::R_4_4_4);
    let encoded = encoder.encode(pixels, TILE as u16, TILE as u16, colour);
    encoded.map_err(|error| EncodeError::new(pixels.len(), error.to_string()))?;
    Ok(file)
}
