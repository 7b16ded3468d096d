//! The service: its parts, and how it is set up.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use voltile_base::flow::activity::Latest;
use voltile_base::flow::cache::{Cache, Waiter};
use voltile_base::flow::stalls::Stalls;
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_base::paint::{Style, TileFormat};
use voltile_base::request::TileRequest;
use voltile_base::tile::{Tile, TileKey};
use voltile_render::EncodeError;
use voltile_render::plan::PixelKind;
use voltile_render::survey::Survey;

use super::boxes::BoxMemory;
use super::error::TileError;
use super::health::{Health, ServicePart};
use super::live::{LiveCatalog, LiveState};
use super::maker::TileMaker;
use super::neighbours::Neighbours;
use super::pool::RenderPool;
use super::reconciler::{Reconciler, Reloaded};
use super::tier_writer::TierWriter;
use crate::catalog::{Catalog, Dataset, Labels, Names, RunTrials, black_key};
use crate::config::{Fault, Render, Settings};
use crate::tier::Tiers;

/// Plans and fetches tiles, overviews, ranges and boxes.
pub struct TileService {
    pub(super) live: Arc<LiveCatalog>,
    reconciler: Option<Reconciler>,
    pub(super) cache: Cache<TileKey, Tile, TileError>,
    pub(super) surveys: Cache<TileKey, Arc<Survey>, TileError>,
    pub(super) pool: RenderPool,
    pub(super) maker: Arc<TileMaker>,
    pub(super) tier_writer: Arc<TierWriter>,
    /// Whether idle work is scheduled, to begin in the next pause between responses.
    pub(super) is_pause_due: AtomicBool,
    /// The time of the last response after which chunks were left to finish.
    pub(super) last_response: Latest,
    pub(super) neighbours: Neighbours,
    /// The neighbours that are being fetched, each with its task; oldest first.
    pub(super) fetched_ahead: Mutex<VecDeque<(TileRequest, AbortHandle)>>,
    /// The black tiles, grey and in colour, as PNG and JPEG.
    pub(super) black: [Tile; 4],
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
    pub(super) boxes: BoxMemory,
}

impl TileService {
    /// A service for an opened catalogue, with `budget` bytes for the cache of encoded tiles and
    /// without tiers. It prefetches `reach` slices ahead of a scroll.
    pub fn new(
        catalog: Catalog,
        budget: usize,
        reach: u32,
        pool: RenderPool,
        metrics: Metrics,
    ) -> Result<Self, EncodeError> {
        let cache = Cache::new(budget, metrics.tile_bytes.clone());
        let tier_writer = TierWriter::new(Tiers::default(), cache.clone());
        Ok(Self {
            black: black_tiles(catalog.style())?,
            cache,
            // Channels hold their surveys; this cache of size 0 only makes concurrent requests
            // share one sample (single-flight).
            surveys: Cache::new(0, Gauge::default()),
            maker: Arc::new(TileMaker::new(pool.clone(), &metrics)),
            tier_writer: Arc::new(tier_writer),
            live: Arc::new(LiveCatalog::new(catalog)),
            reconciler: None,
            pool,
            is_pause_due: AtomicBool::new(false),
            last_response: Latest::default(),
            neighbours: Neighbours::new(reach),
            fetched_ahead: Mutex::default(),
            health: Arc::default(),
            boxes: BoxMemory::new(Render::default().boxes, metrics.box_bytes.clone()),
            metrics: Arc::new(metrics),
        })
    }

    /// Sets the tiers, which keep tiles besides the cache.
    pub fn with_tiers(mut self, tiers: Tiers) -> Self {
        self.tier_writer = Arc::new(TierWriter::new(tiers, self.cache.clone()));
        self
    }

    /// Sets the memory for boxes of voxels.
    pub fn with_boxes(mut self, bytes: usize) -> Self {
        self.metrics
            .box_limit
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.boxes = BoxMemory::new(bytes, self.metrics.box_bytes.clone());
        self
    }

    /// The memory for boxes of voxels.
    pub fn boxes(&self) -> &BoxMemory {
        &self.boxes
    }

    /// Makes the service reopen datasets whose files have changed, with these settings and after a
    /// trial. Without this, their tiles remain errors.
    pub fn with_reopening(
        mut self,
        settings: Settings,
        run_trials: Box<RunTrials>,
    ) -> std::io::Result<Self> {
        self.live.set_settings(settings);
        self.reconciler = Some(Reconciler::start(
            Arc::clone(&self.live),
            Arc::clone(&self.health),
            run_trials,
            self.stalls().clone(),
        )?);
        Ok(self)
    }

    /// Serves these settings from now on. If anything new cannot be opened, nothing changes, and
    /// all faults are returned. Needs [`TileService::with_reopening`].
    ///
    /// Datasets with the same settings and unchanged files stay open, with their cached tiles and
    /// chunks. A dataset with the same settings whose changed files cannot be opened stays as it is
    /// (its tiles are errors), and `/readyz` reports it. Blocks while files are opened. Datasets
    /// that are optional, or whose files alone have changed, are opened in the background; this
    /// waits a short time for them.
    ///
    /// Unless `may_expose`, it is a fault if a protected dataset would become public: a
    /// configuration that is being written may lack the rules of access at its end.
    pub fn reload(&self, settings: Settings, may_expose: bool) -> Result<Reloaded, Vec<Fault>> {
        match &self.reconciler {
            Some(reconciler) => reconciler.reload(settings, may_expose),
            None => {
                let problem = "this service does not reopen datasets";
                Err(vec![Fault::new("datasets", problem)])
            }
        }
    }

    /// The current problems that the reconciler and the command line have recorded, for `/readyz`.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The current problems of all parts of the service, each with the part that has it.
    pub fn part_problems(&self) -> Vec<(ServicePart, String)> {
        let mut problems = self.health.of_parts();
        for (kind, problem) in self.tier_writer.tiers.problems() {
            problems.push((ServicePart::Tier(kind), problem));
        }
        for problem in self.catalog().store().unreachable() {
            problems.push((ServicePart::Store, problem));
        }
        problems
    }

    /// The current catalogue.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.live.get()
    }

    /// Notifies at once of the current catalogue, then of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<LiveState> {
        self.live.changes()
    }

    /// Waits until a dataset has been opened or left out. It is opened before all other datasets
    /// that wait to be opened.
    pub async fn until_opened(&self, token: &Name) {
        let mut changes = self.changes();
        while self.catalog().is_waiting(token) {
            self.request_reopening(token);
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Requests that a dataset be reopened, if datasets are reopened at all.
    pub(super) fn request_reopening(&self, token: &Name) {
        if let Some(reconciler) = &self.reconciler {
            reconciler.request(token);
        }
    }

    /// The metrics, after updating the length of the render queue.
    pub fn current_metrics(&self) -> &Metrics {
        self.metrics
            .renders_waiting
            .set(i64::try_from(self.pool.waiting()).unwrap_or(i64::MAX));
        &self.metrics
    }

    /// The metrics, without updating the length of the render queue.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The files that are stuck.
    pub fn stalls(&self) -> &Stalls {
        self.pool.stalls()
    }

    /// The table of names of a channel's labels. Fails if a file of the dataset or of the table is
    /// stuck.
    pub async fn names(
        &self,
        dataset: &Dataset,
        names: &Arc<Names>,
    ) -> Result<Arc<Labels>, TileError> {
        let files = dataset.files().chain(names.text_file());
        tokio::select! {
            read = names.get(self.stalls()) => Ok(read??),
            unresponsive = self.stalls().held_up(files) => Err(unresponsive.into()),
        }
    }

    /// Waits for the result of a flight. Fails if one of the files that it needs is stuck.
    pub async fn landed<V>(
        &self,
        files: impl Iterator<Item = &Path> + Clone,
        waiter: Waiter<V, TileError>,
    ) -> Result<V, TileError> {
        tokio::select! {
            biased;
            landed = waiter.wait() => landed,
            unresponsive = self.stalls().held_up(files) => Err(unresponsive.into()),
        }
    }
}

/// The black tiles: grey and in colour, as PNG and JPEG.
fn black_tiles(style: Style) -> Result<[Tile; 4], EncodeError> {
    let tile = |kind, format| {
        let bytes = voltile_render::black(kind, style, format)?;
        Ok(Tile::new(black_key(kind, style, format), bytes))
    };
    Ok([
        tile(PixelKind::Grey, TileFormat::Png)?,
        tile(PixelKind::Rgb, TileFormat::Png)?,
        tile(PixelKind::Grey, TileFormat::Jpeg)?,
        tile(PixelKind::Rgb, TileFormat::Jpeg)?,
    ])
}
