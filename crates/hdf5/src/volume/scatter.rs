//! Copies of boxes of voxels between buffers with different axis orders.
//!
//! A stored chunk has up to five axes in any order; a requested region has three: z, y, x. Their
//! overlap is copied from a view of the first buffer to a view of the second; if x is the fastest
//! axis of both, whole rows are copied at once.

use std::hint::black_box;

use ndarray::{ArrayView3, ArrayViewMut3, Axis, ShapeBuilder, s};
use voltile_base::geometry::{Region, Xyz};

use super::samples::{BoxMut, Samples, Voxel, with_box, with_samples};

/// The place of a box in a buffer, in voxels; its axes are z, y and x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strided {
    /// The first voxel.
    pub start: usize,
    /// The number of voxels along each axis.
    pub size: [usize; 3],
    /// The distance between adjacent voxels along each axis.
    pub strides: [usize; 3],
}

impl Strided {
    /// The place of the samples that a sieve picks from a part of a box. `start` and `strides` are
    /// the place of the part in the buffer.
    pub fn picked(start: usize, strides: Xyz<usize>, sieve: &Sieve) -> Self {
        let skipped = zyx(strides.zip(sieve.offset, |stride, offset| stride * offset as usize));
        let strides = strides.zip(sieve.step, |stride, step| stride * step as usize);
        Self {
            start: start + skipped.iter().sum::<usize>(),
            size: zyx(sieve.count.map(|count| count as usize)),
            strides: zyx(strides),
        }
    }

    /// A box of this size (z, y, x) in a buffer of its own.
    pub fn dense(size: [usize; 3]) -> Self {
        let [_, y, x] = size;
        Self {
            start: 0,
            size,
            strides: [y * x, x, 1],
        }
    }

    /// The number of buffer elements from the first to the last voxel of the box, inclusive.
    pub fn span(&self) -> usize {
        let mut last = 0;
        for (size, stride) in self.size.iter().zip(self.strides) {
            last += size.saturating_sub(1) * stride;
        }
        last + 1
    }

    /// The view of the box in a buffer; `None` if the box does not lie in the buffer.
    fn view<T>(self, buffer: &[T]) -> Option<ArrayView3<'_, T>> {
        ArrayView3::from_shape(self.size.strides(self.strides), buffer.get(self.start..)?).ok()
    }
}

fn zyx<T>(Xyz { x, y, z }: Xyz<T>) -> [T; 3] {
    [z, y, x]
}

/// Picks the samples of a box that lie in a part of the box. Samples are the voxels at every
/// `step`-th position of the box along each axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sieve {
    /// The first sample, relative to the start of the part.
    pub offset: Xyz<u64>,
    /// The index of the first sample among all samples of the box.
    pub place: Xyz<u64>,
    /// The number of samples along each axis.
    pub count: Xyz<u64>,
    /// The distance in voxels between adjacent samples along each axis.
    pub step: Xyz<u64>,
}

impl Sieve {
    /// Picks the samples of `region` that lie in `part`, which must be inside the region; `None` if
    /// there are none.
    ///
    /// For example, along one axis, every third voxel of a region that begins at 10: the part
    /// 14..20 has the samples 16 and 19, which are the samples 2 and 3 of the region. So `offset`,
    /// `place` and `count` are 2.
    pub fn new(part: &Region, region: &Region, step: Xyz<u64>) -> Option<Self> {
        let before = part.start.zip(region.start, u64::saturating_sub);
        let place = before.zip(step, u64::div_ceil);
        let offset = place
            .zip(step, u64::saturating_mul)
            .zip(before, u64::saturating_sub);
        let count = part
            .size
            .zip(offset, u64::saturating_sub)
            .zip(step, u64::div_ceil);
        (count.volume() > 0).then_some(Self {
            offset,
            place,
            count,
            step,
        })
    }
}

impl BoxMut<'_> {
    /// The box of `size` voxels at a place in this box.
    pub fn part(&mut self, place: Xyz<u64>, size: Xyz<u64>) -> BoxMut<'_> {
        let Xyz { x, y, z } = place.zip(size, |at, count| at as usize..(at + count) as usize);
        with_box!(self, all => Voxel::boxed(all.slice_mut(s![z, y, x])))
    }

    /// Fills the box with zeros.
    pub(super) fn clear(&mut self) {
        with_box!(self, into => into.fill(Default::default()));
    }

    /// Fills the box with the first voxel of `value`. Returns `false` and fills nothing if `value`
    /// is empty or of another type.
    #[must_use]
    pub(super) fn fill(&mut self, value: &Samples) -> bool {
        with_box!(self, into => match Voxel::slice(value) {
            Some([first, ..]) => {
                into.fill(*first);
                true
            }
            _ => false,
        })
    }

    /// Copies a box from a buffer of the same type. Returns `false` and copies nothing if the
    /// buffer has another type or no such box.
    #[must_use]
    pub(super) fn copy(self, from: &Samples, at: Strided) -> bool {
        with_box!(self, into => match Voxel::slice(from).and_then(|from| at.view(from)) {
            Some(from) => copy(&from, into, |voxel| *voxel),
            None => false,
        })
    }

    /// Copies a box from the memory of voxels of the same type, in native byte order.
    #[must_use]
    pub(super) fn copy_bytes(self, from: &[u8], at: Strided) -> bool {
        with_box!(self, into => copy_bytes(from, at, into))
    }
}

/// Reads the start of every row (along x) of a box before it is copied, with no other work in
/// between, so that cache misses overlap.
pub(super) fn touch_box(from: &Samples, at: Strided) {
    with_samples!(from, voxels => {
        if let Some(view) = at.view(voxels) {
            for row in view.rows() {
                black_box(row.first().copied());
            }
        }
    });
}

/// A box of elements of `WIDTH` bytes, contiguously in z, y, x order; empty if the box does not lie
/// in the buffer.
pub(super) fn gathered<const WIDTH: usize>(from: &[u8], at: Strided) -> Vec<u8> {
    let (elements, _) = from.as_chunks::<WIDTH>();
    let Some(view) = at.view(elements) else {
        return Vec::new();
    };
    let (gathered, _) = view
        .as_standard_layout()
        .into_owned()
        .into_raw_vec_and_offset();
    gathered.into_flattened()
}

fn copy_bytes<T: Voxel>(from: &[u8], at: Strided, into: ArrayViewMut3<'_, T>) -> bool {
    let Ok(elements) = bytemuck::try_cast_slice::<u8, T::Bytes>(from) else {
        return false;
    };
    at.view(elements)
        .is_some_and(|view| copy(&view, into, |bytes| bytemuck::cast(*bytes)))
}

/// Copies a box, converting each element by `voxel`. Returns `false` and copies nothing if the
/// boxes differ in size.
fn copy<F, T>(
    from: &ArrayView3<'_, F>,
    into: ArrayViewMut3<'_, T>,
    voxel: impl Fn(&F) -> T,
) -> bool {
    if from.shape() != into.shape() {
        return false;
    }
    // The inner loops run along the last axes: axes along which the box is one voxel wide come
    // first.
    let mut axes = [0, 1, 2];
    axes.sort_by_key(|axis| into.len_of(Axis(*axis)) > 1);
    let from = from.view().permuted_axes(axes);
    let mut into = into.permuted_axes(axes);
    // Not `zip_mut_with`, whose work for each row takes longer than the copy of a short row.
    for (from, mut into) in from.rows().into_iter().zip(into.rows_mut()) {
        // Rows without gaps are copied as slices, which is faster.
        match (from.to_slice(), into.as_slice_mut()) {
            (Some(from), Some(into)) => {
                into.iter_mut()
                    .zip(from)
                    .for_each(|(into, from)| *into = voxel(from));
            }
            _ => into
                .iter_mut()
                .zip(from)
                .for_each(|(into, from)| *into = voxel(from)),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_chunk_lands_in_order() {
        // Stored as x, z, y: 2 × 1 × 3, so that y is fastest.
        let stored = Samples::U16(vec![0, 10, 20, 1, 11, 21]);
        let from = Strided {
            start: 0,
            size: [1, 3, 2],
            strides: [3, 1, 3],
        };
        let mut into = Samples::U16(vec![99; 8]);
        let mut all = into.as_box(Xyz::new(2, 4, 1)).unwrap();
        assert!(
            all.part(Xyz::new(0, 1, 0), Xyz::new(2, 3, 1))
                .copy(&stored, from)
        );
        assert_eq!(into, Samples::U16(vec![99, 99, 0, 1, 10, 11, 20, 21]));
    }

    #[test]
    fn a_box_is_filled_with_one_value() {
        let mut into = Samples::I8(vec![0; 4]);
        let mut all = into.as_box(Xyz::new(2, 2, 1)).unwrap();
        let mut right = all.part(Xyz::new(1, 0, 0), Xyz::new(1, 2, 1));
        assert!(right.fill(&Samples::I8(vec![-7])));
        assert!(!right.fill(&Samples::U8(vec![1])));
        assert_eq!(into, Samples::I8(vec![0, -7, 0, -7]));
    }
}
