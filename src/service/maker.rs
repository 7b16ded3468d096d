//! The one way in which tiles, overviews, ranges and boxes are made: looked for in the tiers, fetched
//! from a store, and rendered in their client's turn.
//!
//! The first two wait for other machines or for disks. A render thread that waited for them could
//! not render anything else. So a tile enters the render queue only when no tier has it and its
//! chunks have arrived. Clients take turns with each of the three. All of it is given up when the
//! future is dropped.

use std::sync::Arc;
use std::time::Instant;

use tokio::task::spawn_blocking;
use voltile_base::flow::cache::Abandoned;
use voltile_base::flow::trace::Stage;
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_base::tile::{Tile, TileKey};
use voltile_hdf5::volume::ReadError;
use voltile_hdf5::volume::Yields;

use super::client::Demand;
use super::error::TileError;
use super::pool::{PendingWork, RenderPool};
use super::turns::{NextWork, Turns};
use super::work::{TileWork, stored_chunk};
use crate::catalog::Footprint;

/// The maximum number of tiles that are looked for in the tiers at once: twice as many as neighbours
/// that are fetched ahead, so that requests need not wait for these.
const MAX_LOOKUPS: usize = 32;
/// The maximum number of tiles whose chunks are fetched at once.
const MAX_FETCHES: usize = 64;
/// The maximum number of tiles that wait to be looked for, and that wait to be fetched.
const MAX_WAITING: usize = 512;

/// Makes tiles.
pub(super) struct TileMaker {
    pool: RenderPool,
    lookups: Turns,
    fetches: Turns,
}

impl TileMaker {
    /// Renders on `pool`; `metrics` count what is refused.
    pub fn new(pool: RenderPool, metrics: &Metrics) -> Self {
        let turns =
            |places| Turns::new(places, MAX_WAITING, metrics.rejected.clone(), NextWork::run);
        Self {
            pool,
            lookups: turns(MAX_LOOKUPS),
            fetches: turns(MAX_FETCHES),
        }
    }

    /// Raises the place of a tile that waits to the turn of another client that wants it, too.
    pub fn join(&self, key: &TileKey, demand: Demand) {
        self.lookups.join(key, demand);
        self.fetches.join(key, demand);
        self.pool.join(key, demand);
    }

    /// Makes a tile, and has it kept in the tiers. Returns it with its weight in bytes against the
    /// cache's budget.
    ///
    /// If this future is dropped, what has not begun is not done, and a render ends before its next
    /// chunk.
    pub async fn make(
        self: Arc<Self>,
        work: TileWork,
        demand: Demand,
    ) -> Result<(Tile, usize), TileError> {
        let work = Arc::new(work);
        let pending = PendingWork::new(&work.metrics);
        let found = self.without_rendering(&work, demand).await;
        pending.begin();
        if let Some(made) = found.inspect_err(|error| work.note(error))? {
            return Ok(made);
        }
        let queued = Instant::now();
        let key = work.plan.key;
        let rendered = self.pool.run(Some(key), demand, move |interest| {
            if let Some(trace) = &work.policy.trace {
                trace.add(Stage::Queue, queued.elapsed());
            }
            let tile = work.render(Yields::Unwanted(interest.clone()))?;
            let made = work.weighed(tile);
            if !interest.is_there() {
                // Its flight has ended before, but it need not be made again.
                work.tier_writer.cache.add(&key, made.0.clone(), made.1);
            }
            Ok(made)
        });
        rendered.await
    }

    /// Fetches the voxels that lie in a store; `place` is for errors. Requests for the same `key` can
    /// join while it waits.
    pub async fn fetch(
        &self,
        footprint: Footprint,
        key: Option<TileKey>,
        demand: Demand,
        place: &str,
    ) -> Result<(), TileError> {
        if !footprint.is_remote() {
            return Ok(());
        }
        let _turn = self.fetches.turn(key, demand).await?;
        let gathering = spawn_blocking(move || footprint.gather()).await;
        let arrived = gathering.map_err(|_| Abandoned)??.done().await;
        // The error of a store does not say for what it was.
        Ok(arrived.map_err(|error| ReadError::of_store(place, error))?)
    }

    /// The tile and its weight if it need not be rendered, because a tier has it or it is a stored
    /// chunk; otherwise all that it is rendered from has arrived.
    pub async fn without_rendering(
        &self,
        work: &Arc<TileWork>,
        demand: Demand,
    ) -> Result<Option<(Tile, usize)>, TileError> {
        let key = Some(work.plan.key);
        if work.is_looked_for() {
            let _turn = self.lookups.turn(key, demand).await?;
            let looking = Arc::clone(work);
            let looked_up = spawn_blocking(move || looking.find()).await;
            if let Some(tile) = looked_up.map_err(|_| Abandoned)? {
                return Ok(Some(work.weighed(tile)));
            }
        }
        let footprint = work.plan.footprint();
        if !footprint.is_remote() {
            return Ok(None);
        }
        let place = in_words(work.plan.origin.token());
        self.fetch(footprint, key, demand, &place).await?;
        let chunk = stored_chunk(&work.plan, &work.metrics, work.policy.trace.as_deref());
        Ok(chunk.map(|chunk| work.weighed(chunk)))
    }
}

/// Names a dataset in errors.
pub(super) fn in_words(token: &Name) -> String {
    format!("the dataset {token}")
}
