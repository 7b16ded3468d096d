//! What the checks ask of a response.

use image::{DynamicImage, ImageFormat};

use crate::client::Answer;
use crate::geometry::TILE;

/// The origin of a viewer's page.
pub(super) const ORIGIN: &str = "http://viewer.example";

impl Answer {
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
