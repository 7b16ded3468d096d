//! Statistics of a sample of a channel's voxels: the automatic window, percentiles and a histogram.
//!
//! The sample is deterministic: the coarsest stored level at the first existing time point, whole if it is small,
//! else boxes spread evenly through it. Its size is bounded, so that a terabyte takes no longer than a gigabyte. For
//! RGB data, the window is that of red; percentiles and histogram cover all three components.

use std::sync::Arc;

use crate::description::{Histogram, Percentile};
use crate::geometry::{Region, Xyz};
use crate::paint::Window;
use crate::volume::{ReadError, ReadRequest, Samples, Volume, Voxel, VoxelType, with_samples};

/// A level of at most this many voxels is read whole.
const SMALL: u64 = 1 << 21;
/// The number of boxes along each axis of a larger level.
const BOXES: u64 = 3;
/// The minimum edge of a box, for chunks that are thinner.
const EDGE: u64 = 32;
/// The maximum number of voxels in a box.
const BOX_VOXELS: u64 = 1 << 16;
/// The permille of the sample below the window, and above it.
const PERMILLE: usize = 1;
/// The percentiles computed, in permille.
const PERCENTILES: [usize; 5] = [PERMILLE, 10, 500, 990, 1000 - PERMILLE];
/// The bins of a histogram.
const BINS: usize = 256;

/// The statistics of a channel's sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// The window from the 0.1 to the 99.9 percentile; the full range of the type if the sample is empty.
    pub window: Window,
    /// The 0.1, 1, 50, 99 and 99.9 percentiles of the finite values; empty if there are none.
    pub percentiles: Vec<Percentile>,
    /// The histogram of the finite values; absent if there are none.
    pub histogram: Option<Histogram>,
}

/// Samples the volumes of a level (one, or three for RGB) with voxels of type `voxel`.
pub(super) fn survey(volumes: &[Arc<dyn Volume>], voxel: VoxelType) -> Result<Survey, ReadError> {
    let volumes = volumes.iter().map(AsRef::as_ref);
    with_samples!(voxel.samples(), typed => measured(volumes, typed, voxel.full_window()))
}

fn measured<'a, T: Voxel>(
    volumes: impl Iterator<Item = &'a dyn Volume>,
    mut all: Vec<T>,
    full: Window,
) -> Result<Survey, ReadError> {
    let mut window = None;
    for (component, volume) in volumes.enumerate() {
        all.extend(finite::<T>(volume)?);
        if component == 0 {
            all.sort_unstable_by(by_value);
            window = between(&all);
        }
    }
    all.sort_unstable_by(by_value);
    Ok(Survey {
        window: window.unwrap_or(full),
        percentiles: percentiles(&all),
        histogram: histogram(&all, full),
    })
}

/// The finite values of a volume's sample, unsorted.
fn finite<T: Voxel>(volume: &dyn Volume) -> Result<Vec<T>, ReadError> {
    let Some(time) = (0..volume.shape().times).find(|time| volume.has(*time)) else { return Ok(Vec::new()) };
    let mut sample = sampled::<T>(volume, time)?;
    sample.retain(|value| value.to_f64().is_finite());
    Ok(sample)
}

/// The voxels of all boxes that can be read. An error only if none can: one damaged chunk must not disable the rest.
fn sampled<T: Voxel>(volume: &dyn Volume, time: u64) -> Result<Vec<T>, ReadError> {
    let (mut sample, mut block) = (Vec::new(), Samples::default());
    let mut damage = None;
    for region in regions(volume) {
        match volume.read(&ReadRequest::new(time, region), &mut block) {
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
        return whole.blocks(shape.chunk, BOX_VOXELS).collect();
    }
    let along = |extent: u64, chunk: u64| -> Vec<(u64, u64)> {
        let edge = chunk.max(EDGE).min(extent);
        let mut starts: Vec<u64> =
            (0..BOXES).map(|i| extent * (2 * i + 1) / (2 * BOXES) / edge * edge).collect();
        starts.dedup();
        starts.into_iter().map(|start| (start, edge.min(extent - start))).collect()
    };
    let [xs, ys, zs] =
        [(shape.size.x, shape.chunk.x), (shape.size.y, shape.chunk.y), (shape.size.z, shape.chunk.z)]
            .map(|(extent, chunk)| along(extent, chunk));
    let mut boxes = Vec::new();
    for (z, depth) in &zs {
        for (y, height) in &ys {
            for (x, width) in &xs {
                let region = Region { start: Xyz::new(*x, *y, *z), size: Xyz::new(*width, *height, *depth) };
                boxes.extend(region.blocks(shape.chunk, BOX_VOXELS).next());
            }
        }
    }
    boxes
}

fn by_value<T: Voxel>(a: &T, b: &T) -> std::cmp::Ordering {
    a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal)
}

/// The index of a percentile in a sorted sample, rounded such that low and high percentiles are symmetric.
fn position(last: usize, permille: usize) -> usize {
    if permille <= 500 { last * permille / 1000 } else { last - last * (1000 - permille) / 1000 }
}

/// The window of a sorted sample of finite values.
fn between<T: Voxel>(sorted: &[T]) -> Option<Window> {
    let last = sorted.len().checked_sub(1)?;
    let lo = sorted.get(position(last, PERMILLE))?;
    let hi = sorted.get(position(last, 1000 - PERMILLE))?;
    Some(if T::IS_FLOAT {
        Window::Real { lo: lo.to_f64(), hi: hi.to_f64() }
    } else {
        Window::Whole { lo: lo.to_whole(), hi: hi.to_whole() }
    })
}

fn percentiles<T: Voxel>(sorted: &[T]) -> Vec<Percentile> {
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    let values =
        PERCENTILES.iter().filter_map(|permille| Some((*permille, sorted.get(position(last, *permille))?)));
    values
        .map(|(permille, value)| Percentile { percent: permille as f64 / 10.0, value: value.to_f64() })
        .collect()
}

/// The histogram of a sorted sample; `full` is the range of its type.
fn histogram<T: Voxel>(sorted: &[T], full: Window) -> Option<Histogram> {
    let (lo, hi) = match (sorted.first()?, sorted.last()?) {
        _ if size_of::<T>() == 1 => full.limits(),
        (least, greatest) => (least.to_f64(), greatest.to_f64()),
    };
    // Halved, so that the width is finite even from f64::MIN to f64::MAX.
    let width = hi / 2.0 - lo / 2.0;
    let mut counts = vec![0; BINS];
    for value in sorted {
        let share = if width > 0.0 { (value.to_f64() / 2.0 - lo / 2.0) / width } else { 0.0 };
        let bin = ((share * BINS as f64) as usize).min(BINS - 1);
        if let Some(count) = counts.get_mut(bin) {
            *count += 1;
        }
    }
    Some(Histogram { lo, hi, counts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::MemoryVolume;

    fn sorted<T: Voxel>(mut values: Vec<T>) -> Vec<T> {
        values.sort_unstable_by(by_value);
        values
    }

    #[test]
    fn the_window_leaves_out_one_permille_on_each_side() {
        let values: Vec<u16> = (0..=1000).rev().collect();
        assert_eq!(between(&sorted(values)), Some(Window::Whole { lo: 1, hi: 999 }));
        assert_eq!(between(&sorted(vec![2.0f32, 1.0])), Some(Window::Real { lo: 1.0, hi: 2.0 }));
        assert_eq!(between::<u8>(&[]), None);
    }

    #[test]
    fn percentiles_are_those_of_the_window_and_three_more() {
        let values: Vec<u16> = (0..=1000).collect();
        let told: Vec<(f64, f64)> = percentiles(&values).iter().map(|p| (p.percent, p.value)).collect();
        assert_eq!(told, [(0.1, 1.0), (1.0, 10.0), (50.0, 500.0), (99.0, 990.0), (99.9, 999.0)]);
        assert_eq!(percentiles::<u16>(&[]), []);
    }

    #[test]
    fn bytes_have_one_bin_per_value_and_other_types_span_the_sample() {
        let all: Vec<u8> = (0..=255).collect();
        let bytes = histogram(&all, VoxelType::U8.full_window()).unwrap();
        assert_eq!((bytes.lo, bytes.hi, bytes.counts), (0.0, 255.0, vec![1; 256]));
        let signed = histogram(&[-128i8, -1, -1, 127], VoxelType::I8.full_window()).unwrap();
        assert_eq!((signed.counts[0], signed.counts[127], signed.counts[255]), (1, 2, 1));
        let wide = histogram(&[1000u16, 1255, 3560], VoxelType::U16.full_window()).unwrap();
        assert_eq!(
            (wide.lo, wide.hi, wide.counts[0], wide.counts[25], wide.counts[255]),
            (1000.0, 3560.0, 1, 1, 1)
        );
        let flat = histogram(&[7u32; 5], VoxelType::U32.full_window()).unwrap();
        assert_eq!((flat.lo, flat.hi, flat.counts[0]), (7.0, 7.0, 5));
        let extreme = histogram(&[f64::MIN, 0.0, f64::MAX], VoxelType::F64.full_window()).unwrap();
        assert_eq!((extreme.counts[0], extreme.counts[128], extreme.counts[255]), (1, 1, 1));
        assert_eq!(histogram::<u16>(&[], VoxelType::U16.full_window()), None);
    }

    #[test]
    fn non_finite_values_are_not_counted() {
        let values = [f32::NAN, 2.0, f32::INFINITY, 1.0];
        let volume = MemoryVolume::of(VoxelType::F32, Xyz::new(4, 1, 1), |at| values[at.x as usize]);
        let found =
            measured(std::iter::once(&volume as &dyn Volume), Vec::<f32>::new(), Window::AsStored).unwrap();
        assert_eq!(found.window, Window::Real { lo: 1.0, hi: 2.0 });
        assert_eq!(found.histogram.unwrap().counts.iter().sum::<u64>(), 2);
    }

    #[test]
    fn a_large_volume_is_sampled_throughout_and_within_bounds() {
        let size = Xyz::new(400, 300, 200);
        let volume = MemoryVolume::of(VoxelType::U16, size, |at| (at.x + at.y + at.z) as u16);
        let boxes = regions(&volume);
        assert_eq!(boxes.len(), 27);
        assert!(boxes.iter().all(|b| b.intersection(&Region::whole(size)) == Some(*b)));
        let survey =
            || measured(std::iter::once(&volume as &dyn Volume), Vec::<u16>::new(), Window::AsStored);
        let Window::Whole { lo, hi } = survey().unwrap().window else { panic!("no window") };
        assert!(lo < 250 && hi > 650, "[{lo}, {hi}]");
        assert_eq!(survey().unwrap(), survey().unwrap());
    }
}
