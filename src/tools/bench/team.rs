//! Threads that each do one request at a time, and record how long each took.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// How many distinct failures are reported; all are counted.
const MAX_PROBLEMS: usize = 10;

/// What one thread works with.
pub(super) trait Worker: Send {
    /// What is to be done.
    type Request: Sync;
    /// What is counted besides times.
    type Counted: Default + AddAssign + Send;

    /// Does a request, or says why it failed.
    fn work(&mut self, request: &Self::Request, counted: &mut Self::Counted) -> Result<(), String>;

    /// Whether there is no use in further requests.
    fn has_given_up(&self) -> bool {
        false
    }
}

/// The threads of one measurement, each with a worker.
pub(super) struct Team<W: Worker> {
    pool: ThreadPool,
    members: Vec<(W, Done<W::Counted>)>,
}

/// What was done.
#[derive(Default)]
pub(super) struct Done<C> {
    /// The times of requests that did not fail.
    pub times: Vec<Duration>,
    pub failed: usize,
    /// Why requests failed, each reason once.
    pub problems: Vec<String>,
    pub counted: C,
}

impl<W: Worker> Team<W> {
    /// A thread for each worker.
    pub fn new(workers: Vec<W>) -> Result<Self, ThreadPoolBuildError> {
        let name = |index| format!("bench-{index}");
        let pool = ThreadPoolBuilder::new().num_threads(workers.len()).thread_name(name).build()?;
        Ok(Self { pool, members: workers.into_iter().map(|worker| (worker, Done::default())).collect() })
    }

    pub fn threads(&self) -> usize {
        self.members.len()
    }

    /// Has each worker do a request that is not recorded.
    pub fn practise(&mut self, request: &W::Request) {
        for (worker, _) in &mut self.members {
            // A failure shows when the request is measured.
            let _ = self.pool.install(|| worker.work(request, &mut W::Counted::default()));
        }
    }

    /// Does requests in order, and from the first again after the last, until `most` are done or the time is up, and at
    /// least one; returns how many.
    pub fn round(&mut self, requests: &[W::Request], most: usize, until: Instant) -> usize {
        let next = &AtomicUsize::new(0);
        self.pool.in_place_scope(|scope| {
            for (worker, done) in &mut self.members {
                scope.spawn(move |_| done.fill(worker, requests, next, most, until));
            }
        });
        next.load(Ordering::Relaxed).min(most)
    }

    /// Takes what was done since the last call.
    pub fn take(&mut self) -> Done<W::Counted> {
        let mut all = Done::default();
        self.members.iter_mut().for_each(|(_, done)| all += std::mem::take(done));
        all
    }
}

impl<C> Done<C> {
    fn fill<W: Worker<Counted = C>>(
        &mut self,
        worker: &mut W,
        requests: &[W::Request],
        next: &AtomicUsize,
        most: usize,
        until: Instant,
    ) {
        // The first request is always done, without looking at the clock.
        while next.load(Ordering::Relaxed) == 0 || Instant::now() < until {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let request = requests.get(number % requests.len().max(1)).filter(|_| number < most);
            let Some(request) = request else { return };
            let began = Instant::now();
            match worker.work(request, &mut self.counted) {
                Ok(()) => self.times.push(began.elapsed()),
                Err(problem) => {
                    self.failed += 1;
                    self.note(problem);
                }
            }
            if worker.has_given_up() {
                return;
            }
        }
    }

    fn note(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

impl<C: AddAssign> AddAssign for Done<C> {
    fn add_assign(&mut self, other: Self) {
        self.times.extend(other.times);
        self.failed += other.failed;
        other.problems.into_iter().for_each(|problem| self.note(problem));
        self.counted += other.counted;
    }
}
