//! PlantSeg and Fiji's HDF5 plugin: the attribute `element_size_um`.
//!
//! Source: PlantSeg (`plantseg.io.h5`) and Fiji's "HDF5 Vibez" page. The attribute is the voxel
//! size in micrometres, in z, y, x order like the axes. PlantSeg keeps `/raw`, `/label`,
//! `/predictions` and `/segmentation`; time series of Fiji's plugin are handled by [`super::fiji`].
//!
//! Example: the voxels of a dataset with the `element_size_um` 0.5, 0.1, 0.1 are 0.1 × 0.1 × 0.5 µm
//! (x × y × z).

use super::VoxelSize;
use super::contents::About;
use super::marks::Marks;

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let sizes = about.attributes.numbers("element_size_um")?;
    let because = format!("{} has the attribute element_size_um", about.path);
    Some(Marks {
        voxel: VoxelSize::zyx(&sizes, Some("µm")),
        ..Marks::because(because)
    })
}
