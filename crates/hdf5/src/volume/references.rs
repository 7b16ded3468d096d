//! Where the stored chunks of a volume lie and how they are coded, in the terms of Zarr and
//! numcodecs: for programs that read them without HDF5.

use serde_json::Value;

use super::{Samples, VoxelType};
use crate::store::Location;

/// Numbers along t, z, y and x.
pub type Tzyx = [u64; 4];

/// How the chunks of a dataset are shaped and coded.
#[derive(Debug, Clone)]
pub struct StoredArray {
    /// The type of their voxels.
    pub voxel: VoxelType,
    /// Whether voxels of several bytes are big-endian.
    pub is_big_endian: bool,
    /// The extents of a chunk in voxels.
    pub chunk: Tzyx,
    /// Whether the first axis varies fastest within a chunk (Zarr's order F), not the last (C).
    pub is_reversed: bool,
    /// The filters as numcodecs configures them, in the order in which they were applied.
    pub codecs: Vec<Value>,
    /// The value of voxels that were never written: one sample.
    pub fill: Samples,
}

/// Where a chunk is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredChunk {
    /// Its position in the grid of chunks.
    pub place: Tzyx,
    /// The offset in its file in bytes.
    pub offset: u64,
    /// The stored length in bytes.
    pub length: u64,
}

/// Chunks of one dataset that lie in one file.
pub struct StoredPart<'a> {
    /// The path of the dataset.
    pub dataset: &'a str,
    /// The file.
    pub file: &'a Location,
    /// How the chunks are shaped and coded.
    pub array: &'a StoredArray,
    /// The chunks that were written.
    pub chunks: Box<dyn Iterator<Item = StoredChunk> + 'a>,
}
