//! Forecasts the cost of a work: how many stored boxes are read, and how many bytes that inflates to.
//!
//! This is calculated, not tried: the boxes that tiles touch are products of runs along the three axes, and
//! unions of few of these. Boxes shared by neighbouring blocks are counted as the walk reads them: once along
//! its innermost axis if two blocks fit into the cache, else once per block.

use super::family::{Family, Source};
use super::group::{Group, blocks};
use super::numbers::Runs;
use crate::geometry::{Axis, Xyz};
use crate::volume::Access;

/// Above this number of distinct parts of a source, their union is estimated by their sum.
const MOST_PARTS: usize = 8;
/// Above this number of tiles along an axis, all are assumed to be as large as the largest.
const MOST_COUNTED: u64 = 1 << 17;

/// How many blocks along an axis are examined.
const MOST_BLOCKS: usize = 1 << 14;

/// A number of boxes, and their inflated size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Boxes {
    /// The number of boxes read.
    pub count: u64,
    /// The inflated bytes of those that are compressed.
    pub inflated: u64,
}

/// The forecast for a group, or all groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forecast {
    /// What is read.
    pub read: Boxes,
    /// What would be read if every box were read once.
    pub once: Boxes,
}

impl Forecast {
    /// How many times everything is inflated; 1 if nothing is compressed.
    pub fn passes(&self) -> f64 {
        if self.once.inflated == 0 { 1.0 } else { self.read.inflated as f64 / self.once.inflated as f64 }
    }
}

impl Boxes {
    fn of(source: &Source, count: u64) -> Self {
        let inflates = source.access != Access::Copied;
        Self { count, inflated: if inflates { count.saturating_mul(source.bytes) } else { 0 } }
    }

    fn and(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            inflated: self.inflated.saturating_add(other.inflated),
        }
    }
}

/// The forecast for all groups together.
pub fn forecast(groups: &[Group], families: &[Family], sources: &[Source]) -> Forecast {
    let read = groups.iter().map(|group| read_by(group, families, sources));
    let all: Vec<&Family> = families.iter().collect();
    let once = sources
        .iter()
        .enumerate()
        .map(|(place, source)| Boxes::of(source, union(&parts(&all, place, source))));
    let sum = |a: Boxes, b: Boxes| a.and(b);
    Forecast { read: read.fold(Boxes::default(), sum), once: once.fold(Boxes::default(), sum) }
}

/// The forecast for one group.
pub fn read_by(group: &Group, families: &[Family], sources: &[Source]) -> Boxes {
    let members: Vec<&Family> = group.families.iter().map(|place| &families[*place]).collect();
    let mut places: Vec<usize> = members.iter().flat_map(|family| family.sources.clone()).collect();
    places.sort_unstable();
    places.dedup();
    let of = |place: usize| {
        let source = &sources[place];
        let users: Vec<&Family> = members.iter().copied().filter(|f| f.sources.contains(&place)).collect();
        let count = if group.fits {
            walked(group, families, &users, place, source)
        } else {
            users.iter().map(|family| each_alone(family, source)).fold(0, u64::saturating_add)
        };
        Boxes::of(source, count)
    };
    places.into_iter().map(of).fold(Boxes::default(), Boxes::and)
}

/// The number of boxes of a source that a walk reads.
fn walked(group: &Group, families: &[Family], users: &[&Family], place: usize, source: &Source) -> u64 {
    let once = union(&parts(users, place, source));
    let innermost = group.walk.last().filter(|_| group.fits_twice);
    let again = |axis: Axis| {
        let (mut all, mut last, mut counted) = (Vec::new(), None, 0);
        // Blocks are much alike: the first ones represent all.
        for block in blocks(group, families, axis).falling().take(MOST_BLOCKS) {
            let start = block.saturating_mul(group.step[axis]);
            let range = start..start.saturating_add(group.step[axis]);
            let tiles = users
                .iter()
                .flat_map(|family| boxes_of(family, axis, &family.starting_in(axis, &range), source));
            let boxes = Runs::of(tiles.collect());
            let kept =
                last.filter(|_| innermost == Some(&axis)).map_or(0, |last: Runs| last.common(&boxes).count());
            counted += boxes.count() - kept;
            all.extend(boxes.iter().cloned());
            last = Some(boxes);
        }
        counted as f64 / Runs::of(all).count().max(1) as f64
    };
    (once as f64 * again(Axis::X) * again(Axis::Y) * again(Axis::Z)).round() as u64
}

/// The number of boxes read if every tile reads its own.
fn each_alone(family: &Family, source: &Source) -> u64 {
    let along = |axis: Axis| {
        let (tiles, ruler) = (&family.tiles[axis], &family.rulers[axis]);
        if tiles.count() > MOST_COUNTED {
            return tiles.count().saturating_mul(ruler.longest().div_ceil(source.chunk[axis]).max(1));
        }
        let boxes = |tile: u64| source.boxes(axis, &(ruler.start(tile)..ruler.end(tile)));
        tiles.clone().falling().map(boxes).fold(0, u64::saturating_add)
    };
    Xyz::new(along(Axis::X), along(Axis::Y), along(Axis::Z)).volume()
}

/// The boxes that runs of tiles touch along an axis.
fn boxes_of(family: &Family, axis: Axis, tiles: &Runs, source: &Source) -> Vec<std::ops::Range<u64>> {
    tiles.iter().map(|run| source.chunks(axis, &family.rulers[axis].voxels(run))).collect()
}

/// The boxes of a source that each family reads, without parts contained in another family's.
fn parts(families: &[&Family], place: usize, source: &Source) -> Vec<Xyz<Runs>> {
    let mut parts: Vec<Xyz<Runs>> = Vec::new();
    for family in families.iter().filter(|family| family.sources.contains(&place)) {
        let part = Xyz::new(Axis::X, Axis::Y, Axis::Z)
            .map(|axis| Runs::of(boxes_of(family, axis, &family.tiles[axis], source)));
        let holds = |a: &Xyz<Runs>, b: &Xyz<Runs>| common(a, b) == *b;
        if !parts.iter().any(|other| holds(other, &part)) {
            parts.retain(|other| !holds(&part, other));
            parts.push(part);
        }
    }
    parts
}

fn common(a: &Xyz<Runs>, b: &Xyz<Runs>) -> Xyz<Runs> {
    a.clone().zip(b.clone(), |a, b| a.common(&b))
}

fn volume(part: &Xyz<Runs>) -> u64 {
    Xyz::new(part.x.count(), part.y.count(), part.z.count()).volume()
}

/// The number of boxes in any of the parts.
fn union(parts: &[Xyz<Runs>]) -> u64 {
    match parts {
        [] => 0,
        [one] => volume(one),
        many if many.len() > MOST_PARTS => many.iter().map(volume).fold(0, u64::saturating_add),
        // The first, plus the others without it.
        [first, others @ ..] => {
            let shared: Vec<Xyz<Runs>> = others.iter().map(|other| common(first, other)).collect();
            (volume(first).saturating_add(union(others))).saturating_sub(union(&shared))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parts_share_is_counted_once() {
        let part = |x: std::ops::Range<u64>, y: std::ops::Range<u64>, z: std::ops::Range<u64>| {
            Xyz::new(x, y, z).map(|range| Runs::of(vec![range]))
        };
        let planes = [part(3..4, 0..10, 0..10), part(0..10, 3..4, 0..10), part(0..10, 0..10, 3..4)];
        assert_eq!(union(&planes), 300 - 30 + 1);
        assert_eq!(union(&[part(0..2, 0..2, 0..2), part(5..6, 0..1, 0..1)]), 9);
    }
}
