//! The values that a rectangle of a slice shows, for statistics.

use std::ops::Range;

use voltile_base::geometry::Patch;
use voltile_hdf5::volume::{ReadError, ReadPolicy, Voxel, with_samples};

use super::drawing::Scratch;
use super::slab;
use crate::plan::Visible;

/// The finite values that are visible, in no particular order, without values for missing data.
pub fn visible(
    plan: &Visible,
    policy: &ReadPolicy,
    scratch: &mut Scratch,
) -> Result<Vec<f64>, ReadError> {
    let level = &mut scratch.drawing.level;
    let mut all = Vec::new();
    for (tile, part) in plan.tiles.iter().zip(&plan.parts) {
        for source in tile.picture.sources() {
            let Some(patch) = &source.patch else { continue };
            let mask = slab::read_intensities(source, patch, true, policy, level)?;
            with_samples!(&level.field, voxels => {
                for place in places(patch, part) {
                    let value = voxels[place].to_f64();
                    if value.is_finite() && !mask.has(place, voxels[place]) {
                        all.push(value);
                    }
                }
            });
        }
    }
    Ok(all)
}

/// The voxels that these columns and rows of the tile show, each once, as indices into the voxels
/// of the patch.
fn places(patch: &Patch, [columns, rows]: &[Range<usize>; 2]) -> Vec<usize> {
    let mut distinct_rows = Vec::new();
    for (distinct_row, row) in patch.shown().zip(patch.top()..) {
        if rows.contains(&row) {
            distinct_rows.push(distinct_row);
        }
    }
    distinct_rows.dedup();
    let width = patch.width();
    let start = columns.start.saturating_sub(patch.left()).min(width);
    let end = columns.end.saturating_sub(patch.left()).min(width);
    distinct_rows
        .into_iter()
        .flat_map(|row| (start..end).map(move |column| row * width + column))
        .collect()
}
