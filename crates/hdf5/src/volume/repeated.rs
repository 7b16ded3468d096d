//! A volume in which each voxel of another one is repeated, so that it fills the finer voxels of a
//! grid.
//!
//! Only for labels: ids are repeated, never interpolated.

use std::ops::Range;
use std::sync::Arc;

use ndarray::ArrayViewMut3;
use voltile_base::geometry::{Axis, Region, Xyz};

use super::samples::with_box;
use super::{
    BLOCK_BYTES, BoxMut, Part, Positions, ReadCost, ReadError, ReadRequest, Samples, Tally, Volume,
    VolumeShape, Voxel,
};

/// Voxels of another volume, each repeated along every axis.
#[derive(Debug)]
pub struct Repeated {
    shape: VolumeShape,
    stored: Arc<dyn Volume>,
    times: Xyz<u64>,
}

impl Repeated {
    /// Each voxel of `stored` becomes `times` voxels along each axis.
    pub fn new(stored: Arc<dyn Volume>, times: Xyz<u64>) -> Self {
        let times = times.map(|times| times.max(1));
        let own = stored.shape();
        let coding = Err(format!(
            "each stored voxel is repeated, {times} times (x × y × z)"
        ));
        let size = enlarged(own.size, times);
        let chunk = enlarged(own.chunk, times);
        let shape = VolumeShape {
            size,
            chunk,
            coding,
            ..own.clone()
        };
        Self {
            shape,
            stored,
            times,
        }
    }

    /// The stored voxels that a box shows.
    fn stored_region(&self, region: &Region) -> Region {
        let start = region.start.zip(self.times, |at, times| at / times);
        let end = region.end().zip(self.times, u64::div_ceil);
        Region {
            start,
            size: end.zip(start, u64::saturating_sub),
        }
    }

    /// The request for the stored voxels that a request shows: every one of them along an axis,
    /// unless the wanted ones are a whole number of stored ones apart.
    fn stored_request(&self, request: &ReadRequest) -> ReadRequest {
        let last = request
            .size()
            .zip(request.step, |count, step| count.saturating_sub(1) * step);
        let shown = Region {
            start: request.region.start,
            size: last.map(|last| last + 1),
        };
        let step = request.step.zip(self.times, |step, times| {
            if step.is_multiple_of(times) {
                step / times
            } else {
                1
            }
        });
        ReadRequest {
            region: self.stored_region(&shown),
            step,
            ..request.clone()
        }
    }

    /// For each wanted voxel along an axis, the place among the read voxels of the one it repeats.
    fn places(&self, request: &ReadRequest, stored: &ReadRequest) -> Xyz<Vec<usize>> {
        Xyz::new(Axis::X, Axis::Y, Axis::Z).map(|axis| {
            let start = request.region.start[axis];
            let step = request.step[axis];
            let times = self.times[axis];
            let first = stored.region.start[axis];
            let apart = stored.step[axis];
            (0..request.size()[axis])
                .map(|number| (((start + number * step) / times - first) / apart) as usize)
                .collect()
        })
    }

    /// Reads the wanted voxels of a request.
    fn read_at_once(
        &self,
        request: &ReadRequest,
        into: BoxMut<'_>,
        buffer: &mut Samples,
    ) -> Result<(), ReadError> {
        let wanted = self.stored_request(request);
        self.stored.read(&wanted, buffer)?;
        let places = self.places(request, &wanted);
        let size = wanted.size().map(|count| count as usize);
        let is_copied = with_box!(into, into => repeat(buffer, size, &places, into));
        ReadError::ensure_copied(is_copied, "a volume of repeated voxels")
    }
}

/// Copies the voxels at `places` of a box of `size` voxels. Returns `false` and copies nothing if
/// `into` is of another type.
#[must_use]
fn repeat<T: Voxel>(
    stored: &Samples,
    size: Xyz<usize>,
    places: &Xyz<Vec<usize>>,
    mut into: ArrayViewMut3<'_, T>,
) -> bool {
    let Some(stored) = T::slice(stored) else {
        return false;
    };
    let rows = places
        .z
        .iter()
        .flat_map(|z| places.y.iter().map(move |y| (z * size.y + y) * size.x));
    for (first, mut shown) in rows.zip(into.rows_mut()) {
        let row = stored.get(first..first + size.x).unwrap_or_default();
        for (voxel, x) in shown.iter_mut().zip(&places.x) {
            *voxel = row.get(*x).copied().unwrap_or_default();
        }
    }
    true
}

impl Volume for Repeated {
    fn shape(&self) -> &VolumeShape {
        &self.shape
    }

    /// Stored voxels that are not shown are read too if the wanted ones are not a whole number of
    /// them apart: then the box is read in parts.
    fn read_box(&self, request: &ReadRequest, mut into: BoxMut<'_>) -> Result<(), ReadError> {
        let size = request.size();
        let most = BLOCK_BYTES / self.shape.voxel.samples().voxel_bytes() as u64;
        let mut buffer = Samples::default();
        if self.stored_request(request).size().volume() <= most.max(size.volume()) {
            return self.read_at_once(request, into, &mut buffer);
        }
        for (z, y) in (0..size.z).flat_map(|z| (0..size.y).map(move |y| (z, y))) {
            let place = Xyz::new(0, y, z);
            let before = place.zip(request.step, |number, step| number * step);
            let start = request
                .region
                .start
                .zip(before, |start, before| start + before);
            let row = Region {
                start,
                size: Xyz {
                    x: request.region.size.x,
                    y: 1,
                    z: 1,
                },
            };
            let into = into.part(
                place,
                Xyz {
                    x: size.x,
                    y: 1,
                    z: 1,
                },
            );
            self.read_at_once(
                &ReadRequest {
                    region: row,
                    ..request.clone()
                },
                into,
                &mut buffer,
            )?;
        }
        Ok(())
    }

    fn source(&self) -> Option<&Arc<dyn Volume>> {
        Some(&self.stored)
    }

    fn parts(&self, time: u64, region: &Region) -> Result<Vec<Part>, ReadError> {
        Ok(vec![Part {
            volume: Arc::clone(&self.stored),
            time,
            region: self.stored_region(region),
        }])
    }

    fn gaps(&self, time: u64, region: &Region) -> Vec<Region> {
        let stored = self
            .stored
            .gaps(time, &self.stored_region(region))
            .into_iter();
        let shown = stored.map(|part| Region {
            start: enlarged(part.start, self.times),
            size: enlarged(part.size, self.times),
        });
        shown.filter_map(|part| part.intersection(region)).collect()
    }

    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        let Xyz { x, y, z } = &self.times;
        let stored = Xyz::new(
            shown_by(&wanted.x, *x),
            shown_by(&wanted.y, *y),
            shown_by(&wanted.z, *z),
        );
        self.stored.cost(&stored, tally)
    }
}

fn enlarged(extent: Xyz<u64>, times: Xyz<u64>) -> Xyz<u64> {
    extent.zip(times, u64::saturating_mul)
}

/// The stored positions that ascending ranges show, each once.
fn shown_by(wanted: &[Range<u64>], times: u64) -> Vec<Range<u64>> {
    let mut stored: Vec<Range<u64>> = Vec::with_capacity(wanted.len());
    for range in wanted
        .iter()
        .map(|range| range.start / times..range.end.div_ceil(times))
    {
        match stored.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => stored.push(range),
        }
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{MemoryVolume, VoxelType};

    const SIZE: Xyz<u64> = Xyz { x: 7, y: 5, z: 4 };

    fn id(at: Xyz<u64>) -> u32 {
        (100 * at.z + 10 * at.y + at.x) as u32
    }

    fn repeated(times: Xyz<u64>) -> Repeated {
        Repeated::new(Arc::new(MemoryVolume::of(VoxelType::U32, SIZE, id)), times)
    }

    #[test]
    fn a_large_box_of_which_few_voxels_are_wanted_is_read_in_parts() {
        let (size, times) = (Xyz::new(2000, 1500, 1), Xyz::new(3, 3, 1));
        let stored = MemoryVolume::of(VoxelType::U32, size, |at| (at.y * 2000 + at.x) as u32);
        let volume = Repeated::new(Arc::new(stored), times);
        let request =
            ReadRequest::new(0, Region::whole(Xyz::new(6000, 4500, 1))).every(Xyz::new(32, 32, 1));
        let mut samples = Samples::default();
        volume.read(&request, &mut samples).unwrap();
        let of = |y: u64, x: u64| (32 * y / 3 * 2000 + 32 * x / 3) as u32;
        let all = (0..141)
            .flat_map(|y| (0..188).map(move |x| of(y, x)))
            .collect();
        assert_eq!(samples, Samples::U32(all));
    }

    #[test]
    fn parts_that_exist_are_those_that_their_voxels_fill() {
        let volume = repeated(Xyz::new(2, 2, 1));
        let region = Region {
            start: Xyz::new(3, 1, 0),
            size: Xyz::new(4, 4, 2),
        };
        assert_eq!(volume.gaps(0, &region), []);
        assert_eq!(volume.stored_region(&region).start, Xyz::new(1, 0, 0));
        assert_eq!(volume.stored_region(&region).size, Xyz::new(3, 3, 2));
    }

    #[test]
    fn a_stored_position_is_counted_once() {
        assert_eq!(shown_by(&[0..1, 2..3, 4..5, 6..9], 4), [0..1, 1..3]);
        assert_eq!(shown_by(&[0..3, 3..4], 1), [0..3, 3..4]);
    }
}
