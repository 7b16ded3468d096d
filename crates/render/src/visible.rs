//! The values that a rectangle of a slice shows, for statistics.

use std::ops::Range;

use voltile_base::geometry::Patch;
use voltile_hdf5::volume::{ReadError, ReadPolicy, Voxel, with_samples};

use super::drawing::Scratch;
use super::slab;
use crate::plan::Visible;

/// The finite values that are visible, in no particular order; without those that stand for missing
/// data.
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
            let mask = slab::means(source, patch, true, policy, level)?;
            with_samples!(&level.field, voxels => {
                let there = places(patch, part).into_iter().filter(|place| !mask.has(*place, voxels[*place]));
                all.extend(there.map(|place| voxels[place].to_f64()).filter(|value| value.is_finite()));
            });
        }
    }
    Ok(all)
}

/// The positions among a patch's voxels of those that these columns and rows of the tile show, each
/// once.
fn places(patch: &Patch, [columns, rows]: &[Range<usize>; 2]) -> Vec<usize> {
    let shown = patch
        .shown()
        .zip(patch.top()..)
        .filter(|(_, row)| rows.contains(row));
    let mut distinct: Vec<usize> = shown.map(|(distinct, _)| distinct).collect();
    distinct.dedup();
    let column = |column: usize| column.saturating_sub(patch.left()).min(patch.width());
    let across = column(columns.start)..column(columns.end);
    let row = |row: usize| {
        across
            .clone()
            .map(move |column| row * patch.width() + column)
    };
    distinct.into_iter().flat_map(row).collect()
}
