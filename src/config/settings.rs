//! The settings as meant: what every other module may rely on without checking again.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::address::BindAddress;
use super::network::Network;
use crate::axes::{Axes, AxisName};
use crate::geometry::{Scaling, Xyz};
use crate::name::Name;
use crate::paint::{Kind, PngProfile, WindowRule};

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// What concerns HTTP.
    pub server: Server,
    /// What the caches may take.
    pub cache: Caches,
    /// How tiles are made.
    pub render: Render,
    /// How files are opened.
    pub files: Files,
    /// What is served, by token.
    pub datasets: BTreeMap<Name, DatasetSettings>,
}

/// What concerns HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Where to listen.
    pub bind: BindAddress,
    /// HTTP threads.
    pub workers: NonZeroUsize,
    /// The `Cache-Control` header of tiles: visible ASCII, not empty.
    pub cache_control: String,
    /// The origins that may read answers: `*`, or `scheme://host[:port]`. None: no page of another origin may.
    pub cors_origins: Vec<String>,
    /// The proxies whose word is taken for who asks, and by which host and scheme.
    pub trusted_proxies: Vec<Network>,
    /// How long requests in flight may take to end once the server is told to stop.
    pub shutdown_timeout: Duration,
    /// The most connections; above 0. The limit of open files may allow fewer.
    pub connections: usize,
    /// The most connections of one client's address; above 0.
    pub connections_for_each_client: usize,
    /// How long the head of a request may take to arrive; above 0.
    pub head_timeout: Duration,
    /// How long a connection may be without a request; above 0.
    pub idle_timeout: Duration,
    /// How long a client may read nothing of an answer; above 0.
    pub write_timeout: Duration,
    /// Below which paths tiles are served; at least one, each of another name.
    pub mounts: Vec<Mount>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            bind: BindAddress::default(),
            workers: cores(),
            cache_control: "public, max-age=3600".to_owned(),
            cors_origins: vec!["*".to_owned()],
            trusted_proxies: Vec::new(),
            shutdown_timeout: Duration::from_secs(10),
            connections: 4096,
            connections_for_each_client: 512,
            head_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(60),
            mounts: vec![Mount::default()],
        }
    }
}

/// A path below which tiles are served: `/{tile_service}/tilecache/...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The first segment of the path.
    pub tile_service: Name,
    /// What its tiles are said to be.
    pub content_type: ContentType,
    /// Whether `?color=&min=&max=&gamma=` change its tiles; else query strings mean nothing.
    pub adjustable: bool,
}

impl Default for Mount {
    fn default() -> Self {
        Self {
            tile_service: Name::nearest("ndtilecache"),
            content_type: ContentType::default(),
            adjustable: false,
        }
    }
}

/// The `Content-Type` of tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ContentType {
    /// `application/png`, as the interface has it.
    #[default]
    ApplicationPng,
    /// `image/png`, which CATMAID's probe wants.
    ImagePng,
}

impl ContentType {
    /// The header's value.
    pub fn name(self) -> &'static str {
        match self {
            ContentType::ApplicationPng => "application/png",
            ContentType::ImagePng => "image/png",
        }
    }
}

/// What the caches may take, in bytes; 0 keeps nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caches {
    /// Encoded tiles in memory.
    pub tiles: usize,
    /// Decoded chunks in memory.
    pub chunks: usize,
    /// Where encoded tiles are kept over restarts; nowhere, if absent.
    pub directory: Option<PathBuf>,
    /// Encoded tiles in that directory.
    pub disk: usize,
}

impl Default for Caches {
    fn default() -> Self {
        Self { tiles: 512 << 20, chunks: 1 << 30, directory: None, disk: 10 << 30 }
    }
}

/// How tiles are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Render {
    /// Threads that read, draw and encode.
    pub threads: NonZeroUsize,
    /// Waiting renders beyond which the answer is 503.
    pub queue: usize,
    /// The most voxels that may be read to make one tile of a level that is not stored; above 0.
    pub max_voxels_per_tile: u64,
    /// How tiles are encoded.
    pub png: PngProfile,
    /// How many slices are rendered ahead of a scroll while threads are idle; 0 for none.
    pub neighbours: u32,
    /// When chunks that were decoded in part are verified.
    pub verify: Verify,
}

/// When the checksums of chunks are compared of which only the beginning is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// While render threads are idle: such chunks are decoded whole then.
    #[default]
    Idle,
    /// Before anything is shown: every chunk is decoded whole at once.
    Always,
    /// Not until more of the chunk is wanted.
    Never,
}

impl Verify {
    /// Every choice by its name in the configuration.
    pub(super) const NAMES: [(&'static str, Verify); 3] =
        [("idle", Verify::Idle), ("always", Verify::Always), ("never", Verify::Never)];
}

impl Default for Render {
    fn default() -> Self {
        Self {
            threads: cores(),
            queue: 256,
            max_voxels_per_tile: 1 << 26,
            png: PngProfile::Fast,
            neighbours: 2,
            verify: Verify::default(),
        }
    }
}

/// How HDF5 files are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Files {
    /// Whether each is opened in a child process before it is opened in this one.
    pub trial: bool,
}

impl Default for Files {
    fn default() -> Self {
        Self { trial: true }
    }
}

/// One dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetSettings {
    /// The file whose channels are discovered, and which channels without a file of their own are read from.
    /// Absent only where every channel names its file and its path.
    pub file: Option<PathBuf>,
    /// What halving a level does to z.
    pub scaling: Scaling,
    /// The size of a voxel of level 0 in nanometres, finite and above 0; overrides what the file says.
    pub voxel_size: Option<Xyz<f64>>,
    /// What slice numbers begin at, in voxels of level 0; absent means 0.
    pub offset: Option<Xyz<i64>>,
    /// Whether xz and yz tiles are drawn with square pixels where the size of a voxel is known.
    pub square_pixels: bool,
    /// Whether a tile wholly outside is 404 instead of black.
    pub not_found_outside: bool,
    /// Whether links may leave the directory of the file that names them.
    pub allow_external: bool,
    /// Whether an instrument is writing its files: they are reopened every two seconds, and served meanwhile as they were.
    pub growing: bool,
    /// What is said of channels. Empty: all as discovered.
    pub channels: BTreeMap<Name, ChannelSettings>,
}

impl Default for DatasetSettings {
    fn default() -> Self {
        Self {
            file: None,
            scaling: Scaling::default(),
            voxel_size: None,
            offset: None,
            square_pixels: true,
            not_found_outside: false,
            allow_external: false,
            growing: false,
            channels: BTreeMap::new(),
        }
    }
}

impl DatasetSettings {
    /// A file of which nothing more is said.
    pub fn of_file(file: PathBuf) -> Self {
        Self { file: Some(file), ..Self::default() }
    }
}

/// One channel: a new one where it has a path or levels, else what differs from the discovered one of that name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChannelSettings {
    /// The HDF5 dataset.
    pub path: Option<String>,
    /// Where it is not the dataset's own file.
    pub file: Option<PathBuf>,
    /// An explicit pyramid, finest first. Where there is one, its first level stands for `path`.
    pub levels: Vec<LevelSettings>,
    /// The axes as stored, slowest first; y and x are among them.
    pub axes: Option<Axes>,
    /// Positions along axes that are not served; never y or x.
    pub index: BTreeMap<AxisName, u64>,
    /// How to find the window.
    pub window: Option<WindowRule>,
    /// What the numbers mean.
    pub kind: Option<Kind>,
}

/// One level of an explicit pyramid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelSettings {
    /// The HDF5 dataset.
    pub path: String,
    /// By how much it is reduced against the first, above 0; else to be told from the sizes.
    pub factor: Option<Xyz<u64>>,
}

fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
