//! How busy the render threads are: whoever could use several of them asks whether any are idle.
//!
//! One lonely tile has its chunks decoded by all threads at once. Where several tiles are under way each keeps to one
//! thread, so that no thread that waits for its own chunks picks up another tile meanwhile, and tiles end in order.
//! Work that nobody has asked for yet keeps to one thread too, and gives way as soon as somebody asks for anything.
//!
//! Whoever is going to want all of a volume says so, too: what is decoded for it is decoded whole at once.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The jobs under way; clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Crew(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Jobs that were asked for, waiting or running.
    jobs: AtomicUsize,
    /// Those done ahead, running.
    ahead: AtomicUsize,
}

/// A job's place among those waiting or running; given back when it is dropped.
#[derive(Debug)]
pub struct Place(Crew);

thread_local! {
    /// Whether this thread does something that nobody has asked for.
    static AHEAD: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread works for somebody who is going to want all that lies beside it.
    static THOROUGH: Cell<bool> = const { Cell::new(false) };
}

/// Does something for somebody who is going to want all that lies beside it.
pub fn thoroughly<T>(work: impl FnOnce() -> T) -> T {
    let _working = Thorough(THOROUGH.replace(true));
    work()
}

/// Whether this thread does such work.
pub fn is_thorough() -> bool {
    THOROUGH.get()
}

/// Ends such work also where it panics.
struct Thorough(bool);

impl Drop for Thorough {
    fn drop(&mut self) {
        THOROUGH.set(self.0);
    }
}

impl Crew {
    /// Counts one more job. How many there may be is the render queue's to say.
    pub fn enter(&self) -> Place {
        self.0.jobs.fetch_add(1, Ordering::Relaxed);
        Place(self.clone())
    }

    /// Whether one job has all threads to itself.
    pub fn is_lonely(&self) -> bool {
        self.0.jobs.load(Ordering::Relaxed) <= 1 && self.0.ahead.load(Ordering::Relaxed) == 0
    }

    /// Whether nothing that was asked for is under way, and fewer than `most` threads work ahead.
    pub fn has_time(&self, most: usize) -> bool {
        self.0.jobs.load(Ordering::Relaxed) == 0 && self.0.ahead.load(Ordering::Relaxed) < most
    }

    /// Does something that nobody has asked for; it should ask [`Crew::gives_way`] now and then, and end early.
    pub fn work_ahead<T>(&self, work: impl FnOnce() -> T) -> T {
        let _working = Ahead::begin(self);
        work()
    }

    /// Whether this thread does what nobody has asked for while somebody waits.
    pub fn gives_way(&self) -> bool {
        AHEAD.get() && self.0.jobs.load(Ordering::Relaxed) > 0
    }
}

/// Ends the work also where it panics.
struct Ahead<'a>(&'a Crew);

impl<'a> Ahead<'a> {
    fn begin(crew: &'a Crew) -> Self {
        crew.0.ahead.fetch_add(1, Ordering::Relaxed);
        AHEAD.set(true);
        Self(crew)
    }
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        AHEAD.set(false);
        self.0.0.ahead.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.jobs.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let crew = Crew::default();
        let (one, two) = (crew.enter(), crew.enter());
        assert!(!crew.is_lonely() && !crew.has_time(2));
        drop(one);
        assert!(crew.is_lonely() && !crew.has_time(2));
        drop(two);
        assert!(crew.has_time(2));
    }

    #[test]
    fn work_ahead_gives_way_to_a_job_and_to_nothing_else() {
        let crew = Crew::default();
        assert!(crew.has_time(1));
        crew.work_ahead(|| {
            assert!(!crew.gives_way() && !crew.has_time(1) && crew.has_time(2) && !crew.is_lonely());
            let place = crew.enter();
            assert!(crew.gives_way() && !crew.has_time(2));
            drop(place);
        });
        let _place = crew.enter();
        assert!(crew.is_lonely() && !crew.gives_way());
    }

    #[test]
    fn work_is_thorough_until_it_ends_or_panics() {
        assert!(!is_thorough());
        assert!(thoroughly(|| thoroughly(is_thorough) && is_thorough()));
        assert!(std::panic::catch_unwind(|| thoroughly(|| panic!("on purpose"))).is_err() && !is_thorough());
    }

    #[test]
    fn a_panic_ends_work_ahead() {
        let crew = Crew::default();
        let result = std::panic::catch_unwind(|| crew.work_ahead(|| panic!("on purpose")));
        assert!(result.is_err() && crew.has_time(1));
    }
}
