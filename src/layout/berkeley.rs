//! EMD files of the Berkeley Lab: a group with `emd_group_type` holds a dataset and a vector `dim…`
//! for each of its axes.
//!
//! Source: the EMD format's specification (emdatasets.com, versions 0.2 to 1.0), `emdfile`
//! (py4DSTEM) and Prismatic. The vectors are `dim1`, `dim2`, … in version 0.2, and `dim0`, `dim1`,
//! … in version 1.0, in the order of the axes. A vector has a position for each voxel, or only the
//! first two. Its attributes are `name` and `units`, in version 0.2 as in `[n_m]`. In Prismatic's
//! output, `R_x` runs along x and `R_y` along y; its third axis, the bins of the detector, is taken
//! for z.
//!
//! Example: a group `/data/cells` with `emd_group_type` holds `data` of 512 × 1024, and `dim1` and
//! `dim2` with the positions 0, 0.5 in `[n_m]`, named `y` and `x`. This is the channel `cells` with
//! the axes yx and pixels of 0.5 × 0.5 nm.

use voltile_hdf5::volume::hdf5::OpenFile;

use super::axis_names::{axis_named, completed, is_spectral};
use super::contents::About;
use super::marks::Marks;
use super::spacing::{Spacing, StoredAxis};
use super::{last_of, usual_axes};

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let group = about.group();
    if !about.group_attributes().has("emd_group_type") {
        return None;
    }
    let beside = about.file.names_in(group);
    // The number in the name of the first vector: 0 or 1.
    let first = (0..2).find(|number| beside.contains(&format!("dim{number}")))?;
    let stored: Vec<StoredAxis> = (0..about.rank())
        .map(|place| axis(about, place, &format!("{group}/dim{}", first + place)))
        .collect();
    let shape = &about.dataset.shape;
    let axes = completed(stored.iter().map(|axis| axis.name), shape)
        .or_else(|| usual_axes(about.rank()))?;
    Some(Marks {
        because: Some(format!(
            "{} has emd_group_type, and dim{first} next to its data",
            last_of(group)
        )),
        named_by: Some(group.to_owned()),
        ..Marks::from_stored(axes, shape, &stored)
    })
}

/// The axis at `place`, which the vector at `path` describes.
fn axis(about: &About<'_>, place: usize, path: &str) -> StoredAxis {
    let attributes = about.file.attributes(path);
    let extent = about.dataset.shape.get(place).copied().unwrap_or(0);
    let name = attributes.text("name");
    let units = attributes.text("units");
    StoredAxis {
        name: name.as_deref().and_then(axis_named),
        is_spectral: name.iter().chain(&units).any(|text| is_spectral(text)),
        spacing: units.and_then(|units| spacing(about.file, path, &units, extent)),
    }
}

/// The spacing along an axis by its positions: one for each voxel, or only the first two.
fn spacing(file: &OpenFile, path: &str, units: &str, extent: u64) -> Option<Spacing> {
    let unit = unit(units)?;
    let positions = file.numbers(path)?;
    let is_complete = positions.len() as u64 == extent || positions.len() == 2;
    Spacing::from_positions(&positions, Some(&unit)).filter(|_| is_complete)
}

/// A unit as other programs write it: `[n_m]` is nm. `None` if nothing is calibrated.
fn unit(written: &str) -> Option<String> {
    let plain = written.trim().trim_start_matches('[').trim_end_matches(']');
    let plain = plain.replace("\\mu", "µ").replace('_', "");
    match plain.to_lowercase().as_str() {
        "" | "pixel" | "pixels" | "px" | "unknown" | "none" | "n/a" => None,
        "a" => Some("Å".to_owned()),
        _ => Some(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_lose_their_brackets() {
        for (written, expected) in [
            ("[n_m]", Some("nm")),
            ("[\\mu_m]", Some("µm")),
            ("A", Some("Å")),
            ("nm", Some("nm")),
        ] {
            assert_eq!(unit(written).as_deref(), expected);
        }
        for none in ["pixels", "[]", "unknown"] {
            assert_eq!(unit(none), None, "{none}");
        }
    }
}
