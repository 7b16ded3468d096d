//! Boxes of derived levels whose voxels are means of stored ones. They are made part by part: all
//! stored voxels of a part are read at once, so that a chunk is not decoded again for each section.

use voltile_base::geometry::{Patch, Region, Xyz};
use voltile_hdf5::volume::{BLOCK_BYTES, ReadError, ReadPolicy, ReadRequest, with_samples};

use super::little_endian::{append, place};
use crate::downsample::Means;
use crate::drawing::Drawing;
use crate::plan::Cutout;
use crate::slice::LevelBuffers;

/// Maximum number of bytes of stored voxels from which a part is made. A part is made from as many
/// voxels as a chunk has, but from at least [`BLOCK_BYTES`].
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
    // Parts end where chunks do, if a chunk has a whole number of the boxes that are averaged.
    let chunk = shape
        .chunk
        .zip(view.downsample, |chunk, step| chunk / step.max(1));
    let width = shape.voxel.samples().voxel_bytes() as u64;
    let most = shape
        .chunk
        .volume()
        .saturating_mul(width)
        .clamp(BLOCK_BYTES, MAX_BYTES)
        / width;
    let most = most / view.downsample.volume().max(1);
    let mut bytes = Vec::new();
    for part in plan.region.blocks(chunk, most) {
        let stored = view.stored_region(&part);
        volume.read(&ReadRequest::new(plan.time, stored).with(policy), block)?;
        for z in part.start.z..part.end().z {
            let patch = Patch::section(z, &part);
            let section = section(&part, z);
            let from = view.stored_region(&section);
            let first = (from.start.z - stored.start.z) * stored.size.x * stored.size.y;
            with_samples!(&*block, voxels => {
                let mut means = Means::new(voxels, view, &patch, &plan.missing, sums);
                for run in patch.runs() {
                    means.add_voxels(&voxels[first as usize..][..from.voxels() as usize], &from, run, &[]);
                }
                means.finish(field);
            });
            bytes.clear();
            append(field, plan.voxel, &mut bytes);
            let first = section.start.zip(plan.region.start, |own, all| own - all);
            place(&bytes, first, section.size, plan, into);
        }
    }
    Ok(())
}

/// One xy section of a region.
fn section(region: &Region, z: u64) -> Region {
    Region {
        start: Xyz { z, ..region.start },
        size: Xyz {
            z: 1,
            ..region.size
        },
    }
}
