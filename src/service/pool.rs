//! The render threads, behind the render queue.
//!
//! At most as many jobs as there are threads are handed to rayon at once, so that the order in which jobs are rendered is
//! the queue's. A job that ends has the next one started. A waiting job whose requests were all dropped leaves the queue
//! at once.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use super::client::Demand;
use super::job::Job;
use super::queue::{Number, Queue};
use crate::activity::{Activity, Place};
use crate::tile::{Fingerprint, TileKey};

/// Too many renders are waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the render queue is full: {waiting} tiles wait to be rendered; ask again in a moment")]
pub struct Busy {
    /// How many.
    pub waiting: usize,
}

/// What a job brings, for which others may ask while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Brings {
    /// A tile.
    Tile(TileKey),
    /// A channel's sample.
    Survey(Fingerprint),
}

/// A rayon pool that takes no more than it can keep waiting; clones share it.
#[derive(Debug, Clone)]
pub struct RenderPool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: ThreadPool,
    activity: Activity,
    threads: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    waiting: Queue<Brings, Waiting>,
    running: usize,
}

/// A job that is not running yet, and its place among all that were asked for.
struct Waiting {
    place: Place,
    job: Box<dyn Job>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

/// The turn of a running job. When it is dropped, also by a panic, the next job is started.
pub(super) struct Turn {
    pool: RenderPool,
    place: Option<Place>,
}

/// A request that waits for a job in the queue. Whoever waits holds it: when it is dropped, nobody waits any more.
#[must_use]
pub(super) struct Seat {
    pool: RenderPool,
    brings: Option<Brings>,
    job: Number,
    demand: Demand,
}

impl RenderPool {
    /// `threads` render threads, with room for `queue` jobs that wait for one; `activity` counts them all.
    pub fn new(
        threads: NonZeroUsize,
        queue: usize,
        activity: Activity,
    ) -> Result<Self, ThreadPoolBuildError> {
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
        let threads = threads.get();
        let state = Mutex::new(State { waiting: Queue::new(queue, threads), running: 0 });
        Ok(Self(Arc::new(Shared { pool, activity, threads, state })))
    }

    /// Whether nothing that was asked for is under way, and a thread is free.
    pub fn is_idle(&self) -> bool {
        self.0.activity.is_idle(self.0.threads)
    }

    /// How many jobs wait for a thread.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// How many render threads there are.
    pub fn threads(&self) -> usize {
        self.0.threads
    }

    /// The count of jobs under way.
    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// Has work done that nobody has asked for, past the queue.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) {
        self.0.pool.spawn(work);
    }

    /// Has a job run as soon as it is its turn, or refuses it where there is no room. The seat is to be held while its
    /// result is waited for; there is none where the job does not wait.
    pub(super) fn submit(&self, brings: Option<Brings>, demand: Demand, job: Box<dyn Job>) -> Option<Seat> {
        let job = self.start_or_queue(brings, demand, job)?;
        Some(Seat { pool: self.clone(), brings, job, demand })
    }

    /// Adds a request for what a job brings, so that it is rendered when it would be for this client. `None` where no job
    /// waits with it, which most likely runs already.
    pub(super) fn join(&self, brings: Brings, demand: Demand) -> Option<Seat> {
        let job = self.lock().waiting.join(&brings, demand, Instant::now())?;
        Some(Seat { pool: self.clone(), brings: Some(brings), job, demand })
    }

    fn start_or_queue(&self, brings: Option<Brings>, demand: Demand, job: Box<dyn Job>) -> Option<Number> {
        let waiting = Waiting { place: self.0.activity.enter(), job };
        let mut state = self.lock();
        if state.running < self.0.threads {
            state.running += 1;
            state.waiting.started(demand);
            drop(state);
            self.start(waiting);
            return None;
        }
        let entered = state.waiting.push(brings, demand, waiting, Instant::now());
        let busy = Busy { waiting: state.waiting.len() };
        drop(state);
        let (number, loser) = match entered {
            Ok(entered) => (Some(entered.job), entered.displaced),
            Err(refused) => (None, Some(refused)),
        };
        if let Some(Waiting { place, job }) = loser {
            drop(place);
            job.refuse(busy);
        }
        number
    }

    fn start(&self, Waiting { place, job }: Waiting) {
        let turn = Turn { pool: self.clone(), place: Some(place) };
        self.0.pool.spawn(move || {
            if let Some(job) = job.if_wanted() {
                job.run(turn);
            }
        });
    }

    /// Starts the next job in the place of one that has ended.
    fn start_next(&self) {
        let mut state = self.lock();
        let next = state.waiting.take(Instant::now());
        if next.is_none() {
            state.running -= 1;
        }
        drop(state);
        if let Some(next) = next {
            self.start(next);
        }
    }

    fn leave(&self, seat: &Seat) {
        let left = self.lock().waiting.leave(seat.job, seat.demand);
        // Somebody may have joined the flight and not the queue, who asked in the moment between the two: then the job
        // stays. All else that waited for it has gone.
        if let Some(Waiting { place, job }) = left
            && let Some(job) = job.if_wanted()
        {
            drop(place);
            self.start_or_queue(seat.brings, seat.demand, job);
        }
    }

    /// A poisoned lock is taken as it is: nothing panics while it is held half-changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Before the next one: who counts the jobs must not see both.
        self.place = None;
        self.pool.start_next();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.pool.leave(self);
    }
}

#[cfg(test)]
mod tests;
