//! What was found: one row for each pattern, with what its tiles took and of which stages that is made up.

use std::time::Duration;

use serde::Serialize;

use super::pattern::Pattern;
use super::sample::Percentiles;
use crate::catalog::TileCost;
use crate::volume::hdf5::StorageDescription;

/// How much is measured for one row: whichever is reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long.
    pub time: Duration,
    /// How many tiles.
    pub tiles: usize,
}

/// What was in memory before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing: the system was told to forget the file's pages, as far as it lets a user; no chunk is kept decoded.
    Disk,
    /// The file's pages, in the system's cache; no chunk is kept decoded.
    Chunks,
    /// The same, and the chunks that these very tiles need, as far as the budget of the cache holds them.
    Warm,
}

impl State {
    /// All of them, coldest first.
    pub const ALL: [State; 3] = [State::Disk, State::Chunks, State::Warm];

    /// What was in memory, in words.
    pub fn words(self) -> &'static str {
        match self {
            State::Disk => "cold disk",
            State::Chunks => "cold chunks",
            State::Warm => "warm",
        }
    }
}

/// A level of a channel, how it is stored, and what a tile of it is said to cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Subject {
    /// The dataset.
    pub token: String,
    /// The channel.
    pub channel: String,
    /// The type of its voxels, as numpy names it.
    pub dtype: &'static str,
    /// The level.
    pub level: u8,
    /// Its extent: x, y, z.
    pub size: [u64; 3],
    /// Whether it is made of a finer level for every tile.
    pub made: bool,
    /// How the level that is read is stored: this one, or the one that it is made of.
    pub storage: Option<StorageDescription>,
    /// What one tile takes from cold, by the name of the plane.
    pub tile: std::collections::BTreeMap<&'static str, TileCost>,
}

/// What the tiles of one pattern took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The dataset.
    pub token: String,
    /// The channel.
    pub channel: String,
    /// The plane, or several joined by `+`.
    pub plane: String,
    /// The level.
    pub level: u8,
    /// The order in which tiles were asked for.
    pub pattern: Pattern,
    /// What was in memory before.
    pub state: State,
    /// How many threads drew tiles, each one of its own.
    pub threads: usize,
    /// How many were drawn; all else is told of these.
    pub tiles: usize,
    /// How many could not be.
    pub failed: usize,
    /// Tiles in a second of all threads, while they drew.
    pub tiles_per_second: f64,
    /// Millions of bytes of voxels shown in a second.
    pub voxel_mb_per_second: f64,
    /// The mean number of bytes of voxels that a tile shows.
    pub voxel_bytes: f64,
    /// The time of one tile in milliseconds.
    pub latency: Percentiles,
    /// What that is made up of.
    pub stages: Stages,
    /// What became of chunks.
    pub chunks: ChunkUse,
    /// The mean length of a tile's PNG in bytes.
    pub png_bytes: f64,
    /// The bytes that came from disks meanwhile, where the system tells.
    pub disk_bytes: Option<u64>,
}

/// What a tile takes of one thread's time on average, in milliseconds; they add up to its mean latency.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Stages {
    /// Finding out what the request means: names, level, patch, key, plan.
    pub plan: f64,
    /// Reading chunks as they are stored, and copying voxels without filters from the file's pages.
    pub read: f64,
    /// Undoing their filters.
    pub inflate: f64,
    /// Reading through the HDF5 library, filters included.
    pub library: f64,
    /// Waiting for chunks that another thread was decoding.
    pub wait: f64,
    /// Putting slices together, averaging, windows, colours.
    pub draw: f64,
    /// Encoding the PNG.
    pub encode: f64,
}

impl Stages {
    /// Each with its name.
    pub fn named(&self) -> [(&'static str, f64); 7] {
        let Self { plan, read, inflate, library, wait, draw, encode } = *self;
        [
            ("plan", plan),
            ("read", read),
            ("inflate", inflate),
            ("library", library),
            ("wait", wait),
            ("draw", draw),
            ("encode", encode),
        ]
    }

    /// All of it.
    pub fn sum(&self) -> f64 {
        self.named().iter().map(|(_, time)| time).sum()
    }
}

/// What became of chunks meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ChunkUse {
    /// Those that were read and decoded, or were never written.
    pub decoded: u64,
    /// How often one was found decoded.
    pub found: u64,
    /// The bytes that were read to decode them.
    pub stored_bytes: u64,
    /// The bytes that they came to.
    pub decoded_bytes: u64,
}

impl Row {
    /// Whether what it read came from a disk: whether it did not come from memory in spite of all.
    ///
    /// `None` where the system does not tell.
    pub fn is_from_disk(&self) -> Option<bool> {
        let from_disk = self.disk_bytes?;
        // Of voxels without filters what is read is not counted: any byte that came tells that pages were forgotten.
        Some(from_disk > self.chunks.stored_bytes / 4)
    }
}
