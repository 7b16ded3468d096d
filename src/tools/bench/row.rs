//! The results: one row per pattern, with the time of its tiles and its breakdown into stages.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::pattern::Course;
use super::sample::Percentiles;
use super::server_work::{ReadTimes, ServerWork};
use crate::base::description::StorageDescription;
use crate::catalog::TileCost;
use crate::store::Location;

/// How much is measured for one row; the first limit that is reached ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The measured time.
    pub time: Duration,
    /// The number of tiles.
    pub tiles: usize,
}

/// What was in memory before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing: the file's pages were dropped from the page cache if the system permits; no chunk
    /// is cached.
    Disk,
    /// The file's pages, in the page cache; no chunk is cached.
    Chunks,
    /// The file's pages, and the decoded chunks that these tiles need, if they fit into the budget
    /// of the chunk cache.
    Warm,
}

impl State {
    /// All states, coldest first: the name of each on the command line, and what it is.
    pub const ALL: &'static [(State, &'static str, &'static str)] = &[
        (
            State::Disk,
            "disk",
            "Nothing: the file's pages were dropped from the page cache if the system permits; no chunk is cached",
        ),
        (
            State::Chunks,
            "chunks",
            "The file's pages, in the page cache; no chunk is cached",
        ),
        (
            State::Warm,
            "warm",
            "The file's pages, and the decoded chunks that these tiles need, if they fit into the budget of the chunk cache",
        ),
    ];

    /// What was in memory, in words.
    pub fn words(self) -> &'static str {
        match self {
            State::Disk => "cold disk",
            State::Chunks => "cold chunks",
            State::Warm => "warm",
        }
    }
}

/// A level of a channel, its storage, and the calculated cost of one of its tiles.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Subject {
    /// The dataset.
    pub token: String,
    /// The channel.
    pub channel: String,
    /// The type of its voxels, as numpy names it.
    pub dtype: String,
    /// The level.
    pub level: u8,
    /// Its extent: x, y, z.
    pub size: [u64; 3],
    /// Whether it is computed from a finer level for every tile.
    #[serde(rename = "made")]
    pub derived: bool,
    /// The storage of the level that is read: this one, or the one it is computed from.
    pub storage: Option<StorageDescription>,
    /// What one tile costs from cold, by plane name.
    pub tile: BTreeMap<&'static str, TileCost>,
    /// The file.
    #[serde(skip)]
    pub file: Location,
}

/// The measurements of one pattern.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its tiles.
    #[serde(flatten)]
    pub course: Course,
    /// What was in memory before.
    pub state: State,
    /// The number of threads, each of which draws one tile at a time.
    pub threads: usize,
    /// The number of tiles drawn; everything else refers to these.
    pub tiles: usize,
    /// The number of tiles that failed.
    pub failed: usize,
    /// Tiles per second, all threads together, while they drew.
    pub tiles_per_second: f64,
    /// Megabytes (10^6) of displayed voxels per second.
    pub voxel_mb_per_second: f64,
    /// The mean number of bytes of voxels that a tile shows.
    pub voxel_bytes: f64,
    /// The time of one tile in milliseconds.
    pub latency: Percentiles,
    /// Its breakdown.
    pub stages: Stages,
    /// Use of the chunk cache.
    pub chunks: ChunkUse,
    /// The mean length of a tile's PNG in bytes.
    pub png_bytes: f64,
    /// The bytes read from disk meanwhile, if the system reports them.
    pub disk_bytes: Option<u64>,
}

/// Mean time per tile of one thread, in milliseconds; the stages add up to the mean latency.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Stages {
    /// Resolving the request: names, level, patch, key, plan.
    pub plan: f64,
    /// Getting at the voxels.
    #[serde(flatten)]
    pub reading: ReadTimes,
    /// Assembling slices, averaging, windows, colours.
    pub draw: f64,
    /// Encoding the PNG.
    pub encode: f64,
}

impl Stages {
    /// The total.
    pub fn sum(&self) -> f64 {
        self.plan + self.reading.sum() + self.draw + self.encode
    }
}

/// Use of the chunk cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ChunkUse {
    /// Chunks read and decoded, or found never to have been written.
    pub decoded: u64,
    /// How often a chunk was found decoded.
    pub found: u64,
    /// Stored bytes that were read.
    pub stored_bytes: u64,
    /// Their decoded size in bytes.
    pub decoded_bytes: u64,
}

impl Row {
    /// Whether the bytes came from disk, or from memory after all. `None` if the system does not
    /// report it.
    pub fn is_from_disk(&self) -> Option<bool> {
        let from_disk = self.disk_bytes?;
        // Reads of unfiltered voxels are not counted; any byte from disk then shows that pages had
        // been dropped.
        Some(from_disk > self.chunks.stored_bytes / 4)
    }
}

/// Whether the tiles were requested before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    /// Not by us.
    First,
    /// Just before: the server may have cached them.
    Again,
}

impl Turn {
    /// `first` or `again`.
    pub fn name(self) -> &'static str {
        match self {
            Turn::First => "first",
            Turn::Again => "again",
        }
    }
}

/// The result of requesting the tiles of one pattern.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RemoteRow {
    /// Its tiles.
    #[serde(flatten)]
    pub course: Course,
    /// Whether they were requested just before.
    pub turn: Turn,
    /// The number of connections, each with one request at a time.
    pub clients: usize,
    /// The number of requests sent.
    pub requests: u64,
    /// The number of responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// The number of requests without a response, or with a broken one.
    pub unanswered: u64,
    /// Tiles (responses with status 200) per second.
    pub tiles_per_second: f64,
    /// Megabytes (10^6) of PNGs per second.
    pub mb_per_second: f64,
    /// The mean length of a PNG in bytes.
    pub png_bytes: f64,
    /// The time from a request to the last byte of a tile, in milliseconds.
    pub latency: Percentiles,
    /// The total time in seconds.
    pub seconds: f64,
    /// The processor time of this client per request, in microseconds: sending it, receiving its
    /// response, counting.
    pub client_micros: f64,
    /// What the server reports to have done meanwhile, for all its clients.
    pub server: Option<ServerWork>,
    /// Why the first few failed requests failed.
    pub problems: Vec<String>,
}

impl RemoteRow {
    /// Requests that returned no tile.
    pub fn failed(&self) -> u64 {
        self.requests - self.statuses.get(&200).copied().unwrap_or(0)
    }
}
