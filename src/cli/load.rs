//! Opens the files that the settings name, and collects every fault.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use voltile_base::flow::activity::Activity;
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_base::notice::Severity;
use voltile_hdf5::store::{Location, Store};
use voltile_hdf5::volume::hdf5::Files;

use super::failure::Failure;
use super::log::LogWriter;
use super::{limits, probe};
use crate::catalog::{Catalog, OpenedCatalog, tell};
use crate::config::{self, Fault, Layers, Render, Settings};
use crate::http::Certificates;
use crate::service::{RenderPool, TileService};
use crate::tier::{Directory, TierError};

/// Settings, and the catalogue opened with them.
pub(super) struct LoadedCatalog {
    pub settings: Settings,
    pub catalog: Catalog,
    /// All faults, sorted.
    pub faults: Vec<Fault>,
    /// The notices about the datasets.
    pub notices: Vec<(Severity, Fault)>,
    /// Files in folders that cannot be opened; they are not in the settings.
    pub left_out: Vec<(Location, Fault)>,
    /// Datasets that cannot be opened until their store answers.
    pub unreachable: Vec<Fault>,
}

impl LoadedCatalog {
    /// A service without tiers and prefetching, for a command that fetches tiles itself.
    pub fn into_service(self) -> Result<TileService, Failure> {
        let pool = render_pool(&self.catalog, &self.settings)?;
        let metrics = self.catalog.chunks().metrics().clone();
        let tiles = self.settings.cache.tiles;
        Ok(TileService::new(self.catalog, tiles, 0, pool, metrics)?)
    }
}

/// Starts the render threads, which share metrics and activity with the catalogue.
pub(super) fn render_pool(catalog: &Catalog, settings: &Settings) -> io::Result<RenderPool> {
    let Render { threads, queue, .. } = settings.render;
    let chunks = catalog.chunks();
    RenderPool::new(
        threads,
        queue,
        chunks.activity().clone(),
        chunks.metrics().clone(),
    )
}

/// Opens the files of settings, as [`open`] does. A store that does not answer is a fault.
pub(super) fn load(log: &LogWriter, configuration: config::Loaded) -> LoadedCatalog {
    let mut loaded = open(log, configuration, usize::MAX);
    loaded.faults.append(&mut loaded.unreachable);
    loaded.faults.sort();
    loaded
}

/// Logs in the configured format from now on. A faulty configuration is reported as text.
pub(super) fn choose_log_format(log: &LogWriter, configuration: &config::Loaded) {
    if configuration.faults.is_empty() {
        log.choose_format(configuration.settings.log.format);
    }
}

/// Opens the files of settings; logs warnings and collects faults. Opens at most `max_found` of the
/// files found in folders; the catalogue opens the rest later.
pub(super) fn open(
    log: &LogWriter,
    configuration: config::Loaded,
    max_found: usize,
) -> LoadedCatalog {
    choose_log_format(log, &configuration);
    let mut metrics = Metrics::default();
    metrics.log_lines_lost = log.lost_lines();
    let mut settings = configuration.settings;
    let mut faults = configuration.faults;
    let opened = open_catalog(&settings, max_found, &metrics);
    let mut left_out = Vec::new();
    for (token, fault) in opened.unopened {
        let removed = settings.datasets.remove(&token);
        if let Some(file) = removed.and_then(|dataset| dataset.file) {
            tracing::warn!("left out: {fault}");
            left_out.push((file, fault));
        }
    }
    for warning in configuration.warnings {
        tracing::warn!("{warning}");
    }
    for warning in opened.warnings {
        tracing::warn!("{warning}");
    }
    faults.extend(opened.faults);
    let directory = settings.cache.directory.as_deref();
    faults.extend(directory.and_then(directory_fault));
    faults.sort();
    LoadedCatalog {
        settings,
        catalog: opened.catalog,
        faults,
        notices: opened.notices,
        left_out,
        unreachable: opened.unreachable,
    }
}

/// Opens the catalogue after trials of its files; at most `max_found` of the files found in folders
/// are opened now.
fn open_catalog(settings: &Settings, max_found: usize, metrics: &Metrics) -> OpenedCatalog {
    let directory = settings.cache.directory.clone();
    let store = Store::new(None, metrics.stores.clone(), directory);
    let datasets = settings.datasets.iter();
    let in_folders = datasets.filter(|(_, dataset)| dataset.found_in.is_some());
    let tokens = in_folders.skip(max_found).map(|(token, _)| token.clone());
    let waiting: BTreeSet<Name> = tokens.collect();
    let run_trials = probe::run_trials(store.clone());
    let files = Files::new(store).at_most(limits::max_files());
    let activity = Activity::default();
    Catalog::open_tried(files, settings, waiting, &*run_trials, metrics, &activity)
}

/// The fault of `cache.directory` if it names a directory that must not be used: one with foreign
/// content, for example.
fn directory_fault(directory: &Path) -> Option<Fault> {
    let error = Directory::open_existing(directory)
        .err()
        .filter(TierError::is_unsuitable)?;
    Some(Fault::new("cache.directory", error.to_string()))
}

/// Reads the certificate and key for TLS, if configured; adds their files' faults to `loaded`.
pub(super) fn read_certificates(loaded: &mut LoadedCatalog) -> Option<Arc<Certificates>> {
    let files = loaded.settings.server.tls.as_ref()?;
    // Settings of TLS that are faulty are reported already.
    let mut keys = loaded.faults.iter().map(|fault| &fault.key);
    if keys.any(|key| key.starts_with("server.tls")) {
        return None;
    }
    match Certificates::read(files) {
        Ok(certificates) => Some(Arc::new(certificates)),
        Err(faults) => {
            loaded.faults.extend(faults);
            loaded.faults.sort();
            None
        }
    }
}

/// All faults in one text, one per line.
pub(super) fn fault_list(faults: &[Fault]) -> String {
    let count = faults.len();
    let lines: Vec<String> = faults.iter().map(|fault| format!("  {fault}")).collect();
    format!(
        "{count} {} wrong:\n{}",
        if count == 1 { "thing is" } else { "things are" },
        lines.join("\n")
    )
}

/// Opens the files that the layers name; fails if anything has a fault, or there is no dataset.
pub(super) fn load_without_faults(
    log: &LogWriter,
    layers: &Layers,
) -> Result<LoadedCatalog, Failure> {
    let loaded = ensure_faultless(load(log, config::load(layers)))?;
    if loaded.catalog.datasets().next().is_none() {
        return Err(Failure::Usage(NOTHING_TO_SERVE.to_owned()));
    }
    Ok(loaded)
}

/// Fails if settings or catalogue have faults; logs the notices about the datasets.
pub(super) fn ensure_faultless(loaded: LoadedCatalog) -> Result<LoadedCatalog, Failure> {
    tell(&loaded.notices);
    if !loaded.faults.is_empty() {
        return Err(Failure::Usage(fault_list(&loaded.faults)));
    }
    Ok(loaded)
}

pub(super) const NOTHING_TO_SERVE: &str = "there is nothing to serve. Name a file:\n  \
    voltile serve my.h5\nor a configuration (see `voltile config example`):\n  \
    voltile serve --config voltile.toml\nor look at the demo volume:\n  voltile serve --demo";
