//! Reopens datasets whose files have changed, and opens datasets whose store did not answer.
//!
//! Each dataset is reopened on a thread of its own, so that a file that takes long does not delay
//! other files: first a trial, then the dataset is opened, then the catalogue is replaced in one
//! step. Failed attempts are repeated until one succeeds.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use voltile_base::flow::stalls::Stalls;
use voltile_base::name::Name;
use voltile_hdf5::store::Location;

use super::health::Health;
use super::live::LiveCatalog;
use super::trials::{RunTrials, TrialResults, Trials};
use crate::catalog::{Closed, tell};
use crate::config::Settings;

/// The pause after a failed attempt; doubled each time, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The shortest time between two reopenings of a dataset, as a file may change all the time.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// The pause before a dataset whose store did not answer is tried again for the first time.
const UNREACHABLE: Duration = Duration::from_secs(1);
/// The pause before a live dataset is checked again, and reopened if its files have changed: at
/// least this, and twice as long as it took.
const LIVE: Duration = Duration::from_millis(200);
/// The same pause of a dataset that is marked as being written and has not changed for a minute.
const QUIET: Duration = Duration::from_secs(1);

/// The capacity of the channel to the thread that schedules attempts.
const MAX_ANNOUNCED: usize = 64;
/// The most datasets that are reopened at once.
const MAX_AT_ONCE: usize = 4;

/// The files of some settings that must not be opened, with the reason.
fn refused(trial: &RunTrials, settings: &Settings) -> Vec<(Location, String)> {
    let refused = Mutex::new(Vec::new());
    trial(settings, &|file, why| {
        refused.lock().extend(why.map(|why| (file, why)));
    });
    refused.into_inner()
}

/// A handle to the thread that schedules attempts to reopen datasets, which ends when this is
/// dropped.
pub(super) struct Reopener {
    sender: Arc<SyncSender<Message>>,
    trial: Arc<RunTrials>,
    trials: Trials,
}

#[derive(Debug)]
enum Message {
    /// A file of the dataset has changed.
    Changed(Name),
    /// There are other settings.
    Reloaded,
    /// An attempt has ended, and why it failed.
    Ended(Name, Result<(), String>),
}

impl Reopener {
    pub fn start(
        live: Arc<LiveCatalog>,
        health: Arc<Health>,
        trial: RunTrials,
        stalls: Stalls,
    ) -> std::io::Result<Self> {
        let (sender, messages) = sync_channel(MAX_ANNOUNCED);
        let sender = Arc::new(sender);
        let trial = Arc::new(trial);
        let trials = Trials::new(Arc::clone(&trial), live.get().store().clone());
        let mut schedule = ReopenSchedule {
            reopening: Arc::new(Reopening {
                live,
                trial: Arc::clone(&trial),
                stalls,
            }),
            health,
            sender: Arc::downgrade(&sender),
            due: BTreeMap::new(),
            running: BTreeMap::new(),
            opened: BTreeMap::new(),
        };
        thread::Builder::new()
            .name("reopen".to_owned())
            .spawn(move || schedule.run(&messages))?;
        Ok(Self {
            sender,
            trial,
            trials,
        })
    }

    /// Opens the files of these settings in child processes. The trials of datasets for which
    /// `may_wait` is true need not end before this returns.
    pub fn try_files(&self, settings: &Settings, may_wait: impl Fn(&Name) -> bool) -> TrialResults {
        let part = |waits: bool| {
            let mut part = settings.clone();
            part.datasets.retain(|token, _| may_wait(token) == waits);
            part
        };
        let mut shown = self.trials.show(&part(true));
        shown.refused.extend(refused(&self.trial, &part(false)));
        shown
    }

    /// Notes that the settings have changed.
    pub fn note_reload(&self) {
        // Fails only if the thread has ended, which the next request to reopen a dataset reports.
        let _ = self.sender.send(Message::Reloaded);
    }

    /// Requests that a dataset is reopened.
    pub fn reopen(&self, token: &Name) {
        match self.sender.try_send(Message::Changed(token.clone())) {
            // If the channel is full, the next request for the dataset tries again.
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => {
                tracing::error!("the thread that reopens datasets has ended");
            }
        }
    }
}

/// Decides when a dataset is reopened.
struct ReopenSchedule {
    reopening: Arc<Reopening>,
    health: Arc<Health>,
    /// Lets attempt threads report. Weak, so that this thread ends when the [`Reopener`] is
    /// dropped.
    sender: Weak<SyncSender<Message>>,
    due: BTreeMap<Name, ReopenAttempt>,
    running: BTreeMap<Name, ReopenAttempt>,
    /// When each dataset was last reopened or found unchanged; growing datasets are not recorded.
    opened: BTreeMap<Name, Instant>,
}

/// Reopens a dataset, on a thread of its own.
struct Reopening {
    live: Arc<LiveCatalog>,
    trial: Arc<RunTrials>,
    /// Watches the threads that open files, which may have libhdf5's lock.
    stalls: Stalls,
}

/// The next attempt to reopen a dataset.
#[derive(Debug, Clone)]
struct ReopenAttempt {
    at: Instant,
    pause: Duration,
    /// Why the last attempt failed; logged only if it changes.
    problem: Option<String>,
}

impl ReopenSchedule {
    fn run(&mut self, messages: &Receiver<Message>) {
        self.follow();
        loop {
            let next = self.due.values().map(|attempt| attempt.at).min();
            let received = match next {
                Some(at) if self.running.len() < MAX_AT_ONCE => {
                    messages.recv_timeout(at.saturating_duration_since(Instant::now()))
                }
                _ => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(Message::Changed(token)) => self.changed(&token),
                Ok(Message::Reloaded) => self.follow(),
                Ok(Message::Ended(token, result)) => self.ended(token, result),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.start_due();
        }
    }

    /// Schedules the datasets that may grow, and the datasets whose store did not answer.
    fn follow(&mut self) {
        let catalog = self.reopening.live.get();
        for dataset in catalog.datasets().filter(|dataset| dataset.growing) {
            self.schedule(&dataset.token, LIVE);
        }
        for (token, closed) in catalog.closed() {
            if matches!(closed, Closed::Unreachable(_)) {
                self.schedule(token, UNREACHABLE);
            }
        }
    }

    /// Schedules an attempt, unless one is scheduled or runs.
    fn schedule(&mut self, token: &Name, pause: Duration) {
        if !self.running.contains_key(token) {
            self.due
                .entry(token.clone())
                .or_insert_with(|| ReopenAttempt::after(pause));
        }
    }

    fn changed(&mut self, token: &Name) {
        let since = self.opened.get(token).map(Instant::elapsed);
        let rest = since.map_or(Duration::ZERO, |since| {
            SHORTEST_INTERVAL.saturating_sub(since)
        });
        self.schedule(token, rest);
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        while self.running.len() < MAX_AT_ONCE {
            let due = self.due.iter().filter(|(_, attempt)| attempt.at <= now);
            let Some((token, attempt)) = due.min_by_key(|(_, attempt)| attempt.at) else {
                return;
            };
            let token = token.clone();
            self.running.insert(token.clone(), attempt.clone());
            self.due.remove(&token);
            self.start(token);
        }
    }

    fn start(&mut self, token: Name) {
        let reopening = Arc::clone(&self.reopening);
        let sender = self.sender.clone();
        let name = token.clone();
        let thread = thread::Builder::new().name("reopening".to_owned());
        let spawned = thread.spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| reopening.reopen(&name)));
            let result = result.unwrap_or_else(|_| Err("opening it panicked".to_owned()));
            // Without a sender the server is shutting down.
            if let Some(sender) = sender.upgrade() {
                let _ = sender.send(Message::Ended(name, result));
            }
        });
        if let Err(error) = spawned {
            self.ended(token, Err(format!("no thread could be started: {error}")));
        }
    }

    fn ended(&mut self, token: Name, result: Result<(), String>) {
        let Some(attempt) = self.running.remove(&token) else {
            return;
        };
        let catalog = self.reopening.live.get();
        let growing = catalog.dataset(&token).filter(|dataset| dataset.growing);
        let pause = growing.map(|dataset| {
            if dataset.live {
                LIVE.max(2 * attempt.at.elapsed())
            } else {
                QUIET
            }
        });
        self.health
            .set_dataset(&token, result.as_ref().err().cloned());
        match (result, pause) {
            (Ok(()), Some(pause)) => _ = self.due.insert(token, ReopenAttempt::after(pause)),
            (Ok(()), None) => _ = self.opened.insert(token, Instant::now()),
            (Err(problem), _) => {
                // A writer may have been in the middle of a change.
                let is_first = pause.is_some() && attempt.pause.is_zero();
                if !is_first && attempt.problem.as_ref() != Some(&problem) {
                    tracing::warn!("the dataset {token} cannot be opened yet: {problem}");
                }
                let problem = Some(problem).filter(|_| !is_first);
                let pause = pause.unwrap_or((2 * attempt.pause).clamp(FIRST_PAUSE, LONGEST_PAUSE));
                self.due.insert(
                    token,
                    ReopenAttempt {
                        pause,
                        problem,
                        ..ReopenAttempt::after(pause)
                    },
                );
            }
        }
    }
}

impl Reopening {
    /// Reopens a dataset if its files have changed, or opens one whose store did not answer or that
    /// waited to be opened; if there are no faults, puts it into the catalogue.
    fn reopen(&self, token: &Name) -> Result<(), String> {
        self.stalls.watch_thread(false);
        let is_waiting = self.live.get().closed().get(token) == Some(&Closed::Waiting);
        match self.try_reopen(token) {
            // The reload for which it waited leaves it out, and says why.
            Err(_) if is_waiting => Ok(()),
            result => result,
        }
    }

    fn try_reopen(&self, token: &Name) -> Result<(), String> {
        let (catalog, all) = self.live.with_settings();
        let known = catalog.dataset(token);
        let Some(settings) = all.datasets.get(token) else {
            return Ok(());
        };
        let is_to_open = match known {
            Some(dataset) => {
                let is_quiet = dataset.live && settings.growing.is_none() && !dataset.is_written();
                dataset.find_change() || is_quiet
            }
            None => catalog.closed().contains_key(token),
        };
        if !is_to_open {
            return Ok(());
        }
        // Asked before a trial, which starts a process.
        if known.is_none() && settings.is_unreachable(catalog.store()) {
            return Err("its store does not answer".to_owned());
        }
        let mut alone = Settings::clone(&all);
        alone.datasets.retain(|other, _| other == token);
        if let Some((file, reason)) = refused(&self.trial, &alone).into_iter().next() {
            return Err(format!("{file}: {reason}"));
        }
        let reopened = catalog.reopen(token, settings);
        if !reopened.faults.is_empty() {
            let faults: Vec<String> = reopened.faults.iter().map(ToString::to_string).collect();
            return Err(faults.join("; "));
        }
        // A live dataset is reopened every second.
        if known.is_none_or(|known| !known.live) {
            tell(&reopened.notices);
        }
        let is_live = reopened.dataset.as_ref().is_some_and(|next| next.live);
        if let Some(next) = reopened.dataset {
            self.live.put(next, known);
        }
        match (known, is_live) {
            (None, _) if catalog.closed().get(token) == Some(&Closed::Waiting) => {}
            (None, _) => tracing::info!("the dataset {token} was opened: its store answers"),
            (Some(before), true) if before.live => {}
            (Some(_), true) => {
                tracing::info!("the dataset {token} is live: its file is being written");
            }
            (Some(before), false) if before.live => {
                tracing::info!(
                    "the dataset {token} is not live any more: its file is closed, or does not change"
                );
            }
            (Some(_), false) => {
                tracing::info!("the dataset {token} was reopened because its files have changed");
            }
        }
        Ok(())
    }
}

impl ReopenAttempt {
    fn after(pause: Duration) -> Self {
        Self {
            at: Instant::now() + pause,
            pause: Duration::ZERO,
            problem: None,
        }
    }
}
