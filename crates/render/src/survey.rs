//! Statistics of a sample of a channel's voxels: the automatic window, percentiles and a histogram.
//!
//! The sample is deterministic: the coarsest stored level at a few time points spread over the
//! series, the whole level if it is small, else boxes spread evenly through it. Its size is
//! bounded, so that a terabyte takes no longer than a gigabyte. Values that stand for missing data
//! are left out, whether the file declares them or they only seem to (*undeclared fill*). A blank
//! time point is left out too, and at most one in five if it is far brighter or darker than the
//! others: a series must not be dark because its first frame is a flash. For RGB data, the window
//! is that of red; percentiles and histogram cover all three components.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use voltile_base::description::{Histogram, Percentile};
use voltile_base::geometry::{Region, Xyz};
use voltile_base::paint::Window;
use voltile_hdf5::volume::{
    Missing, ReadError, ReadRequest, Samples, Volume, VolumePart, VolumeShape, Voxel, VoxelType,
    with_samples,
};

/// The version of the rules by which samples are taken. Stored statistics of other versions are not
/// used.
pub const RULES: u32 = 4;

/// A level of at most this many voxels, at all sampled time points together, is read whole.
const SMALL: u64 = 1 << 21;
/// The maximum number of time points in the sample.
const TIMES: u64 = 9;
/// A missing time point is replaced by one that exists and is at most this many time points away.
const NEAR_TIMES: u64 = 1 << 16;
/// The number of boxes along each axis of a larger level.
const BOXES: u64 = 3;
/// The number of boxes along each axis at each of several time points.
const BOXES_OF_A_SERIES: u64 = 2;
/// The minimum edge of a box, for chunks that are thinner.
const EDGE: u64 = 32;
/// The maximum number of voxels in a box.
const BOX_VOXELS: u64 = 1 << 16;
/// Out of 1,000 sampled voxels, this many lie below the automatic window, and this many above it.
const PERMILLE: usize = 1;
/// The percentiles computed, in permille.
const PERCENTILES: [usize; 5] = [PERMILLE, 10, 500, 990, 1000 - PERMILLE];
/// One in this many values lies below the central histogram, and one above it.
const TAIL: usize = 10_000;
/// The bins of a histogram.
const BINS: usize = 256;

/// A value counts as undeclared fill only if more than one in this many values is equal to it.
const SHARE_OF_FILL: usize = 100;
/// A value counts as undeclared fill if it lies at least this many times the data's range away from
/// the data.
const FILL_DISTANCE: f64 = 10.0;
/// The maximum number of undeclared fill values that are found together at either end of the
/// sample.
const MAX_FILLS: usize = 3;
/// One in this many time points is left out if it is far brighter or darker than all others.
const TIMES_PER_FLASH: usize = 5;

/// 8-bit data whose range is smaller than this are stretched to the full range.
const QUARTER: f64 = 255.0 / 4.0;

/// The statistics of a channel's sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// The window from the 0.1 to the 99.9 percentile; the full range of the type if the sample is
    /// empty.
    pub window: Window,
    /// The 0.1, 1, 50, 99 and 99.9 percentiles of the values that the window is computed from;
    /// empty if there are none.
    pub percentiles: Vec<Percentile>,
    /// The histogram of the finite values; absent if there are none.
    pub histogram: Option<Histogram>,
    /// The histogram without the least and the greatest of every `TAIL` values; absent if it is the
    /// same.
    pub central: Option<Histogram>,
}

impl Survey {
    /// The window of unsigned bytes. They are shown as stored if the window of the sample spans a
    /// quarter of the 256 values or more, or if all values are equal. Otherwise the window is the
    /// file's display range (`range`), if the file has one, else that of the sample.
    pub fn window_of_bytes(&self, range: Option<Window>) -> Window {
        let Some(Histogram { counts, .. }) = &self.histogram else {
            return Window::AsStored;
        };
        // The histogram of bytes has one bin for each value.
        let least = counts.iter().position(|count| *count > 0);
        let greatest = counts.iter().rposition(|count| *count > 0);
        let (Some(least), Some(greatest)) = (least, greatest) else {
            return Window::AsStored;
        };
        if least == greatest {
            return Window::AsStored;
        }
        let (lo, hi) = self.window.limits();
        // If nearly all voxels are equal, the window is empty, and the few others decide.
        let window = if lo < hi {
            self.window
        } else {
            Window::Whole {
                lo: least as i128,
                hi: greatest as i128,
            }
        };
        let (lo, hi) = window.limits();
        if hi - lo >= QUARTER {
            Window::AsStored
        } else {
            range.unwrap_or(window)
        }
    }
}

/// The boxes that contain the sample of a level's volumes.
pub fn sampled(volumes: &[Arc<dyn Volume>]) -> Vec<VolumePart> {
    let mut parts = Vec::new();
    for volume in volumes {
        let times = times(volume.as_ref());
        let whole = Region::whole(volume.shape().size);
        let boxes = if is_small(&whole, times.len()) {
            vec![whole]
        } else {
            regions(volume.as_ref(), times.len())
        };
        for time in times {
            parts.extend(boxes.iter().map(|region| VolumePart {
                volume: Arc::clone(volume),
                time,
                region: *region,
            }));
        }
    }
    parts
}

/// Samples the volumes of a level (one, or three for RGB) with voxels of type `voxel`.
pub fn survey(
    volumes: &[Arc<dyn Volume>],
    voxel: VoxelType,
    missing: &Missing,
) -> Result<Survey, ReadError> {
    let volumes = volumes.iter().map(AsRef::as_ref);
    with_samples!(voxel.samples(), typed => survey_typed(volumes, typed, missing, voxel.full_window()))
}

/// Samples volumes of the voxel type `T`. `all`, which is empty, only gives this type; `full` is
/// the type's full range.
fn survey_typed<'a, T: Voxel>(
    volumes: impl Iterator<Item = &'a dyn Volume>,
    mut all: Vec<T>,
    missing: &Missing,
    full: Window,
) -> Result<Survey, ReadError> {
    let mut window = None;
    for (component, volume) in volumes.enumerate() {
        all.extend(present_values::<T>(volume, missing)?);
        // The window of RGB data is that of red.
        if component == 0 {
            all.sort_unstable_by(by_value);
            window = percentile_window(&values_for_window(without_fill(&all)));
        }
    }
    all.sort_unstable_by(by_value);
    let all = without_fill(&all);
    let histogram = histogram(all, (size_of::<T>() == 1).then_some(full));
    Ok(Survey {
        window: window.unwrap_or(full),
        percentiles: percentiles(&values_for_window(all)),
        central: central(all).filter(|central| Some(central) != histogram.as_ref()),
        histogram,
    })
}

/// A sorted sample without undeclared fill. At least half of the sample stays, because a value that
/// most voxels have is data.
fn without_fill<T: Voxel>(sorted: &[T]) -> &[T] {
    let min_length = sorted.len().div_ceil(2);
    let mut rest = sorted;
    // Fill values that are far from each other are left out one after the other, outermost first.
    while let Some(inner) = without_far_ends(rest, min_length) {
        rest = inner;
    }
    rest
}

/// A sorted sample without frequent values at its ends that are far from all others; `None` if it
/// has no such values, or if fewer than `min_length` values would stay.
fn without_far_ends<T: Voxel>(sorted: &[T], min_length: usize) -> Option<&[T]> {
    let is_frequent = |run: &&[T]| run.len() * SHARE_OF_FILL > sorted.len();
    let runs = || sorted.chunk_by(|a, b| a == b);
    let low_ends = end_lengths(runs().take(MAX_FILLS).take_while(is_frequent));
    let high_ends = end_lengths(runs().rev().take(MAX_FILLS).take_while(is_frequent));
    for low in &low_ends {
        for high in &high_ends {
            if let Some(rest) = far_from_ends(sorted, *low, *high)
                && rest.len() >= min_length
            {
                return Some(rest);
            }
        }
    }
    None
}

/// A sorted sample without its first `low` and last `high` values, if there are any and they are
/// far from all others.
fn far_from_ends<T: Voxel>(sorted: &[T], low: usize, high: usize) -> Option<&[T]> {
    let (below, not_below) = sorted.split_at_checked(low)?;
    let length = not_below.len().checked_sub(high)?;
    let (rest, above) = not_below.split_at_checked(length)?;
    let first = rest.first()?.to_f64();
    let last = rest.last()?.to_f64();
    let distance_below = below.last().map(|fill| first - fill.to_f64());
    let distance_above = above.first().map(|fill| fill.to_f64() - last);
    let nearest = distance_below
        .into_iter()
        .chain(distance_above)
        .reduce(f64::min)?;
    (last > first && nearest > FILL_DISTANCE * (last - first)).then_some(rest)
}

/// How many values may be left out at one end of the sample: none, or those of its first run of
/// equal values, of its first two runs, and so on. `runs` begin at that end.
fn end_lengths<'a, T: 'a>(runs: impl Iterator<Item = &'a [T]>) -> Vec<usize> {
    let mut length = 0;
    let mut lengths = vec![length];
    for run in runs {
        length += run.len();
        lengths.push(length);
    }
    lengths
}

/// The values of a sorted sample that the window is computed from: all of them, or only those that
/// are not zero if they are floats and nearly all are zero.
fn values_for_window<T: Voxel>(sorted: &[T]) -> Cow<'_, [T]> {
    let is_zero = |value: &T| value.to_f64() == 0.0;
    let high = percentile(sorted, 1000 - PERMILLE);
    if T::IS_FLOAT && high.is_some_and(is_zero) && !sorted.iter().all(is_zero) {
        return sorted
            .iter()
            .copied()
            .filter(|value| !is_zero(value))
            .collect();
    }
    Cow::Borrowed(sorted)
}

/// The finite values of a volume's sample that do not stand for missing data, without outlying time
/// points. Fails only if nothing can be read: one damaged chunk must not disable the rest.
fn present_values<T: Voxel>(volume: &dyn Volume, missing: &Missing) -> Result<Vec<T>, ReadError> {
    let times = times(volume);
    let regions = regions(volume, times.len());
    let mut frames = Vec::new();
    let mut block = Samples::default();
    let mut damage = None;
    for time in times {
        let mut frame: Vec<T> = Vec::new();
        for region in &regions {
            match volume.read(&ReadRequest::new(time, *region), &mut block) {
                Ok(()) => {
                    let is_gap = region.covered_by(&volume.gaps(time, region));
                    let voxels = T::slice(&block).unwrap_or_default().iter().enumerate();
                    let present = voxels.filter(|(place, _)| is_gap.get(*place) != Some(&true));
                    frame.extend(present.map(|(_, voxel)| *voxel));
                }
                Err(error) => damage = Some(error),
            }
        }
        frames.push(frame);
    }
    if let Some(error) = damage
        && frames.iter().all(Vec::is_empty)
    {
        return Err(error);
    }
    for frame in &mut frames {
        frame.retain(|value| value.to_f64().is_finite() && !missing.has(*value));
        frame.sort_unstable_by(by_value);
    }
    Ok(without_outliers(frames).concat())
}

/// The time points in the sample: the first, the last, and some evenly in between. A missing time
/// point is replaced by one that exists nearby, if there is one.
fn times(volume: &dyn Volume) -> Vec<u64> {
    let all = volume.shape().times;
    let count = all.min(TIMES);
    let mut times = Vec::new();
    for number in 0..count {
        let place = u128::from(number) * u128::from(all - 1) / u128::from(count - 1).max(1);
        times.extend(existing_near(volume.shape(), place as u64));
    }
    times.dedup();
    times
}

/// The first time point from `place` on that exists, else the last one before it; `None` if none is
/// near enough.
fn existing_near(shape: &VolumeShape, place: u64) -> Option<u64> {
    let end = shape.times.min(place.saturating_add(NEAR_TIMES));
    let before = place.saturating_sub(NEAR_TIMES)..place;
    (place..end)
        .chain(before.rev())
        .find(|time| shape.has(*time))
}

/// The values of all time points except blank ones and outliers. Blank time points are left out if
/// they all have the same value, or if they are at most a third of all. An outlier is a time point
/// whose median lies below the windows of all other time points, or above all of them. If more than
/// a fifth are outliers, none is left out, because then the series simply changes much.
fn without_outliers<T: Voxel>(mut frames: Vec<Vec<T>>) -> Vec<Vec<T>> {
    frames.retain(|frame| !frame.is_empty());
    let varies = |frame: &Vec<T>| frame.first() != frame.last();
    let blank: Vec<Option<&T>> = frames
        .iter()
        .filter(|frame| !varies(frame))
        .map(|frame| frame.first())
        .collect();
    let is_one_value = blank.windows(2).all(|pair| pair[0] == pair[1]);
    if blank.len() < frames.len() && (is_one_value || 3 * blank.len() <= frames.len()) {
        frames.retain(varies);
    }
    let lows = values_at(&frames, PERMILLE);
    let medians = values_at(&frames, 500);
    let highs = values_at(&frames, 1000 - PERMILLE);
    let mut is_outlier = Vec::new();
    for (frame, median) in medians.iter().enumerate() {
        let lowest = besides(&lows, frame).fold(f64::INFINITY, f64::min);
        let highest = besides(&highs, frame).fold(f64::NEG_INFINITY, f64::max);
        is_outlier.push(*median < lowest || *median > highest);
    }
    let outliers = is_outlier.iter().filter(|outlier| **outlier).count();
    if TIMES_PER_FLASH * outliers > frames.len() {
        return frames;
    }
    frames
        .into_iter()
        .zip(is_outlier)
        .filter(|(_, is_outlier)| !is_outlier)
        .map(|(frame, _)| frame)
        .collect()
}

/// A percentile of each time point, whose values are sorted.
fn values_at<T: Voxel>(frames: &[Vec<T>], permille: usize) -> Vec<f64> {
    let values = frames
        .iter()
        .filter_map(|frame| percentile(frame, permille));
    values.map(|value| value.to_f64()).collect()
}

/// All values except the one at `place`.
fn besides(values: &[f64], place: usize) -> impl Iterator<Item = f64> {
    let (before, rest) = values.split_at(place);
    before.iter().chain(rest.iter().skip(1)).copied()
}

/// Whether a level is read whole.
fn is_small(whole: &Region, times: usize) -> bool {
    whole.voxels().saturating_mul(times as u64) <= SMALL
}

/// The boxes that are read at each time point, if there are `times`.
fn regions(volume: &dyn Volume, times: usize) -> Vec<Region> {
    let shape = volume.shape();
    let whole = Region::whole(shape.size);
    if is_small(&whole, times) {
        return whole.blocks(shape.chunk, BOX_VOXELS).collect();
    }
    let boxes = if times > 1 { BOXES_OF_A_SERIES } else { BOXES };
    let xs = spread(boxes, shape.size.x, shape.chunk.x);
    let ys = spread(boxes, shape.size.y, shape.chunk.y);
    let zs = spread(boxes, shape.size.z, shape.chunk.z);
    let mut regions = Vec::new();
    for (z, depth) in &zs {
        for (y, height) in &ys {
            for (x, width) in &xs {
                let region = Region {
                    start: Xyz::new(*x, *y, *z),
                    size: Xyz::new(*width, *height, *depth),
                };
                // Of a large box only the first block, because the size of the sample is bounded.
                regions.extend(region.blocks(shape.chunk, BOX_VOXELS).next());
            }
        }
    }
    regions
}

/// The starts and lengths of boxes along an axis. The boxes start at multiples of their length, and
/// contain the centres of `boxes` equal parts of the axis.
fn spread(boxes: u64, extent: u64, chunk: u64) -> Vec<(u64, u64)> {
    let edge = chunk.max(EDGE).min(extent);
    let mut starts = Vec::new();
    for number in 0..boxes {
        let centre = extent * (2 * number + 1) / (2 * boxes);
        starts.push(centre / edge * edge);
    }
    starts.dedup();
    starts
        .into_iter()
        .map(|start| (start, edge.min(extent - start)))
        .collect()
}

fn by_value<T: Voxel>(a: &T, b: &T) -> std::cmp::Ordering {
    a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal)
}

/// A percentile of a sorted sample; `None` if it is empty. Its index is rounded towards the nearer
/// end, so that low and high percentiles are symmetric.
fn percentile<T>(sorted: &[T], permille: usize) -> Option<&T> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get(if permille <= 500 {
        last * permille / 1000
    } else {
        last - last * (1000 - permille) / 1000
    })
}

/// The window from the 0.1 to the 99.9 percentile of a sorted sample of finite values.
fn percentile_window<T: Voxel>(sorted: &[T]) -> Option<Window> {
    let lo = percentile(sorted, PERMILLE)?;
    let hi = percentile(sorted, 1000 - PERMILLE)?;
    Some(if T::IS_FLOAT {
        Window::Real {
            lo: lo.to_f64(),
            hi: hi.to_f64(),
        }
    } else {
        Window::Whole {
            lo: lo.to_whole(),
            hi: hi.to_whole(),
        }
    })
}

/// Sorts finite values, and returns their window from the 0.1 to the 99.9 percentile; `None` if
/// there are none.
pub fn window_of(values: &mut [f64]) -> Option<Window> {
    values.sort_unstable_by(by_value);
    percentile_window(values)
}

fn percentiles<T: Voxel>(sorted: &[T]) -> Vec<Percentile> {
    let mut percentiles = Vec::new();
    for permille in PERCENTILES {
        percentiles.extend(percentile(sorted, permille).map(|value| Percentile {
            percent: permille as f64 / 10.0,
            value: value.to_f64(),
        }));
    }
    percentiles
}

/// The histogram of a sorted sample without its tails.
fn central<T: Voxel>(sorted: &[T]) -> Option<Histogram> {
    let tail = sorted.len().saturating_sub(1) / TAIL;
    histogram(sorted.get(tail..sorted.len() - tail)?, None)
}

/// The histogram of a sorted sample over a range, or from the least to the greatest value.
fn histogram<T: Voxel>(sorted: &[T], range: Option<Window>) -> Option<Histogram> {
    let least = sorted.first()?.to_f64();
    let greatest = sorted.last()?.to_f64();
    let (lo, hi) = range.as_ref().map_or((least, greatest), Window::limits);
    // Halved, so that the width is finite even from f64::MIN to f64::MAX.
    let width = hi / 2.0 - lo / 2.0;
    let mut counts = vec![0; BINS];
    for value in sorted {
        let share = if width > 0.0 {
            (value.to_f64() / 2.0 - lo / 2.0) / width
        } else {
            0.0
        };
        let bin = ((share * BINS as f64) as usize).min(BINS - 1);
        counts[bin] += 1;
    }
    Some(Histogram { lo, hi, counts })
}

#[cfg(test)]
mod tests {
    use voltile_base::paint::Number;
    use voltile_hdf5::volume::{MemoryVolume, Series};

    use super::*;

    fn sorted<T: Voxel>(mut values: Vec<T>) -> Vec<T> {
        values.sort_unstable_by(by_value);
        values
    }

    #[test]
    fn the_window_leaves_out_one_permille_on_each_side() {
        let values: Vec<u16> = (0..=1000).rev().collect();
        assert_eq!(
            percentile_window(&sorted(values)),
            Some(Window::Whole { lo: 1, hi: 999 })
        );
        assert_eq!(
            percentile_window(&sorted(vec![2.0f32, 1.0])),
            Some(Window::Real { lo: 1.0, hi: 2.0 })
        );
        assert_eq!(percentile_window::<u8>(&[]), None);
    }

    #[test]
    fn percentiles_are_those_of_the_window_and_three_more() {
        let values: Vec<u16> = (0..=1000).collect();
        let told: Vec<(f64, f64)> = percentiles(&values)
            .iter()
            .map(|p| (p.percent, p.value))
            .collect();
        assert_eq!(
            told,
            [
                (0.1, 1.0),
                (1.0, 10.0),
                (50.0, 500.0),
                (99.0, 990.0),
                (99.9, 999.0)
            ]
        );
        assert_eq!(percentiles::<u16>(&[]), []);
    }

    #[test]
    fn bytes_have_one_bin_per_value_and_other_types_span_the_sample() {
        let all: Vec<u8> = (0..=255).collect();
        let bytes = histogram(&all, Some(VoxelType::U8.full_window())).unwrap();
        assert_eq!(
            (bytes.lo, bytes.hi, bytes.counts),
            (0.0, 255.0, vec![1; 256])
        );
        let signed = histogram(&[-128i8, -1, -1, 127], None).unwrap();
        assert_eq!(
            (signed.counts[0], signed.counts[127], signed.counts[255]),
            (1, 2, 1)
        );
        let wide = histogram(&[1000u16, 1255, 3560], None).unwrap();
        assert_eq!(
            (
                wide.lo,
                wide.hi,
                wide.counts[0],
                wide.counts[25],
                wide.counts[255]
            ),
            (1000.0, 3560.0, 1, 1, 1)
        );
        let flat = histogram(&[7u32; 5], None).unwrap();
        assert_eq!((flat.lo, flat.hi, flat.counts[0]), (7.0, 7.0, 5));
        let extreme = histogram(&[f64::MIN, 0.0, f64::MAX], None).unwrap();
        assert_eq!(
            (extreme.counts[0], extreme.counts[128], extreme.counts[255]),
            (1, 1, 1)
        );
        assert_eq!(histogram::<u16>(&[], None), None);
    }

    #[test]
    fn the_central_histogram_leaves_out_hot_and_dead_voxels() {
        let values = |place: u64| match place {
            0..2 => 0,
            2..4 => u16::MAX,
            _ => 100 + (place % 51) as u16,
        };
        let volume = MemoryVolume::of(VoxelType::U16, Xyz::new(25_000, 1, 1), |at| values(at.x));
        let found = of_one(&volume, &Missing::default(), Vec::<u16>::new());
        let (whole, central) = (found.histogram.unwrap(), found.central.unwrap());
        assert_eq!((whole.lo, whole.hi), (0.0, 65_535.0));
        assert_eq!((central.lo, central.hi), (100.0, 150.0));
        assert_eq!(central.counts.iter().sum::<u64>(), 24_996);
        let few = MemoryVolume::of(VoxelType::U16, Xyz::new(9_000, 1, 1), |at| values(at.x));
        let found = of_one(&few, &Missing::default(), Vec::<u16>::new());
        assert_eq!(found.central, None, "of few values all are common");
        let narrow = MemoryVolume::of(VoxelType::U8, Xyz::new(100, 1, 1), |at| {
            81 + (at.x % 9) as u8
        });
        let found = of_one(&narrow, &Missing::default(), Vec::<u8>::new());
        assert_eq!(
            found.central.map(|central| (central.lo, central.hi)),
            Some((81.0, 89.0))
        );
    }

    #[test]
    fn non_finite_values_are_not_counted() {
        let values = [f32::NAN, 2.0, f32::INFINITY, 1.0];
        let volume = MemoryVolume::of(VoxelType::F32, Xyz::new(4, 1, 1), |at| {
            values[at.x as usize]
        });
        let found = of_one(&volume, &Missing::default(), Vec::<f32>::new());
        assert_eq!(found.window, Window::Real { lo: 1.0, hi: 2.0 });
        assert_eq!(found.histogram.unwrap().counts.iter().sum::<u64>(), 2);
    }

    #[test]
    fn a_large_volume_is_sampled_throughout_and_within_bounds() {
        let size = Xyz::new(400, 300, 200);
        let volume = MemoryVolume::of(VoxelType::U16, size, |at| (at.x + at.y + at.z) as u16);
        let boxes = regions(&volume, 1);
        assert_eq!(boxes.len(), 27);
        assert!(
            boxes
                .iter()
                .all(|b| b.intersection(&Region::whole(size)) == Some(*b))
        );
        let survey = || of_one(&volume, &Missing::default(), Vec::<u16>::new());
        let Window::Whole { lo, hi } = survey().window else {
            panic!("no window")
        };
        assert!(lo < 250 && hi > 650, "[{lo}, {hi}]");
        assert_eq!(survey(), survey());
    }

    fn of_one<T: Voxel>(volume: &dyn Volume, missing: &Missing, typed: Vec<T>) -> Survey {
        survey_typed(std::iter::once(volume), typed, missing, Window::AsStored).unwrap()
    }

    #[test]
    fn undeclared_fill_is_left_out_if_it_is_frequent_and_far_from_all_else() {
        let rest = |fills: &[(i32, usize)], others: std::ops::Range<i32>| {
            let fills = fills.iter().flat_map(|(value, count)| vec![*value; *count]);
            let all = sorted(fills.chain(others).collect());
            let rest = without_fill(&all);
            (rest[0], rest[rest.len() - 1])
        };
        assert_eq!(rest(&[(-29_999, 50)], 0..1000), (0, 999));
        assert_eq!(
            rest(&[(-29_999, 50), (-9_999, 20), (i32::MAX, 30)], 200..300),
            (200, 299)
        );
        assert_eq!(rest(&[(-29_999, 5)], 0..1000), (-29_999, 999), "rare");
        assert_eq!(rest(&[(-5_000, 50)], 0..1000), (-5_000, 999), "near");
        assert_eq!(
            rest(&[(0, 50), (255, 50)], 0..0),
            (0, 255),
            "of two values, none is fill"
        );
        assert_eq!(
            rest(&[(-29_999, 1000)], 0..1000),
            (0, 999),
            "half of the sample stays"
        );
        assert_eq!(
            rest(&[(-29_999, 1001)], 0..1000),
            (-29_999, 999),
            "less than half would stay"
        );
        let both = rest(&[(-29_999, 600), (i32::MAX, 600)], 0..1000);
        assert_eq!(both, (-29_999, 999), "only one of them is left out");
    }

    #[test]
    fn the_window_of_sparse_floats_is_that_of_their_other_values() {
        let mut values = vec![0.0f32; 9990];
        values.extend([2.0, 3.0, 4.0]);
        let volume = MemoryVolume::of(VoxelType::F32, Xyz::new(9993, 1, 1), |at| {
            values[at.x as usize]
        });
        let found = of_one(&volume, &Missing::default(), Vec::<f32>::new());
        assert_eq!(found.window, Window::Real { lo: 2.0, hi: 4.0 });
        assert_eq!(found.histogram.unwrap().counts.iter().sum::<u64>(), 9993);
        let volume = MemoryVolume::of(VoxelType::U16, Xyz::new(9993, 1, 1), |at| {
            values[at.x as usize] as u16
        });
        let whole = of_one(&volume, &Missing::default(), Vec::<u16>::new());
        assert_eq!(whole.window, Window::Whole { lo: 0, hi: 0 });
    }

    /// A series of 100 × 1 × 1 voxels, which are 20 to 119 times the brightness of their time
    /// point.
    fn series(brightness: &'static [u16]) -> Series {
        let size = Xyz::new(100, 1, 1);
        let frame = move |time: u64| {
            MemoryVolume::of(VoxelType::U16, size, move |at| {
                brightness[time as usize] * (20 + at.x as u16)
            })
        };
        let open = move |time| Ok(Arc::new(frame(time)) as Arc<dyn Volume>);
        Series::new(
            frame(0).shape().clone(),
            vec![true; brightness.len()],
            Box::new(open),
        )
    }

    #[test]
    fn a_blank_or_a_very_bright_time_point_does_not_widen_the_window() {
        let window =
            |brightness| of_one(&series(brightness), &Missing::default(), Vec::<u16>::new()).window;
        let plain = window(&[10, 10, 10, 10]);
        assert_eq!(plain, Window::Whole { lo: 200, hi: 1190 });
        assert_eq!(window(&[0, 10, 10, 10]), plain);
        assert_eq!(window(&[10, 10, 400, 10, 10]), plain);
        let all = Window::Whole {
            lo: 200,
            hi: 47_600,
        };
        assert_eq!(window(&[10, 400, 10]), all, "one of three is no exception");
        assert_eq!(window(&[10, 10, 400, 10]), all, "nor is one of four");
        assert_eq!(
            window(&[10, 0, 10, 400, 10]),
            all,
            "nor is one of four beside a blank one"
        );
        assert_eq!(
            window(&[400, 10, 10, 10, 10, 10, 10, 10, 1]),
            Window::Whole { lo: 20, hi: 47_600 },
            "two of nine"
        );
        assert_eq!(
            window(&[10, 7, 5, 3]),
            Window::Whole { lo: 60, hi: 1190 },
            "gradual changes all count"
        );
        assert_eq!(window(&[0, 10]), Window::Whole { lo: 200, hi: 1190 });
        assert_eq!(
            window(&[1, 10, 100]),
            Window::Whole { lo: 20, hi: 11_900 },
            "two of three are too many to leave out"
        );
    }

    #[test]
    fn blank_time_points_count_if_they_are_many_and_differ() {
        let kept = |blank: &[u16]| {
            let blank = blank.iter().map(|value| vec![*value; 4]);
            without_outliers(blank.chain([vec![4, 4, 5, 5]]).collect()).len()
        };
        assert_eq!((kept(&[0]), kept(&[0, 0, 0, 0])), (1, 1));
        assert_eq!(kept(&[0, 1, 2, 3]), 5);
    }

    #[test]
    fn times_are_spread_over_the_whole_series() {
        assert_eq!(times(&series(&[1; 30])), [0, 3, 7, 10, 14, 18, 21, 25, 29]);
        assert_eq!(times(&series(&[1; 4])), [0, 1, 2, 3]);
        assert_eq!(times(&series(&[1])), [0]);
    }

    #[test]
    fn missing_values_are_not_counted() {
        let values = [7u16, 65535, 9, 65535];
        let volume = MemoryVolume::of(VoxelType::U16, Xyz::new(4, 1, 1), |at| {
            values[at.x as usize]
        });
        let missing = Missing::new(&[Number::Whole(65535)], VoxelType::U16);
        assert_eq!(
            of_one(&volume, &missing, Vec::<u16>::new()).window,
            Window::Whole { lo: 7, hi: 9 }
        );
    }

    #[test]
    fn bytes_are_stretched_if_they_cover_less_than_a_quarter_of_their_range() {
        let window = |least: u64, count: u64| {
            let size = Xyz::new(count, 1, 1);
            let volume = MemoryVolume::of(VoxelType::U8, size, |at| (least + at.x) as u8);
            of_one(&volume, &Missing::default(), Vec::<u8>::new()).window_of_bytes(None)
        };
        assert_eq!(window(100, 64), Window::Whole { lo: 100, hi: 163 });
        assert_eq!(window(100, 65), Window::AsStored);
        assert_eq!(window(0, 2), Window::Whole { lo: 0, hi: 1 });
        assert_eq!(window(0, 1), Window::AsStored, "a constant says nothing");
    }
}
