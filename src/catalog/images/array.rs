//! Levels as chunked arrays, and the images that they form.

use std::collections::BTreeMap;

use voltile_base::geometry::{Level, Xyz};
use voltile_base::name::Name;
use voltile_hdf5::volume::{ChunkCoding, Samples, VoxelType};
use voltile_render::plan::{ChunkFormat, Coding};

/// The images of a dataset.
#[derive(Debug, Clone)]
pub(in crate::catalog) struct Images {
    /// The levels of each channel.
    pub channels: BTreeMap<Name, Vec<ArrayLevel>>,
    /// The channels that form the dataset's image.
    pub members: Vec<Name>,
    /// The label channels that fit the dataset's image, each with a level for every level of the
    /// image.
    pub labels: BTreeMap<Name, Vec<ArrayLevel>>,
}

/// One level of a channel as a chunked array.
#[derive(Debug, Clone)]
pub struct ArrayLevel {
    /// The level's number.
    pub level: Level,
    /// The extent in voxels.
    pub size: Xyz<u64>,
    /// The downsample factor relative to level 0.
    pub factor: Xyz<u64>,
    /// The extents of a chunk; the last chunks along an axis may extend beyond the volume.
    pub chunk: Xyz<u64>,
    /// The coding of the stored chunks, if they have the extents `chunk` and can be passed through.
    pub stored: Option<ChunkCoding>,
    /// The value of voxels that were never written; `None` if it is unknown.
    pub fill: Option<Samples>,
}

impl ArrayLevel {
    /// Whether this level and another channel's level have the same metadata.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.level == other.level
            && self.size == other.size
            && self.factor == other.factor
            && self.chunk == other.chunk
            && self.stored == other.stored
            && self.fill.as_ref().map(Samples::bytes) == other.fill.as_ref().map(Samples::bytes)
    }

    /// The encoding in which the level's chunks are served: the stored one if stored chunks can be
    /// passed through, otherwise Zstandard.
    pub fn as_stored(&self, voxel: VoxelType) -> ChunkFormat {
        let in_zstd = self.in_zstd(voxel);
        match self.stored {
            None => in_zstd,
            Some(stored) => ChunkFormat {
                is_big_endian: stored.is_big_endian,
                coding: if stored.is_zlib {
                    Coding::Zlib
                } else {
                    Coding::Identity
                },
                ..in_zstd
            },
        }
    }

    /// The encoding of the level's chunks with Zstandard.
    pub fn in_zstd(&self, voxel: VoxelType) -> ChunkFormat {
        ChunkFormat {
            size: self.chunk,
            voxel,
            is_big_endian: false,
            coding: Coding::Zstd,
        }
    }
}
