//! DREAM.3D: arrays of cells below `/DataContainers/<name>`, whose image geometry is in
//! `_SIMPL_GEOMETRY`.
//!
//! Source: SIMPL (`ImageGeom`, `DataArray::writeH5Data`). `DIMENSIONS`, `SPACING` and `ORIGIN` are
//! in x, y, z order. An array is z, y, x and a component axis. Three or four bytes for each cell
//! are a colour, as in `IPFColor`; `FeatureIds` are the ids of grains. Arrays of features and
//! ensembles have other shapes, and are left out. The later program, simplnx, is read in
//! [`simplnx`].
//!
//! Example: `/DataContainers/Steel/CellData/FeatureIds` of 117 × 201 × 189 × 1 fits the
//! `DIMENSIONS` 189, 201, 117; with the `SPACING` 0.25, 0.25, 0.5 it holds labels, its axes are
//! zyxc, and its voxels 0.25 × 0.25 × 0.5, of no stated unit.

pub(super) mod simplnx;

use voltile_base::axes::Axes;
use voltile_base::paint::Kind;

use super::VoxelSize;
use super::channel::xyz;
use super::contents::About;
use super::marks::Marks;

const CONTAINERS: &str = "/DataContainers/";

/// An image geometry: all in x, y, z order.
pub(super) struct Geometry {
    pub dimensions: Vec<f64>,
    pub spacing: Vec<f64>,
    pub origin: Vec<f64>,
    pub unit: Option<String>,
}

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let container = about.path.strip_prefix(CONTAINERS)?.split('/').next()?;
    let group = format!("{CONTAINERS}{container}/_SIMPL_GEOMETRY");
    let file = about.file;
    let geometry = Geometry {
        dimensions: file.numbers(&format!("{group}/DIMENSIONS"))?,
        spacing: file
            .numbers(&format!("{group}/SPACING"))
            .unwrap_or_default(),
        origin: file.numbers(&format!("{group}/ORIGIN")).unwrap_or_default(),
        unit: None,
    };
    array_marks(about, &geometry)
}

/// The marks of an array, if it has a value for each cell of the geometry.
pub(super) fn array_marks(about: &About<'_>, geometry: &Geometry) -> Option<Marks> {
    let shape = &about.dataset.shape;
    let axes = match shape.len() {
        3 => Axes::new("zyx"),
        4 => Axes::new("zyxc"),
        _ => return None,
    };
    let dimensions = geometry.dimensions.iter().rev();
    let cells: Vec<u64> = dimensions.map(|extent| *extent as u64).collect();
    if cells != shape[..3] {
        return None;
    }
    let is_feature = about.last() == "FeatureIds" && about.is_integer();
    let reason = "it is called FeatureIds, the grains of DREAM.3D";
    let labels = Marks::labels_if(is_feature, reason);
    let is_colour = shape.len() == 4 && about.is_colour();
    Some(Marks {
        because: Some(format!(
            "{} has a value for each cell of its geometry",
            about.path
        )),
        axes: axes.ok(),
        kind: labels.kind.or(is_colour.then_some(Kind::Rgb)),
        voxel: VoxelSize::xyz(&geometry.spacing, geometry.unit.as_deref()),
        origin: xyz(&geometry.origin),
        ..labels
    })
}
