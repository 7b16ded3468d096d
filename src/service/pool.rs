//! The render threads, behind a queue of bounded length.

use std::num::NonZeroUsize;

use crate::crew::{Crew, Place};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Too many renders are waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("as many tiles are being drawn as can be, and {waiting} wait already; ask again in a moment")]
pub struct Busy {
    /// How many.
    pub waiting: usize,
}

/// A rayon pool that takes no more than it can keep waiting.
#[derive(Debug)]
pub struct RenderPool {
    pool: ThreadPool,
    crew: Crew,
    threads: usize,
    queue: usize,
}

impl RenderPool {
    /// `threads` render threads, with room for `queue` jobs that wait for one; `crew` counts them all.
    pub fn new(threads: NonZeroUsize, queue: usize, crew: Crew) -> Result<Self, ThreadPoolBuildError> {
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
        Ok(Self { pool, crew, threads: threads.get(), queue })
    }

    /// A place for a job; refused where the queue is full.
    pub fn reserve(&self) -> Result<Place, Busy> {
        self.crew.take(self.threads + self.queue).ok_or(Busy { waiting: self.queue })
    }

    /// Whether nothing that was asked for is under way, and a thread is free.
    pub fn has_time(&self) -> bool {
        self.crew.has_time(self.threads)
    }

    /// How many render threads there are.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The count of jobs under way.
    pub fn crew(&self) -> &Crew {
        &self.crew
    }

    /// Has a job run, which holds the place reserved for it until it ends, or for as long as it likes.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.pool.spawn(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_full_queue_refuses_and_an_emptied_one_takes_again() {
        let pool = RenderPool::new(NonZeroUsize::MIN, 1, Crew::default()).unwrap();
        let (running, waiting) = (pool.reserve().unwrap(), pool.reserve().unwrap());
        assert_eq!(pool.reserve().err(), Some(Busy { waiting: 1 }));
        drop(running);
        assert!(pool.reserve().is_ok());
        drop(waiting);
    }

    #[test]
    fn a_panic_takes_down_its_job_alone_and_gives_back_its_place() {
        let pool = RenderPool::new(NonZeroUsize::MIN, 0, Crew::default()).unwrap();
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
