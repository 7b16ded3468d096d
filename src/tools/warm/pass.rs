//! One pass through a picture: its slices, and the slabs in which they are rendered.

use voltile_base::geometry::{Level, Plane, TileAddress};
use voltile_base::name::Name;
use voltile_base::request::{ChannelChoice, TileRequest};

use super::numbers::Numbers;

/// The tiles of one picture in one plane that are read from the same stored chunks.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    pub token: Name,
    pub channels: ChannelChoice,
    pub plane: Plane,
    /// The time points that share chunks; `None` if the picture is not a time series.
    pub times: Vec<Option<u64>>,
    pub levels: Vec<LevelSlices>,
    /// The thickness of a slab, in voxels of full resolution.
    pub depth: u64,
    /// The selected slices, by their numbers in URLs.
    pub selected: Numbers,
}

/// The slices of a level in one plane.
#[derive(Debug, Clone)]
pub(super) struct LevelSlices {
    pub level: Level,
    /// The number of the first slice in URLs, and the number after the last slice.
    pub first: i64,
    pub end: i64,
    /// The thickness of a slice, in voxels of full resolution.
    pub thickness: u64,
    /// The number of rows and columns of tiles.
    pub rows: u64,
    pub columns: u64,
}

/// The part of a pass that is read from one layer of chunks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slab<'a> {
    pass: &'a Pass,
    index: u64,
}

impl Pass {
    /// The slabs that contain all slices of the pass, in order.
    pub fn slabs(&self) -> impl Iterator<Item = Slab<'_>> {
        let last_voxels = self.levels.iter().map(LevelSlices::last_voxel);
        let last_slab = last_voxels.max().unwrap_or(0) / self.depth;
        (0..=last_slab).map(|index| Slab { pass: self, index })
    }

    fn tile(&self, level: Level, time: Option<u64>, place: [u64; 3]) -> TileRequest {
        let [row, column, slice] = place;
        TileRequest {
            token: self.token.clone().into(),
            channels: self.channels.clone(),
            time,
            address: TileAddress {
                plane: self.plane,
                level,
                slice,
                row,
                column,
            },
            slab: None,
            adjust: Vec::new(),
        }
    }
}

impl LevelSlices {
    /// Describes the existing slices in words.
    pub fn in_words(&self) -> String {
        let last = self.end.saturating_sub(1);
        format!("{} to {last} at level {}", self.first, self.level.number())
    }

    /// The first voxel of the last slice, counted from the first voxel of the first slice.
    fn last_voxel(&self) -> u64 {
        let last = self.end.saturating_sub(self.first).saturating_sub(1);
        last.max(0).unsigned_abs().saturating_mul(self.thickness)
    }

    /// The number of the first slice that does not begin before a voxel, which is counted from the
    /// first voxel of the first slice. Slices with negative numbers cannot be requested.
    fn number_at(&self, voxel: u64) -> u64 {
        let index = voxel.div_ceil(self.thickness);
        let number = self.first.saturating_add_unsigned(index).min(self.end);
        number.max(0).unsigned_abs()
    }
}

impl<'a> Slab<'a> {
    /// The selected slices of a level, by their numbers in URLs.
    fn slices(self, level: &LevelSlices) -> impl Iterator<Item = u64> + use<'a> {
        let start = self.index.saturating_mul(self.pass.depth);
        let end = start.saturating_add(self.pass.depth);
        let numbers = level.number_at(start)..level.number_at(end);
        self.pass.selected.within(numbers)
    }

    /// The number of tiles; saturates.
    pub fn count(self) -> u64 {
        let mut count: u64 = 0;
        for level in &self.pass.levels {
            let slices = self.slices(level).count() as u64;
            let tiles = slices
                .saturating_mul(level.rows)
                .saturating_mul(level.columns);
            count = count.saturating_add(tiles);
        }
        count.saturating_mul(self.pass.times.len() as u64)
    }

    /// The selected tiles in order.
    pub fn tiles(self) -> impl Iterator<Item = TileRequest> + use<'a> {
        let pass = self.pass;
        self.places().flat_map(move |(level, row, column, time)| {
            let slices = self.slices(level);
            slices.map(move |slice| pass.tile(level.level, time, [row, column, slice]))
        })
    }

    /// The places of tiles in the plane, at all levels and times: level, row, column, time point.
    fn places(self) -> impl Iterator<Item = (&'a LevelSlices, u64, u64, Option<u64>)> {
        let levels = self.pass.levels.iter();
        let rows = levels.flat_map(|level| (0..level.rows).map(move |row| (level, row)));
        let cells = rows
            .flat_map(|(level, row)| (0..level.columns).map(move |column| (level, row, column)));
        cells.flat_map(move |(level, row, column)| {
            let times = self.pass.times.iter();
            times.map(move |time| (level, row, column, *time))
        })
    }
}
