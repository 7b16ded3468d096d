//! Families of tiles: all selected tiles of one picture in one plane, at one level and time, and
//! the sources that they are read from.
//!
//! A family is a grid of slices, rows and columns. Its tiles are never listed.

use std::ops::Range;

use super::numbers::Numbers;
use crate::base::description::{ChannelDescription, LevelDescription, SourceDescription};
use crate::base::name::Name;
use crate::base::request::{ChannelChoice, TileRequest};
use crate::geometry::{Axis, Level, Plane, Ruler, TileAddress, Xyz};
use crate::volume::Access;

/// The axes, each in its own place.
pub const AXES: Xyz<Axis> = Xyz {
    x: Axis::X,
    y: Axis::Y,
    z: Axis::Z,
};

/// The picture that tiles show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The dataset.
    pub token: Name,
    /// One channel, or several with colours.
    pub channels: ChannelChoice,
}

/// Tiles of one subject in one plane, at one level and time.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The index of its subject.
    pub subject: usize,
    /// The time point, of a series.
    pub time: Option<u64>,
    /// The plane.
    pub plane: Plane,
    /// The level.
    pub level: Level,
    /// The difference of a slice's number in URLs and its index.
    pub shift: i64,
    /// The positions of tiles, in voxels of full resolution.
    pub rulers: Xyz<Ruler>,
    /// Where its tiles lie: the indexes of slices, rows and columns, by axis. Never empty.
    pub tiles: Xyz<Range<u64>>,
    /// The selected slices, by their numbers in URLs. The first and the last of `tiles` are among
    /// them.
    pub slices: Numbers,
    /// The indexes of its sources.
    pub sources: Vec<usize>,
}

/// Voxels that are stored in boxes, each of which is read as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The extent of a box, in voxels of full resolution; never 0.
    pub chunk: Xyz<u64>,
    /// Its extent, in voxels of full resolution.
    pub size: Xyz<u64>,
    /// The size in bytes of a box in memory.
    pub bytes: u64,
    /// How boxes are read.
    pub access: Access,
}

impl Family {
    /// The tiles that begin in a box of voxels; along some axes perhaps none.
    pub fn tiles_starting_in(&self, voxels: &Xyz<Range<u64>>) -> Xyz<Range<u64>> {
        AXES.map(|axis| {
            let (found, own) = (
                self.rulers[axis].starting_in(&voxels[axis]),
                &self.tiles[axis],
            );
            let start = found.start.max(own.start);
            start..found.end.min(own.end).max(start)
        })
    }

    /// How many of these tiles are selected; saturates.
    pub fn count(&self, tiles: &Xyz<Range<u64>>) -> u64 {
        let mut counts = tiles.clone().map(|indexes| indexes.end - indexes.start);
        counts[self.plane.slice_axis()] = self.count_slices(tiles);
        counts.volume()
    }

    /// In how many slices these tiles are selected.
    pub fn count_slices(&self, tiles: &Xyz<Range<u64>>) -> u64 {
        self.slices.count(self.slice_numbers(tiles))
    }

    /// The requests for those of these tiles that are selected: all slices at one place after the
    /// other.
    pub fn requests<'a>(
        &'a self,
        subject: &'a Subject,
        tiles: &Xyz<Range<u64>>,
    ) -> impl Iterator<Item = TileRequest> + Send + use<'a> {
        let (rows, columns) = (
            tiles[self.plane.row_axis()].clone(),
            tiles[self.plane.column_axis()].clone(),
        );
        let slices = self.slice_numbers(tiles);
        let places = rows.flat_map(move |row| columns.clone().map(move |column| (row, column)));
        let addresses = places.flat_map(move |(row, column)| {
            let address = move |slice| TileAddress {
                plane: self.plane,
                level: self.level,
                slice,
                row,
                column,
            };
            self.slices.within(slices.clone()).map(address)
        });
        addresses.map(|address| {
            let Subject { token, channels } = subject.clone();
            TileRequest {
                token: token.into(),
                channels,
                time: self.time,
                address,
                adjust: Vec::new(),
            }
        })
    }

    /// The range of numbers of slices in URLs.
    pub fn slice_numbers(&self, tiles: &Xyz<Range<u64>>) -> Range<u64> {
        let Range { start, end } = tiles[self.plane.slice_axis()];
        start.saturating_add_signed(self.shift)..end.saturating_add_signed(self.shift)
    }

    /// Whether the axis lies in its tiles' plane, rather than along the slices.
    pub fn spreads(&self, axis: Axis) -> bool {
        axis != self.plane.slice_axis()
    }
}

/// Where the tiles of a channel's level begin and end in a plane, along each axis: slices, rows and
/// columns.
pub fn rulers(
    channel: &ChannelDescription,
    level: &LevelDescription,
    plane: Plane,
) -> Option<Xyz<Ruler>> {
    let (rows, columns, slices) = (plane.row_axis(), plane.column_axis(), plane.slice_axis());
    let (size, factor) = (Xyz::from(level.size), Xyz::from(level.factor));
    let [width, height] = *Plane::ALL
        .iter()
        .zip(&level.drawn)
        .find(|(p, _)| **p == plane)?
        .1;
    let mut rulers = Xyz::all(Ruler::of_slices(size[slices], factor[slices]));
    rulers[columns] = Ruler::of_tiles(width, factor[columns]);
    rulers[rows] = match channel.voxel_size.map(Xyz::from) {
        Some(voxel) if channel.orthogonal == "isotropic" && plane != Plane::Xy => {
            let across = voxel[columns] * Level::new(level.level.into())?.factor() as f64;
            Ruler::of_square_rows(height, across, voxel.z * factor.z as f64, factor.z)
        }
        _ => Ruler::of_tiles(height, factor[rows]),
    };
    Some(rulers)
}

impl From<&SourceDescription> for Source {
    fn from(source: &SourceDescription) -> Self {
        let full =
            |extent: [u64; 3]| Xyz::from(extent).zip(Xyz::from(source.factor), u64::saturating_mul);
        Self {
            chunk: full(source.chunk).map(|extent| extent.max(1)),
            size: full(source.size),
            bytes: source.bytes,
            // A name that a later version may have is taken for the most expensive way.
            access: Access::named(&source.access).unwrap_or(Access::Uncached),
        }
    }
}

impl Source {
    /// The indexes of the boxes that a range of voxels touches along an axis.
    pub fn boxes(&self, axis: Axis, voxels: &Range<u64>) -> Range<u64> {
        let end = voxels.end.min(self.size[axis]);
        if voxels.start >= end {
            return 0..0;
        }
        voxels.start / self.chunk[axis]..end.div_ceil(self.chunk[axis])
    }

    /// The share of the cache budget that a box takes, in bytes.
    pub fn weight(&self) -> u64 {
        const BOOKKEEPING: u64 = 256;
        self.bytes.saturating_add(BOOKKEEPING)
    }
}
