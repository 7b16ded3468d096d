//! A volume that repeats each voxel of another volume, so that labels with coarse voxels fit the
//! finer voxels of an image. Ids are repeated, never interpolated.

use std::ops::Range;
use std::sync::Arc;

use ndarray::ArrayViewMut3;
use voltile_base::geometry::{Axis, Region, Xyz};

use super::samples::with_box;
use super::{
    BLOCK_BYTES, BoxMut, Positions, ReadCost, ReadError, ReadRequest, Samples, Tally, Volume,
    VolumePart, VolumeShape, Voxel,
};

/// Voxels of another volume, each repeated along every axis.
#[derive(Debug)]
pub struct Repeated {
    shape: VolumeShape,
    stored: Arc<dyn Volume>,
    /// How many voxels each stored voxel becomes along each axis.
    factor: Xyz<u64>,
}

impl Repeated {
    /// Each voxel of `stored` becomes `factor` voxels along each axis.
    pub fn new(stored: Arc<dyn Volume>, factor: Xyz<u64>) -> Self {
        let factor = factor.map(|factor| factor.max(1));
        let own = stored.shape();
        let coding = format!("each stored voxel is repeated, {factor} times (x × y × z)");
        let shape = VolumeShape {
            size: enlarged(own.size, factor),
            chunk: enlarged(own.chunk, factor),
            coding: Err(coding),
            ..own.clone()
        };
        Self {
            shape,
            stored,
            factor,
        }
    }

    /// The stored voxels that a box shows.
    fn stored_region(&self, region: &Region) -> Region {
        let start = region.start.zip(self.factor, |at, factor| at / factor);
        let end = region.end().zip(self.factor, u64::div_ceil);
        Region::between(start, end)
    }

    /// The request for the stored voxels that a request shows. Along an axis, every n-th stored
    /// voxel is read if the step is n times the factor; otherwise all of them are.
    fn stored_request(&self, request: &ReadRequest) -> ReadRequest {
        // The box from the first wanted voxel to the last.
        let last = request
            .size()
            .zip(request.step, |count, step| count.saturating_sub(1) * step);
        let shown = Region {
            start: request.region.start,
            size: last.map(|last| last + 1),
        };
        let step = request.step.zip(self.factor, |step, factor| {
            if step.is_multiple_of(factor) {
                step / factor
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

    /// For each wanted position along each axis, the index of the voxel that it repeats, among the
    /// voxels that the request `stored` reads.
    fn places(&self, request: &ReadRequest, stored: &ReadRequest) -> Xyz<Vec<usize>> {
        Xyz::new(Axis::X, Axis::Y, Axis::Z).map(|axis| {
            let mut places = Vec::new();
            for number in 0..request.size()[axis] {
                let position = request.region.start[axis] + number * request.step[axis];
                let repeated = position / self.factor[axis];
                let place = (repeated - stored.region.start[axis]) / stored.step[axis];
                places.push(place as usize);
            }
            places
        })
    }

    /// Reads the voxels of a request by one read of the stored volume.
    fn read_at_once(
        &self,
        request: &ReadRequest,
        into: BoxMut<'_>,
        buffer: &mut Samples,
    ) -> Result<(), ReadError> {
        let stored_request = self.stored_request(request);
        self.stored.read(&stored_request, buffer)?;
        let places = self.places(request, &stored_request);
        let size = stored_request.size().map(|count| count as usize);
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
    for (z, mut slice) in places.z.iter().zip(into.outer_iter_mut()) {
        for (y, mut shown) in places.y.iter().zip(slice.rows_mut()) {
            let first = (z * size.y + y) * size.x;
            let row = stored.get(first..first + size.x).unwrap_or_default();
            for (x, voxel) in places.x.iter().zip(&mut shown) {
                *voxel = row.get(*x).copied().unwrap_or_default();
            }
        }
    }
    true
}

impl Volume for Repeated {
    fn shape(&self) -> &VolumeShape {
        &self.shape
    }

    /// Reads the box row by row if reading it at once would read more stored voxels than
    /// [`BLOCK_BYTES`] hold, and more than are shown.
    fn read_box(&self, request: &ReadRequest, mut into: BoxMut<'_>) -> Result<(), ReadError> {
        let size = request.size();
        let block_voxels = BLOCK_BYTES / self.shape.voxel.samples().voxel_bytes() as u64;
        let mut buffer = Samples::default();
        if self.stored_request(request).size().volume() <= block_voxels.max(size.volume()) {
            return self.read_at_once(request, into, &mut buffer);
        }
        let Region { start, size: all } = request.region;
        for z in 0..size.z {
            for y in 0..size.y {
                let first = Xyz {
                    x: start.x,
                    y: start.y + y * request.step.y,
                    z: start.z + z * request.step.z,
                };
                let row = ReadRequest {
                    region: Region {
                        start: first,
                        size: Xyz::new(all.x, 1, 1),
                    },
                    ..request.clone()
                };
                let into = into.part(Xyz::new(0, y, z), Xyz::new(size.x, 1, 1));
                self.read_at_once(&row, into, &mut buffer)?;
            }
        }
        Ok(())
    }

    fn source(&self) -> Option<&Arc<dyn Volume>> {
        Some(&self.stored)
    }

    fn parts(&self, time: u64, region: &Region) -> Result<Vec<VolumePart>, ReadError> {
        Ok(vec![VolumePart {
            volume: Arc::clone(&self.stored),
            time,
            region: self.stored_region(region),
        }])
    }

    fn gaps(&self, time: u64, region: &Region) -> Vec<Region> {
        let mut shown = Vec::new();
        for gap in self.stored.gaps(time, &self.stored_region(region)) {
            let repeated = Region {
                start: enlarged(gap.start, self.factor),
                size: enlarged(gap.size, self.factor),
            };
            shown.extend(repeated.intersection(region));
        }
        shown
    }

    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        let stored = Xyz {
            x: stored_runs(&wanted.x, self.factor.x),
            y: stored_runs(&wanted.y, self.factor.y),
            z: stored_runs(&wanted.z, self.factor.z),
        };
        self.stored.cost(&stored, tally)
    }
}

fn enlarged(extent: Xyz<u64>, factor: Xyz<u64>) -> Xyz<u64> {
    extent.zip(factor, u64::saturating_mul)
}

/// The stored positions that ascending runs of wanted positions show, each once: 0..2 for the runs
/// 0..1 and 2..6, if the factor is 3.
fn stored_runs(wanted: &[Range<u64>], factor: u64) -> Vec<Range<u64>> {
    let mut stored: Vec<Range<u64>> = Vec::with_capacity(wanted.len());
    for run in wanted {
        let start = run.start / factor;
        let end = run.end.div_ceil(factor);
        match stored.last_mut() {
            Some(last) if start < last.end => last.end = last.end.max(end),
            _ => stored.push(start..end),
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
        assert_eq!(stored_runs(&[0..1, 2..3, 4..5, 6..9], 4), [0..1, 1..3]);
        assert_eq!(stored_runs(&[0..3, 3..4], 1), [0..3, 3..4]);
    }
}
