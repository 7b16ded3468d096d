//! The one way in which tiles, overviews, ranges and boxes are made: looked for in the tiers,
//! fetched from a store, and rendered in their client's turn.
//!
//! Lookups and fetches wait for other machines or for disks. A render thread that waited for them
//! could not render anything else. So a tile enters the render queue only when no tier has it and
//! its chunks have arrived. Clients take turns with each of the three steps. When the future that
//! makes a tile is dropped, its lookup, fetch or render is given up.

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

/// The maximum number of tiles that are looked for in the tiers at once: twice the number of
/// neighbours that are fetched ahead, so that requests need not wait for neighbours.
const MAX_LOOKUPS: usize = 32;
/// The maximum number of tiles whose chunks are fetched at once.
const MAX_FETCHES: usize = 64;
/// The maximum number of tiles that wait for a lookup, and of tiles that wait for a fetch.
const MAX_WAITING: usize = 512;

/// Makes tiles.
pub(super) struct TileMaker {
    pool: RenderPool,
    lookups: Turns,
    fetches: Turns,
}

impl TileMaker {
    /// A maker that renders on `pool`; `metrics` count the lookups and fetches that are refused.
    pub fn new(pool: RenderPool, metrics: &Metrics) -> Self {
        let turns =
            |places| Turns::new(places, MAX_WAITING, metrics.rejected.clone(), NextWork::run);
        Self {
            pool,
            lookups: turns(MAX_LOOKUPS),
            fetches: turns(MAX_FETCHES),
        }
    }

    /// Notes that another client wants a tile, too. While the tile waits, it is made at the turn of
    /// whichever client comes first.
    pub fn join(&self, key: &TileKey, demand: Demand) {
        self.lookups.join(key, demand);
        self.fetches.join(key, demand);
        self.pool.join(key, demand);
    }

    /// Makes a tile, and has it kept in the tiers. Returns it with its weight in bytes against the
    /// cache's budget.
    ///
    /// If this future is dropped, steps that have not begun are left out, and a render ends before
    /// its next chunk.
    pub async fn make(
        self: Arc<Self>,
        work: TileWork,
        demand: Demand,
    ) -> Result<(Tile, usize), TileError> {
        let work = Arc::new(work);
        let pending = PendingWork::new(&work.metrics);
        let found = self.without_rendering(&work, demand).await;
        // Work that is dropped before this line counts as abandoned.
        pending.begin();
        if let Some(weighed) = found.inspect_err(|error| work.note(error))? {
            return Ok(weighed);
        }
        let queued = Instant::now();
        let key = work.plan.key;
        let rendered = self.pool.run(Some(key), demand, move |interest| {
            if let Some(trace) = &work.policy.trace {
                trace.add(Stage::Queue, queued.elapsed());
            }
            let tile = work.render(Yields::Unwanted(interest.clone()))?;
            let (tile, weight) = work.weighed(tile);
            if !interest.is_there() {
                // Everybody has stopped waiting. The tile is cached for the next request.
                work.tier_writer.cache.add(&key, tile.clone(), weight);
            }
            Ok((tile, weight))
        });
        rendered.await
    }

    /// Fetches the voxels that lie in a store; `place` names them in errors. Requests for the same
    /// `key` can join while this waits for its turn.
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
        let gathered = spawn_blocking(move || footprint.gather()).await;
        // The outer error is a panic or the end of the server, the inner one an error of gathering.
        let requests = gathered.map_err(|_| Abandoned)??;
        let arrived = requests.done().await;
        // A store's error does not say which voxels were requested.
        Ok(arrived.map_err(|error| ReadError::of_store(place, error))?)
    }

    /// The tile and its weight if it need not be rendered, because a tier has it, or because it is
    /// a stored chunk that has been fetched from a store. With `None`, the chunks that it is
    /// rendered from have arrived. (A stored chunk of a local file is found before a flight
    /// begins.)
    pub async fn without_rendering(
        &self,
        work: &Arc<TileWork>,
        demand: Demand,
    ) -> Result<Option<(Tile, usize)>, TileError> {
        let key = Some(work.plan.key);
        if work.is_looked_for() {
            let _turn = self.lookups.turn(key, demand).await?;
            let wanted = Arc::clone(work);
            let lookup = spawn_blocking(move || wanted.find()).await;
            if let Some(tile) = lookup.map_err(|_| Abandoned)? {
                return Ok(Some(work.weighed(tile)));
            }
        }
        let footprint = work.plan.footprint();
        if !footprint.is_remote() {
            return Ok(None);
        }
        let place = place_in_errors(work.plan.origin.token());
        self.fetch(footprint, key, demand, &place).await?;
        let chunk = stored_chunk(&work.plan, &work.metrics, work.policy.trace.as_deref());
        Ok(chunk.map(|chunk| work.weighed(chunk)))
    }
}

/// The text that names a dataset in errors.
pub(super) fn place_in_errors(token: &Name) -> String {
    format!("the dataset {token}")
}
