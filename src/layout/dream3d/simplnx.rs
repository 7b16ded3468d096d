//! simplnx (DREAM3D-NX): arrays below `/DataStructure/<image geometry>`.
//!
//! Source: simplnx (`ImageGeomIO`, `IOConstants.hpp`). The geometry is in attributes of the group:
//! `_DIMENSIONS`, `_SPACING` and `_ORIGIN`, x, y, z, and `Units`. Arrays of cells are z, y, x and a
//! component axis.
//!
//! Example: `/DataStructure/Image/Cell Data/FeatureIds` of 117 × 201 × 189 × 1 fits the
//! `_DIMENSIONS` 189, 201, 117; with the `_SPACING` 0.25, 0.25, 0.5 and the `Units` "Micrometer"
//! its voxels are 0.25 × 0.25 × 0.5 µm.

use voltile_base::units;

use super::{Geometry, array_marks};
use crate::layout::contents::About;
use crate::layout::marks::Marks;

const STRUCTURE: &str = "/DataStructure/";

pub(in crate::layout) fn marks(about: &About<'_>) -> Option<Marks> {
    let name = about.path.strip_prefix(STRUCTURE)?.split('/').next()?;
    let own = about.file.attributes(&format!("{STRUCTURE}{name}"));
    let geometry = Geometry {
        dimensions: own.numbers("_DIMENSIONS")?,
        spacing: own.numbers("_SPACING").unwrap_or_default(),
        origin: own.numbers("_ORIGIN").unwrap_or_default(),
        // Other values are not lengths: "Unknown", for example.
        unit: own
            .text("Units")
            .filter(|unit| units::in_nanometres(unit.trim()).is_some()),
    };
    array_marks(about, &geometry)
}
