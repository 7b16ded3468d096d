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

/// The pause after the first failed attempt; doubled after each further failure, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The shortest time between two reopenings of a dataset, as a file may change all the time.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// The pause before a dataset whose store did not answer is tried again for the first time.
const UNREACHABLE_PAUSE: Duration = Duration::from_secs(1);
/// The shortest pause before a live dataset is checked again, and reopened if its files have
/// changed. The pause is twice the time that the last check took, if that is longer.
const LIVE_PAUSE: Duration = Duration::from_millis(200);
/// The pause before a dataset that may grow but is not live is checked again: it is marked as being
/// written, and has not changed for a minute.
const QUIET_PAUSE: Duration = Duration::from_secs(1);

/// The maximum number of groups of datasets that are opened at once, each with its own child
/// processes.
const MAX_GROUPS: usize = 8;
/// A reload starts a group only while fewer groups than this are being opened: the other groups are
/// for files that change meanwhile.
const MAX_GROUPS_OF_RELOADS: usize = 4;
/// The maximum number of datasets that are opened together: their trials share child processes.
const MAX_TOGETHER: usize = 32;

#[derive(Debug)]
pub(super) enum Message {
    /// A file of the dataset has changed, or a request waits until it is open.
    Requested(Name),
    /// There may be other settings, and these datasets are to be opened.
    Reloaded(Vec<Name>),
    /// An attempt has ended; the error says why it failed.
    Ended(Name, Result<(), String>),
    /// All attempts of a group have ended.
    GroupEnded,
}

/// The attempts to open datasets: scheduled ones and running ones.
pub(super) struct OpeningSchedule {
    opener: Arc<DatasetOpener>,
    /// Lets the threads that open datasets report. Weak, so that this thread ends when the
    /// [`super::Reconciler`] is dropped.
    sender: Weak<SyncSender<Message>>,
    due: BTreeMap<Name, Attempt>,
    running: BTreeMap<Name, Attempt>,
    /// The running attempts that began before a reload: they are repeated.
    outdated: BTreeSet<Name>,
    /// The number of groups that are being opened.
    groups: usize,
    /// When each dataset was last reopened or found unchanged, if that was less than
    /// [`SHORTEST_INTERVAL`] ago; growing datasets are not recorded.
    opened: BTreeMap<Name, Instant>,
}

/// An attempt to open a dataset.
#[derive(Debug, Clone)]
struct Attempt {
    /// When it is due.
    at: Instant,
    /// The pause since the last attempt if that has failed, otherwise zero.
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
        self.schedule_checks();
        loop {
            let startable = self.due.values().filter(|attempt| self.may_start(attempt));
            let received = match startable.map(|attempt| attempt.at).min() {
                Some(at) => messages.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(Message::Requested(token)) => self.request(&token),
                Ok(Message::Reloaded(wanted)) => {
                    self.schedule_checks();
                    wanted.into_iter().for_each(|token| self.want(token));
                }
                Ok(Message::Ended(token, result)) => self.finish_attempt(token, result),
                Ok(Message::GroupEnded) => self.groups -= 1,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.start_due();
        }
    }

    /// Schedules the datasets that may grow, and the datasets whose store did not answer.
    fn schedule_checks(&mut self) {
        self.opened.retain(|_, at| at.elapsed() < SHORTEST_INTERVAL);
        let catalog = self.opener.live.get();
        for dataset in catalog.datasets().filter(|dataset| dataset.growing) {
            self.schedule(&dataset.token, LIVE_PAUSE);
        }
        for (token, closed) in catalog.closed() {
            if matches!(closed, Closed::Unreachable(_)) {
                self.schedule(token, UNREACHABLE_PAUSE);
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

    /// Schedules an attempt for a request, no sooner than [`SHORTEST_INTERVAL`] after the last one.
    fn request(&mut self, token: &Name) {
        let pause = match self.opened.get(token) {
            Some(last) => SHORTEST_INTERVAL.saturating_sub(last.elapsed()),
            None => Duration::ZERO,
        };
        self.schedule(token, pause);
        if let Some(attempt) = self.due.get_mut(token) {
            attempt.is_of_reload = false;
        }
    }

    /// Schedules an attempt for a reload: now, or anew after the one that runs.
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

    /// Starts the attempts that are due, in groups; requests go before reloads.
    fn start_due(&mut self) {
        loop {
            let now = Instant::now();
            let mut group = Vec::new();
            for (token, attempt) in &self.due {
                if attempt.at <= now && self.may_start(attempt) {
                    group.push((token.clone(), attempt.clone()));
                }
            }
            if group.is_empty() {
                return;
            }
            group.sort_by_key(|(_, attempt)| (attempt.is_of_reload, attempt.at));
            // A dataset that has failed, perhaps by a panic, is opened alone: the group ends before
            // it.
            let mut attempts = group.iter().map(|(_, attempt)| attempt);
            let first_failed = attempts.position(|attempt| !attempt.pause.is_zero());
            group.truncate(first_failed.unwrap_or(MAX_TOGETHER).clamp(1, MAX_TOGETHER));
            let tokens: Vec<Name> = group.iter().map(|(token, _)| token.clone()).collect();
            self.due.retain(|token, _| !tokens.contains(token));
            self.running.extend(group);
            self.start(tokens);
        }
    }

    /// Starts a thread that opens a group of datasets.
    fn start(&mut self, tokens: Vec<Name>) {
        let opener = Arc::clone(&self.opener);
        let sender = self.sender.clone();
        let mut unreported = BTreeSet::from_iter(tokens.iter().cloned());
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
                    unreported.remove(&token);
                    report(Message::Ended(token, result));
                });
            };
            if catch_unwind(AssertUnwindSafe(opening)).is_err() {
                for token in unreported {
                    report(Message::Ended(token, Err("opening it panicked".to_owned())));
                }
            }
            report(Message::GroupEnded);
        });
        match started {
            Ok(_) => self.groups += 1,
            Err(error) => {
                for token in tokens {
                    self.finish_attempt(token, Err(format!("no thread could be started: {error}")));
                }
            }
        }
    }

    /// Concludes an attempt. Schedules the next one if it has failed or the dataset may grow.
    fn finish_attempt(&mut self, token: Name, result: Result<(), String>) {
        let Some(attempt) = self.running.remove(&token) else {
            return;
        };
        if self.outdated.remove(&token) {
            return self.want(token);
        }
        let catalog = self.opener.live.get();
        let known = catalog.dataset(&token);
        let growing = known.filter(|dataset| dataset.growing);
        let check_pause = growing.map(|dataset| {
            if dataset.live {
                LIVE_PAUSE.max(2 * attempt.at.elapsed())
            } else {
                QUIET_PAUSE
            }
        });
        self.opener
            .health
            .set_dataset(&token, result.as_ref().err().cloned());
        self.opener.report.lock().pending.remove(&token);
        self.opener.settled.notify_all();
        match (result, check_pause) {
            (Ok(()), Some(pause)) => _ = self.due.insert(token, Attempt::after(pause)),
            (Ok(()), None) => _ = self.opened.insert(token, Instant::now()),
            (Err(problem), _) => {
                // The first failure of a growing dataset is not logged: a writer may have been in
                // the middle of a change.
                let is_excused = check_pause.is_some() && attempt.pause.is_zero();
                if !is_excused && attempt.problem.as_ref() != Some(&problem) {
                    let verb = if known.is_some() {
                        "reopened"
                    } else {
                        "opened"
                    };
                    tracing::warn!("the dataset {token} cannot be {verb} yet: {problem}");
                }
                let problem = (!is_excused).then_some(problem);
                let retry_pause = (2 * attempt.pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                let pause = check_pause.unwrap_or(retry_pause);
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
    /// An attempt after a pause, as if no attempt had failed before.
    fn after(pause: Duration) -> Self {
        Self {
            at: Instant::now() + pause,
            pause: Duration::ZERO,
            problem: None,
            is_of_reload: false,
        }
    }
}
