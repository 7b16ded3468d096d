//! The part of `/datasets.json` that the order of the work needs.
//!
//! Without a server, a catalogue is read through the same description, so that the work is the same.

use serde::Deserialize;

use crate::catalog::Catalog;
use crate::geometry::{Level, Plane, Ruler, Xyz};

/// A server's description.
#[derive(Debug, Deserialize)]
pub struct Served {
    /// The mounts.
    pub mounts: Vec<Mount>,
    /// The datasets.
    pub datasets: Vec<Dataset>,
    /// The cache sizes.
    pub caches: Caches,
    /// The number of render threads.
    pub threads: usize,
    /// When the server was started, in milliseconds since 1970.
    pub started: u64,
}

/// A path prefix of tiles.
#[derive(Debug, Deserialize)]
pub struct Mount {
    /// Its first segment.
    pub tile_service: String,
}

/// Cache sizes.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Caches {
    /// Bytes of encoded tiles in memory.
    pub tiles: u64,
    /// Bytes of decoded chunks in memory.
    pub chunks: u64,
    /// Bytes of encoded tiles in the disk cache; absent without one.
    pub disk: Option<u64>,
}

/// A dataset.
#[derive(Debug, Deserialize)]
pub struct Dataset {
    /// Its token.
    pub token: String,
    /// The position of the first voxel: x, y, z.
    pub offset: [i64; 3],
    /// Its channels.
    pub channels: Vec<Channel>,
}

/// A channel.
#[derive(Debug, Deserialize)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// `image`, `labels` or `rgb`.
    pub kind: String,
    /// The number of time points of a series.
    pub times: Option<u64>,
    voxel_size: Option<[f64; 3]>,
    voxel_unit: Option<String>,
    orthogonal: String,
    /// Its levels, finest first.
    pub levels: Vec<LevelServed>,
}

/// A level of a channel.
#[derive(Debug, Deserialize)]
pub struct LevelServed {
    /// Its number.
    pub level: u8,
    size: [u64; 3],
    factor: [u64; 3],
    drawn: [[u64; 2]; 3],
    planes: Vec<String>,
    source: SourceServed,
}

/// What a level is read from.
#[derive(Debug, Deserialize)]
pub struct SourceServed {
    /// Equal for all levels that are read from the same boxes.
    pub id: String,
    size: [u64; 3],
    factor: [u64; 3],
    chunk: [u64; 3],
    /// The number of time points in a box.
    pub times: u64,
    /// The size of a box in bytes.
    pub bytes: u64,
    /// How boxes are read.
    pub access: AccessServed,
}

/// How boxes of voxels are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessServed {
    /// Only the needed voxels are copied.
    Copied,
    /// A box is decoded once, and cached.
    Kept,
    /// A box is decoded again for every tile.
    Anew,
}

/// The datasets of a catalogue, described as by a server.
pub fn described(catalog: &Catalog) -> Result<Vec<Dataset>, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(catalog.describe())?)
}

impl Dataset {
    /// The position of the first voxel.
    pub fn offset(&self) -> Xyz<i64> {
        xyz(self.offset)
    }

    /// The channel of that name.
    pub fn channel(&self, name: &str) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.name == name)
    }
}

impl Channel {
    /// The size of a voxel in nanometres, if known.
    pub fn voxel_size(&self) -> Option<Xyz<f64>> {
        let unit = crate::units::in_nanometres(self.voxel_unit.as_deref()?)?;
        self.voxel_size.map(|size| xyz(size).map(|length| length * unit))
    }

    /// The size of a voxel in any unit, if xz and yz tiles are drawn with square pixels.
    fn square_pixels(&self) -> Option<Xyz<f64>> {
        self.voxel_size.filter(|_| self.orthogonal == "isotropic").map(xyz)
    }

    /// The level of that number.
    pub fn level(&self, number: u8) -> Option<&LevelServed> {
        self.levels.iter().find(|level| level.level == number)
    }

    /// The tiles of a level in a plane, along each axis: slices, rows and columns.
    pub fn rulers(&self, level: &LevelServed, plane: Plane) -> Option<Xyz<Ruler>> {
        let (rows, columns, slices) = (plane.row_axis(), plane.column_axis(), plane.slice_axis());
        let (size, factor) = (xyz(level.size), level.factor());
        let [width, height] = *Plane::ALL.iter().zip(&level.drawn).find(|(p, _)| **p == plane)?.1;
        let mut rulers = Xyz::all(Ruler::of_slices(size[slices], factor[slices]));
        rulers[columns] = Ruler::of_tiles(width, factor[columns]);
        rulers[rows] = match self.square_pixels() {
            Some(voxel) if plane != Plane::Xy => {
                let across = voxel[columns] * Level::new(level.level.into())?.factor() as f64;
                Ruler::of_square_rows(height, across, voxel.z * factor.z as f64, factor.z)
            }
            _ => Ruler::of_tiles(height, factor[rows]),
        };
        Some(rulers)
    }
}

impl LevelServed {
    /// The downsample factor relative to level 0.
    pub fn factor(&self) -> Xyz<u64> {
        xyz(self.factor)
    }

    /// Whether its tiles are offered in a plane.
    pub fn is_offered(&self, plane: Plane) -> bool {
        self.planes.iter().any(|offered| offered == plane.name())
    }

    /// What it is read from.
    pub fn source(&self) -> &SourceServed {
        &self.source
    }
}

impl SourceServed {
    /// Its extent, in voxels of full resolution.
    pub fn size(&self) -> Xyz<u64> {
        xyz(self.size).zip(xyz(self.factor), u64::saturating_mul)
    }

    /// The extent of a box, in voxels of full resolution; never 0.
    pub fn chunk(&self) -> Xyz<u64> {
        xyz(self.chunk).zip(xyz(self.factor), u64::saturating_mul).map(|extent| extent.max(1))
    }
}

fn xyz<T>([x, y, z]: [T; 3]) -> Xyz<T> {
    Xyz::new(x, y, z)
}
