//! The settings, one type for each table of the configuration. They check themselves when serde
//! reads them, and together in [`check`](super::check): other modules use them without further
//! checks.
//!
//! Each type's `Default` has the defaults. The fields have the names of the keys.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::{Scaling, Xyz};
use voltile_base::name::{Name, Pattern};
use voltile_base::paint::{DatasetStyle, Kind, Number, Style, WindowRule};
use voltile_base::tile::Fingerprint;
use voltile_hdf5::store::Location;
use voltile_hdf5::store::address::Address;
use voltile_hdf5::volume::hdf5::Verify;

use super::address::BindAddress;
use super::network::Proxy;
use super::redis::RedisAddress;
use super::values;

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Settings {
    /// HTTP.
    pub server: Server,
    /// Cache sizes.
    pub cache: Caches,
    /// Rendering.
    pub render: Render,
    /// How files are opened.
    pub files: Files,
    /// The log.
    pub log: Log,
    /// Who may see which datasets. Empty: everything is public.
    pub access: Vec<AccessSettings>,
    /// The datasets served, by token.
    #[serde(deserialize_with = "values::by_token")]
    pub datasets: BTreeMap<Name, DatasetSettings>,
}

/// Protects datasets by secrets.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct AccessSettings {
    /// The file with the secrets.
    #[serde(deserialize_with = "values::secrets")]
    pub secrets: PathBuf,
    /// The datasets that the secrets open.
    #[serde(deserialize_with = "values::nonempty")]
    pub datasets: Vec<Pattern>,
}

impl Default for AccessSettings {
    fn default() -> Self {
        Self {
            secrets: PathBuf::new(),
            datasets: vec![Pattern::any()],
        }
    }
}

/// Settings of the HTTP server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Server {
    /// The addresses to listen on; `None` if not configured. See [`Server::addresses`].
    #[serde(deserialize_with = "values::bind")]
    pub bind: Option<Vec<BindAddress>>,
    /// The path of a Unix socket to listen on.
    #[serde(deserialize_with = "values::optional_path")]
    pub unix_socket: Option<PathBuf>,
    /// The permissions of the Unix socket.
    #[serde(deserialize_with = "values::permissions")]
    pub unix_socket_mode: u32,
    /// The certificate for HTTPS; `None`: HTTP.
    pub tls: Option<Tls>,
    /// HTTP threads.
    #[serde(deserialize_with = "values::threads")]
    pub workers: NonZeroUsize,
    /// The path prefix of the public address: empty, or a slash and segments without a final slash.
    #[serde(deserialize_with = "values::base_path")]
    pub base_path: String,
    /// The host names that requests may be addressed to, in lower case; empty: any.
    #[serde(deserialize_with = "values::hosts")]
    pub hosts: Vec<String>,
    /// The `Cache-Control` header of tiles: visible ASCII, not empty.
    #[serde(deserialize_with = "values::header")]
    pub cache_control: String,
    /// Whether pages may choose range, gamma and colours of tiles.
    pub adjust: bool,
    /// Whether addresses of datasets in viewers' documents are TOKEN@VERSION, whose contents never
    /// change.
    pub immutable: bool,
    /// The origins that may read responses: `*`, or `scheme://host[:port]`. Empty: no other origin.
    #[serde(deserialize_with = "values::origins")]
    pub cors_origins: Vec<String>,
    /// The address of the Neuroglancer that the page links to if none is built in: `http` or
    /// `https`, without query and fragment.
    #[serde(deserialize_with = "values::viewer")]
    pub neuroglancer: Option<String>,
    /// The public address of the folder that holds the data, with a slash at its end; `None`: no
    /// references are served.
    #[serde(deserialize_with = "values::public_folder")]
    pub references: Option<String>,
    /// The proxies that are trusted to state the client's address, and the host and scheme it used.
    pub trusted_proxies: Vec<Proxy>,
    /// How long connections are still accepted after a signal to stop, while `/readyz` is 503.
    #[serde(deserialize_with = "values::duration")]
    pub drain_delay: Duration,
    /// How long requests in flight may take to finish after that.
    #[serde(deserialize_with = "values::duration")]
    pub shutdown_timeout: Duration,
    /// The maximum number of connections; above 0. The limit of open files may allow fewer.
    #[serde(deserialize_with = "values::positive")]
    pub connections: usize,
    /// How long the head of a request may take to arrive; above 0.
    #[serde(deserialize_with = "values::timeout")]
    pub head_timeout: Duration,
    /// How long a connection may be idle; above 0.
    #[serde(deserialize_with = "values::timeout")]
    pub idle_timeout: Duration,
    /// How long a client may stop reading a response; above 0.
    #[serde(deserialize_with = "values::timeout")]
    pub write_timeout: Duration,
    /// The mounts; at least one, with distinct names.
    #[serde(deserialize_with = "values::nonempty")]
    pub mounts: Vec<Mount>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            bind: None,
            unix_socket: None,
            unix_socket_mode: 0o660,
            tls: None,
            workers: cores(),
            base_path: String::new(),
            hosts: Vec::new(),
            cache_control: "public, max-age=3600".to_owned(),
            adjust: true,
            immutable: false,
            cors_origins: vec!["*".to_owned()],
            neuroglancer: None,
            references: None,
            trusted_proxies: Vec::new(),
            drain_delay: Duration::ZERO,
            shutdown_timeout: Duration::from_secs(10),
            connections: 4096,
            head_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(60),
            mounts: vec![Mount::default()],
        }
    }
}

impl Server {
    /// The addresses to listen on. The default one is used only if there is no other socket:
    /// neither a Unix socket, nor sockets passed by the service manager.
    pub fn addresses(&self, has_passed_sockets: bool) -> Vec<BindAddress> {
        match &self.bind {
            Some(bind) => bind.clone(),
            None if has_passed_sockets || self.unix_socket.is_some() => Vec::new(),
            None => vec![BindAddress::default()],
        }
    }
}

/// The files for HTTPS, in PEM format.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Tls {
    /// The certificate, followed by the intermediate ones.
    #[serde(deserialize_with = "values::path")]
    pub certificate: PathBuf,
    /// The private key.
    #[serde(deserialize_with = "values::path")]
    pub key: PathBuf,
}

/// A path prefix under which tiles are served: `/{tile_service}/tilecache/...`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Mount {
    /// The first segment of the path.
    #[serde(deserialize_with = "values::tile_service")]
    pub tile_service: Name,
    /// The `Content-Type` of its tiles.
    pub content_type: ContentType,
    /// Whether `?color=&min=&max=&gamma=` change its tiles; otherwise query strings are ignored.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
pub enum ContentType {
    /// `application/png`, the type of the original interface.
    #[default]
    #[serde(rename = "application/png")]
    ApplicationPng,
    /// `image/png`, which CATMAID's probe requires.
    #[serde(rename = "image/png")]
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

/// Cache sizes in bytes; 0 disables a cache.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Caches {
    /// Encoded tiles in memory.
    #[serde(deserialize_with = "values::size")]
    pub tiles: usize,
    /// Decoded chunks in memory.
    #[serde(deserialize_with = "values::size")]
    pub chunks: usize,
    /// The directory of the disk cache; `None`: no disk cache.
    #[serde(deserialize_with = "values::optional_path")]
    pub directory: Option<PathBuf>,
    /// Encoded tiles in the directory of the disk cache.
    #[serde(deserialize_with = "values::size")]
    pub disk: usize,
    /// The maximum size in bytes of the chunks from object storage, still compressed, that are kept
    /// in the directory of the disk cache; 0: none.
    #[serde(deserialize_with = "values::size")]
    pub blocks: usize,
    /// The Redis server that keeps encoded tiles too; `None`: none.
    pub redis: Option<RedisAddress>,
    /// How long Redis keeps a tile; at least a second.
    #[serde(deserialize_with = "values::expiry")]
    pub redis_expiry: Duration,
    /// The folder in a bucket that keeps encoded tiles too; `None`: none. It cannot be on a web
    /// server.
    #[serde(deserialize_with = "values::bucket_folder")]
    pub store: Option<Address>,
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            tiles: 512 << 20,
            chunks: 1 << 30,
            directory: None,
            disk: 10 << 30,
            blocks: 0,
            redis: None,
            redis_expiry: Duration::from_secs(7 * 24 * 3600),
            store: None,
        }
    }
}

/// Settings of rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Render {
    /// Threads that read, draw and encode.
    #[serde(deserialize_with = "values::threads")]
    pub threads: NonZeroUsize,
    /// The maximum number of waiting renders; beyond it the response is 503.
    pub queue: usize,
    /// The maximum number of voxels read to compute one tile of a level that is not stored; above
    /// 0.
    #[serde(deserialize_with = "values::positive")]
    pub max_voxels_per_tile: u64,
    /// The maximum number of stored voxels read for one box of voxels; above 0.
    #[serde(deserialize_with = "values::positive")]
    pub max_voxels_per_box: u64,
    /// The memory for boxes of voxels that are being made or sent, in bytes.
    #[serde(deserialize_with = "values::size")]
    pub boxes: usize,
    /// The settings that decide pixels.
    #[serde(rename = "png")]
    pub style: Style,
    /// The number of slices that are prefetched ahead of a scroll while threads are idle; 0: none.
    #[serde(deserialize_with = "values::whole::<_, _, 0, 64>")]
    pub neighbours: u32,
    /// When chunks that were decoded in part are verified.
    pub verify: Verify,
    /// How long a request's render may take, waiting included; above 0.
    #[serde(deserialize_with = "values::timeout")]
    pub deadline: Duration,
}

impl Default for Render {
    fn default() -> Self {
        Self {
            threads: cores(),
            queue: 256,
            max_voxels_per_tile: 1 << 26,
            max_voxels_per_box: 1 << 26,
            boxes: 2 << 30,
            style: Style::default(),
            neighbours: 2,
            verify: Verify::default(),
            deadline: Duration::from_secs(60),
        }
    }
}

/// The log's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Log {
    /// The format of its lines.
    pub format: LogFormat,
    /// Whether every request is logged.
    pub access: bool,
    /// The time beyond which a tile is logged with the time of each stage; 0: no tile is.
    #[serde(deserialize_with = "values::duration")]
    pub slow: Duration,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            access: false,
            slow: Duration::from_secs(1),
        }
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// How HDF5 files are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Files {
    /// Whether each file is opened in a child process before it is opened in this one.
    #[serde(deserialize_with = "values::switch")]
    pub trial: bool,
    /// The total memory, in bytes, for the child processes that open files. It cannot be
    /// configured.
    #[serde(skip)]
    pub trial_memory: u64,
    /// The interval at which configuration and files are read again if they have changed; `None`:
    /// only when told to.
    #[serde(deserialize_with = "values::interval")]
    pub watch: Option<Duration>,
    /// The depth to which folders are searched for HDF5 files; 0: only their own files.
    #[serde(deserialize_with = "values::whole::<_, _, 0, 64>")]
    pub depth: usize,
    /// The facts of a file from which the keys of its tiles are made.
    pub identity: IdentityRule,
}

/// The way that keys of tiles identify a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdentityRule {
    /// Its path, inode, length and modification time.
    #[default]
    File,
    /// Its contents.
    Content,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            trial: true,
            trial_memory: 4 << 30,
            watch: None,
            depth: 4,
            identity: IdentityRule::default(),
        }
    }
}

/// One dataset.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(from = "DatasetTable")]
pub struct DatasetSettings {
    /// The file whose channels are discovered. Configured channels without a file of their own are
    /// read from it, too. Absent only if every channel has a file and a path.
    pub file: Option<Location>,
    /// The settings that decide pixels.
    pub style: DatasetStyle,
    /// Whether links may leave the directory of the file that names them.
    pub allow_external: bool,
    /// Whether its files are still being written: they are reopened when they have changed, and
    /// served in between as last seen. `None`: the SWMR flag in each file says so.
    pub growing: Option<bool>,
    /// The folder in which a search found its file, relative to the served folder; `None` if the
    /// file was given by name. A dataset that a search found is left out if it cannot be opened.
    pub found_in: Option<PathBuf>,
    /// The folder of its file, relative to the folder of the configuration; empty if the file lies
    /// outside of that folder, or is named on the command line.
    pub below: PathBuf,
    /// Identifies the rules of access that protect it; `None`: it is public.
    pub access: Option<Fingerprint>,
    /// Whether all channels are listed, including auxiliary ones, which are normally left out.
    pub lists_all: bool,
    /// Settings of channels. Empty: all as discovered.
    pub channels: BTreeMap<Name, ChannelSettings>,
}

/// The table of a dataset in the configuration, from which [`DatasetSettings`] are made.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct DatasetTable {
    #[serde(deserialize_with = "values::file")]
    file: Option<Location>,
    scaling: Option<Scaling>,
    #[serde(deserialize_with = "values::voxel_size")]
    voxel_size: Option<Xyz<f64>>,
    offset: Option<Xyz<i64>>,
    #[serde(deserialize_with = "values::orthogonal")]
    orthogonal: Option<bool>,
    #[serde(deserialize_with = "values::out_of_bounds")]
    out_of_bounds: Option<bool>,
    allow_external: bool,
    growing: Option<bool>,
    #[serde(deserialize_with = "values::by_name")]
    channels: BTreeMap<Name, ChannelSettings>,
}

impl From<DatasetTable> for DatasetSettings {
    fn from(table: DatasetTable) -> Self {
        let default = DatasetStyle::default();
        let style = DatasetStyle {
            scaling: table.scaling.unwrap_or(default.scaling),
            offset: table.offset.unwrap_or(default.offset),
            voxel_size: table.voxel_size,
            square_pixels: table.orthogonal.unwrap_or(default.square_pixels),
            not_found_outside: table.out_of_bounds.unwrap_or(default.not_found_outside),
        };
        Self {
            file: table.file,
            style,
            allow_external: table.allow_external,
            growing: table.growing,
            channels: table.channels,
            ..Self::default()
        }
    }
}

impl DatasetSettings {
    /// A file without further settings.
    pub fn of_file(file: impl Into<Location>) -> Self {
        Self {
            file: Some(file.into()),
            ..Self::default()
        }
    }
}

/// One channel: a new one if it has a path or levels; otherwise it modifies the discovered channel
/// of its name.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ChannelSettings {
    /// The HDF5 dataset.
    #[serde(deserialize_with = "values::optional_path")]
    pub path: Option<String>,
    /// The file that holds it; `None`: [`DatasetSettings::file`].
    #[serde(deserialize_with = "values::file")]
    pub file: Option<Location>,
    /// An explicit pyramid, finest first. If there is one, its first level takes the place of
    /// `path`.
    #[serde(deserialize_with = "values::nonempty")]
    pub levels: Vec<LevelSettings>,
    /// The axes as stored, slowest first; y and x are among them.
    #[serde(deserialize_with = "values::axes")]
    pub axes: Option<Axes>,
    /// For each axis that is not served, the position at which it is read; never y or x.
    #[serde(deserialize_with = "values::index")]
    pub index: BTreeMap<AxisName, u64>,
    /// How the window is determined.
    #[serde(deserialize_with = "values::window")]
    pub window: Option<WindowRule>,
    /// The kind of data that the voxels hold.
    pub kind: Option<Kind>,
    /// Where the channel's first voxel lies within the dataset: x, y, z in voxels of the dataset's
    /// first channel.
    pub offset: Option<Xyz<i64>>,
    /// The values that stand for missing data.
    #[serde(deserialize_with = "values::numbers")]
    pub missing: Option<Vec<Number>>,
    /// Whether values are served as stored instead of the values that they stand for, for example
    /// without the scale and offset that the file states.
    pub stored_values: bool,
    /// The table with names and properties of labels.
    pub names: Option<NamesSettings>,
}

/// Where the names and properties of labels are: a text file, or a table in the channel's HDF5
/// file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a path in quotes")]
pub struct NamesSettings {
    /// The CSV or TSV file.
    #[serde(deserialize_with = "values::optional_path")]
    pub file: Option<PathBuf>,
    /// The compound dataset, or the group of datasets of equal length.
    #[serde(deserialize_with = "values::optional_path")]
    pub path: Option<String>,
    /// The column of ids; `None`: one that has a usual name.
    #[serde(deserialize_with = "values::optional_path")]
    pub id: Option<String>,
    /// The column of names; `None`: one that has a usual name, if there is one.
    #[serde(deserialize_with = "values::optional_path")]
    pub name: Option<String>,
}

/// One level of an explicit pyramid.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a path in quotes")]
pub struct LevelSettings {
    /// The HDF5 dataset.
    #[serde(deserialize_with = "values::path")]
    pub path: String,
    /// The downsample factor relative to the first level, above 0; `None`: derived from the sizes.
    #[serde(deserialize_with = "values::factor")]
    pub factor: Option<Xyz<u64>>,
}

fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
