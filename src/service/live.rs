//! The catalogue in force, and opening datasets anew whose files have changed.
//!
//! A request takes the catalogue as it is and keeps to it, so that no tile is made from two states of a file. A thread of
//! its own reopens: a trial first, then the dataset, and then the catalogue is replaced in one step. What fails is
//! tried again until it succeeds.

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

/// How long is waited after an attempt that failed; then twice as long, up to [`MOST_PATIENT`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between attempts.
const MOST_PATIENT: Duration = Duration::from_secs(2);
/// How soon after a dataset was opened anew it is opened again at the earliest: a file may change all the time.
const REST: Duration = Duration::from_secs(1);
/// How often the files of a dataset that an instrument is writing are opened anew.
const GROWING: Duration = Duration::from_secs(2);

/// How many changes may be announced that have yet to be looked at.
const MOST_ANNOUNCED: usize = 64;

/// Opens the files of some settings where it does no harm, and tells which must not be opened here, and why.
pub type Trial = Box<dyn Fn(&Settings) -> Vec<(PathBuf, String)> + Send>;

/// The catalogue in force.
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

/// A thread that opens datasets anew; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Reopener(SyncSender<Name>);

impl Reopener {
    /// Starts the thread.
    pub fn start(live: Arc<LiveCatalog>, settings: Settings, trial: Trial) -> std::io::Result<Self> {
        let (sender, changed) = sync_channel(MOST_ANNOUNCED);
        let mut reopening =
            Reopening { live, settings, trial, due: BTreeMap::new(), opened: BTreeMap::new() };
        thread::Builder::new().name("reopen".to_owned()).spawn(move || reopening.run(&changed))?;
        Ok(Self(sender))
    }

    /// Has a dataset opened anew whose files have changed.
    pub fn reopen(&self, token: &Name) {
        match self.0.try_send(token.clone()) {
            // Where there is no room, the next request for the dataset announces it again.
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => {
                tracing::error!("the thread that opens datasets anew has ended");
            }
        }
    }
}

struct Reopening {
    live: Arc<LiveCatalog>,
    settings: Settings,
    trial: Trial,
    due: BTreeMap<Name, Attempt>,
    /// When each dataset was opened anew last.
    opened: BTreeMap<Name, Instant>,
}

/// The next attempt to open a dataset.
#[derive(Debug, Clone)]
struct Attempt {
    at: Instant,
    pause: Duration,
    /// What was wrong at the last one, which is logged once.
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
                    tracing::warn!("the dataset {token} cannot be opened anew yet: {problem}");
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

    /// Opens a dataset anew where its files have changed, and puts it into the catalogue if nothing is wrong with it.
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
            tracing::info!("the dataset {token} was opened anew, because its files have changed");
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
    /// Fails where a file of the channels that a request shows has changed since it was opened; of all channels of the
    /// dataset where it names none, or nothing of them: a new state may have it.
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

    /// Has a dataset opened anew where a read found that a file of it has changed, whatever the last check said.
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

    /// Fails where a file of these channels has changed since it was opened, and has the dataset opened anew.
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

/// Finds out for each channel whether its files have changed, where that is not known well enough. The file system is
/// asked on a thread for blocking work.
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
