//! ITK's HDF5 images: `/ITKImage/<number>/VoxelData`.
//!
//! Source: `itkHDF5ImageIO`. A dataset is stored with x fastest, and a component axis behind it if a voxel has several.
//! `Spacing` and `Origin` next to it are in x, y, z order and in millimetres. Three or four bytes for each voxel are a
//! colour (ITK's own types of three and four bytes are RGB and RGBA pixels); other components are vectors.
//! `Directions` next to them has a row for each axis, x first: the direction in which it runs in space. The axes are served
//! as stored; where they are not those of space, a remark says how they run, and the position in space is of no use for
//! placing other channels.

use super::Layout;
use super::contents::About;
use super::marks::Marks;
use super::spacing::{Calibration, Spacing};
use crate::base::axes::Axes;
use crate::base::paint::Kind;
use crate::volume::VoxelType;

const NAME: &str = "ITK";
const IMAGES: &str = "/ITKImage/";
const DATA: &str = "VoxelData";
/// The axes in ITK's order.
const AXES: [&str; 4] = ["x", "y", "z", "t"];
/// Directions that differ by less than this are equal.
const CLOSE: f64 = 1e-6;

pub(super) struct Itk;

impl Layout for Itk {
    fn name(&self) -> &'static str {
        NAME
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        if about.last() != DATA || !about.path.starts_with(IMAGES) {
            return None;
        }
        let beside = |name: &str| about.file.numbers(&format!("{}/{name}", about.group()));
        let spacing = beside("Spacing")?;
        let axes = axes(spacing.len(), about.rank())?;
        let origin = beside("Origin").unwrap_or_default();
        let along = |place: usize| Some(Spacing::new(spacing[place], origin.get(place).copied(), Some("mm")));
        let spacings: Vec<_> = (0..spacing.len()).rev().map(along).collect();
        let Calibration { voxel, origin } = Calibration::new(&axes, &about.dataset.shape, &spacings);
        let has_components = axes.rank() > spacing.len();
        let is_colour = has_components && about.is_colour();
        let because = format!("it has {}", about.path);
        let kind = is_colour.then_some(Kind::Rgb);
        let turned = beside("Directions").and_then(|matrix| turned(&matrix, spacing.len()));
        let origin = origin.filter(|_| turned.is_none());
        let remarks = turned.into_iter().collect();
        Some(Marks { axes: Some(axes), kind, voxel, origin, remarks, ..Marks::because(because) })
    }

    fn is_exclusive(&self) -> bool {
        true
    }
}

/// The axes of an image of that many dimensions, with or without components.
fn axes(dimensions: usize, rank: usize) -> Option<Axes> {
    let space = match dimensions {
        2 => "yx",
        3 => "zyx",
        4 => "tzyx",
        _ => return None,
    };
    match rank.checked_sub(dimensions)? {
        0 => Axes::new(space).ok(),
        1 => Axes::new(&format!("{space}c")).ok(),
        _ => None,
    }
}

/// How the axes run in space, if not as usual; nothing if the matrix is not one of that many axes.
fn turned(matrix: &[f64], axes: usize) -> Option<String> {
    if axes == 0 || matrix.len() != axes * axes {
        return None;
    }
    let each: Option<Vec<String>> = matrix.chunks_exact(axes).map(along).collect();
    let usual = AXES.iter().take(axes).map(|axis| format!("+{axis}"));
    match each {
        Some(each) if each.iter().eq(&usual.collect::<Vec<_>>()) => None,
        Some(each) => Some(format!(
            "Directions: its axes {} run along {} in space (ITK's: +x is left, +y posterior, +z superior); they are drawn as \
             stored",
            AXES[..axes.min(AXES.len())].join(", "),
            each.join(", ")
        )),
        None => Some("Directions: its axes are oblique in space; they are drawn as stored".to_owned()),
    }
}

/// The axis of space along which a unit vector runs, such as `-y`; `None` if it runs along none.
fn along(direction: &[f64]) -> Option<String> {
    let is_close = |a: f64, b: f64| (a - b).abs() <= CLOSE;
    let place = direction.iter().position(|part| is_close(part.abs(), 1.0))?;
    let others = direction.iter().enumerate().filter(|(other, _)| *other != place);
    let sign = if direction[place] > 0.0 { '+' } else { '-' };
    let axis = AXES.get(place).filter(|_| others.clone().all(|(_, part)| is_close(*part, 0.0)))?;
    Some(format!("{sign}{axis}"))
}

impl About<'_> {
    /// Whether its last axis can hold red, green, blue and perhaps opacity as bytes.
    pub(super) fn is_colour(&self) -> bool {
        self.dataset.stored.voxel == VoxelType::U8 && matches!(self.dataset.shape.last(), Some(3 | 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_axes_that_are_not_those_of_space_are_remarked() {
        let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        assert_eq!(turned(&identity, 3), None);
        assert_eq!(turned(&[1.0, 0.0, 0.0, 1.0], 2), None);
        assert_eq!(turned(&identity, 2), None);
        let flipped = turned(&[0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0], 3).unwrap();
        assert!(
            flipped.starts_with("Directions: its axes x, y, z run along -y, +x, +z in space"),
            "{flipped}"
        );
        let oblique = turned(&[0.8, 0.6, -0.6, 0.8], 2).unwrap();
        assert!(oblique.starts_with("Directions: its axes are oblique"), "{oblique}");
    }
}
