//! The one use case, and the seam between the async side and the render threads: bring a tile.
//!
//! A request is identified first, which needs no pixels and gives the ETag; then fetched: from the cache, from a flight
//! under way, or by a render of its own on the pool, whose queue is shared among clients. The job leads the flight, not
//! the client: a client that leaves costs nobody anything, and a job for which nobody waits any more is given up before it
//! begins.
//!
//! Where there is a second tier, a job looks there before it draws, and what it drew is written there behind its back.

mod client;
mod drawing;
mod error;
mod job;
mod live;
mod neighbours;
mod pool;
mod queue;
mod samples;
mod verify;

use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;

pub use client::{Client, Demand, Urgency};
pub use drawing::Identified;
use drawing::{Drawing, Draws, drawn, found, keep_now, warmed_by, weighed, with_scratch};
pub use error::{ErrorKind, TileError};
pub use live::Trial;
use live::{LiveCatalog, Reopener};
use neighbours::Neighbours;
use pool::{Brings, Seat};
pub use pool::{Busy, RenderPool};
use verify::{Footprint, Provisional};

use crate::cache::{Cache, Flight, Lookup, Lost};
use crate::catalog::{Catalog, Resolved, Survey};
use crate::config::Settings;
use crate::metrics::Metrics;
use crate::plan::PixelKind;
use crate::render::{self, EncodeError, Scratch};
use crate::request::TileRequest;
use crate::tier::{SecondTier, TierError};
use crate::tile::{Fingerprint, Tile, TileKey};

/// What warming a tile came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmed {
    /// It lies outside: nothing is kept of it.
    Black,
    /// The second tier had it.
    WasThere,
    /// It was drawn and is kept: so many bytes of PNG.
    Drawn(usize),
}

/// Brings tiles.
pub struct TileService {
    live: Arc<LiveCatalog>,
    reopener: Option<Reopener>,
    cache: Cache<TileKey, Tile, TileError>,
    surveys: Cache<Fingerprint, Arc<Survey>, TileError>,
    tier: Option<Arc<SecondTier>>,
    pool: RenderPool,
    neighbours: Neighbours,
    provisional: Arc<Provisional>,
    black: [Tile; 2],
    metrics: Metrics,
}

impl TileService {
    /// A service over an opened catalogue, with a cache of `budget` bytes of encoded tiles and no second tier, that renders
    /// `reach` slices ahead of a scroll.
    pub fn new(
        catalog: Catalog,
        budget: usize,
        reach: u32,
        pool: RenderPool,
        metrics: Metrics,
    ) -> Result<Self, EncodeError> {
        let black = |kind: PixelKind| -> Result<Tile, EncodeError> {
            let key = TileKey::of(&("black", kind, catalog.profile()));
            Ok(Tile::new(key, render::black(kind, catalog.profile())?))
        };
        let black = [black(PixelKind::Grey)?, black(PixelKind::Rgb)?];
        let cache = Cache::new(budget, metrics.tile_bytes.clone());
        // Surveys are kept by their channels; this only has each sample taken once at a time.
        let surveys = Cache::new(0, Gauge::default());
        let neighbours = Neighbours::new(reach);
        let provisional = Arc::new(Provisional::new(catalog.chunks().clone(), metrics.clone()));
        let live = Arc::new(LiveCatalog::of(catalog));
        Ok(Self {
            live,
            reopener: None,
            cache,
            surveys,
            tier: None,
            pool,
            neighbours,
            provisional,
            black,
            metrics,
        })
    }

    /// The same with a second tier behind its cache.
    pub fn with_tier(self, tier: Option<SecondTier>) -> Self {
        Self { tier: tier.map(Arc::new), ..self }
    }

    /// The same, where datasets whose files have changed are opened anew, by these settings and after a trial. Without it
    /// their tiles stay errors.
    pub fn with_reopening(self, settings: Settings, trial: Trial) -> std::io::Result<Self> {
        let reopener = Some(Reopener::start(Arc::clone(&self.live), settings, trial)?);
        Ok(Self { reopener, ..self })
    }

    /// What is served at the moment.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.live.get()
    }

    /// The counters, and what waits just now.
    pub fn measured(&self) -> &Metrics {
        self.metrics.waiting.set(i64::try_from(self.pool.waiting()).unwrap_or(i64::MAX));
        &self.metrics
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Finds out which tile a request means. Reads data only where a channel's window has yet to be measured, which waits
    /// in the render queue on behalf of who asks.
    pub async fn identify(&self, request: &TileRequest, demand: Demand) -> Result<Identified, TileError> {
        let catalog = self.catalog();
        let resolved = catalog.resolve(request);
        self.ensure_unchanged(&catalog, &request.token, resolved.as_ref().ok()).await?;
        let resolved = resolved?;
        if resolved.is_black() {
            let [grey, rgb] = &self.black;
            let tile = if resolved.pixels() == PixelKind::Grey { grey } else { rgb };
            return Ok(Identified::Black(tile.clone()));
        }
        for channel in resolved.unmeasured() {
            self.measure(channel, demand).await?;
        }
        Ok(Identified::Made { key: resolved.key(), resolved })
    }

    /// Finds out which small picture of a slice a request means, which is read as one for the slice's first tile.
    pub async fn identify_overview(
        &self,
        request: &TileRequest,
        demand: Demand,
    ) -> Result<Identified, TileError> {
        let catalog = self.catalog();
        let overview = catalog.overview(request);
        let first = overview.as_ref().ok().and_then(|overview| overview.tiles().first());
        self.ensure_unchanged(&catalog, &request.token, first).await?;
        let overview = overview?;
        for channel in overview.tiles().iter().flat_map(Resolved::unmeasured) {
            self.measure(channel, demand).await?;
        }
        Ok(Identified::Overview { key: overview.key(), overview })
    }

    /// Brings an identified tile. For a prefetch, what is decoded is decoded whole at once, and the second tier has the tile
    /// before this returns.
    pub async fn fetch(&self, identified: Identified, demand: Demand) -> Result<Tile, TileError> {
        match identified {
            Identified::Black(tile) => {
                self.metrics.black_tiles.inc();
                Ok(tile)
            }
            Identified::Made { .. } | Identified::Overview { .. } => {
                let brought = self.bring(&identified, demand).await;
                self.note_change(&identified, &brought);
                brought
            }
        }
    }

    /// From the cache, from a flight under way, or from a job that finds it in the second tier or draws it.
    async fn bring(&self, identified: &Identified, demand: Demand) -> Result<Tile, TileError> {
        let brings = Brings::Tile(identified.key());
        let is_suspect = self.is_suspect(identified);
        match self.cache.lookup_if(&identified.key(), |_| !is_suspect) {
            Lookup::Ready(tile) => {
                self.metrics.tile_hits.inc();
                Ok(tile)
            }
            Lookup::Wait(waiter) => {
                self.metrics.tile_waits.inc();
                let _seat = self.pool.join(brings, demand);
                waiter.wait().await
            }
            Lookup::Lead(flight) => {
                let draws = Draws::of(demand.urgency);
                let drawing = identified.drawing().ok_or(Lost)?.for_whom(draws);
                let waiter = flight.join();
                let _seat = self.launch(flight, brings, demand, self.find_or_draw(drawing, draws));
                waiter.wait().await
            }
        }
    }

    /// Has what is likely to be asked for after this tile rendered, as soon as and as long as nothing else is to be done.
    ///
    /// Once for each tile that was brought: those beside one that is asked for again were seen to then.
    pub fn look_ahead(self: &Arc<Self>, asked: &TileRequest, brought: &Tile) {
        if self.neighbours.is_off() || !brought.is_asked_first() {
            return;
        }
        self.neighbours.note(asked);
        // Chunks are finished first, by whoever renders ahead then.
        if self.pool.is_idle() && !self.provisional.chunks.has_unfinished() {
            let service = Arc::clone(self);
            self.pool.run(move || service.work_while_idle());
        }
    }

    /// Renders a tile that nobody has asked for yet, unless it is there or takes measuring first.
    fn render_neighbour(&self, tile: &TileRequest) {
        let Ok(resolved) = self.catalog().resolve(tile) else { return };
        if resolved.is_black()
            || resolved.channels().any(|channel| channel.has_changed())
            || resolved.unmeasured().next().is_some()
        {
            return;
        }
        let (key, plan, origin) = (resolved.key(), resolved.plan(), resolved.origin());
        let Lookup::Lead(flight) = self.cache.lookup(&key) else { return };
        if let Some(tile) = found(self.tier.as_deref(), &origin, key) {
            return flight.land(Ok(weighed(tile)));
        }
        let footprint = Footprint::of(std::slice::from_ref(&plan));
        let given_up = self.provisional.chunks.given_up();
        let draw = move |scratch: &mut Scratch| render::render(&plan, scratch);
        let drawn = self.pool.activity().prefetch(|| with_scratch(&draw));
        match drawn {
            Ok(png) => {
                self.metrics.neighbours.inc();
                let tile = Tile::new(key, png);
                self.provisional.keep_later(self.tier.as_deref(), origin, &tile, &footprint, given_up);
                flight.land(Ok(weighed(tile)));
            }
            // Given up, or broken, which is nobody's business until somebody asks. If somebody has meanwhile, for this
            // very tile, it is rendered as if it were asked for now, so that an error is counted and told as any other.
            Err(_) => {
                self.metrics.neighbours_given_up.inc();
                if let Some(flight) = flight.still_wanted() {
                    let drawing = Drawing { key, origin, draw: Box::new(draw), footprint };
                    flight.land(self.find_or_draw(drawing, Draws::One)());
                }
            }
        }
    }

    /// A job that brings one tile: from the second tier, or by drawing it.
    fn find_or_draw(
        &self,
        drawing: Drawing,
        draws: Draws,
    ) -> impl FnOnce() -> Result<(Tile, usize), TileError> + Send + 'static {
        let (metrics, tier) = (self.metrics.clone(), self.tier.clone());
        let provisional = Arc::clone(&self.provisional);
        move || {
            let is_refused = provisional.is_refused(&drawing);
            let Drawing { key, origin, draw, footprint } = drawing;
            if !is_refused && let Some(tile) = found(tier.as_deref(), &origin, key) {
                return Ok(weighed(tile));
            }
            let given_up = provisional.chunks.given_up();
            let tile = drawn(key, draw, &metrics)?;
            match draws {
                Draws::One => provisional.keep_later(tier.as_deref(), origin, &tile, &footprint, given_up),
                // More comes than the writer may have waiting, and all of it is to be there in the end.
                Draws::All => keep_now(tier.as_deref(), &origin, &tile),
            }
            Ok(weighed(tile))
        }
    }

    /// Has a tile in the second tier: unless it is there, draws it on the pool and writes it before this returns. It does
    /// not go through the memory cache, and what it draws is nobody's to wait for.
    ///
    /// Without a second tier there is nothing to do, and all is said to have been there.
    pub async fn warm(&self, identified: &Identified) -> Result<Warmed, TileError> {
        let (Some(tier), Some(drawing)) = (self.tier.clone(), identified.drawing()) else {
            return Ok(if self.tier.is_some() { Warmed::Black } else { Warmed::WasThere });
        };
        let (metrics, provisional) = (self.metrics.clone(), Arc::clone(&self.provisional));
        let (done, warmed) = oneshot::channel();
        let work = move || warmed_by(&tier, drawing.for_whom(Draws::All), &provisional, &metrics);
        let demand = Demand::prefetch(Client::InProcess);
        let _seat = self.pool.submit(None, demand, Box::new(job::Warm { work, done }));
        warmed.await.unwrap_or_else(|_| Err(Lost.into()))
    }

    /// Whether the second tier has a tile, as far as can be told without reading it; black ones need not be there. Reads
    /// from the disk: never to be called on an async thread.
    pub fn is_kept(&self, identified: &Identified) -> Result<bool, TierError> {
        match (&self.tier, identified.token()) {
            (Some(tier), Some(token)) => tier.has(token, &identified.key()),
            (tier, _) => Ok(tier.is_some()),
        }
    }

    /// Waits until what was drawn is verified and written to the second tier, though not for longer than so; what is drawn
    /// from now on is not. Blocks.
    pub fn finish_writing(&self, within: Duration) {
        if let Some(tier) = &self.tier {
            let until = Instant::now() + within;
            self.finish_verifying(until);
            tier.finish(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Has a flight flown by a job on the pool. Where too much is waiting, all who wait are told so.
    fn launch<K, V>(
        &self,
        flight: Flight<K, V, TileError>,
        brings: Brings,
        demand: Demand,
        work: impl FnOnce() -> Result<(V, usize), TileError> + Send + 'static,
    ) -> Option<Seat>
    where
        K: Hash + Eq + Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let (rejected, abandoned) = (self.metrics.rejected.clone(), self.metrics.abandoned.clone());
        self.pool.submit(Some(brings), demand, Box::new(job::Bring { flight, work, rejected, abandoned }))
    }
}
