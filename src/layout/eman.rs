//! EMAN2's HDF5 files: `/MDF/images/<number>/image`, one group for each image of a stack.
//!
//! Source: EMAN2 (`hdfio2.cpp`, and the wiki's "Eman2HDF"). An image is z, y, x, or y, x; each has
//! its own size, and is a channel named by its number. `EMAN.apix_x`, `EMAN.apix_y` and
//! `EMAN.apix_z` of its group are ångström per voxel.
//!
//! Example: `/MDF/images/3/image` of 64 × 64, in a group with `EMAN.apix_x` and `EMAN.apix_y` of
//! 1.5, is the channel `3` with the axes yx and pixels of 1.5 × 1.5 Å.

use voltile_base::axes::AxisName;

use super::contents::About;
use super::marks::Marks;
use super::spacing::Spacing;
use super::{number_after, usual_axes};

const IMAGES: &str = "/MDF/images/";

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let number = about.path.strip_prefix(IMAGES)?.strip_suffix("/image")?;
    number_after(number, "")?;
    let axes = usual_axes(about.rank())?;
    let spacing = |axis: AxisName, _| {
        let name = format!("EMAN.apix_{axis}");
        let step = about.group_attributes().number(&name)?;
        Some(Spacing::new(step, None, Some("Å")))
    };
    Some(Marks {
        because: Some(format!("it has {}", about.path)),
        named_by: Some(about.group().to_owned()),
        ..Marks::from_spacings(axes, &about.dataset.shape, spacing)
    })
}
