//! How busy the render threads are: work that could use several threads, or could wait, looks here first.
//!
//! A lone tile has its chunks decoded by all threads at once. If several tiles are being rendered each keeps to one
//! thread, so that no thread that waits for its own chunks starts another tile, and tiles end in order. A prefetch keeps
//! to one thread too, and ends as soon as a request arrives.
//!
//! Pauses between jobs are recorded as well. Pauses mean that a person is looking at the tiles, and that chunks decoded in
//! part can be finished in the next pause; without pauses, chunks are best decoded whole at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The jobs under way; clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Activity(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Jobs that were asked for, waiting or running.
    jobs: AtomicUsize,
    /// Those done ahead, running.
    ahead: AtomicUsize,
    /// Threads that finish chunks that were decoded in part.
    finishing: AtomicUsize,
    /// When the last job ended after which there was none.
    rested: Latest,
    /// When the last pause ended.
    paused: Latest,
}

/// A moment, to be compared with others: nanoseconds since the first one was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
        Self(FIRST.elapsed().as_nanos() as u64)
    }

    fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The latest moment at which something happened, noted by many threads.
#[derive(Debug, Default)]
pub struct Latest(AtomicU64);

impl Latest {
    /// It happens now.
    pub fn note(&self) {
        self.0.store(Moment::now().0, Ordering::Relaxed);
    }

    /// How long ago it was.
    pub fn age(&self) -> Duration {
        Moment::now().since(self.moment())
    }

    fn moment(&self) -> Moment {
        Moment(self.0.load(Ordering::Relaxed))
    }
}

/// How long there must be no job for it to be a pause: longer than a client takes that asks again at once.
const PAUSE: Duration = Duration::from_millis(3);
/// How soon after a pause jobs are still those of somebody who makes pauses: a screen full of tiles.
const LATELY: Duration = Duration::from_millis(250);

/// A job's place among those waiting or running; given back when it is dropped.
#[derive(Debug)]
pub struct Place(Activity);

impl Activity {
    /// Counts one more job. How many there may be is the render queue's to say.
    pub fn enter(&self) -> Place {
        let before = self.0.jobs.fetch_add(1, Ordering::Relaxed);
        if before == 0 && self.0.rested.age() >= PAUSE {
            self.0.paused.note();
        }
        Place(self.clone())
    }

    /// When jobs last paused: now, where they do.
    pub fn last_pause(&self) -> Moment {
        let pauses = self.0.jobs.load(Ordering::Relaxed) == 0 && self.0.rested.age() >= PAUSE;
        if pauses { Moment::now() } else { self.0.paused.moment() }
    }

    /// Whether jobs paused lately, so that they are likely to pause again soon.
    pub fn paused_lately(&self) -> bool {
        Moment::now().since(self.last_pause()) < LATELY
    }

    /// Whether one job has all threads to itself.
    pub fn has_one_job(&self) -> bool {
        self.0.jobs.load(Ordering::Relaxed) <= 1 && self.0.ahead.load(Ordering::Relaxed) == 0
    }

    /// Whether nothing that was asked for is under way, and fewer than `most` threads do anything else.
    pub fn is_idle(&self, most: usize) -> bool {
        let others = self.0.ahead.load(Ordering::Relaxed) + self.0.finishing.load(Ordering::Relaxed);
        self.0.jobs.load(Ordering::Relaxed) == 0 && others < most
    }

    /// Finishes one chunk. Unlike work ahead it does not keep a job from using all threads: it is over in a moment.
    pub fn finish<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.finishing.fetch_add(1, Ordering::Relaxed);
        let _working = Finishing(self);
        work()
    }

    /// Whether a thread is finishing a chunk.
    pub fn is_finishing(&self) -> bool {
        self.0.finishing.load(Ordering::Relaxed) > 0
    }

    /// Runs a prefetch, which should end early once [`Activity::has_jobs`] becomes true.
    pub fn prefetch<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.ahead.fetch_add(1, Ordering::Relaxed);
        let _working = Ahead(self);
        work()
    }

    /// Whether any job waits or runs.
    pub fn has_jobs(&self) -> bool {
        self.0.jobs.load(Ordering::Relaxed) > 0
    }
}

/// Ends the prefetch even if it panics.
struct Ahead<'a>(&'a Activity);

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        self.0.0.ahead.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends the work also where it panics.
struct Finishing<'a>(&'a Activity);

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.0.finishing.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Activity(counts) = &self.0;
        // At every end, and before the count can be 0: nobody must take an earlier rest for this one.
        counts.rested.note();
        counts.jobs.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let activity = Activity::default();
        let (one, two) = (activity.enter(), activity.enter());
        assert!(!activity.has_one_job() && !activity.is_idle(2));
        drop(one);
        assert!(activity.has_one_job() && !activity.is_idle(2));
        drop(two);
        assert!(activity.is_idle(2));
    }

    #[test]
    fn a_prefetch_sees_jobs_and_is_not_one() {
        let activity = Activity::default();
        assert!(activity.is_idle(1));
        activity.prefetch(|| {
            assert!(
                !activity.has_jobs()
                    && !activity.is_idle(1)
                    && activity.is_idle(2)
                    && !activity.has_one_job()
            );
            let place = activity.enter();
            assert!(activity.has_jobs() && !activity.is_idle(2));
            drop(place);
        });
        let _place = activity.enter();
        assert!(activity.has_one_job());
    }

    #[test]
    fn a_pause_is_noted_once_it_is_long_enough() {
        let activity = Activity::default();
        let began = Moment::now();
        drop(activity.enter());
        let place = activity.enter();
        drop(place);
        std::thread::sleep(2 * PAUSE);
        assert!(activity.last_pause() > began && activity.paused_lately());
        let place = activity.enter();
        let pause = activity.last_pause();
        std::thread::sleep(PAUSE);
        assert_eq!(activity.last_pause(), pause, "while a job is under way there is no pause");
        drop(place);
    }

    #[test]
    fn finishing_takes_a_thread_but_leaves_a_lone_job_all_of_them() {
        let activity = Activity::default();
        activity.finish(|| {
            assert!(!activity.is_idle(1) && activity.is_idle(2));
            let _place = activity.enter();
            assert!(activity.has_one_job() && !activity.is_idle(2));
        });
        let result = std::panic::catch_unwind(|| activity.finish(|| panic!("on purpose")));
        assert!(result.is_err() && activity.is_idle(1));
    }

    #[test]
    fn a_panic_ends_a_prefetch() {
        let activity = Activity::default();
        let result = std::panic::catch_unwind(|| activity.prefetch(|| panic!("on purpose")));
        assert!(result.is_err() && activity.is_idle(1));
    }
}
