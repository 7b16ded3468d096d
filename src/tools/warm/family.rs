//! Families of tiles: all selected tiles of one picture in one plane, at one level and time, and the sources
//! that they are read from.
//!
//! A family is a grid of slices, rows and columns, each one or a few runs. Its tiles are never listed.

use std::ops::Range;

use super::numbers::Runs;
use crate::base::name::Name;
use crate::base::request::{ChannelChoice, TileRequest};
use crate::geometry::{Axis, Level, Plane, Ruler, TileAddress, Xyz};
use crate::volume::Access;

/// The picture that tiles show.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// The selected slices, rows and columns, by axis. Never empty.
    pub tiles: Xyz<Runs>,
    /// The indexes of its sources.
    pub sources: Vec<usize>,
}

/// Voxels that are stored in boxes, each of which is read as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Source {
    /// Distinguishes its boxes from those of other sources.
    pub id: String,
    /// The index of the run of time points that are stored together.
    pub times: u64,
    /// The extent of a box, in voxels of full resolution; never 0.
    pub chunk: Xyz<u64>,
    /// Its extent, in voxels of full resolution.
    pub size: Xyz<u64>,
    /// The size in bytes of a box in memory.
    pub bytes: u64,
    /// How boxes are read.
    pub access: Access,
}

/// One tile of a family, by its indexes along the plane's axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// The family.
    pub family: usize,
    /// The slice's index, counted from the volume's first voxel.
    pub slice: u64,
    /// The row of tiles.
    pub row: u64,
    /// The column of tiles.
    pub column: u64,
}

impl Family {
    /// The number of tiles; saturates.
    pub fn count(&self) -> u64 {
        let Xyz { x, y, z } = &self.tiles;
        Xyz::new(x.count(), y.count(), z.count()).volume()
    }

    /// The request for one of its tiles.
    pub fn request(&self, subject: &Subject, tile: &Tile) -> TileRequest {
        let address = TileAddress {
            plane: self.plane,
            level: self.level,
            slice: tile.slice.saturating_add_signed(self.shift),
            row: tile.row,
            column: tile.column,
        };
        let Subject { token, channels } = subject.clone();
        TileRequest { token: token.into(), channels, time: self.time, address, adjust: Vec::new() }
    }

    /// One of its tiles, and the one of the next slice if there is one: with each `place`, elsewhere.
    pub fn samples(&self, subject: &Subject, place: u64) -> Option<Vec<TileRequest>> {
        // Steps by irrational numbers do not align with any grid.
        let at = |axis: Axis, step: f64| {
            let share = (0.5 + place as f64 * step).fract();
            self.tiles[axis].nth((self.tiles[axis].count() as f64 * share) as u64)
        };
        let row = at(self.plane.row_axis(), 0.754_877_666)?;
        let column = at(self.plane.column_axis(), 0.569_840_290)?;
        let slice = at(self.plane.slice_axis(), 0.618_033_988)?;
        let next = self.tiles[self.plane.slice_axis()].cut(&(0..slice)).bounds().map(|bounds| bounds.end - 1);
        let tile = |slice: u64| self.request(subject, &Tile { family: 0, slice, row, column });
        Some([Some(slice), next].into_iter().flatten().map(tile).collect())
    }

    /// The indexes of its tiles that begin within a range of voxels, along one axis.
    pub fn starting_in(&self, axis: Axis, voxels: &Range<u64>) -> Runs {
        self.tiles[axis].cut(&self.rulers[axis].starting_in(voxels))
    }

    /// Where its tiles begin, along one axis: for each run of tiles, the voxels from the start of the first
    /// to that of the last.
    pub fn starts(&self, axis: Axis) -> Runs {
        let ruler = &self.rulers[axis];
        self.tiles[axis].mapped(|run| ruler.start(run.start)..ruler.start(run.end - 1).saturating_add(1))
    }

    /// Whether the axis lies in its tiles' plane, rather than along the slices.
    pub fn spreads(&self, axis: Axis) -> bool {
        axis != self.plane.slice_axis()
    }
}

impl Source {
    /// The number of boxes that a range of voxels touches along an axis.
    pub fn boxes(&self, axis: Axis, voxels: &Range<u64>) -> u64 {
        let Range { start, end } = self.chunks(axis, voxels);
        end - start
    }

    /// The indexes of the boxes that a range of voxels touches along an axis.
    pub fn chunks(&self, axis: Axis, voxels: &Range<u64>) -> Range<u64> {
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
