//! OpenSeadragon and pages built on it: every level of the pyramid, tile by tile, with browser caching.
//!
//! OpenSeadragon requests the tiles that it computes itself (`TileSource.getNumTiles`: width and height of
//! the level over the size of a tile, rounded up) and draws them whole, so that a tile at the edge must be
//! full size and black beyond the volume. Its WebGL drawer needs tiles that pages of other origins may read.

use image::GenericImageView;

use super::Viewer;
use super::answer::ORIGIN;
use super::report::{Checked, Report};
use crate::base::description::{ChannelDescription, DatasetDescription, LevelDescription, SiteDescription};
use crate::geometry::TILE;
use crate::tools::client::{Client, Method};

/// The planes, and the slice axis of each.
const PLANES: [(&str, usize); 3] = [("xy", 2), ("xz", 1), ("yz", 0)];

pub(super) fn play(client: &Client, site: &SiteDescription, report: &mut Report) {
    for dataset in &site.datasets {
        for channel in &dataset.channels {
            let walk = Walk { client, below: site.tilecache(), dataset, channel };
            for (index, (plane, axis)) in PLANES.into_iter().enumerate() {
                let subject = format!("{} {} {plane}", dataset.token, channel.name);
                report.add(
                    Some(Viewer::Openseadragon),
                    "pyramid",
                    &subject,
                    walk.pyramid(index, plane, axis),
                );
            }
            let subject = format!("{} {}", dataset.token, channel.name);
            report.add(Some(Viewer::Openseadragon), "caching", &subject, walk.caching());
        }
    }
}

/// The checks of one channel.
struct Walk<'a> {
    client: &'a Client,
    below: String,
    dataset: &'a DatasetDescription,
    channel: &'a ChannelDescription,
}

impl Walk<'_> {
    fn url(&self, plane: &str, slice: u64, (row, column): (u64, u64), level: u8) -> String {
        let time = if self.channel.times.is_some() { "0/" } else { "" };
        let (token, name) = (&self.dataset.token, &self.channel.name);
        format!("{}/{token}/{name}/{plane}/{time}{slice}/{row}_{column}_{level}.png", self.below)
    }

    /// The number of a slice in the middle of a level, along an axis (0 is x).
    fn middle(&self, level: &LevelDescription, axis: usize) -> Result<u64, &'static str> {
        let middle = || {
            let first: [i64; 3] = self.dataset.first_slice(self.channel, level.factor).into();
            (level.size.get(axis)? / 2).checked_add_signed(*first.get(axis)?)
        };
        middle().ok_or("its slice numbers are negative and cannot be requested")
    }

    /// Checks the first and the last tile of each level; a level that is not offered is a remark.
    fn pyramid(&self, index: usize, plane: &str, axis: usize) -> Checked {
        let mut left_out = Vec::new();
        for level in &self.channel.levels {
            if !level.planes.iter().any(|offered| offered == plane) {
                left_out.push(level.level.to_string());
                continue;
            }
            let drawn = *level.drawn.get(index).ok_or("the description has no drawn extents")?;
            self.corners(level, drawn, plane, axis)?;
        }
        Ok((!left_out.is_empty()).then(|| {
            format!(
                "level {} would take too long to compute and is not offered; see `voltile pyramid`",
                left_out.join(", ")
            )
        }))
    }

    fn corners(
        &self,
        level: &LevelDescription,
        drawn: [u64; 2],
        plane: &str,
        axis: usize,
    ) -> Result<(), String> {
        let slice = self.middle(level, axis)?;
        let [last_column, last_row] = drawn.map(|length| length.saturating_sub(1) / TILE as u64);
        for (row, column) in [(0, 0), (last_row, last_column)] {
            let answer = self.client.get(&self.url(plane, slice, (row, column), level.level))?.found()?;
            let tile = answer.tile()?;
            let [width, height] = [(drawn[0], column), (drawn[1], row)]
                .map(|(length, index)| length - (index * TILE as u64).min(length));
            let is_beyond = |(x, y): (u32, u32)| u64::from(x) >= width || u64::from(y) >= height;
            let shown = tile.pixels().find(|(x, y, pixel)| is_beyond((*x, *y)) && pixel.0[..3] != [0; 3]);
            if let Some((x, y, _)) = shown {
                return Err(
                    answer.wrong(format!("the pixel ({x}, {y}) lies beyond the volume and is not black"))
                );
            }
        }
        Ok(())
    }

    /// The headers that let a browser cache a tile and revalidate it without downloading it again.
    fn caching(&self) -> Checked {
        let level = self.channel.levels.first().ok_or("it has no levels")?;
        let slice = self.middle(level, 2)?;
        let url = self.url("xy", slice, (0, 0), level.level);
        let answer = self.client.ask(&Method::GET, &url, &[("Origin", ORIGIN)])?.found()?;
        answer.is_shared()?;
        let tag = answer.header("etag").ok_or_else(|| answer.wrong("there is no ETag"))?;
        if answer.header("cache-control").is_none() {
            return Err(answer.wrong("there is no Cache-Control"));
        }
        let again = self.client.ask(&Method::GET, &url, &[("If-None-Match", tag)])?;
        match again.status {
            304 => Ok(None),
            other => {
                Err(again
                    .wrong(format!("a browser that revalidates a cached tile gets status {other}, not 304")))
            }
        }
    }
}
