//! Voxels as little-endian bytes, and the order of these bytes in a cutout.

use bytemuck::cast_slice;
use half::f16;
use voltile_base::geometry::Xyz;
use voltile_hdf5::volume::{Samples, VoxelType, with_samples};

use crate::plan::Cutout;

/// Appends samples as voxels of this type, little-endian. Means of floats are computed in a wider
/// type, and rounded here; all other samples are of this type already.
pub(super) fn append(samples: &Samples, voxel: VoxelType, all: &mut Vec<u8>) {
    match (samples, voxel) {
        (Samples::F32(values), VoxelType::F16) => {
            let rounded = values.iter().map(|value| f16::from_f32(*value));
            all.extend(rounded.flat_map(f16::to_le_bytes));
        }
        (Samples::F64(values), VoxelType::F16) => {
            let rounded = values.iter().map(|value| f16::from_f64(*value));
            all.extend(rounded.flat_map(f16::to_le_bytes));
        }
        (Samples::F64(values), VoxelType::F32) => {
            let rounded = values.iter().map(|value| *value as f32);
            all.extend(rounded.flat_map(f32::to_le_bytes));
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

/// Copies a part of `size` voxels of `width` bytes into a box of `whole` voxels; the part's first
/// voxel belongs at `first`.
pub(super) fn paste(
    part: &[u8],
    size: Xyz<u64>,
    into: &mut [u8],
    whole: Xyz<u64>,
    first: Xyz<u64>,
    width: usize,
) {
    let row_bytes = size.x as usize * width;
    for (number, row) in (0..).zip(part.chunks_exact(row_bytes.max(1))) {
        let y = first.y + number % size.y;
        let z = first.z + number / size.y;
        let start = ((z * whole.y + y) * whole.x + first.x) as usize * width;
        into[start..][..row_bytes].copy_from_slice(row);
    }
}

/// Interleaves components that are stored one after the other, in pieces of `width` bytes. If
/// `width` is the size of one value, the components of each voxel become neighbours, as NumPy and
/// imaging libraries expect colours: `rrr`, `ggg` and `bbb` become `rgbrgbrgb` if the width is 1.
/// If `width` is the size of a slice along z, slice 0 of each component comes first, then slice 1.
pub(super) fn interleave(voxels: Vec<u8>, plan: &Cutout, width: usize) -> Vec<u8> {
    let count = plan.values_per_voxel();
    if count == 1 {
        return voxels;
    }
    let component_bytes = voxels.len() / count;
    let mut all = Vec::with_capacity(voxels.len());
    for at in (0..component_bytes).step_by(width) {
        for component in 0..count {
            all.extend_from_slice(&voxels[component * component_bytes + at..][..width]);
        }
    }
    all
}
