//! Neurodata Without Borders (NWB 2): `/acquisition/<name>/data` of an image series, and single
//! images.
//!
//! Source: the NWB format specification, "ImageSeries" and its kinds ("TwoPhotonSeries",
//! "OnePhotonSeries", "OpticalSeries", "ImageMaskSeries"): their data is (frame, x, y) or (frame,
//! x, y, z), transposed relative to images in numpy, since version 2.2; it was (frame, y, x) or
//! (frame, z, y, x) before (nwb-schema, issue 262). Viewers (nwbwidgets) and converters (neuroconv)
//! follow the specification; a file does not tell whether its writer did. "GrayscaleImage",
//! "RGBImage" and "RGBAImage" are datasets of (x, y) or (x, y, component) in a group `Images`,
//! transposed in the same way. Bytes with four axes and three or four positions along the last are
//! frames in colour, unless they are from a microscope. `grid_spacing` of the imaging plane is x,
//! y or x, y, z; `resolution` of an image is in pixels per centimetre. Series with pixels in other
//! files (`external_file`) have no data here. Masks of regions of interest (`image_mask`: region,
//! x, y) and volumes of extensions come after the series.
//!
//! Example: `/acquisition/TwoPhotonSeries/data` of 9000 × 512 × 256, in a file whose `nwb_version`
//! is 2.6.0, has 9000 time points of 512 columns and 256 rows (axes txy), and the label
//! `TwoPhotonSeries`; with the `rate` 30 they are a thirtieth of a second apart.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::paint::Kind;
use voltile_base::timing::Timing;

use super::contents::{About, Contents};
use super::marks::Marks;
use super::spacing::Spacing;
use super::{Rank, VoxelSize, last_of};

/// The namespaces of NWB's own types. Data of types that are not known here are no volumes.
const CORE: [&str; 3] = ["core", "hdmf-common", "hdmf-experimental"];
/// Types of extensions (ndx-multichannel-volume), and the axes of their data.
const VOLUMES: [(&str, &str); 4] = [
    ("MultiChannelVolume", "xyzc"),
    ("MultiChannelVolume", "xyz"),
    ("MultiChannelVolumeSeries", "txyzc"),
    ("MultiChannelVolumeSeries", "txyz"),
];

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    series(about)
        .or_else(|| image(about))
        .or_else(|| mask_or_extension(about))
}

pub(super) fn recognise(contents: &Contents<'_>) -> Option<String> {
    let version = contents.file.attributes("/").text("nwb_version")?;
    Some(format!("its attribute nwb_version is {version}"))
}

/// The data of an image series.
fn series(about: &About<'_>) -> Option<Marks> {
    if about.last() != "data" {
        return None;
    }
    let series = about.group_attributes().text("neurodata_type")?;
    let is_of_microscope = match series.as_str() {
        "TwoPhotonSeries" | "OnePhotonSeries" => true,
        "ImageSeries" | "ImageMaskSeries" | "OpticalSeries" => false,
        _ => return None,
    };
    let is_colour = !is_of_microscope && about.is_colour();
    let axes = match about.rank() {
        3 => axes_in_version(about, "txy", "tyx"),
        4 if is_colour => axes_in_version(about, "txyc", "tyxc"),
        4 => axes_in_version(about, "txyz", "tzyx"),
        _ => None,
    }?;
    Some(Marks {
        rank: Some(Rank::Declared),
        label: Some(last_of(about.group()).to_owned()),
        kind: is_colour.then_some(Kind::Rgb),
        voxel: voxel_size(about, &axes),
        timing: timing(about),
        axes: Some(axes),
        ..Marks::because(format!("{} is the data of a {series}", about.path))
    })
}

/// The masks of regions of interest, and the data of extensions. The types in [`VOLUMES`] have
/// known axes; data of other types must have at least three.
fn mask_or_extension(about: &About<'_>) -> Option<Marks> {
    let group = about.group_attributes();
    let data_type = group.text("neurodata_type")?;
    let rank = about.rank();
    let mut known = VOLUMES.iter();
    let known = known.find(|(name, letters)| *name == data_type && letters.len() == rank);
    let axes = match known {
        Some((_, letters)) => Axes::new(letters).ok(),
        None if about.last() == "image_mask" && rank == 3 => axes_in_version(about, "zxy", "zyx"),
        None => None,
    };
    if axes.is_none() {
        let namespace = group.text("namespace").unwrap_or_default();
        if rank <= 2 || CORE.contains(&namespace.as_str()) {
            return None;
        }
    }
    Some(Marks {
        axes,
        label: Some(last_of(about.group()).to_owned()),
        named_by: (about.last() == "data").then(|| about.group().to_owned()),
        ..Marks::because(format!("{} belongs to a {data_type}", about.path))
    })
}

/// The axes by the version of the file: x comes before y since version 2.2.
fn axes_in_version(about: &About<'_>, x_first: &str, x_last: &str) -> Option<Axes> {
    let root = about.file.attributes("/");
    let version = root.text("nwb_version").unwrap_or_default();
    let mut numbers = version
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .split('.')
        .map_while(|number| number.parse::<u32>().ok());
    let version = numbers.next().zip(numbers.next());
    let is_x_first = version.is_none_or(|version| version >= (2, 2));
    Axes::new(if is_x_first { x_first } else { x_last }).ok()
}

/// A single image.
fn image(about: &About<'_>) -> Option<Marks> {
    let data_type = about.attributes.text("neurodata_type")?;
    let has_components = match (data_type.as_str(), about.rank()) {
        ("GrayscaleImage" | "Image", 2) => false,
        ("RGBImage" | "RGBAImage" | "Image", 3) => true,
        _ => return None,
    };
    let axes = if has_components {
        axes_in_version(about, "xyc", "yxc")
    } else {
        axes_in_version(about, "xy", "yx")
    }?;
    let is_colour = has_components && matches!(about.dataset.shape.last(), Some(3 | 4));
    let pixel = about
        .attributes
        .number("resolution")
        .filter(|density| *density > 0.0)
        .map(|density| Spacing::new(1.0 / density, None, Some("cm")));
    Some(Marks {
        because: Some(format!("{} is a {data_type}", about.path)),
        kind: is_colour.then_some(Kind::Rgb),
        ..Marks::from_spacings(axes, &about.dataset.shape, |_, _| pixel.clone())
    })
}

/// When frames were recorded: by the rate in hertz, else by the seconds of each frame.
fn timing(about: &About<'_>) -> Option<Timing> {
    let start = about.file.attributes(&about.beside("starting_time"));
    if let Some([rate]) = start.numbers("rate").as_deref() {
        return Timing::even(1.0 / rate);
    }
    // A table, because there are many frames: 100,000 in an hour of two-photon microscopy.
    Timing::of_seconds(&about.file.table(&about.beside("timestamps"))?)
}

/// The voxel size by the spacing of the imaging plane.
fn voxel_size(about: &About<'_>, axes: &Axes) -> Option<VoxelSize> {
    let path = about.beside("imaging_plane/grid_spacing");
    let unit = about.file.attributes(&path).text("unit");
    let spacing = about.file.numbers(&path)?;
    let [x, y] = *spacing else {
        return VoxelSize::xyz(&spacing, unit.as_deref());
    };
    let spacing_along = |axis, _| match axis {
        AxisName::X => Some(Spacing::new(x, None, unit.as_deref())),
        AxisName::Y => Some(Spacing::new(y, None, unit.as_deref())),
        _ => None,
    };
    Marks::from_spacings(axes.clone(), &about.dataset.shape, spacing_along).voxel
}
