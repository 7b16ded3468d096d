//! Neurodata Without Borders (NWB 2): `/acquisition/<name>/data` of an image series, and single images.
//!
//! Source: the NWB format specification, "TwoPhotonSeries", "OnePhotonSeries" and "ImageSeries": their data is (time,
//! width, height) or (time, width, height, depth), transposed relative to images; and "GrayscaleImage", "RGBImage" and
//! "RGBAImage", which are datasets of (width, height) or (width, height, component) in a group `Images`. Many writers store
//! the height before the width instead; files do not state which, so the specification is followed. Four axes of bytes of
//! which the last is 3 are frames of colours. `grid_spacing` of the imaging plane is x, y, z; `resolution` of an image is in
//! pixels per centimetre. Series with pixels in other files (`external_file`) have no data here.

use super::contents::{About, Contents};
use super::marks::Marks;
use super::spacing::{Calibration, Spacing};
use super::{Layout, VoxelSize, last_of};
use crate::axes::{Axes, AxisName};
use crate::paint::Kind;
use crate::volume::VoxelType;

use AxisName::{C, T, X, Y, Z};

const NAME: &str = "NWB";

pub(super) struct Nwb;

impl Layout for Nwb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        series(about).or_else(|| image(about))
    }

    fn recognise(&self, contents: &Contents<'_>) -> Option<String> {
        let version = contents.file.attributes("/")?.text("nwb_version")?;
        Some(format!("its attribute nwb_version is {version}"))
    }

    fn is_exclusive(&self) -> bool {
        true
    }
}

/// The data of an image series.
fn series(about: &About<'_>) -> Option<Marks> {
    if about.last() != "data" {
        return None;
    }
    let series = about.file.attributes(about.group())?.text("neurodata_type")?;
    if !matches!(series.as_str(), "TwoPhotonSeries" | "OnePhotonSeries" | "ImageSeries" | "ImageMaskSeries") {
        return None;
    }
    let is_colour = about.dataset.stored.voxel == VoxelType::U8 && about.dataset.shape.last() == Some(&3);
    let (axes, kind) = match about.rank() {
        3 => (Axes::from_known([T, X, Y]), None),
        4 if is_colour => (Axes::from_known([T, X, Y, C]), Some(Kind::Rgb)),
        4 => (Axes::from_known([T, X, Y, Z]), None),
        _ => return None,
    };
    Some(Marks {
        label: Some(last_of(about.group()).to_owned()),
        axes: Some(axes),
        kind,
        voxel: voxel_size(about),
        ..Marks::because(format!("{} is the data of a {series}", about.path))
    })
}

/// A single image.
fn image(about: &About<'_>) -> Option<Marks> {
    let kind = about.attributes.text("neurodata_type")?;
    let (axes, is_colour) = match (kind.as_str(), about.rank()) {
        ("GrayscaleImage" | "Image", 2) => (Axes::from_known([X, Y]), false),
        ("RGBImage" | "RGBAImage" | "Image", 3) => (Axes::from_known([X, Y, C]), true),
        _ => return None,
    };
    let is_colour = is_colour && matches!(about.dataset.shape.last(), Some(3 | 4));
    let along = || {
        let density =
            about.attributes.numbers("resolution")?.first().copied().filter(|density| *density > 0.0)?;
        Some(Spacing::new(1.0 / density, None, Some("cm")))
    };
    Some(Marks {
        voxel: Calibration::of(&axes, &about.dataset.shape, &[along(), along()]).voxel,
        axes: Some(axes),
        kind: is_colour.then_some(Kind::Rgb),
        ..Marks::because(format!("{} is a {kind}", about.path))
    })
}

fn voxel_size(about: &About<'_>) -> Option<VoxelSize> {
    let path = format!("{}/imaging_plane/grid_spacing", about.group());
    let unit = about.file.attributes(&path).and_then(|attributes| attributes.text("unit"));
    VoxelSize::xyz(&about.file.numbers(&path)?, unit.as_deref())
}
