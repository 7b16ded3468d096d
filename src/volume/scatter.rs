//! Strided copies of voxel boxes between buffers with different axis orders.
//!
//! A stored chunk has up to five axes in any order; a requested region has three: z, y, x. Their overlap is
//! copied by strides; if x is the fastest axis of both, whole rows are copied at once.

use std::hint::black_box;

use super::samples::{Samples, with_samples};
use super::{BLOCK_BYTES, ReadError, ReadRequest, VolumeShape};
use crate::geometry::{Axis, Region, Xyz};

/// The strided layout of a box in a buffer: the index of its first voxel and the stride along each axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lattice {
    pub start: usize,
    /// The distance between adjacent voxels along each axis, in voxels.
    pub step: Xyz<usize>,
}

impl Lattice {
    /// The layout of a box at `start` in a contiguous z, y, x buffer of `size` voxels.
    pub fn dense(size: Xyz<u64>, start: Xyz<u64>) -> Self {
        let step = Xyz::new(1, size.x as usize, (size.x * size.y) as usize);
        let offsets = start.zip(step, |at, step| at as usize * step);
        Self { start: offsets.x + offsets.y + offsets.z, step }
    }

    /// Every `step`-th voxel, starting with the first.
    pub fn every(self, step: Xyz<u64>) -> Self {
        Self { step: self.step.zip(step, |own, step| own * step as usize), ..self }
    }

    /// The same layout, starting `offset` voxels later.
    pub fn from(self, offset: Xyz<u64>) -> Self {
        let Xyz { x, y, z } = self.step.zip(offset, |step, offset| step * offset as usize);
        Self { start: self.start + x + y + z, ..self }
    }

    /// The number of buffer elements from the first to the last voxel of a box of `size` voxels, inclusive.
    pub fn span(&self, size: Xyz<u64>) -> usize {
        let Xyz { x, y, z } = size.zip(self.step, |n, step| n.saturating_sub(1) as usize * step);
        x + y + z + 1
    }
}

/// The samples of a box, taken every `step` voxels, that lie in a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sieve {
    /// The first of them, relative to the start of the part.
    pub offset: Xyz<u64>,
    /// Its index among all samples of the box.
    pub place: Xyz<u64>,
    /// The number of samples along each axis.
    pub count: Xyz<u64>,
}

impl Sieve {
    /// `None` if the part, which must be inside the region, contains no sample.
    pub fn of(part: &Region, region: &Region, step: Xyz<u64>) -> Option<Self> {
        let before = part.start.zip(region.start, u64::saturating_sub);
        let place = before.zip(step, u64::div_ceil);
        let offset = place.zip(step, u64::saturating_mul).zip(before, u64::saturating_sub);
        let count = part.size.zip(offset, u64::saturating_sub).zip(step, u64::div_ceil);
        (count.volume() > 0).then_some(Self { offset, place, count })
    }
}

/// Reads every `step`-th voxel of a box by reading all of them, block by block, with `read`.
pub(super) fn thinned(
    shape: VolumeShape,
    request: &ReadRequest,
    into: &mut Samples,
    mut read: impl FnMut(&Region, &mut Samples) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let (region, step, size) = (&request.region, request.step, request.size());
    into.reset(shape.voxel, size.volume() as usize);
    let mut block = Samples::default();
    for part in region.blocks(shape.chunk, BLOCK_BYTES / into.voxel_bytes() as u64) {
        let Some(sieve) = Sieve::of(&part, region, step) else { continue };
        read(&part, &mut block)?;
        let from = Lattice::dense(part.size, sieve.offset).every(step);
        if !copy_box(&block, from, into, Lattice::dense(size, sieve.place), sieve.count) {
            let problem = format!("voxels were read as another type than {}", shape.voxel.name());
            return Err(ReadError::Damaged { place: "a volume".to_owned(), problem });
        }
    }
    Ok(())
}

/// Copies a box of `size` voxels. Returns `false` and copies nothing if the buffers differ in type.
#[must_use]
pub(super) fn copy_box(
    from: &Samples,
    from_at: Lattice,
    into: &mut Samples,
    into_at: Lattice,
    size: Xyz<u64>,
) -> bool {
    let size = size.map(|n| n as usize);
    macro_rules! pairs {
        ($($variant:ident)*) => {
            match (from, into) {
                $((Samples::$variant(from), Samples::$variant(into)) => {
                    copy(from, from_at, into, into_at, size);
                    true
                })*
                _ => false,
            }
        };
    }
    pairs!(U8 I8 U16 I16 U32 I32 U64 I64 F32 F64)
}

/// Reads the start of every row (along x) of a box before it is copied, with no other work in between, so
/// that cache misses overlap.
pub(super) fn touch_box(from: &Samples, at: Lattice, size: Xyz<u64>) {
    let size = size.map(|n| n as usize);
    with_samples!(from, voxels => {
        for z in 0..size.z {
            for y in 0..size.y {
                black_box(voxels.get(at.start + z * at.step.z + y * at.step.y).copied());
            }
        }
    });
}

/// Fills a box of `size` voxels with the first voxel of `value`. Returns `false` and fills nothing if `value` is
/// empty or of another type.
#[must_use]
pub(super) fn fill_box(value: &Samples, into: &mut Samples, into_at: Lattice, size: Xyz<u64>) -> bool {
    let still = Lattice { start: 0, step: Xyz::all(0) };
    !value.is_empty() && copy_box(value, still, into, into_at, size)
}

/// Copies a box of elements of `WIDTH` bytes, of any type.
pub(super) fn copy_elements<const WIDTH: usize>(
    from: &[u8],
    from_at: Lattice,
    into: &mut [u8],
    into_at: Lattice,
    size: Xyz<u64>,
) {
    let (from, into) = (from.as_chunks::<WIDTH>().0, into.as_chunks_mut::<WIDTH>().0);
    copy(from, from_at, into, into_at, size.map(|n| n as usize));
}

fn copy<T: Copy>(from: &[T], from_at: Lattice, into: &mut [T], into_at: Lattice, size: Xyz<usize>) {
    // The innermost loop runs along the axis of `into` with the smallest stride: a plane may be one voxel
    // wide along x.
    let mut axes =
        [Axis::Z, Axis::Y, Axis::X].map(|axis| (size[axis], from_at.step[axis], into_at.step[axis]));
    axes.sort_by_key(|(count, _, step)| std::cmp::Reverse(if *count > 1 { *step } else { usize::MAX }));
    let [outer, middle, inner] = axes;
    for i in 0..outer.0 {
        for j in 0..middle.0 {
            let source = from_at.start + i * outer.1 + j * middle.1;
            let target = into_at.start + i * outer.2 + j * middle.2;
            copy_row(&from[source..], inner.1, &mut into[target..], inner.2, inner.0);
        }
    }
}

fn copy_row<T: Copy>(from: &[T], from_step: usize, into: &mut [T], into_step: usize, count: usize) {
    match (from_step, into_step) {
        (1, 1) => into[..count].copy_from_slice(&from[..count]),
        (0, 1) => into[..count].fill(from[0]),
        (_, 1) => {
            for (i, place) in into[..count].iter_mut().enumerate() {
                *place = from[i * from_step];
            }
        }
        _ => {
            for i in 0..count {
                into[i * into_step] = from[i * from_step];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_chunk_lands_in_order() {
        // Stored as x, z, y: 2 × 1 × 3, so that y is fastest.
        let stored = Samples::U16(vec![0, 10, 20, 1, 11, 21]);
        let from = Lattice { start: 0, step: Xyz::new(3, 1, 3) };
        let mut into = Samples::U16(vec![99; 8]);
        let at = Lattice::dense(Xyz::new(2, 4, 1), Xyz::new(0, 1, 0));
        assert!(copy_box(&stored, from, &mut into, at, Xyz::new(2, 3, 1)));
        assert_eq!(into, Samples::U16(vec![99, 99, 0, 1, 10, 11, 20, 21]));
    }

    #[test]
    fn a_box_is_filled_with_one_value() {
        let mut into = Samples::I8(vec![0; 4]);
        let at = Lattice::dense(Xyz::new(2, 2, 1), Xyz::new(1, 0, 0));
        assert!(fill_box(&Samples::I8(vec![-7]), &mut into, at, Xyz::new(1, 2, 1)));
        assert_eq!(into, Samples::I8(vec![0, -7, 0, -7]));
        assert!(!fill_box(&Samples::U8(vec![1]), &mut into, at, Xyz::new(1, 2, 1)));
    }
}
