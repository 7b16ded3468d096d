//! ndstore's description of a dataset at `TOKEN/info/`, for its old clients.
//!
//! The fields are the ones of ndstore's `jsonInfo` (`projdict`, `datasetdict`, `chandict`) that its
//! clients read: ndtilecache itself used `imagesize`, `offset`, `voxelres`, `scalinglevels`,
//! `scaling`, `timerange` and the channels' `channel_type`, `datatype` and `windowrange`. Maps by
//! level have the level's number, as a string, as their key. An unknown voxel size is 1; a window
//! range of 0, 0 means that values are shown unchanged.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use voltile_base::description::{ChannelDescription, DatasetDescription, LevelDescription};
use voltile_base::geometry::{TILE, Xyz, at_level};
use voltile_base::text::joined;

use crate::catalog::Dataset;

/// ndstore's description of a dataset.
#[derive(Debug, Serialize, ToSchema)]
pub struct Info {
    dataset: InfoDataset,
    project: InfoProject,
    channels: BTreeMap<String, InfoChannel>,
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct InfoProject {
    name: String,
    description: String,
    version: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct InfoDataset {
    name: String,
    description: String,
    /// The number of the coarsest level.
    scalinglevels: u64,
    /// `zslices` or `xyz`.
    scaling: &'static str,
    /// The numbers of all levels.
    resolutions: Vec<u64>,
    /// In voxels: x, y, z.
    imagesize: BTreeMap<String, [u64; 3]>,
    /// x, y, z of the first voxel.
    offset: BTreeMap<String, [i64; 3]>,
    /// The size of a voxel: x, y, z.
    voxelres: BTreeMap<String, [f64; 3]>,
    /// The preferred unit of reads: a tile.
    cube_dimension: BTreeMap<String, [u64; 3]>,
    /// How many slices are about as thick as a voxel is wide.
    neariso_scaledown: BTreeMap<String, u64>,
    /// `imagesize`, `offset` and `voxelres` if this many slices are merged.
    neariso_imagesize: BTreeMap<String, [u64; 3]>,
    neariso_offset: BTreeMap<String, [i64; 3]>,
    neariso_voxelres: BTreeMap<String, [f64; 3]>,
    /// The first and the last time point.
    timerange: [u64; 2],
}

#[derive(Debug, Serialize, ToSchema)]
struct InfoChannel {
    /// `image`, `annotation` or `timeseries`.
    channel_type: &'static str,
    datatype: String,
    description: String,
    exceptions: u8,
    propagate: u8,
    readonly: u8,
    resolution: u8,
    /// The values shown as black and white.
    windowrange: [f64; 2],
}

pub(super) fn describe(dataset: &Dataset, description: &DatasetDescription) -> Info {
    let with_most_levels = description
        .channels
        .iter()
        .max_by_key(|channel| channel.levels.len());
    let levels: Vec<InfoLevel> = with_most_levels
        .into_iter()
        .flat_map(|channel| &channel.levels)
        .map(|level| InfoLevel::new(level, description))
        .collect();
    let times = dataset
        .channels
        .values()
        .map(|channel| channel.times)
        .max()
        .unwrap_or(1);
    Info {
        dataset: dataset_info(description, &levels, times),
        project: InfoProject {
            name: description.token.clone(),
            description: layout_names(description),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        channels: description
            .channels
            .iter()
            .map(|channel| (channel.name.clone(), channel_info(channel)))
            .collect(),
        metadata: BTreeMap::new(),
    }
}

fn dataset_info(description: &DatasetDescription, levels: &[InfoLevel], times: u64) -> InfoDataset {
    /// A map from each level's number, as a string, to a value.
    fn each<T>(levels: &[InfoLevel], value: impl Fn(&InfoLevel) -> T) -> BTreeMap<String, T> {
        levels
            .iter()
            .map(|level| (level.number.to_string(), value(level)))
            .collect()
    }
    InfoDataset {
        name: description.token.clone(),
        description: layout_names(description),
        scalinglevels: levels.last().map_or(0, |level| level.number),
        scaling: match description.scaling.as_str() {
            "isotropic" => "xyz",
            _ => "zslices",
        },
        resolutions: levels.iter().map(|level| level.number).collect(),
        imagesize: each(levels, |level| level.size),
        offset: each(levels, |level| level.offset),
        voxelres: each(levels, |level| level.voxel),
        cube_dimension: each(levels, |_| [TILE as u64, TILE as u64, 1]),
        neariso_scaledown: each(levels, InfoLevel::flatness),
        neariso_imagesize: each(levels, |level| {
            let [x, y, z] = level.size;
            [x, y, z.div_ceil(level.flatness())]
        }),
        neariso_offset: each(levels, |level| {
            let [x, y, z] = level.offset;
            let flatness = i64::try_from(level.flatness()).unwrap_or(i64::MAX);
            [x, y, z.div_euclid(flatness)]
        }),
        neariso_voxelres: each(levels, |level| {
            let [x, y, z] = level.voxel;
            [x, y, z * level.flatness() as f64]
        }),
        timerange: [0, times.saturating_sub(1)],
    }
}

struct InfoLevel {
    number: u64,
    size: [u64; 3],
    offset: [i64; 3],
    voxel: [f64; 3],
}

impl InfoLevel {
    /// A level of a dataset. Along each axis its size is the end of the channel that reaches
    /// furthest; its voxel size is that of the first channel with a known one.
    fn new(level: &LevelDescription, dataset: &DatasetDescription) -> Self {
        let mut size = Xyz::all(0);
        for channel in &dataset.channels {
            let mut levels = channel.levels.iter();
            if let Some(same) = levels.find(|other| other.level == level.level) {
                size = size.zip(channel.end(same), u64::max);
            }
        }
        let voxel = dataset
            .channels
            .iter()
            .find_map(|channel| channel.facts.voxel_size)
            .unwrap_or(Xyz::all(1.0));
        Self {
            number: u64::from(level.level),
            size: size.into(),
            offset: at_level(dataset.offset.into(), level.factor.into()).into(),
            voxel: voxel
                .zip(level.factor.into(), |edge, factor: u64| {
                    edge * factor as f64
                })
                .into(),
        }
    }

    /// How many slices are about as thick as a voxel is wide; at least one.
    fn flatness(&self) -> u64 {
        let [x, _, z] = self.voxel;
        ((x / z) as u64).max(1)
    }
}

fn channel_info(channel: &ChannelDescription) -> InfoChannel {
    InfoChannel {
        channel_type: match (channel.kind.as_str(), channel.times) {
            ("labels", _) => "annotation",
            (_, Some(_)) => "timeseries",
            _ => "image",
        },
        datatype: channel.dtype.clone(),
        description: channel.facts.label.clone().unwrap_or_default(),
        // ndstore's codes: no exceptions, propagated to all levels, read-only.
        exceptions: 0,
        propagate: 2,
        readonly: 1,
        resolution: 0,
        windowrange: channel.window.unwrap_or([0.0, 0.0]),
    }
}

/// The names of the dataset's layouts.
fn layout_names(dataset: &DatasetDescription) -> String {
    joined(dataset.layouts.iter().map(|recognised| &recognised.layout))
}
