//! Decides when a dataset is opened or reopened.
//!
//! Datasets that are due together are opened together on a thread of their own, each as soon as its
//! own trial has ended, so that a file that takes long does not delay other files. Failed attempts
//! are repeated until one succeeds.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use voltile_base::flow::start_thread;
use voltile_base::name::Name;

use super::DatasetOpener;
use crate::catalog::Closed;

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

/// The most groups of datasets that are opened at once, each with child processes of its own.
const MAX_GROUPS: usize = 8;
/// The most groups that reloads may start: the others are for files that change meanwhile.
const MAX_GROUPS_OF_RELOADS: usize = 4;
/// The most datasets that are opened together: their trials share child processes.
const MAX_TOGETHER: usize = 32;

#[derive(Debug)]
pub(super) enum Message {
    /// A file of the dataset has changed, or a request waits until it is open.
    Requested(Name),
    /// There may be other settings, and these datasets are to be opened.
    Reloaded(Vec<Name>),
    /// An attempt has ended, and why it failed.
    Ended(Name, Result<(), String>),
    /// All attempts of a group have ended.
    GroupEnded,
}

/// The attempts to open datasets: when the next ones are due, and those that run.
pub(super) struct OpeningSchedule {
    opener: Arc<DatasetOpener>,
    /// Lets the threads that open datasets report. Weak, so that this thread ends when the
    /// [`super::Reconciler`] is dropped.
    sender: Weak<SyncSender<Message>>,
    due: BTreeMap<Name, Attempt>,
    running: BTreeMap<Name, Attempt>,
    /// The running attempts that began before a reload, and are repeated.
    outdated: BTreeSet<Name>,
    groups: usize,
    /// When each dataset was last reopened or found unchanged, as far as that still matters; growing
    /// datasets are not recorded.
    opened: BTreeMap<Name, Instant>,
}

/// An attempt to open a dataset.
#[derive(Debug, Clone)]
struct Attempt {
    at: Instant,
    pause: Duration,
    /// Why the last attempt failed; logged only if it changes.
    problem: Option<String>,
    /// Whether only a reload wants it.
    is_of_reload: bool,
}

impl OpeningSchedule {
    pub fn new(opener: Arc<DatasetOpener>, sender: Weak<SyncSender<Message>>) -> Self {
        Self {
            opener,
            sender,
            due: BTreeMap::new(),
            running: BTreeMap::new(),
            outdated: BTreeSet::new(),
            groups: 0,
            opened: BTreeMap::new(),
        }
    }

    pub fn run(&mut self, messages: &Receiver<Message>) {
        self.follow();
        loop {
            let startable = self.due.values().filter(|attempt| self.may_start(attempt));
            let received = match startable.map(|attempt| attempt.at).min() {
                Some(at) => messages.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(Message::Requested(token)) => self.request(&token),
                Ok(Message::Reloaded(wanted)) => {
                    self.follow();
                    wanted.into_iter().for_each(|token| self.want(token));
                }
                Ok(Message::Ended(token, result)) => self.ended(token, result),
                Ok(Message::GroupEnded) => self.groups -= 1,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.start_due();
        }
    }

    /// Schedules the datasets that may grow, and the datasets whose store did not answer.
    fn follow(&mut self) {
        self.opened.retain(|_, at| at.elapsed() < SHORTEST_INTERVAL);
        let catalog = self.opener.live.get();
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
                .or_insert_with(|| Attempt::after(pause));
        }
    }

    fn request(&mut self, token: &Name) {
        let since = self.opened.get(token).map(Instant::elapsed);
        let rest = since.map_or(Duration::ZERO, |since| {
            SHORTEST_INTERVAL.saturating_sub(since)
        });
        self.schedule(token, rest);
        if let Some(attempt) = self.due.get_mut(token) {
            attempt.is_of_reload = false;
        }
    }

    /// Schedules an attempt for a reload.
    fn want(&mut self, token: Name) {
        if self.running.contains_key(&token) {
            self.outdated.insert(token);
            return;
        }
        let attempt = self.due.entry(token).or_insert_with(|| Attempt {
            is_of_reload: true,
            ..Attempt::after(Duration::ZERO)
        });
        attempt.at = attempt.at.min(Instant::now());
    }

    fn may_start(&self, attempt: &Attempt) -> bool {
        self.groups < MAX_GROUPS && (!attempt.is_of_reload || self.groups < MAX_GROUPS_OF_RELOADS)
    }

    /// Starts groups of the attempts that are due, requests before reloads.
    fn start_due(&mut self) {
        loop {
            let now = Instant::now();
            let due = self.due.iter();
            let startable = due.filter(|(_, attempt)| attempt.at <= now && self.may_start(attempt));
            let mut group: Vec<(Name, Attempt)> = startable
                .map(|(token, attempt)| (token.clone(), attempt.clone()))
                .collect();
            if group.is_empty() {
                return;
            }
            group.sort_by_key(|(_, attempt)| (attempt.is_of_reload, attempt.at));
            // A dataset that has failed, perhaps by a panic, is opened alone.
            let mut attempts = group.iter().map(|(_, attempt)| attempt);
            let first_failed = attempts.position(|attempt| !attempt.pause.is_zero());
            group.truncate(first_failed.unwrap_or(MAX_TOGETHER).clamp(1, MAX_TOGETHER));
            let tokens: Vec<Name> = group.iter().map(|(token, _)| token.clone()).collect();
            self.due.retain(|token, _| !tokens.contains(token));
            self.running.extend(group);
            self.start(tokens);
        }
    }

    fn start(&mut self, tokens: Vec<Name>) {
        let opener = Arc::clone(&self.opener);
        let sender = self.sender.clone();
        let mut rest = BTreeSet::from_iter(tokens.iter().cloned());
        let group = tokens.clone();
        let report = move |message| {
            // Without a sender the server is shutting down.
            if let Some(sender) = sender.upgrade() {
                let _ = sender.send(message);
            }
        };
        let started = start_thread("reopening", move || {
            let opening = || {
                opener.open(group, |token, result| {
                    rest.remove(&token);
                    report(Message::Ended(token, result));
                });
            };
            if catch_unwind(AssertUnwindSafe(opening)).is_err() {
                for token in rest {
                    report(Message::Ended(token, Err("opening it panicked".to_owned())));
                }
            }
            report(Message::GroupEnded);
        });
        match started {
            Ok(_) => self.groups += 1,
            Err(error) => {
                for token in tokens {
                    self.ended(token, Err(format!("no thread could be started: {error}")));
                }
            }
        }
    }

    fn ended(&mut self, token: Name, result: Result<(), String>) {
        let Some(attempt) = self.running.remove(&token) else {
            return;
        };
        if self.outdated.remove(&token) {
            return self.want(token);
        }
        let catalog = self.opener.live.get();
        let known = catalog.dataset(&token);
        let growing = known.filter(|dataset| dataset.growing);
        let pause = growing.map(|dataset| {
            if dataset.live {
                LIVE.max(2 * attempt.at.elapsed())
            } else {
                QUIET
            }
        });
        self.opener
            .health
            .set_dataset(&token, result.as_ref().err().cloned());
        self.opener.report.lock().pending.remove(&token);
        self.opener.settled.notify_all();
        match (result, pause) {
            (Ok(()), Some(pause)) => _ = self.due.insert(token, Attempt::after(pause)),
            (Ok(()), None) => _ = self.opened.insert(token, Instant::now()),
            (Err(problem), _) => {
                // A writer may have been in the middle of a change.
                let is_first = pause.is_some() && attempt.pause.is_zero();
                if !is_first && attempt.problem.as_ref() != Some(&problem) {
                    let what = if known.is_some() {
                        "reopened"
                    } else {
                        "opened"
                    };
                    tracing::warn!("the dataset {token} cannot be {what} yet: {problem}");
                }
                let problem = Some(problem).filter(|_| !is_first);
                let pause = pause.unwrap_or((2 * attempt.pause).clamp(FIRST_PAUSE, LONGEST_PAUSE));
                self.due.insert(
                    token,
                    Attempt {
                        pause,
                        problem,
                        ..Attempt::after(pause)
                    },
                );
            }
        }
    }
}

impl Attempt {
    fn after(pause: Duration) -> Self {
        Self {
            at: Instant::now() + pause,
            pause: Duration::ZERO,
            problem: None,
            is_of_reload: false,
        }
    }
}
