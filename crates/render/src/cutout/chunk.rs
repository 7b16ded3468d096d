//! Encodes the voxels of a box as a chunk of a chunked format (Zarr, Neuroglancer precomputed).

use voltile_base::geometry::Xyz;
use voltile_hdf5::volume::VoxelType;

use super::little_endian::paste;
use super::segmentation;
use crate::encode::{EncodeError, gzip, zlib};
use crate::plan::{ChunkFormat, Coding, Cutout, SegmentationFormat};

/// Higher levels save at most a few percent, and take several times as long.
const DEFLATE_LEVEL: i32 = 1;
const ZSTD_LEVEL: i32 = 1;

/// Encodes little-endian voxels of the plan's type, in the order component, z, y, x.
pub(super) fn encode(
    voxels: Vec<u8>,
    plan: &Cutout,
    format: &ChunkFormat,
) -> Result<Vec<u8>, EncodeError> {
    let mut array = widen(voxels, plan, format.voxel);
    if format.size != plan.region.size {
        array = pad(&array, plan, format);
    }
    if format.is_big_endian {
        array
            .chunks_exact_mut(format.voxel.stored_bytes())
            .for_each(<[u8]>::reverse);
    }
    compress(array, format.coding)
}

/// Encodes little-endian labels of the plan's type as `compressed_segmentation`.
pub(super) fn segmentation(
    voxels: Vec<u8>,
    plan: &Cutout,
    format: SegmentationFormat,
) -> Result<Vec<u8>, EncodeError> {
    let bytes = voxels.len();
    let labels = widen(voxels, plan, format.voxel);
    let encoded = match format.voxel {
        VoxelType::U32 => segmentation::encode::<u32>(&labels, plan.region.size),
        _ => segmentation::encode::<u64>(&labels, plan.region.size),
    };
    let encoded = encoded.ok_or_else(|| {
        EncodeError::new(
            bytes,
            "the labels need larger tables than compressed_segmentation can address".into(),
        )
    })?;
    compress(encoded, format.coding)
}

/// Converts voxels to a wider type: half floats to single precision, signed integers with their
/// sign. Voxels that have the width already are returned as they are.
fn widen(voxels: Vec<u8>, plan: &Cutout, to: VoxelType) -> Vec<u8> {
    let from = plan.voxel;
    let narrow = from.stored_bytes();
    let wide = to.stored_bytes();
    if narrow == wide {
        return voxels;
    }
    if from == VoxelType::F16 {
        let values = voxels.chunks_exact(narrow).flat_map(|bytes| {
            half::f16::from_le_bytes([bytes[0], bytes[1]])
                .to_f32()
                .to_le_bytes()
        });
        return values.collect();
    }
    // Only signed types have an unsigned counterpart.
    let is_signed = from.unsigned().is_some();
    let mut all = Vec::with_capacity(voxels.len() / narrow * wide);
    for value in voxels.chunks_exact(narrow) {
        let fill = if is_signed && value[narrow - 1] >= 0x80 {
            0xff
        } else {
            0
        };
        all.extend_from_slice(value);
        all.resize(all.len() + wide - narrow, fill);
    }
    all
}

/// Enlarges each component to the format's size.
fn pad(array: &[u8], plan: &Cutout, format: &ChunkFormat) -> Vec<u8> {
    let own = plan.region.size;
    let width = format.voxel.stored_bytes();
    let own_bytes = own.volume() as usize * width;
    let padded_bytes = format.size.volume() as usize * width;
    let mut all = vec![0; plan.components.len() * padded_bytes];
    let components = all.chunks_exact_mut(padded_bytes.max(1));
    for (from, into) in array.chunks_exact(own_bytes.max(1)).zip(components) {
        paste(from, own, into, format.size, Xyz::all(0), width);
    }
    all
}

fn compress(array: Vec<u8>, coding: Coding) -> Result<Vec<u8>, EncodeError> {
    let compressed = match coding {
        Coding::Identity => return Ok(array),
        Coding::Zlib => zlib(&array, DEFLATE_LEVEL),
        Coding::Gzip => gzip(&array, DEFLATE_LEVEL),
        Coding::Zstd => zstd::bulk::compress(&array, ZSTD_LEVEL).map_err(|e| e.to_string()),
    };
    compressed.map_err(|problem| EncodeError::new(array.len(), problem))
}
