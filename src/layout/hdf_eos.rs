//! HDF-EOS5: `/HDFEOS/GRIDS/<name>/Data Fields/<field>`, and the same in `SWATHS`.
//!
//! Source: NASA, "HDF-EOS5 Data Model, File Format and Library" (ESDS-RFC-008). The dimensions of a
//! field are named in ODL in `/HDFEOS INFORMATION/StructMetadata.0` (continued in `.1`, …), and, in
//! augmented files, by dimension scales ([`super::dimensions`]). If neither tells, the last two
//! axes are y, x: the rows and columns of a grid, or the lines and samples of a swath; an axis
//! before them is z, and one more before it is time. Missing values are read by [`super::netcdf`].
//!
//! Example: `/HDFEOS/GRIDS/Daily/Data Fields/Reflectance`, with the line
//! `DimList=("Band","YDim","XDim")` for this field, has the axes cyx.

use voltile_base::axes::{Axes, AxisName};
use voltile_hdf5::volume::hdf5::OpenFile;

use super::axis_names::{axis_named, completed};
use super::contents::About;
use super::marks::Marks;
use super::{Rank, dimensions, usual_axes};

/// Parts of the names of dimensions, in lower case, and the axis that they mean. The first row that
/// fits counts: `xtrack` is x, although it contains `track`.
const DIMENSIONS: [(&[&str], AxisName); 4] = [
    (
        &["xdim", "xtrack", "across", "cross", "sample", "pixel"],
        AxisName::X,
    ),
    (&["ydim", "track", "along", "scan", "line"], AxisName::Y),
    (
        &["band", "wavel", "channel", "param", "frequenc", "spectr"],
        AxisName::C,
    ),
    (
        &["lev", "layer", "prs", "pres", "alt", "height", "depth"],
        AxisName::Z,
    ),
];
/// Maximum number of datasets from which the metadata are read.
const MAX_PARTS: usize = 16;

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let parts: Vec<&str> = about.path.split('/').collect();
    let [
        "",
        "HDFEOS",
        "GRIDS" | "SWATHS",
        structure,
        fields @ ("Data Fields" | "Geolocation Fields"),
        field,
    ] = parts[..]
    else {
        return None;
    };
    let mut field_axes = names(&metadata(about.file), structure, field)
        .and_then(|names| axes(&names, &about.dataset.shape));
    // The usual axes must not replace those by dimension scales, which a later layout reads.
    if field_axes.is_none()
        && let Some(usual) = usual_axes(about.rank())
        && dimensions::dimension_marks(about).is_none()
    {
        field_axes = Some(usual);
    }
    Some(Marks {
        rank: (fields == "Geolocation Fields").then_some(Rank::Beside),
        axes: field_axes,
        ..Marks::because(format!("{} is a field of HDF-EOS5", about.path))
    })
}

/// The text that describes the grids and swaths of a file.
fn metadata(file: &OpenFile) -> String {
    (0..MAX_PARTS)
        .map_while(|part| file.text(&format!("/HDFEOS INFORMATION/StructMetadata.{part}")))
        .collect()
}

/// The names of a field's dimensions, slowest first: `YDim` and `XDim` for the line
/// `DimList=("YDim","XDim")` after `DataFieldName="FIELD"` and `GridName="STRUCTURE"`.
fn names(metadata: &str, structure: &str, field: &str) -> Option<Vec<String>> {
    let mut is_in_structure = false;
    let mut is_of_field = false;
    for line in metadata.lines() {
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        match key.trim() {
            "GridName" | "SwathName" => is_in_structure = unquoted(value) == structure,
            "DataFieldName" | "GeoFieldName" => {
                is_of_field = is_in_structure && unquoted(value) == field;
            }
            "DimList" if is_of_field => {
                return Some(value.split(',').map(unquoted).map(str::to_owned).collect());
            }
            _ => {}
        }
    }
    None
}

/// A value without parentheses, quotes and spaces around it.
fn unquoted(value: &str) -> &str {
    value.trim_matches(|c: char| c.is_whitespace() || "()\"".contains(c))
}

/// The axes of a field, if they have rows and columns.
fn axes(names: &[String], shape: &[u64]) -> Option<Axes> {
    let mut axes: Vec<_> = names.iter().map(|name| axis(name)).collect();
    // The lines of a swath are named by the times at which they were recorded.
    if !axes.contains(&Some(AxisName::Y))
        && let Some(lines) = axes.iter_mut().find(|axis| **axis == Some(AxisName::T))
    {
        *lines = Some(AxisName::Y);
    }
    completed(axes, shape).filter(|axes| {
        axes.rank() == shape.len()
            && axes.position(AxisName::X).is_some()
            && axes.position(AxisName::Y).is_some()
    })
}

/// The axis of a dimension: y for `YDim:Grid`, whose grid is named behind the colon.
fn axis(name: &str) -> Option<AxisName> {
    let name = name.split(':').next()?.to_lowercase();
    let known = DIMENSIONS
        .iter()
        .find(|(parts, _)| parts.iter().any(|part| name.contains(part)));
    match known {
        Some((_, axis)) => Some(*axis),
        None => axis_named(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(names: &[&str], shape: &[u64]) -> Option<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        axes(&names, shape).map(|axes| axes.to_string())
    }

    #[test]
    fn dimensions_are_known_by_their_names() {
        for (names, shape, axes) in [
            (&["XDim", "YDim", "nPrs"][..], &[360, 180, 9][..], "xyz"),
            (
                &["YDim:Grid", "XDim:Grid", "Num_Parameters"],
                &[240, 200, 3],
                "yxc",
            ),
            (&["nTimes", "nXtrack", "nLevels"], &[90, 60, 11], "yxz"),
            (&["YDim", "nBands", "XDim"], &[90, 7, 60], "ycx"),
            (&["Time", "lev", "YDim", "XDim"], &[4, 9, 60, 80], "tzyx"),
            (&["GeoTrack", "GeoXTrack"], &[45, 30], "yx"),
        ] {
            assert_eq!(order(names, shape).as_deref(), Some(axes), "{names:?}");
        }
        // Profiles along a track have no rows and columns.
        assert_eq!(order(&["nTimes", "nLevels"], &[300, 50]), None);
        assert_eq!(order(&["one", "two", "three"], &[3, 40, 50]), None);
    }

    #[test]
    fn the_dimensions_of_a_field_are_those_in_its_own_structure() {
        let metadata = "GROUP=GRID_1\n\tGridName=\"A\"\n\t\tDataFieldName=\"T\"\n\t\tDimList=(\"XDim\",\"YDim\")\n\
            GROUP=GRID_2\n\tGridName = \"B\"\n\t\tDataFieldName=\"T\"\n\t\tDimList=(\"YDim\", \"XDim\")\n";
        assert_eq!(names(metadata, "B", "T").unwrap(), ["YDim", "XDim"]);
        assert_eq!(names(metadata, "A", "T").unwrap(), ["XDim", "YDim"]);
        assert_eq!(names(metadata, "A", "U"), None);
    }
}
