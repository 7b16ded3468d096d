//! Idle work of the render threads: they finish partly decoded chunks, then render the neighbours
//! of requested tiles.
//!
//! Finishing begins a short delay after a response, so that a client that sends its next request at
//! once finds the threads free. It comes before prefetching, which then only has to copy. Between
//! two chunks it yields to jobs, and to cache hits, which need CPU time but no render thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use voltile_base::flow::cache::{Flight, Lookup};
use voltile_base::request::TileRequest;
use voltile_base::tile::{Tile, TileKey};
use voltile_hdf5::volume::Yields;

use super::client::{Client, Demand};
use super::error::TileError;
use super::tile_service::TileService;
use super::work::{Purpose, TileWork};
use crate::catalog::RequestPlan;

/// The delay between a response and finishing: longer than a client needs to send its next request.
const DELAY: Duration = Duration::from_millis(1);
/// The maximum number of neighbours that are fetched at once; beyond it the oldest is given up.
const MAX_AHEAD: usize = 16;

impl TileService {
    /// Schedules idle work after a response: finishing partly decoded chunks, then prefetching.
    pub fn use_pause(self: &Arc<Self>) {
        // Without chunks to finish, `prefetch` has started the idle work.
        if !self.tier_writer.has_unverified() {
            return;
        }
        self.last_response.note();
        if self.is_pause_due.swap(true, Ordering::Relaxed) {
            return;
        }
        let service = Arc::clone(self);
        drop(tokio::spawn(async move {
            loop {
                // Responses alone do not tell: a job whose client has left ends without one.
                service.pool.idle().await;
                // Time for the response to the job that has just ended, and for the client's next
                // request.
                tokio::time::sleep(DELAY).await;
                if service.is_quiet() && service.pool.is_idle() {
                    break;
                }
            }
            service.is_pause_due.store(false, Ordering::Relaxed);
            for _ in 0..service.pool.threads() {
                service.start_if_idle();
            }
        }));
    }

    /// Whether the last response was at least [`DELAY`] ago.
    fn is_quiet(&self) -> bool {
        self.last_response.age() >= DELAY
    }

    /// Starts idle work on a render thread, if the pool is idle.
    fn start_if_idle(self: &Arc<Self>) {
        let service = Arc::clone(self);
        self.pool.run_idle(move |turn| {
            service.work_while_idle();
            drop(turn);
            // Neighbours may have been added meanwhile, when no thread was free.
            if !service.tier_writer.has_unverified() && !service.neighbours.is_empty() {
                service.start_if_idle();
            }
        });
    }

    /// Finishes chunks and prefetches tiles for as long as the render threads are idle.
    fn work_while_idle(&self) {
        while self.pool.is_idle() {
            if self.tier_writer.has_unverified() {
                // Cache hits need CPU time but no render thread. The response to each of them
                // schedules this work again.
                if !self.is_quiet() {
                    break;
                }
                if self
                    .pool
                    .activity()
                    .finish(|| self.tier_writer.verify_one())
                {
                    continue;
                }
            }
            match self.neighbours.next() {
                Some(tile) => self.render_neighbour(&tile),
                None => break,
            }
        }
    }

    /// Waits until rendered tiles are verified and written to the disk cache, at most for `within`.
    /// Tiles rendered after this are not written. Blocks.
    pub fn finish_writing(&self, within: Duration) {
        let until = Instant::now() + within;
        while self.tier_writer.has_tiers() && Instant::now() < until {
            if !self.tier_writer.verify_one() {
                break;
            }
        }
        // Render threads may still be decoding the last chunks.
        while Instant::now() < until && self.pool.activity().is_finishing() {
            thread::sleep(DELAY);
        }
        self.tier_writer
            .tiers
            .finish(until.saturating_duration_since(Instant::now()));
    }

    /// Prefetches the neighbours of a requested tile while the render threads are idle.
    ///
    /// Only when the tile is fetched for the first time: on later fetches its neighbours have
    /// already been noted.
    pub fn look_ahead(self: &Arc<Self>, request: &TileRequest, plan: &RequestPlan, tile: &Tile) {
        if self.neighbours.is_off() || !tile.mark_requested() {
            return;
        }
        let neighbours = self.neighbours.note(request);
        if plan.origin.dataset.is_remote() || self.tier_writer.has_tiers() {
            self.fetch_ahead(neighbours);
        } else {
            self.prefetch(neighbours);
        }
    }

    /// Has tiles rendered while the render threads are idle.
    fn prefetch(self: &Arc<Self>, tiles: Vec<TileRequest>) {
        self.neighbours.add(tiles);
        // While chunks wait to be verified, `use_pause` starts the idle work, which verifies them
        // first.
        if !self.tier_writer.has_unverified() {
            self.start_if_idle();
        }
    }

    /// Fetches neighbours from the tiers, or has each rendered when its chunks have arrived.
    /// `neighbours` begins with the nearest.
    fn fetch_ahead(self: &Arc<Self>, neighbours: Vec<TileRequest>) {
        // The nearest last, because the oldest fetch is given up.
        for tile in neighbours.into_iter().rev() {
            let mut fetches = self.fetched_ahead.lock();
            fetches.retain(|(_, task)| !task.is_finished());
            if fetches.iter().any(|(known, _)| *known == tile) {
                continue;
            }
            let task = tokio::spawn(Arc::clone(self).fetch_neighbour(tile.clone()));
            fetches.push_back((tile, task.abort_handle()));
            if fetches.len() > MAX_AHEAD
                && let Some((_, oldest)) = fetches.pop_front()
            {
                oldest.abort();
            }
        }
    }

    async fn fetch_neighbour(self: Arc<Self>, tile: TileRequest) {
        let Some((flight, work)) = self.lead_neighbour(&tile) else {
            return;
        };
        let demand = Demand::prefetch(Client::InProcess);
        let found = self.maker.without_rendering(&Arc::new(work), demand).await;
        match found {
            Ok(Some(weighed)) => flight.land(Ok(weighed)),
            Ok(None) => {
                // Rendering leads a flight of its own.
                drop(flight);
                self.prefetch(vec![tile]);
            }
            // A request for the tile meets the error again, and reports it.
            Err(_) => {}
        }
    }

    /// Leads the flight of a tile to prefetch; returns it with the work. `None` if the tile is
    /// cached or in flight, shows nothing, or needs measuring first. If the flight ends without the
    /// tile, the requests that have joined it make the tile.
    fn lead_neighbour(
        &self,
        tile: &TileRequest,
    ) -> Option<(Flight<TileKey, Tile, TileError>, TileWork)> {
        let plan = self.catalog().plan_tile(tile).ok()?;
        if plan.is_black() || plan.origin.was_found_changed() || !plan.unmeasured.is_empty() {
            return None;
        }
        let Lookup::Lead(flight) = self.cache.lookup(&plan.key) else {
            return None;
        };
        let work = TileWork::new(self, &Arc::new(plan), Purpose::Neighbour, None, None);
        Some((flight, work))
    }

    /// Renders a tile that no tier has and whose chunks have arrived.
    fn render_neighbour(&self, tile: &TileRequest) {
        let Some((flight, work)) = self.lead_neighbour(tile) else {
            return;
        };
        let activity = self.pool.activity();
        match activity.prefetch(|| work.render(Yields::ToRequests)) {
            Ok(tile) => {
                self.metrics.neighbours.inc();
                flight.land(Ok(work.weighed(tile)));
            }
            // It was interrupted, or it failed.
            Err(_) => _ = self.metrics.neighbours_given_up.inc(),
        }
    }
}
