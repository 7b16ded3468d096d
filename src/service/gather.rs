//! Tiles of files in object storage: their chunks are fetched before they take a render thread.
//!
//! A render thread that waited for a store could not render anything else. So a tile whose chunks are in a
//! store enters the render queue only when they have arrived. Fetching is given up as soon as nobody waits
//! for the tile any more. The neighbours in the direction of a scroll are fetched too, and then rendered.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::drawing::TileWork;
use super::pool::Brings;
use super::verify::Footprint;
use super::{Busy, Demand, ErrorKind, RenderPool, TileError, TileService, job};
use crate::cache::{Flight, Interest, Lost};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::request::TileRequest;
use crate::store::Gathering;
use crate::tile::{Tile, TileKey};
use crate::volume::ReadError;

/// The maximum number of tiles whose chunks are fetched at once.
const MOST_AT_ONCE: usize = 64;
/// The maximum number of tiles that wait for their chunks, including those being fetched.
const MOST_WAITING: usize = 512;
/// The maximum number of neighbours whose chunks are fetched at once; beyond it the oldest is given up.
const MOST_AHEAD: usize = 16;
/// The interval of checks whether anybody is still waiting.
const CHECKS: Duration = Duration::from_millis(20);

/// Fetches what tiles need from stores, then queues them for rendering.
#[derive(Debug)]
pub(super) struct Gatherer {
    pool: RenderPool,
    metrics: Metrics,
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    ahead: Mutex<VecDeque<(TileRequest, AbortHandle)>>,
}

/// One tile in the count of those waiting; dropping it decrements the count.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Footprint {
    /// Whether any of its bytes come from a store.
    pub fn is_remote(&self) -> bool {
        self.boxes().any(|(volume, ..)| volume.is_remote())
    }

    /// Starts to fetch what is not cached; may block while a chunk index is read.
    fn gather(&self) -> Result<Gathering, ReadError> {
        let mut all = Gathering::none();
        for (volume, time, region) in self.boxes() {
            all.extend(volume.gather(*time, region)?);
        }
        Ok(all)
    }
}

/// Fetches what a tile needs.
async fn gathered(footprint: Arc<Footprint>, token: &Name) -> Result<(), TileError> {
    let started = tokio::task::spawn_blocking(move || footprint.gather()).await;
    let gathering = started.map_err(|_| Lost)??;
    // The error of a store does not say for which dataset it was.
    let place = || format!("the dataset {token}");
    Ok(gathering.done().await.map_err(|error| crate::volume::hdf5::unread(&place(), error))?)
}

async fn until_unwanted(interest: &Interest) {
    while interest.is_there() {
        tokio::time::sleep(CHECKS).await;
    }
}

impl Gatherer {
    /// Passes jobs to `pool` when what they need has arrived; counts in `metrics`.
    pub fn new(pool: RenderPool, metrics: Metrics) -> Self {
        let (waiting, ahead) = Default::default();
        Self { pool, metrics, places: Arc::new(Semaphore::new(MOST_AT_ONCE)), waiting, ahead }
    }

    /// Looks for a flight's tile in the tiers. If it is not there, fetches what it is made from, then queues the job that
    /// renders it.
    pub fn launch(
        &self,
        work: TileWork,
        mut flight: Flight<TileKey, Tile, TileError>,
        brings: Brings,
        demand: Demand,
    ) {
        let waiting = self.waiting.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(&self.waiting));
        if waiting >= MOST_WAITING {
            self.metrics.rejected.inc();
            return flight.land(Err(Busy { waiting }.into()));
        }
        let (pool, metrics) = (self.pool.clone(), self.metrics.clone());
        let places = Arc::clone(&self.places);
        let (footprint, token) =
            (Arc::new(work.drawing.footprint.clone()), work.drawing.origin.token.clone());
        let (key, trace) = (work.drawing.key, work.drawing.trace.clone());
        tokio::spawn(async move {
            let looked = tokio::task::spawn_blocking(move || (work.find(), work)).await;
            let Ok((found, work)) = looked else { return flight.land(Err(Lost.into())) };
            if let Some(found) = found {
                return flight.land(Ok(found));
            }
            let interest = flight.interest();
            let result = loop {
                let fetched = async {
                    let _permit = places.acquire().await.map_err(|_| Lost)?;
                    gathered(Arc::clone(&footprint), &token).await
                };
                tokio::select! {
                    result = fetched => break result,
                    () = until_unwanted(&interest) => match flight.still_wanted() {
                        // A request has joined since.
                        Some(again) => flight = again,
                        None => {
                            metrics.abandoned.inc();
                            return;
                        }
                    }
                }
            };
            drop(place);
            if let Err(error) = result {
                // That a store is unavailable is logged once for all tiles.
                if error.kind() == ErrorKind::Failed && !error.is_stopped() {
                    metrics.render_errors.inc();
                    let request = trace.as_ref().map_or("", |trace| trace.id());
                    tracing::error!(%key, request, "a tile could not be rendered: {error}");
                }
                return flight.land(Err(error));
            }
            let job = Box::new(job::Bring::new(flight, work.into_drawing_job(), &metrics));
            let _ticket = pool.submit(Some(brings), demand, job);
            // The ticket stands for all waiters: dropping it would withdraw the job.
            until_unwanted(&interest).await;
        });
    }
}

impl TileService {
    /// Fetches the neighbours of a tile of an object in a store, and has each rendered when it has arrived.
    pub(super) fn fetch_ahead(self: &Arc<Self>, neighbours: Vec<TileRequest>) {
        for tile in neighbours.into_iter().rev() {
            let mut ahead = self.gatherer.ahead.lock().unwrap_or_else(PoisonError::into_inner);
            ahead.retain(|(_, task)| !task.is_finished());
            if ahead.iter().any(|(known, _)| *known == tile) {
                continue;
            }
            let task = tokio::spawn(Arc::clone(self).fetch_neighbour(tile.clone()));
            ahead.push_back((tile, task.abort_handle()));
            if ahead.len() > MOST_AHEAD
                && let Some((_, oldest)) = ahead.pop_front()
            {
                oldest.abort();
            }
        }
    }

    async fn fetch_neighbour(self: Arc<Self>, tile: TileRequest) {
        let Some((key, footprint)) = self.footprint_of(&tile) else { return };
        let token = &tile.token.token;
        if self.is_stored(token.clone(), key).await || gathered(Arc::new(footprint), token).await.is_ok() {
            self.prefetch(vec![tile]);
        }
    }

    /// The key of a tile and what it is made from, unless it is cached or shows nothing.
    fn footprint_of(&self, tile: &TileRequest) -> Option<(TileKey, Footprint)> {
        let resolved = self.catalog().resolve(tile).ok().filter(|resolved| !resolved.is_black())?;
        let is_cached = self.cache.peek(&resolved.key()).is_some();
        (!is_cached).then(|| (resolved.key(), Footprint::of(&[resolved.plan()])))
    }

    /// Whether a tier has a tile, so that nothing need be fetched to show it.
    async fn is_stored(&self, token: Name, key: TileKey) -> bool {
        let Some(tiers) = self.tiers.clone() else { return false };
        tokio::task::spawn_blocking(move || tiers.has_any(&token, &key)).await.unwrap_or(false)
    }
}
