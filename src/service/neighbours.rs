//! Chooses tiles to prefetch: the neighbours of the slices that were requested last, in the
//! direction of the scroll first.
//!
//! This module only keeps the list. The service renders the tiles while it is idle. The list is
//! bounded: newer tiles displace older ones.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;
use voltile_base::request::TileRequest;

/// The maximum number of tiles in the list: enough for two large screens.
const MAX_TILES: usize = 128;
/// The maximum number of positions at which scrolls are followed: 1024.
const MAX_POSITIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);
/// The maximum number of scrolls followed at one position.
const MAX_SCROLLS: usize = 4;
/// A slice at most this far from the last slice of a scroll continues the scroll.
const MAX_STEP: u64 = 16;

/// The list of tiles to prefetch, and the scrolls that determine it.
#[derive(Debug)]
pub(super) struct Neighbours {
    reach: u32,
    state: Mutex<Scrolls>,
}

#[derive(Debug)]
struct Scrolls {
    /// Newest first.
    tiles: VecDeque<TileRequest>,
    /// The scrolls at each position, the latest first. A position is a request with its slice set
    /// to 0: dataset, channels, time, plane, level, row, column and adjustments.
    by_position: LruCache<TileRequest, Vec<Scroll>>,
}

/// One scroll through the slices at one position.
#[derive(Debug, Clone, Copy)]
struct Scroll {
    /// The slice requested last.
    slice: u64,
    /// Whether the slice has a lower number than the slice requested before it.
    is_backwards: bool,
}

impl Neighbours {
    /// Prefetches `reach` slices in the direction of each scroll and one in the other direction;
    /// none if `reach` is 0.
    pub fn new(reach: u32) -> Self {
        Self {
            reach,
            state: Mutex::new(Scrolls {
                tiles: VecDeque::new(),
                by_position: LruCache::new(MAX_POSITIONS),
            }),
        }
    }

    pub fn is_off(&self) -> bool {
        self.reach == 0
    }

    /// Takes a requested tile as a step of a scroll, and returns its neighbours, the nearest first.
    pub fn note(&self, request: &TileRequest) -> Vec<TileRequest> {
        let mut state = self.state.lock();
        let is_backwards = state.follow(request);
        let direction = if is_backwards { -1 } else { 1 };
        state.tiles.retain(|tile| tile != request);
        let distances = (1..=i64::from(self.reach)).chain([-1]);
        distances
            .filter_map(|distance| {
                let mut neighbour = request.clone();
                let slice = request.address.slice;
                // `None` if the number would be below 0 or overflow.
                neighbour.address.slice = slice.checked_add_signed(direction * distance)?;
                Some(neighbour)
            })
            .collect()
    }

    /// Moves tiles to the front of the list, in this order.
    pub fn add(&self, tiles: Vec<TileRequest>) {
        let mut state = self.state.lock();
        state.tiles.retain(|tile| !tiles.contains(tile));
        for tile in tiles.into_iter().rev() {
            state.tiles.push_front(tile);
        }
        state.tiles.truncate(MAX_TILES);
    }

    pub fn is_empty(&self) -> bool {
        self.state.lock().tiles.is_empty()
    }

    /// Takes the tile that is most likely to be requested next.
    pub fn next(&self) -> Option<TileRequest> {
        self.state.lock().tiles.pop_front()
    }
}

impl Scrolls {
    /// Adds a slice to the scroll that it continues, or to a new one; returns whether that scroll
    /// goes backwards.
    fn follow(&mut self, request: &TileRequest) -> bool {
        let slice = request.address.slice;
        let mut position = request.clone();
        position.address.slice = 0;
        let scrolls = self.by_position.get_or_insert_mut(position, Vec::new);
        let nearest = (0..scrolls.len()).min_by_key(|at| scrolls[*at].slice.abs_diff(slice));
        let continued = nearest.filter(|at| scrolls[*at].slice.abs_diff(slice) <= MAX_STEP);
        let mut is_backwards = false;
        if let Some(at) = continued {
            let before = scrolls.remove(at);
            is_backwards = slice < before.slice || (slice == before.slice && before.is_backwards);
        }
        scrolls.insert(
            0,
            Scroll {
                slice,
                is_backwards,
            },
        );
        scrolls.truncate(MAX_SCROLLS);
        is_backwards
    }
}

#[cfg(test)]
mod tests {
    use voltile_base::request::TilePath;

    use super::*;

    fn tile(dataset: &str, slice: u64) -> TileRequest {
        let path = format!("/ndtilecache/tilecache/{dataset}/b/xy/{slice}/0_0_0.png");
        TilePath::split(&path).unwrap().unwrap().request().unwrap()
    }

    fn prefetched(asked: &[u64]) -> Vec<u64> {
        let neighbours = Neighbours::new(2);
        asked
            .iter()
            .for_each(|slice| neighbours.add(neighbours.note(&tile("a", *slice))));
        std::iter::from_fn(|| neighbours.next())
            .map(|tile| tile.address.slice)
            .collect()
    }

    /// How many requests of a scroll were prefetched, if every neighbour is rendered before the
    /// next request.
    fn hits(asked: impl IntoIterator<Item = TileRequest>) -> usize {
        let (neighbours, mut rendered, mut hits) = (Neighbours::new(2), Vec::new(), 0);
        for tile in asked {
            hits += usize::from(rendered.contains(&tile));
            neighbours.add(neighbours.note(&tile));
            rendered.extend(std::iter::from_fn(|| neighbours.next()).take(2));
        }
        hits
    }

    #[test]
    fn the_direction_of_the_scroll_comes_first() {
        assert_eq!(prefetched(&[10]), [11, 12, 9]);
        assert_eq!(prefetched(&[10, 11]), [12, 13, 10, 9]);
        assert_eq!(prefetched(&[10, 9]), [8, 7, 10, 11, 12]);
    }

    #[test]
    fn the_first_slice_has_none_before_it_and_the_list_is_bounded() {
        assert_eq!(prefetched(&[0]), [1, 2]);
        assert_eq!(prefetched(&[u64::MAX]), [u64::MAX - 1]);
        assert_eq!(
            prefetched(&(0..1000).map(|n| 100 * n).collect::<Vec<_>>()).len(),
            MAX_TILES
        );
    }

    #[test]
    fn interleaved_scrolls_are_followed_as_well_as_each_alone() {
        let up = |dataset: &'static str| (100..130).map(move |slice| tile(dataset, slice));
        let down = |dataset: &'static str| (400..430).rev().map(move |slice| tile(dataset, slice));
        let alone = hits(up("a")) + hits(down("a"));
        assert_eq!(
            alone,
            29 + 28,
            "the second request shows where a scroll goes"
        );
        for other in ["a", "b"] {
            let both = up("a").zip(down(other)).flat_map(|(one, two)| [one, two]);
            assert_eq!(hits(both), alone, "{other}");
        }
    }
}
