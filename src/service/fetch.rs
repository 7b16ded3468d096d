//! Fetches a planned tile, overview, range or box: from the cache, by joining a flight, or by
//! leading a flight.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::task::spawn_blocking;
use voltile_base::flow::cache::{Abandoned, Lookup};
use voltile_base::flow::trace::{Outcome, Stage, Trace};
use voltile_base::tile::Tile;
use voltile_hdf5::volume::ReadError;
use voltile_render::RenderError;

use super::boxes::HeldMemory;
use super::client::{Client, Demand, Urgency};
use super::error::TileError;
use super::tile_service::TileService;
use super::work::{Purpose, TileWork, stored_chunk};
use crate::catalog::RequestPlan;

/// The outcome of warming a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmOutcome {
    /// It lies outside the volume: there is nothing to store.
    Black,
    /// Every tier that is meant to last had it.
    WasThere,
    /// It was rendered and stored; the length of the PNG in bytes.
    Drawn(usize),
}

impl TileService {
    /// Fetches what is planned. For a prefetch, chunks are decoded completely, and the tile is
    /// in the tiers when this returns, unless it cannot be written. The outcome is recorded in the
    /// trace.
    ///
    /// If this future is dropped, a render that no other request waits for is dropped too: before
    /// it begins, or before its next chunk. `held` is the memory for a box, which the render holds
    /// until it ends or is dropped.
    pub async fn fetch(
        &self,
        plan: &Arc<RequestPlan>,
        demand: Demand,
        trace: &Arc<Trace>,
        held: Option<Arc<HeldMemory>>,
    ) -> Result<Tile, TileError> {
        if plan.is_black()
            && let Some(tile) = self.black.iter().find(|tile| tile.key == plan.key)
        {
            trace.set_outcome(Outcome::Black);
            self.metrics.black_tiles.inc();
            return Ok(tile.clone());
        }
        let tile = self.find_or_render(plan, demand, trace, held).await;
        // A read may find a change that the last check of the files has missed.
        if let Err(TileError::Render(RenderError::Read(ReadError::Changed { .. }))) = &tile {
            plan.origin.note_change();
            self.request_reopening(plan.origin.token());
        }
        let is_from_memory = matches!(trace.outcome(), Outcome::Hit | Outcome::Wait);
        if demand.urgency == Urgency::Prefetch && is_from_memory && tile.is_ok() {
            // It may have been made for a user, and not be in the tiers.
            let work = TileWork::new(self, plan, Purpose::Warming, None, None);
            if work.goes_to_tiers()
                && let Err(error) = Box::pin(self.make_unless_stored(work)).await
            {
                tracing::debug!(key = %plan.key, "a tile was not kept: {error}");
            }
        }
        tile
    }

    /// Fetches a box of voxels once there is memory for it. The memory is held until the
    /// [`HeldMemory`] is dropped.
    pub async fn fetch_box(
        &self,
        plan: &Arc<RequestPlan>,
        demand: Demand,
        trace: &Arc<Trace>,
    ) -> Result<(Bytes, Arc<HeldMemory>), TileError> {
        let began = Instant::now();
        let held = self.boxes.hold(demand.client, plan.bytes()).await?;
        let held = Arc::new(held);
        trace.add(Stage::Queue, began.elapsed());
        let voxels = self
            .fetch(plan, demand, trace, Some(Arc::clone(&held)))
            .await?
            .bytes;
        held.shrink_to(voxels.len());
        Ok((voxels, held))
    }

    /// Finds the tile in memory, joins the flight that makes it, or leads a flight. The future that
    /// waits is on the heap, so that the future of a hit is small.
    async fn find_or_render(
        &self,
        plan: &Arc<RequestPlan>,
        demand: Demand,
        trace: &Arc<Trace>,
        held: Option<Arc<HeldMemory>>,
    ) -> Result<Tile, TileError> {
        if let Some(chunk) = stored_chunk(plan, &self.metrics, Some(trace)) {
            return Ok(chunk);
        }
        loop {
            let (waiter, is_leader) = match self.cache.lookup(&plan.key) {
                Lookup::Ready(tile) => {
                    trace.set_outcome(Outcome::Hit);
                    self.metrics.tile_hits.inc();
                    return Ok(tile);
                }
                Lookup::Wait(waiter) => {
                    trace.set_outcome(Outcome::Wait);
                    self.metrics.tile_waits.inc();
                    self.maker.join(&plan.key, demand);
                    (waiter, false)
                }
                Lookup::Lead(flight) => {
                    trace.set_outcome(Outcome::Miss);
                    let purpose = Purpose::Request(demand.urgency);
                    let trace = Some(Arc::clone(trace));
                    let work = TileWork::new(self, plan, purpose, trace, held.clone());
                    let make = Arc::clone(&self.maker).make(work, demand);
                    (flight.launch(make), true)
                }
            };
            let landed = Box::pin(self.landed(plan.origin.files(), waiter)).await;
            // A joined flight may make a neighbour, and is given up when a job comes: then the tile
            // is looked up again.
            if is_leader || !matches!(landed, Err(TileError::Abandoned(_))) {
                return landed;
            }
        }
    }

    /// Ensures that a tile is in every tier that is meant to last: unless it is there, renders it
    /// on the pool and writes it before this returns. The memory cache is bypassed, and other
    /// requests cannot join the render.
    ///
    /// Without tiers the tile is rendered and dropped.
    pub async fn warm(&self, plan: &Arc<RequestPlan>) -> Result<WarmOutcome, TileError> {
        if plan.is_black() {
            return Ok(WarmOutcome::Black);
        }
        let work = TileWork::new(self, plan, Purpose::Warming, None, None);
        self.make_unless_stored(work).await
    }

    /// Makes a tile and writes it to the tiers, unless they have it.
    async fn make_unless_stored(&self, work: TileWork) -> Result<WarmOutcome, TileError> {
        let tier_writer = Arc::clone(&self.tier_writer);
        let plan = Arc::clone(&work.plan);
        let lookup = spawn_blocking(move || tier_writer.tiers.has(plan.origin.token(), &plan.key));
        if lookup.await.map_err(|_| Abandoned)?? {
            return Ok(WarmOutcome::WasThere);
        }
        let demand = Demand::prefetch(Client::InProcess);
        let (tile, _) = Arc::clone(&self.maker).make(work, demand).await?;
        Ok(WarmOutcome::Drawn(tile.bytes.len()))
    }
}
