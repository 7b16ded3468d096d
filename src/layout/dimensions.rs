//! HDF5's dimension labels and dimension scales: names of axes that any program may write.
//!
//! Source: The HDF Group, "HDF5 Dimension Scale Specification" (H5DS); netCDF-4, which names its
//! dimensions by scales; and the "CF Metadata Conventions", by which coordinates say what they are:
//! `axis`, `standard_name`, `positive`, and units (`degrees_north`, `days since 1970-01-01`).
//! Labels take precedence over scales, and the attributes of a scale over its name.
//! Evenly spaced scales along x, y and z give the voxel size, in the units of the scales.
//!
//! Example: a dataset with the scales `time`, `lat` and `lon`, whose `units` are `degrees_north`
//! and `degrees_east` and whose coordinates are 0.25 apart, has the axes tyx and pixels of 0.25 ×
//! 0.25 degrees.

use voltile_base::axes::AxisName;
use voltile_hdf5::volume::hdf5::{Attributes, Scale};

use super::Rank;
use super::axis_names::{axis_named, completed, is_spectral};
use super::contents::About;
use super::marks::Marks;
use super::spacing::{Spacing, StoredAxis};

/// The attribute with the names of all axes, separated by commas, that NEON writes.
const LIST_OF_LABELS: &str = "Dimension_Labels";

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let own = &about.attributes;
    if own.text("CLASS").as_deref() == Some("DIMENSION_SCALE") || is_coordinate(own) {
        return Some(Marks {
            rank: Some(Rank::Beside),
            ..dimension_marks(about).unwrap_or_default()
        });
    }
    dimension_marks(about)
}

/// The marks of a dataset by its labels and scales.
pub(super) fn dimension_marks(about: &About<'_>) -> Option<Marks> {
    let labels = labels(about);
    // Looking for scales that are not there is slow.
    let scales = if about.attributes.has("DIMENSION_LIST") {
        about.dataset.scales().unwrap_or_default()
    } else {
        Vec::new()
    };
    let stored: Vec<StoredAxis> = (0..about.rank())
        .map(|place| {
            let scale = scales.get(place).and_then(Option::as_ref);
            axis(labels.get(place).map(String::as_str), scale)
        })
        .collect();
    let shape = &about.dataset.shape;
    let axes = completed(stored.iter().map(|axis| axis.name), shape)?;
    Some(Marks {
        because: Some(format!(
            "the dimensions of {} are named: {axes}",
            about.path
        )),
        ..Marks::from_stored(axes, shape, &stored)
    })
}

/// The labels of the axes in storage order; empty if there are none.
fn labels(about: &About<'_>) -> Vec<String> {
    // Looking for labels that are not there is slow.
    if about.attributes.has("DIMENSION_LABELS")
        && let Some(labels) = about.dataset.dimension_labels()
    {
        return labels;
    }
    let Some(list) = about.attributes.text(LIST_OF_LABELS) else {
        return Vec::new();
    };
    let labels = list.split(',').map(|label| label.trim().to_owned());
    labels.collect()
}

/// An axis by its label and its scale.
fn axis(label: Option<&str>, scale: Option<&Scale>) -> StoredAxis {
    StoredAxis {
        name: label.and_then(axis_named).or_else(|| axis_of(scale?)),
        is_spectral: label.is_some_and(is_spectral) || scale.is_some_and(is_of_spectrum),
        spacing: scale.and_then(spacing),
    }
}

/// Whether a dataset holds coordinates along x or y, for example the longitude of each pixel.
fn is_coordinate(attributes: &Attributes) -> bool {
    let named = lower_case(attributes, "standard_name").and_then(|name| by_standard_name(&name));
    let measured = lower_case(attributes, "units").and_then(|units| by_units(&units));
    is_horizontal(named) || is_horizontal(measured)
}

fn is_horizontal(axis: Option<AxisName>) -> bool {
    matches!(axis, Some(AxisName::X | AxisName::Y))
}

/// An attribute in lower case.
fn lower_case(attributes: &Attributes, name: &str) -> Option<String> {
    Some(attributes.text(name)?.trim().to_lowercase())
}

/// Whether the names or the units of a scale are those of a spectrum.
fn is_of_spectrum(scale: &Scale) -> bool {
    let units = scale.attributes.text("units");
    scale
        .names
        .iter()
        .chain(&units)
        .any(|text| is_spectral(text))
}

/// The axis that a scale says it is, else the one that it is named after.
fn axis_of(scale: &Scale) -> Option<AxisName> {
    stated_axis(&scale.attributes).or_else(|| scale.names.iter().find_map(|name| axis_named(name)))
}

/// The axis that a coordinate states by attributes of CF: a letter in `axis`, a standard name,
/// units, or `positive`, which only vertical coordinates have.
fn stated_axis(attributes: &Attributes) -> Option<AxisName> {
    lower_case(attributes, "axis")
        .and_then(|axis| axis_named(&axis).filter(|_| axis.len() == 1))
        .or_else(|| by_standard_name(&lower_case(attributes, "standard_name")?))
        .or_else(|| by_standard_name(&lower_case(attributes, "long_name")?))
        .or_else(|| by_units(&lower_case(attributes, "units")?))
        .or_else(|| {
            let positive = lower_case(attributes, "positive")?;
            matches!(positive.as_str(), "up" | "down").then_some(AxisName::Z)
        })
}

/// The axis of a standard name of CF: x for `grid_longitude`.
fn by_standard_name(name: &str) -> Option<AxisName> {
    match name {
        "longitude"
        | "grid_longitude"
        | "projection_x_coordinate"
        | "projection_x_angular_coordinate" => Some(AxisName::X),
        "latitude"
        | "grid_latitude"
        | "projection_y_coordinate"
        | "projection_y_angular_coordinate" => Some(AxisName::Y),
        "altitude" | "height" | "depth" | "air_pressure" | "model_level_number" => {
            Some(AxisName::Z)
        }
        _ if name.starts_with("atmosphere_") || name.starts_with("ocean_") => {
            name.contains("_coordinate").then_some(AxisName::Z)
        }
        "time" | "forecast_reference_time" => Some(AxisName::T),
        _ => None,
    }
}

/// The axis of units: y for `degrees_north`, t for `days since 1970-01-01`.
fn by_units(units: &str) -> Option<AxisName> {
    match degrees(units) {
        Some("e" | "east") => Some(AxisName::X),
        Some("n" | "north") => Some(AxisName::Y),
        _ if units.contains(" since ") => Some(AxisName::T),
        _ => None,
    }
}

/// The direction after `degrees_`, in lower case: `north` in `degrees_north`, `e` in `degreeE`;
/// empty in `degrees`.
fn degrees(units: &str) -> Option<&str> {
    let rest = units.strip_prefix("degree")?;
    let rest = rest.strip_prefix('s').unwrap_or(rest);
    Some(rest.strip_prefix('_').unwrap_or(rest))
}

/// The spacing of a scale's coordinates, unpacked by `scale_factor` and `add_offset`. Units such as
/// `degrees_north` and `degreeE` are all `degree`.
fn spacing(scale: &Scale) -> Option<Spacing> {
    let units = scale
        .attributes
        .text("units")
        .or_else(|| scale.attributes.text("UNIT"));
    let is_angle = units
        .as_ref()
        .is_some_and(|units| degrees(&units.to_lowercase()).is_some());
    let unit = if is_angle {
        Some("degree")
    } else {
        units.as_deref()
    };
    let factor = scale.attributes.number("scale_factor").unwrap_or(1.0);
    let offset = scale.attributes.number("add_offset").unwrap_or(0.0);
    let positions: Vec<f64> = scale
        .values
        .iter()
        .map(|stored| stored * factor + offset)
        .collect();
    Spacing::from_positions(&positions, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_of_terrain_following_models_are_heights() {
        for name in [
            "ocean_s_coordinate_g2",
            "atmosphere_hybrid_height_coordinate",
        ] {
            assert_eq!(by_standard_name(name), Some(AxisName::Z), "{name}");
        }
        assert_eq!(by_standard_name("ocean_mixed_layer_thickness"), None);
    }

    #[test]
    fn units_of_coordinates_name_their_axis() {
        assert_eq!(by_units("degrees_north"), Some(AxisName::Y));
        assert_eq!(by_units("degreee"), Some(AxisName::X));
        assert_eq!(
            by_units("hour since 0000-01-01 00:00:00"),
            Some(AxisName::T)
        );
        for other in ["degrees", "m", "kelvin"] {
            assert_eq!(by_units(other), None, "{other}");
        }
    }
}
