//! How busy the render threads are: whoever could use several of them asks whether any are idle.
//!
//! One lonely tile has its chunks decoded by all threads at once. Where several tiles are under way each keeps to one
//! thread, so that no thread that waits for its own chunks picks up another tile meanwhile, and tiles end in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The jobs under way; clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Crew(Arc<AtomicUsize>);

/// A job's place among those waiting or running; given back when it is dropped.
#[derive(Debug)]
pub struct Place(Crew);

impl Crew {
    /// Takes a place, where fewer than `most` are taken.
    pub fn take(&self, most: usize) -> Option<Place> {
        let more = |count| (count < most).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place(self.clone()))
    }

    /// Whether at most one job is under way, so that other threads have nothing to do.
    pub fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= 1
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let crew = Crew::default();
        let (one, two) = (crew.take(2).unwrap(), crew.take(2).unwrap());
        assert!(crew.take(2).is_none() && !crew.is_idle());
        drop(one);
        assert!(crew.is_idle() && crew.take(2).is_some());
        drop(two);
    }
}
