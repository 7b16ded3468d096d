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

    /// Has a job run; refused where the queue is full. The job is given its place, to give back before it tells
    /// anybody that it is done: who asks again at once must find it free.
    pub fn submit(&self, job: impl FnOnce(Place) + Send + 'static) -> Result<(), Busy> {
        let place =
            Place::take(&self.under_way, self.threads + self.queue).ok_or(Busy { waiting: self.queue })?;
        self.pool.spawn(move || job(place));
        Ok(())
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
        let (release, blocked) = mpsc::channel::<()>();
        let (done, finished) = mpsc::channel();
        pool.submit(move |_place| blocked.recv().unwrap()).unwrap();
        let done_too = done.clone();
        pool.submit(move |_place| done_too.send(1).unwrap()).unwrap();
        assert_eq!(pool.submit(|_| ()), Err(Busy { waiting: 1 }));
        release.send(()).unwrap();
        assert_eq!(finished.recv(), Ok(1));
        while pool.under_way.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        pool.submit(move |_| done.send(2).unwrap()).unwrap();
        assert_eq!(finished.recv(), Ok(2));
    }

    #[test]
    fn a_panic_takes_down_its_job_alone() {
        let pool = RenderPool::new(NonZeroUsize::MIN, 4).unwrap();
        let (done, finished) = mpsc::channel();
        pool.submit(|_| panic!("on purpose")).unwrap();
        pool.submit(move |_| done.send(()).unwrap()).unwrap();
        assert_eq!(finished.recv(), Ok(()));
    }
}
