//! Fetches an identified tile, overview, range or box: from the cache, by joining a flight, or by
//! leading a flight.

use std::sync::Arc;

use tokio::task::spawn_blocking;
use voltile_base::flow::cache::{Abandoned, Lookup};
use voltile_base::flow::trace::{Outcome, Trace};
use voltile_base::tile::Tile;
use voltile_hdf5::volume::ReadError;
use voltile_render::RenderError;

use super::client::{Client, Demand, Urgency};
use super::error::TileError;
use super::identified::{Identified, RequestSubject};
use super::render_plan::RenderPlan;
use super::tile_service::TileService;
use super::work::{Purpose, TileWork};

/// The outcome of warming a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmOutcome {
    /// It lies outside the volume: there is nothing to store.
    Black,
    /// The disk cache had it.
    WasThere,
    /// It was rendered and stored; the length of the PNG in bytes.
    Drawn(usize),
}

impl TileService {
    /// Fetches an identified tile. For a prefetch, chunks are decoded completely, and the tile is
    /// in the tiers when this returns, unless it cannot be written. The outcome is recorded in the
    /// trace.
    ///
    /// If this future is dropped, a render that no other request waits for is dropped too: before
    /// it begins, or before its next chunk.
    pub async fn fetch(
        &self,
        identified: &Identified,
        demand: Demand,
        trace: &Arc<Trace>,
    ) -> Result<Tile, TileError> {
        if let RequestSubject::Black(tile) = &identified.subject {
            trace.set_outcome(Outcome::Black);
            self.metrics.black_tiles.inc();
            return Ok(tile.clone());
        }
        let tile = self.find_or_render(identified, demand, trace).await;
        // The last check before may have missed the change that a read has found.
        if let Err(TileError::Render(RenderError::Read(ReadError::Changed { .. }))) = &tile {
            identified.origin.note_change();
            self.request_reopening(identified.origin.token());
        }
        let is_from_memory = matches!(trace.outcome(), Outcome::Hit | Outcome::Wait);
        if demand.urgency == Urgency::Prefetch && is_from_memory && tile.is_ok() {
            // It may have been made for a user, and not been kept.
            let work = self.work(identified, Purpose::Warming, None);
            if let Some(work) = work.filter(TileWork::is_kept)
                && let Err(error) = Box::pin(self.make_unless_kept(work)).await
            {
                tracing::debug!(key = %identified.key(), "a tile was not kept: {error}");
            }
        }
        tile
    }

    /// Waiting is on the heap, so that the future of a hit is small.
    async fn find_or_render(
        &self,
        identified: &Identified,
        demand: Demand,
        trace: &Arc<Trace>,
    ) -> Result<Tile, TileError> {
        let key = identified.key();
        if let RequestSubject::Rendered(RenderPlan::Box(planned)) = &identified.subject
            && let Some(chunk) = planned.stored_chunk(&self.metrics, Some(trace))
        {
            return Ok(chunk);
        }
        loop {
            let (waiter, is_leader) = match self.cache.lookup(&key) {
                Lookup::Ready(tile) => {
                    trace.set_outcome(Outcome::Hit);
                    self.metrics.tile_hits.inc();
                    return Ok(tile);
                }
                Lookup::Wait(waiter) => {
                    trace.set_outcome(Outcome::Wait);
                    self.metrics.tile_waits.inc();
                    self.maker.join(&key, demand);
                    (waiter, false)
                }
                Lookup::Lead(flight) => {
                    trace.set_outcome(Outcome::Miss);
                    let purpose = Purpose::Request(demand.urgency);
                    let work = self
                        .work(identified, purpose, Some(Arc::clone(trace)))
                        .ok_or(Abandoned)?;
                    let make = Arc::clone(&self.maker).make(work, demand);
                    (flight.launch(make), true)
                }
            };
            let landed = Box::pin(self.landed(identified.origin.files(), waiter)).await;
            // The flight of a neighbour may end before its tile is rendered.
            if is_leader || !matches!(landed, Err(TileError::Abandoned(_))) {
                return landed;
            }
        }
    }

    /// Ensures that a tile is in the disk cache: unless it is there, renders it on the pool and
    /// writes it before this returns. It bypasses the memory cache, and other requests cannot join
    /// its render.
    ///
    /// Without tiers the tile is rendered and dropped.
    pub async fn warm(&self, identified: &Identified) -> Result<WarmOutcome, TileError> {
        match self.work(identified, Purpose::Warming, None) {
            Some(work) => self.make_unless_kept(work).await,
            None => Ok(WarmOutcome::Black),
        }
    }

    async fn make_unless_kept(&self, work: TileWork) -> Result<WarmOutcome, TileError> {
        let key = work.key;
        let tier_writer = Arc::clone(&self.tier_writer);
        let origin = work.origin.clone();
        if spawn_blocking(move || tier_writer.has(&origin, key))
            .await
            .map_err(|_| Abandoned)??
        {
            return Ok(WarmOutcome::WasThere);
        }
        let demand = Demand::prefetch(Client::InProcess);
        let made = Arc::clone(&self.maker).make(work, demand).await?;
        Ok(WarmOutcome::Drawn(made.0.bytes.len()))
    }
}
