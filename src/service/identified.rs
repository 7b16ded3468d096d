//! The subject of a request, once it is resolved: a tile, an overview, a range or a box, rendered
//! or not.

use std::sync::Arc;

use voltile_base::metrics::DatasetCounters;
use voltile_base::tile::{Tile, TileKey};
use voltile_render::plan::{BoxEncoding, Cutout};

use super::boxes::Held;
use super::drawing::Drawing;
use super::footprint::Footprint;
use crate::catalog::{Origin, Overview, Resolved, ResolvedBox, Visible};

/// The result of [`super::TileService::identify`].
#[derive(Debug)]
pub struct Identified {
    key: TileKey,
    pub(super) origin: Origin,
    pub(super) what: What,
}

/// For how long an answer may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// As configured.
    AsConfigured,
    /// It must be revalidated at each use: a live dataset may get another window.
    Revalidated,
    /// Not at all: not all of its voxels have been written, as far as is known.
    No,
}

#[derive(Debug)]
pub(super) enum What {
    /// One of the shared black tiles: the address lies outside all volumes.
    Black(Tile),
    /// A tile that shows voxels.
    Tile(Resolved),
    /// A thumbnail of a slice.
    Overview(Overview),
    /// The range of the visible values.
    Range(Visible),
    /// A box of voxels, and the memory in which it is made; on the heap, so that tiles do not take
    /// as much room as boxes.
    Box(Box<ResolvedBox>, BoxEncoding, Option<Arc<Held>>),
}

impl Identified {
    pub(super) fn new(origin: Origin, what: What) -> Self {
        let key = match &what {
            What::Black(tile) => tile.key,
            What::Tile(resolved) => resolved.key(),
            What::Overview(overview) => overview.key(),
            What::Range(visible) => visible.key(),
            What::Box(resolved, encoding, _) => resolved.key(*encoding),
        };
        Self { key, origin, what }
    }

    /// The key of the tile; also its ETag.
    pub fn key(&self) -> TileKey {
        self.key
    }

    /// The counters of its dataset.
    pub fn counters(&self) -> &Arc<DatasetCounters> {
        &self.origin.dataset.counters
    }

    /// Holds the memory at least until the value is made or given up, even if the request ends
    /// before.
    #[must_use]
    pub fn holding(mut self, memory: Arc<Held>) -> Self {
        if let What::Box(.., held) = &mut self.what {
            *held = Some(memory);
        }
        self
    }

    /// For how long it may be kept. For a live dataset, that is known once it was fetched.
    pub fn keeping(&self) -> Keeping {
        if !self.origin.may_grow() {
            return Keeping::AsConfigured;
        }
        let footprint = self.footprint();
        if !footprint.is_some_and(|footprint| footprint.is_final()) {
            return Keeping::No;
        }
        if matches!(self.what, What::Box(..)) || !self.origin.is_measured() {
            return Keeping::AsConfigured;
        }
        Keeping::Revalidated
    }

    /// The plan and the encoding of a box of voxels; `None` for anything else.
    pub fn cutout(&self) -> Option<(Cutout, BoxEncoding)> {
        match &self.what {
            What::Box(resolved, encoding, _) => Some((resolved.plan(), *encoding)),
            _ => None,
        }
    }

    /// The stored voxels that it is made from; `None` for a black tile.
    pub(super) fn footprint(&self) -> Option<Footprint> {
        self.drawing().map(|drawing| drawing.footprint())
    }

    /// Its drawing; `None` for a black tile.
    pub(super) fn drawing(&self) -> Option<Drawing> {
        Some(match &self.what {
            What::Black(_) => return None,
            What::Tile(resolved) => Drawing::Tile(resolved.plan()),
            What::Overview(overview) => Drawing::Overview(overview.plan()),
            What::Range(visible) => Drawing::Range(visible.plan()),
            What::Box(resolved, encoding, held) => {
                Drawing::Box(resolved.plan(), *encoding, held.clone())
            }
        })
    }
}
