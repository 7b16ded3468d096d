//! A tile, overview, range or box that is to be made: found in the tiers, or rendered and stored in
//! the tiers.

use std::sync::Arc;

use voltile_base::metrics::Metrics;
use voltile_base::tile::{Tile, TileKey};
use voltile_hdf5::volume::{Decode, ReadPolicy, UnfinishedChunks, Yields};

use super::client::Urgency;
use super::error::{ErrorKind, TileError};
use super::footprint::Footprint;
use super::render_plan::RenderPlan;
use super::tier_writer::TierWriter;
use crate::catalog::Origin;

/// The purpose that a tile is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A request, by a user who waits or by a client that prefetches.
    Request(Urgency),
    /// To be prefetched: a neighbour of a requested tile.
    Neighbour,
    /// To be in the tiers: it is not looked for, and is an error if it cannot be kept.
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

/// A tile, overview or box that is to be made.
pub(super) struct TileWork {
    pub key: TileKey,
    pub origin: Origin,
    pub plan: RenderPlan,
    pub footprint: Footprint,
    pub purpose: Purpose,
    /// How its chunks are read, and the trace of the request that it is made for.
    pub policy: ReadPolicy,
    pub tier_writer: Arc<TierWriter>,
    pub metrics: Metrics,
}

impl TileWork {
    /// Whether a tier may have it.
    pub fn is_looked_for(&self) -> bool {
        self.is_kept() && self.purpose != Purpose::Warming
    }

    /// Whether there are tiers, and it is meant for them.
    pub fn is_kept(&self) -> bool {
        self.tier_writer.has_tiers() && self.is_for_tiers()
    }

    fn is_for_tiers(&self) -> bool {
        // The keys of a live dataset change with each slice.
        self.plan.is_for_tiers()
            && !self.origin.may_grow()
            && self.purpose != Purpose::Request(Urgency::View)
    }

    /// The tile, if a tier has it. Blocks.
    pub fn find(&self) -> Option<Tile> {
        let (tile, outcome) = self.tier_writer.find(&self.origin, self.key)?;
        if let Some(trace) = &self.policy.trace {
            trace.set_outcome(outcome);
        }
        Some(tile)
    }

    /// Renders it, on a render thread, and has it kept.
    pub fn render(&self, yields: Yields) -> Result<Tile, TileError> {
        let tile = self.drawn(yields)?;
        match self.purpose {
            Purpose::Request(Urgency::Wanted | Urgency::View) | Purpose::Neighbour => {
                self.tier_writer.store_later(
                    &self.origin,
                    &tile,
                    self.is_for_tiers(),
                    self.policy
                        .unfinished
                        .as_ref()
                        .and_then(UnfinishedChunks::take),
                );
            }
            _ if !self.is_for_tiers() => {}
            // Prefetches can exceed the capacity of the background writer, and all of them must be
            // stored. A write error is counted and logged by the tier; the client gets the tile all
            // the same.
            Purpose::Request(Urgency::Prefetch) => {
                if self.tier_writer.store_now(&self.origin, &tile).is_err() {
                    tracing::debug!(key = %tile.key, "a tile was not written to every tier");
                }
            }
            Purpose::Warming => self.tier_writer.store_now(&self.origin, &tile)?,
        }
        Ok(tile)
    }

    fn drawn(&self, yields: Yields) -> Result<Tile, TileError> {
        let policy = ReadPolicy {
            yields,
            ..self.policy.clone()
        };
        if self.purpose == Purpose::Neighbour {
            return Ok(Tile::new(self.key, self.plan.draw(&policy)?));
        }
        self.metrics.renders.inc();
        self.origin.dataset.counters.count_render();
        let png = self
            .plan
            .draw(&policy)
            .map_err(TileError::from)
            .inspect_err(|error| self.note(error))?;
        if let Some(trace) = &self.policy.trace {
            self.metrics.observe_render(self.plan.rendered(), trace);
        }
        Ok(Tile::new(self.key, png))
    }

    /// Counts and logs why it could not be made. That a file is stuck, or a store unavailable, is
    /// logged once for all tiles; a panic, where it happens.
    pub fn note(&self, error: &TileError) {
        if error.kind() == ErrorKind::Failed {
            self.metrics.render_errors.inc();
            let request = self.policy.trace.as_ref().map_or("", |trace| trace.id());
            tracing::error!(key = %self.key, request, "a tile could not be rendered: {error}");
        }
    }

    /// A tile that was made, with its weight in bytes against the cache's budget. No budget has
    /// room for a tile that is not complete.
    pub fn weighed(&self, tile: Tile) -> (Tile, usize) {
        let is_final = !self.origin.may_grow() || self.footprint.is_final();
        let weight = if is_final { tile.weight() } else { usize::MAX };
        (tile, weight)
    }
}
