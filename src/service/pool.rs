//! The render threads, behind a queue of bounded length.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Too many renders are waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} renders are waiting already; ask again in a moment")]
pub struct Busy {
    /// How many.
    pub waiting: usize,
}

/// A rayon pool that takes no more than it can keep waiting.
#[derive(Debug)]
pub struct RenderPool {
    pool: ThreadPool,
    under_way: Arc<AtomicUsize>,
    threads: usize,
    queue: usize,
}

impl RenderPool {
    /// `threads` render threads, with room for `queue` jobs that wait for one.
    pub fn new(threads: NonZeroUsize, queue: usize) -> Result<Self, ThreadPoolBuildError> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads.get())
            .thread_name(|index| format!("render-{index}"))
            // Without a handler rayon ends the process; what the job held has woken its waiters by unwinding.
            .panic_handler(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                tracing::error!("a render thread panicked, which is a defect of this program: {text}");
            })
            .build()?;
        Ok(Self { pool, under_way: Arc::default(), threads: threads.get(), queue })
    }

    /// A place for a job; refused where the queue is full.
    pub fn reserve(&self) -> Result<Place, Busy> {
        Place::take(&self.under_way, self.threads + self.queue).ok_or(Busy { waiting: self.queue })
    }

    /// Has a job run, which holds the place reserved for it until it ends, or for as long as it likes.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.pool.spawn(job);
    }
}

/// A job's place among those waiting or running; given back however the job ends.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(under_way: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |count| (count < most).then_some(count + 1);
        under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place(Arc::clone(under_way)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_full_queue_refuses_and_an_emptied_one_takes_again() {
        let pool = RenderPool::new(NonZeroUsize::MIN, 1).unwrap();
        let (running, waiting) = (pool.reserve().unwrap(), pool.reserve().unwrap());
        assert_eq!(pool.reserve().err(), Some(Busy { waiting: 1 }));
        drop(running);
        assert!(pool.reserve().is_ok());
        drop(waiting);
    }

    #[test]
    fn a_panic_takes_down_its_job_alone_and_gives_back_its_place() {
        let pool = RenderPool::new(NonZeroUsize::MIN, 0).unwrap();
        let (done, finished) = mpsc::channel();
        let place = pool.reserve().unwrap();
        pool.run(move || {
            let _place = place;
            panic!("on purpose");
        });
        pool.run(move || done.send(()).unwrap());
        assert_eq!(finished.recv(), Ok(()));
        assert!(pool.reserve().is_ok());
    }
}
