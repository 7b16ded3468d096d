//! The reconciler: opens, reopens and closes datasets until exactly the datasets that the settings
//! ask for are open.
//!
//! A reload opens all datasets that the settings themselves require before it replaces the
//! catalogue; if one of them fails, nothing changes. Other datasets are opened in the background
//! ([`schedule`]), whatever the reason: a file has changed, a file was found in a folder, a file is
//! being written, a store answers again, a request waits, or an attempt has failed. Files are tried
//! in a child process before each opening.

mod schedule;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use voltile_base::flow::stalls::Stalls;
use voltile_base::flow::start_thread;
use voltile_base::name::Name;

use self::schedule::{Message, OpeningSchedule};
use super::health::Health;
use super::live::LiveCatalog;
use crate::catalog::access::{AccessRules, Grants};
use crate::catalog::{Catalog, OpenedDataset, OpeningOutcome, RunTrials, tell};
use crate::config::{DatasetSettings, Fault, Settings};

/// How long a reload waits for the datasets that are opened in the background. Most take
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// A dataset whose trials have ended is opened together with other datasets, once no trial has
/// ended for this long.
const GATHERING: Duration = Duration::from_millis(50);
/// The capacity of the channel to the thread that schedules attempts.
const MAX_ANNOUNCED: usize = 64;

/// The changes of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Datasets that were opened: they are new, or their settings or files have changed.
    pub opened: Vec<Name>,
    /// Datasets that are not served any more.
    pub removed: Vec<Name>,
    /// Whether the rules of access have changed: which datasets are protected, and by which
    /// secrets.
    pub access: bool,
    /// Whether any other setting differs.
    pub settings: bool,
    /// Datasets found in a folder that could not be opened and are left out, with the reason.
    pub unopened: Vec<(Name, Fault)>,
    /// Whether some datasets are still being opened: the next reload reports them. Until they are
    /// open, their previous state is served.
    pub is_pending: bool,
}

impl Reloaded {
    /// Whether nothing has changed.
    pub fn is_nothing(&self) -> bool {
        self.opened.is_empty() && self.removed.is_empty() && !self.access && !self.settings
    }
}

/// A handle to the thread that schedules attempts to open datasets. The thread ends when this is
/// dropped.
pub(super) struct Reconciler {
    sender: Arc<SyncSender<Message>>,
    opener: Arc<DatasetOpener>,
}

/// Opens datasets, and puts them into the catalogue.
struct DatasetOpener {
    live: Arc<LiveCatalog>,
    health: Arc<Health>,
    run_trials: Box<RunTrials>,
    /// Watches the threads that open files, which may have libhdf5's lock.
    stalls: Stalls,
    report: Mutex<ReloadReport>,
    /// Notified when a dataset is not pending any more.
    settled: Condvar,
}

/// The datasets that reloads want to be opened in the background, and the datasets that were opened
/// or left out since the last reload.
#[derive(Default)]
struct ReloadReport {
    pending: BTreeSet<Name>,
    opened: BTreeSet<Name>,
    /// The datasets left out, with the reason; reloads or requests wanted them.
    unopened: Vec<(Name, Fault)>,
}

impl Reconciler {
    pub fn start(
        live: Arc<LiveCatalog>,
        health: Arc<Health>,
        run_trials: Box<RunTrials>,
        stalls: Stalls,
    ) -> std::io::Result<Self> {
        let (sender, messages) = sync_channel(MAX_ANNOUNCED);
        let sender = Arc::new(sender);
        let opener = Arc::new(DatasetOpener {
            live,
            health,
            run_trials,
            stalls,
            report: Mutex::default(),
            settled: Condvar::new(),
        });
        let mut schedule = OpeningSchedule::new(Arc::clone(&opener), Arc::downgrade(&sender));
        start_thread("reopen", move || schedule.run(&messages))?;
        Ok(Self { sender, opener })
    }

    /// Requests that a dataset be opened or reopened.
    pub fn request(&self, token: &Name) {
        match self.sender.try_send(Message::Requested(token.clone())) {
            // If the channel is full, the next request for the dataset tries again.
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => {
                tracing::error!("the thread that reopens datasets has ended");
            }
        }
    }

    /// See [`super::TileService::reload`].
    pub fn reload(&self, mut settings: Settings, may_expose: bool) -> Result<Reloaded, Vec<Fault>> {
        let live = &self.opener.live;
        self.opener.stalls.watch_thread(false);
        // Datasets that were left out since the last reload; they are reported below.
        for (token, _) in &self.opener.report.lock().unopened {
            settings.datasets.remove(token);
        }
        let (catalog, before) = live.with_settings();
        let (required, later) = to_open(&catalog, &before, &settings);
        let attempts = catalog.open_all(&settings, required, &*self.opener.run_trials);
        let mut rules = AccessRules::open(&settings.access);
        let mut faults = Vec::new();
        for attempt in &attempts {
            if attempt.outcome == OpeningOutcome::Faulty {
                faults.extend(attempt.faults.iter().cloned());
            }
        }
        faults.append(&mut rules.faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        let exposed = would_be_public(&catalog, &settings, &rules.access).join(", ");
        if !exposed.is_empty() && !may_expose {
            return Err(vec![exposure_fault(&exposed)]);
        }
        let access = *catalog.access() != rules.access;
        if access || settings != *before || !attempts.is_empty() {
            live.replace(settings, rules.access, &attempts);
        }
        let mut report = self.wait_for(later);
        for attempt in &attempts {
            if attempt.outcome == OpeningOutcome::Open {
                report.opened.insert(attempt.dataset.token.clone());
            }
        }
        let (now, in_force) = live.with_settings();
        let reloaded = Reloaded {
            opened: report.opened.into_iter().collect(),
            removed: removed_tokens(&catalog, &now),
            access,
            settings: served_settings(&catalog, &before) != served_settings(&now, &in_force),
            unopened: report.unopened,
            is_pending: !report.pending.is_empty(),
        };
        self.opener.health.forget_outdated(&now, &reloaded.opened);
        if !reloaded.is_nothing() {
            for warning in rules.warnings.iter().chain(&now.access_warnings()) {
                tracing::warn!("{warning}");
            }
            for attempt in &attempts {
                tell(&attempt.dataset.logged_notices());
            }
            if !exposed.is_empty() {
                tracing::warn!("protected until now, and public from now on: {exposed}");
            }
        }
        Ok(reloaded)
    }

    /// Has datasets opened in the background, and waits for them, at most for [`PATIENCE`]. Returns
    /// the report, and begins a new one.
    fn wait_for(&self, mut wanted: Vec<Name>) -> ReloadReport {
        let (_, settings) = self.opener.live.with_settings();
        let mut report = self.opener.report.lock();
        report
            .pending
            .retain(|token| settings.datasets.contains_key(token));
        // Another reload may already wait for some of them.
        wanted.retain(|token| report.pending.insert(token.clone()));
        drop(report);
        // Fails only if the thread has ended, which the next request for a dataset reports.
        let _ = self.sender.send(Message::Reloaded(wanted.clone()));
        let mut report = self.opener.report.lock();
        let are_pending =
            |report: &mut ReloadReport| wanted.iter().any(|token| report.pending.contains(token));
        let settled = &self.opener.settled;
        settled.wait_while_for(&mut report, are_pending, PATIENCE);
        let reported = std::mem::take(&mut *report);
        report.pending.clone_from(&reported.pending);
        reported
    }
}

/// The datasets that must be opened before these settings can be served, and the datasets that may
/// be opened later: optional datasets, and datasets whose settings are unchanged although their
/// files have changed. Accesses the file system for every file.
fn to_open(catalog: &Catalog, before: &Settings, settings: &Settings) -> (Vec<Name>, Vec<Name>) {
    let mut required = Vec::new();
    let mut later = Vec::new();
    for (token, wanted) in &settings.datasets {
        let has_same_settings = before.datasets.get(token) == Some(wanted);
        let known = catalog.dataset(token);
        // The schedule checks growing datasets anyway.
        let is_checked = known.is_some_and(|known| known.growing && has_same_settings);
        if is_checked || !differs(catalog, token, wanted) {
            continue;
        }
        if has_same_settings || wanted.found_in.is_some() {
            later.push(token.clone());
        } else {
            required.push(token.clone());
        }
    }
    (required, later)
}

/// Whether a dataset is not open as the settings want it, or its files have changed. Accesses the
/// file system for every file.
fn differs(catalog: &Catalog, token: &Name, wanted: &DatasetSettings) -> bool {
    match catalog.dataset(token) {
        Some(known) if *known.settings == *wanted => {
            // The file of a live dataset may be closed by now.
            let was_closed = known.live && wanted.growing.is_none() && !known.is_being_written();
            known.find_change() || was_closed
        }
        _ => true,
    }
}

impl DatasetOpener {
    /// Opens each of these datasets that is not open as the settings want it, or whose files have
    /// changed. Calls `ended` for each dataset, with the reason if it must be tried again.
    fn open(&self, tokens: Vec<Name>, mut ended: impl FnMut(Name, Result<(), String>)) {
        self.stalls.watch_thread(false);
        let (catalog, settings) = self.live.with_settings();
        let mut to_open = Vec::new();
        for token in tokens {
            let wanted = match settings.datasets.get(&token) {
                Some(wanted) if differs(&catalog, &token, wanted) => wanted,
                _ => {
                    ended(token, Ok(()));
                    continue;
                }
            };
            // Asked here and not after a trial, which starts a process.
            if catalog.dataset(&token).is_none() && wanted.is_unreachable(catalog.store()) {
                ended(token, Err("its store does not answer".to_owned()));
            } else {
                to_open.push(token);
            }
        }
        // The usual case, because live datasets are checked several times a second.
        if to_open.is_empty() {
            return;
        }
        catalog.open_each(
            &settings,
            to_open,
            &*self.run_trials,
            GATHERING,
            |together| {
                self.live.put(&together);
                for opened in together {
                    ended(opened.dataset.token.clone(), self.conclude(opened));
                }
            },
        );
    }

    /// Logs how the opening of a dataset ended, or leaves that to the next reload. The error says
    /// why opening must be tried again.
    fn conclude(&self, opened: OpenedDataset) -> Result<(), String> {
        let dataset = opened.dataset;
        let token = &dataset.token;
        if opened.outcome == OpeningOutcome::LeftOut {
            let unopened = opened
                .faults
                .into_iter()
                .map(|fault| (token.clone(), fault));
            self.report.lock().unopened.extend(unopened);
            return Ok(());
        }
        if opened.outcome != OpeningOutcome::Open {
            let faults: Vec<String> = opened.faults.iter().map(ToString::to_string).collect();
            return Err(faults.join("; "));
        }
        // `None` if the dataset was not open before.
        let was_live = opened.before.as_ref().map(|before| before.live);
        // A live dataset is reopened each time that its files have changed.
        if was_live != Some(true) {
            tell(&dataset.logged_notices());
        }
        let mut report = self.report.lock();
        if report.pending.contains(token) {
            report.opened.insert(token.clone());
            return Ok(());
        }
        match (was_live, dataset.live) {
            (None, _) if dataset.is_remote() => {
                tracing::info!("the dataset {token} was opened: its store answers");
            }
            (None, _) | (Some(true), true) => {}
            (Some(false), true) => {
                tracing::info!("the dataset {token} is live: its file is being written");
            }
            (Some(true), false) => {
                tracing::info!(
                    "the dataset {token} is not live any more: its file is closed, or does not change"
                );
            }
            (Some(false), false) => {
                tracing::info!("the dataset {token} was reopened because its files have changed");
            }
        }
        Ok(())
    }
}

/// The settings with only the datasets that the catalogue serves.
fn served_settings(catalog: &Catalog, settings: &Settings) -> Settings {
    let mut served = settings.clone();
    served.datasets.retain(|token, _| {
        catalog.dataset(token).is_some() || catalog.closed().contains_key(token)
    });
    served
}

fn removed_tokens(before: &Catalog, after: &Catalog) -> Vec<Name> {
    let tokens = before.datasets().map(|dataset| &dataset.token);
    tokens
        .filter(|token| after.dataset(token).is_none())
        .cloned()
        .collect()
}

/// The datasets that were protected, and would be public with these settings and rules.
fn would_be_public(before: &Catalog, settings: &Settings, access: &AccessRules) -> Vec<String> {
    let nobody = Grants::default();
    let mut tokens = Vec::new();
    for dataset in before.datasets() {
        let token = &dataset.token;
        let was_protected = !before.access().shows(token, &nobody);
        if was_protected && settings.datasets.contains_key(token) && access.shows(token, &nobody) {
            tokens.push(token.to_string());
        }
    }
    tokens
}

fn exposure_fault(datasets: &str) -> Fault {
    let problem = format!(
        "these protected datasets would become public: {datasets}; if that is meant, reload with SIGHUP"
    );
    Fault::new("access", problem)
}
