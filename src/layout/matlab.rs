//! MATLAB files of version 7.3: `/<variable>`, with the attribute `MATLAB_class`; and files of
//! Octave (`save -hdf5`): `/<variable>/value`, in a group with the attribute `OCTAVE_NEW_FORMAT`.
//!
//! Sources: MathWorks, "MAT-File Versions", which only says that these files are HDF5; the reader
//! `hdf5storage`, for the attributes; Octave's `ls-hdf5.cc`. MATLAB and Octave are column-major and
//! HDF5 is row-major, so axes are reversed: an array of (row, column, slice) is a
//! dataset of (slice, column, row), whose axes are z, x, y. Three unsigned bytes for each pixel are
//! a colour. Logical arrays are bytes. The contents of cells and of arrays of structures, in
//! `#refs#`, are only searched if there is no other volume.
//!
//! Example: `stack = zeros(200, 300, 9, 'uint16')` in MATLAB is the dataset `/stack` of 9 × 300 ×
//! 200, which is a channel of 9 sections with 200 rows and 300 columns.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::paint::Kind;
use voltile_hdf5::volume::VoxelType;

use super::axis_names::MAX_CHANNELS;
use super::contents::About;
use super::guess::MIN_COLOURED;
use super::last_of;
use super::marks::Marks;

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    if about.last() == "value" && about.group_attributes().has("OCTAVE_NEW_FORMAT") {
        let group = about.group();
        let because = format!("{group} has the attribute OCTAVE_NEW_FORMAT");
        let is_bytes = about.dataset.stored.voxel == VoxelType::U8;
        return Some(Marks {
            named_by: Some(group.to_owned()),
            ..array(&about.dataset.shape, is_bytes, because)
        });
    }
    let class = about.attributes.text("MATLAB_class")?;
    let is_numeric = !matches!(
        class.as_str(),
        "char" | "cell" | "struct" | "function_handle"
    );
    let because = format!("{} has the attribute MATLAB_class", last_of(about.path));
    let is_unlisted = !is_numeric || about.attributes.has("MATLAB_empty");
    Some(Marks {
        unlisted_as: is_unlisted
            .then_some("text, a cell array, a structure or an empty array of MATLAB"),
        reinterpret_as: (class == "logical").then_some(VoxelType::Bool),
        ..array(&about.dataset.shape, class == "uint8", because)
    })
}

/// The marks of an array. Only unsigned bytes may be colours.
fn array(shape: &[u64], is_bytes: bool, because: String) -> Marks {
    let colours = colour_axes(shape).filter(|_| is_bytes);
    Marks {
        kind: colours.as_ref().map(|_| Kind::Rgb),
        axes: Some(colours.unwrap_or_else(|| axes(shape))),
        ..Marks::because(because)
    }
}

/// The axes of pictures in colour, which are (row, column, component) or (row, column, component,
/// frame) in MATLAB: a dataset of 3 × 200 × 100 is cxy. `None` for other shapes.
fn colour_axes(shape: &[u64]) -> Option<Axes> {
    use AxisName::{C, T, X, Y};
    match *shape {
        [3, x, y] if x.min(y) >= MIN_COLOURED => Some(Axes::from_known([C, X, Y])),
        [_, 3, x, y] if x.min(y) >= MIN_COLOURED => Some(Axes::from_known([T, C, X, Y])),
        _ => None,
    }
}

/// The axes of arrays of numbers: zxy for a dataset of 9 × 200 × 100.
fn axes(shape: &[u64]) -> Axes {
    use AxisName::{C, T, X, Y, Z};
    match *shape {
        [_, _] => Axes::from_known([X, Y]),
        [_, _, _] => Axes::from_known([Z, X, Y]),
        [first, _, _, _] if first <= MAX_CHANNELS => Axes::from_known([C, Z, X, Y]),
        [_, _, _, _] => Axes::from_known([T, Z, X, Y]),
        _ => Axes::from_known([T, C, Z, X, Y]),
    }
}
