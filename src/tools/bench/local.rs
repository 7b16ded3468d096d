//! Tiles drawn in this process, as a server draws them, on any number of threads; no tile is kept.
//!
//! A row is measured in rounds. Before each, the caches that its state wants empty are dropped,
//! outside of the measured time. If the state is cold and the pattern random, a round is one tile
//! per thread, so that none finds another's chunks; all other rounds go through the whole pattern.
//! The speed is that of threads while they draw.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::ThreadPoolBuildError;

use super::machine::bytes_from_disk;
use super::pattern::{Case, Pattern, cases};
use super::row::{ChunkUse, Limits, Row, Stages, State, Subject};
use super::sample::Percentiles;
use super::server_work::ReadTimes;
use super::target::Target;
use super::team::{Done, Team, Worker};
use crate::base::description::{ChannelDescription, StorageDescription};
use crate::base::request::TileRequest;
use crate::catalog::{Catalog, Resolved};
use crate::flow::activity::{Activity, Place};
use crate::metrics::Metrics;
use crate::render::plan::Source;
use crate::render::{self, EncodeBuffers, Scratch};
use crate::tools::counts::Counts;
use crate::volume::Volume;

/// After this many failures without a single tile, the rest of a row is assumed to fail too.
const MAX_FAILED: usize = 16;
/// Limit of a row's total time, with the time to drop caches, as a multiple of its measured time.
const AROUND: u32 = 4;

/// The name of the count of bytes that this process has read from disk.
const FROM_DISK: &str = "bytes_from_disk";

/// Measures channels of a catalogue.
pub struct Local<'a> {
    catalog: &'a Catalog,
    metrics: &'a Metrics,
    activity: &'a Activity,
    limits: Limits,
    failures: Vec<String>,
    remarks: Vec<String>,
}

/// Draws one tile at a time.
struct Painter<'a> {
    catalog: &'a Catalog,
    scratch: Scratch,
    buffers: EncodeBuffers,
    /// It counts as busy while it exists, so that each tile keeps to one thread.
    _place: Place,
}

/// One case of one channel, prepared for measuring.
struct Prepared {
    case: Case,
    volumes: Vec<Arc<dyn Volume>>,
}

impl<'a> Local<'a> {
    /// Measures a catalogue that was opened with these counters and this activity.
    pub fn new(
        catalog: &'a Catalog,
        metrics: &'a Metrics,
        activity: &'a Activity,
        limits: Limits,
    ) -> Self {
        Self {
            catalog,
            metrics,
            activity,
            limits,
            failures: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// The measured levels of a channel, with what is known of them in advance. Reads chunk
    /// indexes.
    pub fn subjects(&self, target: &Target) -> Vec<Subject> {
        let Some(dataset) = self.catalog.dataset(&target.token) else {
            return Vec::new();
        };
        let Some(file) = dataset
            .channels
            .get(&target.channel)
            .map(|channel| &channel.file)
        else {
            return Vec::new();
        };
        let inspection = self.catalog.inspect(dataset);
        let channels = inspection
            .description
            .channels
            .iter()
            .zip(&inspection.costs);
        let own = channels.filter(|(channel, _)| channel.name == target.channel.as_str());
        let is_wanted = |level: u8| {
            target
                .spaces
                .iter()
                .any(|space| space.level.number() == level)
        };
        own.flat_map(|(channel, costs)| {
            channel
                .levels
                .iter()
                .zip(costs)
                .map(move |both| (channel, both))
        })
        .filter(|(_, (level, _))| is_wanted(level.level))
        .map(|(channel, (level, cost))| Subject {
            token: target.token.to_string(),
            channel: channel.name.clone(),
            dtype: channel.dtype.clone(),
            level: level.level,
            size: level.size,
            derived: level.path.is_none(),
            storage: level
                .storage
                .clone()
                .or_else(|| read_instead(channel, level.level)),
            tile: cost.tile.clone(),
            file: file.clone(),
        })
        .collect()
    }

    /// Measures a channel: every pattern with each number of threads, from the coldest state to the
    /// warmest. `watch` receives each row as soon as it is measured.
    ///
    /// # Errors
    /// If threads cannot be started, and those of `watch`. Tiles that fail are counted in their
    /// rows, and reported by [`Local::failures`].
    pub fn measure<E: From<ThreadPoolBuildError>>(
        &mut self,
        target: &Target,
        patterns: &[Pattern],
        states: &[State],
        threads: &[NonZeroUsize],
        seed: u64,
        mut watch: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        for case in cases(target, patterns, self.limits.tiles, seed) {
            let prepared = self.prepare(case);
            for threads in threads {
                let painter = || Painter {
                    catalog: self.catalog,
                    scratch: Scratch::default(),
                    buffers: EncodeBuffers::default(),
                    _place: self.activity.enter(),
                };
                let mut team = Team::new(std::iter::repeat_with(painter).take(threads.get()))?;
                // Chunk indexes are read, and memory is touched, before measuring.
                prepared
                    .case
                    .tiles
                    .iter()
                    .take(1)
                    .for_each(|first| team.practise(first));
                for state in states {
                    watch(self.row(&mut team, &prepared, *state))?;
                }
            }
        }
        Ok(())
    }

    /// Why tiles failed, each reason once.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// What to know when reading the rows.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn prepare(&mut self, case: Case) -> Prepared {
        let first = case
            .tiles
            .first()
            .and_then(|first| self.catalog.resolve(first).ok());
        for channel in first.iter().flat_map(Resolved::unmeasured) {
            match channel.survey() {
                Ok(survey) => channel.keep(&Arc::new(survey)),
                Err(error) => {
                    add_new(
                        &mut self.remarks,
                        format!("cannot compute the window of {}: {error}", channel.name),
                    );
                }
            }
        }
        let plan = first.map(|resolved| resolved.plan());
        let sources = plan.iter().flat_map(|plan| plan.picture.sources());
        let volumes = sources.map(|source| Arc::clone(&source.volume)).collect();
        Prepared { case, volumes }
    }

    fn row(&mut self, team: &mut Team<'_>, prepared: &Prepared, state: State) -> Row {
        let Prepared { case, .. } = prepared;
        let mut requests = case.tiles.as_slice();
        let before = self.metrics.chunk_reads.get();
        if state != State::Disk {
            // Warm up with the row's own tiles: as many of them as fit into the time limit.
            prepared.forget_chunks();
            let there = team.round(requests, requests.len(), Instant::now() + self.limits.time);
            requests = requests.get(..there.max(1)).unwrap_or_default();
            team.take();
        }
        let keeps_chunks = self.metrics.chunk_reads.get() > before;
        let is_cold = state == State::Disk || (state == State::Chunks && keeps_chunks);
        let alone = is_cold && case.course.pattern == Pattern::Random;
        let each = if alone {
            team.threads()
        } else {
            requests.len()
        }
        .max(1);
        let (began, mut counted) = (Instant::now(), Duration::ZERO);
        let (mut done, mut counts) = (Done::default(), Counts::default());
        'rows: loop {
            for round in requests.chunks(each) {
                self.drop_caches(prepared, state);
                let (before, start) = (self.read_counts(), Instant::now());
                team.round(
                    round,
                    round.len(),
                    start + self.limits.time.saturating_sub(counted),
                );
                counted += start.elapsed();
                counts += self.read_counts().since(&before).unwrap_or_default();
                done += team.take();
                let late = began.elapsed() > self.limits.time * AROUND;
                let hopeless = done.times.is_empty() && done.failed >= MAX_FAILED;
                if counted >= self.limits.time
                    || done.times.len() >= self.limits.tiles
                    || late
                    || hopeless
                {
                    break 'rows;
                }
            }
        }
        done.problems
            .iter()
            .for_each(|problem| add_new(&mut self.failures, problem.clone()));
        row(case, state, team.threads(), done, &counts)
    }

    /// What was counted so far: by the catalogue, and by the system, if it does.
    fn read_counts(&self) -> Counts {
        // Writing to a string cannot fail.
        let mut counts = Counts::parse(&self.metrics.text(|_| true).unwrap_or_default());
        bytes_from_disk()
            .into_iter()
            .for_each(|bytes| counts.set(FROM_DISK, bytes as f64));
        counts
    }

    /// Drops the caches that the state wants empty.
    fn drop_caches(&mut self, prepared: &Prepared, state: State) {
        if state != State::Warm {
            prepared.forget_chunks();
        }
        if state == State::Disk {
            for volume in &prepared.volumes {
                if let Err(error) = volume.forget_pages() {
                    let remark = format!("the file cannot be dropped from the page cache: {error}");
                    add_new(&mut self.remarks, remark);
                }
            }
        }
    }
}

impl Worker for Painter<'_> {
    /// One tile, from the request to the PNG.
    fn work(&mut self, request: &TileRequest, done: &mut Done) -> Result<(), String> {
        let began = Instant::now();
        let resolved = self.catalog.resolve(request).map_err(|e| e.to_string())?;
        black_box(resolved.key());
        let plan = resolved.plan();
        let planned = Instant::now();
        let pixels = render::draw(&plan, &mut self.scratch).map_err(|e| e.to_string())?;
        let drawn = Instant::now();
        let png = render::encode(
            pixels,
            plan.picture.pixels(),
            plan.style.png,
            &mut self.buffers,
        );
        let png = png.map_err(|e| e.to_string())?;
        let voxel_bytes = |source: &&Source| {
            let voxels = source
                .patch
                .as_ref()
                .map_or(0, |patch| patch.width() * patch.height());
            (voxels * source.volume.shape().voxel.samples().voxel_bytes()) as u64
        };
        done.planning += planned - began;
        done.drawing += drawn - planned;
        done.encoding += drawn.elapsed();
        done.voxel_bytes += plan.picture.sources().iter().map(voxel_bytes).sum::<u64>();
        done.png_bytes += png.len() as u64;
        black_box(png);
        Ok(())
    }
}

impl Prepared {
    fn forget_chunks(&self) {
        self.volumes
            .iter()
            .for_each(|volume| volume.forget_chunks());
    }
}

/// How the level is stored that a computed level is derived from: the nearest finer stored one.
fn read_instead(channel: &ChannelDescription, level: u8) -> Option<StorageDescription> {
    let finer = channel.levels.iter().filter(|other| other.level < level);
    finer.filter_map(|other| other.storage.clone()).next_back()
}

fn add_new(texts: &mut Vec<String>, text: String) {
    if !texts.contains(&text) {
        texts.push(text);
    }
}

fn row(case: &Case, state: State, threads: usize, done: Done, counts: &Counts) -> Row {
    let tiles = done.times.len();
    // Failed tiles take time as well without counting as tiles.
    let milliseconds = if tiles == 0 { 0.0 } else { 1e3 / tiles as f64 };
    let reading = ReadTimes::new(counts)
        .unwrap_or_default()
        .scaled(milliseconds);
    let each = |time: Duration| time.as_secs_f64() * milliseconds;
    let busy = done
        .times
        .iter()
        .sum::<Duration>()
        .as_secs_f64()
        .max(f64::MIN_POSITIVE);
    // Threads without work do not count as drawing.
    let speed = threads.min(tiles) as f64 / busy;
    Row {
        course: case.course.clone(),
        state,
        threads,
        tiles,
        failed: done.failed,
        tiles_per_second: speed * tiles as f64,
        voxel_mb_per_second: speed * done.voxel_bytes as f64 / 1e6,
        voxel_bytes: done.voxel_bytes as f64 / tiles.max(1) as f64,
        latency: Percentiles::new(done.times),
        stages: Stages {
            plan: each(done.planning),
            reading,
            draw: (each(done.drawing) - reading.sum()).max(0.0),
            encode: each(done.encoding),
        },
        chunks: ChunkUse {
            decoded: counts.count("chunk_reads"),
            found: counts.count("chunk_cache_hits"),
            stored_bytes: counts.count("chunk_stored_bytes"),
            decoded_bytes: counts.count("chunk_decoded_bytes"),
        },
        png_bytes: done.png_bytes as f64 / tiles.max(1) as f64,
        disk_bytes: counts.get(FROM_DISK).map(|bytes| bytes as u64),
    }
}
