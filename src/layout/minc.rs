//! MINC 2: `/minc-2.0/image/0/image`.
//!
//! Source: the MINC 2.0 file format reference (McConnell Brain Imaging Centre), libminc, and
//! nibabel's reader. The attribute `dimorder` names the axes in storage order;
//! `/minc-2.0/dimensions/xspace` etc. have the spacing in `step`, which is negative if an axis is
//! reversed, the position of the first voxel along the axis in `start`, and where the axis points
//! in `direction_cosines`. Images with numbers above 0 are downsampled copies. The attribute
//! `class` of `/minc-2.0` is `label__` for labels. Vectors of three unsigned bytes are colours,
//! other vectors channels.
//!
//! The tables `image-min` and `image-max` next to the image have the real values at the ends of
//! `valid_range`, for each position along some of the leading axes. Where they differ between
//! positions, integers are scaled to real values, as in nibabel: clamped to `valid_range`, then
//! linear. Otherwise all voxels have one scale, and stored values are served.
//!
//! Example: an image with the `dimorder` "zspace,yspace,xspace", whose dimensions all have the
//! `step` 2, has the axes zyx, and voxels of 2 × 2 × 2 in the `units` of `xspace`. The position of
//! its first voxel is the `start` of the three dimensions, such as -90, -126, -72 along x, y, z.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::Xyz;
use voltile_base::paint::{Kind, Window};
use voltile_hdf5::volume::hdf5::{Attributes, OpenFile};
use voltile_hdf5::volume::{Scaling, Values};

use super::contents::{About, Contents};
use super::marks::{AXES_OF_SPACE, Marks};
use super::{VoxelSize, usual_axes};

const ROOT: &str = "/minc-2.0";
const IMAGE: &str = "/minc-2.0/image/0/image";

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    if about.path != IMAGE {
        return None;
    }
    let order = about
        .attributes
        .text("dimorder")
        .and_then(|order| axes(&order));
    let axes = order.or_else(|| usual_axes(about.rank()));
    let last = axes.as_ref().and_then(Axes::last);
    let is_coloured = last == Some(AxisName::C) && about.is_colour();
    let position = in_space(about.file).unwrap_or_default();
    let mut marks = Marks::labels_if(is_labels(about), "its class is label__").or(position);
    marks.because = Some(format!("it has {IMAGE}"));
    marks.kind = marks.kind.or(is_coloured.then_some(Kind::Rgb));
    if let Some(axes) = &axes
        && about.is_integer()
        && marks.kind.is_none()
    {
        marks.values = scaling(about, axes).map(Values::scaled);
    }
    marks.axes = axes;
    Some(marks)
}

pub(super) fn recognise(contents: &Contents<'_>) -> Option<String> {
    contents.file.has(IMAGE).then(|| format!("it has {IMAGE}"))
}

/// Parses a list of axes: "time,zspace,yspace,xspace" is tzyx.
fn axes(order: &str) -> Option<Axes> {
    let letters: Option<String> = order
        .split(',')
        .map(|name| match name.trim() {
            "time" => Some('t'),
            "zspace" => Some('z'),
            "yspace" => Some('y'),
            "xspace" => Some('x'),
            "vector_dimension" => Some('c'),
            _ => None,
        })
        .collect();
    Axes::new(&letters?).ok()
}

/// Where the image lies in space, by its dimensions x, y and z.
fn in_space(file: &OpenFile) -> Option<Marks> {
    let dimensions =
        ['x', 'y', 'z'].map(|axis| file.attributes(&format!("/minc-2.0/dimensions/{axis}space")));
    // The distances of adjacent voxels are negative along reversed axes.
    let steps = number_of_each(&dimensions, "step")?;
    let cosines: [[f64; 3]; 3] =
        std::array::from_fn(|axis| cosines(&dimensions[axis], AXES_OF_SPACE[axis]));
    // The sum of the starts, each along the direction of its dimension.
    let origin = number_of_each(&dimensions, "start").map(|starts| {
        let parts = |row: usize| (0..3).map(move |axis| cosines[axis][row] * starts[axis]);
        Xyz::new(parts(0).sum(), parts(1).sum(), parts(2).sum())
    });
    let edges = Xyz::from(steps).map(f64::abs);
    Some(Marks {
        voxel: VoxelSize::new(edges, dimensions[0].text("units").as_deref()),
        origin,
        directions: Some(std::array::from_fn(|axis| {
            cosines[axis].map(|part| part * steps[axis].signum())
        })),
        ..Marks::default()
    })
}

/// The attribute `name` of the dimensions x, y and z, if all have it.
fn number_of_each(dimensions: &[Attributes; 3], name: &str) -> Option<[f64; 3]> {
    let [x, y, z] = dimensions.each_ref().map(|axis| axis.number(name));
    Some([x?, y?, z?])
}

/// The direction in which a dimension points, by default `usual`.
fn cosines(dimension: &Attributes, usual: [f64; 3]) -> [f64; 3] {
    dimension
        .numbers("direction_cosines")
        .and_then(|cosines| cosines.try_into().ok())
        .unwrap_or(usual)
}

/// Whether the volume, or its image, is of the class of labels.
fn is_labels(about: &About<'_>) -> bool {
    if !about.is_integer() {
        return false;
    }
    let class = about.attributes.text("class");
    class
        .or_else(|| about.file.attributes(ROOT).text("class"))
        .is_some_and(|class| class.trim().trim_end_matches('_') == "label")
}

/// The scale of each position along the leading axes; `None` if all have one scale.
fn scaling(about: &About<'_>, axes: &Axes) -> Option<Scaling> {
    let least = about.file.table(&about.beside("image-min"))?;
    let most = about.file.table(&about.beside("image-max"))?;
    if least.len() != most.len() || (are_equal(&least) && are_equal(&most)) {
        return None;
    }
    let [lowest, highest] = valid_range(about)?;
    // The line through (`lowest`, `least`) and (`highest`, `most`): its slope, and its value at 0.
    let lines: Vec<[f64; 2]> = least
        .iter()
        .zip(&most)
        .map(|(least, most)| {
            let slope = (most - least) / (highest - lowest);
            [slope, least - lowest * slope]
        })
        .collect();
    let (time, space) = strides(axes, &about.dataset.shape, lines.len())?;
    Some(Scaling {
        valid: [lowest, highest],
        lines,
        time,
        space,
    })
}

fn are_equal(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// `valid_range`, least first, else the whole range of the type.
fn valid_range(about: &About<'_>) -> Option<[f64; 2]> {
    if let Some([lo, hi]) = about.attributes.numbers("valid_range").as_deref()
        && lo.is_finite()
        && hi.is_finite()
        && lo != hi
    {
        return Some([lo.min(*hi), lo.max(*hi)]);
    }
    match about.dataset.stored.voxel.full_window() {
        Window::Whole { lo, hi } => Some([lo as f64, hi as f64]),
        Window::AsStored | Window::Real { .. } => None,
    }
}

/// The distances in a table between adjacent positions along time and space. The table has a value
/// for each position along some leading axes; its length tells how many axes: a table of 20 values
/// for tzyx of 2 × 10 × 20 × 30 has distances of 10 along t, and 1 along z. `None` if no number of
/// leading axes fits, or if channels are among them.
fn strides(axes: &Axes, shape: &[u64], length: usize) -> Option<(usize, Xyz<usize>)> {
    let leading =
        (0..=shape.len()).find(|count| shape[..*count].iter().product::<u64>() == length as u64)?;
    if axes
        .position(AxisName::C)
        .is_some_and(|place| place < leading)
    {
        return None;
    }
    let [time, x, y, z] =
        [AxisName::T, AxisName::X, AxisName::Y, AxisName::Z].map(|axis| {
            match axes.position(axis) {
                Some(place) if place < leading => {
                    shape[place + 1..leading].iter().product::<u64>() as usize
                }
                _ => 0,
            }
        });
    Some((time, Xyz::new(x, y, z)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_as_the_file_orders_them() {
        let order = |text| axes(text).map(|axes| axes.to_string());
        assert_eq!(order("time,zspace,yspace,xspace").as_deref(), Some("tzyx"));
        assert_eq!(order("xspace,zspace,yspace").as_deref(), Some("xzy"));
        assert_eq!(
            order("zspace,yspace,xspace,vector_dimension").as_deref(),
            Some("zyxc")
        );
        assert_eq!(order("xfrequency,yspace"), None);
    }

    #[test]
    fn scales_follow_the_leading_axes() {
        let strides =
            |axes: &str, shape: &[u64], length| strides(&Axes::new(axes).unwrap(), shape, length);
        assert_eq!(
            strides("zyx", &[10, 20, 30], 10),
            Some((0, Xyz::new(0, 0, 1)))
        );
        assert_eq!(
            strides("tzyx", &[2, 10, 20, 30], 20),
            Some((10, Xyz::new(0, 0, 1)))
        );
        assert_eq!(
            strides("tzyx", &[2, 10, 20, 30], 2),
            Some((1, Xyz::new(0, 0, 0)))
        );
        assert_eq!(
            strides("xzy", &[10, 20, 30], 200),
            Some((0, Xyz::new(20, 0, 1)))
        );
        assert_eq!(strides("zyx", &[10, 20, 30], 7), None);
    }
}
