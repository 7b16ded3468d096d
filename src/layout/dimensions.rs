//! HDF5's dimension labels and dimension scales: names of axes that any program may write.
//!
//! Source: The HDF Group, "HDF5 Dimension Scale Specification" (H5DS), and netCDF-4, which names its
//! dimensions by scales. Labels take precedence over names of scales. Evenly spaced scales along x, y and z
//! give the voxel size. Letters and the usual words are understood; if one axis is not, none are used.

use super::contents::About;
use super::marks::Marks;
use super::{Layout, VoxelSize};
use crate::axes::{Axes, AxisName};
use crate::volume::hdf5::Scale;

/// Relative tolerance for evenly spaced steps.
const EVEN: f64 = 1e-3;

pub(super) struct Dimensions;

impl Layout for Dimensions {
    fn name(&self) -> &'static str {
        "dimension labels"
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        let (has_labels, has_scales) =
            (about.attributes.has("DIMENSION_LABELS"), about.attributes.has("DIMENSION_LIST"));
        if !has_labels && !has_scales {
            return None;
        }
        let nothing = || vec![None; about.rank()];
        let labels = about.dataset.dimension_labels().unwrap_or_default();
        let scales = if has_scales { about.dataset.scales().unwrap_or_else(nothing) } else { nothing() };
        let name = |place: usize| axis(labels.get(place), scales.get(place).and_then(Option::as_ref));
        let letters: Option<String> =
            (0..about.rank()).map(|place| name(place).map(AxisName::letter)).collect();
        let axes = Axes::new(&letters?).ok()?;
        let voxel = voxel_size(&axes, &scales);
        let because = format!("the dimensions of {} are named: {axes}", about.path);
        Some(Marks { axes: Some(axes), voxel, ..Marks::because(because) })
    }
}

/// The axis that a dimension's label, or one of the names of its scale, denotes.
fn axis(label: Option<&String>, scale: Option<&Scale>) -> Option<AxisName> {
    let names = scale.map_or(&[][..], |scale| &scale.names);
    label.into_iter().chain(names).find_map(|name| axis_of_word(name))
}

fn axis_of_word(word: &str) -> Option<AxisName> {
    let word = word.trim().to_lowercase();
    let word = word.strip_prefix("dimensionscale").unwrap_or(&word);
    match word {
        "t" | "time" | "times" | "frame" | "frames" | "timepoint" => Some(AxisName::T),
        "c" | "ch" | "channel" | "channels" | "wavelength" => Some(AxisName::C),
        "z" | "zspace" | "depth" | "plane" | "planes" | "section" | "slice" | "slices" => Some(AxisName::Z),
        "y" | "yspace" | "height" | "row" | "rows" => Some(AxisName::Y),
        "x" | "xspace" | "width" | "column" | "columns" | "col" => Some(AxisName::X),
        _ => None,
    }
}

fn voxel_size(axes: &Axes, scales: &[Option<Scale>]) -> Option<VoxelSize> {
    let along = |axis| step(&scales.get(axes.position(axis)?)?.as_ref()?.values);
    VoxelSize::xyz(&[along(AxisName::X)?, along(AxisName::Y)?, along(AxisName::Z)?], None)
}

/// The distance between adjacent positions, if it is constant.
fn step(positions: &[f64]) -> Option<f64> {
    let count = positions.len().checked_sub(1).filter(|count| *count > 0)?;
    let step = (positions.last()? - positions.first()?) / count as f64;
    let even = positions.windows(2).all(|pair| ((pair[1] - pair[0]) - step).abs() <= EVEN * step.abs());
    (even && step != 0.0).then_some(step.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_letters_name_axes() {
        let words = ["Time", "C", "zspace", "rows", " x ", "DimensionScaleX"];
        let letters: Option<String> =
            words.iter().map(|word| axis_of_word(word).map(AxisName::letter)).collect();
        assert_eq!(letters.as_deref(), Some("tczyxx"));
        assert_eq!(axis_of_word("phony_dim_0"), None);
    }

    #[test]
    fn only_even_steps_are_a_size() {
        assert_eq!(step(&[0.0, 2.0, 4.0]), Some(2.0));
        assert_eq!(step(&[4.0, 2.0, 0.0]), Some(2.0));
        assert_eq!(step(&[0.0, 0.0, 0.0]), None);
        assert_eq!(step(&[0.0, 2.0, 5.0]), None);
        assert_eq!(step(&[1.0]), None);
    }
}
