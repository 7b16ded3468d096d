//! The order in which tiles are requested: at random, scrolling, walking, or all of them.
//!
//! All are seeded: the same seed gives the same tiles.

use std::collections::HashSet;

use fastrand::Rng;
use serde::Serialize;

use super::target::{Space, Target};
use crate::base::request::TileRequest;
use crate::geometry::{Axis, TileAddress, Xyz};

/// How many slices a scroll goes through before it starts elsewhere: the usual depth of a chunk.
const SCROLL: u64 = 64;
/// How many steps in a row a walk takes in one direction.
const STRIDE: std::ops::RangeInclusive<u64> = 4..=32;

/// An order in which tiles are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Tiles of the level in random order, all of them before any is repeated: consecutive tiles
    /// rarely share chunks.
    Random,
    /// Runs of neighbouring slices at one place, up or down.
    Scroll,
    /// Steps of one voxel through the volume, with the tile of each plane that contains it: three
    /// linked planes.
    Walk,
    /// Every tile of the first slice, then of the next: the order of ndtilecache's benchmark.
    Sweep,
}

impl Pattern {
    /// All patterns: the name of each on the command line, and what it is.
    pub const ALL: &'static [(Pattern, &'static str, &'static str)] = &[
        (
            Pattern::Random,
            "random",
            "Tiles of the level in random order, all of them before any is repeated: consecutive tiles rarely share chunks",
        ),
        (
            Pattern::Scroll,
            "scroll",
            "Runs of neighbouring slices at one place, up or down",
        ),
        (
            Pattern::Walk,
            "walk",
            "Steps of one voxel through the volume, with the tile of each plane that contains it: three linked planes",
        ),
        (
            Pattern::Sweep,
            "sweep",
            "Every tile of the first slice, then of the next: the order of ndtilecache's benchmark",
        ),
    ];

    /// The patterns measured by default.
    pub const USUAL: [Pattern; 3] = [Pattern::Random, Pattern::Scroll, Pattern::Walk];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(pattern, ..)| *pattern == self)
            .map_or("", |(_, name, _)| name)
    }
}

/// The tiles that a row measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Course {
    /// The dataset.
    pub token: String,
    /// The channel.
    pub channel: String,
    /// The plane, or several joined by `+`.
    pub plane: String,
    /// The level.
    pub level: u8,
    /// The order in which tiles were requested.
    pub pattern: Pattern,
}

/// What one row measures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    pub course: Course,
    /// At least one.
    pub tiles: Vec<TileRequest>,
}

/// The cases of a channel: for each level every pattern in every plane, and the walk through all of
/// them at once.
pub(super) fn cases(target: &Target, patterns: &[Pattern], most: usize, seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for spaces in target.spaces.chunk_by(|one, next| one.level == next.level) {
        let level = spaces[0].level.number();
        let mut add = |pattern: Pattern, spaces: &[Space]| {
            let rng = Rng::with_seed(seed ^ u64::from(level) << 32);
            let planes: Vec<&str> = spaces.iter().map(|space| space.plane.name()).collect();
            let (token, channel) = (target.token.to_string(), target.channel.to_string());
            let course = Course {
                token,
                channel,
                plane: planes.join("+"),
                level,
                pattern,
            };
            let tiles = tiles(pattern, spaces, most.max(1), rng);
            cases.push(Case {
                course,
                tiles: tiles.into_iter().map(|tile| target.request(tile)).collect(),
            });
        };
        for space in spaces {
            let by_plane = patterns.iter().filter(|pattern| **pattern != Pattern::Walk);
            by_plane.for_each(|pattern| add(*pattern, std::slice::from_ref(space)));
        }
        if patterns.contains(&Pattern::Walk) {
            add(Pattern::Walk, spaces);
        }
    }
    cases
}

impl Target {
    /// The tiles that a row of [`Pattern::Random`] draws of the first level in the first plane, at
    /// most `most`, to draw the same ones in another way.
    pub fn random(&self, most: usize, seed: u64) -> Vec<TileAddress> {
        let case = cases(self, &[Pattern::Random], most, seed)
            .into_iter()
            .next();
        case.map(|case| case.tiles.iter().map(|tile| tile.address).collect())
            .unwrap_or_default()
    }
}

fn tiles(pattern: Pattern, spaces: &[Space], most: usize, mut rng: Rng) -> Vec<TileAddress> {
    match (pattern, spaces) {
        (Pattern::Walk, spaces) => walk(spaces, most, &mut rng),
        (Pattern::Random, [space]) => random(space, most, &mut rng),
        (Pattern::Scroll, [space]) => scroll(space, most, &mut rng),
        (_, spaces) => spaces.iter().flat_map(sweep).take(most).collect(),
    }
}

fn any(space: &Space, rng: &mut Rng) -> TileAddress {
    let [slice, row, column] =
        [&space.slices, &space.rows, &space.columns].map(|range| rng.u64(range.clone()));
    space.address(slice, row, column)
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
        let run = (0..length).map(|n| TileAddress {
            slice: begin + n,
            ..place
        });
        if rng.bool() {
            tiles.extend(run);
        } else {
            tiles.extend(run.rev());
        }
    }
    tiles.truncate(most);
    tiles
}

fn walk(spaces: &[Space], most: usize, rng: &mut Rng) -> Vec<TileAddress> {
    // Limits the walk where no step changes a tile, as in a volume of one voxel.
    const STEPS: usize = 64;
    let Some(size) = spaces
        .first()
        .map(|space| space.size.map(|extent| extent.max(1)))
    else {
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
        space.rows.clone().flat_map(move |row| {
            space
                .columns
                .clone()
                .map(move |column| space.address(slice, row, column))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::target::tests::target;
    use super::*;
    use crate::geometry::Plane;

    const COUNT: usize = 200;

    fn case(pattern: Pattern) -> Vec<Case> {
        cases(&target(), &[pattern], COUNT, 7)
    }

    fn is_within(TileRequest { address: tile, .. }: &TileRequest) -> bool {
        let target = target();
        let mut spaces = target.spaces.iter();
        let own = spaces
            .find(|space| (space.plane, space.level) == (tile.plane, tile.level))
            .unwrap();
        own.slices.contains(&tile.slice)
            && own.rows.contains(&tile.row)
            && own.columns.contains(&tile.column)
    }

    #[test]
    fn every_pattern_stays_within_and_is_the_same_again() {
        for pattern in [
            Pattern::Random,
            Pattern::Scroll,
            Pattern::Walk,
            Pattern::Sweep,
        ] {
            let cases = case(pattern);
            assert_eq!(
                cases.len(),
                if pattern == Pattern::Walk { 2 } else { 6 },
                "{pattern:?}"
            );
            assert!(
                cases.iter().all(|case| case.tiles.iter().all(is_within)),
                "{pattern:?}"
            );
            assert!(
                cases
                    .iter()
                    .all(|case| !case.tiles.is_empty() && case.tiles.len() <= COUNT)
            );
            assert_eq!(cases, case(pattern));
        }
        let other = cases(&target(), &[Pattern::Random], COUNT, 8);
        assert_ne!(other, case(Pattern::Random));
    }

    #[test]
    fn random_tiles_repeat_only_where_there_are_no_others() {
        for case in case(Pattern::Random) {
            let distinct: HashSet<TileAddress> =
                case.tiles.iter().map(|tile| tile.address).collect();
            let target = target();
            let mut spaces = target.spaces.iter();
            let is_own = |s: &&Space| {
                (s.level.number(), s.plane.name()) == (case.course.level, &case.course.plane)
            };
            let own = spaces.find(is_own).unwrap();
            assert_eq!(distinct.len() as u64, own.count().min(COUNT as u64));
            assert_eq!(case.tiles.len(), COUNT);
        }
    }

    #[test]
    fn a_scroll_moves_by_one_slice_within_its_run() {
        let cases = case(Pattern::Scroll);
        let xz = &cases[1];
        assert_eq!(xz.course.plane, "xz");
        for run in xz.tiles.chunks(SCROLL as usize) {
            for pair in run.windows(2) {
                let [one, next] = [pair[0].address, pair[1].address];
                assert_eq!(one.slice.abs_diff(next.slice), 1);
                assert_eq!((one.row, one.column), (next.row, next.column));
            }
        }
    }

    #[test]
    fn a_walk_asks_for_what_changes_in_any_plane() {
        let cases = case(Pattern::Walk);
        assert_eq!(cases[0].course.plane, "xy+xz+yz");
        let in_plane = |plane| {
            cases[0]
                .tiles
                .iter()
                .filter(move |tile| tile.address.plane == plane)
        };
        for plane in Plane::ALL {
            assert!(in_plane(plane).count() > COUNT / 10, "{plane}");
            assert!(
                in_plane(plane)
                    .zip(in_plane(plane).skip(1))
                    .all(|(one, next)| one != next),
                "{plane}"
            );
        }
    }

    #[test]
    fn a_walk_through_a_single_voxel_ends() {
        let mut tiny = target();
        tiny.spaces.iter_mut().for_each(|space| {
            space.size = Xyz::all(1);
            (space.slices, space.rows, space.columns) = (0..1, 0..1, 0..1);
        });
        assert_eq!(cases(&tiny, &[Pattern::Walk], COUNT, 1)[0].tiles.len(), 3);
    }

    #[test]
    fn a_sweep_is_in_the_order_of_the_ancestors_benchmark() {
        let tiles = &case(Pattern::Sweep)[0].tiles;
        let numbers: Vec<_> = tiles
            .iter()
            .take(5)
            .map(|t| (t.address.slice, t.address.row, t.address.column))
            .collect();
        assert_eq!(
            numbers,
            [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0)]
        );
        assert_eq!(tiles.len(), 30 * 4);
    }
}
