//! What the checks ask of a response.

use image::{DynamicImage, ImageFormat};
use libdeflater::Decompressor;

use crate::geometry::TILE;
use crate::tools::client::Answer;

/// The most bytes of a chunk that are decoded.
const MAX_BYTES: u64 = 1 << 30;
/// The origin of a viewer's page.
pub(super) const ORIGIN: &str = "http://viewer.example";

/// How the body of a chunk is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    None,
    Zlib,
    Gzip,
    Zstd,
}

impl Answer {
    /// The body, decoded to at most `most` bytes.
    pub(super) fn decoded(&self, codec: Codec, most: u64) -> Result<Vec<u8>, String> {
        if codec == Codec::None {
            return Ok(self.body.clone());
        }
        if most > MAX_BYTES {
            return Err(self.wrong(format!("a chunk has {most} bytes, more than a client can hold")));
        }
        let mut decoded = vec![0; most as usize];
        let length = match codec {
            Codec::None => Ok(0),
            Codec::Zlib => {
                Decompressor::new().zlib_decompress(&self.body, &mut decoded).map_err(|e| e.to_string())
            }
            Codec::Gzip => {
                Decompressor::new().gzip_decompress(&self.body, &mut decoded).map_err(|e| e.to_string())
            }
            Codec::Zstd => {
                zstd::bulk::decompress_to_buffer(&self.body, &mut decoded).map_err(|e| e.to_string())
            }
        };
        decoded.truncate(length.map_err(|e| self.wrong(format!("it cannot be decoded: {e}")))?);
        Ok(decoded)
    }

    /// The body decoded as PNG.
    pub(super) fn picture(&self) -> Result<DynamicImage, String> {
        image::load_from_memory_with_format(&self.body, ImageFormat::Png)
            .map_err(|e| self.wrong(format!("its {} bytes are not a PNG: {e}", self.body.len())))
    }

    /// The body decoded as a PNG of the size of a tile.
    pub(super) fn tile(&self) -> Result<DynamicImage, String> {
        let picture = self.picture()?;
        match (picture.width() as usize, picture.height() as usize) {
            (TILE, TILE) => Ok(picture),
            (width, height) => {
                Err(self.wrong(format!("the tile is {width} × {height}, not {TILE} × {TILE}")))
            }
        }
    }

    /// Whether pages of other origins may read it.
    pub(super) fn is_shared(&self) -> Result<(), String> {
        match self.header("access-control-allow-origin") {
            Some("*" | ORIGIN) => Ok(()),
            Some(other) => Err(self.wrong(format!(
                "Access-Control-Allow-Origin is {other:?}: pages of other origins may not read tiles; see server.cors_origins"
            ))),
            None => Err(self.wrong(
                "there is no Access-Control-Allow-Origin: pages of other origins may not read tiles; see server.cors_origins",
            )),
        }
    }
}
