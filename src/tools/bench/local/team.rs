//! Threads that each draw one tile at a time, and record the time of every step.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use super::MAX_TOLD;
use crate::base::request::TileRequest;
use crate::catalog::Catalog;
use crate::flow::activity::{Activity, Place};
use crate::render::plan::{Plan, Source};
use crate::render::{self, EncodeBuffers, Scratch};

/// The threads of one measurement, with their buffers. All count as busy while it lasts, so that each tile
/// keeps to one thread.
pub(super) struct Team {
    pool: ThreadPool,
    workers: Vec<Worker>,
    _places: Vec<Place>,
}

/// One thread's buffers, and what it did.
#[derive(Default)]
struct Worker {
    scratch: Scratch,
    buffers: EncodeBuffers,
    done: Done,
}

/// What was done, and how long it took.
#[derive(Default)]
pub(super) struct Done {
    pub times: Vec<Duration>,
    pub planning: Duration,
    pub drawing: Duration,
    pub encoding: Duration,
    pub voxel_bytes: u64,
    pub png_bytes: u64,
    pub failed: usize,
    pub failures: Vec<String>,
}

impl Team {
    /// `threads` threads, which count as busy until they are dropped.
    pub fn new(threads: NonZeroUsize, activity: &Activity) -> Result<Self, ThreadPoolBuildError> {
        let name = |index| format!("bench-{index}");
        let pool = ThreadPoolBuilder::new().num_threads(threads.get()).thread_name(name).build()?;
        let workers = std::iter::repeat_with(Worker::default).take(threads.get()).collect();
        let places = std::iter::repeat_with(|| activity.enter()).take(threads.get()).collect();
        Ok(Self { pool, workers, _places: places })
    }

    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Has each thread draw the first tile.
    pub fn practise(&mut self, catalog: &Catalog, requests: &[TileRequest]) {
        let first: Vec<&TileRequest> = requests.iter().take(1).collect();
        for worker in &mut self.workers {
            self.pool.install(|| worker.work(catalog, &first, &AtomicUsize::new(0), Instant::now()));
        }
        self.take();
    }

    /// Draws tiles in order, each once, until the time is up, and at least one; returns how many.
    pub fn round(&mut self, catalog: &Catalog, requests: &[&TileRequest], until: Instant) -> usize {
        let next = AtomicUsize::new(0);
        let next = &next;
        self.pool.in_place_scope(|scope| {
            for worker in &mut self.workers {
                scope.spawn(move |_| worker.work(catalog, requests, next, until));
            }
        });
        next.load(Ordering::Relaxed).min(requests.len())
    }

    /// Takes the results since the last call.
    pub fn take(&mut self) -> Done {
        let mut all = Done::default();
        self.workers.iter_mut().for_each(|worker| all += std::mem::take(&mut worker.done));
        all
    }
}

impl Worker {
    fn work(&mut self, catalog: &Catalog, requests: &[&TileRequest], next: &AtomicUsize, until: Instant) {
        loop {
            // The first tile is always drawn, without looking at the clock.
            if next.load(Ordering::Relaxed) > 0 && Instant::now() >= until {
                return;
            }
            let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            let began = Instant::now();
            match self.tile(catalog, request, began) {
                Ok(()) => self.done.times.push(began.elapsed()),
                Err(problem) => self.done.fail(problem),
            }
        }
    }

    /// One tile, from the request to the PNG.
    fn tile(&mut self, catalog: &Catalog, request: &TileRequest, began: Instant) -> Result<(), String> {
        let resolved = catalog.resolve(request).map_err(|e| e.to_string())?;
        black_box(resolved.key());
        let plan = resolved.plan();
        let planned = Instant::now();
        let pixels = render::draw(&plan, &mut self.scratch).map_err(|e| e.to_string())?;
        let drawn = Instant::now();
        let kind = plan.picture.pixels();
        let png =
            render::encode(pixels, kind, plan.style.png, &mut self.buffers).map_err(|e| e.to_string())?;
        self.done.planning += planned - began;
        self.done.drawing += drawn - planned;
        self.done.encoding += drawn.elapsed();
        self.done.png_bytes += png.len() as u64;
        self.done.voxel_bytes += voxel_bytes(&plan);
        black_box(png);
        Ok(())
    }
}

impl Done {
    fn fail(&mut self, problem: String) {
        self.failed += 1;
        if self.failures.len() < MAX_TOLD {
            self.failures.push(problem);
        }
    }
}

impl std::ops::AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.times.extend(other.times);
        self.planning += other.planning;
        self.drawing += other.drawing;
        self.encoding += other.encoding;
        self.voxel_bytes += other.voxel_bytes;
        self.png_bytes += other.png_bytes;
        self.failed += other.failed;
        self.failures.extend(other.failures);
    }
}

/// The bytes of the level's voxels that a tile shows.
fn voxel_bytes(plan: &Plan) -> u64 {
    let bytes = |source: &&Source| {
        let voxels = source.patch.as_ref().map_or(0, |patch| patch.width() * patch.height());
        (voxels * source.volume.shape().voxel.samples().voxel_bytes()) as u64
    };
    plan.picture.sources().iter().map(bytes).sum()
}
