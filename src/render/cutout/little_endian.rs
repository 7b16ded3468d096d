//! Voxels as bytes.

use bytemuck::cast_slice;
use half::f16;

use crate::volume::{Samples, VoxelType, with_samples};

/// Appends voxels as they are stored in files of their type, little-endian. Means of floats are rounded to it.
pub(super) fn append(samples: &Samples, voxel: VoxelType, all: &mut Vec<u8>) {
    match (samples, voxel) {
        (Samples::F32(values), VoxelType::F16) => {
            all.extend(values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()));
        }
        (Samples::F64(values), VoxelType::F16) => {
            all.extend(values.iter().flat_map(|value| f16::from_f64(*value).to_le_bytes()));
        }
        (Samples::F64(values), VoxelType::F32) => {
            all.extend(values.iter().flat_map(|value| (*value as f32).to_le_bytes()));
        }
        (samples, _) if cfg!(target_endian = "little") => {
            with_samples!(samples, voxels => all.extend_from_slice(cast_slice(voxels)));
        }
        (samples, _) => with_samples!(samples, voxels => {
            for voxel in voxels {
                all.extend(bytemuck::bytes_of(voxel).iter().rev());
            }
        }),
    }
}
