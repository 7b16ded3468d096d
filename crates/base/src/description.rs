//! The JSON of `/datasets.json` and `/datasets/TOKEN.json`, as plain data for servers and clients.
//!
//! A server's catalogue builds it, and `voltile warm` and `voltile bench` read it. The server may
//! be of another version: unknown fields are ignored, an absent `Option` is `None`, and values
//! of a fixed set ([`ChannelDescription::kind`]) are strings, since a later version may add some.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::notice::{Notice, NoticeCount};
use super::timing::Timing;
use crate::geometry::{Plane, Xyz, at_level};

/// Everything that is served: mounts, datasets, caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SiteDescription {
    /// The version of the server.
    pub version: String,
    /// The paths below which tiles are served.
    pub mounts: Vec<MountDescription>,
    /// All datasets, sorted by token. The windows of their channels are absent until they have been
    /// measured.
    pub datasets: Vec<DatasetDescription>,
    /// The sizes of the caches.
    pub caches: CachesDescription,
    /// The number of render threads.
    pub threads: usize,
    /// When the server was started, in milliseconds since 1970.
    pub started: u64,
    /// The address of Neuroglancer; that of the built-in one is relative to the address of this
    /// document. Absent if there is no Neuroglancer.
    #[serde(default)]
    pub neuroglancer: Option<String>,
    /// Whether `/view/` draws tiles with a range, gamma and colours of the client's choice.
    #[serde(default)]
    pub adjust: bool,
    /// Whether there may be datasets that the request does not see, because it did not send their
    /// secret.
    #[serde(default)]
    pub protected: bool,
}

/// `/livez`: the process answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LivenessDescription {
    /// Always `ok`.
    pub status: String,
}

/// `/readyz`: whether requests should be sent to this server. With status 503 they should not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadinessDescription {
    /// `ready`, `draining` or `nothing can be served`.
    pub status: String,
    /// The number of datasets that this request may see.
    pub datasets: usize,
    /// How many notices there are about their data.
    #[serde(default)]
    pub noticed: NoticeCount,
    /// The problems, each with what it concerns; everything else is served.
    pub problems: Vec<ProblemDescription>,
}

/// Something that is wrong with what is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemDescription {
    /// `dataset`, `configuration`, `files`, `store`, `cache.directory`, `cache.redis` or
    /// `cache.store`.
    pub part: String,
    /// The token, if it is the problem of a dataset.
    pub dataset: Option<String>,
    /// The problem, in words.
    pub problem: String,
}

/// The budgets of caches, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CachesDescription {
    /// Encoded tiles in memory.
    pub tiles: usize,
    /// Decoded chunks in memory.
    pub chunks: usize,
    /// Encoded tiles on disk, which survive a restart; absent if there is no disk cache.
    pub disk: Option<usize>,
}

/// A path prefix of tiles: `/{tile_service}/tilecache/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MountDescription {
    /// The first segment of the path.
    pub tile_service: String,
    /// The `Content-Type` of its tiles.
    pub content_type: String,
    /// Whether it accepts `?color=&min=&max=&gamma=`.
    pub adjustable: bool,
}

/// Description of a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DatasetDescription {
    /// The token.
    pub token: String,
    /// The version: addresses that begin with TOKEN@VERSION instead of TOKEN never change their
    /// content. Absent if it is live.
    #[serde(default)]
    pub version: Option<String>,
    /// Whether its file is being written: it grows.
    #[serde(default)]
    pub live: bool,
    /// The beginning of addresses in documents: the token, or TOKEN@VERSION if so configured.
    #[serde(default)]
    pub address: Option<String>,
    /// The path of its file's folder below a served folder, empty for that folder itself; absent
    /// for a file that was named.
    #[serde(default)]
    pub folder: Option<String>,
    /// The length of its files together, in bytes; absent for files in stores.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// When the last of its files was modified, in milliseconds since 1970; absent for files in
    /// stores.
    #[serde(default)]
    pub modified: Option<i64>,
    /// The layouts recognised in its files.
    pub layouts: Vec<Recognised>,
    /// Whether halving a level halves z too: `isotropic` if it does, `zslices` if not.
    pub scaling: String,
    /// Where the first voxel lies, counted in voxels of level 0: x, y, z.
    pub offset: [i64; 3],
    /// The channels.
    pub channels: Vec<ChannelDescription>,
    /// How many notices there are about its data.
    #[serde(default)]
    pub noticed: NoticeCount,
    /// The notices, the worst first; only in `/datasets/TOKEN.json` and `about.json`.
    #[serde(default)]
    pub notices: Option<Vec<Notice>>,
}

/// The recognised layout of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recognised {
    /// The layout's name.
    pub layout: String,
    /// The reason why the file was taken for one of this layout.
    pub because: String,
}

/// The facts that a file states about a channel. Layouts, the catalogue, inventories and documents
/// all use this type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ChannelFacts {
    /// Its name in the file, if that is more informative than its name in URLs.
    pub label: Option<String>,
    /// The colour given in the file, as `#rrggbb`.
    pub colour: Option<String>,
    /// Why it holds labels, if something in the file says so.
    #[serde(default)]
    pub labels_because: Option<String>,
    /// When its time points were recorded, if the file says it.
    #[serde(default)]
    pub timing: Option<Timing>,
    /// The voxel size: x, y, z.
    #[schema(value_type = Option<[f64; 3]>)]
    pub voxel_size: Option<Xyz<f64>>,
    /// The unit of `voxel_size`, if the file states it; `nm` if the size is configured.
    pub voxel_unit: Option<String>,
    /// Where `voxel_size` was found.
    #[serde(default)]
    pub voxel_size_from: Option<String>,
}

/// Description of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChannelDescription {
    /// The name in URLs.
    pub name: String,
    /// The facts that its file states.
    #[serde(flatten)]
    pub facts: ChannelFacts,
    /// The letter of the colour that the image has in addresses of composites, if there are other
    /// images: that of the colour nearest to the file's, unless another image has it.
    #[serde(default)]
    pub composite_colour: Option<char>,
    /// `image`, `labels` or `rgb`.
    pub kind: String,
    /// The voxel type, as a numpy name.
    pub dtype: String,
    /// The window in force; absent until it has been measured, and if values are shown as stored.
    pub window: Option<[f64; 2]>,
    /// Percentiles of a sample, in ascending order; absent if none was taken, and for labels.
    pub percentiles: Option<Vec<Percentile>>,
    /// The histogram of the same sample.
    pub histogram: Option<Histogram>,
    /// The histogram without the 0.01 % least and the 0.01 % greatest values; absent if it is the
    /// same.
    #[serde(default)]
    pub central_histogram: Option<Histogram>,
    /// Why taking the sample failed, if it did.
    pub problem: Option<String>,
    /// The number of time points; absent if the channel is not a time series.
    pub times: Option<u64>,
    /// Where its voxels lie in space, if a file of the dataset says more about that than the size
    /// of voxels.
    #[serde(default)]
    pub transform: Option<TransformDescription>,
    /// Whether xz and yz tiles have square pixels (`isotropic`) or one row per voxel (`stored`).
    pub orthogonal: String,
    /// The formats in which it is not served, and why: `neuroglancer`, `zarr`,
    /// `segment_properties`.
    #[serde(default)]
    pub left_out: BTreeMap<String, String>,
    /// Whether its labels have names, at `/datasets/TOKEN/CHANNEL/labels.json`.
    #[serde(default)]
    pub names: bool,
    /// Where its first voxel lies in the tiles of the dataset, in voxels of level 0: x, y, z. To
    /// get slice numbers, add the dataset's offset. Absent if it is not known: then the channel
    /// begins where the first channel does.
    #[serde(default)]
    pub offset: Option<[i64; 3]>,
    /// The values that stand for missing data, as decimal text or `NaN`.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Whether parts of it are missing: sources of a virtual dataset, or datasets of a stack.
    /// `/view/` draws them transparent.
    #[serde(default)]
    pub gaps: bool,
    /// If time points or slices are missing: which existing pictures to show first. Absent if
    /// nothing is missing.
    #[serde(default)]
    pub existing: Option<ExistingPictures>,
    /// The levels for viewers, finest first; the last one fits one tile.
    pub levels: Vec<LevelDescription>,
}

/// Pictures that exist, of a channel whose time points or slices are partly missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExistingPictures {
    /// The first time point that exists. Addresses without a time mean this one.
    pub first_time: u64,
    /// The time point in the middle, or the nearest that exists.
    pub middle_time: u64,
    /// The slice in the middle along z, or the nearest that exists at the first time point; counted
    /// from the channel's first slice.
    pub middle_slice: u64,
}

/// Where the voxels of a channel lie in space. Tiles and boxes are not resampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TransformDescription {
    /// From the index of a voxel (x, y, z at level 0; 0 is the centre of the first voxel) to its
    /// position x, y, z in the unit of the voxel size. The three rows compute x, y and z; each
    /// holds the factors of the index's x, y and z, then the shift. It holds at the first time
    /// point.
    pub matrix: [[f64; 4]; 3],
    /// The transform in words, without the scaling by the voxel size; absent if the transform only
    /// scales.
    pub in_words: Option<String>,
    /// How many nanometres the unit is long; 1 if that is unknown.
    pub nanometres: f64,
    /// The matrices, each from a time point on, if they differ between time points; only in
    /// `/datasets/TOKEN.json`.
    #[serde(default)]
    pub by_time: Vec<TimedMatrix>,
}

/// The matrix from a time point on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimedMatrix {
    /// The time point.
    pub time: u64,
    /// Rows as in the `matrix` of the transform.
    pub matrix: [[f64; 4]; 3],
}

/// One percentile of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Percentile {
    /// The approximate percentage of the sample at or below this value.
    pub percent: f64,
    /// The value, as stored.
    pub value: f64,
}

/// A histogram of values: 256 bins of equal width from `lo` to `hi`; the last one includes `hi`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Histogram {
    /// The lower edge of the first bin: the least value, or the least that an 8-bit type has.
    pub lo: f64,
    /// The upper edge of the last bin: the greatest value, or the greatest that an 8-bit type has.
    pub hi: f64,
    /// The number of sampled voxels in each bin; all are in the first if `lo` equals `hi`.
    #[schema(min_items = 256, max_items = 256)]
    pub counts: Vec<u64>,
}

/// Description of a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LevelDescription {
    /// Its number.
    pub level: u8,
    /// Its extent in voxels: x, y, z.
    pub size: [u64; 3],
    /// Its downsample factor relative to level 0: x, y, z.
    pub factor: [u64; 3],
    /// For each of the planes xy, xz and yz, the number of columns and rows of pixels from the
    /// start of the grid of tiles to the end of a slice. It is the size of a slice if the channel
    /// has no offset.
    pub drawn: [[u64; 2]; 3],
    /// The path of its dataset; absent if the level is derived on the fly.
    pub path: Option<String>,
    /// The file name of the sidecar that contains it, if it is in one.
    pub sidecar: Option<String>,
    /// How its dataset is stored; absent if the level is derived on the fly.
    pub storage: Option<StorageDescription>,
    /// The approximate number of stored voxels that a whole tile reads with cold caches in the
    /// planes xy, xz and yz, in whole chunks.
    pub voxels_read: [u64; 3],
    /// The planes in which it is offered: a derived level only if a tile reads at most
    /// `render.max_voxels_per_tile` voxels.
    pub planes: Vec<String>,
    /// The maximum number of slices of a slab in the planes xy, xz and yz; absent if the server's
    /// version has no slabs.
    #[serde(default)]
    pub slab: Option<[u64; 3]>,
    /// The stored level that its tiles are read from.
    pub source: SourceDescription,
}

/// How a dataset is stored, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StorageDescription {
    /// `chunked`, `contiguous`, `compact`, `external` or `virtual`.
    pub layout: String,
    /// The extents, slowest axis first.
    pub shape: Vec<u64>,
    /// The chunk shape, in the same order.
    pub chunk: Option<Vec<u64>>,
    /// The filters, in the order in which they were applied.
    pub filters: Vec<String>,
    /// The filters that cannot be decoded here.
    pub missing_filters: Vec<String>,
    /// Whether chunks are decoded by the render threads in parallel, rather than one at a time by
    /// the library.
    pub decoded_in_parallel: bool,
    /// How it is read, and why.
    pub reading: String,
}

/// The stored level that the tiles of a level are read from, and the boxes in which it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceDescription {
    /// Equal for all levels, of any channel, that are read from the same boxes; changes when the
    /// file changes.
    pub id: String,
    /// Its downsample factor relative to level 0: x, y, z.
    pub factor: [u64; 3],
    /// The extent of a chunk: x, y, z; 1, 1, 1 for a dataset without chunks, which is stored in one
    /// piece.
    pub chunk: [u64; 3],
    /// The number of time points stored in one box.
    pub times: u64,
}

/// `/view/TOKEN/CHANNEL/range.json`: the range of what is visible.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RangeDescription {
    /// The 0.1 percentile; null if nothing is there.
    pub low: Option<f64>,
    /// The 99.9 percentile.
    pub high: Option<f64>,
    /// The least value.
    pub min: Option<f64>,
    /// The greatest value.
    pub max: Option<f64>,
    /// The number of voxels that were read.
    pub voxels: u64,
    /// The level of the voxels that were read.
    pub level: u8,
}

impl SiteDescription {
    /// The prefix of tile paths on the first mount.
    pub fn tilecache(&self) -> String {
        self.mounts
            .first()
            .map(MountDescription::tilecache)
            .unwrap_or_default()
    }
}

impl MountDescription {
    /// The prefix of tile paths.
    pub fn tilecache(&self) -> String {
        format!("/{}/tilecache", self.tile_service)
    }
}

impl DatasetDescription {
    /// The beginning of the dataset's addresses in documents.
    pub fn address(&self) -> &str {
        self.address.as_deref().unwrap_or(&self.token)
    }

    /// The number of the first slice of a channel along each axis, at a level with this downsample
    /// factor.
    pub fn first_slice(&self, channel: &ChannelDescription, factor: [u64; 3]) -> Xyz<i64> {
        at_level(self.offset.into(), factor.into()).zip(channel.shift(factor), i64::saturating_add)
    }

    /// The numbers of the slices of one of a channel's levels in a plane. Slices with negative
    /// numbers cannot be requested.
    pub fn slices(
        &self,
        channel: &ChannelDescription,
        level: &LevelDescription,
        plane: Plane,
    ) -> Range<i64> {
        let axis = plane.slice_axis();
        let first = self.first_slice(channel, level.factor)[axis];
        first..first.saturating_add_unsigned(Xyz::from(level.size)[axis])
    }

    /// The channel of that name.
    pub fn channel(&self, name: &str) -> Option<&ChannelDescription> {
        self.channels.iter().find(|channel| channel.name == name)
    }
}

impl ChannelDescription {
    /// The end of one of its levels in the grid of tiles, in voxels of the level.
    pub fn end(&self, level: &LevelDescription) -> Xyz<u64> {
        Xyz::from(level.size).zip(self.shift(level.factor), u64::saturating_add_signed)
    }

    /// The channel's offset in voxels of a level with this downsample factor.
    fn shift(&self, factor: [u64; 3]) -> Xyz<i64> {
        at_level(self.offset.unwrap_or_default().into(), factor.into())
    }

    /// The first time point that exists; `None` if the channel is not a time series.
    pub fn first_time(&self) -> Option<u64> {
        let first = self.existing.map_or(0, |existing| existing.first_time);
        self.times.map(|_| first)
    }

    /// The level of that number.
    pub fn level(&self, number: u8) -> Option<&LevelDescription> {
        self.levels.iter().find(|level| level.level == number)
    }
}

impl LevelDescription {
    /// Whether its tiles are offered in a plane.
    pub fn is_offered(&self, plane: Plane) -> bool {
        self.planes.iter().any(|offered| offered == plane.name())
    }
}

#[cfg(test)]
mod tests;
