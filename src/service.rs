//! Provides tiles: the boundary between async code and the render threads.
//!
//! A request is first identified, which reads no pixels and yields the ETag; then fetched: from the cache, by joining
//! a flight, or by a render job on the pool, whose queue is shared among clients. The job leads the flight, not the
//! client: it goes on if that client disconnects and others wait. A job that nobody waits for any more is dropped from the
//! queue, or stopped before its next chunk.
//!
//! If there are tiers (a disk cache, a shared cache), a job looks there before it renders; rendered tiles are written to
//! them in the background.

mod boxes;
mod client;
mod drawing;
mod error;
mod gather;
mod health;
mod images;
mod job;
mod live;
mod neighbours;
mod pool;
mod queue;
mod reload;
mod reopen;
mod samples;
mod trials;
mod verify;

use std::hash::Hash;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;

pub use boxes::{BoxMemory, Held};
pub use client::{Client, Demand, Urgency};
pub use drawing::Identified;
use drawing::{Drawing, TileWork, found, policy, warmed_by, weighed, with_scratch};
pub use error::{ErrorKind, TileError};
use gather::Gatherer;
pub use health::{Health, Part};
use live::LiveCatalog;
use neighbours::Neighbours;
use pool::{Brings, Ticket};
pub use pool::{Busy, RenderPool};
pub use reload::Reloaded;
use reopen::Reopener;
pub use reopen::Trial;
use verify::Provisional;

use crate::cache::{Cache, Flight, Lookup, Lost, Waiter};
use crate::catalog::{Catalog, Dataset, NoBox, NotFound, Precomputed, Resolved, ResolvedBox, Survey};
use crate::config::{Render, Settings};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::paint::BoxFormat;
use crate::plan::{AcceptedCodings, BoxEncoding, Cutout, PixelKind};
use crate::render::{self, EncodeError};
use crate::request::{BoxRequest, PrecomputedChunk, PrecomputedVolume, TileRequest};
use crate::stalls::Unresponsive;
use crate::tier::{TierError, Tiers};
use crate::tile::{Fingerprint, Tile, TileKey};
use crate::trace::{Outcome, Trace};
use crate::volume::{ReadPolicy, Yields};

/// The outcome of warming a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmed {
    /// It lies outside the volume: there is nothing to store.
    Black,
    /// The disk cache had it.
    WasThere,
    /// It was rendered and stored; the length of the PNG in bytes.
    Drawn(usize),
}

/// Identifies and fetches tiles.
pub struct TileService {
    live: Arc<LiveCatalog>,
    reopener: Option<Reopener>,
    cache: Cache<TileKey, Tile, TileError>,
    surveys: Cache<Fingerprint, Arc<Survey>, TileError>,
    tiers: Option<Arc<Tiers>>,
    pool: RenderPool,
    neighbours: Neighbours,
    gatherer: Gatherer,
    provisional: Arc<Provisional>,
    boxes: BoxMemory,
    black: [Tile; 2],
    metrics: Metrics,
    health: Arc<Health>,
}

impl TileService {
    /// A service for an opened catalogue, with a cache of `budget` bytes of encoded tiles, without a disk cache.
    /// Prefetches `reach` slices ahead of a scroll.
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
        // Channels hold their surveys; this cache of size 0 only makes concurrent requests share one sample
        // (single-flight).
        let surveys = Cache::new(0, Gauge::default());
        let neighbours = Neighbours::new(reach);
        let provisional = Arc::new(Provisional::new(catalog.chunks().clone()));
        let live = Arc::new(LiveCatalog::of(catalog));
        let gatherer = Gatherer::new(pool.clone(), metrics.clone());
        let boxes = BoxMemory::new(Render::default().boxes, metrics.box_bytes.clone());
        Ok(Self {
            live,
            reopener: None,
            cache,
            surveys,
            tiers: None,
            pool,
            neighbours,
            gatherer,
            provisional,
            boxes,
            black,
            metrics,
            health: Arc::default(),
        })
    }

    /// Adds tiers.
    pub fn with_tiers(self, tiers: Option<Tiers>) -> Self {
        Self { tiers: tiers.map(Arc::new), ..self }
    }

    /// Sets the memory for boxes of voxels.
    pub fn with_boxes(self, bytes: usize) -> Self {
        self.metrics.box_limit.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        Self { boxes: BoxMemory::new(bytes, self.metrics.box_bytes.clone()), ..self }
    }

    /// The memory for boxes of voxels.
    pub fn boxes(&self) -> &BoxMemory {
        &self.boxes
    }

    /// Makes the service reopen datasets whose files have changed, with these settings and after a trial. Without
    /// this, their tiles remain errors.
    pub fn with_reopening(self, settings: Settings, trial: Trial) -> std::io::Result<Self> {
        self.live.set_settings(settings);
        let (live, health) = (Arc::clone(&self.live), Arc::clone(&self.health));
        let reopener = Some(Reopener::start(live, health, trial, self.pool.stalls().clone())?);
        Ok(Self { reopener, ..self })
    }

    /// What is wrong with what is served.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Why tiers could not be read or written lately.
    pub fn tier_problems(&self) -> Vec<(Part, String)> {
        let problems = self.tiers.iter().flat_map(|tiers| tiers.problems());
        problems.map(|(backend, problem)| (Part::Tier(backend), problem)).collect()
    }

    /// The current catalogue.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.live.get()
    }

    /// The metrics, with the length of the render queue updated.
    pub fn measured(&self) -> &Metrics {
        self.metrics.waiting.set(i64::try_from(self.pool.waiting()).unwrap_or(i64::MAX));
        &self.metrics
    }

    /// The metrics, without updating the length of the render queue.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Resolves a request to a tile. Reads data only if the window of a channel has yet to be measured; the client
    /// then waits for that in the render queue.
    pub async fn identify(
        &self,
        catalog: &Catalog,
        request: &TileRequest,
        demand: Demand,
    ) -> Result<Identified, TileError> {
        let resolved = catalog.resolve(request);
        let shown = resolved.as_ref().ok().filter(|resolved| !resolved.is_black());
        self.ensure_requested_current(catalog, &request.token.token, shown.map(Resolved::channels)).await?;
        let resolved = resolved?;
        if resolved.is_black() {
            let [grey, rgb] = &self.black;
            let tile = if resolved.pixels() == PixelKind::Grey { grey } else { rgb };
            return Ok(Identified::Black(tile.clone(), Arc::clone(resolved.dataset())));
        }
        for channel in resolved.unmeasured() {
            self.measure_window(channel, demand).await?;
        }
        Ok(Identified::Made { key: resolved.key(), resolved })
    }

    /// Resolves a request for an overview of a slice, given as a request for the slice's first tile.
    pub async fn identify_overview(
        &self,
        catalog: &Catalog,
        request: &TileRequest,
        demand: Demand,
    ) -> Result<Identified, TileError> {
        let overview = catalog.overview(request);
        let first = overview.as_ref().ok().and_then(|overview| overview.tiles().first());
        let shown = first.filter(|first| !first.is_black());
        self.ensure_requested_current(catalog, &request.token.token, shown.map(Resolved::channels)).await?;
        let overview = overview?;
        for channel in overview.tiles().iter().flat_map(Resolved::unmeasured) {
            self.measure_window(channel, demand).await?;
        }
        Ok(Identified::Overview { key: overview.key(), overview })
    }

    /// Resolves a request for a box of voxels. Reads no data.
    pub async fn identify_box(
        &self,
        catalog: &Catalog,
        request: &BoxRequest,
        format: BoxFormat,
    ) -> Result<Identified, TileError> {
        let resolved = catalog.resolve_box(request).map(|resolved| (resolved, BoxEncoding::File(format)));
        self.current_box(catalog, &request.token.token, resolved).await
    }

    /// Resolves a request for a chunk of Neuroglancer's precomputed format. Reads no data. The files of the dataset are
    /// not checked for a chunk that is off the grid.
    pub async fn identify_precomputed(
        &self,
        catalog: &Catalog,
        request: &PrecomputedChunk,
        accepted: AcceptedCodings,
    ) -> Result<Identified, TileError> {
        let resolved = catalog.resolve_precomputed(request, accepted);
        if let Err(NoBox::NotFound(error @ NotFound::OffGrid { .. })) = resolved {
            return Err(error.into());
        }
        self.current_box(catalog, &request.volume.token.token, resolved).await
    }

    async fn current_box(
        &self,
        catalog: &Catalog,
        token: &Name,
        resolved: Result<(ResolvedBox, BoxEncoding), NoBox>,
    ) -> Result<Identified, TileError> {
        let channel = resolved.as_ref().ok().map(|(resolved, _)| std::iter::once(resolved.channel()));
        self.ensure_requested_current(catalog, token, channel).await?;
        let (resolved, encoding) = resolved?;
        Ok(Identified::Box {
            key: resolved.key(encoding),
            resolved: Box::new(resolved),
            encoding,
            held: None,
        })
    }

    /// A channel in Neuroglancer's precomputed format, once its files have been found unchanged.
    pub async fn precomputed(
        &self,
        catalog: &Catalog,
        volume: &PrecomputedVolume,
    ) -> Result<Precomputed, TileError> {
        let found = catalog.precomputed_volume(volume);
        let channel = found.as_ref().ok().map(|(channel, _)| std::iter::once(*channel));
        self.ensure_requested_current(catalog, &volume.token.token, channel).await?;
        Ok(found?.1.clone())
    }

    /// A stored chunk that is passed through without waiting: it needs no render thread and no place in the cache.
    pub fn cached_chunk(&self, plan: &Cutout, encoding: BoxEncoding) -> Option<Bytes> {
        let chunk = render::cached_box(plan, encoding)?;
        self.metrics.chunks_passed.inc();
        Some(chunk)
    }

    /// Fetches an identified tile. For a prefetch, chunks are decoded completely, and the tile is in the disk cache
    /// when this returns. What happened is recorded in the trace.
    ///
    /// If this future is dropped, a render that no other request waits for is dropped too: before it begins, or before
    /// its next chunk.
    pub async fn fetch(
        &self,
        identified: Identified,
        demand: Demand,
        trace: &Arc<Trace>,
    ) -> Result<Tile, TileError> {
        match identified {
            Identified::Black(tile, _) => {
                trace.set_outcome(Outcome::Black);
                self.metrics.black_tiles.inc();
                Ok(tile)
            }
            Identified::Made { .. } | Identified::Overview { .. } | Identified::Box { .. } => {
                let brought = self.bring(&identified, demand, trace).await;
                self.note_change(&identified, &brought);
                brought
            }
        }
    }

    /// Fetches from the cache, by joining a flight, or with a job that reads the disk cache or renders.
    async fn bring(
        &self,
        identified: &Identified,
        demand: Demand,
        trace: &Arc<Trace>,
    ) -> Result<Tile, TileError> {
        let brings = Brings::Tile(identified.key());
        let is_suspect = self.is_suspect(identified);
        match self.cache.lookup_if(&identified.key(), |_| !is_suspect) {
            Lookup::Ready(tile) => {
                trace.set_outcome(Outcome::Hit);
                self.metrics.tile_hits.inc();
                Ok(tile)
            }
            Lookup::Wait(waiter) => {
                trace.set_outcome(Outcome::Wait);
                self.metrics.tile_waits.inc();
                let _ticket = self.pool.join(brings, demand);
                let origin = identified.origin().ok_or(Lost)?;
                self.landed(origin.files(), waiter).await
            }
            Lookup::Lead(flight) => {
                trace.set_outcome(Outcome::Miss);
                let ends = Yields::Unwanted(flight.interest());
                let policy = policy(demand.urgency, ends, Some(Arc::clone(trace)));
                let drawing = identified.drawing(policy).ok_or(Lost)?;
                let waiter = flight.join();
                let origin = drawing.origin.clone();
                let work = self.work(drawing, demand.urgency);
                if work.drawing.footprint.is_remote() {
                    self.gatherer.launch(work, flight, brings, demand);
                    return self.landed(origin.files(), waiter).await;
                }
                let _ticket = self.launch(flight, brings, demand, work.into_job());
                self.landed(origin.files(), waiter).await
            }
        }
    }

    /// Waits for a flight, but not until stuck files answer.
    async fn landed<V>(
        &self,
        files: impl Iterator<Item = &Path> + Clone,
        waiter: Waiter<V, TileError>,
    ) -> Result<V, TileError> {
        tokio::select! {
            biased;
            landed = waiter.wait() => landed,
            unresponsive = self.pool.stalls().held_up(files) => Err(unresponsive.into()),
        }
    }

    /// Fails if a file of a dataset is stuck.
    pub fn ensure_answers(&self, dataset: &Dataset) -> Result<(), Unresponsive> {
        self.pool.stalls().ensure_answer(dataset.channels.values().flat_map(|channel| channel.files()))
    }

    /// Prefetches the neighbours of this tile while the render threads are idle.
    ///
    /// Only when a tile is fetched for the first time: on later fetches its neighbours have already been noted.
    pub fn look_ahead(self: &Arc<Self>, asked: &TileRequest, brought: &Tile) {
        if self.neighbours.is_off() || !brought.is_asked_first() {
            return;
        }
        let neighbours = self.neighbours.of(asked);
        if self.catalog().dataset(&asked.token.token).is_some_and(|dataset| dataset.is_remote()) {
            return self.fetch_ahead(neighbours);
        }
        self.prefetch(neighbours);
    }

    /// Has tiles rendered while the render threads are idle.
    fn prefetch(self: &Arc<Self>, tiles: Vec<TileRequest>) {
        self.neighbours.add(tiles);
        // While there are unfinished chunks, `use_pause` starts the idle work, which finishes them first.
        if self.pool.is_idle() && !self.provisional.chunks.has_unfinished() {
            let service = Arc::clone(self);
            self.pool.run(move || service.work_while_idle());
        }
    }

    /// Prefetches a tile, unless it is cached or needs measuring first.
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
        if let Some((tile, _)) = found(self.tiers.as_deref(), &origin, key) {
            return flight.land(Ok(weighed(tile)));
        }
        let ahead = ReadPolicy { yields: Yields::ToRequests, ..ReadPolicy::default() };
        let Drawing { mut draw, footprint, .. } = Drawing::of(key, origin.clone(), plan.clone().with(ahead));
        let given_up = self.provisional.chunks.given_up();
        match self.pool.activity().prefetch(|| with_scratch(&mut draw)) {
            Ok(png) => {
                self.metrics.neighbours.inc();
                let tile = Tile::new(key, png);
                self.provisional.keep_later(self.tiers.as_deref(), || origin, &tile, &footprint, given_up);
                flight.land(Ok(weighed(tile)));
            }
            // The prefetch was interrupted or failed, which is ignored unless a request has joined the flight since.
            // For that request the tile is rendered normally, so that an error is counted and reported as usual.
            Err(_) => {
                self.metrics.neighbours_given_up.inc();
                if let Some(flight) = flight.still_wanted() {
                    let drawing = Drawing::of(key, origin, plan);
                    flight.land(self.work(drawing, Urgency::Wanted).find_or_draw());
                }
            }
        }
    }

    fn work(&self, drawing: Drawing, urgency: Urgency) -> TileWork {
        let (tiers, provisional) = (self.tiers.clone(), Arc::clone(&self.provisional));
        TileWork::new(drawing, urgency, tiers, provisional, self.metrics.clone())
    }

    /// Ensures that a tile is in the disk cache: unless it is there, renders it on the pool and writes it before this
    /// returns. It bypasses the memory cache, and other requests cannot join its render.
    ///
    /// Without a disk cache this does nothing and returns [`Warmed::WasThere`].
    pub async fn warm(&self, identified: &Identified) -> Result<Warmed, TileError> {
        let (Some(tiers), Some(drawing)) =
            (self.tiers.clone(), identified.drawing(policy(Urgency::Prefetch, Yields::Never, None)))
        else {
            return Ok(if self.tiers.is_some() { Warmed::Black } else { Warmed::WasThere });
        };
        let (metrics, provisional) = (self.metrics.clone(), Arc::clone(&self.provisional));
        let (done, warmed) = oneshot::channel();
        let work = move || warmed_by(&tiers, drawing, &provisional, &metrics);
        let demand = Demand::prefetch(Client::InProcess);
        let _ticket = self.pool.submit(None, demand, Box::new(job::Warm { work, done }));
        warmed.await.unwrap_or_else(|_| Err(Lost.into()))
    }

    /// Whether the disk cache has a tile, checked without reading the tile; also true for black tiles, which are not
    /// stored. Accesses the disk: never call it on an async thread.
    pub fn is_kept(&self, identified: &Identified) -> Result<bool, TierError> {
        match (&self.tiers, identified.token()) {
            (Some(tiers), Some(token)) => tiers.has(token, &identified.key()),
            (tiers, _) => Ok(tiers.is_some()),
        }
    }

    /// Waits until rendered tiles are verified and written to the disk cache, at most for `within`. Tiles rendered
    /// after this are not written. Blocks.
    pub fn finish_writing(&self, within: Duration) {
        if let Some(tiers) = &self.tiers {
            let until = Instant::now() + within;
            self.finish_verifying(until);
            tiers.finish(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Submits a job that makes a flight's value. If the queue is full, the flight's waiters get an error.
    fn launch<K, V>(
        &self,
        flight: Flight<K, V, TileError>,
        brings: Brings,
        demand: Demand,
        work: impl FnMut() -> Result<(V, usize), TileError> + Send + 'static,
    ) -> Option<Ticket>
    where
        K: Hash + Eq + Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let job = job::Bring::new(flight, work, &self.metrics);
        self.pool.submit(Some(brings), demand, Box::new(job))
    }
}
