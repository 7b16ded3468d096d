//! A volume in memory, for tests and benchmarks.

use voltile_base::geometry::Xyz;

use super::scatter::{Sieve, Strided};
use super::{
    Access, BoxMut, ReadError, ReadRequest, Samples, Volume, VolumeShape, Voxel, VoxelType,
};

/// One time point of voxels, contiguous in z, y, x order.
#[derive(Debug, Clone)]
pub struct MemoryVolume {
    shape: VolumeShape,
    samples: Samples,
}

impl MemoryVolume {
    /// A volume of `size` voxels with values computed from their positions.
    pub fn of<T: Voxel>(voxel: VoxelType, size: Xyz<u64>, value: impl Fn(Xyz<u64>) -> T) -> Self {
        let mut voxels = Vec::with_capacity(size.volume() as usize);
        for z in 0..size.z {
            for y in 0..size.y {
                voxels.extend((0..size.x).map(|x| value(Xyz::new(x, y, z))));
            }
        }
        let shape = VolumeShape {
            voxel,
            size,
            times: 1,
            present: None,
            chunk: Xyz::all(64),
            access: Access::Direct,
            is_remote: false,
            coding: Err("it is not stored in chunks".to_owned()),
            fill: None,
        };
        Self {
            shape,
            samples: T::samples(voxels),
        }
    }
}

impl Volume for MemoryVolume {
    fn shape(&self) -> &VolumeShape {
        &self.shape
    }

    fn read_box(&self, request: &ReadRequest, into: BoxMut<'_>) -> Result<(), ReadError> {
        let Xyz { x, y, .. } = self.shape.size.map(|extent| extent as usize);
        let strides = Xyz::new(1, x, x * y);
        let sieve = Sieve {
            offset: request.region.start,
            place: Xyz::all(0),
            count: request.size(),
            step: request.step,
        };
        let at = Strided::picked(0, strides, &sieve);
        ReadError::ensure_copied(into.copy(&self.samples, at), "a volume in memory")
    }
}
