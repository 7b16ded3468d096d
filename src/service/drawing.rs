//! The work for one tile: looked up in the tiers or rendered, and then written to them.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use super::verify::{Footprint, Provisional};
use super::{Held, TileError, Urgency, Warmed};
use crate::catalog::{Dataset, Origin, Overview, Resolved, ResolvedBox};
use crate::metrics::{DatasetCounters, Metrics, Rendered};
use crate::name::Name;
use crate::plan::{BoxEncoding, Cutout, Plan};
use crate::render::{self, RenderError, Scratch};
use crate::tier::{Backend, Tiers};
use crate::tile::{Tile, TileKey};
use crate::trace::{Outcome, Stage, Trace};
use crate::volume::{Decode, ReadError, ReadPolicy, Yields};

/// The result of [`super::TileService::identify`]: a tile that exists, rendered or not.
#[derive(Debug)]
pub enum Identified {
    /// One of the shared black tiles, for a dataset: the address lies outside all volumes.
    Black(Tile, Arc<Dataset>),
    /// A tile that shows voxels.
    Made {
        /// Its key.
        key: TileKey,
        /// The request, resolved in the catalogue.
        resolved: Resolved,
    },
    /// A thumbnail of a slice.
    Overview {
        /// Its key.
        key: TileKey,
        /// The slice, resolved in the catalogue.
        overview: Overview,
    },
    /// A box of voxels.
    Box {
        /// Its key.
        key: TileKey,
        /// The box; on the heap, so that tiles do not take as much room as boxes.
        resolved: Box<ResolvedBox>,
        /// How it is encoded.
        encoding: BoxEncoding,
        /// The memory in which it is made.
        held: Option<Arc<Held>>,
    },
}

impl Identified {
    /// The key of the tile; also its ETag.
    pub fn key(&self) -> TileKey {
        match self {
            Identified::Black(tile, _) => tile.key,
            Identified::Made { key, .. } | Identified::Overview { key, .. } | Identified::Box { key, .. } => {
                *key
            }
        }
    }

    /// The counters of its dataset.
    pub fn counters(&self) -> Option<&Arc<DatasetCounters>> {
        let dataset = match self {
            Identified::Black(_, dataset) => dataset,
            Identified::Made { resolved, .. } => resolved.dataset(),
            Identified::Overview { overview, .. } => overview.tiles().first()?.dataset(),
            Identified::Box { resolved, .. } => resolved.dataset(),
        };
        Some(&dataset.counters)
    }

    /// The same; the memory is held at least until it is made or given up, even if the request ends before.
    #[must_use]
    pub fn holding(mut self, memory: Arc<Held>) -> Self {
        if let Identified::Box { held, .. } = &mut self {
            *held = Some(memory);
        }
        self
    }

    /// How it is encoded, if it is a box of voxels.
    pub fn encoding(&self) -> Option<BoxEncoding> {
        match self {
            Identified::Box { encoding, .. } => Some(*encoding),
            _ => None,
        }
    }

    /// The box of voxels, if it is one.
    pub fn cutout(&self) -> Option<Cutout> {
        match self {
            Identified::Box { resolved, .. } => Some(resolved.plan(ReadPolicy::default())),
            _ => None,
        }
    }
}

/// Renders a tile's PNG, on a render thread. May be called again after it was stopped.
pub(super) type Draw = Box<dyn FnMut(&mut Scratch) -> Result<Vec<u8>, RenderError> + Send>;

/// A tile to be rendered: how, under which dataset it is stored, and which voxels it shows.
pub(super) struct Drawing {
    pub key: TileKey,
    pub origin: Origin,
    pub draw: Draw,
    pub footprint: Footprint,
    /// Whether tiers keep it.
    pub is_kept: bool,
    /// What it makes, for metrics.
    pub rendered: Rendered,
    /// The trace of the request that it is for.
    pub trace: Option<Arc<Trace>>,
}

impl Drawing {
    pub fn of(key: TileKey, origin: Origin, plan: Plan) -> Self {
        let footprint = Footprint::of(std::slice::from_ref(&plan));
        let trace = plan.policy.trace.clone();
        Self {
            key,
            origin,
            draw: Box::new(move |scratch| render::render(&plan, scratch)),
            footprint,
            is_kept: true,
            rendered: Rendered::Tile,
            trace,
        }
    }

    /// Renders the tile and counts it; logs an error.
    pub fn drawn(&mut self, metrics: &Metrics) -> Result<Tile, RenderError> {
        metrics.renders.inc();
        self.origin.counters.count_render();
        let rendered = with_scratch(&mut self.draw);
        match (&rendered, &self.trace) {
            (Ok(_), Some(trace)) => metrics.observe_render(self.rendered, trace),
            // That a file is stuck is logged once for all tiles.
            (Ok(_), None) | (Err(RenderError::Read(ReadError::Lost(_) | ReadError::Unresponsive(_))), _) => {}
            (Err(error), trace) => {
                metrics.render_errors.inc();
                let request = trace.as_ref().map_or("", |trace| trace.id());
                tracing::error!(key = %self.key, request, "a tile could not be rendered: {error}");
            }
        }
        Ok(Tile::new(self.key, rendered?))
    }
}

/// Finds a tile in the tiers, or renders it and has it written there.
pub(super) struct TileWork {
    pub drawing: Drawing,
    urgency: Urgency,
    tiers: Option<Arc<Tiers>>,
    provisional: Arc<Provisional>,
    metrics: Metrics,
    queued: Option<Instant>,
}

impl TileWork {
    pub fn new(
        drawing: Drawing,
        urgency: Urgency,
        tiers: Option<Arc<Tiers>>,
        provisional: Arc<Provisional>,
        metrics: Metrics,
    ) -> Self {
        let tiers = tiers.filter(|_| drawing.is_kept);
        Self { drawing, urgency, tiers, provisional, metrics, queued: None }
    }

    /// The job that renders the tile, which is queued now.
    pub fn into_drawing_job(mut self) -> impl FnMut() -> Result<(Tile, usize), TileError> {
        self.queued = Some(Instant::now());
        move || self.draw()
    }

    /// The same, but the job looks in the tiers first.
    pub fn into_job(mut self) -> impl FnMut() -> Result<(Tile, usize), TileError> {
        self.queued = Some(Instant::now());
        move || self.find_or_draw()
    }

    /// The tile, if a tier has it. Blocks.
    pub fn find(&self) -> Option<(Tile, usize)> {
        if self.provisional.is_refused(&self.drawing) {
            return None;
        }
        let (tile, outcome) = found(self.tiers.as_deref(), &self.drawing.origin, self.drawing.key)?;
        self.drawing.trace.as_ref().inspect(|trace| trace.set_outcome(outcome));
        Some(weighed(tile))
    }

    /// Renders the tile, and has it written to the tiers.
    pub fn draw(&mut self) -> Result<(Tile, usize), TileError> {
        self.note_queueing();
        let given_up = self.provisional.chunks.given_up();
        let tile = self.drawing.drawn(&self.metrics)?;
        let (tiers, origin) = (self.tiers.as_deref(), &self.drawing.origin);
        match self.urgency {
            Urgency::Wanted => {
                let footprint = &self.drawing.footprint;
                self.provisional.keep_later(tiers, || origin.clone(), &tile, footprint, given_up);
            }
            // Prefetches can exceed the capacity of the background writer, and all of them must be stored.
            Urgency::Prefetch => keep_now(tiers, origin, &tile),
        }
        Ok(weighed(tile))
    }

    pub fn find_or_draw(&mut self) -> Result<(Tile, usize), TileError> {
        self.note_queueing();
        self.find().map_or_else(|| self.draw(), Ok)
    }

    fn note_queueing(&mut self) {
        if let (Some(trace), Some(queued)) = (&self.drawing.trace, self.queued.take()) {
            trace.add(Stage::Queue, queued.elapsed());
        }
    }
}

/// How chunks are read for a request. If the client prefetches, they are decoded whole: it will want the adjacent
/// tiles.
pub(super) fn policy(urgency: Urgency, yields: Yields, trace: Option<Arc<Trace>>) -> ReadPolicy {
    let decode = match urgency {
        Urgency::Wanted => Decode::AsNeeded,
        Urgency::Prefetch => Decode::Whole,
    };
    ReadPolicy { decode, yields, trace }
}

impl Identified {
    /// The dataset and the channels that it is made from; `None` for a black tile.
    pub(super) fn origin(&self) -> Option<Origin> {
        match self {
            Identified::Black(..) => None,
            Identified::Made { resolved, .. } => Some(resolved.origin()),
            Identified::Overview { overview, .. } => overview.origin(),
            Identified::Box { resolved, .. } => Some(resolved.origin()),
        }
    }

    /// Its drawing, with chunks read by the policy; `None` for a black tile.
    pub(super) fn drawing(&self, policy: ReadPolicy) -> Option<Drawing> {
        let origin = self.origin()?;
        Some(match self {
            Identified::Black(..) => return None,
            Identified::Made { key, resolved } => Drawing::of(*key, origin, resolved.plan().with(policy)),
            Identified::Overview { key, overview } => {
                let (key, mut plan, trace) = (*key, overview.plan(), policy.trace.clone());
                plan.tiles.iter_mut().for_each(|tile| tile.policy = policy.clone());
                let footprint = Footprint::of(&plan.tiles);
                let draw = Box::new(move |scratch: &mut Scratch| render::overview(&plan, scratch));
                Drawing { key, origin, draw, footprint, is_kept: true, rendered: Rendered::Overview, trace }
            }
            Identified::Box { key, resolved, encoding, held } => {
                let (key, encoding, held, trace) = (*key, *encoding, held.clone(), policy.trace.clone());
                let plan = resolved.plan(policy);
                let footprint = Footprint::of_box(&plan);
                let draw = Box::new(move |scratch: &mut Scratch| {
                    let _held = &held;
                    render::cutout(&plan, encoding, scratch)
                });
                Drawing { key, origin, draw, footprint, is_kept: false, rendered: Rendered::Box, trace }
            }
        })
    }

    /// The dataset under which it is stored; `None` for black tiles and boxes, which are never stored.
    pub(super) fn token(&self) -> Option<&Name> {
        match self {
            Identified::Black(..) | Identified::Box { .. } => None,
            Identified::Made { resolved, .. } => Some(resolved.token()),
            Identified::Overview { overview, .. } => overview.tiles().first().map(Resolved::token),
        }
    }
}

/// A tile, with its weight in bytes against the cache's budget.
pub(super) fn weighed(tile: Tile) -> (Tile, usize) {
    let weight = tile.weight();
    (tile, weight)
}

/// The tile, if a tier has it, and the outcome of a request for it.
pub(super) fn found(tiers: Option<&Tiers>, origin: &Origin, key: TileKey) -> Option<(Tile, Outcome)> {
    let found = tiers?.find(&origin.token, &key)?;
    let outcome = match found.backend {
        Backend::Directory => Outcome::Disk,
        Backend::Redis | Backend::Objects => Outcome::Shared,
    };
    Some((Tile::new(key, found.png), outcome))
}

/// Queues a tile that was just rendered for the tiers' writers, which skip it if its files have changed.
pub(super) fn keep_later(tiers: Option<&Tiers>, origin: Origin, tile: &Tile) {
    let (Some(tiers), now) = (tiers, Instant::now()) else { return };
    let token = origin.token.clone();
    tiers.keep_later(&token, tile, move || origin.was_unchanged_at(now));
}

/// Writes a tile that was just rendered to the tiers, unless its files have changed. A write error is counted and logged
/// by the tier; the client gets the tile all the same.
pub(super) fn keep_now(tiers: Option<&Tiers>, origin: &Origin, tile: &Tile) {
    let Some(tiers) = tiers else { return };
    if !origin.was_unchanged_at(Instant::now()) || tiers.keep(&origin.token, tile).is_err() {
        tracing::debug!(key = %tile.key, "a tile was not written to every tier");
    }
}

/// Renders a tile and writes it to the tiers, unless it is there.
pub(super) fn warmed_by(
    tiers: &Tiers,
    mut drawing: Drawing,
    provisional: &Provisional,
    metrics: &Metrics,
) -> Result<Warmed, TileError> {
    if !provisional.is_refused(&drawing) && tiers.has(&drawing.origin.token, &drawing.key)? {
        return Ok(Warmed::WasThere);
    }
    let tile = drawing.drawn(metrics)?;
    let origin = drawing.origin;
    if !origin.was_unchanged_at(Instant::now()) {
        return Err(TileError::Changed { token: origin.token });
    }
    tiers.keep(&origin.token, &tile)?;
    Ok(Warmed::Drawn(tile.bytes.len()))
}

/// Runs a job with the thread's buffers. A nested job, started by work stealing, gets fresh ones.
pub(super) fn with_scratch<T>(job: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<Scratch> = RefCell::default();
    }
    let mut scratch = SCRATCH.take();
    let result = job(&mut scratch);
    SCRATCH.set(scratch);
    result
}
