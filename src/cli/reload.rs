//! Reading configuration and files again while serving: at SIGHUP, and at intervals if files are
//! watched or folders are served.
//!
//! Whatever is wrong with the new configuration, the server goes on as before, and says so in the
//! log and in `/readyz`.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use voltile_base::flow::start_thread;
use voltile_base::text::joined;
use voltile_hdf5::store::Location;

use super::folders::Folders;
use super::log::LogWriter;
use super::output::counted;
use super::sources::search;
use super::tiers::cache_directory;
use crate::catalog::{Catalog, Closed};
use crate::config::{self, Layers, Settings};
use crate::http::systemd;
use crate::http::{Certificates, LiveSite};
use crate::service::{Reloaded, ServicePart, TileService};
use crate::tier::Directory;

/// The interval at which folders are searched, unless `files.watch` says otherwise, and at which
/// datasets that are still being opened are asked about.
const SEARCH_INTERVAL: Duration = Duration::from_secs(2);

/// The maximum number of datasets that a line of the log names.
const MAX_NAMES: usize = 20;

/// Reloads configuration and files while the server runs. An *order* to reload is a SIGHUP.
pub(super) struct Reloader {
    pub log: LogWriter,
    pub layers: Layers,
    pub folders: Folders,
    pub service: Arc<TileService>,
    pub site: Arc<LiveSite>,
    /// If TLS is on.
    pub certificates: Option<Arc<Certificates>>,
    /// The settings that the server was started with.
    pub started: Settings,
    /// `files.watch`, as it was read last.
    pub watch: Option<Duration>,
    /// Whether the last reload left datasets that are still being opened.
    pub is_pending: bool,
}

impl Reloader {
    /// Reloads on a thread of its own whenever an order arrives, and at intervals. Ends with the
    /// process.
    pub fn start(mut self, orders: Receiver<()>) -> std::io::Result<()> {
        remember_tokens(&mut self.layers, &self.started);
        start_thread("reload", move || self.run(&orders))
    }

    /// Reloads until nobody can send orders any more. If datasets wait to be opened, the first
    /// reload is at once.
    fn run(&mut self, orders: &Receiver<()>) {
        // This thread opens files, and may then have libhdf5's lock. It does not render.
        self.service.stalls().watch_thread(false);
        let is_waiting = self
            .service
            .catalog()
            .closed()
            .values()
            .any(|closed| *closed == Closed::Waiting);
        if is_waiting {
            self.reload_unordered();
        }
        loop {
            let has_folders = !self.folders.is_empty();
            let watching = self.watch.or(has_folders.then_some(SEARCH_INTERVAL));
            let pending = self.is_pending.then_some(SEARCH_INTERVAL);
            let order = match watching.into_iter().chain(pending).min() {
                Some(interval) => orders.recv_timeout(interval.max(self.folders.pause())),
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            // Orders that have arrived together count as one.
            while orders.try_recv().is_ok() {}
            match order {
                Ok(()) => self.reload_by_order(),
                Err(RecvTimeoutError::Timeout) => self.reload_unordered(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reloads after SIGHUP: also creates the cache directory if it is missing, and tells the
    /// service manager, which may have sent the signal.
    fn reload_by_order(&mut self) {
        systemd::reloading();
        if let Some(path) = cache_directory(&self.started)
            && let Err(error) = Directory::make(path)
        {
            tracing::error!("cache.directory: {error}");
        }
        self.reload(true);
        systemd::ready(&status(&self.service.catalog()));
    }

    /// Reloads because an interval is over, or datasets wait to be opened.
    fn reload_unordered(&mut self) {
        self.reload(false);
    }

    /// Reloads once. Without an order, only changes and new problems are logged.
    fn reload(&mut self, is_ordered: bool) {
        match self.try_reload(is_ordered) {
            Ok(reloaded) => {
                self.service.health().set(ServicePart::Configuration, &[]);
                if is_ordered || !reloaded.is_nothing() {
                    tracing::info!("reloaded: {}", summary(&reloaded));
                }
                self.is_pending = reloaded.is_pending;
            }
            Err(problems) => {
                let is_new = self
                    .service
                    .health()
                    .set(ServicePart::Configuration, &problems);
                if is_ordered || is_new {
                    tracing::error!(
                        "the configuration was not reloaded, and the settings, datasets and secrets in force stay: {}",
                        problems.join("; ")
                    );
                }
            }
        }
    }

    /// Returns what has changed. If there are problems, returns them, and the settings in force
    /// stay. An order also has all folders read again, broken files tried again, and credentials
    /// renewed.
    fn try_reload(&mut self, is_ordered: bool) -> Result<Reloaded, Vec<String>> {
        if is_ordered {
            self.folders.forget();
            self.service.catalog().store().renew_credentials();
        }
        search(&mut self.folders, &mut self.layers).map_err(|error| vec![error.to_string()])?;
        let configuration = config::load(&self.layers);
        if !configuration.faults.is_empty() {
            return Err(texts(&configuration.faults));
        }
        let mut settings = configuration.settings;
        remember_tokens(&mut self.layers, &settings);
        let unchangeable = config::restart_only(&self.started, &mut settings);
        if is_ordered {
            for warning in configuration.warnings {
                tracing::warn!("{warning}");
            }
            if !unchangeable.is_empty() {
                tracing::warn!(
                    "changes of {} take effect when the server is restarted",
                    unchangeable.join(", ")
                );
            }
        }
        let catalog = self.service.catalog();
        let datasets = settings.datasets.iter();
        let unopened = datasets.filter(|(token, dataset)| {
            dataset.found_in.is_some() && catalog.dataset(token).is_none()
        });
        let files = unopened.filter_map(|(_, dataset)| dataset.file.as_ref());
        self.folders.note_tried(files.map(Location::as_path));
        let renewed = self.new_certificates(&settings)?;
        let reloaded = self
            .service
            .reload(settings.clone(), is_ordered)
            .map_err(|faults| texts(&faults))?;
        self.note_broken(&settings, &reloaded);
        self.site
            .replace(&settings)
            .map_err(|error| vec![error.to_string()])?;
        self.log.choose_format(settings.log.format);
        if let Some((certificates, renewed)) = self.certificates.as_ref().zip(renewed) {
            certificates.replace(renewed);
            tracing::info!(
                "the certificate and key for TLS were replaced, for connections from now on"
            );
        }
        self.watch = settings.files.watch;
        Ok(reloaded)
    }

    /// The certificate and key as they are now, if TLS is on and they have changed.
    fn new_certificates(&self, settings: &Settings) -> Result<Option<Certificates>, Vec<String>> {
        let tls = self.certificates.as_ref().zip(settings.server.tls.as_ref());
        let Some((certificates, files)) = tls else {
            return Ok(None);
        };
        certificates.renewed(files).map_err(|faults| texts(&faults))
    }

    /// Notes the new files in folders that could not be opened.
    fn note_broken(&mut self, settings: &Settings, reloaded: &Reloaded) {
        let stalls = self.service.stalls();
        for (token, fault) in &reloaded.unopened {
            // A file on a file system that does not answer is not noted: it would count as broken
            // until it changes, but must be tried again as soon as the file system answers.
            if let Some(dataset) = settings.datasets.get(token)
                && let Some(file) = &dataset.file
                && stalls.ensure_answer([file.as_path()]).is_ok()
            {
                tracing::warn!("{fault}");
                self.folders.note_broken(file.as_path(), fault.to_string());
            }
        }
        self.service
            .health()
            .set(ServicePart::Files, &self.folders.problems());
    }
}

/// Notes the tokens of files found in folders, so that no other file gets one of them later.
fn remember_tokens(layers: &mut Layers, settings: &Settings) {
    for (token, dataset) in &settings.datasets {
        let path = dataset.file.as_ref().and_then(Location::path);
        if let Some(path) = path
            && dataset.found_in.is_some()
        {
            layers.known.insert(path.to_owned(), token.clone());
        }
    }
}

fn texts(all: &[impl ToString]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Describes the changes, for the log.
fn summary(reloaded: &Reloaded) -> String {
    let mut changes = Vec::new();
    for (verb, names) in [("opened", &reloaded.opened), ("removed", &reloaded.removed)] {
        match names.len() {
            0 => {}
            1..=MAX_NAMES => changes.push(format!("{verb} {}", joined(names))),
            count => changes.push(format!("{verb} {count} datasets")),
        }
    }
    if reloaded.access {
        changes.push("the rules of access have changed".to_owned());
    }
    if reloaded.is_pending {
        changes.push("some datasets are still being opened".to_owned());
    }
    if !changes.is_empty() {
        changes.join("; ")
    } else if reloaded.settings {
        "the settings have changed".to_owned()
    } else {
        "nothing has changed".to_owned()
    }
}

/// The status that the service manager shows.
pub(super) fn status(catalog: &Catalog) -> String {
    let count = catalog.datasets().count() as u64;
    format!("serving {}", counted(count, "dataset"))
}
