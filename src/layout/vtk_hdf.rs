//! VTKHDF: the arrays of an image, `/VTKHDF/PointData/<name>` and `/VTKHDF/CellData/<name>`.
//!
//! Source: Kitware, "VTKHDF File Format", `ImageData`. `WholeExtent` has the first and the last
//! point along x, y and z; `Spacing` and `Origin` are in x, y, z order. An array is z, y, x and a
//! component axis. The attribute `Scalars` of its group names the array that VTK shows.

use super::contents::About;
use super::dream3d::{Geometry, cells};
use super::marks::Marks;
use super::{Layout, Rank};

const ROOT: &str = "/VTKHDF";

pub(super) struct VtkHdf;

impl Layout for VtkHdf {
    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        // Along each axis there is one point more than there are cells.
        let beyond_cells = match about.group().strip_prefix(ROOT)? {
            "/PointData" => 1.0,
            "/CellData" => 0.0,
            _ => return None,
        };
        let image = about.file.attributes(ROOT)?;
        let extent = image.numbers("WholeExtent")?;
        let geometry = Geometry {
            dimensions: extent
                .chunks_exact(2)
                .map(|ends| ends[1] - ends[0] + beyond_cells)
                .collect(),
            spacing: image.numbers("Spacing").unwrap_or_default(),
            origin: image.numbers("Origin").unwrap_or_default(),
            unit: None,
        };
        let shown = about.group_attributes()?.text("Scalars");
        let is_shown = shown.as_deref() == Some(about.last());
        Some(Marks {
            rank: is_shown.then_some(Rank::Declared),
            ..cells(about, &geometry)?
        })
    }
}
