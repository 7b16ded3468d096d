//! Slices: the voxels of a level that a patch shows, read as they are or downsampled from a finer level.
//!
//! A stored level is read one run of rows at a time. A derived one is read in blocks of bounded size, aligned to the
//! volume's chunks, and reduced block by block: memory use does not grow with the level.

use super::downsample::{Means, SumBuffer};
use super::window::Blank;
use crate::geometry::{Patch, Region, RowRun};
use crate::render::plan::Source;
use crate::volume::{Access, BLOCK_BYTES, ReadError, ReadPolicy, ReadRequest, Samples, with_samples};

/// The maximum block size in bytes if small blocks cost no extra decoding: a block stays in the core's private cache
/// until it is summed.
const NEAR_BYTES: u64 = BLOCK_BYTES / 4;

/// Fills `field` with the patch's intensities: `height` × `width`, means over boxes if the level is derived.
///
/// Returns what is black in it, because it stands for missing data.
pub(super) fn means<'a>(
    source: &'a Source,
    patch: &Patch,
    policy: &ReadPolicy,
    block: &mut Samples,
    sums: &mut SumBuffer,
    field: &mut Samples,
) -> Result<Blank<'a>, ReadError> {
    if source.view.is_stored() {
        return picks(source, patch, policy, field).map(|()| Blank::Values(&source.missing));
    }
    let typed = source.volume.shape().voxel.samples();
    let empty = with_samples!(&typed, typed => {
        let mut means = Means::new(typed, source.view, patch, &source.missing, sums);
        for_blocks(source, patch, |run, region| {
            source.volume.read(&ReadRequest::new(source.time, region).with(policy), block)?;
            means.add(block, &region, run);
            Ok(())
        })?;
        means.finish(field)
    });
    Ok(Blank::Places(empty))
}

/// Fills `field` with the patch's voxels as stored: the first voxel of each box if the level is derived.
pub(super) fn picks(
    source: &Source,
    patch: &Patch,
    policy: &ReadPolicy,
    field: &mut Samples,
) -> Result<(), ReadError> {
    let (plane, width, height) = (patch.plane(), patch.width(), patch.height());
    field.reset(source.volume.shape().voxel, width * height);
    let mut field = field.as_box(plane.place(1, height as u64, width as u64))?;
    for run in patch.runs() {
        let region = source.view.stored_region(&patch.region(run));
        let request = ReadRequest::new(source.time, region).every(source.view.downsample).with(policy);
        let into = field.part(plane.place(0, run.first as u64, 0), request.size());
        source.volume.read_box(&request, into)?;
    }
    Ok(())
}

/// Calls `work` for every block of stored voxels that the patch is computed from.
fn for_blocks(
    source: &Source,
    patch: &Patch,
    mut work: impl FnMut(&RowRun, Region) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let shape = source.volume.shape();
    let bytes = if shape.access == Access::Uncached { BLOCK_BYTES } else { NEAR_BYTES };
    let most = bytes / shape.voxel.samples().voxel_bytes() as u64;
    for run in patch.runs() {
        let region = source.view.stored_region(&patch.region(run));
        for block in region.blocks(shape.chunk, most) {
            work(run, block)?;
        }
    }
    Ok(())
}
