//! The one use case, and the seam between the async side and the render threads: bring a tile.
//!
//! A request is identified first, which needs no pixels and gives the ETag; then fetched: from the cache, from a flight
//! under way, or by a render of its own on the pool. The job leads the flight, not the client: a client that leaves
//! costs nobody anything, and a job for which nobody waits any more gives up before it begins.

mod pool;

use std::cell::RefCell;
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;

pub use pool::{Busy, RenderPool};

use crate::cache::{Cache, Flight, Lookup, Lost};
use crate::catalog::{Catalog, Channel, NotFound, Resolved};
use crate::metrics::Metrics;
use crate::paint::Window;
use crate::plan::{PixelKind, Plan};
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
}

impl Identified<'_> {
    /// What identifies the tile's bytes.
    pub fn key(&self) -> TileKey {
        match self {
            Identified::Black(tile) => tile.key,
            Identified::Made { key, .. } => *key,
        }
    }
}

/// Brings tiles.
pub struct TileService {
    catalog: Catalog,
    cache: Cache<TileKey, Tile, TileError>,
    surveys: Cache<Fingerprint, Window, TileError>,
    pool: RenderPool,
    black: [Tile; 2],
    metrics: Metrics,
}

impl TileService {
    /// A service over an opened catalogue, with a cache of `budget` bytes of encoded tiles.
    pub fn new(
        catalog: Catalog,
        budget: usize,
        pool: RenderPool,
        metrics: Metrics,
    ) -> Result<Self, EncodeError> {
        let black = |kind: PixelKind| -> Result<Tile, EncodeError> {
            let png = Bytes::from(render::black(kind, catalog.profile())?);
            Ok(Tile { key: TileKey::of(&("black", kind, catalog.profile())), png })
        };
        let black = [black(PixelKind::Grey)?, black(PixelKind::Rgb)?];
        let cache = Cache::new(budget, metrics.tile_bytes.clone());
        // Windows are kept by their channels; this only has each measured once at a time.
        let surveys = Cache::new(0, Gauge::default());
        Ok(Self { catalog, cache, surveys, pool, black, metrics })
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

    /// Brings an identified tile.
    pub async fn fetch(&self, identified: Identified<'_>) -> Result<Tile, TileError> {
        let (key, resolved) = match identified {
            Identified::Black(tile) => {
                self.metrics.black_tiles.inc();
                return Ok(tile);
            }
            Identified::Made { key, resolved } => (key, resolved),
        };
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
                let job = self.render(key, resolved.plan());
                self.launch(flight, job);
                waiter.wait().await
            }
        }
    }

    /// A job that renders one tile.
    fn render(
        &self,
        key: TileKey,
        plan: Plan,
    ) -> impl FnOnce() -> Result<(Tile, usize), TileError> + Send + 'static {
        let metrics = self.metrics.clone();
        move || {
            metrics.renders.inc();
            let rendered = with_scratch(|scratch| render::render(&plan, scratch));
            if let Err(error) = &rendered {
                metrics.render_errors.inc();
                tracing::error!(%key, "a tile could not be rendered: {error}");
            }
            let tile = Tile { key, png: rendered?.into() };
            let weight = tile.weight();
            Ok((tile, weight))
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

    /// Measures a channel's window on the pool, once for all who need it. What was measured is kept also when those
    /// who asked have left.
    async fn measure(&self, channel: &Arc<Channel>) -> Result<(), TileError> {
        let waiter = match self.surveys.lookup(&channel.fingerprint) {
            Lookup::Ready(_) => return Ok(()),
            Lookup::Wait(waiter) => waiter,
            Lookup::Lead(flight) => {
                let waiter = flight.join();
                let channel = Arc::clone(channel);
                self.launch(flight, move || survey(&channel).map(|window| (window, 0)));
                waiter
            }
        };
        waiter.wait().await.map(|_| ())
    }
}

fn survey(channel: &Channel) -> Result<Window, TileError> {
    let window = channel.survey();
    match &window {
        Ok(window) => tracing::info!(channel = %channel.name, "the window was measured: {window}"),
        Err(error) => tracing::error!(channel = %channel.name, "no window could be measured: {error}"),
    }
    Ok(window?)
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
