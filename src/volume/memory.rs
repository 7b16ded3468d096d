//! A volume in memory, for tests and benchmarks.

use super::scatter::{Lattice, copy_box};
use super::{Access, ReadError, ReadRequest, Samples, Volume, VolumeShape, VoxelType};
use crate::geometry::Xyz;

/// One time point of voxels, contiguous in z, y, x order.
#[derive(Debug, Clone)]
pub struct MemoryVolume {
    shape: VolumeShape,
    samples: Samples,
}

impl MemoryVolume {
    /// A volume of `size` voxels with values computed by `f`.
    pub fn of<T: super::Voxel>(voxel: VoxelType, size: Xyz<u64>, f: impl Fn(Xyz<u64>) -> T) -> Self {
        let mut voxels = Vec::with_capacity(size.volume() as usize);
        for z in 0..size.z {
            for y in 0..size.y {
                voxels.extend((0..size.x).map(|x| f(Xyz::new(x, y, z))));
            }
        }
        let shape = VolumeShape { voxel, size, times: 1, chunk: Xyz::all(64), access: Access::Copied };
        Self { shape, samples: T::samples(voxels) }
    }
}

impl Volume for MemoryVolume {
    fn shape(&self) -> VolumeShape {
        self.shape
    }

    fn read(&self, request: &ReadRequest, into: &mut Samples) -> Result<(), ReadError> {
        let size = request.size();
        into.reset(self.shape.voxel, size.volume() as usize);
        let from = Lattice::dense(self.shape.size, request.region.start).every(request.step);
        if copy_box(&self.samples, from, into, Lattice::dense(size, Xyz::all(0)), size) {
            Ok(())
        } else {
            let problem = format!("the voxels in memory are not of type {}", self.shape.voxel.name());
            Err(ReadError::Damaged { place: "memory".to_owned(), problem })
        }
    }
}
