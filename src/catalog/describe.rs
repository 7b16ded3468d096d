//! Descriptions: what a catalogue serves, as plain values that can be printed, sent or compared.

use serde::Serialize;

use super::{Catalog, Channel, Dataset, Recognised, StoredLevel};
use crate::geometry::{Level, LevelView, Plane, Scaling, TILE, Xyz};
use crate::paint::{Kind, Window};
use crate::volume::hdf5::StorageDescription;

/// A dataset, described.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DatasetDescription {
    /// The token.
    pub token: String,
    /// The layouts of its files, where they were recognised.
    pub layouts: Vec<Recognised>,
    /// `zslices` or `isotropic`.
    pub scaling: &'static str,
    /// The position of the first voxel: x, y, z.
    pub offset: [i64; 3],
    /// The channels.
    pub channels: Vec<ChannelDescription>,
}

/// A channel, described.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChannelDescription {
    /// The name in URLs.
    pub name: String,
    /// What its file calls it.
    pub label: Option<String>,
    /// The colour that its file gives it, as `#rrggbb`.
    pub colour: Option<String>,
    /// `image`, `labels` or `rgb`.
    pub kind: &'static str,
    /// The type of a voxel, as numpy names it.
    pub dtype: &'static str,
    /// The window in force; absent until it has been measured, and where values are shown as stored.
    pub window: Option<[f64; 2]>,
    /// The number of time points of a series.
    pub times: Option<u64>,
    /// The size of a voxel: x, y, z.
    pub voxel_size: Option<[f64; 3]>,
    /// The unit of that size, where the file tells; nanometres where it is configured.
    pub voxel_unit: Option<String>,
    /// The levels that a viewer should use, the last of which fits one tile.
    pub levels: Vec<LevelDescription>,
}

impl StoredLevel {
    /// The stored voxels that a whole tile in the corner of a level reads, chunks counted whole.
    fn voxels_read(&self, view: &LevelView, plane: Plane) -> u64 {
        let wanted = plane.place(1, TILE as u64, TILE as u64).zip(view.size, u64::min);
        let stored = wanted.zip(view.boxed, u64::saturating_mul).zip(view.stored_size, u64::min);
        match self.volumes.first() {
            Some(volume) if self.storage.chunk.is_some() => {
                stored.zip(volume.shape().grain, |n, chunk| n.next_multiple_of(chunk.max(1))).volume()
            }
            _ => stored.volume(),
        }
    }
}

/// A level, described.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelDescription {
    /// Its number.
    pub level: u8,
    /// Its extent: x, y, z.
    pub size: [u64; 3],
    /// By how much it is reduced against level 0: x, y, z.
    pub factor: [u64; 3],
    /// The path of its dataset; absent where it is made on the fly.
    pub path: Option<String>,
    /// How that dataset is stored.
    pub storage: Option<StorageDescription>,
    /// About how many stored voxels a whole tile reads from cold in the planes xy, xz and yz, chunks counted whole.
    pub voxels_read: [u64; 3],
    /// The planes in which it is offered: making a tile must not read more than is allowed.
    pub planes: Vec<&'static str>,
}

impl Catalog {
    /// Describes everything that is served.
    pub fn describe(&self) -> Vec<DatasetDescription> {
        self.datasets().map(|dataset| self.describe_dataset(dataset)).collect()
    }

    /// Describes one dataset.
    pub fn describe_dataset(&self, dataset: &Dataset) -> DatasetDescription {
        DatasetDescription {
            token: dataset.token.to_string(),
            layouts: dataset.layouts.clone(),
            scaling: match dataset.scaling {
                Scaling::Zslices => "zslices",
                Scaling::Isotropic => "isotropic",
            },
            offset: triple(dataset.offset),
            channels: dataset
                .channels
                .values()
                .map(|channel| self.describe_channel(dataset, channel))
                .collect(),
        }
    }

    fn describe_channel(&self, dataset: &Dataset, channel: &Channel) -> ChannelDescription {
        ChannelDescription {
            name: channel.name.to_string(),
            label: channel.label.clone(),
            colour: channel.colour.clone(),
            kind: channel.kind.name(),
            dtype: channel.voxel.name(),
            window: shown_window(channel),
            times: channel.is_series.then_some(channel.times),
            voxel_size: dataset.voxel_size.or(channel.voxel_size).map(triple),
            voxel_unit: match dataset.voxel_size {
                Some(_) => Some("nm".to_owned()),
                None => channel.voxel_unit.clone(),
            },
            levels: self.describe_levels(dataset, channel),
        }
    }

    fn describe_levels(&self, dataset: &Dataset, channel: &Channel) -> Vec<LevelDescription> {
        let mut levels = Vec::new();
        for view in (0..).map_while(Level::new).map_while(|level| channel.view(level, dataset.scaling)) {
            let stored = &channel.levels[view.stored];
            let offered =
                |plane: &Plane| view.is_stored() || view.voxels_per_tile(*plane) <= self.max_voxels_per_tile;
            levels.push(LevelDescription {
                level: view.level.number(),
                size: triple(view.size),
                factor: triple(view.factor),
                path: view.is_stored().then(|| stored.path().to_owned()),
                storage: view.is_stored().then(|| stored.storage.clone()),
                voxels_read: Plane::ALL.map(|plane| stored.voxels_read(&view, plane)),
                planes: Plane::ALL.into_iter().filter(offered).map(Plane::name).collect(),
            });
            if view.fits_one_tile() {
                break;
            }
        }
        levels
    }
}

impl Dataset {
    /// The path, below a mount, of a tile in the middle of a channel: one that shows something.
    pub fn sample_path(&self, channel: &Channel, plane: Plane) -> String {
        let axis = plane.slice_axis();
        let middle = (channel.size()[axis] / 2).saturating_add_signed(self.offset[axis]);
        let time = if channel.is_series { "0/" } else { "" };
        format!("{}/{}/{plane}/{time}{middle}/0_0_0.png", self.token, channel.name)
    }
}

/// The window in force, where values go through one.
fn shown_window(channel: &Channel) -> Option<[f64; 2]> {
    let window =
        channel.window().filter(|window| *window != Window::AsStored && channel.kind != Kind::Labels);
    window.map(|window| window.limits().into())
}

fn triple<T>(xyz: Xyz<T>) -> [T; 3] {
    [xyz.x, xyz.y, xyz.z]
}
