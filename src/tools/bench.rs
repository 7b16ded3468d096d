//! Measures how many tiles of a channel this machine draws in a second, and how long each stage of
//! a tile takes.
//!
//! Tiles are drawn in this process as a server draws them: catalogue, plan, voxels, PNG. The stages
//! come from the trace that every request has. No tile is kept.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use parking_lot::Mutex;
use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};
use serde::Serialize;
use voltile_base::description::{ChannelDescription, DatasetDescription, LevelDescription};
use voltile_base::flow::activity::Place;
use voltile_base::flow::trace::{Stage, Trace};
use voltile_base::geometry::{Level, Plane, TILE, TileAddress, Xyz};
use voltile_base::name::Name;
use voltile_base::request::{ChannelChoice, TileRequest};
use voltile_base::text::joined;
use voltile_hdf5::volume::ReadPolicy;
use voltile_render::{RenderError, Scratch};

use crate::catalog::{Catalog, NotFound};

/// Number of slices that a scroll passes before it goes elsewhere: the usual depth of a chunk.
const SCROLL_LENGTH: u64 = 64;

/// The order in which tiles are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TilePattern {
    /// Tiles anywhere in the level: no chunk is found decoded.
    Random,
    /// Neighbouring slices at one place, up or down: they share chunks, which are decoded once.
    Scroll,
}

impl TilePattern {
    /// Both patterns, in the order of the table.
    pub const ALL: [TilePattern; 2] = [TilePattern::Random, TilePattern::Scroll];

    /// The name in the results.
    pub fn name(self) -> &'static str {
        match self {
            TilePattern::Random => "random",
            TilePattern::Scroll => "scroll",
        }
    }
}

/// The tiles of one level of a channel in one plane.
#[derive(Debug, Clone, PartialEq)]
pub struct TileGrid {
    token: Name,
    channel: Name,
    plane: Plane,
    level: Level,
    /// The numbers of the slices, as in URLs. None of the three ranges is empty.
    slices: Range<u64>,
    rows: Range<u64>,
    columns: Range<u64>,
}

/// The level of a channel that is measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchSubject {
    /// The dataset.
    pub token: String,
    /// The channel.
    pub channel: String,
    /// The level.
    pub level: u8,
    /// Its extent: x, y, z.
    pub size: [u64; 3],
    /// The type of its voxels, as numpy names it.
    pub dtype: String,
    /// Its tiles in each plane.
    #[serde(skip)]
    pub grids: Vec<TileGrid>,
}

/// The measurements of one plane and pattern.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchRow {
    /// The plane.
    pub plane: &'static str,
    /// The order of the tiles: the name of a [`TilePattern`].
    pub pattern: &'static str,
    /// The number of tiles that one thread drew.
    pub tiles: u64,
    /// The mean times of the tiles that one thread drew.
    pub stages: StageTimes,
    /// Tiles per second on one thread.
    pub tiles_per_second: f64,
    /// Tiles per second on all threads.
    pub tiles_per_second_all: f64,
}

/// Mean milliseconds of a tile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct StageTimes {
    /// Reading stored bytes, or reading and decoding through the HDF5 library.
    pub read: f64,
    /// Decoding chunks.
    pub inflate: f64,
    /// Slicing, averaging, windowing, colouring.
    pub draw: f64,
    /// Encoding the PNG.
    pub encode: f64,
}

impl StageTimes {
    /// The stages by name, in the order in which a tile passes them.
    pub fn by_name(self) -> [(&'static str, f64); 4] {
        [
            ("read", self.read),
            ("inflate", self.inflate),
            ("draw", self.draw),
            ("encode", self.encode),
        ]
    }
}

/// The stage that takes most of a tile's time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Its name.
    pub stage: &'static str,
    /// Its share of a tile's time, from 0 to 1: the mean of all rows.
    pub share: f64,
}

/// Why a row could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A tile was not found.
    #[error(transparent)]
    Tile(#[from] NotFound),
    /// A tile could not be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The threads could not be started.
    #[error(transparent)]
    Threads(#[from] ThreadPoolBuildError),
}

impl BenchSubject {
    /// A level of the named channel; by default of the first channel that holds intensities in the
    /// first dataset.
    ///
    /// # Errors
    /// If a name or the level does not exist, with a list of the existing ones.
    pub fn choose(
        datasets: &[DatasetDescription],
        token: Option<&Name>,
        channel: Option<&Name>,
        level: u8,
    ) -> Result<Self, String> {
        let dataset = datasets
            .iter()
            .find(|dataset| token.is_none_or(|token| token.as_str() == dataset.token))
            .ok_or_else(|| {
                let known = datasets.iter().map(|dataset| &dataset.token);
                no_such("dataset", token, &joined(known))
            })?;
        let channels = &dataset.channels;
        let chosen = match channel {
            Some(name) => dataset.channel(name.as_str()),
            None => channels
                .iter()
                .find(|channel| channel.kind == "image")
                .or(channels.first()),
        };
        let chosen = chosen.ok_or_else(|| {
            let known = channels.iter().map(|channel| &channel.name);
            no_such("channel", channel, &joined(known))
        })?;
        let described = chosen.level(level).ok_or_else(|| {
            let last = chosen.levels.last().map_or(0, |level| level.level);
            let name = &chosen.name;
            format!("the channel {name} has the levels 0 to {last}; there is no {level}")
        })?;
        let grids: Vec<TileGrid> = Plane::ALL
            .into_iter()
            .filter_map(|plane| TileGrid::new(dataset, chosen, described, plane))
            .collect();
        if grids.is_empty() {
            return Err(format!(
                "level {level} of the channel {} has no tiles: it is not stored, and deriving one \
                 tile would read too much; store its levels with `voltile pyramid`",
                chosen.name
            ));
        }
        Ok(Self {
            token: dataset.token.clone(),
            channel: chosen.name.clone(),
            level,
            size: described.size,
            dtype: chosen.dtype.clone(),
            grids,
        })
    }
}

fn no_such(what: &str, name: Option<&Name>, known: &str) -> String {
    let name = name.map_or("", Name::as_str);
    format!("there is no {what} {name}; the {what}s are {known}")
}

impl TileGrid {
    /// The tiles of a level in a plane; `None` if there are none.
    fn new(
        dataset: &DatasetDescription,
        channel: &ChannelDescription,
        level: &LevelDescription,
        plane: Plane,
    ) -> Option<Self> {
        if !level.is_offered(plane) {
            return None;
        }
        let size = Xyz::from(level.size);
        let grid_end = channel.end(level);
        let [columns, rows] = level.drawn[plane as usize];
        // Slices with negative numbers cannot be requested.
        let Range { start, end } = dataset.slices(channel, level, plane);
        let slices = start.max(0).cast_unsigned()..end.max(0).cast_unsigned();
        let row_axis = plane.row_axis();
        let column_axis = plane.column_axis();
        let grid = Self {
            token: Name::new(&dataset.token).ok()?,
            channel: Name::new(&channel.name).ok()?,
            plane,
            level: Level::new(level.level.into())?,
            slices,
            rows: tile_range(rows, size[row_axis], grid_end[row_axis]),
            columns: tile_range(columns, size[column_axis], grid_end[column_axis]),
        };
        let is_empty = grid.slices.is_empty() || grid.rows.is_empty() || grid.columns.is_empty();
        (!is_empty).then_some(grid)
    }

    /// Tiles to draw in sequence: one tile at random, or the tiles of a scroll.
    fn tile_run(&self, pattern: TilePattern, random: &mut Rng) -> Vec<TileRequest> {
        let length = match pattern {
            TilePattern::Random => 1,
            TilePattern::Scroll => SCROLL_LENGTH.min(self.slices.end - self.slices.start),
        };
        let row = random.u64(self.rows.clone());
        let column = random.u64(self.columns.clone());
        let first = random.u64(self.slices.start..=self.slices.end - length);
        let mut tiles: Vec<TileRequest> = (first..first + length)
            .map(|slice| self.request(slice, row, column))
            .collect();
        if random.bool() {
            tiles.reverse();
        }
        tiles
    }

    fn request(&self, slice: u64, row: u64, column: u64) -> TileRequest {
        TileRequest {
            token: self.token.clone().into(),
            channels: ChannelChoice::One(self.channel.clone()),
            time: None,
            address: TileAddress {
                plane: self.plane,
                level: self.level,
                slice,
                row,
                column,
            },
            slab: None,
            adjust: Vec::new(),
        }
    }
}

/// The rows or columns of tiles that show a level of `size` voxels. In the grid of tiles, the level
/// ends before the voxel `end`, and `drawn` pixels lie before this end. For example, the last 900
/// of 2000 voxels are drawn as the pixels 1100 to 1999, in the tiles 2 and 3.
fn tile_range(drawn: u64, size: u64, end: u64) -> Range<u64> {
    let start = end.saturating_sub(size);
    let pixels_before = u128::from(start) * u128::from(drawn) / u128::from(end.max(1));
    let tile = TILE as u64;
    let first = pixels_before as u64 / tile;
    first..drawn.div_ceil(tile)
}

/// One thread's buffers, and counts of the tiles that it drew.
#[derive(Default)]
struct Drawer {
    scratch: Scratch,
    random: Rng,
    trace: Arc<Trace>,
    tiles: u64,
    time: Duration,
}

impl Drawer {
    fn new(seed: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            ..Self::default()
        }
    }

    /// Draws a run of tiles; stops after a tile once the deadline is reached.
    fn draw(
        &mut self,
        catalog: &Catalog,
        grid: &TileGrid,
        pattern: TilePattern,
        deadline: Instant,
    ) -> Result<(), BenchError> {
        for tile in grid.tile_run(pattern, &mut self.random) {
            let began = Instant::now();
            let planned = black_box(catalog.plan_tile(&tile)?);
            let policy = ReadPolicy {
                trace: Some(Arc::clone(&self.trace)),
                ..ReadPolicy::default()
            };
            black_box(planned.subject.render(&policy, &mut self.scratch)?);
            self.time += began.elapsed();
            self.tiles += 1;
            if Instant::now() >= deadline {
                break;
            }
        }
        Ok(())
    }

    fn tiles_per_second(&self) -> f64 {
        self.tiles as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The mean time of a stage, in milliseconds per tile.
    fn milliseconds(&self, stage: Stage) -> f64 {
        1e3 * self.trace.stage(stage).as_secs_f64() / self.tiles.max(1) as f64
    }
}

/// Determines the channel's window and reads the chunk index, as the first request to a server
/// does.
///
/// # Errors
/// If the first tile cannot be rendered.
pub fn prepare(catalog: &Catalog, subject: &BenchSubject) -> Result<(), BenchError> {
    for grid in &subject.grids {
        let first = grid.request(grid.slices.start, grid.rows.start, grid.columns.start);
        for channel in catalog.plan_tile(&first)?.unmeasured {
            let survey = channel.survey().map_err(RenderError::from)?;
            channel.keep(&Arc::new(survey));
        }
        let planned = catalog.plan_tile(&first)?;
        let policy = ReadPolicy::default();
        black_box(planned.subject.render(&policy, &mut Scratch::default())?);
    }
    Ok(())
}

/// Measures one row of the table: on one thread for half of `time`, then on all threads.
///
/// # Errors
/// If a tile cannot be rendered, or threads cannot be started.
pub fn measure(
    catalog: &Catalog,
    grid: &TileGrid,
    pattern: TilePattern,
    threads: usize,
    time: Duration,
) -> Result<BenchRow, BenchError> {
    let mut alone = [Drawer::new(0)];
    let mut together: Vec<Drawer> = (1..=threads as u64).map(Drawer::new).collect();
    for drawers in [&mut alone[..], &mut together] {
        draw_on_threads(catalog, grid, pattern, drawers, time / 2)?;
    }
    let [alone] = alone;
    Ok(BenchRow {
        plane: grid.plane.name(),
        pattern: pattern.name(),
        tiles: alone.tiles,
        stages: StageTimes {
            read: alone.milliseconds(Stage::Read),
            inflate: alone.milliseconds(Stage::Decode),
            draw: alone.milliseconds(Stage::Draw),
            encode: alone.milliseconds(Stage::Encode),
        },
        tiles_per_second: alone.tiles_per_second(),
        tiles_per_second_all: together.iter().map(Drawer::tiles_per_second).sum(),
    })
}

/// Draws tiles in rounds until the time is up. In a round each drawer draws one run of tiles on a
/// thread of its own. Before each round, the decoded chunks are dropped.
fn draw_on_threads(
    catalog: &Catalog,
    grid: &TileGrid,
    pattern: TilePattern,
    drawers: &mut [Drawer],
    time: Duration,
) -> Result<(), BenchError> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(drawers.len())
        .build()?;
    // Each drawer counts as busy all the time, so that no other thread helps it.
    let activity = catalog.chunks().activity();
    let _places: Vec<Place> = drawers.iter().map(|_| activity.enter()).collect();
    let drawers: Vec<Mutex<&mut Drawer>> = drawers.iter_mut().map(Mutex::new).collect();
    let deadline = Instant::now() + time;
    loop {
        catalog.chunks().clear();
        let round = pool.broadcast(|thread| {
            let mut drawer = drawers[thread.index()].lock();
            drawer.draw(catalog, grid, pattern, deadline)
        });
        round.into_iter().collect::<Result<(), _>>()?;
        if Instant::now() >= deadline {
            return Ok(());
        }
    }
}

/// The stage that takes most of a tile's time, in the mean of all rows.
pub fn bottleneck(rows: &[BenchRow]) -> Bottleneck {
    let mut shares = StageTimes::default().by_name();
    for row in rows {
        let times = row.stages.by_name();
        let total: f64 = times.iter().map(|(_, time)| time).sum();
        for ((_, share), (_, time)) in shares.iter_mut().zip(times) {
            *share += time / (total * rows.len() as f64);
        }
    }
    let [(stage, share), rest @ ..] = shares;
    let mut worst = Bottleneck { stage, share };
    for (stage, share) in rest {
        if share > worst.share {
            worst = Bottleneck { stage, share };
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(read: f64, inflate: f64, encode: f64) -> BenchRow {
        let stages = StageTimes {
            read,
            inflate,
            draw: 0.5,
            encode,
        };
        BenchRow {
            plane: "xy",
            pattern: TilePattern::Random.name(),
            tiles: 1,
            stages,
            tiles_per_second: 1.0,
            tiles_per_second_all: 1.0,
        }
    }

    #[test]
    fn every_row_counts_alike_for_the_bottleneck() {
        let found = bottleneck(&[row(0.0, 0.0, 0.5), row(0.0, 0.0, 0.5), row(0.0, 99.5, 0.0)]);
        assert_eq!(found.stage, "draw");
        assert!(
            (found.share - (0.5 + 0.5 + 0.005) / 3.0).abs() < 1e-9,
            "{found:?}"
        );
        assert_eq!(bottleneck(&[row(3.0, 1.0, 0.0)]).stage, "read");
    }

    #[test]
    fn tiles_before_the_first_voxel_are_left_out() {
        assert_eq!(tile_range(1024, 1024, 1024), 0..2);
        assert_eq!(tile_range(1025, 1025, 1025), 0..3);
        assert_eq!(tile_range(2000, 900, 2000), 2..4);
        // Square pixels, four rows to a voxel.
        assert_eq!(tile_range(4000, 500, 1000), 3..8);
    }

    #[test]
    fn runs_stay_within_and_are_the_same_again() {
        let grid = TileGrid {
            token: Name::new("a").unwrap(),
            channel: Name::new("raw").unwrap(),
            plane: Plane::Xz,
            level: Level::FULL,
            slices: 5..105,
            rows: 0..1,
            columns: 2..4,
        };
        let runs = |pattern, seed| -> Vec<Vec<TileRequest>> {
            let mut random = Rng::with_seed(seed);
            (0..20)
                .map(|_| grid.tile_run(pattern, &mut random))
                .collect()
        };
        for pattern in TilePattern::ALL {
            assert_eq!(runs(pattern, 1), runs(pattern, 1));
            assert_ne!(runs(pattern, 1), runs(pattern, 2));
            for tile in runs(pattern, 1).iter().flatten() {
                assert!(grid.slices.contains(&tile.address.slice), "{tile}");
                assert!(grid.columns.contains(&tile.address.column), "{tile}");
            }
        }
        assert!(
            runs(TilePattern::Random, 1)
                .iter()
                .all(|run| run.len() == 1)
        );
        for run in runs(TilePattern::Scroll, 1) {
            assert_eq!(run.len(), 64);
            let [one, next] = [run[0].address, run[1].address];
            assert_eq!(one.slice.abs_diff(next.slice), 1);
            assert_eq!((one.row, one.column), (next.row, next.column));
        }
    }
}
