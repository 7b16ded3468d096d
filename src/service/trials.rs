//! Trials of files while the server runs: a file is opened when it has passed its trial, and a long
//! trial of one file does not delay other files.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use voltile_base::name::Name;
use voltile_hdf5::store::{Location, Store};
use voltile_hdf5::volume::hdf5::FileIdentity;

use crate::config::{DatasetSettings, Settings};

/// Opens the files of some settings in child processes. Calls the function with each file, as soon
/// as its result is known: with the reason if the file must not be opened in this process. Files
/// without a call may be opened.
pub type RunTrials =
    Box<dyn Fn(&Settings, &(dyn Fn(Location, Option<String>) + Sync)) + Send + Sync>;

/// How long a trial is waited for. Most take milliseconds, and files that arrive together are taken
/// together.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most groups of files on trial at once, each with child processes of its own.
const MAX_GROUPS: usize = 4;

/// Runs trials, and remembers the trials whose results nobody has requested since they ended.
pub(super) struct Trials {
    trial: Arc<RunTrials>,
    store: Store,
    shared: Arc<SharedTrials>,
}

#[derive(Default)]
struct SharedTrials {
    state: Mutex<TrialState>,
    /// A group of trials has ended.
    ended: Condvar,
}

#[derive(Default)]
struct TrialState {
    files: BTreeMap<Location, FileTrial>,
    groups: usize,
}

/// A file that is, or was, on trial.
struct FileTrial {
    began: Instant,
    /// The file at that time.
    file: Option<FileIdentity>,
    /// `None` during the trial; then the reason if the file must not be opened.
    verdict: Option<Result<(), String>>,
}

impl FileTrial {
    /// Whether the file has not changed since its trial began.
    fn is_unchanged(&self, file: &Location, store: &Store) -> bool {
        self.file == FileIdentity::from_location(file, store).ok()
    }
}

/// The results of trials so far.
#[derive(Debug, Default)]
pub(super) struct TrialResults {
    /// Files that must not be opened, with the reason.
    pub refused: Vec<(Location, String)>,
    /// Datasets with files whose trials go on.
    pub pending: BTreeSet<Name>,
}

impl Trials {
    pub fn new(trial: Arc<RunTrials>, store: Store) -> Self {
        Self {
            trial,
            store,
            shared: Arc::default(),
        }
    }

    /// Tries the files of these datasets, unless their trials have ended before or go on, and waits
    /// a little.
    pub fn show(&self, settings: &Settings) -> TrialResults {
        let called = Instant::now();
        let files = settings.datasets.values().flat_map(DatasetSettings::files);
        let wanted: BTreeSet<&Location> = files.collect();
        let mut state = self.shared.state.lock();
        state.files.retain(|file, tried| {
            tried.verdict.is_none()
                || (wanted.contains(file) && tried.is_unchanged(file, &self.store))
        });
        self.start(&mut state, settings);
        while let Some(until) = state.waits_until(&wanted)
            && until > Instant::now()
        {
            self.shared.ended.wait_until(&mut state, until);
        }
        let mut shown = TrialResults::default();
        for (token, dataset) in &settings.datasets {
            let have_ended = dataset.files().all(|file| {
                state.files.get(file).is_some_and(|tried| {
                    tried.verdict.is_some()
                        && (tried.began >= called || tried.is_unchanged(file, &self.store))
                })
            });
            if !have_ended {
                shown.pending.insert(token.clone());
            }
        }
        // In a second pass: datasets may share files.
        for (token, dataset) in &settings.datasets {
            if shown.pending.contains(token) {
                continue;
            }
            for file in dataset.files() {
                if let Some(Err(why)) = state.files.remove(file).and_then(|tried| tried.verdict) {
                    shown.refused.push((file.clone(), why));
                }
            }
        }
        shown
    }

    /// Starts the trials of files that are not known, if there may be another group.
    fn start(&self, state: &mut TrialState, settings: &Settings) {
        let mut new = settings.clone();
        new.datasets
            .retain(|_, dataset| dataset.files().any(|file| !state.files.contains_key(file)));
        if new.datasets.is_empty() || state.groups >= MAX_GROUPS {
            return;
        }
        let files: Vec<Location> = new
            .datasets
            .values()
            .flat_map(DatasetSettings::files)
            .cloned()
            .collect();
        let began = Instant::now();
        let mut entries = Vec::new();
        for file in &files {
            let tried = FileTrial {
                began,
                file: FileIdentity::from_location(file, &self.store).ok(),
                verdict: None,
            };
            entries.push((file.clone(), tried));
        }
        let trial = Arc::clone(&self.trial);
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("trials".to_owned());
        match thread.spawn(move || shared.run(&trial, &new, &files)) {
            Ok(_) => {
                state.groups += 1;
                state.files.extend(entries);
            }
            // These trials are requested again soon.
            Err(error) => tracing::warn!("no thread could be started for trials: {error}"),
        }
    }
}

impl TrialState {
    /// Until when the trials of these files are waited for; `None` if none of them goes on.
    fn waits_until(&self, wanted: &BTreeSet<&Location>) -> Option<Instant> {
        let tried = wanted.iter().filter_map(|file| self.files.get(*file));
        tried
            .filter(|tried| tried.verdict.is_none())
            .map(|tried| tried.began + PATIENCE)
            .max()
    }
}

impl SharedTrials {
    /// Tries the files of a group.
    fn run(&self, trial: &RunTrials, settings: &Settings, files: &[Location]) {
        let result = catch_unwind(AssertUnwindSafe(|| {
            trial(settings, &|file, why| {
                self.note(&file, why.map_or(Ok(()), Err));
            });
        }));
        let rest = result.map_err(|_| "its trial panicked".to_owned());
        for file in files {
            self.note(file, rest.clone());
        }
        self.state.lock().groups -= 1;
        self.ended.notify_all();
    }

    /// Notes how a trial ended; a refusal is final.
    fn note(&self, file: &Location, verdict: Result<(), String>) {
        if let Some(tried) = self.state.lock().files.get_mut(file)
            && tried.verdict.is_none()
        {
            tried.verdict = Some(verdict);
        }
    }
}
