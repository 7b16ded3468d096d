//! Threads that each request one tile at a time, and record how long each took.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use crate::base::request::TileRequest;

/// How many distinct failures are reported; all are counted.
const MAX_PROBLEMS: usize = 10;

/// What one thread works with.
pub(super) trait Worker: Send {
    /// Makes or requests a tile and adds what that took, or says why it failed.
    fn work(&mut self, request: &TileRequest, done: &mut Done) -> Result<(), String>;

    /// Whether there is no use in further requests.
    fn has_given_up(&self) -> bool {
        false
    }
}

/// The threads of one measurement, each with a worker.
pub(super) struct Team<'a> {
    pool: ThreadPool,
    members: Vec<(Box<dyn Worker + 'a>, Done)>,
}

/// What was done.
#[derive(Default)]
pub(super) struct Done {
    /// The times of requests that did not fail.
    pub times: Vec<Duration>,
    pub failed: usize,
    /// Why requests failed, each reason once.
    pub problems: Vec<String>,
    /// The time of the steps of tiles that were made here.
    pub planning: Duration,
    pub drawing: Duration,
    pub encoding: Duration,
    /// The bytes of the voxels that they show.
    pub voxel_bytes: u64,
    pub png_bytes: u64,
    /// The responses of a server by status, and how many requests had none.
    pub statuses: BTreeMap<u16, u64>,
    pub unanswered: u64,
    /// Why a worker gave up.
    pub gone: Option<String>,
}

impl<'a> Team<'a> {
    /// A thread for each worker.
    pub fn new<W: Worker + 'a>(
        workers: impl Iterator<Item = W>,
    ) -> Result<Self, ThreadPoolBuildError> {
        let member = |worker| (Box::new(worker) as Box<dyn Worker + 'a>, Done::default());
        let members: Vec<_> = workers.map(member).collect();
        let name = |index| format!("bench-{index}");
        let pool = ThreadPoolBuilder::new()
            .num_threads(members.len())
            .thread_name(name)
            .build()?;
        Ok(Self { pool, members })
    }

    pub fn threads(&self) -> usize {
        self.members.len()
    }

    /// Has each worker do a request that is not recorded.
    pub fn practise(&mut self, request: &TileRequest) {
        for (worker, _) in &mut self.members {
            // A failure shows when the request is measured.
            let _ = self
                .pool
                .install(|| worker.work(request, &mut Done::default()));
        }
    }

    /// Does requests in order, and from the first again after the last, until `most` are done or
    /// the time is up, and at least one; returns how many.
    pub fn round(&mut self, requests: &[TileRequest], most: usize, until: Instant) -> usize {
        let next = &AtomicUsize::new(0);
        self.pool.in_place_scope(|scope| {
            for (worker, done) in &mut self.members {
                scope.spawn(move |_| done.fill(&mut **worker, requests, next, most, until));
            }
        });
        next.load(Ordering::Relaxed).min(most)
    }

    /// Takes what was done since the last call.
    pub fn take(&mut self) -> Done {
        let mut all = Done::default();
        self.members
            .iter_mut()
            .for_each(|(_, done)| all += std::mem::take(done));
        all
    }
}

impl Done {
    fn fill(
        &mut self,
        worker: &mut dyn Worker,
        requests: &[TileRequest],
        next: &AtomicUsize,
        most: usize,
        until: Instant,
    ) {
        // The first request is always done, without looking at the clock.
        while !worker.has_given_up()
            && (next.load(Ordering::Relaxed) == 0 || Instant::now() < until)
        {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let request = requests
                .get(number % requests.len().max(1))
                .filter(|_| number < most);
            let Some(request) = request else { return };
            let began = Instant::now();
            match worker.work(request, self) {
                Ok(()) => self.times.push(began.elapsed()),
                Err(problem) => {
                    self.failed += 1;
                    self.note(problem);
                }
            }
        }
    }

    fn note(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.times.extend(other.times);
        self.failed += other.failed;
        other
            .problems
            .into_iter()
            .for_each(|problem| self.note(problem));
        self.planning += other.planning;
        self.drawing += other.drawing;
        self.encoding += other.encoding;
        self.voxel_bytes += other.voxel_bytes;
        self.png_bytes += other.png_bytes;
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.unanswered += other.unanswered;
        self.gone = self.gone.take().or(other.gone);
    }
}
