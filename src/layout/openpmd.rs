//! openPMD: meshes at `/data/<iteration>/meshes/<record>`, or `…/<record>/<component>`.
//!
//! Source: the openPMD standard 1.1.0, "Mesh Based Records". `axisLabels`, `gridSpacing` and
//! `gridGlobalOffset` of a record are in the order of its axes: slowest first where `dataOrder` is
//! `C`, fastest first where it is `F`. `gridUnitSI` converts the spacing to metres. Components of a
//! vector are datasets of their own. `unitSI` converts stored values to SI units: a notice says so,
//! and stored values are shown. The root's attribute `meshesPath` names the group of meshes.
//!
//! Example: `/data/100/meshes/rho` with the `axisLabels` "z", "y", "x", the `gridSpacing` 4, 2, 2
//! and the `gridUnitSI` 1e-6 has the axes zyx and voxels of 2e-6 × 2e-6 × 4e-6 m (x × y × z).

use voltile_base::notice::Notice;
use voltile_hdf5::volume::hdf5::Attributes;

use super::axis_names::{axis_named, completed};
use super::contents::About;
use super::marks::Marks;
use super::spacing::Spacing;

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let root = about.file.attributes("/");
    let meshes_path = root
        .text("meshesPath")
        .unwrap_or_else(|| "meshes/".to_owned());
    let meshes = format!("/{}/", meshes_path.trim_matches('/'));
    if !root.has("openPMD") || !about.path.contains(&meshes) {
        return None;
    }
    // A scalar record is a dataset, a vector a group of datasets.
    let record = if about.attributes.has("axisLabels") {
        &about.attributes
    } else {
        about.group_attributes()
    };
    let is_reversed = record.text("dataOrder").as_deref() == Some("F");
    let labels = ordered(record.texts("axisLabels")?, is_reversed);
    let shape = &about.dataset.shape;
    let axes = completed(labels.iter().map(|label| axis_named(label)), shape)
        .filter(|axes| axes.rank() == about.rank());
    let spacings = spacings(record, is_reversed).unwrap_or_default();
    let spacing = |_, place: usize| spacings.get(place).cloned();
    let in_space = axes.map(|axes| Marks::from_spacings(axes, shape, spacing));
    Some(Marks {
        because: Some(format!("{} is a mesh of openPMD", about.path)),
        notices: unit_notice(about).into_iter().collect(),
        ..in_space.unwrap_or_default()
    })
}

/// Values in the order of the stored axes; `is_reversed` if they are given fastest first.
fn ordered<T>(mut values: Vec<T>, is_reversed: bool) -> Vec<T> {
    if is_reversed {
        values.reverse();
    }
    values
}

/// The spacing of each stored axis, in metres.
fn spacings(record: &Attributes, is_reversed: bool) -> Option<Vec<Spacing>> {
    let unit = record.number("gridUnitSI")?;
    let offsets = record.numbers("gridGlobalOffset").unwrap_or_default();
    let firsts = ordered(offsets, is_reversed);
    let steps = ordered(record.numbers("gridSpacing")?, is_reversed);
    let spacings = steps.iter().enumerate().map(|(place, step)| {
        let first = firsts.get(place).map(|first| first * unit);
        Spacing::new(step * unit, first, Some("m"))
    });
    Some(spacings.collect())
}

/// A notice if stored values are not in SI units.
fn unit_notice(about: &About<'_>) -> Option<Notice> {
    let unit = about
        .attributes
        .number("unitSI")
        .filter(|unit| *unit != 1.0)?;
    Some(Notice::warning(format!(
        "stored values × {unit:?} are in SI units; stored values are shown"
    )))
}
