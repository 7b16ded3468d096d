//! The one use case, and the seam between the async side and the render threads: bring a tile.
//!
//! A request is identified first, which needs no pixels and gives the ETag; then fetched: from the cache, from a flight
//! under way, or by a render of its own on the pool. The job leads the flight, not the client: a client that leaves
//! costs nobody anything, and a job for which nobody waits any more gives up before it begins.

mod neighbours;
mod pool;

use std::cell::RefCell;
use std::hash::Hash;
use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use neighbours::Neighbours;
pub use pool::{Busy, RenderPool};

use crate::cache::{Cache, Flight, Lookup, Lost};
use crate::catalog::{Catalog, Channel, Dataset, DatasetDescription, NotFound, Overview, Resolved, Survey};
use crate::metrics::Metrics;
use crate::paint::Kind;
use crate::plan::PixelKind;
use crate::render::{self, EncodeError, RenderError, Scratch};
use crate::request::{Malformed, TileRequest};
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
            TileError::Render(_) | TileError::Lost(_) => ErrorKind::Failed,
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

/// Brings tiles.
pub struct TileService {
    catalog: Catalog,
    cache: Cache<TileKey, Tile, TileError>,
    surveys: Cache<Fingerprint, Arc<Survey>, TileError>,
    pool: RenderPool,
    neighbours: Neighbours,
    black: [Tile; 2],
    metrics: Metrics,
}

impl TileService {
    /// A service over an opened catalogue, with a cache of `budget` bytes of encoded tiles, that renders `reach` slices
    /// ahead of a scroll.
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
        Ok(Self { catalog, cache, surveys, pool, neighbours, black, metrics })
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
            Identified::Made { key, resolved } => {
                self.bring(key, || {
                    let plan = resolved.plan();
                    move |scratch: &mut Scratch| render::render(&plan, scratch)
                })
                .await
            }
            Identified::Overview { key, overview } => {
                self.bring(key, || {
                    let plan = overview.plan();
                    move |scratch: &mut Scratch| render::overview(&plan, scratch)
                })
                .await
            }
        }
    }

    /// From the cache, from a flight under way, or by having it drawn; `plan` is only asked for what to draw then.
    async fn bring<D>(&self, key: TileKey, plan: impl FnOnce() -> D) -> Result<Tile, TileError>
    where
        D: FnOnce(&mut Scratch) -> Result<Vec<u8>, RenderError> + Send + 'static,
    {
        match self.cache.lookup(&key) {
            Lookup::Ready(tile) => {
                self.metrics.tile_hits.inc();
                Ok(tile)
            }
            Lookup::Wait(waiter) => {
                self.metrics.tile_waits.inc();
                waiter.wait().await
            }
            Lookup::Lead(flight) => {
                let waiter = flight.join();
                let job = self.render(key, plan());
                self.launch(flight, job);
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
        let (key, plan) = (resolved.key(), resolved.plan());
        let Lookup::Lead(flight) = self.cache.lookup(&key) else { return };
        let draw = move |scratch: &mut Scratch| render::render(&plan, scratch);
        let drawn = self.pool.crew().work_ahead(|| with_scratch(&draw));
        match drawn {
            Ok(png) => {
                self.metrics.neighbours.inc();
                flight.land(Ok(weighed(key, png)));
            }
            // Given up, or broken, which is nobody's business until somebody asks. If somebody has meanwhile, for this
            // very tile, it is rendered as if it were asked for now, so that an error is counted and told as any other.
            Err(_) => {
                self.metrics.neighbours_given_up.inc();
                if let Some(flight) = flight.still_wanted() {
                    flight.land(self.render(key, draw)());
                }
            }
        }
    }

    /// A job that renders one tile.
    fn render(
        &self,
        key: TileKey,
        draw: impl FnOnce(&mut Scratch) -> Result<Vec<u8>, RenderError> + Send + 'static,
    ) -> impl FnOnce() -> Result<(Tile, usize), TileError> + Send + 'static {
        let metrics = self.metrics.clone();
        move || {
            metrics.renders.inc();
            let rendered = with_scratch(draw);
            if let Err(error) = &rendered {
                metrics.render_errors.inc();
                tracing::error!(%key, "a tile could not be rendered: {error}");
            }
            Ok(weighed(key, rendered?))
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
fn weighed(key: TileKey, png: Vec<u8>) -> (Tile, usize) {
    let tile = Tile::new(key, png);
    let weight = tile.weight();
    (tile, weight)
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
