//! Axes, planes, triples, and boxes of voxels.

use std::fmt;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// The width and height of every tile, in pixels.
pub const TILE: usize = 512;

/// One of the three spatial axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Axis {
    /// The axis along which the columns of xy tiles advance.
    X,
    /// The axis along which the rows of xy tiles advance.
    Y,
    /// The axis normal to xy tiles.
    Z,
}

/// A value for each of the three spatial axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(
    from = "[T; 3]",
    into = "[T; 3]",
    bound(serialize = "T: Serialize + Clone")
)]
pub struct Xyz<T> {
    /// Along x.
    pub x: T,
    /// Along y.
    pub y: T,
    /// Along z.
    pub z: T,
}

impl<T> Xyz<T> {
    /// A triple from values in x, y, z order.
    #[inline]
    pub const fn new(x: T, y: T, z: T) -> Self {
        Self { x, y, z }
    }

    /// Applies `f` along every axis.
    #[inline]
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Xyz<U> {
        Xyz::new(f(self.x), f(self.y), f(self.z))
    }

    /// Combines two triples axis by axis.
    #[inline]
    pub fn zip<U, V>(self, other: Xyz<U>, f: impl Fn(T, U) -> V) -> Xyz<V> {
        Xyz::new(f(self.x, other.x), f(self.y, other.y), f(self.z, other.z))
    }
}

impl<T: Copy> Xyz<T> {
    /// The same value along every axis.
    #[inline]
    pub fn all(value: T) -> Self {
        Self::new(value, value, value)
    }
}

impl<T> From<[T; 3]> for Xyz<T> {
    fn from([x, y, z]: [T; 3]) -> Self {
        Self::new(x, y, z)
    }
}

impl<T> From<Xyz<T>> for [T; 3] {
    fn from(xyz: Xyz<T>) -> Self {
        [xyz.x, xyz.y, xyz.z]
    }
}

impl Xyz<bool> {
    /// Whether it is true along every axis.
    pub fn everywhere(self) -> bool {
        self.x && self.y && self.z
    }
}

impl Xyz<u64> {
    /// The number of voxels in a box of this size; `u64::MAX` if there are more.
    pub fn volume(self) -> u64 {
        self.x.saturating_mul(self.y).saturating_mul(self.z)
    }
}

impl<T> Index<Axis> for Xyz<T> {
    type Output = T;
    fn index(&self, axis: Axis) -> &T {
        match axis {
            Axis::X => &self.x,
            Axis::Y => &self.y,
            Axis::Z => &self.z,
        }
    }
}

impl<T> IndexMut<Axis> for Xyz<T> {
    fn index_mut(&mut self, axis: Axis) -> &mut T {
        match axis {
            Axis::X => &mut self.x,
            Axis::Y => &mut self.y,
            Axis::Z => &mut self.z,
        }
    }
}

impl<T: fmt::Display> fmt::Display for Xyz<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} × {}", self.x, self.y, self.z)
    }
}

/// The orientation of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plane {
    /// Rows along y, columns along x, slices along z.
    Xy,
    /// Rows along z, columns along x, slices along y.
    Xz,
    /// Rows along z, columns along y, slices along x.
    Yz,
}

impl Plane {
    /// All planes, in display order.
    pub const ALL: [Plane; 3] = [Plane::Xy, Plane::Xz, Plane::Yz];

    /// The name in URLs: `xy`, `xz` or `yz`.
    pub fn name(self) -> &'static str {
        match self {
            Plane::Xy => "xy",
            Plane::Xz => "xz",
            Plane::Yz => "yz",
        }
    }

    /// The plane with this name, which is case-sensitive.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plane| plane.name() == name)
    }

    /// The axis along which rows advance.
    pub fn row_axis(self) -> Axis {
        match self {
            Plane::Xy => Axis::Y,
            Plane::Xz | Plane::Yz => Axis::Z,
        }
    }

    /// The axis along which columns advance.
    pub fn column_axis(self) -> Axis {
        match self {
            Plane::Xy | Plane::Xz => Axis::X,
            Plane::Yz => Axis::Y,
        }
    }

    /// The axis normal to the plane.
    pub fn slice_axis(self) -> Axis {
        match self {
            Plane::Xy => Axis::Z,
            Plane::Xz => Axis::Y,
            Plane::Yz => Axis::X,
        }
    }

    /// Orders values along the plane's slice, row and column axes as x, y and z.
    pub fn place<T: Copy>(self, slice: T, row: T, column: T) -> Xyz<T> {
        let mut xyz = Xyz::all(slice);
        xyz[self.row_axis()] = row;
        xyz[self.column_axis()] = column;
        xyz
    }
}

impl fmt::Display for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A box of voxels within one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// The first voxel.
    pub start: Xyz<u64>,
    /// The number of voxels along each axis.
    pub size: Xyz<u64>,
}

impl Region {
    /// The region of all voxels in a volume of this size.
    pub fn whole(size: Xyz<u64>) -> Self {
        Self::between(Xyz::all(0), size)
    }

    /// The region from `start` up to `end`, which is exclusive; empty if it ends before it starts.
    pub fn between(start: Xyz<u64>, end: Xyz<u64>) -> Self {
        Self {
            start,
            size: end.zip(start, u64::saturating_sub),
        }
    }

    /// The first position after the region, along each axis.
    pub fn end(&self) -> Xyz<u64> {
        self.start.zip(self.size, u64::saturating_add)
    }

    /// The number of voxels; `u64::MAX` if there are more.
    pub fn voxels(&self) -> u64 {
        self.size.volume()
    }

    /// The voxels common to both regions, if any.
    pub fn intersection(&self, other: &Region) -> Option<Region> {
        let start = self.start.zip(other.start, u64::max);
        let end = self.end().zip(other.end(), u64::min);
        Some(Region::between(start, end)).filter(|common| common.voxels() > 0)
    }

    /// Tells for each voxel of the region whether it lies in one of the `parts`. Voxels are listed
    /// row by row, x fastest and z slowest. The list is empty if there are no parts.
    pub fn covered_by(&self, parts: &[Region]) -> Vec<bool> {
        if parts.is_empty() {
            return Vec::new();
        }
        let mut covered = vec![false; self.voxels() as usize];
        for part in parts.iter().filter_map(|part| part.intersection(self)) {
            let offset = part.start.zip(self.start, u64::saturating_sub);
            for z in offset.z..offset.z + part.size.z {
                for y in offset.y..offset.y + part.size.y {
                    let row = ((z * self.size.y + y) * self.size.x + offset.x) as usize;
                    covered[row..][..part.size.x as usize].fill(true);
                }
            }
        }
        covered
    }

    /// Splits the region at multiples of `chunk` into boxes of at most `most` voxels. The boxes
    /// follow each other along x, then y, then z.
    ///
    /// Boxes are as long as possible along x, then y, then z, because that is the storage order of
    /// most files. If a chunk has more than `most` voxels, boxes are smaller than chunks.
    pub fn blocks(&self, chunk: Xyz<u64>, most: u64) -> impl Iterator<Item = Region> + use<> {
        let step = self.block_size(chunk.map(|length| length.max(1)), most.max(1));
        let Region { start, size } = *self;
        cuts(start.z, size.z, step.z).flat_map(move |(z, depth)| {
            cuts(start.y, size.y, step.y).flat_map(move |(y, height)| {
                cuts(start.x, size.x, step.x).map(move |(x, width)| Region {
                    start: Xyz::new(x, y, z),
                    size: Xyz::new(width, height, depth),
                })
            })
        })
    }

    /// The distance between cuts along each axis: a multiple of `chunk`, or less if a chunk has
    /// more than `most` voxels.
    fn block_size(&self, chunk: Xyz<u64>, most: u64) -> Xyz<u64> {
        let mut step = chunk;
        let largest_box = |step: Xyz<u64>| step.zip(self.size, u64::min).volume().max(1);
        // A chunk that is too large is cut, along x only if cuts along z and y are not enough.
        for axis in [Axis::Z, Axis::Y, Axis::X] {
            if largest_box(step) > most {
                // The voxels of the box at one position along the axis.
                let section = largest_box(step) / step[axis].min(self.size[axis]).max(1);
                step[axis] = (most / section.max(1)).max(1);
            }
        }
        // Small chunks are joined, along x first. An axis needs one step more than its length
        // suggests if the region begins and ends between two cuts.
        for axis in [Axis::X, Axis::Y, Axis::Z] {
            let needed = self.size[axis].div_ceil(step[axis]) + 1;
            let affordable = most / largest_box(step);
            step[axis] = step[axis].saturating_mul(affordable.clamp(1, needed));
        }
        step
    }
}

/// The length of the box at index `position` where an axis of `extent` voxels is divided into boxes
/// of `step` voxels. The last box may be shorter; every box has at least one voxel.
pub fn box_length(position: u64, step: u64, extent: u64) -> u64 {
    extent
        .saturating_sub(position.saturating_mul(step))
        .clamp(1, step)
}

/// Cuts `[start, start + length)` at multiples of `step`. Each piece is (first position, length).
fn cuts(start: u64, length: u64, step: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = start.saturating_add(length);
    let mut next = start;
    std::iter::from_fn(move || {
        if next >= end {
            return None;
        }
        let first = next;
        let cut = (first / step).saturating_add(1).saturating_mul(step);
        next = cut.min(end);
        Some((first, next - first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_is_used_once_in_every_plane() {
        for plane in Plane::ALL {
            assert_eq!(plane.place(1, 2, 3)[plane.slice_axis()], 1);
            assert_eq!(plane.place(1, 2, 3)[plane.row_axis()], 2);
            assert_eq!(plane.place(1, 2, 3)[plane.column_axis()], 3);
            assert_eq!(Plane::from_name(plane.name()), Some(plane));
        }
        assert_eq!(Plane::from_name("XY"), None);
    }

    #[test]
    fn blocks_cover_a_region_once_and_stay_within_the_budget() {
        let region = Region {
            start: Xyz::new(3, 70, 5),
            size: Xyz::new(200, 90, 33),
        };
        for (chunk, most) in [(64, 300_000), (64, 1_000), (1, 50), (1000, 77)] {
            let blocks: Vec<Region> = region.blocks(Xyz::all(chunk), most).collect();
            assert_eq!(
                blocks.iter().map(Region::voxels).sum::<u64>(),
                region.voxels()
            );
            assert!(
                blocks
                    .iter()
                    .all(|b| b.voxels() <= most && b.intersection(&region) == Some(*b))
            );
        }
    }

    #[test]
    fn blocks_are_split_at_chunk_boundaries() {
        let region = Region {
            start: Xyz::new(60, 0, 0),
            size: Xyz::new(100, 1, 1),
        };
        let starts: Vec<u64> = region.blocks(Xyz::all(64), 64).map(|b| b.start.x).collect();
        assert_eq!(starts, [60, 64, 128]);
    }

    #[test]
    fn regions_that_do_not_meet_have_no_intersection() {
        let a = Region::whole(Xyz::all(4));
        let b = Region {
            start: Xyz::new(4, 0, 0),
            size: Xyz::all(2),
        };
        assert_eq!(a.intersection(&b), None);
    }
}
