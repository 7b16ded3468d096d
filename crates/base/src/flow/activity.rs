//! How busy the render threads are: consulted before work is shared with other threads, and before
//! idle work.
//!
//! If only one tile is being rendered, all threads decode its chunks. If there are several, each
//! uses one thread: a thread that waits for chunks of its tile must not start another tile, and
//! tiles finish in order. A prefetch uses one thread too, and ends as soon as a request arrives.
//!
//! Pauses between jobs are recorded as well. Pauses mean that a person is looking at the tiles, and
//! that chunks decoded in part can be finished in the next pause. Without pauses it is cheaper to
//! decode chunks whole at once.
//!
//! Threads that are stuck ([`crate::flow::stalls`]) do not count.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::{Scope, ThreadPool};

/// Counts the jobs that wait or run; clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Activity(Arc<ActivityCounts>);

#[derive(Debug, Default)]
struct ActivityCounts {
    /// Jobs for requests, waiting or running.
    jobs: AtomicUsize,
    /// Threads that run a prefetch.
    prefetching: AtomicUsize,
    /// Threads that finish a chunk.
    finishing: AtomicUsize,
    /// Threads that run jobs and are stuck.
    stuck_jobs: AtomicUsize,
    /// Threads that prefetch or finish chunks and are stuck.
    stuck_idle: AtomicUsize,
    /// The threads with which a job shares its work, unless jobs run on rayon's own threads; and a
    /// lock that the job holds meanwhile.
    helpers: OnceLock<(ThreadPool, Mutex<()>)>,
    /// When a job last ended.
    job_ended: Latest,
    /// When the last pause ended.
    pause_ended: Latest,
}

/// When an event last happened; shared by threads.
#[derive(Debug)]
pub struct Latest {
    created: Instant,
    /// Nanoseconds since `created`.
    last: AtomicU64,
}

impl Default for Latest {
    /// Counts the creation as an event.
    fn default() -> Self {
        Self {
            created: Instant::now(),
            last: AtomicU64::new(0),
        }
    }
}

impl Latest {
    /// Notes that the event happens now.
    pub fn note(&self) {
        self.last
            .store(self.created.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// The time since the last event.
    pub fn age(&self) -> Duration {
        self.instant().elapsed()
    }

    fn instant(&self) -> Instant {
        self.created + Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }
}

/// The shortest time without a job that counts as a pause: longer than a client needs to send its
/// next request.
const PAUSE: Duration = Duration::from_millis(3);
/// How long after a pause jobs count as the jobs of a person: the time in which a screen full of
/// tiles is requested.
const LATELY: Duration = Duration::from_millis(250);

/// A job that an [`Activity`] counts; dropping it ends the job.
#[derive(Debug)]
pub struct Place(Activity);

impl Activity {
    /// Counts one more job. The render queue limits the number of jobs, this does not.
    pub fn enter(&self) -> Place {
        let before = self.0.jobs.fetch_add(1, Ordering::Relaxed);
        if self.besides_stuck_jobs(before) == 0 && self.0.job_ended.age() >= PAUSE {
            self.0.pause_ended.note();
        }
        Place(self.clone())
    }

    /// The end of the last pause, or the current time during one.
    pub fn last_pause(&self) -> Instant {
        let pauses = !self.has_jobs() && self.0.job_ended.age() >= PAUSE;
        if pauses {
            Instant::now()
        } else {
            self.0.pause_ended.instant()
        }
    }

    /// Whether the last pause was less than 250 ms ago, so that another one is likely soon.
    pub fn paused_lately(&self) -> bool {
        self.last_pause().elapsed() < LATELY
    }

    /// Has jobs share their work with these threads. Only the first call has an effect.
    pub fn use_helpers(&self, helpers: ThreadPool) {
        self.0.helpers.get_or_init(|| (helpers, Mutex::default()));
    }

    /// Notes how many threads are stuck. It is not known what each of them does, so threads that
    /// prefetch or finish chunks are assumed to be stuck before threads that run jobs: a job that
    /// does run must not be assumed to be stuck, or idle work would go on beside it.
    pub fn set_stuck(&self, threads: usize) {
        let idle = threads.min(self.idle_threads());
        self.0.stuck_idle.store(idle, Ordering::Relaxed);
        self.0.stuck_jobs.store(threads - idle, Ordering::Relaxed);
    }

    fn idle_threads(&self) -> usize {
        self.0.prefetching.load(Ordering::Relaxed) + self.0.finishing.load(Ordering::Relaxed)
    }

    /// Runs `work` on the calling thread and on all other threads, if there are several and the
    /// calling job is the only one. Otherwise runs nothing and returns `false`.
    ///
    /// No other job uses the helpers meanwhile: it would wait for threads that read this job's
    /// file, which may be stuck.
    pub fn share(&self, work: impl Fn() + Sync) -> bool {
        if !self.has_one_job() {
            return false;
        }
        let Some((helpers, in_use)) = self.0.helpers.get() else {
            let threads = rayon::current_num_threads();
            if threads > 1 {
                rayon::in_place_scope(|scope| run_on_all(scope, threads, &work));
            }
            return threads > 1;
        };
        let threads = helpers.current_num_threads();
        if threads <= 1 {
            return false;
        }
        let Some(_in_use) = in_use.try_lock() else {
            return false;
        };
        helpers.in_place_scope(|scope| run_on_all(scope, threads, &work));
        true
    }

    /// Whether there is at most one job, and no prefetch: it may use all threads.
    fn has_one_job(&self) -> bool {
        self.besides_stuck_jobs(self.0.jobs.load(Ordering::Relaxed)) <= 1
            && self.besides_stuck_idle(self.0.prefetching.load(Ordering::Relaxed)) == 0
    }

    /// A number of jobs without the stuck ones.
    fn besides_stuck_jobs(&self, jobs: usize) -> usize {
        jobs.saturating_sub(self.0.stuck_jobs.load(Ordering::Relaxed))
    }

    /// A number of threads that prefetch or finish chunks, without the stuck ones.
    fn besides_stuck_idle(&self, threads: usize) -> usize {
        threads.saturating_sub(self.0.stuck_idle.load(Ordering::Relaxed))
    }

    /// Whether there is no job, and fewer than `most` threads prefetch or finish chunks.
    pub fn is_idle(&self, most: usize) -> bool {
        !self.has_jobs() && self.besides_stuck_idle(self.idle_threads()) < most
    }

    /// Runs the finishing of one chunk. Unlike a prefetch it does not keep a job from using all
    /// threads: it is short.
    pub fn finish<T>(&self, work: impl FnOnce() -> T) -> T {
        let _working = IdleWork::begin(&self.0.finishing);
        work()
    }

    /// Whether a thread is finishing a chunk.
    pub fn is_finishing(&self) -> bool {
        self.0.finishing.load(Ordering::Relaxed) > 0
    }

    /// Runs a prefetch, which should end early once [`Activity::has_jobs`] becomes true.
    pub fn prefetch<T>(&self, work: impl FnOnce() -> T) -> T {
        let _working = IdleWork::begin(&self.0.prefetching);
        work()
    }

    /// Whether any job waits or runs.
    pub fn has_jobs(&self) -> bool {
        self.besides_stuck_jobs(self.0.jobs.load(Ordering::Relaxed)) > 0
    }
}

/// Runs `work` on `threads` threads, one of which is the calling one: it begins while the others
/// are being woken.
fn run_on_all<'s>(scope: &Scope<'s>, threads: usize, work: &'s (impl Fn() + Sync)) {
    scope.spawn(move |_| {
        let others = (1..threads).into_par_iter().with_max_len(1);
        others.for_each(|_| work());
    });
    work();
}

/// Counts a piece of idle work until it is dropped, also by a panic.
struct IdleWork<'a>(&'a AtomicUsize);

impl<'a> IdleWork<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for IdleWork<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Activity(counts) = &self.0;
        // The time is set before the count becomes 0: a thread that sees 0 must not read the time
        // at which an earlier job ended.
        counts.job_ended.note();
        counts.jobs.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

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
        let began = Instant::now();
        drop(activity.enter());
        let place = activity.enter();
        drop(place);
        std::thread::sleep(2 * PAUSE);
        assert!(activity.last_pause() > began && activity.paused_lately());
        let place = activity.enter();
        let pause = activity.last_pause();
        std::thread::sleep(PAUSE);
        assert_eq!(
            activity.last_pause(),
            pause,
            "while a job is under way there is no pause"
        );
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
        let result = catch_unwind(AssertUnwindSafe(|| {
            activity.finish(|| panic!("on purpose"))
        }));
        assert!(result.is_err() && activity.is_idle(1));
    }

    #[test]
    fn a_panic_ends_a_prefetch() {
        let activity = Activity::default();
        let result = catch_unwind(AssertUnwindSafe(|| {
            activity.prefetch(|| panic!("on purpose"))
        }));
        assert!(result.is_err() && activity.is_idle(1));
    }
}
