//! Slices: the voxels of a level that a patch shows, read as they are or downsampled from a finer
//! level. [`super::slab`] projects several of them.
//!
//! A stored level is read one run of rows at a time. A derived one is read in blocks of bounded
//! size, aligned to the volume's chunks, and reduced block by block: memory use does not grow with
//! the level.

use voltile_base::geometry::{LevelView, Patch, Region, Xyz};
use voltile_hdf5::volume::{
    Access, BLOCK_BYTES, ReadError, ReadPolicy, ReadRequest, Samples, VolumeShape, with_samples,
};

use super::downsample::{Means, SumBuffer};
use super::mask::MissingMask;
use crate::plan::Source;

/// The maximum block size in bytes, unless smaller blocks would decode chunks again: a block of
/// this size stays in the core's private cache until it is summed.
const CACHE_SIZED_BYTES: u64 = BLOCK_BYTES / 4;

/// Buffers for the voxels of a layer, which are reused.
#[derive(Debug, Default)]
pub(super) struct LevelBuffers {
    /// Stored voxels.
    pub block: Samples,
    /// Sums from which means are computed.
    pub sums: SumBuffer,
    /// The voxels of the level, one for each column of each distinct row of the patch.
    pub field: Samples,
    /// The opacity of the voxels of `field`; empty if none is missing.
    pub opacity: Vec<u8>,
}

/// Fills the field with the intensities of a patch of a single slice: `height` × `width`, means
/// over boxes if the level is derived.
///
/// Returns which voxels of the field stand for missing data.
pub(super) fn read_intensities<'a>(
    source: &'a Source,
    patch: &Patch,
    wants_gaps: bool,
    policy: &ReadPolicy,
    buffers: &mut LevelBuffers,
) -> Result<MissingMask<'a>, ReadError> {
    let LevelBuffers {
        block, sums, field, ..
    } = buffers;
    if source.view.is_stored() {
        return read_first_voxels(source, patch, wants_gaps, policy, field);
    }
    let shape = source.volume.shape();
    // No samples: they only give the type of the stored voxels.
    let empty = shape.voxel.samples();
    let block_bytes = if shape.access == Access::Uncached {
        BLOCK_BYTES
    } else {
        CACHE_SIZED_BYTES
    };
    let most_voxels = block_bytes / empty.voxel_bytes() as u64;
    let places = with_samples!(&empty, typed => {
        let mut means = Means::new(typed, source.view, patch, &source.missing, sums);
        for run in patch.runs() {
            let stored = source.view.stored_region(&patch.region(run));
            for region in stored.blocks(shape.chunk, most_voxels) {
                source.volume.read(&ReadRequest::new(source.time, region).with(policy), block)?;
                means.add(block, &region, run, &gaps(source, &region, wants_gaps));
            }
        }
        means.finish(field)
    });
    Ok(MissingMask {
        values: None,
        places,
    })
}

/// Fills `field` with the patch's voxels as they are stored; if the level is derived, with the
/// first voxel of each box.
///
/// Returns which voxels of the field stand for missing data.
pub(super) fn read_first_voxels<'a>(
    source: &'a Source,
    patch: &Patch,
    wants_gaps: bool,
    policy: &ReadPolicy,
    field: &mut Samples,
) -> Result<MissingMask<'a>, ReadError> {
    let plane = patch.plane();
    let width = patch.width();
    let height = patch.height();
    field.reset(source.volume.shape().voxel, width * height);
    let mut field = field.as_box(plane.place(1, height as u64, width as u64))?;
    let mut places = Vec::new();
    for run in patch.runs() {
        let region = source.view.stored_region(&patch.region(run));
        let request = ReadRequest::new(source.time, region)
            .every(source.view.downsample)
            .with(policy);
        let into = field.part(plane.place(0, run.first as u64, 0), request.size());
        source.volume.read_box(&request, into)?;
        for gap in gaps(source, &region, wants_gaps) {
            let read = voxels_read(&gap, &request, patch);
            places.extend(read.map(|place| run.first * width + place));
        }
    }
    places.sort_unstable();
    Ok(MissingMask {
        values: Some(&source.missing),
        places,
    })
}

/// Splits a box of a level into parts, each of which is derived from at most `bytes` of stored
/// voxels. Parts end where chunks do, if the boxes to average divide a chunk evenly.
pub(super) fn parts(
    region: &Region,
    view: &LevelView,
    shape: &VolumeShape,
    bytes: u64,
) -> impl Iterator<Item = Region> + use<> {
    let chunk = shape
        .chunk
        .zip(view.downsample, |chunk, step| chunk / step.max(1));
    let most = bytes / shape.voxel.samples().voxel_bytes() as u64;
    region.blocks(chunk, most / view.downsample.volume().max(1))
}

/// The parts of a box that are missing; none if `wants_gaps` is false, because missing parts are
/// then drawn as they are read, as 0 or the fill value.
pub(super) fn gaps(source: &Source, region: &Region, wants_gaps: bool) -> Vec<Region> {
    if wants_gaps {
        source.volume.gaps(source.time, region)
    } else {
        Vec::new()
    }
}

/// The indices of the voxels that a request reads inside a gap, counted from the first voxel that
/// the request reads.
fn voxels_read(
    gap: &Region,
    request: &ReadRequest,
    patch: &Patch,
) -> impl Iterator<Item = usize> + use<> {
    let plane = patch.plane();
    let width = patch.width();
    let start = request.region.start;
    let step = request.step;
    // The number of voxels that are read before a position along each axis.
    let reads_before = |at: Xyz<u64>| at.zip(start, u64::saturating_sub).zip(step, u64::div_ceil);
    let first = reads_before(gap.start);
    let end = reads_before(gap.end());
    // The request reads only the region's first slice; a gap behind it covers no rows.
    let is_in_slice = first[plane.slice_axis()] == 0;
    let end_row = if is_in_slice {
        end[plane.row_axis()]
    } else {
        0
    };
    let rows = first[plane.row_axis()]..end_row;
    let columns = first[plane.column_axis()]..end[plane.column_axis()];
    rows.flat_map(move |row| {
        columns
            .clone()
            .map(move |column| row as usize * width + column as usize)
    })
}
