//! Prepares a tile before it takes a render thread: it is looked for in the tiers, and its chunks
//! are fetched.
//!
//! Both wait for other machines or for disks. A render thread that waited for them could not render
//! anything else. So a tile enters the render queue only when no tier has it and its chunks have
//! arrived. All of it is given up as soon as nobody waits for the tile any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use voltile_base::flow::cache::{Abandoned, Flight, Interest};
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_base::tile::{Tile, TileKey};
use voltile_hdf5::volume::hdf5::unread;

use super::client::Demand;
use super::error::TileError;
use super::footprint::Footprint;
use super::job::FlightJob;
use super::pool::{JobValue, RenderPool, Ticket};
use super::queue::Busy;
use super::work::TileWork;

/// The maximum number of tiles that are looked for in the tiers at once.
const MAX_LOOKUPS: usize = 16;
/// The maximum number of tiles whose chunks are fetched at once.
const MAX_FETCHES: usize = 64;
/// The maximum number of tiles that are being prepared or wait to be.
const MAX_WAITING: usize = 512;
/// The interval of checks whether anybody is still waiting.
const CHECKS: Duration = Duration::from_millis(20);

/// Passes tiles to the render threads, once they are prepared.
#[derive(Debug)]
pub(super) struct Preparation {
    pool: RenderPool,
    metrics: Metrics,
    lookups: Semaphore,
    fetches: Semaphore,
    /// One permit for each tile that is being prepared or waits to be.
    permits: Arc<Semaphore>,
}

type TileFlight = Flight<TileKey, Tile, TileError>;

impl Preparation {
    /// Passes jobs to `pool`; counts in `metrics`.
    pub fn new(pool: RenderPool, metrics: Metrics) -> Self {
        Self {
            pool,
            metrics,
            lookups: Semaphore::new(MAX_LOOKUPS),
            fetches: Semaphore::new(MAX_FETCHES),
            permits: Arc::new(Semaphore::new(MAX_WAITING)),
        }
    }

    /// Has a flight's tile made, at once if there is nothing to prepare. Hold the ticket, if there
    /// is one, while waiting for the tile.
    pub fn launch(
        self: &Arc<Self>,
        work: TileWork,
        flight: TileFlight,
        demand: Demand,
    ) -> Option<Ticket> {
        let work = Arc::new(work);
        if !work.is_looked_for() && !work.footprint.is_remote() {
            return self.queue(work, flight, demand);
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            self.metrics.rejected.inc();
            let refusal = Busy {
                waiting: MAX_WAITING,
            };
            flight.land(Err(refusal.into()));
            return None;
        };
        tokio::spawn(Arc::clone(self).prepare(work, flight, demand, permit));
        None
    }

    fn queue(&self, work: Arc<TileWork>, flight: TileFlight, demand: Demand) -> Option<Ticket> {
        let value = Some(JobValue::Tile(work.key));
        self.pool.submit(
            value,
            demand,
            Box::new(FlightJob::new(flight, work.into_job(), &self.metrics)),
        )
    }

    async fn prepare(
        self: Arc<Self>,
        work: Arc<TileWork>,
        mut flight: TileFlight,
        demand: Demand,
        permit: OwnedSemaphorePermit,
    ) {
        let interest = flight.interest();
        let prepared = loop {
            tokio::select! {
                prepared = self.without_rendering(&work) => break prepared,
                () = until_unwanted(&interest) => match flight.still_wanted() {
                    // A request has joined since.
                    Some(again) => flight = again,
                    None => {
                        self.metrics.abandoned.inc();
                        return;
                    }
                }
            }
        };
        drop(permit);
        match prepared {
            Ok(Some(tile)) => flight.land(Ok(work.weighed(tile))),
            Ok(None) => {
                // The ticket stands for all waiters: dropping it would withdraw the job.
                let _ticket = self.queue(work, flight, demand);
                until_unwanted(&interest).await;
            }
            Err(error) => {
                work.note(&error);
                flight.land(Err(error));
            }
        }
    }

    /// Fetches the voxels that lie in a store; `place` is for errors.
    pub async fn fetch(&self, footprint: Footprint, place: &str) -> Result<(), TileError> {
        if !footprint.is_remote() {
            return Ok(());
        }
        let _permit = self.fetches.acquire().await.map_err(|_| Abandoned)?;
        gathered(footprint, place).await
    }

    /// The tile if it need not be rendered, because a tier has it or it is a stored chunk;
    /// otherwise all that it is rendered from has arrived.
    async fn without_rendering(&self, work: &Arc<TileWork>) -> Result<Option<Tile>, TileError> {
        if work.is_looked_for() {
            let _permit = self.lookups.acquire().await.map_err(|_| Abandoned)?;
            let looking = Arc::clone(work);
            if let Some(tile) = spawn_blocking(move || looking.find())
                .await
                .map_err(|_| Abandoned)?
            {
                return Ok(Some(tile));
            }
        }
        if !work.footprint.is_remote() {
            return Ok(None);
        }
        self.fetch(work.footprint.clone(), &in_words(work.origin.token()))
            .await?;
        let chunk = work
            .drawing
            .stored_chunk(&self.metrics, work.policy.trace.as_deref());
        Ok(chunk.map(|chunk| Tile::new(work.key, chunk)))
    }
}

/// Names a dataset in errors.
pub(super) fn in_words(token: &Name) -> String {
    format!("the dataset {token}")
}

/// Fetches the voxels of a tile that lie in stores; `place` is for errors.
pub(super) async fn gathered(footprint: Footprint, place: &str) -> Result<(), TileError> {
    let gathering = spawn_blocking(move || footprint.gather())
        .await
        .map_err(|_| Abandoned)??;
    // The error of a store does not say for what it was.
    Ok(gathering
        .done()
        .await
        .map_err(|error| unread(place, error))?)
}

async fn until_unwanted(interest: &Interest) {
    while interest.is_there() {
        tokio::time::sleep(CHECKS).await;
    }
}
