//! Slabs: the voxels of several slices become one, along the normal of the plane.
//!
//! A slab is read in parts that end where chunks do, all slices of a part before the next part, so
//! that a chunk is decoded once. The rows of a part are still in the processor's cache when they
//! are reduced. Parts and sections are read last to first: a chunk is decoded only up to the last
//! voxel wanted, so its first read decodes all that later reads want of it.

use voltile_base::geometry::{Patch, Region, Xyz};
use voltile_base::paint::{Number, Projection};
use voltile_base::simd::multiversion;
use voltile_hdf5::volume::{
    BLOCK_BYTES, ReadError, ReadPolicy, ReadRequest, Samples, Voxel, with_samples,
};

use super::mask::MissingMask;
use super::slice::{self, LevelBuffers, gaps};
use crate::plan::Source;

/// Reduces a column of voxels along the normal to one value.
trait Reduction<T: Voxel> {
    /// The state of a column after some of its voxels.
    type State: Copy;
    /// The type of the result.
    type Value: Voxel;

    /// The state before the first voxel.
    fn start() -> Self::State;
    /// Adds a voxel, which is not NaN.
    fn add(state: &mut Self::State, voxel: T);
    /// The value of a column of `count` voxels.
    fn value(state: Self::State, count: u64) -> Self::Value;
}

/// The greatest voxel of a column if `IS_GREATEST`, otherwise the least.
struct Extreme<const IS_GREATEST: bool>;
type Greatest = Extreme<true>;
type Least = Extreme<false>;
struct Average;

impl<T: Voxel, const IS_GREATEST: bool> Reduction<T> for Extreme<IS_GREATEST> {
    type State = T;
    type Value = T;

    fn start() -> T {
        // Below or above all voxels: the least or the greatest number of the type.
        let sign = if IS_GREATEST { -1.0 } else { 1.0 };
        T::nearest(Number::Real(sign * f64::INFINITY))
    }
    #[inline(always)]
    fn add(state: &mut T, voxel: T) {
        let is_beyond = if IS_GREATEST {
            voxel > *state
        } else {
            voxel < *state
        };
        *state = if is_beyond { voxel } else { *state };
    }
    fn value(state: T, _count: u64) -> T {
        state
    }
}

impl<T: Voxel> Reduction<T> for Average {
    type State = T::Sum;
    type Value = f64;

    fn start() -> T::Sum {
        T::Sum::default()
    }
    #[inline(always)]
    fn add(state: &mut T::Sum, voxel: T) {
        *state += voxel.widen();
    }
    fn value(state: T::Sum, count: u64) -> f64 {
        T::real_mean(state, count)
    }
}

/// Fills the field with the patch's intensities: `height` × `width`, means over boxes if the level
/// is derived. The slices of a slab are projected, without voxels that stand for missing data; the
/// mean of slices is in 64-bit floats.
///
/// Returns which voxels of the field stand for missing data.
pub(super) fn read_intensities<'a>(
    source: &'a Source,
    patch: &Patch,
    wants_gaps: bool,
    policy: &ReadPolicy,
    buffers: &mut LevelBuffers,
) -> Result<MissingMask<'a>, ReadError> {
    let Some(projection) = source.projection else {
        return slice::read_intensities(source, patch, wants_gaps, policy, buffers);
    };
    let slab = SlabReader {
        source,
        patch,
        wants_gaps,
        policy,
    };
    // No samples: they only give the type of the level's voxels.
    let mut empty = source.volume.shape().voxel.samples();
    if !source.view.is_stored() {
        empty = empty.of_means();
    }
    with_samples!(&empty, typed => match projection {
        Projection::Max => slab.project::<_, Greatest>(typed, buffers),
        Projection::Min => slab.project::<_, Least>(typed, buffers),
        Projection::Mean => slab.project::<_, Average>(typed, buffers),
    })
}

/// A slab, and how it is read.
struct SlabReader<'a, 'p> {
    source: &'a Source,
    patch: &'p Patch,
    wants_gaps: bool,
    policy: &'p ReadPolicy,
}

impl<'a> SlabReader<'a, '_> {
    /// Fills the field with the projection. `_typed` only gives the type of the level's voxels.
    fn project<T: Voxel, R: Reduction<T>>(
        &self,
        _typed: &[T],
        buffers: &mut LevelBuffers,
    ) -> Result<MissingMask<'a>, ReadError> {
        let Source { view, volume, .. } = self.source;
        let mut columns = Columns::<T, R>::new(self.patch);
        for run in self.patch.runs() {
            let region = self.patch.region(run);
            let first = run.first * self.patch.width();
            let parts: Vec<Region> =
                slice::parts(&region, view, volume.shape(), BLOCK_BYTES).collect();
            for part in parts.into_iter().rev() {
                if view.is_stored() {
                    self.read_stored(&part, buffers)?;
                    columns.add(&buffers.block, &buffers.opacity, &part, &region, first);
                    continue;
                }
                for z in (part.start.z..part.end().z).rev() {
                    let section = Patch::section(z, &part);
                    self.read_derived(&section, buffers)?;
                    for rows in section.runs() {
                        let place = section.region(rows);
                        columns.add(&buffers.field, &buffers.opacity, &place, &region, first);
                    }
                }
            }
        }
        let places = columns.finish(&mut buffers.field);
        Ok(MissingMask {
            values: None,
            places,
        })
    }

    /// Reads a part of a stored level into the block, and its opacity.
    fn read_stored(&self, part: &Region, buffers: &mut LevelBuffers) -> Result<(), ReadError> {
        let request = ReadRequest::new(self.source.time, *part).with(self.policy);
        self.source.volume.read(&request, &mut buffers.block)?;
        let is_gap = part.covered_by(&gaps(self.source, part, self.wants_gaps));
        let mask = MissingMask {
            values: Some(&self.source.missing),
            places: (0..is_gap.len()).filter(|place| is_gap[*place]).collect(),
        };
        mask.opacity(&buffers.block, &mut buffers.opacity);
        Ok(())
    }

    /// Fills the field with a section of a derived level, and its opacity.
    fn read_derived(&self, section: &Patch, buffers: &mut LevelBuffers) -> Result<(), ReadError> {
        let mask =
            slice::read_intensities(self.source, section, self.wants_gaps, self.policy, buffers)?;
        mask.opacity(&buffers.field, &mut buffers.opacity);
        Ok(())
    }
}

/// The columns of voxels along the normal: one for each column of each distinct row of a patch.
struct Columns<'p, T: Voxel, R: Reduction<T>> {
    patch: &'p Patch,
    states: Vec<R::State>,
    /// The number of missing voxels in each column; empty if there are none.
    left_out: Vec<u64>,
}

impl<'p, T: Voxel, R: Reduction<T>> Columns<'p, T, R> {
    fn new(patch: &'p Patch) -> Self {
        Self {
            patch,
            states: vec![R::start(); patch.width() * patch.height()],
            left_out: Vec::new(),
        }
    }

    /// Adds the voxels of a part of a run of rows, contiguous in z, y, x order; voxels whose
    /// opacity is 0 are missing. `part` and `run` are the boxes of the part and of the whole run,
    /// and `first` is the index of the run's first column.
    fn add(&mut self, data: &Samples, opacity: &[u8], part: &Region, run: &Region, first: usize) {
        let Some(voxels) = T::slice(data) else { return };
        // The distance between the columns of adjacent voxels along each axis. Along the normal of
        // the plane the column stays the same.
        let step = self.patch.plane().place(0, self.patch.width(), 1);
        let offset = part.start.zip(run.start, |own, all| (own - all) as usize);
        let first = first + offset.x * step.x + offset.y * step.y + offset.z * step.z;
        let size = part.size.map(|extent| extent as usize);
        if opacity.is_empty() {
            return reduce::<T, R>(voxels, size, step, &mut self.states[first..]);
        }
        self.left_out.resize(self.states.len(), 0);
        for (number, (voxel, opacity)) in voxels.iter().zip(opacity).enumerate() {
            let x = number % size.x;
            let y = number / size.x % size.y;
            let z = number / size.x / size.y;
            let column = first + x * step.x + y * step.y + z * step.z;
            if *opacity == 0 {
                self.left_out[column] += 1;
            } else {
                R::add(&mut self.states[column], *voxel);
            }
        }
    }

    /// Fills the field with the value of each column; returns the indices of columns in which all
    /// voxels are missing.
    fn finish(self, field: &mut Samples) -> Vec<usize> {
        let depth = self.patch.depth();
        let left_out = &self.left_out;
        let count = |place: usize| depth - left_out.get(place).copied().unwrap_or(0);
        let states = self.states.iter().enumerate();
        let values = states.map(|(place, state)| R::value(*state, count(place)));
        *field = R::Value::samples(values.collect());
        (0..left_out.len())
            .filter(|place| count(*place) == 0)
            .collect()
    }
}

multiversion! {
    /// Adds the voxels of a box of this size to the columns; `step` is the distance between the
    /// columns of adjacent voxels along each axis.
    [T: Voxel, R: Reduction<T>] [T, R]
    fn reduce(voxels: &[T], size: Xyz<usize>, step: Xyz<usize>, columns: &mut [R::State]) {
        for (number, row) in voxels.chunks_exact(size.x).enumerate() {
            let (y, z) = (number % size.y, number / size.y);
            let columns = &mut columns[y * step.y + z * step.z..];
            if step.x == 0 {
                // The row runs along the normal: all of its voxels are in one column.
                let mut state = columns[0];
                row.iter().for_each(|voxel| R::add(&mut state, *voxel));
                columns[0] = state;
            } else {
                columns.iter_mut().zip(row).for_each(|(state, voxel)| R::add(state, *voxel));
            }
        }
    }
}
