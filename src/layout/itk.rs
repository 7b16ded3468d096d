//! ITK's HDF5 images: `/ITKImage/<number>/VoxelData`.
//!
//! Source: `itkHDF5ImageIO`. A dataset is stored with x fastest, and a component axis behind it if a voxel has several.
//! `Spacing` and `Origin` next to it are in x, y, z order and in millimetres. Three or four bytes for each voxel are a
//! colour (ITK's own types of three and four bytes are RGB and RGBA pixels); other components are vectors.
//! `Directions` says how the axes lie in space; the axes are served as stored.

use super::Layout;
use super::contents::About;
use super::marks::Marks;
use super::spacing::{Calibration, Spacing};
use crate::axes::Axes;
use crate::paint::Kind;
use crate::volume::VoxelType;

const NAME: &str = "ITK";
const IMAGES: &str = "/ITKImage/";
const DATA: &str = "VoxelData";

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
        let Calibration { voxel, origin } = Calibration::of(&axes, &about.dataset.shape, &spacings);
        let has_components = axes.rank() > spacing.len();
        let is_colour = has_components && about.is_colour();
        let because = format!("it has {}", about.path);
        let kind = is_colour.then_some(Kind::Rgb);
        Some(Marks { axes: Some(axes), kind, voxel, origin, ..Marks::because(because) })
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

impl About<'_> {
    /// Whether its last axis can hold red, green, blue and perhaps opacity as bytes.
    pub(super) fn is_colour(&self) -> bool {
        self.dataset.stored.voxel == VoxelType::U8 && matches!(self.dataset.shape.last(), Some(3 | 4))
    }
}
