//! Which tiles may be asked for next: the slices beside those asked for last, in the direction of the scroll first.
//!
//! Only a list of wishes. The service renders them while nothing else is to be done; what is not rendered in time is
//! forgotten when newer wishes push it out.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::request::TileRequest;

/// The most wishes: those of a large screen full of tiles.
const MOST: usize = 64;

/// The wishes, newest first.
#[derive(Debug)]
pub(super) struct Neighbours {
    reach: u32,
    wishes: Mutex<Wishes>,
}

#[derive(Debug, Default)]
struct Wishes {
    tiles: VecDeque<TileRequest>,
    /// The slice asked for last, and whether it was behind the one before.
    last: u64,
    backwards: bool,
}

impl Neighbours {
    /// Wishes for `reach` slices in the direction of the scroll; none for 0.
    pub fn new(reach: u32) -> Self {
        Self { reach, wishes: Mutex::default() }
    }

    /// Whether nothing is ever wished for.
    pub fn is_off(&self) -> bool {
        self.reach == 0
    }

    /// Puts the neighbours of a tile that was asked for in front of older wishes.
    pub fn note(&self, asked: &TileRequest) {
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        let slice = asked.address.slice;
        if slice != wishes.last {
            wishes.backwards = slice < wishes.last;
            wishes.last = slice;
        }
        let (ahead, behind) = if wishes.backwards { (-1, 1) } else { (1, -1) };
        let distances = (1..=i64::from(self.reach)).map(|n| ahead * n);
        let wished: Vec<TileRequest> = distances.chain([behind]).filter_map(|by| beside(asked, by)).collect();
        wishes.tiles.retain(|tile| tile != asked && !wished.contains(tile));
        // The nearest in front.
        wished.into_iter().rev().for_each(|tile| wishes.tiles.push_front(tile));
        wishes.tiles.truncate(MOST);
    }

    /// Takes the wish most likely to come true.
    pub fn next(&self) -> Option<TileRequest> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner).tiles.pop_front()
    }
}

/// The same tile some slices further; `None` where there is no such number.
fn beside(tile: &TileRequest, by: i64) -> Option<TileRequest> {
    let mut beside = tile.clone();
    beside.address.slice = tile.address.slice.checked_add_signed(by)?;
    Some(beside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::TilePath;

    fn tile(slice: u64) -> TileRequest {
        let path = format!("/ndtilecache/tilecache/a/b/xy/{slice}/0_0_0.png");
        TilePath::split(&path).unwrap().unwrap().request().unwrap()
    }

    fn wishes(asked: &[u64]) -> Vec<u64> {
        let neighbours = Neighbours::new(2);
        asked.iter().for_each(|slice| neighbours.note(&tile(*slice)));
        std::iter::from_fn(|| neighbours.next()).map(|tile| tile.address.slice).collect()
    }

    #[test]
    fn wishes_follow_the_scroll() {
        assert_eq!(wishes(&[10]), [11, 12, 9]);
        assert_eq!(wishes(&[10, 11]), [12, 13, 10, 9]);
        assert_eq!(wishes(&[10, 9]), [8, 7, 10, 11, 12]);
    }

    #[test]
    fn the_first_slice_has_none_before_it_and_wishes_are_bounded() {
        assert_eq!(wishes(&[0]), [1, 2]);
        assert_eq!(wishes(&[u64::MAX]), [u64::MAX - 1]);
        assert_eq!(wishes(&(0..1000).map(|n| 10 * n).collect::<Vec<_>>()).len(), MOST);
    }
}
