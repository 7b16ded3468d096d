//! HDF-EOS5: `/HDFEOS/GRIDS/<name>/Data Fields/<field>`, and the same in `SWATHS`.
//!
//! Source: NASA, "HDF-EOS5 Data Model, File Format and Library" (ESDS-RFC-008). The last two axes
//! of a field are y, x: the rows and columns of a grid, or the lines and samples of a swath. An
//! axis before them is z, another one time. Missing values are read by [`super::netcdf`].

use super::contents::About;
use super::marks::Marks;
use super::{Layout, Rank, usual_axes};

pub(super) struct HdfEos;

impl Layout for HdfEos {
    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        let parts: Vec<&str> = about.path.split('/').collect();
        let [
            "",
            "HDFEOS",
            "GRIDS" | "SWATHS",
            _,
            "Data Fields" | "Geolocation Fields",
            _,
        ] = parts[..]
        else {
            return None;
        };
        let rank = (parts.get(4) == Some(&"Geolocation Fields")).then_some(Rank::Beside);
        Some(Marks {
            rank,
            axes: usual_axes(about.rank()).filter(|_| !about.attributes.has("DIMENSION_LABELS")),
            ..Marks::because(format!("{} is a field of HDF-EOS5", about.path))
        })
    }

    fn is_exclusive(&self) -> bool {
        true
    }
}
