//! Counts the stored boxes that tiles are read from, each once, and the bytes that they inflate to.
//!
//! The boxes that tiles touch are products of runs along the three axes, and unions of few of these.

use super::family::{Family, Source};
use super::numbers::Runs;
use crate::geometry::{Axis, Xyz};
use crate::volume::Access;

/// Above this number of distinct parts of a source, their union is estimated by their sum.
const MAX_PARTS: usize = 8;

/// A number of boxes, and their inflated size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Boxes {
    /// The number of boxes.
    pub count: u64,
    /// The inflated bytes of those that are compressed.
    pub inflated: u64,
}

/// The boxes of all sources that the families read.
pub fn boxes(families: &[Family], sources: &[Source]) -> Boxes {
    let mut all = Boxes::default();
    for (place, source) in sources.iter().enumerate() {
        let count = union(&parts(families, place, source));
        all.count = all.count.saturating_add(count);
        if source.access != Access::Direct {
            all.inflated = all.inflated.saturating_add(count.saturating_mul(source.bytes));
        }
    }
    all
}

/// The boxes of a source that each family reads, without parts contained in another family's.
fn parts(families: &[Family], place: usize, source: &Source) -> Vec<Xyz<Runs>> {
    let mut parts: Vec<Xyz<Runs>> = Vec::new();
    for family in families.iter().filter(|family| family.sources.contains(&place)) {
        let along = |axis: Axis| {
            family.tiles[axis].mapped(|run| source.chunks(axis, &family.rulers[axis].voxels(run)))
        };
        let part = Xyz::new(Axis::X, Axis::Y, Axis::Z).map(along);
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
        many if many.len() > MAX_PARTS => many.iter().map(volume).fold(0, u64::saturating_add),
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
