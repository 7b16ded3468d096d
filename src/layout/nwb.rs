//! Neurodata Without Borders (NWB 2): `/acquisition/<name>/data` of an image series.
//!
//! Source: the NWB format specification, "TwoPhotonSeries", "OnePhotonSeries" and "ImageSeries". Their data is (time,
//! width, height) or (time, width, height, depth): transposed relative to images. Many writers store (time, height,
//! width) instead; files do not state which, so the specification is followed. `grid_spacing` of the imaging plane is
//! x, y, z. Series with pixels in other files (`external_file`) have no data here.

use super::contents::{About, Contents};
use super::marks::Marks;
use super::{FoundChannel, Layout, VoxelSize, last_of, plain};
use crate::axes::{Axes, AxisName};
use crate::volume::hdf5::OpenError;

const NAME: &str = "NWB";

pub(super) struct Nwb;

impl Layout for Nwb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        if about.last() != "data" || !(3..=4).contains(&about.rank()) {
            return None;
        }
        let series = about.file.attributes(about.group())?.text("neurodata_type")?;
        if !matches!(
            series.as_str(),
            "TwoPhotonSeries" | "OnePhotonSeries" | "ImageSeries" | "ImageMaskSeries"
        ) {
            return None;
        }
        use AxisName::{T, X, Y, Z};
        let axes =
            if about.rank() == 3 { Axes::from_known([T, X, Y]) } else { Axes::from_known([T, X, Y, Z]) };
        Some(Marks {
            label: Some(last_of(about.group()).to_owned()),
            axes: Some(axes),
            voxel: voxel_size(about),
            ..Marks::because(format!("{} is the data of a {series}", about.path))
        })
    }

    fn recognise(&self, contents: &Contents<'_>) -> Option<String> {
        let version = contents.file.attributes("/")?.text("nwb_version")?;
        Some(format!("its attribute nwb_version is {version}"))
    }

    fn channels(&self, contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
        plain::channels(contents, |volume| volume.marked_by(NAME).is_some())
    }
}

fn voxel_size(about: &About<'_>) -> Option<VoxelSize> {
    let path = format!("{}/imaging_plane/grid_spacing", about.group());
    let unit = about.file.attributes(&path).and_then(|attributes| attributes.text("unit"));
    VoxelSize::xyz(&about.file.numbers(&path)?, unit.as_deref())
}
