//! Grids of sums, from which levels are computed.
//!
//! A voxel of a level is the mean over its box of stored voxels. Coarser levels are computed from
//! the sums of finer ones, so that rounding happens only once, at the end; means of means would be
//! rounded repeatedly. Integers are summed exactly. Floats are summed in the renderer's order
//! within the voxels in memory; the sums of larger boxes are sums of sums, which can differ from
//! the renderer's in the last of 53 bits. For labels, a voxel is the first one of its box.

use voltile_base::geometry::{Xyz, box_length};
use voltile_hdf5::volume::{Samples, Voxel};

/// One sum for each voxel of a box of a level, contiguous in z, y, x order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SumGrid<S> {
    pub size: Xyz<usize>,
    pub sums: Vec<S>,
}

impl<S: Copy + Default> SumGrid<S> {
    pub fn new(size: Xyz<usize>) -> Self {
        Self {
            size,
            sums: vec![S::default(); size.x * size.y * size.z],
        }
    }

    /// Copies another grid into this one from `at` on; what reaches beyond this grid is left out.
    pub fn place(&mut self, other: &SumGrid<S>, at: Xyz<usize>) {
        // The other grid is the box, and this grid the buffer.
        each_row(self.size, at, other.size, |_, to, from, length| {
            self.sums[to..to + length].copy_from_slice(&other.sums[from..from + length]);
        });
    }
}

/// How a box of voxels is reduced to one voxel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SumRule {
    /// The mean of all voxels.
    Mean,
    /// The first voxel.
    First,
}

/// Reduces each box of `step` voxels of a contiguous buffer to one number by the rule. The last box
/// along an axis may contain fewer voxels.
pub(super) fn fold<V: Copy, S: Copy + Default + std::ops::AddAssign>(
    voxels: &[V],
    size: Xyz<usize>,
    step: Xyz<usize>,
    rule: SumRule,
    widen: impl Fn(V) -> S,
) -> SumGrid<S> {
    let mut grid = SumGrid::new(size.zip(step, usize::div_ceil));
    for (number, row) in voxels.chunks_exact(size.x.max(1)).enumerate() {
        let z = number / size.y;
        let y = number % size.y;
        let first = ((z / step.z) * grid.size.y + y / step.y) * grid.size.x;
        let sums = &mut grid.sums[first..first + grid.size.x];
        let boxes = row.chunks(step.x).zip(sums);
        match rule {
            SumRule::Mean => boxes.for_each(|(voxels, sum)| {
                let mut total = *sum;
                voxels.iter().for_each(|voxel| total += widen(*voxel));
                *sum = total;
            }),
            SumRule::First if z.is_multiple_of(step.z) && y.is_multiple_of(step.y) => {
                boxes.for_each(|(voxels, sum)| *sum = widen(voxels[0]));
            }
            SumRule::First => {}
        }
    }
    grid
}

/// The number of stored voxels in each of `count` successive boxes along an axis of `extent`
/// voxels, from the box number `first` on. The last box of the axis may
/// be shorter; boxes beyond the axis count as 1.
pub(super) fn counts(first: u64, count: usize, step: u64, extent: u64) -> Vec<u64> {
    (first..)
        .take(count)
        .map(|number| box_length(number, step, extent))
        .collect()
}

/// Divides the sums in the box at `at` of a grid by their numbers of voxels; returns the means as a
/// chunk padded with 0. A sum's number of voxels is the product of its `counts` along the axes.
pub(super) fn means<T: Voxel>(
    grid: &SumGrid<T::Sum>,
    at: Xyz<usize>,
    chunk: Xyz<usize>,
    counts: &Xyz<Vec<u64>>,
) -> Samples {
    let mut means = vec![T::Mean::default(); chunk.x * chunk.y * chunk.z];
    each_row(grid.size, at, chunk, |[z, y], from, to, length| {
        let rows = counts.z[z] * counts.y[y];
        let sums = grid.sums[from..from + length].iter().zip(&counts.x);
        for ((sum, count), mean) in sums.zip(&mut means[to..to + length]) {
            *mean = T::mean(*sum, rows * count);
        }
    });
    T::Mean::samples(means)
}

/// The box at `at` of a contiguous buffer, as a chunk padded with 0.
pub(super) fn copy<T: Voxel>(
    voxels: &[T],
    size: Xyz<usize>,
    at: Xyz<usize>,
    chunk: Xyz<usize>,
) -> Samples {
    let mut copied = vec![T::default(); chunk.x * chunk.y * chunk.z];
    each_row(size, at, chunk, |_, from, to, length| {
        copied[to..to + length].copy_from_slice(&voxels[from..from + length]);
    });
    T::samples(copied)
}

/// Calls `work` for every row of the box at `at`, clipped to a buffer of `size`, with the row's
/// position in the box (z, y), its offset in the buffer, its offset in the box, and its length.
fn each_row(
    size: Xyz<usize>,
    at: Xyz<usize>,
    box_size: Xyz<usize>,
    mut work: impl FnMut([usize; 2], usize, usize, usize),
) {
    let remaining = size.zip(at, usize::saturating_sub);
    let clipped = remaining.zip(box_size, usize::min);
    for z in 0..clipped.z {
        for y in 0..clipped.y {
            let in_buffer = ((at.z + z) * size.y + at.y + y) * size.x + at.x;
            let in_box = (z * box_size.y + y) * box_size.x;
            work([z, y], in_buffer, in_box, clipped.x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Xyz<usize> = Xyz { x: 5, y: 3, z: 2 };

    fn voxels() -> Vec<u8> {
        (0..30).map(|n| n * 7 % 31).collect()
    }

    #[test]
    fn sums_of_sums_are_sums() {
        let two = Xyz::new(2, 2, 2);
        let fine = fold(&voxels(), SIZE, two, SumRule::Mean, i64::from);
        let coarse = fold(&fine.sums, fine.size, two, SumRule::Mean, |sum| sum);
        let once = fold(&voxels(), SIZE, Xyz::new(4, 4, 4), SumRule::Mean, i64::from);
        assert_eq!(coarse, once);
        let picked = fold(&voxels(), SIZE, two, SumRule::First, i64::from);
        assert_eq!(picked.sums, [0, 14, 28, 8, 22, 5].map(i64::from));
        let again = fold(&picked.sums, picked.size, two, SumRule::First, |sum| sum);
        assert_eq!(
            again,
            fold(
                &voxels(),
                SIZE,
                Xyz::new(4, 4, 4),
                SumRule::First,
                i64::from
            )
        );
    }

    #[test]
    fn means_at_the_edge_are_of_what_is_there_and_chunks_are_filled_up() {
        let grid = fold(&voxels(), SIZE, Xyz::new(2, 2, 1), SumRule::Mean, i64::from);
        let counts = Xyz::new(counts(0, 3, 2, 5), counts(0, 2, 2, 3), counts(0, 2, 1, 2));
        assert_eq!((&counts.x, &counts.y), (&vec![2, 2, 1], &vec![2, 1]));
        let Samples::U8(means) = means::<u8>(&grid, Xyz::all(0), Xyz::new(4, 2, 2), &counts) else {
            panic!()
        };
        // (0 + 7 + 4 + 11) / 4 = 5.5, rounded up; the last of the first row is (28 + 1) / 2, then
        // padding.
        assert_eq!((means[0], means[2], means[3]), (6, 15, 0));
    }

    #[test]
    fn grids_are_placed_as_far_as_they_fit() {
        let mut whole = SumGrid::<i64>::new(Xyz::new(3, 2, 1));
        whole.place(
            &SumGrid {
                size: Xyz::new(2, 2, 1),
                sums: vec![1, 2, 3, 4],
            },
            Xyz::new(2, 1, 0),
        );
        assert_eq!(whole.sums, [0, 0, 0, 0, 0, 1]);
    }
}
