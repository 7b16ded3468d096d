//! Groups: families of tiles that are drawn in one walk over the stored data, so that every box is
//! decoded once.
//!
//! A walk goes from block to block. All boxes that the tiles of a block are read from fit into the
//! cache of decoded chunks together, so their order within a block does not matter. A tile belongs
//! to the block in which it begins. Along an axis in any family's tile plane, the extent of a block
//! is a multiple of the longest tile's; along other axes, of a slice's; it is at least that of the
//! largest stored box. Families that share boxes are put into one group as long as the boxes of a
//! block still fit. A family whose boxes do not fit even alone gets a group of its own, and its
//! tiles decode boxes repeatedly.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::family::{AXES, Family, Source};
use crate::geometry::{Axis, Xyz};
use crate::volume::Access;

/// Families drawn in one walk.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Indexes of the families.
    pub families: Vec<usize>,
    /// The extent of a block, in voxels of full resolution; never 0.
    pub block: Xyz<u64>,
    /// The axes along which blocks are iterated, outermost first.
    pub walk: [Axis; 3],
    /// Whether the boxes of a block fit into the cache together. If not, each tile decodes its
    /// boxes again.
    pub fits: bool,
    /// The maximum size in bytes of the boxes of one block; if they do not fit, of one tile.
    pub bytes: u64,
}

/// Puts all families into as few groups as the budget in bytes allows.
pub fn group(families: &[Family], sources: &[Source], budget: u64) -> Vec<Group> {
    let shape =
        |members: Vec<usize>| Shape::new(&members, families, sources, budget).group(members);
    // Coarsest level first, then largest block: those need the most space, and the others fit in
    // with them.
    let mut alone: Vec<(usize, Group)> = (0..families.len())
        .map(|place| (place, shape(vec![place])))
        .collect();
    alone.sort_by_key(|(place, group)| Reverse((families[*place].level, group.bytes)));
    let mut groups: Vec<Group> = Vec::new();
    // For each source, the groups that read it.
    let mut reading: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); sources.len()];
    for (place, alone) in alone {
        let own = &families[place].sources;
        let joined = own
            .iter()
            .flat_map(|source| &reading[*source])
            .find_map(|at| {
                let group = &groups[*at];
                let members = group.families.iter().copied().chain([place]).collect();
                Some((*at, shape(members)))
                    .filter(|(_, joined)| alone.fits && group.fits && joined.fits)
            });
        let at = match joined {
            Some((at, group)) => {
                groups[at] = group;
                at
            }
            None => {
                groups.push(alone);
                groups.len() - 1
            }
        };
        for source in own {
            reading[*source].insert(at);
        }
    }
    groups
}

/// A group while its block size is determined.
struct Shape<'a> {
    families: Vec<&'a Family>,
    sources: Vec<&'a Source>,
    budget: u64,
}

impl<'a> Shape<'a> {
    fn new(members: &[usize], families: &'a [Family], sources: &'a [Source], budget: u64) -> Self {
        let families: Vec<&Family> = members.iter().map(|place| &families[*place]).collect();
        let places: BTreeSet<usize> = families
            .iter()
            .flat_map(|family| family.sources.clone())
            .collect();
        Self {
            families,
            sources: places.into_iter().map(|place| &sources[place]).collect(),
            budget,
        }
    }

    fn group(&self, families: Vec<usize>) -> Group {
        let mut block = AXES.map(|axis| self.least_extent(axis));
        let mut walk = [Axis::Z, Axis::Y, Axis::X];
        let bytes = self.bytes(block);
        let is_decoded_once = self
            .sources
            .iter()
            .all(|source| source.access != Access::Uncached);
        let fits = is_decoded_once && bytes <= self.budget;
        if fits {
            // Innermost those along which blocks share boxes: these are still cached in the next
            // block.
            walk.sort_by_key(|axis| self.shares(*axis, block[*axis]));
            self.grow(&mut block, walk);
        } else {
            // A block then holds all slices at one place: drawn in sequence, they reuse what is
            // still cached.
            let behind = walk
                .into_iter()
                .filter(|axis| !self.families.iter().any(|f| f.spreads(*axis)));
            behind.for_each(|axis| block[axis] = u64::MAX);
        }
        Group {
            families,
            block,
            walk,
            fits,
            bytes: if fits { self.bytes(block) } else { bytes },
        }
    }

    /// The smallest extent of a block along an axis that contains whole tiles and at least one box.
    fn least_extent(&self, axis: Axis) -> u64 {
        let chunk = self
            .sources
            .iter()
            .map(|source| source.chunk[axis])
            .max()
            .unwrap_or(1);
        let spread = self.families.iter().filter(|family| family.spreads(axis));
        let tile = spread.map(|family| family.rulers[axis].longest()).max();
        let tile = tile.unwrap_or_else(|| self.longest(axis)).max(1);
        chunk.div_ceil(tile).saturating_mul(tile)
    }

    fn longest(&self, axis: Axis) -> u64 {
        self.families
            .iter()
            .map(|family| family.rulers[axis].longest())
            .max()
            .unwrap_or(1)
    }

    /// The bytes of all boxes that a block of that extent can touch.
    fn bytes(&self, block: Xyz<u64>) -> u64 {
        let of_source = |source: &&Source| {
            let boxes = AXES.map(|axis| self.max_boxes(source, axis, block[axis]));
            boxes.volume().saturating_mul(source.weight())
        };
        self.sources
            .iter()
            .map(of_source)
            .fold(0, u64::saturating_add)
    }

    /// The maximum number of boxes that a block touches along an axis.
    fn max_boxes(&self, source: &Source, axis: Axis, extent: u64) -> u64 {
        // Tiles that begin in a block may extend beyond it.
        let overhang = if self.is_nested(axis, extent) {
            0
        } else {
            self.longest(axis)
        };
        let more = u64::from(!self.is_aligned(source, axis, extent));
        let boxes = extent
            .saturating_add(overhang)
            .div_ceil(source.chunk[axis])
            .saturating_add(more);
        let (start, end) = self.bounds(axis);
        let all = source.boxes(axis, &(start..end));
        boxes.min((all.end - all.start).max(1))
    }

    /// Whether every tile lies within one block.
    fn is_nested(&self, axis: Axis, extent: u64) -> bool {
        self.families.iter().all(|family| {
            let ruler = &family.rulers[axis];
            ruler.is_even() && extent.is_multiple_of(ruler.longest().max(1))
        })
    }

    /// Whether no box is touched by two blocks.
    fn is_aligned(&self, source: &Source, axis: Axis, extent: u64) -> bool {
        self.is_nested(axis, extent) && extent.is_multiple_of(source.chunk[axis])
    }

    /// Whether a box of any source is touched by two blocks.
    fn shares(&self, axis: Axis, extent: u64) -> bool {
        self.sources
            .iter()
            .any(|source| !self.is_aligned(source, axis, extent))
    }

    /// The first voxel of all tiles along an axis, and the end.
    fn bounds(&self, axis: Axis) -> (u64, u64) {
        let all = self
            .families
            .iter()
            .map(|family| family.rulers[axis].voxels(&family.tiles[axis]));
        all.fold((u64::MAX, 0), |(start, end), voxels| {
            (start.min(voxels.start), end.max(voxels.end))
        })
    }

    /// Makes blocks longer along the outer and middle axes if they share boxes there, while two of
    /// them still fit: the fewer blocks, the fewer boxes are decoded twice.
    fn grow(&self, block: &mut Xyz<u64>, [outer, middle, _]: [Axis; 3]) {
        for axis in [middle, outer] {
            let (start, end) = self.bounds(axis);
            while self.shares(axis, block[axis]) && block[axis] < end.saturating_sub(start) {
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
