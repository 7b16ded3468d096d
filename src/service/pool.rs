//! The render threads, and the queue in front of them.
//!
//! At most one job per thread is started at a time, so that jobs run in the order of the queue.
//! Each job that ends starts the next. A job is a closure; [`RenderPool::run`] queues it and waits
//! for its result. When that future is dropped, the job leaves the queue; if it is running, it is
//! told. Idle work takes the place of a job, which it gives back as soon as a job waits: together,
//! jobs and idle work that wait for one file take at most as many threads as render, so that there
//! is a thread to replace each of them.
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
use prometheus_client::metrics::counter::Counter;
use rayon::ThreadPoolBuilder;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use voltile_base::flow::activity::{Activity, Place};
use voltile_base::flow::cache::Abandoned;
use voltile_base::flow::interest::Interest;
use voltile_base::flow::stalls::Stalls;
use voltile_base::metrics::Metrics;
use voltile_base::tile::TileKey;

use super::client::Demand;
use super::error::TileError;
use super::queue::rotation::SequenceNumber;
use super::queue::{Busy, Queue};

/// The interval at which stuck threads are looked for.
const CHECKS: Duration = Duration::from_millis(250);

/// How long a thread without work keeps its buffers.
const KEPT: Duration = Duration::from_secs(60);

/// Threads with a bounded queue; clones share them.
#[derive(Clone)]
pub struct RenderPool(Arc<SharedPool>);

struct SharedPool {
    /// `None` once this is dropped.
    runtime: Option<Runtime>,
    stalls: Stalls,
    activity: Activity,
    threads: usize,
    /// Counts the jobs that are refused, abandoned or stopped.
    metrics: Metrics,
    state: Mutex<PoolState>,
}

struct PoolState {
    waiting: Queue<TileKey, WaitingJob>,
    /// The number of jobs that run, and of threads that do idle work.
    running: usize,
    /// The number of threads that may run jobs: stuck threads have been replaced.
    most: usize,
}

/// A job that is not running yet, and its entry in the activity count.
struct WaitingJob {
    place: Place,
    /// Runs the job, or fails it because the queue is full.
    run: Box<dyn FnOnce(Result<Turn, Busy>) + Send>,
}

/// The turn of a running job, or of idle work. Dropping it, also by a panic, starts the next job.
pub(super) struct Turn {
    pool: RenderPool,
    /// The job's entry in the activity count; idle work has none.
    place: Option<Place>,
}

/// Work that has not begun. If this is dropped before, the work counts as abandoned.
pub(super) struct PendingWork(Option<Counter>);

/// A job in the queue, which leaves the queue when this is dropped.
struct QueuedRun<'a> {
    pool: &'a RenderPool,
    job: SequenceNumber,
}

impl RenderPool {
    /// `threads` render threads, with a queue of `queue` jobs; `activity` counts all jobs, and
    /// `metrics` those that were not run to their end.
    pub fn new(
        threads: NonZeroUsize,
        queue: usize,
        activity: Activity,
        metrics: Metrics,
    ) -> io::Result<Self> {
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
            metrics,
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
        let mut starting = Vec::new();
        let mut state = self.0.state.lock();
        state.most = threads + stuck.min(threads);
        while state.running < state.most
            && let Some(next) = state.waiting.take(Instant::now())
        {
            state.running += 1;
            starting.push(next);
        }
        drop(state);
        for job in starting {
            self.start(job);
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
            place: None,
        };
        self.on_thread(move || work(turn));
    }

    /// Does work on a render thread, and logs if it panics. Unwinding wakes the job's waiters.
    fn on_thread(&self, work: impl FnOnce() + Send + 'static) {
        let Some(runtime) = &self.0.runtime else {
            return;
        };
        drop(runtime.spawn_blocking(move || {
            let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else {
                return;
            };
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            tracing::error!("a render thread panicked, which is a defect of this program: {text}");
        }));
    }

    /// Runs a job when its turn comes; fails if the queue is full. Requests for the same `key` can
    /// join the job while it waits.
    ///
    /// If this future is dropped, the job leaves the queue; if it is running, nobody is interested
    /// in it any more, and it should end early.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        key: Option<TileKey>,
        demand: Demand,
        job: impl FnOnce(&Interest) -> Result<T, TileError> + Send + 'static,
    ) -> Result<T, TileError> {
        let waiting = Arc::new(());
        let interest = Interest::of(&waiting);
        let pending = PendingWork::new(&self.0.metrics);
        let stopped = self.0.metrics.stopped.clone();
        let (sender, result) = oneshot::channel();
        let _queued = self.enter(key, demand, move |turn| {
            if turn.is_ok() && !interest.is_there() {
                return;
            }
            pending.begin();
            let result = match turn {
                Ok(turn) => {
                    let result = job(&interest);
                    // Before the result is delivered, so that a client that requests another tile
                    // at once finds room in the queue.
                    drop(turn);
                    result
                }
                Err(busy) => Err(busy.into()),
            };
            if let Err(Err(error)) = sender.send(result)
                && error.is_stopped()
            {
                stopped.inc();
            }
        });
        result.await.map_err(|_| Abandoned)?
    }

    /// Raises the place of a queued job to the turn of another client that wants it, too.
    pub(super) fn join(&self, key: &TileKey, demand: Demand) {
        let mut state = self.0.state.lock();
        state.waiting.join(key, demand, Instant::now());
    }

    fn enter(
        &self,
        key: Option<TileKey>,
        demand: Demand,
        run: impl FnOnce(Result<Turn, Busy>) + Send + 'static,
    ) -> Option<QueuedRun<'_>> {
        let entering = WaitingJob {
            place: self.0.activity.enter(),
            run: Box::new(run),
        };
        let mut state = self.0.state.lock();
        if state.running < state.most {
            state.running += 1;
            state.waiting.started(demand);
            drop(state);
            self.start(entering);
            return None;
        }
        let job = state.waiting.next;
        let loser = state.waiting.push(key, demand, entering, Instant::now());
        let busy = Busy {
            waiting: state.waiting.len(),
        };
        drop(state);
        if let Some(WaitingJob { place, run }) = loser {
            drop(place);
            self.0.metrics.rejected.inc();
            run(Err(busy));
        }
        Some(QueuedRun { pool: self, job })
    }

    fn start(&self, WaitingJob { place, run }: WaitingJob) {
        let turn = Turn {
            pool: self.clone(),
            place: Some(place),
        };
        self.on_thread(move || run(Ok(turn)));
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
    /// Starts the next job.
    fn drop(&mut self) {
        let was_idle_work = self.place.is_none();
        // Before the next job starts, so that the activity count never includes both.
        self.place = None;
        let mut state = self.pool.0.state.lock();
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
            self.pool.start(next);
        }
    }
}

impl Drop for QueuedRun<'_> {
    fn drop(&mut self) {
        let _left = self.pool.0.state.lock().waiting.remove(self.job);
        // The job is dropped here, not under the lock.
    }
}

impl PendingWork {
    /// Work that has not begun.
    pub fn new(metrics: &Metrics) -> Self {
        Self(Some(metrics.abandoned.clone()))
    }

    /// The work begins, or need not be done.
    pub fn begin(mut self) {
        self.0 = None;
    }
}

impl Drop for PendingWork {
    fn drop(&mut self) {
        if let Some(abandoned) = &self.0 {
            abandoned.inc();
        }
    }
}

#[cfg(test)]
mod tests;
