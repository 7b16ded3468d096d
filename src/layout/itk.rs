//! ITK's HDF5 images: `/ITKImage/<number>/VoxelData`.
//!
//! Source: `itkHDF5ImageIO`. A dataset is stored with x fastest, or with components fastest if a
//! voxel has more than one. `Spacing` and `Origin` next to it are in millimetres, in x, y, z order.
//! Three or four bytes for each voxel are a colour (ITK's own types of three and four bytes are RGB
//! and RGBA pixels); other components are vectors. `Directions` next to them has a row for each
//! axis, x first: the direction in which it runs in space.
//!
//! Example: `/ITKImage/0/VoxelData` of 60 × 256 × 256 × 3 unsigned bytes, next to the `Spacing`
//! 0.5, 0.5, 2, is a volume in colour with the axes zyxc and voxels of 0.5 × 0.5 × 2 mm.

use voltile_base::axes::Axes;
use voltile_base::paint::Kind;

use super::contents::About;
use super::marks::{AXES_OF_SPACE, Marks};
use super::spacing::Spacing;
use super::usual_axes;

const IMAGES: &str = "/ITKImage/";
const DATA: &str = "VoxelData";

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    if about.last() != DATA || !about.path.starts_with(IMAGES) {
        return None;
    }
    let file = about.file;
    let spacing = file.numbers(&about.beside("Spacing"))?;
    let axes = axes(spacing.len(), about.rank())?;
    let origin = file.numbers(&about.beside("Origin")).unwrap_or_default();
    let spacing_at = |_, place: usize| {
        // The last stored axis is x, the first of `Spacing` and `Origin`.
        let from_x = spacing.len().checked_sub(place + 1)?;
        let first = origin.get(from_x).copied();
        Some(Spacing::new(spacing[from_x], first, Some("mm")))
    };
    let has_components = axes.rank() > spacing.len();
    let directions = file
        .numbers(&about.beside("Directions"))
        .and_then(|matrix| directions(&matrix, spacing.len()));
    Some(Marks {
        because: Some(format!("it has {}", about.path)),
        kind: (has_components && about.is_colour()).then_some(Kind::Rgb),
        directions,
        ..Marks::from_spacings(axes, &about.dataset.shape, spacing_at)
    })
}

/// The axes of an image of this many dimensions, whose voxels may have components.
fn axes(dimensions: usize, rank: usize) -> Option<Axes> {
    let space = usual_axes(dimensions)?;
    match rank.checked_sub(dimensions)? {
        0 => Some(space),
        1 => Axes::new(&format!("{space}c")).ok(),
        _ => None,
    }
}

/// The directions of x, y and z. The matrix is a square with a row for each of the image's `axes`;
/// a fourth axis is time. If there is no row for z, z keeps its own direction: the rows
/// 0.8 0.6 and -0.6 0.8 are the directions 0.8 0.6 0, -0.6 0.8 0 and 0 0 1.
fn directions(matrix: &[f64], axes: usize) -> Option<[[f64; 3]; 3]> {
    if matrix.len() != axes * axes {
        return None;
    }
    let mut directions = AXES_OF_SPACE;
    let in_space = axes.min(3);
    for (row, direction) in directions.iter_mut().enumerate().take(in_space) {
        direction[..in_space].copy_from_slice(&matrix[row * axes..][..in_space]);
    }
    Some(directions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_those_of_the_axes_in_space() {
        let turned = [0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        assert_eq!(
            directions(&turned, 3),
            Some([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        );
        let flat = directions(&[0.8, 0.6, -0.6, 0.8], 2);
        assert_eq!(
            flat,
            Some([[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
        );
        let series = [
            turned[..3].to_vec(),
            vec![0.0],
            turned[3..6].to_vec(),
            vec![0.0],
            turned[6..].to_vec(),
            vec![0.0; 4],
            vec![1.0],
        ];
        assert_eq!(directions(&series.concat(), 4), directions(&turned, 3));
        assert_eq!(directions(&turned, 2), None);
    }
}
