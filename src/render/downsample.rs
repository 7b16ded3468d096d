//! Levels made on the fly: means and picks over boxes of stored voxels.
//!
//! Blocks of stored voxels arrive in any order and any cut; sums are kept for the whole patch and divided at the end,
//! by the number of voxels that each box really holds at the edge.

use crate::geometry::{Axis, LevelView, Patch, Region, RowRun, held};
use crate::volume::{Samples, Voxel};

/// Means in the making: one sum for each distinct row and column of a patch.
pub(super) struct Means<'a, T: Voxel> {
    sums: Vec<T::Sum>,
    view: LevelView,
    patch: &'a Patch,
}

impl<'a, T: Voxel> Means<'a, T> {
    /// Sums of nothing; `_typed` only names the type of the voxels to come.
    pub fn new(_typed: Vec<T>, view: LevelView, patch: &'a Patch) -> Self {
        Self { sums: vec![T::Sum::default(); patch.width() * patch.height()], view, patch }
    }

    /// Adds a block of stored voxels, dense in z, y, x order, that belongs to a run of rows.
    pub fn add(&mut self, block: &Samples, region: &Region, run: &RowRun) {
        let Some(voxels) = T::slice(block) else { return };
        let (width, columns) = (self.patch.width(), self.patch.plane().column_axis());
        let first = self.patch.region(run).start[columns];
        for (row, line, y) in lines(voxels, region, run, &self.view, self.patch) {
            let sums = &mut self.sums[row * width..][..width];
            if columns == Axis::X {
                add_line(line, region.start.x, self.view.boxed.x, first, sums);
            } else {
                let sum = &mut sums[(y / self.view.boxed.y - first) as usize];
                line.iter().for_each(|voxel| *sum += voxel.widen());
            }
        }
    }

    /// Divides every sum by what went into it.
    pub fn finish(self) -> Samples {
        let plane = self.patch.plane();
        let mut means = Vec::with_capacity(self.sums.len());
        let mut sums = self.sums.into_iter();
        for run in self.patch.runs() {
            let region = self.patch.region(run);
            let (boxed, stored) = (self.view.boxed, self.view.stored_size);
            let along =
                |axis: Axis, offset: u64| held(region.start[axis] + offset, boxed[axis], stored[axis]);
            for row in 0..region.size[plane.row_axis()] {
                let thick = along(plane.row_axis(), row) * along(plane.slice_axis(), 0);
                for (column, sum) in (0..region.size[plane.column_axis()]).zip(&mut sums) {
                    means.push(T::mean(sum, thick * along(plane.column_axis(), column)));
                }
            }
        }
        T::Mean::samples(means)
    }
}

/// The lines along x of a block: (distinct row of the patch, voxels, position along y).
fn lines<'v, T>(
    voxels: &'v [T],
    region: &Region,
    run: &RowRun,
    view: &LevelView,
    patch: &Patch,
) -> impl Iterator<Item = (usize, &'v [T], u64)> {
    let (region, boxed, run) = (*region, view.boxed, run.clone());
    let row_axis = patch.plane().row_axis();
    voxels.chunks_exact(region.size.x as usize).enumerate().map(move |(line, voxels)| {
        let z = region.start.z + line as u64 / region.size.y;
        let y = region.start.y + line as u64 % region.size.y;
        let row = if row_axis == Axis::Y { y / boxed.y } else { z / boxed.z };
        ((row - run.rows.start) as usize + run.first, voxels, y)
    })
}

/// Adds a line that starts at stored position `x` to the sums of its columns, the first of which is `first`.
fn add_line<T: Voxel>(line: &[T], x: u64, boxed: u64, first: u64, sums: &mut [T::Sum]) {
    let mut column = (x / boxed - first) as usize;
    let head = ((boxed - x % boxed) % boxed).min(line.len() as u64) as usize;
    let (head, rest) = line.split_at(head);
    if !head.is_empty() {
        head.iter().for_each(|voxel| sums[column] += voxel.widen());
        column += 1;
    }
    for (group, sum) in rest.chunks(boxed as usize).zip(&mut sums[column..]) {
        group.iter().for_each(|voxel| *sum += voxel.widen());
    }
}

/// Puts the first voxel of each box that begins within a block into `field`.
pub(super) fn pick<T: Voxel>(
    voxels: &[T],
    region: &Region,
    run: &RowRun,
    view: &LevelView,
    patch: &Patch,
    field: &mut Samples,
) {
    let Some(field) = T::slice_mut(field) else { return };
    let plane = patch.plane();
    let first = patch.region(run).start[plane.column_axis()];
    let (width, boxed) = (patch.width(), view.boxed);
    for (index, (row, line, y)) in lines(voxels, region, run, view, patch).enumerate() {
        let z = region.start.z + index as u64 / region.size.y;
        if !z.is_multiple_of(boxed.z) || !y.is_multiple_of(boxed.y) {
            continue;
        }
        let skip = (boxed.x - region.start.x % boxed.x) % boxed.x;
        for (x, voxel) in (region.start.x..).zip(line).skip(skip as usize).step_by(boxed.x as usize) {
            let column = if plane.column_axis() == Axis::X { x / boxed.x } else { y / boxed.y };
            field[row * width + (column - first) as usize] = *voxel;
        }
    }
}
