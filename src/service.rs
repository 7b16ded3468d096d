//! The one use case, and the seam between the async side and the render threads: bring a tile.
//!
//! A request is identified first, which needs no pixels and gives the ETag; then fetched: from the cache, from a flight
//! under way, or by a render of its own on the pool. The job leads the flight, not the client: a client that leaves
//! costs nobody anything, and a job for which nobody waits any more gives up before it begins.
//!
//! Where there is a second tier, a job looks there before it draws, and what it drew is written there behind its back.

mod neighbours;
mod pool;

use std::cell::RefCell;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::oneshot;

use neighbours::Neighbours;
pub use pool::{Busy, RenderPool};

use crate::cache::{Cache, Flight, Lookup, Lost};
use crate::catalog::{
    Catalog, Channel, Dataset, DatasetDescription, NotFound, Origin, Overview, Resolved, Survey,
};
use crate::crew;
use crate::metrics::Metrics;
use crate::name::Name;
use crate::paint::Kind;
use crate::plan::PixelKind;
use crate::render::{self, EncodeError, RenderError, Scratch};
use crate::request::{Malformed, TileRequest};
use crate::tier::{SecondTier, TierError};
use crate::tile::{Fingerprint, Tile, TileKey};
use crate::volume::ReadError;

/// Why there is no tile.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TileError {
    /// The path asks for none.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Nothing has that name or number.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// It could not be made.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Too much is waiting already.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The render was given up.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// It could not be kept, which was all that was wanted.
    #[error(transparent)]
    Tier(#[from] TierError),
    /// A file was changed since it was opened, so that what is drawn of it must not be kept.
    #[error("a file of the dataset {token} was changed since it was opened; start again to warm it as it is")]
    Changed {
        /// The dataset.
        token: Name,
    },
}

/// What kind of failure it is, for whoever has to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Asking again will not help: there is no such tile.
    NotFound,
    /// The data or the program is at fault.
    Failed,
    /// Asking again later will help.
    Busy,
}

impl TileError {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            TileError::Malformed(_) | TileError::NotFound(_) => ErrorKind::NotFound,
            TileError::Render(_) | TileError::Lost(_) | TileError::Tier(_) | TileError::Changed { .. } => {
                ErrorKind::Failed
            }
            TileError::Busy(_) => ErrorKind::Busy,
        }
    }

    /// What a client may know: like the message, without the paths of files.
    pub fn public(&self) -> String {
        match self {
            TileError::Render(RenderError::Read(error)) => error.public(),
            other => other.to_string(),
        }
    }
}

impl From<ReadError> for TileError {
    fn from(error: ReadError) -> Self {
        TileError::Render(error.into())
    }
}

/// A tile that is known to exist, before anybody has made it.
#[derive(Debug)]
pub enum Identified<'a> {
    /// It lies outside: one of the shared black tiles.
    Black(Tile),
    /// It is to be found or made.
    Made {
        /// Its key.
        key: TileKey,
        /// What it shows.
        resolved: Resolved<'a>,
    },
    /// It is a slice drawn small, to be found or made.
    Overview {
        /// Its key.
        key: TileKey,
        /// What it shows.
        overview: Overview<'a>,
    },
}

impl Identified<'_> {
    /// What identifies the tile's bytes.
    pub fn key(&self) -> TileKey {
        match self {
            Identified::Black(tile) => tile.key,
            Identified::Made { key, .. } | Identified::Overview { key, .. } => *key,
        }
    }
}

/// What has a tile's picture drawn, on a render thread.
type Draw = Box<dyn FnOnce(&mut Scratch) -> Result<Vec<u8>, RenderError> + Send>;

/// What is going to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Draws {
    /// A tile, and who knows what then.
    One,
    /// Everything.
    All,
}

/// What drawing a tile takes: whose it is, and how it is drawn. None of it for one that is black.
struct Drawing {
    key: TileKey,
    origin: Origin,
    draw: Draw,
}

impl Drawing {
    fn for_whom(self, draws: Draws) -> Self {
        let Self { key, origin, draw } = self;
        let draw: Draw = match draws {
            Draws::One => draw,
            Draws::All => Box::new(move |scratch| crew::thoroughly(|| draw(scratch))),
        };
        Self { key, origin, draw }
    }
}

impl Identified<'_> {
    /// What drawing it takes; `None` for a tile that is black.
    fn drawing(&self) -> Option<Drawing> {
        let (key, origin, draw): (_, _, Draw) = match self {
            Identified::Black(_) => return None,
            Identified::Made { key, resolved } => {
                let plan = resolved.plan();
                (*key, resolved.origin(), Box::new(move |scratch| render::render(&plan, scratch)))
            }
            Identified::Overview { key, overview } => {
                let plan = overview.plan();
                (*key, overview.origin()?, Box::new(move |scratch| render::overview(&plan, scratch)))
            }
        };
        Some(Drawing { key, origin, draw })
    }

    /// The token that it is kept under; `None` for a tile that is black, which is never kept.
    fn token(&self) -> Option<&Name> {
        match self {
            Identified::Black(_) => None,
            Identified::Made { resolved, .. } => Some(resolved.token()),
            Identified::Overview { overview, .. } => overview.tiles().first().map(Resolved::token),
        }
    }
}

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
    catalog: Catalog,
    cache: Cache<TileKey, Tile, TileError>,
    surveys: Cache<Fingerprint, Arc<Survey>, TileError>,
    tier: Option<Arc<SecondTier>>,
    pool: RenderPool,
    neighbours: Neighbours,
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
        Ok(Self { catalog, cache, surveys, tier: None, pool, neighbours, black, metrics })
    }

    /// The same with a second tier behind its cache.
    pub fn with_tier(self, tier: Option<SecondTier>) -> Self {
        Self { tier: tier.map(Arc::new), ..self }
    }

    /// What is served.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Finds out which tile a request means. Reads data only where a channel's window has yet to be measured.
    pub async fn identify(&self, request: &TileRequest) -> Result<Identified<'_>, TileError> {
        let resolved = self.catalog.resolve(request)?;
        if resolved.is_black() {
            let [grey, rgb] = &self.black;
            let tile = if resolved.pixels() == PixelKind::Grey { grey } else { rgb };
            return Ok(Identified::Black(tile.clone()));
        }
        for channel in resolved.unmeasured() {
            self.measure(channel).await?;
        }
        Ok(Identified::Made { key: resolved.key(), resolved })
    }

    /// Finds out which small picture of a slice a request means, which is read as one for the slice's first tile.
    pub async fn identify_overview(&self, request: &TileRequest) -> Result<Identified<'_>, TileError> {
        let overview = self.catalog.overview(request)?;
        for channel in overview.tiles().iter().flat_map(Resolved::unmeasured) {
            self.measure(channel).await?;
        }
        Ok(Identified::Overview { key: overview.key(), overview })
    }

    /// Brings an identified tile.
    pub async fn fetch(&self, identified: Identified<'_>) -> Result<Tile, TileError> {
        match identified {
            Identified::Black(tile) => {
                self.metrics.black_tiles.inc();
                Ok(tile)
            }
            Identified::Made { .. } | Identified::Overview { .. } => {
                self.bring(&identified, Draws::One).await
            }
        }
    }

    /// The same for somebody who is going to want all that lies beside it: what is decoded for it is decoded whole at once,
    /// and the second tier has it before this returns.
    pub async fn prefetch(&self, identified: Identified<'_>) -> Result<Tile, TileError> {
        match identified {
            Identified::Black(_) => self.fetch(identified).await,
            Identified::Made { .. } | Identified::Overview { .. } => {
                self.bring(&identified, Draws::All).await
            }
        }
    }

    /// From the cache, from a flight under way, or from a job that finds it in the second tier or draws it.
    async fn bring(&self, identified: &Identified<'_>, draws: Draws) -> Result<Tile, TileError> {
        match self.cache.lookup(&identified.key()) {
            Lookup::Ready(tile) => {
                self.metrics.tile_hits.inc();
                Ok(tile)
            }
            Lookup::Wait(waiter) => {
                self.metrics.tile_waits.inc();
                waiter.wait().await
            }
            Lookup::Lead(flight) => {
                let drawing = identified.drawing().ok_or(Lost)?.for_whom(draws);
                let waiter = flight.join();
                self.launch(flight, self.find_or_draw(drawing, draws));
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
        if self.pool.has_time() {
            let service = Arc::clone(self);
            self.pool.run(move || service.render_ahead());
        }
    }

    fn render_ahead(&self) {
        while self.pool.has_time()
            && let Some(tile) = self.neighbours.next()
        {
            self.render_neighbour(&tile);
        }
    }

    /// Renders a tile that nobody has asked for yet, unless it is there or takes measuring first.
    fn render_neighbour(&self, tile: &TileRequest) {
        let Ok(resolved) = self.catalog.resolve(tile) else { return };
        if resolved.is_black() || resolved.unmeasured().next().is_some() {
            return;
        }
        let (key, plan, origin) = (resolved.key(), resolved.plan(), resolved.origin());
        let Lookup::Lead(flight) = self.cache.lookup(&key) else { return };
        if let Some(tile) = found(self.tier.as_deref(), &origin, key) {
            return flight.land(Ok(weighed(tile)));
        }
        let draw = move |scratch: &mut Scratch| render::render(&plan, scratch);
        let drawn = self.pool.crew().work_ahead(|| with_scratch(&draw));
        match drawn {
            Ok(png) => {
                self.metrics.neighbours.inc();
                let tile = Tile::new(key, png);
                keep_later(self.tier.as_deref(), origin, &tile);
                flight.land(Ok(weighed(tile)));
            }
            // Given up, or broken, which is nobody's business until somebody asks. If somebody has meanwhile, for this
            // very tile, it is rendered as if it were asked for now, so that an error is counted and told as any other.
            Err(_) => {
                self.metrics.neighbours_given_up.inc();
                if let Some(flight) = flight.still_wanted() {
                    let draw = Box::new(draw);
                    flight.land(self.find_or_draw(Drawing { key, origin, draw }, Draws::One)());
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
        move || {
            let Drawing { key, origin, draw } = drawing;
            if let Some(tile) = found(tier.as_deref(), &origin, key) {
                return Ok(weighed(tile));
            }
            let tile = drawn(key, draw, &metrics)?;
            match draws {
                Draws::One => keep_later(tier.as_deref(), origin, &tile),
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
    pub async fn warm(&self, identified: &Identified<'_>) -> Result<Warmed, TileError> {
        let (Some(tier), Some(drawing)) = (self.tier.clone(), identified.drawing()) else {
            return Ok(if self.tier.is_some() { Warmed::Black } else { Warmed::WasThere });
        };
        let place = self.pool.reserve()?;
        let (metrics, (sender, warmed)) = (self.metrics.clone(), oneshot::channel());
        self.pool.run(move || {
            let result = warmed_by(&tier, drawing.for_whom(Draws::All), &metrics);
            drop(place);
            // Who has left does not want to know.
            let _ = sender.send(result);
        });
        warmed.await.unwrap_or_else(|_| Err(Lost.into()))
    }

    /// Whether the second tier has a tile, as far as can be told without reading it; black ones need not be there. Reads
    /// from the disk: never to be called on an async thread.
    pub fn is_kept(&self, identified: &Identified<'_>) -> Result<bool, TierError> {
        match (&self.tier, identified.token()) {
            (Some(tier), Some(token)) => tier.has(token, &identified.key()),
            (tier, _) => Ok(tier.is_some()),
        }
    }

    /// Waits until what was drawn is written to the second tier, though not for longer than so; what is drawn from now on
    /// is not. Blocks.
    pub fn finish_writing(&self, within: Duration) {
        if let Some(tier) = &self.tier {
            tier.finish(within);
        }
    }

    /// Has a flight flown by a job on the pool. Where too much is waiting, all who wait are told so.
    fn launch<K, V>(
        &self,
        flight: Flight<K, V, TileError>,
        job: impl FnOnce() -> Result<(V, usize), TileError> + Send + 'static,
    ) where
        K: Hash + Eq + Clone + Send + 'static,
        V: Clone + Send + 'static,
    {
        let place = match self.pool.reserve() {
            Ok(place) => place,
            Err(busy) => {
                self.metrics.rejected.inc();
                return flight.land(Err(busy.into()));
            }
        };
        let abandoned = self.metrics.abandoned.clone();
        self.pool.run(move || {
            let Some(flight) = flight.still_wanted() else {
                abandoned.inc();
                return;
            };
            let result = job();
            // Given back before anybody hears of the end: who asks again at once must find it free.
            drop(place);
            flight.land(result);
        });
    }

    /// Describes a dataset with everything that samples of its channels tell; those not yet taken are taken now.
    ///
    /// A channel that cannot be read says so in its own description. That too much is waiting concerns all of it.
    pub async fn describe(&self, dataset: &Dataset) -> Result<DatasetDescription, Busy> {
        let mut problems = Vec::new();
        for channel in dataset.channels.values() {
            problems.push(match self.sample(channel).await {
                Err(TileError::Busy(busy)) => return Err(busy),
                other => other.err(),
            });
        }
        let mut description = self.catalog.describe_dataset(dataset);
        let channels = description.channels.iter_mut().zip(dataset.channels.values());
        for ((description, channel), problem) in channels.zip(problems) {
            description.add_survey(channel);
            description.problem = problem.map(|problem| problem.public());
        }
        Ok(description)
    }

    async fn sample(&self, channel: &Arc<Channel>) -> Result<(), TileError> {
        if channel.kind == Kind::Labels || channel.surveyed().is_some() {
            return Ok(());
        }
        self.measure(channel).await
    }

    /// Takes a channel's sample on the pool, once for all who need it. What it told is kept also when those who asked
    /// have left.
    async fn measure(&self, channel: &Arc<Channel>) -> Result<(), TileError> {
        let survey = match self.surveys.lookup(&channel.fingerprint) {
            Lookup::Ready(survey) => survey,
            Lookup::Wait(waiter) => waiter.wait().await?,
            Lookup::Lead(flight) => {
                let waiter = flight.join();
                let channel = Arc::clone(channel);
                self.launch(flight, move || survey(&channel).map(|survey| (survey, 0)));
                waiter.wait().await?
            }
        };
        // Other channels may have the same voxels, and each has a window of its own.
        channel.keep(&survey);
        Ok(())
    }
}

/// A tile and what it takes from the cache's budget.
fn weighed(tile: Tile) -> (Tile, usize) {
    let weight = tile.weight();
    (tile, weight)
}

/// The tile as the second tier has it.
fn found(tier: Option<&SecondTier>, origin: &Origin, key: TileKey) -> Option<Tile> {
    Some(Tile::new(key, tier?.find(&origin.token, &key)?))
}

/// Draws a tile, which is counted.
fn drawn(key: TileKey, draw: Draw, metrics: &Metrics) -> Result<Tile, RenderError> {
    metrics.renders.inc();
    let rendered = with_scratch(draw);
    if let Err(error) = &rendered {
        metrics.render_errors.inc();
        tracing::error!(%key, "a tile could not be rendered: {error}");
    }
    Ok(Tile::new(key, rendered?))
}

/// Has a tile that was just drawn written, unless its files turn out to have changed.
fn keep_later(tier: Option<&SecondTier>, origin: Origin, tile: &Tile) {
    let (Some(tier), now) = (tier, Instant::now()) else { return };
    tier.keep_later(origin.token.clone(), tile, move || origin.was_unchanged_at(now));
}

/// Writes a tile that was just drawn, unless its files turn out to have changed. That it could not be written is counted and
/// logged, and concerns nobody who waits for it.
fn keep_now(tier: Option<&SecondTier>, origin: &Origin, tile: &Tile) {
    let Some(tier) = tier else { return };
    if !origin.was_unchanged_at(Instant::now()) || tier.keep(&origin.token, &tile.key, &tile.png).is_err() {
        tracing::debug!(key = %tile.key, "a tile is not kept in the second tier");
    }
}

fn warmed_by(tier: &SecondTier, drawing: Drawing, metrics: &Metrics) -> Result<Warmed, TileError> {
    let Drawing { key, origin, draw } = drawing;
    if tier.has(&origin.token, &key)? {
        return Ok(Warmed::WasThere);
    }
    let tile = drawn(key, draw, metrics)?;
    if !origin.was_unchanged_at(Instant::now()) {
        return Err(TileError::Changed { token: origin.token });
    }
    tier.keep(&origin.token, &key, &tile.png)?;
    Ok(Warmed::Drawn(tile.png.len()))
}

fn survey(channel: &Channel) -> Result<Arc<Survey>, TileError> {
    let survey = channel.survey().map(Arc::new);
    match &survey {
        Ok(survey) => {
            channel.keep(survey);
            let window = channel.window().unwrap_or(survey.window);
            tracing::info!(channel = %channel.name, "a sample was taken; the window is {window}");
        }
        Err(error) => tracing::error!(channel = %channel.name, "no sample could be taken: {error}"),
    }
    Ok(survey?)
}

/// Lends the thread's buffers to a job. They are taken out meanwhile, so that a job within a job gets fresh ones.
fn with_scratch<T>(job: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<Scratch> = RefCell::default();
    }
    let mut scratch = SCRATCH.take();
    let result = job(&mut scratch);
    SCRATCH.set(scratch);
    result
}
