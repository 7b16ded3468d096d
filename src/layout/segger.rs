//! Segger's segmentations (UCSF Chimera): `.seg` files, whose `/mask` holds the region of each
//! voxel.
//!
//! Source: Segger's `segfile.py`, format version 2. The root has the attribute `format` "segger",
//! and `ijk_to_xyz_transform`, a matrix of 3 × 4 from indices (x, y, z) to positions: its diagonal
//! is the voxel size and its last column the origin, if the axes are not rotated. The unit is not
//! stated. Regions are grouped in a tree (`parent_ids`), which is not shown.
//!
//! Example: `/mask` of 60 × 100 × 100 in a file of this format is the channel `mask` of labels with
//! the axes zyx.

use voltile_base::geometry::Xyz;

use super::contents::About;
use super::marks::Marks;
use super::{VoxelSize, usual_axes};

const MASK: &str = "/mask";

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    if about.path != MASK || !about.is_integer() {
        return None;
    }
    let root = about.file.attributes("/");
    root.text("format").filter(|format| format == "segger")?;
    let (voxel, origin) = root
        .numbers("ijk_to_xyz_transform")
        .and_then(|matrix| size_and_origin(&matrix))
        .unzip();
    Some(Marks {
        because: Some("its format is segger".to_owned()),
        axes: usual_axes(about.rank()),
        voxel: voxel.flatten(),
        origin,
        ..Marks::labels("its format is segger, and /mask holds ids of regions")
    })
}

/// The voxel size and the origin, unless the axes are rotated. The matrix 4 0 0 10, 0 4 0 20,
/// 0 0 40 30 is a voxel size of 4 × 4 × 40, and an origin of 10, 20, 30.
fn size_and_origin(matrix: &[f64]) -> Option<(Option<VoxelSize>, Xyz<f64>)> {
    let [xx, 0.0, 0.0, x, 0.0, yy, 0.0, y, 0.0, 0.0, zz, z] = *matrix else {
        return None;
    };
    Some((VoxelSize::xyz(&[xx, yy, zz], None), Xyz::new(x, y, z)))
}
