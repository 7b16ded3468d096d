//! The current catalogue, and reopening datasets whose files have changed.
//!
//! A request keeps the catalogue that it started with, so that no tile is made from two generations of a file. A
//! separate thread reopens datasets: first a trial, then the dataset is opened, then the catalogue is replaced in one
//! step. Failed attempts are repeated until one succeeds.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use super::{Identified, TileError, TileService};
use crate::catalog::{Catalog, Channel, Dataset, Resolved};
use crate::config::Settings;
use crate::name::Name;
use crate::render::RenderError;
use crate::tile::Tile;
use crate::volume::ReadError;

/// The pause after a failed attempt; doubled each time, up to [`MOST_PATIENT`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MOST_PATIENT: Duration = Duration::from_secs(2);
/// The shortest time between two reopenings of a dataset, as a file may change all the time.
const REST: Duration = Duration::from_secs(1);
/// The interval at which a dataset that an instrument is writing is reopened.
const GROWING: Duration = Duration::from_secs(2);

/// The capacity of the channel to the reopening thread.
const MOST_ANNOUNCED: usize = 64;

/// Opens the files of some settings in a child process, and returns those that must not be opened in this one, with
/// the reason.
pub type Trial = Box<dyn Fn(&Settings) -> Vec<(PathBuf, String)> + Send>;

/// The current catalogue, replaced as a whole.
#[derive(Debug)]
pub(super) struct LiveCatalog(RwLock<Arc<Catalog>>);

impl LiveCatalog {
    pub fn of(catalog: Catalog) -> Self {
        Self(RwLock::new(Arc::new(catalog)))
    }

    pub fn get(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, catalog: Catalog) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
    }
}

/// The thread that reopens datasets; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Reopener(SyncSender<Name>);

impl Reopener {
    pub fn start(live: Arc<LiveCatalog>, settings: Settings, trial: Trial) -> std::io::Result<Self> {
        let (sender, changed) = sync_channel(MOST_ANNOUNCED);
        let mut reopening =
            Reopening { live, settings, trial, due: BTreeMap::new(), opened: BTreeMap::new() };
        thread::Builder::new().name("reopen".to_owned()).spawn(move || reopening.run(&changed))?;
        Ok(Self(sender))
    }

    /// Requests that a dataset is reopened.
    pub fn reopen(&self, token: &Name) {
        match self.0.try_send(token.clone()) {
            // If the channel is full, the next request for the dataset tries again.
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => {
                tracing::error!("the thread that reopens datasets has ended");
            }
        }
    }
}

struct Reopening {
    live: Arc<LiveCatalog>,
    settings: Settings,
    trial: Trial,
    due: BTreeMap<Name, Attempt>,
    /// When each dataset was last reopened.
    opened: BTreeMap<Name, Instant>,
}

/// The next attempt to reopen a dataset.
#[derive(Debug, Clone)]
struct Attempt {
    at: Instant,
    pause: Duration,
    /// Why the last attempt failed; logged only if it changes.
    problem: Option<String>,
}

impl Reopening {
    fn run(&mut self, changed: &Receiver<Name>) {
        let growing: Vec<Name> = self.growing().collect();
        for token in growing {
            self.due.insert(token, Attempt::after(GROWING));
        }
        loop {
            let next = self.due.values().map(|attempt| attempt.at).min();
            let received = match next {
                None => changed.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => changed.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match received {
                Ok(token) => {
                    let rest = self
                        .opened
                        .get(&token)
                        .map_or(Duration::ZERO, |opened| REST.saturating_sub(opened.elapsed()));
                    self.due.entry(token).or_insert_with(|| Attempt::after(rest));
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            let due: Vec<Name> = self
                .due
                .iter()
                .filter(|(_, attempt)| attempt.at <= now)
                .map(|(token, _)| token.clone())
                .collect();
            due.iter().for_each(|token| self.attempt(token));
        }
    }

    fn growing(&self) -> impl Iterator<Item = Name> {
        let growing = self.settings.datasets.iter().filter(|(_, dataset)| dataset.growing);
        growing.map(|(token, _)| token.clone())
    }

    fn attempt(&mut self, token: &Name) {
        let Some(attempt) = self.due.remove(token) else { return };
        let is_growing = self.settings.datasets.get(token).is_some_and(|dataset| dataset.growing);
        match self.reopen(token) {
            Ok(()) if is_growing => _ = self.due.insert(token.clone(), Attempt::after(GROWING)),
            Ok(()) => _ = self.opened.insert(token.clone(), Instant::now()),
            Err(problem) => {
                if attempt.problem.as_ref() != Some(&problem) {
                    tracing::warn!("the dataset {token} cannot be reopened yet: {problem}");
                }
                let pause =
                    if is_growing { GROWING } else { (2 * attempt.pause).clamp(FIRST_PAUSE, MOST_PATIENT) };
                self.due.insert(
                    token.clone(),
                    Attempt { pause, problem: Some(problem), ..Attempt::after(pause) },
                );
            }
        }
    }

    /// Reopens a dataset if its files have changed, and replaces it in the catalogue if there are no faults.
    fn reopen(&self, token: &Name) -> Result<(), String> {
        let catalog = self.live.get();
        let (Some(dataset), Some(settings)) = (catalog.dataset(token), self.settings.datasets.get(token))
        else {
            return Ok(());
        };
        dataset.channels.values().for_each(|channel| channel.check());
        if !dataset.channels.values().any(|channel| channel.has_changed()) {
            return Ok(());
        }
        let mut alone = self.settings.clone();
        alone.datasets.retain(|other, _| other == token);
        if let Some((path, reason)) = (self.trial)(&alone).into_iter().next() {
            return Err(format!("{}: {reason}", path.display()));
        }
        let reopened = catalog.reopen(token, settings);
        if !reopened.faults.is_empty() {
            let faults: Vec<String> = reopened.faults.iter().map(ToString::to_string).collect();
            return Err(faults.join("; "));
        }
        reopened.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        self.live.put(catalog.with(reopened.dataset));
        if !settings.growing {
            tracing::info!("the dataset {token} was reopened because its files have changed");
        }
        Ok(())
    }
}

impl Attempt {
    fn after(pause: Duration) -> Self {
        Self { at: Instant::now() + pause, pause: Duration::ZERO, problem: None }
    }
}

impl TileService {
    /// Fails if a file of the requested channels has changed since it was opened. If the request does not resolve, or
    /// lies outside the volume, all channels of the dataset are checked: it may resolve in the next generation.
    pub(super) async fn ensure_unchanged(
        &self,
        catalog: &Catalog,
        token: &Name,
        resolved: Option<&Resolved>,
    ) -> Result<(), TileError> {
        let Some(dataset) = catalog.dataset(token) else { return Ok(()) };
        match resolved.filter(|resolved| !resolved.is_black()) {
            Some(resolved) => self.ensure_current(dataset, resolved.channels()).await,
            None => self.ensure_current(dataset, dataset.channels.values()).await,
        }
    }

    /// Reopens a dataset if a read found that one of its files has changed, even if the last check did not.
    pub(super) fn note_change(&self, identified: &Identified, brought: &Result<Tile, TileError>) {
        let Err(TileError::Render(RenderError::Read(ReadError::Changed { .. }))) = brought else { return };
        let shown = match identified {
            Identified::Black(_) => return,
            Identified::Made { resolved, .. } => std::slice::from_ref(resolved),
            Identified::Overview { overview, .. } => overview.tiles(),
        };
        shown.iter().flat_map(Resolved::channels).for_each(|channel| channel.note_change());
        if let (Some(reopener), Some(first)) = (&self.reopener, shown.first()) {
            reopener.reopen(first.token());
        }
    }

    /// Fails if a file of these channels has changed since it was opened, and requests that the dataset is reopened.
    pub(super) async fn ensure_current<'a>(
        &self,
        dataset: &Dataset,
        channels: impl Iterator<Item = &'a Arc<Channel>> + Clone,
    ) -> Result<(), TileError> {
        check(channels.clone()).await;
        if dataset.growing || !channels.clone().any(|channel| channel.has_changed()) {
            return Ok(());
        }
        if let Some(reopener) = &self.reopener {
            reopener.reopen(&dataset.token);
        }
        Err(TileError::Changed { token: dataset.token.clone() })
    }
}

/// Checks the files of each channel for changes, unless that was done recently. Accesses the file system on a thread
/// for blocking work.
async fn check(channels: impl IntoIterator<Item = &Arc<Channel>>) {
    for channel in channels {
        if !channel.is_checked() {
            let channel = Arc::clone(channel);
            if let Err(error) = tokio::task::spawn_blocking(move || channel.check()).await {
                tracing::error!("files could not be checked for changes: {error}");
            }
        }
    }
}
