//! A work: all selected tiles, block by block.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::choose::{Chosen, choose};
use super::family::{AXES, Family, Source, Subject};
use super::group::{Group, group};
use super::selection::Selection;
use crate::base::description::DatasetDescription;
use crate::base::request::TileRequest;
use crate::base::shard::Shard;
use crate::base::units::bytes;
use crate::geometry::{Axis, Xyz};
use crate::volume::Access;

/// The share of the chunk cache that is relied on; others use it too, and chunks being decoded take
/// space.
const SHARE: (u64, u64) = (3, 4);

/// Tiles, and the order in which they are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    chosen: Chosen,
    groups: Vec<Group>,
    /// Which of the blocks of all groups belong to it.
    part: Range<usize>,
    total: u64,
}

impl Work {
    /// The selected part of the datasets, with a chunk cache of `chunks` bytes.
    pub fn new(
        wanted: &Selection,
        datasets: &[DatasetDescription],
        chunks: u64,
    ) -> Result<Self, String> {
        let mut chosen = choose(wanted, datasets)?;
        let (share, whole) = SHARE;
        let groups = group(&chosen.families, &chosen.sources, chunks / whole * share);
        for group in groups.iter().filter(|group| !group.fits) {
            let remark =
                |place: &usize| too_large(&chosen, group, &chosen.families[*place], chunks);
            let remarks: Vec<String> = group.families.iter().map(remark).collect();
            chosen.remarks.extend(remarks);
        }
        let mut seen = BTreeSet::new();
        chosen.remarks.retain(|remark| seen.insert(remark.clone()));
        let counts = chosen
            .families
            .iter()
            .map(|family| family.count(&family.tiles));
        let total = counts.fold(0, u64::saturating_add);
        Ok(Self {
            chosen,
            groups,
            part: 0..usize::MAX,
            total,
        })
    }

    /// The part of a shard: whole blocks that follow one another.
    #[must_use]
    pub fn shard(mut self, shard: &Shard) -> Self {
        let counts: Vec<u64> = self.blocks().map(|block| block.count()).collect();
        self.part = shard.part(&counts);
        self.total = counts[self.part.clone()]
            .iter()
            .copied()
            .fold(0, u64::saturating_add);
        self
    }

    /// The number of tiles; saturates.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// All tiles in order.
    pub fn tiles(&self) -> impl Iterator<Item = TileRequest> + Send + '_ {
        self.blocks().flat_map(|block| block.tiles())
    }

    /// Pairs of tiles that follow each other in a block, at so many places that are spread over all
    /// tiles.
    pub fn samples(&self, places: u64) -> Vec<TileRequest> {
        // Steps by irrational numbers do not align with any grid.
        let share = |place: f64| (place + (place * 0.618_033_988).fract()) / places as f64;
        let mut numbers = (0..places)
            .map(|place| (share(place as f64) * self.total as f64) as u64)
            .peekable();
        let (mut samples, mut before) = (Vec::new(), 0);
        for block in self.blocks() {
            let end = u64::saturating_add(before, block.count());
            while let Some(number) = numbers.next_if(|number| *number < end) {
                let skipped = usize::try_from(number - before).unwrap_or(usize::MAX);
                samples.extend(block.tiles().skip(skipped).take(2));
            }
            before = end;
        }
        samples
    }

    /// The number of stored boxes that are read, in each block every box once, and the inflated
    /// bytes of those that are compressed.
    pub fn boxes(&self) -> (u64, u64) {
        let boxes = self.blocks().flat_map(|block| block.boxes());
        boxes.fold((0, 0), |(boxes, inflated), (count, source)| {
            let bytes = if source.access == Access::Direct {
                0
            } else {
                count.saturating_mul(source.bytes)
            };
            (
                u64::saturating_add(boxes, count),
                u64::saturating_add(inflated, bytes),
            )
        })
    }

    /// What the user should know before it starts: what is left out, and what costs more than
    /// necessary.
    pub fn remarks(&self) -> &[String] {
        &self.chosen.remarks
    }

    /// The blocks of its part in which tiles begin, in order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block<'_>> + Send {
        let all = self
            .groups
            .iter()
            .flat_map(|group| blocks(&self.chosen, group));
        all.skip(self.part.start)
            .take(self.part.end - self.part.start)
    }
}

/// The blocks of a group in which tiles begin, in the order of its walk.
fn blocks<'a>(chosen: &'a Chosen, group: &'a Group) -> impl Iterator<Item = Block<'a>> + Send + 'a {
    let numbers = |axis: Axis| {
        let starts = group
            .families
            .iter()
            .map(|place| &chosen.families[*place])
            .map(|family| {
                let (ruler, tiles) = (&family.rulers[axis], &family.tiles[axis]);
                (ruler.start(tiles.start), ruler.start(tiles.end - 1))
            });
        let hull = |(first, last): (u64, u64), (a, b): (u64, u64)| (first.min(a), last.max(b));
        let (first, last) = starts.reduce(hull).unwrap_or_default();
        first / group.block[axis]..last / group.block[axis] + 1
    };
    let [outer, middle, inner] = group.walk;
    let [outer_numbers, middle_numbers, inner_numbers] = group.walk.map(numbers);
    let block = move |at: Xyz<u64>| {
        let start = at.zip(group.block, u64::saturating_mul);
        Block {
            chosen,
            group,
            voxels: start.zip(group.block, |start, extent| {
                start..start.saturating_add(extent)
            }),
        }
    };
    let blocks = outer_numbers.flat_map(move |o| {
        let inner_numbers = inner_numbers.clone();
        middle_numbers.clone().flat_map(move |m| {
            inner_numbers.clone().map(move |i| {
                let mut at = Xyz::all(0);
                (at[outer], at[middle], at[inner]) = (o, m, i);
                block(at)
            })
        })
    });
    blocks.filter(|block| block.count() > 0)
}

/// The tiles of a group that begin in a box of voxels.
pub(super) struct Block<'a> {
    chosen: &'a Chosen,
    group: &'a Group,
    voxels: Xyz<Range<u64>>,
}

impl<'a> Block<'a> {
    /// The families, and where their tiles in the block lie.
    fn parts(&self) -> impl Iterator<Item = (&'a Family, Xyz<Range<u64>>)> + Send + use<'a> {
        let (chosen, voxels) = (self.chosen, self.voxels.clone());
        self.group.families.iter().map(move |place| {
            let family = &chosen.families[*place];
            (family, family.tiles_starting_in(&voxels))
        })
    }

    /// The number of tiles.
    pub fn count(&self) -> u64 {
        self.parts()
            .map(|(family, tiles)| family.count(&tiles))
            .fold(0, u64::saturating_add)
    }

    pub fn tiles(&self) -> impl Iterator<Item = TileRequest> + Send + use<'a> {
        let chosen = self.chosen;
        self.parts().flat_map(move |(family, tiles)| {
            family.requests(&chosen.subjects[family.subject], &tiles)
        })
    }

    /// The number of boxes of each source that its tiles are read from: each box once, or if they
    /// do not fit into the cache, once for each slice.
    pub fn boxes(&self) -> Vec<(u64, &'a Source)> {
        let mut read: BTreeMap<usize, Xyz<Range<u64>>> = BTreeMap::new();
        let mut times = 1;
        for (family, mut tiles) in self
            .parts()
            .filter(|(family, tiles)| family.count(tiles) > 0)
        {
            if !self.group.fits {
                times = family.count_slices(&tiles);
                let slices = &mut tiles[family.plane.slice_axis()];
                slices.end = slices.start + 1;
            }
            for place in &family.sources {
                let source = &self.chosen.sources[*place];
                let boxes =
                    AXES.map(|axis| source.boxes(axis, &family.rulers[axis].voxels(&tiles[axis])));
                let hull = |a: Range<u64>, b: Range<u64>| a.start.min(b.start)..a.end.max(b.end);
                read.entry(*place)
                    .and_modify(|known| *known = known.clone().zip(boxes.clone(), hull))
                    .or_insert(boxes);
            }
        }
        let count = |(place, boxes): (usize, Xyz<Range<u64>>)| {
            let count = boxes.map(|boxes| boxes.end - boxes.start).volume();
            (count.saturating_mul(times), &self.chosen.sources[place])
        };
        read.into_iter().map(count).collect()
    }
}

/// Why a family's boxes are decoded repeatedly, and how to fix that.
fn too_large(chosen: &Chosen, group: &Group, family: &Family, chunks: u64) -> String {
    let Subject { token, channels } = &chosen.subjects[family.subject];
    let what = format!(
        "{token}/{channels}, level {} in {}",
        family.level.number(),
        family.plane
    );
    if family
        .sources
        .iter()
        .any(|place| chosen.sources[*place].access == Access::Uncached)
    {
        return format!(
            "{what}: its source is decoded again for every tile; `voltile inspect` says why"
        );
    }
    let (share, whole) = SHARE;
    format!(
        "{what}: the chunks of one tile take {}, more than the usable share of the {} of cache.chunks; they are decoded \
         again for every tile. `voltile pyramid` stores such levels; or raise cache.chunks to {}",
        bytes(group.bytes),
        bytes(chunks),
        bytes(group.bytes / share * whole)
    )
}
