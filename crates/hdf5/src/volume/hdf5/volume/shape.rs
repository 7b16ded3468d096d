//! The shape of a dataset as a volume, and the coding of its chunks, without reading a voxel.

use voltile_base::geometry::Xyz;

use super::roles::{AxisRoles, Role};
use crate::volume::hdf5::View;
use crate::volume::hdf5::chunks::ChunkStore;
use crate::volume::hdf5::dataset::StoredDataset;
use crate::volume::hdf5::grid::Grid;
use crate::volume::{Access, ChunkCoding, Samples, StoredArray, VolumeShape, VoxelType};

/// The shape of a dataset as a volume under a view.
pub(super) fn volume_shape(
    dataset: &StoredDataset,
    roles: &AxisRoles,
    view: &View,
    chunks: &ChunkStore,
) -> VolumeShape {
    let [times, z, y, x] = roles.tzyx(dataset.grid.shape(), 1);
    let mut size = Xyz { x, y, z };
    if let Some(cut) = view.size {
        size = size.zip(cut, u64::min);
    }
    let stored = dataset.stored.voxel;
    let voxel = match (stored, view.reinterpret_as) {
        (signed, Some(unsigned)) if signed.unsigned() == Some(unsigned) => unsigned,
        (VoxelType::U8, Some(VoxelType::Bool)) => VoxelType::Bool,
        _ => stored,
    };
    VolumeShape {
        voxel,
        size,
        times,
        present: None,
        chunk: roles.spatial(&dataset.chunk_shape(), 1),
        access: access(dataset, chunks),
        is_remote: dataset.file.is_remote(),
        coding: chunk_coding(dataset, roles, voxel),
        fill: fill(dataset, voxel),
    }
}

fn access(dataset: &StoredDataset, chunks: &ChunkStore) -> Access {
    if dataset.is_unfiltered() {
        Access::Direct
    } else if chunks.serves(dataset) {
        Access::Cached
    } else {
        Access::Uncached
    }
}

fn chunk_coding(
    dataset: &StoredDataset,
    roles: &AxisRoles,
    voxel: VoxelType,
) -> Result<ChunkCoding, String> {
    let coding = dataset.chunk_coding(voxel)?;
    if !roles.is_in_order() {
        return Err("its axes are not in the order z, y, x".to_owned());
    }
    for (role, extent) in roles.0.iter().zip(dataset.grid.chunk()) {
        if !matches!(role, Role::Space(_)) && *extent > 1 {
            return Err("its chunks hold several time points or channels".to_owned());
        }
    }
    Ok(coding)
}

/// The fill value that the dataset declares, as one voxel.
fn fill(dataset: &StoredDataset, voxel: VoxelType) -> Option<Samples> {
    let bytes = dataset.declared_fill.as_deref()?;
    let has_type_of_voxels = bytes.len() == voxel.samples().voxel_bytes();
    has_type_of_voxels.then(|| Samples::from_native(voxel, bytes))
}

/// The shape and the coding of a dataset's chunks, which lie in this grid; an error is the reason
/// why Zarr cannot describe them.
pub(super) fn stored_array(
    dataset: &StoredDataset,
    roles: &AxisRoles,
    shape: &VolumeShape,
    grid: &Grid,
) -> Result<StoredArray, String> {
    let codecs = dataset.codecs()?;
    let mut chunk = [1; 4];
    // The axes in stored order, without those along which a chunk is one voxel long.
    let mut long_axes = Vec::new();
    for (role, extent) in roles.0.iter().zip(grid.chunk()) {
        if *extent > 1 {
            let axis = role
                .tzyx_index()
                .ok_or("its chunks hold several channels")?;
            chunk[axis] = *extent;
            long_axes.push(axis);
        }
    }
    let is_reversed = !long_axes.is_sorted();
    if is_reversed && !long_axes.iter().rev().is_sorted() {
        return Err(
            "in its chunks the order of the axes is neither t, z, y, x nor its reverse".to_owned(),
        );
    }
    let fill = shape.fill.clone().ok_or("its fill value cannot be read")?;
    Ok(StoredArray {
        voxel: shape.voxel,
        is_big_endian: dataset.is_big_endian(),
        chunk,
        is_reversed,
        codecs,
        fill,
    })
}
