//! The render threads, and the queue in front of them.
//!
//! At most one job per thread is started at a time, so that jobs run in the order of the queue
//! ([`super::turns`]). A job is a closure; [`RenderPool::run`] queues it and waits for its result.
//! When that future is dropped, the job leaves the queue; if it is running, it is told. Idle work
//! takes the place of a job, which it gives back as soon as a job waits. So a file that does not
//! answer holds up, with jobs and idle work together, at most as many threads as the pool regularly
//! has, and each of these threads can be replaced.
//!
//! The threads are those of a tokio runtime for blocking work, which starts more when some are
//! stuck ([`voltile_base::flow::stalls`]). They are not rayon's: a thread of rayon that waits for
//! work that it has split takes up other jobs meanwhile, and could then not continue while one of
//! these is stuck.

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use rayon::ThreadPoolBuilder;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use voltile_base::flow::activity::Activity;
use voltile_base::flow::cache::Abandoned;
use voltile_base::flow::interest::{Interest, Interested};
use voltile_base::flow::stalls::Stalls;
use voltile_base::flow::start_thread;
use voltile_base::metrics::Metrics;
use voltile_base::tile::TileKey;

use super::client::Demand;
use super::error::TileError;
use super::turns::{Turn, Turns};

/// The interval at which stuck threads are looked for.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// A thread without work ends after this time, which frees its buffers.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Render threads with a bounded queue; clones share them.
#[derive(Clone)]
pub struct RenderPool(Arc<SharedPool>);

struct SharedPool {
    /// `None` once this is dropped.
    runtime: Option<Runtime>,
    /// Starts work on its threads.
    handle: Handle,
    stalls: Stalls,
    activity: Activity,
    threads: usize,
    /// Counts the jobs that are refused, abandoned or stopped.
    metrics: Metrics,
    turns: Turns,
}

/// Work that has yet to begin. If this is dropped before the work begins, it counts as abandoned.
pub(super) struct PendingWork(Option<Counter>);

impl RenderPool {
    /// A pool of `threads` render threads, with a queue of at most `queue` jobs. `activity` counts
    /// all jobs, and `metrics` the jobs that were not run to their end.
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
            // Each thread may be replaced once.
            .max_blocking_threads(2 * threads)
            .thread_name("render")
            .thread_keep_alive(KEEP_ALIVE)
            .on_thread_start(move || render_stalls.watch_thread(true))
            .build()?;
        let helpers = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("decode-{index}"))
            .start_handler(move |_| helper_stalls.watch_thread(false))
            .build();
        activity.use_helpers(helpers.map_err(io::Error::other)?);
        let handle = runtime.handle().clone();
        let turns = Turns::new(threads, queue, metrics.rejected.clone(), move |work| {
            on_thread(&handle, || work.run());
        });
        Ok(Self(Arc::new(SharedPool {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            stalls,
            activity,
            threads,
            turns,
            metrics,
        })))
    }

    /// Looks for stuck threads and replaces them, from now on. Without this, jobs wait for files as
    /// long as it takes.
    pub fn replace_stuck(&self) -> io::Result<()> {
        let shared = Arc::downgrade(&self.0);
        start_thread("stalls", move || {
            while let Some(shared) = shared.upgrade() {
                Self(shared).count_stuck();
                thread::sleep(CHECK_INTERVAL);
            }
        })
    }

    /// Counts the threads that are stuck, and makes as many places for their replacements.
    fn count_stuck(&self) {
        let threads = self.0.threads;
        let stuck = self.0.stalls.look(2 * threads);
        self.0.activity.set_stuck(stuck);
        self.0.turns.set_places(threads + stuck.min(threads));
    }

    /// The files that are stuck.
    pub fn stalls(&self) -> &Stalls {
        &self.0.stalls
    }

    /// Whether no requested job is running or waiting, and a thread is free.
    pub fn is_idle(&self) -> bool {
        self.0.activity.is_idle(self.0.threads)
    }

    /// Waits until the pool is idle.
    pub(super) async fn idle(&self) {
        loop {
            // Before the check, so that no turn ends unnoticed in between.
            let ended = self.0.turns.ended();
            if self.is_idle() {
                return;
            }
            ended.await;
        }
    }

    /// The number of queued jobs.
    pub fn waiting(&self) -> usize {
        self.0.turns.waiting()
    }

    /// The maximum number of jobs that one document may queue at once: a quarter of the queue, so
    /// that there is room for other requests.
    pub fn share(&self) -> usize {
        (self.0.turns.capacity() / 4).max(1)
    }

    /// The number of render threads.
    pub fn threads(&self) -> usize {
        self.0.threads
    }

    /// The count of active jobs.
    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// Does work that no request waits for, if the pool is idle. The work should end early once
    /// there are jobs.
    pub(super) fn run_idle(&self, work: impl FnOnce(Turn) + Send + 'static) {
        if self.is_idle()
            && let Some(turn) = self.0.turns.idle_turn()
        {
            on_thread(&self.0.handle, move || work(turn));
        }
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
        let interested = Interested::default();
        let interest = interested.interest();
        let pending = PendingWork::new(&self.0.metrics);
        let stopped = self.0.metrics.stopped.clone();
        let (sender, result) = oneshot::channel();
        let active = self.0.activity.enter();
        let _queued = self.0.turns.enter(key, demand, move |turn| {
            // Bound in this order, because variables are dropped in the reverse order: if the job
            // panics, `active` is dropped before the turn, so that the count of active jobs never
            // includes both this job and the next.
            let (turn, active) = match turn {
                Ok(turn) => (turn, active),
                Err(busy) => {
                    pending.begin();
                    drop(active);
                    drop(sender.send(Err(busy.into())));
                    return None;
                }
            };
            if !interest.is_there() {
                drop(active);
                return turn.end();
            }
            pending.begin();
            let result = job(&interest);
            drop(active);
            // Before the result is delivered, so that a client that requests another tile at once
            // finds room in the queue.
            let next = turn.end();
            // Sending fails if nobody waits for the result, and gives it back.
            if let Err(Err(error)) = sender.send(result)
                && error.is_stopped()
            {
                stopped.inc();
            }
            next
        });
        result.await.map_err(|_| Abandoned)?
    }

    /// Lets a queued job also run at the turn of another client that wants it.
    pub(super) fn join(&self, key: &TileKey, demand: Demand) {
        self.0.turns.join(key, demand);
    }
}

/// Does work on a render thread, and logs it if the work panics. Unwinding drops the job, which
/// wakes the requests that wait for it.
fn on_thread(handle: &Handle, work: impl FnOnce() + Send + 'static) {
    drop(handle.spawn_blocking(move || {
        let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else {
            return;
        };
        let formatted = panic.downcast_ref::<String>().map(String::as_str);
        let literal = panic.downcast_ref::<&str>().copied();
        let text = formatted.or(literal).unwrap_or("no message");
        tracing::error!("a render thread panicked, which is a defect of this program: {text}");
    }));
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        // Waits for no thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl PendingWork {
    /// Work that counts in these metrics.
    pub fn new(metrics: &Metrics) -> Self {
        Self(Some(metrics.abandoned.clone()))
    }

    /// To be called when the work begins, or need not be done.
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
