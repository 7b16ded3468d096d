//! CREMI: `/volumes/raw`, `/volumes/labels/neuron_ids`, `/volumes/labels/clefts`.
//!
//! Source: the CREMI challenge's data format and its Python package (`CremiFile`). `resolution` is z, y, x in
//! nanometres. Labels may cover only part of the image: their `offset`, in the same order and unit, is their start. A
//! dataset has one offset for all its channels, so labels are served from their own first voxel, and a remark states
//! its position. Many other programs write a `resolution` like this one.

use super::contents::About;
use super::marks::Marks;
use super::{Layout, VoxelSize};

pub(super) struct Cremi;

impl Layout for Cremi {
    fn name(&self) -> &'static str {
        "CREMI"
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        let is_own = ["/volumes/raw", "/volumes/labels/"].iter().any(|path| about.path.starts_with(path));
        let unit = is_own.then_some("nm");
        let resolution = about.attributes.numbers("resolution");
        let voxel = resolution.and_then(|resolution| VoxelSize::zyx(&resolution, unit));
        let offset = about.attributes.numbers("offset").filter(|_| is_own);
        let remarks = voxel.as_ref().zip(offset).and_then(|(voxel, offset)| remark(voxel, &offset));
        Some(Marks {
            because: is_own.then(|| format!("it has {}", about.path)),
            voxel,
            remarks: remarks.into_iter().collect(),
            ..Marks::default()
        })
    }
}

fn remark(voxel: &VoxelSize, offset: &[f64]) -> Option<String> {
    let [z, y, x] = *offset else { return None };
    let (x, y, z) = (x / voxel.size.x, y / voxel.size.y, z / voxel.size.z);
    (x != 0.0 || y != 0.0 || z != 0.0).then(|| {
        format!(
            "it starts at voxel x {x:.0}, y {y:.0}, z {z:.0} of the file's space; its tiles count from its own first \
             voxel"
        )
    })
}
