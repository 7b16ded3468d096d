//! The order in which tiles are requested: at random, scrolling, walking, or all of them.
//!
//! All are seeded: the same seed gives the same tiles.

use std::collections::HashSet;

use fastrand::Rng;
use serde::Serialize;

use super::target::{Space, Target};
use crate::geometry::{Axis, Plane, TileAddress, Xyz};

/// How many slices a scroll goes through before it starts elsewhere: the usual depth of a chunk.
const SCROLL: u64 = 64;
/// How many steps in a row a walk takes in one direction.
const STRIDE: std::ops::RangeInclusive<u64> = 4..=32;

/// An order in which tiles are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Tiles of the level in random order, all of them before any is repeated: consecutive tiles rarely share chunks.
    Random,
    /// Runs of neighbouring slices at one place, up or down.
    Scroll,
    /// Steps of one voxel through the volume, with the tile of each plane that contains it: three linked
    /// planes.
    Walk,
    /// Every tile of the first slice, then of the next: the order of ndtilecache's benchmark.
    Sweep,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Pattern; 4] = [Pattern::Random, Pattern::Scroll, Pattern::Walk, Pattern::Sweep];

    /// The patterns measured by default.
    pub const USUAL: [Pattern; 3] = [Pattern::Random, Pattern::Scroll, Pattern::Walk];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Random => "random",
            Pattern::Scroll => "scroll",
            Pattern::Walk => "walk",
            Pattern::Sweep => "sweep",
        }
    }
}

/// What one row measures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    pub planes: Vec<Plane>,
    pub level: u8,
    pub pattern: Pattern,
    /// At least one.
    pub tiles: Vec<TileAddress>,
}

impl Case {
    /// The planes joined: `xy`, or `xy+xz+yz`.
    pub fn planes(&self) -> String {
        self.planes.iter().map(|plane| plane.name()).collect::<Vec<_>>().join("+")
    }
}

/// The cases of a channel: for each level every pattern in every plane, and the walk through all of them at
/// once.
pub(super) fn cases(target: &Target, patterns: &[Pattern], most: usize, seed: u64) -> Vec<Case> {
    let mut levels: Vec<u8> = target.spaces.iter().map(|space| space.level.number()).collect();
    levels.dedup();
    levels.into_iter().flat_map(|level| of_level(target, level, patterns, most, seed)).collect()
}

impl Target {
    /// The tiles that a row of [`Pattern::Random`] draws of the first level in the first plane, at most
    /// `most`, to draw the same ones in another way.
    pub fn random(&self, most: usize, seed: u64) -> Vec<TileAddress> {
        let case = cases(self, &[Pattern::Random], most, seed).into_iter().next();
        case.map(|case| case.tiles).unwrap_or_default()
    }
}

fn of_level(target: &Target, level: u8, patterns: &[Pattern], most: usize, seed: u64) -> Vec<Case> {
    let spaces: Vec<&Space> = target.spaces.iter().filter(|space| space.level.number() == level).collect();
    let case = |pattern: Pattern, spaces: &[&Space]| {
        let rng = Rng::with_seed(seed ^ u64::from(level) << 32);
        let planes = spaces.iter().map(|space| space.plane).collect();
        Case { planes, level, pattern, tiles: tiles(pattern, spaces, most, rng) }
    };
    let by_plane = patterns.iter().filter(|pattern| **pattern != Pattern::Walk);
    let mut cases: Vec<Case> = spaces
        .iter()
        .flat_map(|space| by_plane.clone().map(|pattern| case(*pattern, std::slice::from_ref(space))))
        .collect();
    if patterns.contains(&Pattern::Walk) {
        cases.push(case(Pattern::Walk, &spaces));
    }
    cases
}

fn tiles(pattern: Pattern, spaces: &[&Space], most: usize, mut rng: Rng) -> Vec<TileAddress> {
    let most = most.max(1);
    match (pattern, spaces) {
        (Pattern::Walk, spaces) => walk(spaces, most, &mut rng),
        (Pattern::Random, [space]) => random(space, most, &mut rng),
        (Pattern::Scroll, [space]) => scroll(space, most, &mut rng),
        (_, spaces) => spaces.iter().flat_map(|space| sweep(space)).take(most).collect(),
    }
}

fn any(space: &Space, rng: &mut Rng) -> TileAddress {
    let mut of = |range: &std::ops::Range<u64>| rng.u64(range.clone());
    let (slice, row) = (of(&space.slices), of(&space.rows));
    space.address(slice, row, of(&space.columns))
}

/// Tiles without repetition, until all have been used.
fn random(space: &Space, most: usize, rng: &mut Rng) -> Vec<TileAddress> {
    let all = space.count();
    if all <= 2 * most as u64 {
        let mut tiles: Vec<TileAddress> = sweep(space).collect();
        rng.shuffle(&mut tiles);
        return tiles.into_iter().cycle().take(most).collect();
    }
    let (mut seen, mut tiles) = (HashSet::new(), Vec::with_capacity(most));
    while tiles.len() < most {
        // At most every second one has been seen already.
        let tile = any(space, rng);
        if seen.insert(tile) {
            tiles.push(tile);
        }
    }
    tiles
}

fn scroll(space: &Space, most: usize, rng: &mut Rng) -> Vec<TileAddress> {
    let (first, end) = (space.slices.start, space.slices.end);
    let length = SCROLL.min(end - first);
    let mut tiles = Vec::with_capacity(most);
    while tiles.len() < most {
        let begin = rng.u64(first..=end - length);
        let place = any(space, rng);
        let run = (0..length).map(|n| TileAddress { slice: begin + n, ..place });
        if rng.bool() { tiles.extend(run) } else { tiles.extend(run.rev()) }
    }
    tiles.truncate(most);
    tiles
}

fn walk(spaces: &[&Space], most: usize, rng: &mut Rng) -> Vec<TileAddress> {
    // Limits the walk where no step changes a tile, as in a volume of one voxel.
    const STEPS: usize = 64;
    let Some(size) = spaces.first().map(|space| space.size.map(|extent| extent.max(1))) else {
        return Vec::new();
    };
    let mut point = size.map(|extent| extent / 2);
    let mut last: Vec<Option<TileAddress>> = vec![None; spaces.len()];
    let (mut tiles, mut steps) = (Vec::with_capacity(most), most.saturating_mul(STEPS));
    while tiles.len() < most && steps > 0 {
        let axis = [Axis::X, Axis::Y, Axis::Z][rng.usize(0..3)];
        let forwards = rng.bool();
        for _ in 0..rng.u64(STRIDE) {
            for (space, last) in spaces.iter().zip(&mut last) {
                let tile = space.around(point);
                if last.replace(tile) != Some(tile) {
                    tiles.push(tile);
                }
            }
            step(&mut point, axis, forwards, size);
            steps = steps.saturating_sub(1);
        }
    }
    tiles.truncate(most);
    tiles
}

/// Moves one voxel, wrapping around at the ends.
fn step(point: &mut Xyz<u64>, axis: Axis, forwards: bool, size: Xyz<u64>) {
    let by = if forwards { 1 } else { size[axis] - 1 };
    point[axis] = (point[axis] + by) % size[axis];
}

fn sweep(space: &Space) -> impl Iterator<Item = TileAddress> {
    space.slices.clone().flat_map(move |slice| {
        space
            .rows
            .clone()
            .flat_map(move |row| space.columns.clone().map(move |column| space.address(slice, row, column)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::target::tests::target;
    use super::*;

    const COUNT: usize = 200;

    fn of(pattern: Pattern) -> Vec<Case> {
        cases(&target("a", "raw", true), &[pattern], COUNT, 7)
    }

    fn is_within(tile: &TileAddress) -> bool {
        let target = target("a", "raw", true);
        let mut spaces = target.spaces.iter();
        let own = spaces.find(|space| (space.plane, space.level) == (tile.plane, tile.level)).unwrap();
        own.slices.contains(&tile.slice) && own.rows.contains(&tile.row) && own.columns.contains(&tile.column)
    }

    #[test]
    fn every_pattern_stays_within_and_is_the_same_again() {
        for pattern in [Pattern::Random, Pattern::Scroll, Pattern::Walk, Pattern::Sweep] {
            let cases = of(pattern);
            assert_eq!(cases.len(), if pattern == Pattern::Walk { 2 } else { 6 }, "{pattern:?}");
            assert!(cases.iter().all(|case| case.tiles.iter().all(is_within)), "{pattern:?}");
            assert!(cases.iter().all(|case| !case.tiles.is_empty() && case.tiles.len() <= COUNT));
            assert_eq!(cases, of(pattern));
        }
        let other = cases(&target("a", "raw", true), &[Pattern::Random], COUNT, 8);
        assert_ne!(other, of(Pattern::Random));
    }

    #[test]
    fn random_tiles_repeat_only_where_there_are_no_others() {
        for case in of(Pattern::Random) {
            let distinct: HashSet<&TileAddress> = case.tiles.iter().collect();
            let target = target("a", "raw", true);
            let mut spaces = target.spaces.iter();
            let own = spaces.find(|s| s.level.number() == case.level && case.planes == [s.plane]).unwrap();
            assert_eq!(distinct.len() as u64, own.count().min(COUNT as u64));
            assert_eq!(case.tiles.len(), COUNT);
        }
    }

    #[test]
    fn a_scroll_moves_by_one_slice_within_its_run() {
        let cases = of(Pattern::Scroll);
        let xz = &cases[1];
        assert_eq!(xz.planes(), "xz");
        for run in xz.tiles.chunks(SCROLL as usize) {
            for pair in run.windows(2) {
                assert_eq!(pair[0].slice.abs_diff(pair[1].slice), 1);
                assert_eq!((pair[0].row, pair[0].column), (pair[1].row, pair[1].column));
            }
        }
    }

    #[test]
    fn a_walk_asks_for_what_changes_in_any_plane() {
        let cases = of(Pattern::Walk);
        assert_eq!(cases[0].planes(), "xy+xz+yz");
        let of = |plane| cases[0].tiles.iter().filter(move |tile| tile.plane == plane);
        for plane in Plane::ALL {
            assert!(of(plane).count() > COUNT / 10, "{plane}");
            assert!(of(plane).zip(of(plane).skip(1)).all(|(one, next)| one != next), "{plane}");
        }
    }

    #[test]
    fn a_walk_through_a_single_voxel_ends() {
        let mut tiny = target("a", "raw", true);
        tiny.spaces.iter_mut().for_each(|space| {
            space.size = Xyz::all(1);
            (space.slices, space.rows, space.columns) = (0..1, 0..1, 0..1);
        });
        assert_eq!(cases(&tiny, &[Pattern::Walk], COUNT, 1)[0].tiles.len(), 3);
    }

    #[test]
    fn a_sweep_is_in_the_order_of_the_ancestors_benchmark() {
        let tiles = &of(Pattern::Sweep)[0].tiles;
        let numbers: Vec<_> = tiles.iter().take(5).map(|t| (t.slice, t.row, t.column)).collect();
        assert_eq!(numbers, [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0)]);
        assert_eq!(tiles.len(), 30 * 4);
    }
}
