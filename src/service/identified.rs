//! The subject of a request, once it is resolved: a tile, an overview, a range or a box, rendered
//! or not.

use std::sync::Arc;

use voltile_base::flow::trace::{Outcome, Trace};
use voltile_base::metrics::{DatasetCounters, Metrics};
use voltile_base::tile::{Tile, TileKey};
use voltile_render::plan::{BoxEncoding, Cutout};

use super::boxes::HeldMemory;
use super::render_plan::RenderPlan;
use crate::catalog::{Origin, ResolvedBox, ResolvedOverview, ResolvedRange, ResolvedTile};

/// The result of [`super::TileService::identify`].
#[derive(Debug)]
pub struct Identified {
    key: TileKey,
    pub(super) origin: Origin,
    pub(super) subject: RequestSubject,
}

/// For how long an answer may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePolicy {
    /// As configured.
    AsConfigured,
    /// It must be revalidated at each use: a live dataset may get another window.
    Revalidated,
    /// Not at all: not all of its voxels have been written, as far as is known.
    No,
}

#[derive(Debug)]
pub(super) enum RequestSubject {
    /// One of the shared black tiles: the address lies outside all volumes.
    Black(Tile),
    /// A tile, overview, range or box that is rendered from voxels.
    Rendered(RenderPlan),
}

/// A box of voxels that is to be made.
#[derive(Debug, Clone)]
pub(super) struct PlannedBox {
    key: TileKey,
    pub plan: Arc<Cutout>,
    pub encoding: BoxEncoding,
    /// The memory in which it is made: held for as long as this is.
    held: Option<Arc<HeldMemory>>,
}

impl PlannedBox {
    /// A resolved box in an encoding.
    pub fn new(resolved: &ResolvedBox, encoding: BoxEncoding) -> Self {
        Self {
            key: resolved.key(encoding),
            plan: Arc::new(resolved.plan()),
            encoding,
            held: None,
        }
    }

    /// The box, if it is a stored chunk that can be sent as it is and is in memory: it needs no
    /// render thread. Never blocks.
    pub fn stored_chunk(&self, metrics: &Metrics, trace: Option<&Trace>) -> Option<Tile> {
        let chunk = voltile_render::cached_box(&self.plan, self.encoding)?;
        metrics.chunks_passed.inc();
        if let Some(trace) = trace {
            trace.set_outcome(Outcome::Passed);
        }
        Some(Tile::new(self.key, chunk))
    }
}

impl Identified {
    /// One of the shared black tiles.
    pub(super) fn black(origin: Origin, tile: Tile) -> Self {
        Self {
            key: tile.key,
            origin,
            subject: RequestSubject::Black(tile),
        }
    }

    /// A tile that shows voxels. The windows of its channels have been measured.
    pub(super) fn tile(origin: Origin, resolved: &ResolvedTile) -> Self {
        let plan = RenderPlan::Tile(Arc::new(resolved.plan()));
        Self::rendered(resolved.key(), origin, plan)
    }

    /// A thumbnail of a slice. The windows of its channels have been measured.
    pub(super) fn overview(origin: Origin, resolved: &ResolvedOverview) -> Self {
        let plan = RenderPlan::Overview(Arc::new(resolved.plan()));
        Self::rendered(resolved.key(), origin, plan)
    }

    /// The range of the visible values.
    pub(super) fn range(origin: Origin, resolved: &ResolvedRange) -> Self {
        let plan = RenderPlan::Range(Arc::new(resolved.plan()));
        Self::rendered(resolved.key(), origin, plan)
    }

    /// A box of voxels.
    pub(super) fn planned_box(origin: Origin, planned: PlannedBox) -> Self {
        Self::rendered(planned.key, origin, RenderPlan::Box(planned))
    }

    fn rendered(key: TileKey, origin: Origin, plan: RenderPlan) -> Self {
        Self {
            key,
            origin,
            subject: RequestSubject::Rendered(plan),
        }
    }

    /// The key of the tile; also its ETag.
    pub fn key(&self) -> TileKey {
        self.key
    }

    /// Whether it is a black tile: it lies outside of the volume, or at a time point without data.
    pub fn is_outside(&self) -> bool {
        matches!(self.subject, RequestSubject::Black(_))
    }

    /// Whether files may lack parts of it.
    pub fn has_gaps(&self) -> bool {
        self.origin.has_gaps()
    }

    /// The counters of its dataset.
    pub fn counters(&self) -> &Arc<DatasetCounters> {
        &self.origin.dataset.counters
    }

    /// Holds the memory at least until the value is made or given up, even if the request ends
    /// before.
    #[must_use]
    pub fn holding(mut self, memory: Arc<HeldMemory>) -> Self {
        if let RequestSubject::Rendered(RenderPlan::Box(planned)) = &mut self.subject {
            planned.held = Some(memory);
        }
        self
    }

    /// For how long it may be kept. For a live dataset, that is known once it was fetched.
    pub fn cache_policy(&self) -> CachePolicy {
        if !self.origin.may_grow() {
            return CachePolicy::AsConfigured;
        }
        match self.plan() {
            Some(plan) if plan.footprint().is_final() => {}
            _ => return CachePolicy::No,
        }
        if self.cutout().is_some() || !self.origin.is_measured() {
            return CachePolicy::AsConfigured;
        }
        CachePolicy::Revalidated
    }

    /// The plan and the encoding of a box of voxels; `None` for anything else.
    pub fn cutout(&self) -> Option<(&Cutout, BoxEncoding)> {
        match self.plan()? {
            RenderPlan::Box(planned) => Some((&planned.plan, planned.encoding)),
            _ => None,
        }
    }

    /// The plan of its render; `None` for a black tile.
    pub(super) fn plan(&self) -> Option<&RenderPlan> {
        match &self.subject {
            RequestSubject::Black(_) => None,
            RequestSubject::Rendered(plan) => Some(plan),
        }
    }
}
