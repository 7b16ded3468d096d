//! N5's attributes in HDF5, as written by Paintera and the tools of the Saalfeld lab. A pyramid is
//! a group whose levels are the datasets `s0`, `s1`, …
//!
//! Source: the N5 specification, and "Paintera Data Format" in Paintera's README.
//! `downsamplingFactors` of each level, `resolution` of a level or its group, and the names of
//! `axes` are in x, y, z order: the reverse of HDF5's storage order. `painteraData` marks groups of
//! labels. [`super::pyramid`] assembles the levels.
//!
//! Example: `/raw/s0` and `/raw/s1` with the `downsamplingFactors` 2, 2, 1, in a group with the
//! `resolution` 4, 4, 40, are the channel `raw` with two levels and voxels of 4 × 4 × 40.

use voltile_base::axes::Axes;
use voltile_hdf5::volume::hdf5::Attributes;

use super::contents::About;
use super::marks::Marks;
use super::{VoxelSize, group_of, number_after, whole_factor};

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let own = &about.attributes;
    let is_level = number_after(about.last(), "s").is_some();
    let group = is_level.then(|| about.group_attributes());
    let factor = own
        .numbers("downsamplingFactors")
        .and_then(|numbers| whole_factor(numbers.get(..3)?));
    let is_marked_group =
        group.is_some_and(|group| group.has("multiScale") || group.has("painteraData"));
    let is_in_pyramid = is_marked_group || is_first_level(about) || factor.is_some();
    let because = is_in_pyramid.then(|| format!("{} is a level of an N5 pyramid", about.path));
    let voxel = if is_in_pyramid {
        resolution(own).or_else(|| resolution(group?))
    } else {
        None
    };
    let is_labels = is_level && about.is_integer() && is_paintera_label(about);
    Some(Marks {
        because,
        factor,
        voxel,
        axes: stated_axes(own).or_else(|| stated_axes(group?)),
        ..Marks::labels_if(is_labels, "painteraData is of the type label")
    })
}

/// Whether the dataset is `s0` and the `s1` beside it has `downsamplingFactors`, which the first
/// level may lack.
fn is_first_level(about: &About<'_>) -> bool {
    if about.last() != "s0" {
        return false;
    }
    let second = about.file.attributes(&about.beside("s1"));
    second.has("downsamplingFactors")
}

fn resolution(attributes: &Attributes) -> Option<VoxelSize> {
    VoxelSize::xyz(&attributes.numbers("resolution")?, None)
}

/// The axes that the attribute `axes` lists, fastest first, by one-letter names. The list is stored
/// as an array of strings or as one string of JSON.
fn stated_axes(attributes: &Attributes) -> Option<Axes> {
    let names = attributes.texts("axes")?;
    let names = match &names[..] {
        [json] if json.trim_start().starts_with('[') => serde_json::from_str(json).ok()?,
        _ => names,
    };
    let slowest_first: String = names.iter().rev().map(|name| name.to_lowercase()).collect();
    Axes::new(&slowest_first).ok()
}

/// Whether the group of a level, or the parent of that group, is a Paintera dataset of labels.
fn is_paintera_label(about: &About<'_>) -> bool {
    has_label_type(about.group_attributes())
        .or_else(|| has_label_type(&about.file.attributes(group_of(about.group()))))
        .unwrap_or(false)
}

/// Whether a Paintera dataset has the type `label`, by the attributes of its group; `None` if the
/// group is not a Paintera dataset, or states no type.
fn has_label_type(group: &Attributes) -> Option<bool> {
    let json = group.text("painteraData")?;
    let data: serde_json::Value = serde_json::from_str(&json).ok()?;
    Some(data["type"].as_str()? == "label")
}
