//! Slices: the voxels of a level that a patch shows, read as they are or made from a finer level.
//!
//! A stored level is read row run by row run. A made one is read in blocks of bounded size, cut along the grain of the
//! volume, which are reduced one after the other: memory does not grow with the level.

use super::downsample;
use crate::geometry::{Patch, Region, RowRun};
use crate::plan::Source;
use crate::volume::{ReadError, Samples, with_samples};

/// The most bytes of stored voxels that are held at once while a level is made.
const BLOCK_BYTES: u64 = 2 << 20;

/// Fills `field` with the patch's intensities: `height` × `width`, means over boxes where the level is made.
pub(super) fn means(
    source: &Source,
    patch: &Patch,
    block: &mut Samples,
    field: &mut Samples,
) -> Result<(), ReadError> {
    if source.view.is_stored() {
        return stored(source, patch, block, field);
    }
    let typed = source.volume.shape().voxel.samples();
    *field = with_samples!(typed, typed => {
        let mut means = downsample::Means::new(typed, source.view, patch);
        for_blocks(source, patch, |run, region| {
            source.volume.read(source.time, &region, block)?;
            means.add(block, &region, run);
            Ok(())
        })?;
        means.finish()
    });
    Ok(())
}

/// Fills `field` with the patch's label ids: those of the first voxel of each box where the level is made.
pub(super) fn picks(
    source: &Source,
    patch: &Patch,
    block: &mut Samples,
    field: &mut Samples,
) -> Result<(), ReadError> {
    if source.view.is_stored() {
        return stored(source, patch, block, field);
    }
    field.reset(source.volume.shape().voxel, patch.width() * patch.height());
    let slices = patch.plane().slice_axis();
    for_blocks(source, patch, |run, region| {
        // Only the first of the slices that a box covers can hold its first voxel.
        if region.start[slices] % source.view.boxed[slices] != 0 {
            return Ok(());
        }
        source.volume.read(source.time, &region, block)?;
        with_samples!(&*block, voxels => downsample::pick(voxels, &region, run, &source.view, patch, field));
        Ok(())
    })
}

/// Reads a stored level, whose voxels are the tile's.
fn stored(source: &Source, patch: &Patch, block: &mut Samples, field: &mut Samples) -> Result<(), ReadError> {
    if let [run] = patch.runs() {
        return source.volume.read(source.time, &patch.region(run), field);
    }
    field.reset(source.volume.shape().voxel, patch.width() * patch.height());
    let row = patch.width() * field.voxel_bytes();
    for run in patch.runs() {
        source.volume.read(source.time, &patch.region(run), block)?;
        let bytes = block.bytes();
        field.bytes_mut()[run.first * row..][..bytes.len()].copy_from_slice(bytes);
    }
    Ok(())
}

/// Calls `work` with every block of stored voxels that the patch is made from.
fn for_blocks(
    source: &Source,
    patch: &Patch,
    mut work: impl FnMut(&RowRun, Region) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let shape = source.volume.shape();
    let most = BLOCK_BYTES / shape.voxel.samples().voxel_bytes() as u64;
    for run in patch.runs() {
        let region = source.view.stored_region(&patch.region(run));
        for block in region.blocks(shape.grain, most) {
            work(run, block)?;
        }
    }
    Ok(())
}
