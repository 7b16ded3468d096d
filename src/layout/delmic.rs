//! Delmic's HDF5 files (Odemis): `/Acquisition<number>/ImageData/Image`.
//!
//! Source: Odemis (`odemis.dataio.hdf5`), which follows SVI's HDF5 format for microscopes. The axes
//! are named by dimension labels, C T Z Y X. `DimensionScaleX` etc. next to the image hold the size
//! of a voxel in metres; their attribute `State` says where it is from: sizes with 111 (invalid)
//! and 112 (a default) are not used. `PhysicalData` describes the acquisition. `/Preview` holds
//! copies.
//!
//! Example: `/Acquisition0/ImageData/Image` of 1 × 1 × 1 × 512 × 512, next to `DimensionScaleX` and
//! `DimensionScaleY` of 2e-9 with the `UNIT` m, is the channel `Acquisition0` with the axes ctzyx
//! and pixels of 2e-9 × 2e-9 m.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::paint::Kind;

use super::contents::About;
use super::marks::Marks;
use super::spacing::Spacing;
use super::{group_of, last_of, number_after};

/// Values of `State` which say that a size was not measured by the instrument.
const NOT_MEASURED: [f64; 2] = [111.0, 112.0];

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let acquisition = group_of(about.path.strip_suffix("/Image")?);
    let is_image = last_of(about.group()) == "ImageData" && group_of(acquisition).is_empty();
    if !is_image || number_after(last_of(acquisition), "Acquisition").is_none() {
        return None;
    }
    let axes = axes(about)?;
    let is_colour = axes.last() == Some(AxisName::C) && about.is_colour();
    Some(Marks {
        because: Some(format!("it has {}", about.path)),
        named_by: Some(acquisition.to_owned()),
        label: title(about, acquisition),
        kind: is_colour.then_some(Kind::Rgb),
        ..Marks::from_spacings(axes, &about.dataset.shape, |axis, _| spacing(about, axis))
    })
}

/// The labelled axes, else the last of C T Z Y X: zyx for a dataset of three axes.
fn axes(about: &About<'_>) -> Option<Axes> {
    let labels = about
        .dataset
        .dimension_labels()
        .map(|labels| labels.concat().to_lowercase());
    if let Some(axes) = labels.and_then(|labels| Axes::new(&labels).ok()) {
        return Some(axes);
    }
    let left_out = 5usize.checked_sub(about.rank())?;
    Axes::new("ctzyx".get(left_out..)?).ok()
}

/// The spacing along an axis, by `DimensionScaleX` etc.
fn spacing(about: &About<'_>, axis: AxisName) -> Option<Spacing> {
    let letter = axis.letter().to_ascii_uppercase();
    let path = about.beside(&format!("DimensionScale{letter}"));
    let scale = about.file.attributes(&path);
    if let Some(state) = scale.number("State")
        && NOT_MEASURED.contains(&state)
    {
        return None;
    }
    let step = about.file.numbers(&path)?.first().copied()?;
    Some(Spacing::new(step, None, scale.text("UNIT").as_deref()))
}

/// The title of the acquisition, else the description of its channel.
fn title(about: &About<'_>, acquisition: &str) -> Option<String> {
    ["Title", "ChannelDescription"]
        .map(|name| format!("{acquisition}/PhysicalData/{name}"))
        .iter()
        .filter_map(|path| about.file.text(path))
        .find(|text| !text.trim().is_empty())
}
