//! Automatic windows: the 0.1 and 99.9 percentiles of a sample that is always the same.
//!
//! The sample is taken from the coarsest stored level at the first time point there is: all of it where it is small,
//! else boxes spread evenly through it. It is bounded, so that a terabyte takes no longer than a gigabyte.

use super::Channel;
use crate::geometry::{Region, Xyz};
use crate::paint::Window;
use crate::volume::{ReadError, Samples, Volume, Voxel, with_samples};

/// A level of at most this many voxels is read whole.
const SMALL: u64 = 1 << 21;
/// How many boxes are taken along each axis of a larger one.
const BOXES: u64 = 3;
/// The edge that a box has at least, where the stored grain is thinner.
const EDGE: u64 = 32;
/// The most voxels of one box.
const BOX_VOXELS: u64 = 1 << 16;
/// The permille left out below and above.
const PERMILLE: usize = 1;

/// The window between the percentiles of the sample.
pub(super) fn window(channel: &Channel) -> Result<Window, ReadError> {
    let mut limits = Vec::new();
    let volumes = channel.levels.last().map_or(&[][..], |level| &level.volumes);
    for volume in volumes {
        limits.push(percentiles(volume.as_ref())?);
    }
    Ok(limits.first().copied().flatten().unwrap_or_else(|| channel.voxel.full_window()))
}

fn percentiles(volume: &dyn Volume) -> Result<Option<Window>, ReadError> {
    let Some(time) = (0..volume.shape().times).find(|time| volume.has(*time)) else { return Ok(None) };
    let typed = volume.shape().voxel.samples();
    with_samples!(typed, typed => sampled(volume, time, typed).map(between))
}

/// The voxels of all boxes that can be read: a damaged one must not take the others down.
fn sampled<T: Voxel>(volume: &dyn Volume, time: u64, mut sample: Vec<T>) -> Result<Vec<T>, ReadError> {
    let mut block = Samples::default();
    let mut damage = None;
    for region in regions(volume) {
        match volume.read(time, &region, &mut block) {
            Ok(()) => sample.extend(T::slice(&block).unwrap_or_default()),
            Err(error) => damage = Some(error),
        }
    }
    match damage {
        Some(error) if sample.is_empty() => Err(error),
        _ => Ok(sample),
    }
}

fn regions(volume: &dyn Volume) -> Vec<Region> {
    let shape = volume.shape();
    let whole = Region::whole(shape.size);
    if whole.voxels() <= SMALL {
        return whole.blocks(shape.grain, BOX_VOXELS).collect();
    }
    let along = |extent: u64, grain: u64| -> Vec<(u64, u64)> {
        let edge = grain.max(EDGE).min(extent);
        let mut starts: Vec<u64> =
            (0..BOXES).map(|i| extent * (2 * i + 1) / (2 * BOXES) / edge * edge).collect();
        starts.dedup();
        starts.into_iter().map(|start| (start, edge.min(extent - start))).collect()
    };
    let [xs, ys, zs] =
        [(shape.size.x, shape.grain.x), (shape.size.y, shape.grain.y), (shape.size.z, shape.grain.z)]
            .map(|(extent, grain)| along(extent, grain));
    let mut boxes = Vec::new();
    for (z, depth) in &zs {
        for (y, height) in &ys {
            for (x, width) in &xs {
                let region = Region { start: Xyz::new(*x, *y, *z), size: Xyz::new(*width, *height, *depth) };
                boxes.extend(region.blocks(shape.grain, BOX_VOXELS).next());
            }
        }
    }
    boxes
}

/// The percentiles of what is a finite number.
fn between<T: Voxel>(mut sample: Vec<T>) -> Option<Window> {
    sample.retain(|value| value.to_f64().is_finite());
    sample.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let last = sample.len().checked_sub(1)?;
    let left_out = last * PERMILLE / 1000;
    let (lo, hi) = (sample[left_out], sample[last - left_out]);
    Some(if T::IS_FLOAT {
        Window::Real { lo: lo.to_f64(), hi: hi.to_f64() }
    } else {
        Window::Whole { lo: lo.to_whole(), hi: hi.to_whole() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{MemoryVolume, VoxelType};

    #[test]
    fn the_window_leaves_out_one_permille_on_each_side() {
        let values: Vec<u16> = (0..=1000).rev().collect();
        assert_eq!(between(values), Some(Window::Whole { lo: 1, hi: 999 }));
        assert_eq!(between(vec![f32::NAN, 2.0, f32::INFINITY, 1.0]), Some(Window::Real { lo: 1.0, hi: 2.0 }));
        assert_eq!(between::<u8>(Vec::new()), None);
    }

    #[test]
    fn a_large_volume_is_sampled_throughout_and_within_bounds() {
        let size = Xyz::new(400, 300, 200);
        let volume = MemoryVolume::of(VoxelType::U16, size, |at| (at.x + at.y + at.z) as u16);
        let boxes = regions(&volume);
        assert_eq!(boxes.len(), 27);
        assert!(boxes.iter().all(|b| b.intersection(&Region::whole(size)) == Some(*b)));
        let Ok(Some(Window::Whole { lo, hi })) = percentiles(&volume) else { panic!("no window") };
        assert!(lo < 250 && hi > 650, "[{lo}, {hi}]");
        assert_eq!(percentiles(&volume).unwrap(), Some(Window::Whole { lo, hi }));
    }
}
