//! OpenSeadragon and pages built on it: every level of the pyramid, tile by tile, with browser caching.
//!
//! OpenSeadragon requests the tiles that it computes itself (`TileSource.getNumTiles`: width and height of
//! the level over the size of a tile, rounded up) and draws them whole, so that a tile at the edge must be
//! full size and black beyond the volume. Its WebGL drawer needs tiles that pages of other origins may read.

use super::report::Report;
use super::request::{Checked, Need, ORIGIN, Request, send_all};
use crate::base::description::{ChannelDescription, DatasetDescription, LevelDescription, SiteDescription};
use crate::geometry::TILE;
use crate::tools::client::Client;

/// The planes, and the slice axis of each.
const PLANES: [(&str, usize); 3] = [("xy", 2), ("xz", 1), ("yz", 0)];

pub(super) fn play(client: &Client, site: &SiteDescription, report: &mut Report) {
    for dataset in &site.datasets {
        for channel in &dataset.channels {
            let walk = Walk { below: site.tilecache(), dataset, channel };
            let subject = format!("{} {}", dataset.token, channel.name);
            for (index, (plane, _)) in PLANES.into_iter().enumerate() {
                report.add("pyramid", &format!("{subject} {plane}"), walk.pyramid(client, index));
            }
            let caching = walk.first().and_then(|request| send_all(client, &[request]));
            report.add("caching", &subject, caching);
        }
    }
}

/// The requests for one channel.
struct Walk<'a> {
    below: String,
    dataset: &'a DatasetDescription,
    channel: &'a ChannelDescription,
}

impl Walk<'_> {
    /// The tile of the middle slice of a level, in a plane of this index.
    fn url(
        &self,
        index: usize,
        level: &LevelDescription,
        (row, column): (u64, u64),
    ) -> Result<String, String> {
        let (plane, axis) = PLANES[index];
        let first: [i64; 3] = self.dataset.first_slice(self.channel, level.factor).into();
        let slice = (level.size[axis] / 2).checked_add_signed(first[axis]);
        let slice = slice.ok_or("its slice numbers are negative and cannot be requested")?;
        let time = if self.channel.times.is_some() { "0/" } else { "" };
        let (below, token, name) = (&self.below, &self.dataset.token, &self.channel.name);
        Ok(format!("{below}/{token}/{name}/{plane}/{time}{slice}/{row}_{column}_{}.png", level.level))
    }

    /// Checks the first and the last tile of each level; a level that is not offered is a remark.
    fn pyramid(&self, client: &Client, index: usize) -> Checked {
        let is_offered =
            |level: &&LevelDescription| level.planes.iter().any(|plane| plane == PLANES[index].0);
        let (offered, left_out): (Vec<_>, Vec<_>) = self.channel.levels.iter().partition(is_offered);
        for level in offered {
            let drawn = level.drawn[index];
            let [last_column, last_row] = drawn.map(|length| length.saturating_sub(1) / TILE as u64);
            for (row, column) in [(0, 0), (last_row, last_column)] {
                let shown = [(drawn[0], column), (drawn[1], row)]
                    .map(|(length, index)| length - (index * TILE as u64).min(length));
                let url = self.url(index, level, (row, column))?;
                send_all(client, &[Request::get("pyramid", url, &[], [Need::BlackBeyond(shown)])])?;
            }
        }
        let left_out: Vec<String> = left_out.iter().map(|level| level.level.to_string()).collect();
        let why = "would take too long to compute and is not offered; see `voltile pyramid`";
        Ok((!left_out.is_empty()).then(|| format!("level {} {why}", left_out.join(", "))))
    }

    /// The request for a tile that a browser caches.
    fn first(&self) -> Result<Request, String> {
        let level = self.channel.levels.first().ok_or("it has no levels")?;
        let needs = [Need::Found, Need::Shared, Need::Cacheable];
        Ok(Request::get("caching", self.url(0, level, (0, 0))?, &[ORIGIN], needs))
    }
}
