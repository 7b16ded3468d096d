//! The tiles that are requested: of the selected channels, by plane and level.

use std::ops::Range;

use crate::base::description::DatasetDescription;
use crate::base::name::Name;
use crate::base::request::{ChannelChoice, TileRequest};
use crate::geometry::{Axis, Level, Plane, TILE, TileAddress, Xyz};
use crate::tools::warm::{Selection, Subject, choose};

/// The selected tiles of one channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The dataset's token.
    pub token: Name,
    /// The channel's name.
    pub channel: Name,
    /// The time point, of a series.
    time: Option<u64>,
    /// Never empty.
    pub(super) spaces: Vec<Space>,
}

/// The tiles of one level in one plane.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Space {
    pub plane: Plane,
    pub level: Level,
    /// Slice numbers as in URLs; never empty, nor are the other ranges.
    pub slices: Range<u64>,
    pub rows: Range<u64>,
    pub columns: Range<u64>,
    /// The extent of the level in voxels, if known.
    pub size: Xyz<u64>,
}

/// Limits of the requested tiles; `None`: all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Slices, numbered as in URLs.
    pub slices: Option<Range<u64>>,
    /// Rows of tiles.
    pub rows: Option<Range<u64>>,
    /// Columns of tiles.
    pub columns: Option<Range<u64>>,
}

/// What was selected, and what was left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// What is to be measured.
    pub targets: Vec<Target>,
    /// The channels left out because none was named, as `TOKEN/CHANNEL`.
    pub left_out: Vec<String>,
}

impl Choice {
    /// The selected tiles within bounds. If no channel is named, those of the first channel of each
    /// dataset that is an image, else of its first channel.
    ///
    /// # Errors
    /// If something that is named does not exist, or nothing is left.
    pub fn new(
        mut datasets: Vec<DatasetDescription>,
        selection: &Selection,
        bounds: &Bounds,
    ) -> Result<Self, String> {
        let is_wanted = |dataset: &&mut DatasetDescription| {
            selection.tokens.is_empty()
                || selection
                    .tokens
                    .iter()
                    .any(|token| token.as_str() == dataset.token)
        };
        let mut left_out = Vec::new();
        for DatasetDescription {
            token, channels, ..
        } in datasets.iter_mut().filter(is_wanted)
        {
            if selection.channels.is_empty() && !channels.is_empty() {
                let first = channels
                    .iter()
                    .position(|channel| channel.kind == "image")
                    .unwrap_or(0);
                let first = channels.remove(first);
                left_out.extend(
                    channels
                        .drain(..)
                        .map(|channel| format!("{token}/{}", channel.name)),
                );
                channels.push(first);
            }
        }
        let chosen = choose(selection, &datasets)?;
        let mut targets: Vec<Target> = Vec::new();
        for family in &chosen.families {
            let Subject { token, channels } = &chosen.subjects[family.subject];
            let ChannelChoice::One(channel) = channels else {
                continue;
            };
            let dataset = datasets
                .iter()
                .find(|dataset| dataset.token == token.as_str());
            let described = dataset.and_then(|dataset| dataset.channel(channel.as_str()));
            let Some(level) = described.and_then(|channel| channel.level(family.level.number()))
            else {
                continue;
            };
            let (plane, tiles) = (family.plane, &family.tiles);
            let mut space = Space {
                plane,
                level: family.level,
                slices: family.slice_numbers(tiles),
                rows: tiles[plane.row_axis()].clone(),
                columns: tiles[plane.column_axis()].clone(),
                size: level.size.into(),
            };
            if space.cut(bounds) {
                match targets.last_mut() {
                    Some(last) if (&last.token, &last.channel) == (token, channel) => {
                        last.spaces.push(space);
                    }
                    _ => targets.push(Target {
                        token: token.clone(),
                        channel: channel.clone(),
                        time: family.time,
                        spaces: vec![space],
                    }),
                }
            }
        }
        match targets.is_empty() {
            true => Err(
                "nothing is left to be measured: no tile lies within --min, --max, --x and --y"
                    .to_owned(),
            ),
            false => Ok(Self { targets, left_out }),
        }
    }

    /// A channel of a server without descriptions: the tiles within `bounds` in the plane xy;
    /// `None` without bounds.
    pub fn undescribed(token: Name, channel: Name, level: Level, bounds: &Bounds) -> Option<Self> {
        let range = |range: &Option<Range<u64>>| range.clone().filter(|range| !range.is_empty());
        let (slices, rows, columns) = (
            range(&bounds.slices)?,
            range(&bounds.rows)?,
            range(&bounds.columns)?,
        );
        let pixels = |tiles: u64| tiles.saturating_mul(TILE as u64);
        let size = Xyz::new(pixels(columns.end), pixels(rows.end), slices.end);
        let spaces = vec![Space {
            plane: Plane::Xy,
            level,
            slices,
            rows,
            columns,
            size,
        }];
        Some(Self {
            targets: vec![Target {
                token,
                channel,
                time: None,
                spaces,
            }],
            left_out: Vec::new(),
        })
    }
}

impl Target {
    /// The request for a tile.
    pub(super) fn request(&self, address: TileAddress) -> TileRequest {
        let (token, channels) = (
            self.token.clone().into(),
            ChannelChoice::One(self.channel.clone()),
        );
        TileRequest {
            token,
            channels,
            time: self.time,
            address,
            adjust: Vec::new(),
        }
    }
}

impl Space {
    /// Keeps the part within bounds; returns whether there is any.
    fn cut(&mut self, bounds: &Bounds) -> bool {
        let parts = [
            (&mut self.slices, &bounds.slices),
            (&mut self.rows, &bounds.rows),
            (&mut self.columns, &bounds.columns),
        ];
        parts.into_iter().all(|(range, to)| {
            if let Some(to) = to {
                *range = range.start.max(to.start)..range.end.min(to.end);
            }
            !range.is_empty()
        })
    }

    /// The tile at a slice, a row and a column.
    pub fn address(&self, slice: u64, row: u64, column: u64) -> TileAddress {
        TileAddress {
            plane: self.plane,
            level: self.level,
            slice,
            row,
            column,
        }
    }

    /// The tile that contains a voxel of the level; if the bounds are narrower than the level, the
    /// tile at the same relative position within them.
    pub fn around(&self, voxel: Xyz<u64>) -> TileAddress {
        let share = |range: &Range<u64>, axis: Axis| {
            let tiles = u128::from(range.end - range.start);
            let place = u128::from(voxel[axis]) * tiles / u128::from(self.size[axis].max(1));
            range.start + (place as u64).min(range.end - range.start - 1)
        };
        let slice = self.slices.start
            + voxel[self.plane.slice_axis()] % (self.slices.end - self.slices.start);
        let row = share(&self.rows, self.plane.row_axis());
        self.address(slice, row, share(&self.columns, self.plane.column_axis()))
    }

    /// The number of tiles; saturates.
    pub fn count(&self) -> u64 {
        let length = |range: &Range<u64>| range.end - range.start;
        length(&self.slices)
            .saturating_mul(length(&self.rows))
            .saturating_mul(length(&self.columns))
    }
}

#[cfg(test)]
pub(super) mod tests;
