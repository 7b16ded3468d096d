//! Boxes of derived levels whose voxels are means of stored ones. They are made part by part: all
//! stored voxels of a part are read at once, so that a chunk is not decoded again for each section.

use voltile_base::geometry::{Patch, Xyz};
use voltile_hdf5::volume::{BLOCK_BYTES, ReadError, ReadPolicy, ReadRequest, with_samples};

use super::little_endian::{append, paste};
use crate::downsample::Means;
use crate::drawing::Drawing;
use crate::plan::Cutout;
use crate::slice::{LevelBuffers, parts};

/// Maximum number of bytes of stored voxels from which a part is made. A part is made from as many
/// bytes as a chunk has, but from at least [`BLOCK_BYTES`].
const MAX_BYTES: u64 = 16 << 20;

/// Fills `into` with one component of the box: little-endian, in the order z, y, x.
pub(super) fn write(
    plan: &Cutout,
    component: usize,
    policy: &ReadPolicy,
    drawing: &mut Drawing,
    into: &mut [u8],
) -> Result<(), ReadError> {
    let LevelBuffers {
        block, sums, field, ..
    } = &mut drawing.level;
    let volume = &plan.components[component];
    let view = plan.view;
    let shape = volume.shape();
    let chunk_bytes = shape
        .chunk
        .volume()
        .saturating_mul(shape.voxel.samples().voxel_bytes() as u64);
    let part_bytes = chunk_bytes.clamp(BLOCK_BYTES, MAX_BYTES);
    let whole = plan.region.size;
    let mut bytes = Vec::new();
    for part in parts(&plan.region, &view, shape, part_bytes) {
        let stored = view.stored_region(&part);
        volume.read(&ReadRequest::new(plan.time, stored).with(policy), block)?;
        for z in part.start.z..part.end().z {
            let patch = Patch::section(z, &part);
            with_samples!(&*block, voxels => {
                let mut means = Means::new(voxels, view, &patch, &plan.missing, sums);
                for run in patch.runs() {
                    let from = view.stored_region(&patch.region(run));
                    // These are whole sections of the part's stored voxels.
                    let before = (from.start.z - stored.start.z) * stored.size.x * stored.size.y;
                    let voxels = &voxels[before as usize..][..from.voxels() as usize];
                    means.add_voxels(voxels, &from, run, &[]);
                }
                means.finish(field);
            });
            bytes.clear();
            append(field, plan.voxel, &mut bytes);
            let size = Xyz { z: 1, ..part.size };
            let first = Xyz { z, ..part.start }.zip(plan.region.start, |own, all| own - all);
            paste(&bytes, size, into, whole, first, plan.voxel.stored_bytes());
        }
    }
    Ok(())
}
