//! The render threads, and the queue in front of them.
//!
//! At most one job per thread is started at a time, so that jobs run in the order of the queue.
//! Each job that ends starts the next. A waiting job leaves the queue as soon as all of its
//! requests have been dropped. Idle work takes the place of a job, which it gives back as soon as a
//! job waits: together, jobs and idle work that wait for one file take at most as many threads as
//! render, so that there is a thread to replace each of them.
//!
//! The threads are those of a tokio runtime for blocking work, which starts more when some are
//! stuck ([`voltile_base::flow::stalls`]). They are not rayon's: a thread of rayon that waits for
//! work that it has split takes up other jobs meanwhile, and could then not continue while such a
//! job is stuck.

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rayon::ThreadPoolBuilder;
use tokio::runtime::Runtime;
use voltile_base::flow::activity::{Activity, Place};
use voltile_base::flow::stalls::Stalls;
use voltile_base::tile::{Fingerprint, TileKey};

use super::client::Demand;
use super::queue::rotation::SequenceNumber;
use super::queue::{Busy, Queue};

/// The interval at which stuck threads are looked for.
const CHECKS: Duration = Duration::from_millis(250);

/// How long a thread without work keeps its buffers.
const KEPT: Duration = Duration::from_secs(60);

/// The value that a job makes; later requests for the same value join the job while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum JobValue {
    /// A tile.
    Tile(TileKey),
    /// A channel's statistics.
    Survey(Fingerprint),
}

/// Work for a render thread.
pub(super) trait Job: Send {
    /// Runs the job. Drops the turn before it delivers the result, so that a client that requests
    /// another tile at once finds room in the queue.
    fn run(self: Box<Self>, turn: Turn);

    /// Fails the job because the queue is full.
    fn refuse(self: Box<Self>, busy: Busy);

    /// Returns the job if anybody still waits for it; otherwise drops it.
    fn if_wanted(self: Box<Self>) -> Option<Box<dyn Job>>;
}

/// Threads with a bounded queue; clones share them.
#[derive(Debug, Clone)]
pub struct RenderPool(Arc<SharedPool>);

#[derive(Debug)]
struct SharedPool {
    /// `None` once this is dropped.
    runtime: Option<Runtime>,
    stalls: Stalls,
    activity: Activity,
    threads: usize,
    state: Mutex<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    waiting: Queue<JobValue, WaitingJob>,
    /// The number of jobs that run, and of threads that do idle work.
    running: usize,
    /// The number of threads that may run jobs: stuck threads have been replaced.
    most: usize,
}

/// A job that is not running yet, and its entry in the activity count.
struct WaitingJob {
    place: Place,
    job: Box<dyn Job>,
}

impl std::fmt::Debug for WaitingJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingJob").finish_non_exhaustive()
    }
}

/// The turn of a running job, or of idle work. Dropping it, also by a panic, starts the next job.
pub(super) struct Turn {
    pool: RenderPool,
    is_idle_work: bool,
    place: Option<Place>,
}

/// A request that waits for a queued job. Dropping it withdraws the request.
#[must_use]
pub(super) struct Ticket {
    pool: RenderPool,
    value: Option<JobValue>,
    job: SequenceNumber,
    demand: Demand,
}

impl RenderPool {
    /// `threads` render threads, with a queue of `queue` jobs; `activity` counts all jobs.
    pub fn new(threads: NonZeroUsize, queue: usize, activity: Activity) -> io::Result<Self> {
        let threads = threads.get();
        let stalls = Stalls::default();
        let render_stalls = stalls.clone();
        let helper_stalls = stalls.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(2 * threads)
            .thread_name("render")
            .thread_keep_alive(KEPT)
            .on_thread_start(move || render_stalls.watch_thread(true))
            .build()?;
        let helpers = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("decode-{index}"))
            .start_handler(move |_| helper_stalls.watch_thread(false))
            .build();
        activity.use_helpers(helpers.map_err(io::Error::other)?);
        Ok(Self(Arc::new(SharedPool {
            runtime: Some(runtime),
            stalls,
            activity,
            threads,
            state: Mutex::new(PoolState {
                waiting: Queue::new(queue, threads),
                running: 0,
                most: threads,
            }),
        })))
    }

    /// Looks for stuck threads and replaces them, from now on. Without this, jobs wait for files as
    /// long as it takes.
    pub fn replace_stuck(&self) -> io::Result<()> {
        let shared = Arc::downgrade(&self.0);
        thread::Builder::new()
            .name("stalls".to_owned())
            .spawn(move || {
                while let Some(shared) = shared.upgrade() {
                    Self(shared).look();
                    thread::sleep(CHECKS);
                }
            })
            .map(drop)
    }

    fn look(&self) {
        let threads = self.0.threads;
        let stuck = self.0.stalls.look(2 * threads);
        self.0.activity.set_stuck(stuck);
        let mut state = self.0.state.lock();
        state.most = threads + stuck.min(threads);
        while state.running < state.most
            && let Some(next) = state.waiting.take(Instant::now())
        {
            state.running += 1;
            self.start(next);
        }
    }

    /// The files that are stuck.
    pub fn stalls(&self) -> &Stalls {
        &self.0.stalls
    }

    /// Whether no requested job is running or waiting, and a thread is free.
    pub fn is_idle(&self) -> bool {
        self.0.activity.is_idle(self.0.threads)
    }

    /// The number of queued jobs.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().waiting.len()
    }

    /// The most jobs that one document may queue at once: a quarter of the queue, so that there is
    /// room for other requests.
    pub fn share(&self) -> usize {
        (self.0.state.lock().waiting.capacity / 4).max(1)
    }

    /// The number of render threads.
    pub fn threads(&self) -> usize {
        self.0.threads
    }

    /// The count of active jobs.
    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// Does work that no request waits for, if the pool is idle. It should end early once there are
    /// jobs.
    pub(super) fn run_idle(&self, work: impl FnOnce(Turn) + Send + 'static) {
        let mut state = self.0.state.lock();
        if !self.is_idle() || state.running >= state.most {
            return;
        }
        state.running += 1;
        state.waiting.extra += 1;
        drop(state);
        let turn = Turn {
            pool: self.clone(),
            is_idle_work: true,
            place: None,
        };
        self.run(move || work(turn));
    }

    fn run(&self, work: impl FnOnce() + Send + 'static) {
        if let Some(runtime) = &self.0.runtime {
            drop(runtime.spawn_blocking(move || guard(work)));
        }
    }

    /// Runs a job when its turn comes, or refuses it if the queue is full. Hold the ticket while
    /// waiting for the result; there is none if the job starts at once or is refused.
    pub(super) fn submit(
        &self,
        value: Option<JobValue>,
        demand: Demand,
        job: Box<dyn Job>,
    ) -> Option<Ticket> {
        let job = self.start_or_queue(value, demand, job)?;
        Some(Ticket {
            pool: self.clone(),
            value,
            job,
            demand,
        })
    }

    /// Adds a request to a queued job, so that it runs no later than this client's turn. `None` if
    /// the job is not queued; most likely it is already running.
    pub(super) fn join(&self, value: JobValue, demand: Demand) -> Option<Ticket> {
        let job = self
            .0
            .state
            .lock()
            .waiting
            .join(&value, demand, Instant::now())?;
        Some(Ticket {
            pool: self.clone(),
            value: Some(value),
            job,
            demand,
        })
    }

    fn start_or_queue(
        &self,
        value: Option<JobValue>,
        demand: Demand,
        job: Box<dyn Job>,
    ) -> Option<SequenceNumber> {
        let waiting = WaitingJob {
            place: self.0.activity.enter(),
            job,
        };
        let mut state = self.0.state.lock();
        if state.running < state.most {
            state.running += 1;
            state.waiting.started(demand);
            drop(state);
            self.start(waiting);
            return None;
        }
        let entered = state.waiting.push(value, demand, waiting, Instant::now());
        let busy = Busy {
            waiting: state.waiting.len(),
        };
        drop(state);
        let (number, loser) = match entered {
            Ok(entered) => (Some(entered.job), entered.displaced),
            Err(refused) => (None, Some(refused)),
        };
        if let Some(WaitingJob { place, job }) = loser {
            drop(place);
            job.refuse(busy);
        }
        number
    }

    fn start(&self, WaitingJob { place, job }: WaitingJob) {
        let turn = Turn {
            pool: self.clone(),
            is_idle_work: false,
            place: Some(place),
        };
        self.run(move || {
            if let Some(job) = job.if_wanted() {
                job.run(turn);
            }
        });
    }

    /// Starts the next job after one, or idle work, has ended.
    fn start_next(&self, was_idle_work: bool) {
        let mut state = self.0.state.lock();
        state.waiting.extra -= usize::from(was_idle_work);
        // A thread that was stuck and has been replaced starts no job.
        let next = if state.running > state.most {
            None
        } else {
            state.waiting.take(Instant::now())
        };
        if next.is_none() {
            state.running -= 1;
        }
        drop(state);
        if let Some(next) = next {
            self.start(next);
        }
    }

    fn leave(&self, ticket: &Ticket) {
        let left = self.0.state.lock().waiting.leave(ticket.job, ticket.demand);
        // A request may have joined the flight but not the job, if it came between the two steps:
        // then the job is queued again.
        if let Some(WaitingJob { place, job }) = left
            && let Some(job) = job.if_wanted()
        {
            drop(place);
            self.start_or_queue(ticket.value, ticket.demand, job);
        }
    }
}

/// Does work on a render thread, and logs if it panics. Unwinding wakes the job's waiters.
fn guard(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        tracing::error!("a render thread panicked, which is a defect of this program: {text}");
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        // Waits for no thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Before the next job starts, so that the activity count never includes both.
        self.place = None;
        self.pool.start_next(self.is_idle_work);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.pool.leave(self);
    }
}

#[cfg(test)]
mod tests;
