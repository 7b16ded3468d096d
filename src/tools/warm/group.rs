//! Groups: families of tiles that are drawn in one walk over the stored data, so that every box is decoded
//! once.
//!
//! A walk goes from block to block. All boxes that the tiles of a block are read from fit into the cache of
//! decoded chunks together, so their order within a block does not matter. A tile belongs to the block in
//! which it begins. Along an axis in any family's tile plane, the extent of a block is a multiple of the
//! longest tile's; along other axes, of the largest stored box's. Families that share boxes are put into one
//! group as long as the boxes of a block still fit. A family whose boxes do not fit even alone gets a group
//! of its own, and its tiles decode boxes repeatedly.

use std::ops::Range;

use super::family::{Family, Source};
use super::numbers::Runs;
use crate::geometry::{Axis, Xyz};
use crate::volume::Access;

/// The axes in the usual storage order: slowest first.
const AXES: [Axis; 3] = [Axis::Z, Axis::Y, Axis::X];

/// Families drawn in one walk.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Indexes of the families.
    pub families: Vec<usize>,
    /// The extent of a block, in voxels of full resolution; never 0.
    pub block: Xyz<u64>,
    /// The axes along which blocks are iterated, outermost first.
    pub walk: [Axis; 3],
    /// For each axis of the walk, whether no box is read by two blocks that follow each other along it.
    pub apart: [bool; 3],
    /// Whether the boxes of a block fit into the cache together. If not, each tile decodes its boxes again.
    pub fits: bool,
    /// Whether those of two blocks fit: then boxes shared by neighbours in the walk are decoded once.
    pub fits_twice: bool,
    /// The maximum size in bytes of the boxes of one block.
    pub bytes: u64,
}

/// Puts all families into as few groups as the budget in bytes allows.
pub fn group(families: &[Family], sources: &[Source], budget: u64) -> Vec<Group> {
    let shape = |members: Vec<usize>| Shaping { families, sources, budget, members }.group();
    let mut groups = Vec::new();
    for mut related in related(families, sources.len()) {
        // Coarsest level first, then largest block: those need the most space, and the others fit in with them.
        related.sort_by_key(|place| std::cmp::Reverse((families[*place].level, shape(vec![*place]).bytes)));
        let mut own: Vec<Group> = Vec::new();
        for place in related {
            let alone = shape(vec![place]);
            let joined = |(at, group): (usize, &Group)| {
                let members = group.families.iter().copied().chain([place]).collect();
                Some((at, shape(members))).filter(|(_, joined)| group.fits && joined.fits)
            };
            let joined = if alone.fits { own.iter().enumerate().find_map(joined) } else { None };
            match joined {
                Some((at, group)) => own[at] = group,
                None => own.push(alone),
            }
        }
        groups.extend(own);
    }
    groups
}

/// Partitions the families so that those that share a source, directly or through others, are together. Sets
/// are in the order of their first families.
fn related(families: &[Family], sources: usize) -> Vec<Vec<usize>> {
    // Union-find: each source links towards the smallest source of its set.
    let mut set: Vec<usize> = (0..sources).collect();
    let find = |set: &[usize], mut source: usize| {
        while set[source] != source {
            source = set[source];
        }
        source
    };
    for family in families {
        for pair in family.sources.windows(2) {
            let (a, b) = (find(&set, pair[0]), find(&set, pair[1]));
            set[a.max(b)] = a.min(b);
        }
    }
    let mut sets: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut places = vec![None; sources];
    for (place, family) in families.iter().enumerate() {
        let root = family.sources.first().map(|source| find(&set, *source));
        match root.and_then(|root| places[root]) {
            Some(at) => {
                let (_, members): &mut (usize, Vec<usize>) = &mut sets[at];
                members.push(place);
            }
            None => {
                if let Some(root) = root {
                    places[root] = Some(sets.len());
                }
                sets.push((place, vec![place]));
            }
        }
    }
    sets.into_iter().map(|(_, members)| members).collect()
}

/// A group while its block size is determined.
struct Shaping<'a> {
    families: &'a [Family],
    sources: &'a [Source],
    budget: u64,
    members: Vec<usize>,
}

impl Shaping<'_> {
    fn group(&self) -> Group {
        let mut block = Xyz::new(Axis::X, Axis::Y, Axis::Z).map(|axis| self.least_extent(axis));
        let bytes = self.bytes(block);
        let decoded = self.sources().all(|source| source.access != Access::Uncached);
        let fits = decoded && bytes <= self.budget;
        if !fits {
            // A block then holds all slices at one place: drawn in sequence, they reuse what is still cached.
            let behind = AXES.into_iter().filter(|axis| !self.is_spread(*axis));
            behind.for_each(|axis| block[axis] = u64::MAX);
            let families = self.members.clone();
            let apart = AXES.map(|axis| self.is_apart(axis, block));
            return Group { families, block, walk: AXES, apart, fits, fits_twice: false, bytes };
        }
        let walk = self.walk(block);
        self.grow(&mut block, &walk);
        let bytes = self.bytes(block);
        let fits_twice = bytes <= self.budget / 2;
        let apart = walk.map(|axis| self.is_apart(axis, block));
        Group { families: self.members.clone(), block, walk, apart, fits, fits_twice, bytes }
    }

    fn families(&self) -> impl Iterator<Item = &Family> {
        self.members.iter().map(|place| &self.families[*place])
    }

    /// The sources of the families, without duplicates.
    fn sources(&self) -> impl Iterator<Item = &Source> {
        let mut places: Vec<usize> = self.families().flat_map(|family| family.sources.clone()).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| &self.sources[place])
    }

    /// Whether the axis lies in the tile plane of any family.
    fn is_spread(&self, axis: Axis) -> bool {
        self.families().any(|family| family.spreads(axis))
    }

    /// The smallest extent of a block along an axis that contains whole tiles and at least one box.
    fn least_extent(&self, axis: Axis) -> u64 {
        let chunk = self.sources().map(|source| source.chunk[axis]).max().unwrap_or(1);
        let longest = |family: &Family| family.rulers[axis].longest();
        if self.is_spread(axis) {
            let tile = self.families().filter(|family| family.spreads(axis)).map(longest).max().unwrap_or(1);
            return chunk.div_ceil(tile.max(1)).max(1).saturating_mul(tile.max(1));
        }
        // Slices that are several voxels thick should end at box boundaries.
        let slice = self.families().map(longest).max().unwrap_or(1);
        let both = lcm(chunk, slice);
        if both <= chunk.saturating_mul(slice.min(16)) { both } else { chunk }
    }

    /// The bytes of all boxes that a block of that extent can touch.
    fn bytes(&self, block: Xyz<u64>) -> u64 {
        let of = |source: &Source| {
            let boxes = |axis: Axis| self.most_boxes(source, axis, block[axis]);
            let boxes = boxes(Axis::X).saturating_mul(boxes(Axis::Y)).saturating_mul(boxes(Axis::Z));
            boxes.saturating_mul(source.weight())
        };
        self.sources().map(of).fold(0, u64::saturating_add)
    }

    /// The maximum number of boxes that a block touches along an axis.
    fn most_boxes(&self, source: &Source, axis: Axis, extent: u64) -> u64 {
        let wanted = self.voxels(axis);
        let all = source.boxes(axis, &wanted).max(1);
        let chunk = source.chunk[axis];
        if self.is_aligned(source, axis, extent) {
            return (extent / chunk).max(1).min(all);
        }
        // Tiles that begin in a block may extend beyond it.
        let overhang = if self.is_nested(axis, extent) { 0 } else { self.longest(axis) };
        (extent.saturating_add(overhang).div_ceil(chunk)).saturating_add(1).min(all)
    }

    fn longest(&self, axis: Axis) -> u64 {
        self.families().map(|family| family.rulers[axis].longest()).max().unwrap_or(1)
    }

    /// Whether every tile lies within one block.
    fn is_nested(&self, axis: Axis, extent: u64) -> bool {
        let nests = |family: &Family| {
            let ruler = &family.rulers[axis];
            ruler.is_even() && extent.is_multiple_of(ruler.longest().max(1))
        };
        self.families().all(nests)
    }

    /// Whether no box is touched by two blocks.
    fn is_aligned(&self, source: &Source, axis: Axis, extent: u64) -> bool {
        self.is_nested(axis, extent) && extent.is_multiple_of(source.chunk[axis])
    }

    /// The voxels along an axis in which wanted tiles lie.
    fn voxels(&self, axis: Axis) -> Range<u64> {
        let of = |family: &Family| {
            let tiles = family.tiles[axis].bounds()?;
            Some(family.rulers[axis].voxels(&tiles))
        };
        let all = self.families().filter_map(of);
        all.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    }

    /// The order of axes: outermost those along which blocks share no boxes, then the others by increasing
    /// number of blocks. Successive blocks find shared boxes still cached, so the last axis saves most.
    fn walk(&self, block: Xyz<u64>) -> [Axis; 3] {
        let mut walk = AXES;
        let blocks = |axis: Axis| {
            let Range { start, end } = self.voxels(axis);
            (end - start) / block[axis]
        };
        walk.sort_by_key(|axis| {
            let shares = !self.is_apart(*axis, block);
            (shares, if shares { blocks(*axis) } else { 0 })
        });
        walk
    }

    /// Whether no box of any source is touched by two blocks along an axis.
    fn is_apart(&self, axis: Axis, block: Xyz<u64>) -> bool {
        self.sources().all(|source| self.is_aligned(source, axis, block[axis]))
    }

    /// Makes blocks longer along the outer and middle axes if they share boxes there, while two of them still
    /// fit: the fewer blocks, the fewer boxes are decoded twice.
    fn grow(&self, block: &mut Xyz<u64>, walk: &[Axis; 3]) {
        let [outer, middle, _] = *walk;
        for axis in [middle, outer] {
            let is_shared = |extent: u64| self.sources().any(|source| !self.is_aligned(source, axis, extent));
            let Range { start, end } = self.voxels(axis);
            while is_shared(block[axis]) && block[axis] < end - start {
                let mut longer = *block;
                longer[axis] = block[axis].saturating_mul(2);
                if self.bytes(longer) > self.budget / 2 {
                    break;
                }
                *block = longer;
            }
        }
    }
}

/// The least common multiple; saturates.
fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b).max(1)
}

/// The indexes of a group's blocks along one axis in which any of its tiles begins.
pub(super) fn blocks(group: &Group, families: &[Family], axis: Axis) -> Runs {
    let extent = group.block[axis].max(1);
    let of =
        |family: &Family| family.starts(axis).mapped(|run| run.start / extent..(run.end - 1) / extent + 1);
    let all = group.families.iter().map(|place| of(&families[*place]));
    Runs::of(all.flat_map(|runs| runs.iter().cloned().collect::<Vec<_>>()).collect())
}
