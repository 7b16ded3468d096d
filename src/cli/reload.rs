//! Reading configuration and files again while serving: at SIGHUP, and at intervals if files are watched or folders
//! are served.
//!
//! Whatever is wrong with the new configuration, the server goes on as before, and says so in the log and in `/readyz`.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::folders::Folders;
use super::log::Log;
use super::sources::search;
use crate::base::name::Name;
use crate::catalog::{Catalog, Closed};
use crate::config::{self, Layers, Settings};
use crate::confine::AllowedFolders;
use crate::http::systemd;
use crate::http::{Certificates, LiveSite};
use crate::service::{Part, Reloaded, TileService};
use crate::store::Location;
use crate::tier::Directory;

/// The interval at which folders are listed, unless `files.watch` says otherwise.
const FOLDERS: Duration = Duration::from_secs(2);

/// The most datasets that a line of the log names.
const MAX_NAMES: usize = 20;

/// What reloading takes.
pub(super) struct Reloader {
    pub log: Log,
    /// The cache directory, if there is one.
    pub directory: Option<Directory>,
    pub layers: Layers,
    pub folders: Folders,
    pub allowed: AllowedFolders,
    pub service: Arc<TileService>,
    pub site: Arc<LiveSite>,
    /// If TLS is on.
    pub certificates: Option<Arc<Certificates>>,
    /// The settings that the server was started with.
    pub started: Settings,
}

/// Why the configuration is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    Signal,
    Interval,
}

/// What decides when the next reload is due.
#[derive(Debug, Clone, Copy)]
struct Next {
    /// `files.watch`.
    watch: Option<Duration>,
    /// Whether trials go on.
    is_pending: bool,
}

impl Reloader {
    /// Reloads on a thread of its own whenever an order arrives, and at intervals. Ends with the process.
    pub fn start(mut self, orders: Receiver<()>) -> std::io::Result<()> {
        let mut next = Next { watch: self.started.files.watch, is_pending: false };
        let is_waiting = self.service.catalog().closed().values().any(|closed| *closed == Closed::Waiting);
        let started = self.started.clone();
        self.remember(&started);
        let run = move || {
            if is_waiting {
                next = self.tell_and_reload(Occasion::Interval).unwrap_or(next);
            }
            loop {
                let usual = next.watch.or((!self.folders.is_empty()).then_some(FOLDERS));
                let soon = next.is_pending.then_some(FOLDERS);
                let interval = usual.into_iter().chain(soon).min().map(|it| it.max(self.folders.pause()));
                let order = match interval {
                    Some(interval) => orders.recv_timeout(interval),
                    None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                };
                let occasion = match order {
                    Ok(()) => Occasion::Signal,
                    Err(RecvTimeoutError::Timeout) => Occasion::Interval,
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                // Several signals at once are one.
                while orders.try_recv().is_ok() {}
                next = self.tell_and_reload(occasion).unwrap_or(next);
            }
        };
        thread::Builder::new().name("reload".to_owned()).spawn(run).map(drop)
    }

    /// Tells the service manager, which may have asked for it by the signal.
    fn tell_and_reload(&mut self, occasion: Occasion) -> Option<Next> {
        if occasion == Occasion::Interval {
            return self.reload(occasion);
        }
        systemd::reloading();
        self.directory.iter().for_each(Directory::reopen);
        let next = self.reload(occasion);
        systemd::ready(&status(&self.service.catalog()));
        next
    }

    /// Reloads once; returns what decides the time of the next reload if that succeeds.
    fn reload(&mut self, occasion: Occasion) -> Option<Next> {
        match self.try_reload(occasion) {
            Ok((reloaded, watch)) => {
                self.service.health().set(Part::Configuration, &[]);
                if occasion == Occasion::Signal || !reloaded.is_nothing() {
                    tracing::info!("reloaded: {}", summary(&reloaded));
                }
                Some(Next { watch, is_pending: reloaded.is_pending })
            }
            Err(problems) => {
                let is_new = self.service.health().set(Part::Configuration, &problems);
                if occasion == Occasion::Signal || is_new {
                    tracing::error!(
                        "the configuration was not reloaded, and the settings, datasets and secrets in force stay: {}",
                        problems.join("; ")
                    );
                }
                None
            }
        }
    }

    fn try_reload(&mut self, occasion: Occasion) -> Result<(Reloaded, Option<Duration>), Vec<String>> {
        if occasion == Occasion::Signal {
            self.folders.forget();
            self.service.catalog().store().renew_credentials();
        }
        search(&mut self.folders, &mut self.layers).map_err(|error| vec![error.to_string()])?;
        let config::Loaded { mut settings, faults, warnings, .. } = config::load(&self.layers);
        if !faults.is_empty() {
            return Err(faults.iter().map(ToString::to_string).collect());
        }
        self.remember(&settings);
        let kept = config::keep_fixed(&self.started, &mut settings);
        if let Some(lack) = self.allowed.lacks(&settings) {
            return Err(vec![lack.to_string()]);
        }
        if occasion == Occasion::Signal {
            warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            if !kept.is_empty() {
                tracing::warn!("changes of {} take effect when the server is restarted", kept.join(", "));
            }
        }
        let renewed = self.renewed(&settings)?;
        let reloaded = self
            .service
            .reload(settings.clone(), occasion == Occasion::Signal)
            .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        self.note_broken(&settings, &reloaded);
        self.site.replace(&settings).map_err(|error| vec![error.to_string()])?;
        self.log.choose_format(settings.log.format);
        if let Some((certificates, renewed)) = self.certificates.as_ref().zip(renewed) {
            certificates.replace(renewed);
            tracing::info!("the certificate and key for TLS were replaced, for connections from now on");
        }
        Ok((reloaded, settings.files.watch))
    }

    /// Notes the tokens of files found in folders, so that no other file gets one of them later.
    fn remember(&mut self, settings: &Settings) {
        for (token, dataset) in settings.datasets.iter().filter(|(_, dataset)| dataset.found_in.is_some()) {
            let path = dataset.file.as_ref().and_then(Location::path);
            self.layers.known.extend(path.map(|path| (path.to_owned(), token.clone())));
        }
    }

    /// The certificate and key as they are now, if TLS is on and they have changed.
    fn renewed(&self, settings: &Settings) -> Result<Option<Certificates>, Vec<String>> {
        let tls = self.certificates.as_ref().zip(settings.server.tls.as_ref());
        let Some((certificates, files)) = tls else { return Ok(None) };
        certificates.renewed(files).map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    /// Notes the new files in folders that could not be opened.
    fn note_broken(&mut self, settings: &Settings, reloaded: &Reloaded) {
        let catalog = self.service.catalog();
        for (token, fault) in &reloaded.unopened {
            let Some(dataset) = settings.datasets.get(token) else { continue };
            // One that was served before stays, and its tiles are errors.
            if catalog.dataset(token).is_none()
                && let Some(file) = &dataset.file
            {
                tracing::warn!("{fault}");
                self.folders.note_broken(file.as_path(), fault.to_string());
            }
        }
        self.service.health().set(Part::Files, &self.folders.problems());
    }
}

/// What changed, for the log.
fn summary(reloaded: &Reloaded) -> String {
    let names = |names: &[Name]| match names.len() {
        ..=MAX_NAMES => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        count => format!("{count} datasets"),
    };
    let mut summary = Vec::new();
    if !reloaded.opened.is_empty() {
        summary.push(format!("opened {}", names(&reloaded.opened)));
    }
    if !reloaded.removed.is_empty() {
        summary.push(format!("removed {}", names(&reloaded.removed)));
    }
    if reloaded.access {
        summary.push("the rules of access have changed".to_owned());
    }
    if reloaded.is_pending {
        summary.push("some files are still on trial".to_owned());
    }
    if summary.is_empty() {
        summary.push(
            if reloaded.settings { "the settings have changed" } else { "nothing has changed" }.to_owned(),
        );
    }
    summary.join("; ")
}

/// What the service manager shows.
pub(super) fn status(catalog: &Catalog) -> String {
    let count = catalog.datasets().count();
    format!("serving {count} {}", if count == 1 { "dataset" } else { "datasets" })
}
