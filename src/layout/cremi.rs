//! CREMI: `/volumes/raw`, `/volumes/labels/neuron_ids`, `/volumes/labels/clefts`.
//!
//! Source: the CREMI challenge's data format and its Python package (`CremiFile`). `resolution` is
//! z, y, x in nanometres. Labels may cover only part of the image: their `offset`, in the same
//! order and unit, is the position of their first voxel; without it, they start where the image
//! does. At other paths, `resolution` is read as a voxel size without a unit: many other programs
//! write it in the same order.
//!
//! Example: `/volumes/raw` with the `resolution` 40, 4, 4 has voxels of 4 × 4 × 40 nm (x × y × z);
//! the first voxel of `/volumes/labels/clefts` with the `offset` 400, 80, 40 lies at x = 40 nm, y =
//! 80 nm, z = 400 nm.

use super::VoxelSize;
use super::channel::xyz;
use super::contents::About;
use super::marks::Marks;

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let is_own = ["/volumes/raw", "/volumes/labels/"]
        .iter()
        .any(|path| about.path.starts_with(path));
    let resolution = about.attributes.numbers("resolution");
    if !is_own {
        return Some(Marks {
            voxel: VoxelSize::zyx(&resolution?, None),
            ..Marks::default()
        });
    }
    let voxel = resolution.and_then(|resolution| VoxelSize::zyx(&resolution, Some("nm")));
    let offset = about.attributes.numbers("offset");
    let mut origin = offset.unwrap_or_else(|| vec![0.0; 3]);
    origin.reverse();
    Some(Marks {
        origin: xyz(&origin).filter(|_| voxel.is_some()),
        voxel,
        ..Marks::because(format!("it has {}", about.path))
    })
}
