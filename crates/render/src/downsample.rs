//! Downsampling on the fly: means over boxes of stored voxels.
//!
//! Blocks of stored voxels may arrive in any order, with any boundaries: sums are kept for the
//! whole patch, and divided at the end by the number of voxels in each box, which is smaller at the
//! volume's edge. Voxels that stand for missing data are not added, but counted for each box; the
//! counts are allocated when the first one is found, because most volumes have none.

use bytemuck::cast_slice_mut;
use voltile_base::geometry::{Axis, LevelView, Patch, Region, RowRun, box_length};
use voltile_base::simd::multiversion;
use voltile_hdf5::volume::{Missing, Samples, Voxel};

/// Memory for sums of any type; reused, because touching new memory costs more than the additions.
pub(super) type SumBuffer = Vec<u128>;

/// Running sums, one for each column of each distinct row of a patch.
pub(super) struct Means<'a, T: Voxel> {
    sums: &'a mut [T::Sum],
    view: LevelView,
    patch: &'a Patch,
    missing: &'a Missing,
    /// The number of missing voxels left out of each sum; empty if there are none.
    left_out: Vec<u64>,
}

impl<'a, T: Voxel> Means<'a, T> {
    /// Starts with sums of zero; `_typed` only gives the voxel type.
    pub fn new(
        _typed: &[T],
        view: LevelView,
        patch: &'a Patch,
        missing: &'a Missing,
        buffer: &'a mut SumBuffer,
    ) -> Self {
        let count = patch.width() * patch.height();
        let bytes = count * size_of::<T::Sum>();
        buffer.resize(bytes.div_ceil(size_of::<u128>()), 0);
        let sums = cast_slice_mut::<u8, T::Sum>(&mut cast_slice_mut(buffer)[..bytes]);
        sums.fill(T::Sum::default());
        Self {
            sums,
            view,
            patch,
            missing,
            left_out: Vec::new(),
        }
    }

    /// Adds a block of stored voxels, contiguous in z, y, x order, that belongs to a run of rows;
    /// voxels in `gaps` are missing.
    pub fn add(&mut self, block: &Samples, region: &Region, run: &RowRun, gaps: &[Region]) {
        if let Some(voxels) = T::slice(block) {
            self.add_voxels(voxels, region, run, &region.covered_by(gaps));
        }
    }

    /// Adds the voxels of a block. `is_gap` says of each voxel whether it is missing; it is empty
    /// if none is.
    pub fn add_voxels(&mut self, voxels: &[T], region: &Region, run: &RowRun, is_gap: &[bool]) {
        let width = self.patch.width();
        let plane = self.patch.plane();
        let first_column = self.patch.region(run).start[plane.column_axis()];
        let line = Line::new(region, &self.view, plane.column_axis(), first_column);
        for (number, voxels) in voxels.chunks_exact(line.length).enumerate() {
            let row = self.row(line.row_position(number as u64, region, plane.row_axis()));
            let row_start = ((row - run.rows.start) as usize + run.first) * width;
            let sums = &mut self.sums[row_start..][..width];
            let is_gap = is_gap.get(number * line.length..).unwrap_or_default();
            if !is_gap.is_empty() || self.missing.has_any(voxels) {
                self.left_out.resize(width * self.patch.height(), 0);
                let left_out = &mut self.left_out[row_start..][..width];
                add_present(voxels, is_gap, &line, self.missing, sums, left_out);
            } else {
                add_line(voxels, &line, sums);
            }
        }
    }

    /// The row of the level that the stored row at `position` belongs to.
    fn row(&self, position: u64) -> u64 {
        position / self.view.downsample[self.patch.plane().row_axis()]
    }

    /// Divides every sum by the number of its voxels that are not missing; a mean of no voxels is
    /// the fill value. Returns the indices of the means of no voxels.
    pub fn finish(self, field: &mut Samples) -> Vec<usize> {
        let plane = self.patch.plane();
        let columns = plane.column_axis();
        let width = self.patch.width();
        let last = width - 1;
        let all_means = slice_to_fill::<T::Mean>(field, self.sums.len());
        let mut row_starts = (0..self.sums.len()).step_by(width);
        let mut empty = Vec::new();
        for run in self.patch.runs() {
            let region = self.patch.region(run);
            let downsample = self.view.downsample;
            let stored = self.view.stored_size;
            // The extent of the boxes at an offset from the run's first voxel, in stored voxels.
            let extent = |axis: Axis, offset: u64| {
                box_length(region.start[axis] + offset, downsample[axis], stored[axis])
            };
            for (row, row_start) in (0..region.size[plane.row_axis()]).zip(&mut row_starts) {
                let sums = &self.sums[row_start..][..width];
                let means = &mut all_means[row_start..][..width];
                // The voxels of a box at one position along the column axis.
                let section = extent(plane.row_axis(), row) * extent(plane.slice_axis(), 0);
                let count = section * downsample[columns];
                // Only the last column can have partial boxes.
                let last_count = section * extent(columns, last as u64);
                divide::<T>(&sums[..last], count, &mut means[..last]);
                divide::<T>(&sums[last..], last_count, &mut means[last..]);
                // Means are computed again where voxels were left out.
                let left_out = self.left_out.get(row_start..).unwrap_or_default();
                for (column, left_out) in left_out.iter().take(width).enumerate() {
                    if *left_out == 0 {
                        continue;
                    }
                    let count = section * extent(columns, column as u64) - left_out;
                    if count > 0 {
                        means[column] = T::mean(sums[column], count);
                    } else {
                        means[column] = self.missing.fill();
                        empty.push(row_start + column);
                    }
                }
            }
        }
        empty
    }
}

/// A slice of `count` voxels of type `T` to overwrite; reuses the memory if type and length match.
fn slice_to_fill<T: Voxel>(samples: &mut Samples, count: usize) -> &mut [T] {
    if T::slice(samples).is_none_or(|voxels| voxels.len() != count) {
        *samples = T::samples(vec![T::default(); count]);
    }
    T::slice_mut(samples).unwrap_or_default()
}

/// How a block is cut into lines: consecutive voxels that belong to one row of a patch. If columns
/// advance along x, a line is a row of voxels; if along y, a whole z section of the block.
struct Line {
    /// The number of voxels in a line.
    length: usize,
    /// The number of a line's first voxel, counted from the beginning of the patch's first column.
    start: u64,
    /// The number of voxels of a line per column of the patch.
    per_column: u64,
    /// Whether a line is a whole section.
    is_section: bool,
}

impl Line {
    fn new(region: &Region, view: &LevelView, columns: Axis, first_column: u64) -> Self {
        let is_section = columns != Axis::X;
        // The voxels of a line at one position along the column axis.
        let thickness = if is_section { region.size.x } else { 1 };
        let per_column = view.downsample[columns] * thickness;
        Self {
            length: (region.size[columns] * thickness) as usize,
            start: region.start[columns] * thickness - first_column * per_column,
            per_column,
            is_section,
        }
    }

    /// The position of the block's `number`-th line along the row axis. Lines follow each other
    /// along y, then z; sections only along z.
    fn row_position(&self, number: u64, region: &Region, rows: Axis) -> u64 {
        let offset = match rows {
            Axis::Y => number % region.size.y,
            _ if self.is_section => number,
            _ => number / region.size.y,
        };
        region.start[rows] + offset
    }
}

/// Adds the voxels of a line to the sums of its columns.
fn add_line<T: Voxel>(voxels: &[T], line: &Line, sums: &mut [T::Sum]) {
    let per_column = line.per_column;
    let mut sums = &mut sums[(line.start / per_column) as usize..];
    // The line may begin within a column, whose first voxels are in another block.
    let to_next_column = (per_column - line.start % per_column) % per_column;
    let (head, rest) = voxels.split_at(to_next_column.min(voxels.len() as u64) as usize);
    if !head.is_empty() {
        add_box(head, &mut sums[0]);
        sums = &mut sums[1..];
    }
    match per_column {
        2 => add_boxes::<T, 2>(rest, sums),
        4 => add_boxes::<T, 4>(rest, sums),
        8 => add_boxes::<T, 8>(rest, sums),
        16 => add_boxes::<T, 16>(rest, sums),
        _ => rest
            .chunks(per_column as usize)
            .zip(sums)
            .for_each(|(voxels, sum)| add_box(voxels, sum)),
    }
}

/// Adds the voxels of a line that are not missing to the sums of its columns, and counts the
/// missing ones.
fn add_present<T: Voxel>(
    voxels: &[T],
    is_gap: &[bool],
    line: &Line,
    missing: &Missing,
    sums: &mut [T::Sum],
    left_out: &mut [u64],
) {
    let is_gap = is_gap.iter().copied().chain(std::iter::repeat(false));
    for ((number, voxel), is_gap) in (line.start..).zip(voxels).zip(is_gap) {
        let column = (number / line.per_column) as usize;
        if is_gap || missing.has(*voxel) {
            left_out[column] += 1;
        } else {
            T::add(std::slice::from_ref(voxel), &mut sums[column]);
        }
    }
}

multiversion! {
    /// Adds boxes of `BOX` voxels to their sums. `BOX` is a constant so that the compiler
    /// vectorises the loop.
    [T: Voxel, const BOX: usize] [T, BOX]
    fn add_boxes(line: &[T], sums: &mut [T::Sum]) {
        let (boxes, rest) = line.as_chunks::<BOX>();
        boxes.iter().zip(sums.iter_mut()).for_each(|(voxels, sum)| T::add(voxels, sum));
        if let Some(sum) = sums.get_mut(boxes.len()) {
            T::add(rest, sum);
        }
    }
}

/// Adds the voxels of one box, or of a part of it.
fn add_box<T: Voxel>(voxels: &[T], sum: &mut T::Sum) {
    voxels
        .chunks(T::MAX_ADDED)
        .for_each(|voxels| T::add(voxels, sum));
}

multiversion! {
    /// The means of boxes of `count` voxels. Only boxes at the edge can need a division: other
    /// counts are powers of two.
    [T: Voxel] [T]
    fn divide(sums: &[T::Sum], count: u64, means: &mut [T::Mean]) {
        let pairs = sums.iter().zip(means);
        if count.is_power_of_two() {
            pairs.for_each(|(sum, mean)| *mean = T::mean_of_power(*sum, count.ilog2()));
        } else {
            pairs.for_each(|(sum, mean)| *mean = T::mean(*sum, count));
        }
    }
}
