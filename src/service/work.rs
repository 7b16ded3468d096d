//! A tile, overview, range or box that is to be made: found in the tiers, or rendered and stored in
//! the tiers.

use std::cell::RefCell;
use std::sync::Arc;

use voltile_base::flow::trace::{Outcome, Trace};
use voltile_base::metrics::{Form, Metrics};
use voltile_base::tile::Tile;
use voltile_hdf5::volume::{Decode, ReadPolicy, UnfinishedChunks, Yields};
use voltile_render::Scratch;

use super::boxes::HeldMemory;
use super::client::Urgency;
use super::error::{ErrorKind, TileError};
use super::tier_writer::TierWriter;
use super::tile_service::TileService;
use crate::catalog::{RequestPlan, Subject};

/// The purpose that a tile is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The request of a user who waits, or of a client that prefetches.
    Request(Urgency),
    /// Prefetching: the tile is a neighbour of a requested tile.
    Neighbour,
    /// Filling the tiers: the tile is not looked for there, and failing to store it is an error.
    Warming,
}

impl Purpose {
    /// How much of each chunk is decoded. A client that prefetches will want the adjacent tiles,
    /// too.
    pub fn decode(self) -> Decode {
        match self {
            Purpose::Request(Urgency::Wanted | Urgency::View) | Purpose::Neighbour => {
                Decode::AsNeeded
            }
            Purpose::Request(Urgency::Prefetch) | Purpose::Warming => Decode::Whole,
        }
    }
}

/// A tile, overview, range or box that is to be made.
pub(super) struct TileWork {
    pub plan: Arc<RequestPlan>,
    pub purpose: Purpose,
    /// How the chunks are read; with the trace of the request, if it is made for one.
    pub policy: ReadPolicy,
    pub tier_writer: Arc<TierWriter>,
    pub metrics: Arc<Metrics>,
    /// The memory for a box: held while the box is being made, even if the request ends before.
    _held: Option<Arc<HeldMemory>>,
}

impl TileWork {
    pub fn new(
        service: &TileService,
        plan: &Arc<RequestPlan>,
        purpose: Purpose,
        trace: Option<Arc<Trace>>,
        held: Option<Arc<HeldMemory>>,
    ) -> Self {
        Self {
            plan: Arc::clone(plan),
            purpose,
            policy: ReadPolicy {
                decode: purpose.decode(),
                yields: Yields::Never,
                trace,
                unfinished: Some(UnfinishedChunks::default()),
            },
            tier_writer: Arc::clone(&service.tier_writer),
            metrics: Arc::clone(&service.metrics),
            _held: held,
        }
    }

    /// Whether the tile is to be looked for in the tiers.
    pub fn is_looked_for(&self) -> bool {
        self.goes_to_tiers() && self.purpose != Purpose::Warming
    }

    /// Whether there are tiers, and the tile is meant for them.
    pub fn goes_to_tiers(&self) -> bool {
        self.tier_writer.has_tiers() && self.is_for_tiers()
    }

    fn is_for_tiers(&self) -> bool {
        // Not tiles of a live dataset, whose keys change with each slice that is appended.
        self.plan.is_picture()
            && !self.plan.origin.may_grow()
            && self.purpose != Purpose::Request(Urgency::View)
    }

    /// The tile, if a tier has it. Blocks.
    pub fn find(&self) -> Option<Tile> {
        let (tile, outcome) = self.tier_writer.find(&self.plan.origin, self.plan.key)?;
        if let Some(trace) = &self.policy.trace {
            trace.set_outcome(outcome);
        }
        Some(tile)
    }

    /// Renders the tile on a render thread, and has it stored in the tiers if it is meant for them.
    pub fn render(&self, yields: Yields) -> Result<Tile, TileError> {
        let tile = self.draw_counted(yields)?;
        let origin = &self.plan.origin;
        let is_for_tiers = self.is_for_tiers();
        match self.purpose {
            Purpose::Request(Urgency::Wanted | Urgency::View) | Purpose::Neighbour => {
                let unfinished = self.policy.unfinished.as_ref();
                let unfinished = unfinished.and_then(UnfinishedChunks::take);
                self.tier_writer
                    .store_later(origin, &tile, is_for_tiers, unfinished);
            }
            // From here on, chunks were decoded whole, and are verified.
            Purpose::Request(Urgency::Prefetch) | Purpose::Warming if !is_for_tiers => {}
            // A client may prefetch faster than the background writer writes, and all of its tiles
            // must be stored. A write error is counted and logged by the tier; the client gets the
            // tile all the same.
            Purpose::Request(Urgency::Prefetch) => {
                if self.tier_writer.store_now(origin, &tile).is_err() {
                    tracing::debug!(key = %tile.key, "a tile was not written to every tier");
                }
            }
            Purpose::Warming => self.tier_writer.store_now(origin, &tile)?,
        }
        Ok(tile)
    }

    /// Draws the tile, and counts it unless it is a neighbour.
    fn draw_counted(&self, yields: Yields) -> Result<Tile, TileError> {
        let policy = ReadPolicy {
            yields,
            ..self.policy.clone()
        };
        if self.purpose == Purpose::Neighbour {
            return Ok(Tile::new(self.plan.key, self.draw(&policy)?));
        }
        self.metrics.renders.inc();
        self.plan.origin.dataset.counters.count_render();
        let drawn = self.draw(&policy).inspect_err(|error| self.note(error))?;
        if let Some(trace) = &self.policy.trace {
            let form = match self.plan.subject {
                Subject::Black(..) | Subject::Tile(_) => Form::Tile,
                Subject::Overview(_) => Form::Overview,
                Subject::Range(_) | Subject::Box(..) => Form::Box,
            };
            self.metrics.observe_render(form, trace);
        }
        Ok(Tile::new(self.plan.key, drawn))
    }

    /// Draws the bytes with the thread's buffers, which are lost if drawing panics.
    fn draw(&self, policy: &ReadPolicy) -> Result<Vec<u8>, TileError> {
        thread_local! {
            static SCRATCH: RefCell<Scratch> = RefCell::default();
        }
        let mut scratch = SCRATCH.take();
        let drawn = self.plan.subject.render(policy, &mut scratch);
        SCRATCH.set(scratch);
        Ok(drawn?)
    }

    /// Counts and logs a failure of the data or of this program. Other errors are logged elsewhere:
    /// a stuck file or an unavailable store once for all tiles, a panic where it happens.
    pub fn note(&self, error: &TileError) {
        if error.kind() == ErrorKind::Failed {
            self.metrics.render_errors.inc();
            let request = self.policy.trace.as_ref().map_or("", |trace| trace.id());
            tracing::error!(key = %self.plan.key, request, "a tile could not be rendered: {error}");
        }
    }

    /// A tile that was made, with its weight in bytes against the cache's budget. A tile whose
    /// voxels may still change is too heavy for any budget.
    pub fn weighed(&self, tile: Tile) -> (Tile, usize) {
        let is_final = !self.plan.origin.may_grow() || self.plan.footprint().is_final();
        let weight = if is_final { tile.weight() } else { usize::MAX };
        (tile, weight)
    }
}

/// The box that is planned, if it is a stored chunk in memory that can be sent as it is: then it
/// needs no render thread. Never blocks.
pub(super) fn stored_chunk(
    plan: &RequestPlan,
    metrics: &Metrics,
    trace: Option<&Trace>,
) -> Option<Tile> {
    let (cutout, encoding) = plan.cutout()?;
    let chunk = voltile_render::cached_box(cutout, encoding)?;
    metrics.chunks_passed.inc();
    if let Some(trace) = trace {
        trace.set_outcome(Outcome::Passed);
    }
    Some(Tile::new(plan.key, chunk))
}
