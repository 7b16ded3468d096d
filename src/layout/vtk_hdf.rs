//! VTKHDF: the arrays of an image, `/VTKHDF/PointData/<name>` and `/VTKHDF/CellData/<name>`.
//!
//! Source: Kitware, "VTKHDF File Format", `ImageData`. `WholeExtent` has the first and the last
//! point along x, y and z; `Spacing` and `Origin`, the position of point 0, are in x, y, z order.
//! The columns of the matrix `Direction` are the directions in which these axes run in space. An
//! array is z, y, x and a component axis. The attribute `Scalars` of its group names the array that
//! VTK shows.
//!
//! Example: in an image with the `WholeExtent` 0 99 0 99 0 49 there are 100 × 100 × 50 points, and
//! one cell less along each axis: `/VTKHDF/PointData/density` of 50 × 100 × 100 has the axes zyx,
//! and so has `/VTKHDF/CellData/id` of 49 × 99 × 99.

use voltile_base::geometry::Xyz;

use super::Rank;
use super::contents::About;
use super::dream3d::{Geometry, array_marks};
use super::marks::Marks;

const ROOT: &str = "/VTKHDF";

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    // Along each axis there is one point more than there are cells.
    let beyond_cells = match about.group().strip_prefix(ROOT)? {
        "/PointData" => 1.0,
        "/CellData" => 0.0,
        _ => return None,
    };
    let image = about.file.attributes(ROOT);
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
    let shown = about.group_attributes().text("Scalars");
    let is_shown = shown.as_deref() == Some(about.last());
    let mut marks = array_marks(about, &geometry)?;
    marks.rank = is_shown.then_some(Rank::Declared);
    if let Some([xx, yx, zx, xy, yy, zy, xz, yz, zz]) = image.numbers("Direction").as_deref() {
        marks.directions = Some([[*xx, *xy, *xz], [*yx, *yy, *yz], [*zx, *zy, *zz]]);
    }
    // Until here the origin is the position of point 0. The array begins with the first point of
    // `WholeExtent`.
    if let (Some(transform), [x, _, y, _, z, _]) = (marks.transform(), &extent[..]) {
        marks.origin = Some(transform.apply(Xyz::new(*x, *y, *z)));
    }
    Some(marks)
}
