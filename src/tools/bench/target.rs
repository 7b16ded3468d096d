//! What can be requested: the tiles of channels by plane and level, as described, and the selected part of them.

use std::fmt::Display;
use std::ops::Range;

use crate::base::description::{DatasetDescription, LevelDescription};
use crate::geometry::{Axis, Level, Plane, TILE, TileAddress, Xyz};

/// The available tiles of one channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The dataset's token.
    pub token: String,
    /// The channel's name.
    pub channel: String,
    /// Whether its tile paths contain a time; the first one is used.
    pub is_series: bool,
    /// Whether it contains intensities.
    is_image: bool,
    /// The levels that viewers use, in the planes that offer them.
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

/// The selection of what to measure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Datasets; none: all.
    pub tokens: Vec<String>,
    /// Channels; none: the first of each dataset that contains intensities, or else its first.
    pub channels: Vec<String>,
    /// Planes; none: all.
    pub planes: Vec<Plane>,
    /// Levels; none: all that viewers use.
    pub levels: Vec<u8>,
    /// The part of each level.
    pub bounds: Bounds,
}

/// What was selected, and what was left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// What is to be measured.
    pub targets: Vec<Target>,
    /// The channels left out because none was named, as `TOKEN/CHANNEL`.
    pub left_out: Vec<String>,
}

impl Target {
    /// A channel of a server without descriptions: the tiles within `bounds` in the plane xy.
    pub fn unseen(token: &str, channel: &str, level: Level, bounds: &Bounds) -> Option<Self> {
        let range = |range: &Option<Range<u64>>| range.clone().filter(|range| !range.is_empty());
        let (slices, rows, columns) = (range(&bounds.slices)?, range(&bounds.rows)?, range(&bounds.columns)?);
        let size = Xyz::new(columns.end, rows.end, 0).map(|tiles| tiles.saturating_mul(TILE as u64));
        let size = Xyz { z: slices.end, ..size };
        let space = Space { plane: Plane::Xy, level, slices, rows, columns, size };
        let (token, channel) = (token.to_owned(), channel.to_owned());
        Some(Self { token, channel, is_series: false, is_image: true, spaces: vec![space] })
    }

    /// The channels of a dataset.
    pub fn described(dataset: &DatasetDescription) -> Vec<Self> {
        let channels = dataset.channels.iter().map(|channel| Self {
            token: dataset.token.clone(),
            channel: channel.name.clone(),
            is_series: channel.times.is_some(),
            is_image: channel.kind == "image",
            spaces: channel
                .levels
                .iter()
                .flat_map(|level| spaces(level, dataset.first_slice(channel, level.factor)))
                .collect(),
        });
        channels.collect()
    }

    /// The path of a tile below `/{tile_service}/tilecache/`.
    pub(super) fn path(&self, address: &TileAddress) -> String {
        let Self { token, channel, .. } = self;
        let TileAddress { plane, level, slice, row, column } = address;
        let time = if self.is_series { "0/" } else { "" };
        format!("{token}/{channel}/{plane}/{time}{slice}/{row}_{column}_{}.png", level.number())
    }

    fn levels(&self) -> impl Iterator<Item = u8> {
        self.spaces.iter().map(|space| space.level.number())
    }
}

/// The tiles of a level, in the planes that offer it.
fn spaces(level: &LevelDescription, first: Xyz<i64>) -> Vec<Space> {
    let size = Xyz::from(level.size);
    let space = |(plane, [columns, rows]): (Plane, [u64; 2])| {
        let axis = plane.slice_axis();
        let tiles = |pixels: u64| 0..pixels.div_ceil(TILE as u64);
        let slices = slices(size[axis], first[axis]);
        let (rows, columns) = (tiles(rows), tiles(columns));
        let level = Level::new(u64::from(level.level))?;
        let is_empty = slices.is_empty() || rows.is_empty() || columns.is_empty();
        (!is_empty).then_some(Space { plane, level, slices, rows, columns, size })
    };
    let planes = Plane::ALL.into_iter().zip(level.drawn).filter(|(plane, _)| level.is_offered(*plane));
    planes.filter_map(space).collect()
}

/// The slice numbers used in URLs; negative ones cannot be requested.
fn slices(extent: u64, first: i64) -> Range<u64> {
    let first = i128::from(first);
    let number = |at: i128| u64::try_from(at.max(0)).unwrap_or(u64::MAX);
    number(first)..number(first + i128::from(extent))
}

impl Space {
    /// The part within bounds, if not empty.
    fn within(mut self, bounds: &Bounds) -> Option<Self> {
        let cut = |range: &mut Range<u64>, to: &Option<Range<u64>>| {
            if let Some(to) = to {
                *range = range.start.max(to.start)..range.end.min(to.end);
            }
            !range.is_empty()
        };
        let left = cut(&mut self.slices, &bounds.slices)
            && cut(&mut self.rows, &bounds.rows)
            && cut(&mut self.columns, &bounds.columns);
        left.then_some(self)
    }

    /// The tile at a slice, a row and a column.
    pub fn address(&self, slice: u64, row: u64, column: u64) -> TileAddress {
        TileAddress { plane: self.plane, level: self.level, slice, row, column }
    }

    /// The tile that contains a voxel of the level; if the bounds are narrower than the level, the tile at
    /// the same relative position within them.
    pub fn around(&self, voxel: Xyz<u64>) -> TileAddress {
        let share = |range: &Range<u64>, axis: Axis| {
            let tiles = u128::from(range.end - range.start);
            let place = u128::from(voxel[axis]) * tiles / u128::from(self.size[axis].max(1));
            range.start + (place as u64).min(range.end - range.start - 1)
        };
        let slice =
            self.slices.start + voxel[self.plane.slice_axis()] % (self.slices.end - self.slices.start);
        let row = share(&self.rows, self.plane.row_axis());
        self.address(slice, row, share(&self.columns, self.plane.column_axis()))
    }

    /// The number of tiles; saturates.
    pub fn count(&self) -> u64 {
        let length = |range: &Range<u64>| range.end - range.start;
        length(&self.slices).saturating_mul(length(&self.rows)).saturating_mul(length(&self.columns))
    }
}

impl Selection {
    /// Applies the selection to all targets.
    ///
    /// # Errors
    /// If something that is named does not exist, or nothing is left.
    pub fn choose(&self, mut targets: Vec<Target>) -> Result<Choice, String> {
        let tokens = targets.iter().map(|target| &target.token).collect();
        exist(&self.tokens, tokens, |name, known| {
            format!("there is no dataset {name:?}; there are {known}")
        })?;
        targets.retain(|target| self.tokens.is_empty() || self.tokens.contains(&target.token));
        let channels = targets.iter().map(|target| &target.channel).collect();
        exist(&self.channels, channels, |name, known| {
            format!("there is no channel {name:?}; there are {known}")
        })?;
        let is_chosen: Vec<bool> = targets.iter().map(|target| self.has(target, &targets)).collect();
        let (chosen, left_out): (Vec<_>, Vec<_>) =
            targets.into_iter().zip(is_chosen).partition(|both| both.1);
        let mut targets: Vec<Target> = chosen.into_iter().map(|(target, _)| target).collect();
        self.cut(&mut targets)?;
        let name = |(target, _): (Target, bool)| format!("{}/{}", target.token, target.channel);
        Ok(Choice { targets, left_out: left_out.into_iter().map(name).collect() })
    }

    /// Whether a channel is selected; if none is named, the first of its dataset that is an image, else the
    /// first.
    fn has(&self, target: &Target, all: &[Target]) -> bool {
        if !self.channels.is_empty() {
            return self.channels.contains(&target.channel);
        }
        let mut own = all.iter().filter(|other| other.token == target.token);
        let first = own.clone().find(|other| other.is_image).or_else(|| own.next());
        first.is_some_and(|first| first.channel == target.channel)
    }

    fn cut(&self, targets: &mut Vec<Target>) -> Result<(), String> {
        let levels: Vec<u8> = targets.iter().flat_map(Target::levels).collect();
        exist(&self.levels, levels.iter().collect(), |level, known| {
            format!("no channel that is to be measured has the level {level}; there are {known}")
        })?;
        let channels = listed(targets.iter().map(|target| &target.channel).collect());
        for target in &mut *targets {
            let spaces = std::mem::take(&mut target.spaces).into_iter();
            let wanted = |space: &Space| {
                (self.planes.is_empty() || self.planes.contains(&space.plane))
                    && (self.levels.is_empty() || self.levels.contains(&space.level.number()))
            };
            target.spaces = spaces.filter(wanted).filter_map(|space| space.within(&self.bounds)).collect();
        }
        targets.retain(|target| !target.spaces.is_empty());
        if !targets.is_empty() {
            return Ok(());
        }
        Err(format!(
            "nothing is left to be measured of {channels}: no tile lies within the selected planes, levels, slices, rows and \
             columns, or levels are not offered because computing them would take too long (see `voltile pyramid`)"
        ))
    }
}

/// Whether everything that is selected exists; the problem of the first that does not.
fn exist<T: Ord + Display>(
    selected: &[T],
    known: Vec<&T>,
    problem: impl Fn(&T, &str) -> String,
) -> Result<(), String> {
    match selected.iter().find(|wanted| !known.contains(wanted)) {
        Some(missing) => Err(problem(missing, &listed(known))),
        None => Ok(()),
    }
}

/// The first few names, without duplicates.
fn listed<T: Ord + Display>(mut names: Vec<&T>) -> String {
    const MAX_NAMES: usize = 10;
    names.sort_unstable();
    names.dedup();
    let more = if names.len() > MAX_NAMES { ", …" } else { "" };
    let names: Vec<String> = names.into_iter().take(MAX_NAMES).map(ToString::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") + more }
}

#[cfg(test)]
pub(super) mod tests;
