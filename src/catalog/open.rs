//! Opens a catalogue: builds datasets and channels from settings and files, and collects all
//! faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use parking_lot::Mutex;
use voltile_base::description::Recognised;
use voltile_base::flow::activity::Activity;
use voltile_base::geometry::Transforms;
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_base::notice::{Notice, Severity};
use voltile_base::paint::Kind;
use voltile_hdf5::store::{Location, Store};
use voltile_hdf5::volume::Missing;
use voltile_hdf5::volume::hdf5::{ChunkStore, Digests, FileIdentity, Files, OpenFile, Opener};

use super::channel::Channel;
use super::levels::ChannelLevels;
use super::names::{Names, Tables};
use super::sidecar::{LevelSearch, Sidecars};
use super::{Catalog, CatalogLimits, Closed, Dataset, DerivedFacts, LIVE, SharedResources, Trial};
use crate::catalog::access::{AccessRules, Grants};
use crate::config::{self, ChannelSettings, DatasetSettings, Fault, IdentityRule, Settings};
use crate::layout::{self, FoundChannel, Rank};

/// A catalogue, and the problems found while opening it.
#[derive(Debug)]
pub struct OpenedCatalog {
    /// Everything that could be opened.
    pub catalog: Catalog,
    /// Why other datasets, channels or files of secrets could not be opened, by the key of the
    /// setting.
    pub faults: Vec<Fault>,
    /// The notices about the datasets that were opened, by the key of the dataset or the channel.
    pub notices: Vec<(Severity, Fault)>,
    /// Why datasets that were found in a folder are left out.
    pub unopened: Vec<(Name, Fault)>,
    /// Why datasets cannot be opened until their store answers; the catalogue knows their names.
    pub unreachable: Vec<Fault>,
    /// Problems that are not faults, such as misspelt names in access rules.
    pub warnings: Vec<String>,
}

/// A dataset, and the problems found while opening it.
#[derive(Debug)]
pub struct OpenedDataset {
    /// The dataset, with all channels that could be opened.
    pub dataset: Arc<Dataset>,
    /// The dataset that was open under its token before.
    pub before: Option<Arc<Dataset>>,
    /// The consequence for the catalogue.
    pub outcome: OpeningOutcome,
    /// Why the dataset or some of its channels could not be opened.
    pub faults: Vec<Fault>,
}

/// The consequence of opening a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpeningOutcome {
    /// It has no faults, and is served.
    Open,
    /// It has faults; its previous generation, which has the same settings, is kept.
    Kept,
    /// It is closed until its store answers.
    Unreachable,
    /// It was found in a folder, and is left out.
    LeftOut,
    /// The settings cannot be served.
    Faulty,
}

/// The end of a trial: the file, and the reason if it must not be opened in this process.
pub type Verdict = (Location, Option<String>);

/// Starts to try files in child processes; the receiver gets a verdict for each trial.
pub type RunTrials = dyn Fn(config::Files, Vec<Trial>) -> Receiver<Verdict> + Send + Sync;

/// Accepts all files without trying them.
pub(crate) fn accept_all(_: config::Files, trials: Vec<Trial>) -> Receiver<Verdict> {
    let (sender, verdicts) = channel();
    for trial in trials {
        // This cannot fail: the receiver is returned below.
        let _ = sender.send((trial.file, None));
    }
    verdicts
}

/// The trials that have been started.
struct RunningTrials {
    verdicts: Receiver<Verdict>,
    /// The number of unfinished trials of each file; a file without any has no entry.
    running: BTreeMap<Location, usize>,
    /// The files that must not be opened, with the reason.
    refused: Vec<(Location, String)>,
}

impl RunningTrials {
    fn start(run_trials: &RunTrials, files: config::Files, trials: Vec<Trial>) -> Self {
        let mut running = BTreeMap::new();
        for trial in &trials {
            *running.entry(trial.file.clone()).or_default() += 1;
        }
        Self {
            verdicts: run_trials(files, trials),
            running,
            refused: Vec::new(),
        }
    }

    /// Whether all trials of a dataset's files have ended.
    fn have_ended(&self, wanted: &DatasetSettings) -> bool {
        wanted.files().all(|file| !self.running.contains_key(file))
    }

    /// Waits until a trial ends, at most for `patience` if that is given. Returns whether one has
    /// ended.
    fn wait(&mut self, patience: Option<Duration>) -> bool {
        if self.running.is_empty() {
            return false;
        }
        let verdict = match patience {
            Some(patience) => self.verdicts.recv_timeout(patience),
            None => self.verdicts.recv().map_err(RecvTimeoutError::from),
        };
        match verdict {
            Ok((file, reason)) => {
                if let Some(count) = self.running.remove(&file)
                    && count > 1
                {
                    self.running.insert(file.clone(), count - 1);
                }
                self.refused.extend(reason.map(|reason| (file, reason)));
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                for file in std::mem::take(&mut self.running).into_keys() {
                    let reason = "its trial ended without a result".to_owned();
                    self.refused.push((file, reason));
                }
                true
            }
        }
    }
}

impl Catalog {
    /// Opens everything that the settings name, without trials. `activity` lets the volumes yield
    /// to busy render threads.
    pub fn open(settings: &Settings, metrics: &Metrics, activity: &Activity) -> OpenedCatalog {
        let files = Files::new(Store::new(None, metrics.stores.clone(), None));
        let waiting = BTreeSet::new();
        Self::open_tried(files, settings, waiting, &accept_all, metrics, activity)
    }

    /// Opens everything that the settings name, after its trials, except for the datasets
    /// `waiting`, which are to be opened later.
    pub fn open_tried(
        files: Files,
        settings: &Settings,
        waiting: BTreeSet<Name>,
        run_trials: &RunTrials,
        metrics: &Metrics,
        activity: &Activity,
    ) -> OpenedCatalog {
        let mut empty = Self::empty(files, settings, metrics, activity);
        let mut tokens: Vec<Name> = settings.datasets.keys().cloned().collect();
        tokens.retain(|token| !waiting.contains(token));
        let all_opened = empty.open_all(settings, tokens, run_trials);
        let rules = AccessRules::open(&settings.access);
        empty.access = rules.access;
        let mut catalog = empty.with(&all_opened);
        let waiting = waiting.into_iter().map(|token| (token, Closed::Waiting));
        catalog.closed.extend(waiting);
        let mut faults = Vec::new();
        let mut notices = Vec::new();
        let mut unopened = Vec::new();
        let mut unreachable = Vec::new();
        for opened in all_opened {
            let token = &opened.dataset.token;
            notices.extend(opened.dataset.logged_notices());
            match opened.outcome {
                OpeningOutcome::Unreachable => unreachable.extend(opened.faults),
                OpeningOutcome::LeftOut => {
                    for fault in opened.faults {
                        unopened.push((token.clone(), fault));
                    }
                }
                OpeningOutcome::Open | OpeningOutcome::Kept | OpeningOutcome::Faulty => {
                    // Channels that could be opened are in the catalogue even if others have
                    // faults.
                    faults.extend(opened.faults);
                    catalog.datasets.insert(token.clone(), opened.dataset);
                }
            }
        }
        faults.extend(rules.faults);
        let mut warnings = rules.warnings;
        warnings.extend(catalog.access_warnings());
        OpenedCatalog {
            catalog,
            faults,
            notices,
            unopened,
            unreachable,
            warnings,
        }
    }

    /// A catalogue without datasets.
    fn empty(files: Files, settings: &Settings, metrics: &Metrics, activity: &Activity) -> Self {
        let chunks = ChunkStore::new(settings.cache.chunks, metrics.clone(), activity.clone());
        let files = match settings.files.identity {
            IdentityRule::File => files,
            IdentityRule::Content => {
                files.identified_by(Digests::new(settings.cache.directory.clone()))
            }
        };
        Self {
            datasets: BTreeMap::new(),
            closed: BTreeMap::new(),
            limits: CatalogLimits::from(&settings.render),
            style: settings.render.style,
            shared: SharedResources {
                files: Arc::new(files),
                chunks: chunks.verifying(settings.render.verify),
                tables: Tables::new(settings.render.boxes, metrics.names_bytes.clone()),
            },
            access: AccessRules::default(),
            documents_name_versions: settings.server.immutable,
            generation: 0,
            visible_parts: Mutex::default(),
        }
    }

    /// This catalogue with other settings, without the datasets that the settings do not name.
    pub fn following(&self, settings: &Settings, access: AccessRules) -> Self {
        let mut next = Self {
            limits: CatalogLimits::from(&settings.render),
            style: settings.render.style,
            access,
            documents_name_versions: settings.server.immutable,
            ..self.with(&[])
        };
        next.retain(|token| settings.datasets.contains_key(token));
        // The facts derived from a dataset, such as its version, depend on style and limits.
        if self.style != next.style || self.limits != next.limits {
            for dataset in next.datasets.values_mut() {
                *dataset = Arc::new(dataset.with_limits(next.limits));
            }
        }
        next
    }

    /// Opens these datasets of the settings once all their trials have ended.
    pub fn open_all(
        &self,
        settings: &Settings,
        tokens: Vec<Name>,
        run_trials: &RunTrials,
    ) -> Vec<OpenedDataset> {
        let mut all = Vec::new();
        self.open_each(settings, tokens, run_trials, Duration::MAX, |opened| {
            all.extend(opened);
        });
        all
    }

    /// Opens these datasets of the settings, each when the trials of its files have ended, and
    /// calls `note` with the datasets that were opened together. To be opened with others, a
    /// dataset whose trials have ended waits until no other trial has ended for `patience`.
    ///
    /// A dataset that is open with the same settings becomes its next generation: channels whose
    /// files have not changed are kept with their samples, and it is a fault if a channel that was
    /// served cannot be.
    pub fn open_each(
        &self,
        settings: &Settings,
        tokens: Vec<Name>,
        run_trials: &RunTrials,
        patience: Duration,
        mut note: impl FnMut(Vec<OpenedDataset>),
    ) {
        let mut wanted: Vec<(Name, &DatasetSettings)> = Vec::new();
        for token in tokens {
            wanted.extend(settings.datasets.get(&token).map(|given| (token, given)));
        }
        let needed_trials = Trial::all(wanted.iter().map(|(_, given)| *given));
        let mut trials = RunningTrials::start(run_trials, settings.files, needed_trials);
        let mut is_one_ready = false;
        while !wanted.is_empty() {
            is_one_ready = is_one_ready || wanted.iter().any(|(_, given)| trials.have_ended(given));
            if trials.wait(is_one_ready.then_some(patience)) {
                // A trial has ended: more datasets may be ready.
                continue;
            }
            is_one_ready = false;
            let ready = wanted.extract_if(.., |(_, given)| trials.have_ended(given));
            let ready: Vec<_> = ready.collect();
            let _open_files = self.shared.files.keep_open();
            self.forget_files(&ready);
            self.shared.files.refuse(trials.refused.iter().cloned());
            let mut sidecars = Sidecars::default();
            let mut opened = Vec::new();
            for (token, given) in &ready {
                opened.push(self.open_dataset(token, given, &mut sidecars));
            }
            note(opened);
        }
        self.shared.files.save_metadata();
    }

    /// Forgets the files of these datasets, so that they are opened anew, changed or not.
    fn forget_files(&self, wanted: &[(Name, &DatasetSettings)]) {
        let mut files: Vec<Location> = Vec::new();
        for (token, given) in wanted {
            files.extend(given.files().filter_map(|file| file.resolved().ok()));
            if let Some(open) = self.dataset(token) {
                files.extend(open.identities().map(|file| file.location().clone()));
            }
        }
        self.shared.files.forget(&files);
    }

    /// Opens a dataset whose files have been tried: as the next generation, if it is already open
    /// with the same settings.
    fn open_dataset(
        &self,
        token: &Name,
        wanted: &DatasetSettings,
        sidecars: &mut Sidecars,
    ) -> OpenedDataset {
        let mut opening = DatasetOpening {
            token,
            settings: wanted,
            catalog: self,
            sidecars,
            faults: Vec::new(),
            notices: Vec::new(),
            left_out: Vec::new(),
        };
        let before = self.dataset(token);
        let known = before.filter(|known| *known.settings == *wanted);
        let dataset = opening.open(known);
        let faults = opening.faults;
        // The store is not asked about a file that a trial has refused.
        let files = &self.shared.files;
        let is_refused = wanted.files().any(|file| files.is_refused(file));
        let outcome = if faults.is_empty() {
            OpeningOutcome::Open
        } else if known.is_some() {
            OpeningOutcome::Kept
        } else if !is_refused && wanted.is_unreachable(self.store()) {
            OpeningOutcome::Unreachable
        } else if wanted.found_in.is_some() {
            OpeningOutcome::LeftOut
        } else {
            OpeningOutcome::Faulty
        };
        OpenedDataset {
            dataset: Arc::new(dataset),
            before: before.cloned(),
            outcome,
            faults,
        }
    }

    /// A warning for each name in the access rules that no dataset has, and for each public dataset
    /// whose token is a protected one with a number appended or a folder before it, such as
    /// `brain_2` and `run1.brain`.
    pub fn access_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let unknown = self.access.unknown_names(|name| {
            let mut tokens = self.datasets.keys().chain(self.closed.keys());
            tokens.any(|token| token.as_str() == name)
        });
        for name in unknown {
            warnings.push(format!(
                "access: there is no dataset {name:?} to protect; is it misspelt?"
            ));
        }
        let nobody = Grants::default();
        for token in self.datasets.keys().chain(self.closed.keys()) {
            if self.access.shows(token, &nobody)
                && let Some(base) =
                    base_names(token.as_str()).find(|base| !self.access.shows(base, &nobody))
            {
                warnings.push(format!(
                    "access: the dataset {token} is public although {base} is protected"
                ));
            }
        }
        warnings
    }
}

impl Dataset {
    /// The notices about it for the log, by the key of the dataset or the channel.
    pub fn logged_notices(&self) -> Vec<(Severity, Fault)> {
        let dataset_key = format!("datasets.{}", self.token);
        let mut logged = Vec::new();
        for notice in &self.notices {
            let about = &notice.about;
            let mut key = dataset_key.clone();
            let mut problem = notice.text.clone();
            if self.channels.keys().any(|name| name.as_str() == about) {
                key = format!("{dataset_key}.channels.{about}");
            } else if about != self.token.as_str() {
                problem = format!("{about}: {problem}");
            }
            logged.push((notice.severity, Fault::new(key, problem)));
        }
        if self.growing && !self.live {
            logged.push((Severity::Warning, Fault::new(dataset_key, LEFT_OPEN)));
        }
        logged
    }
}

impl DatasetSettings {
    /// The files that are named, without the files that they refer to.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Location> {
        let of_channels = self.channels.values();
        self.file
            .iter()
            .chain(of_channels.filter_map(|channel| channel.file.as_ref()))
    }

    /// Whether one of the files is an object in a store that does not answer. Asks the store;
    /// blocks.
    pub(crate) fn is_unreachable(&self, store: &Store) -> bool {
        self.files()
            .any(|file| matches!(file, Location::Object(address) if store.is_unreachable(address)))
    }
}

/// A token, and the names that it may have been made from by appending a number or putting folders
/// before the name: `run1.brain_2`, `run1.brain`, `brain_2` and `brain` for `run1.brain_2`.
fn base_names(token: &str) -> impl Iterator<Item = Name> {
    let after_dots = token
        .match_indices('.')
        .filter_map(|(at, dot)| token.get(at + dot.len()..));
    let names = std::iter::once(token).chain(after_dots);
    names
        .flat_map(|name| [Name::new(name).ok(), without_number(name)])
        .flatten()
}

/// `brain` for `brain_2`; `None` if there is no number at the end.
fn without_number(name: &str) -> Option<Name> {
    let (base, number) = name.rsplit_once('_')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Name::new(base).ok().filter(|_| is_number)
}

/// State while a dataset is being opened.
struct DatasetOpening<'a> {
    token: &'a Name,
    settings: &'a DatasetSettings,
    catalog: &'a Catalog,
    sidecars: &'a mut Sidecars,
    faults: Vec<Fault>,
    notices: Vec<Notice>,
    /// The discovered channels that are left out because they cannot be served.
    left_out: Vec<(Name, Fault)>,
}

impl DatasetOpening<'_> {
    /// The dataset, with all channels that can be opened, as the next generation of `known`.
    fn open(&mut self, known: Option<&Arc<Dataset>>) -> Dataset {
        let mut dataset = self.open_afresh();
        if self.settings.found_in.is_some() && self.faults.is_empty() {
            self.refuse_incomplete(&dataset);
        }
        if let Some(known) = known {
            self.keep_unchanged(&mut dataset, known);
        }
        dataset
    }

    /// Keeps the channels whose files have not changed, with their samples. A channel that was
    /// served and is now left out is a fault.
    fn keep_unchanged(&mut self, dataset: &mut Dataset, known: &Dataset) {
        for (name, channel) in &mut dataset.channels {
            let Some(before) = known.channels.get(name) else {
                continue;
            };
            if before.fingerprint == channel.fingerprint && !before.has_changed() {
                *channel = Arc::clone(before);
            } else if dataset.live {
                channel.reuse_survey(before);
            }
        }
        for (name, fault) in std::mem::take(&mut self.left_out) {
            if known.channels.contains_key(&name) {
                self.faults.push(fault);
            }
        }
    }

    /// Adds a fault if a file lacks its end and was modified lately: it is being copied, or written
    /// by a program that does not let other programs read meanwhile.
    fn refuse_incomplete(&mut self, dataset: &Dataset) {
        let files = dataset.identities();
        for file in files.filter(|file| file.was_modified_within(LIVE)) {
            if let Some(truncation) = self.catalog.shared.files.truncation(file.location()) {
                let problem = format!(
                    "{}: {truncation}; it is tried again when it has changed",
                    file.location()
                );
                return self.fault(".file", problem);
            }
        }
    }

    /// The dataset as its files are now, whatever was open before.
    fn open_afresh(&mut self) -> Dataset {
        let settings = self.settings;
        let shared = &self.catalog.shared;
        let opener = shared.opener(settings);
        let named = settings.file.as_ref();
        let file = named.and_then(|file| self.open_file(&opener, file, ".file"));
        let kept_open = file.as_ref().map(OpenFile::keep_datasets);
        let (channels, layouts) = self.open_channels(&opener, file.as_ref());
        drop(kept_open);
        if channels.is_empty() && self.faults.is_empty() {
            self.fault(
                "",
                "none of its channels can be served; see the notices".to_owned(),
            );
        }
        let is_growing = settings.growing == Some(true);
        let mut dataset = Dataset {
            token: self.token.clone(),
            growing: is_growing,
            live: is_growing,
            settings: Arc::new(settings.clone()),
            style: settings.style,
            folder: PathBuf::new(),
            file,
            layouts,
            notices: Vec::new(),
            first: None,
            channels,
            counters: shared.chunks.metrics().datasets.counters(self.token),
            limits: self.catalog.limits,
            derived: DerivedFacts::default(),
        };
        // The other fields follow from these. Truncation is noted before all notices are taken.
        self.note_truncation(&dataset);
        dataset.notices = self.public_notices(&dataset);
        dataset.folder = folder(&dataset).unwrap_or_default();
        dataset.growing |= dataset.has_growing_files();
        dataset.live |= dataset.is_being_written();
        let image = dataset
            .listed()
            .find(|channel| channel.kind != Kind::Labels);
        let first = image.or_else(|| dataset.listed().next());
        dataset.first = first.map(|channel| channel.name.clone());
        dataset
    }

    /// The channels that can be opened, and the layouts recognised in the dataset's file.
    fn open_channels(
        &mut self,
        opener: &Opener,
        file: Option<&OpenFile>,
    ) -> (BTreeMap<Name, Arc<Channel>>, Vec<Recognised>) {
        let settings = self.settings;
        let mut channels = BTreeMap::new();
        let mut layouts = Vec::new();
        if let Some(file) = file
            && is_discovered(settings)
            && let Some((layout, all)) = self.discover(file)
        {
            layouts.push(layout);
            for found in all {
                let name = found.name.clone();
                if let Some(channel) = self.open_discovered(file, found) {
                    channels.insert(name, Arc::new(channel));
                }
            }
        }
        for (name, given) in &settings.channels {
            if !is_spelled_out(given) {
                continue;
            }
            let key = format!(".channels.{name}");
            let file = match &given.file {
                Some(own) => self.open_file(opener, own, &format!("{key}.file")),
                None => file.cloned(),
            };
            if let Some(file) = file
                && let Some(channel) = self.open_spelled_out(&key, name, given, &file)
            {
                channels.insert(name.clone(), Arc::new(channel));
            }
        }
        (channels, layouts)
    }

    /// The notices about the dataset, without the paths of folders: clients, who must not learn
    /// where files lie, read the notices.
    fn public_notices(&mut self, dataset: &Dataset) -> Vec<Notice> {
        let channels = dataset.channels.values();
        let own = channels.clone().map(|channel| channel.file.as_path());
        let files = channels.flat_map(|channel| channel.files()).chain(own);
        let folders: BTreeSet<String> = files
            .filter_map(Path::parent)
            .filter(|folder| !folder.as_os_str().is_empty())
            .map(|folder| format!("{}/", folder.display()))
            .collect();
        let mut notices: Vec<Notice> = Vec::new();
        for notice in self.notices.drain(..) {
            let mut text = notice.text;
            for folder in &folders {
                text = without_folder(&text, folder);
            }
            // Channels that show one HDF5 dataset may have the same notice: it is given once, about
            // all of them.
            if let Some(same) = notices.iter_mut().find(|other| other.text == text) {
                same.about = self.token.to_string();
                continue;
            }
            // A notice about a path or a channel stays about that.
            notices.push(Notice { text, ..notice }.about(self.token.as_str()));
        }
        notices.sort_by_key(|notice| notice.severity);
        notices
    }

    /// Adds a notice for each truncated file of a dataset. If the dataset has no channels, the text
    /// is appended to the fault that says so.
    fn note_truncation(&mut self, dataset: &Dataset) {
        let file = dataset.file.as_ref();
        if dataset.channels.is_empty() {
            if let Some(truncation) = file.and_then(OpenFile::truncation)
                && let Some(fault) = self.faults.last_mut()
            {
                fault.problem.push_str(&format!("; {truncation}"));
            }
            return;
        }
        let watched = dataset.identities().map(FileIdentity::location);
        let files: BTreeSet<_> = watched.chain(file.map(OpenFile::location)).collect();
        for path in files {
            if let Some(truncation) = self.catalog.shared.files.truncation(path) {
                let name = path
                    .as_path()
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy();
                self.notices.push(Notice::error(truncation).about(&name));
            }
        }
    }

    fn open_file(&mut self, opener: &Opener, location: &Location, key: &str) -> Option<OpenFile> {
        opener
            .open(location)
            .inspect_err(|error| self.fault(key, error.to_string()))
            .ok()
    }

    /// A problem with a setting, whose key is that of the dataset followed by `key`.
    fn fault_at(&self, key: &str, problem: String) -> Fault {
        Fault::new(format!("datasets.{}{key}", self.token), problem)
    }

    fn fault(&mut self, key: &str, problem: String) {
        self.faults.push(self.fault_at(key, problem));
    }

    /// The layout of the file, and the channels discovered in it, each adjusted by the settings of
    /// the channel with its name.
    fn discover(&mut self, file: &OpenFile) -> Option<(Recognised, Vec<FoundChannel>)> {
        let settings = self.settings;
        let discovery = layout::discover(file)
            .inspect_err(|error| self.fault(".file", error.to_string()))
            .ok()?;
        let layout = Recognised {
            layout: discovery.layout.to_owned(),
            because: discovery.because,
        };
        let mut all = discovery.channels;
        let names: Vec<String> = all.iter().map(|channel| channel.name.to_string()).collect();
        let (listed, hidden): (Vec<_>, Vec<_>) =
            discovery.beside.into_iter().partition(|channel| {
                settings.lists_all || settings.channels.contains_key(&channel.name)
            });
        all.extend(listed);
        self.note_hidden(&hidden);
        for (name, given) in &settings.channels {
            if is_spelled_out(given) || all.iter().any(|channel| channel.name == *name) {
                continue;
            }
            let existing = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            let problem = format!(
                "there is no such channel in {}; found there: {existing}. Give its path, or one of these names",
                file.location()
            );
            self.fault(&format!(".channels.{name}"), problem);
        }
        if names.is_empty() && settings.channels.is_empty() {
            let lost = discovery.lost.map(|lost| format!("; {lost}"));
            let problem = format!(
                "{} holds no dataset that looks like a volume{}",
                file.location(),
                lost.unwrap_or_default()
            );
            self.fault(".file", problem);
        } else {
            self.notices.extend(discovery.notices);
        }
        for found in &mut all {
            if let Some(given) = settings.channels.get(&found.name) {
                found.kind = given.kind.unwrap_or(found.kind);
                if given.stored_values {
                    found.show_stored_values();
                }
            }
        }
        if let Some(image) = first_image(&all).cloned() {
            layout::align(&image, &mut all);
        }
        Some((layout, all))
    }

    /// Adds a notice that names the datasets with pictures among the hidden channels.
    fn note_hidden(&mut self, hidden: &[FoundChannel]) {
        let pictures = hidden.iter().filter(|channel| channel.has_pictures);
        let paths = pictures.filter_map(|channel| channel.levels.first()?.paths.first());
        let path_list = layout::first_of(paths.map(str::to_owned));
        if !path_list.is_empty() {
            self.notices.push(Notice::info(format!(
                "beside the data lie coordinates, flags or what the layout does not describe, which are not listed: \
                 {path_list}; `voltile inspect --all` lists them"
            )));
        }
    }

    /// Opens a discovered channel. If it cannot be opened, that is a fault only if the settings
    /// name it; otherwise it is left out.
    fn open_discovered(&mut self, file: &OpenFile, found: FoundChannel) -> Option<Channel> {
        let name = found.name.clone();
        let key = format!(".channels.{name}");
        let no_settings = ChannelSettings::default();
        let given = self.settings.channels.get(&name);
        let opened = self.open_channel(file, found, given.unwrap_or(&no_settings));
        let problem = match opened {
            Ok(channel) => return Some(channel),
            Err(problem) => problem,
        };
        if given.is_some() {
            self.fault(&key, problem);
        } else {
            let left_out = format!("the channel is left out: {problem}");
            self.notices
                .push(Notice::warning(left_out).about(name.as_str()));
            let fault = self.fault_at(&key, problem);
            self.left_out.push((name, fault));
        }
        None
    }

    /// Opens a channel whose path or levels are configured. It begins where the dataset's first
    /// channel does, unless its offset is configured too.
    fn open_spelled_out(
        &mut self,
        key: &str,
        name: &Name,
        given: &ChannelSettings,
        file: &OpenFile,
    ) -> Option<Channel> {
        let finest = given.levels.first().map(|level| &level.path);
        let path = given.path.as_ref().or(finest)?;
        let found = layout::channel_at(file, path, name.clone(), given)
            .inspect_err(|error| self.fault(key, error.to_string()))
            .ok()?;
        let unplaced = FoundChannel {
            transforms: Transforms::default(),
            rank: Rank::default(),
            voxels: 0,
            ..found
        };
        self.open_channel(file, unplaced, given)
            .inspect_err(|problem| self.fault(key, problem.clone()))
            .ok()
    }

    /// Opens the levels of a channel, checks it, and finds its names and precomputed levels.
    fn open_channel(
        &mut self,
        file: &OpenFile,
        found: FoundChannel,
        given: &ChannelSettings,
    ) -> Result<Channel, String> {
        let mut levels = ChannelLevels::open(file, &found)?;
        levels.notices.extend(found.notices.iter().cloned());
        let full = levels.full().ok_or("it has no level at full resolution")?;
        let voxel = full.voxel;
        let times_present = full.present.iter().flat_map(|times| times.iter());
        let absent = times_present.filter(|is_present| !**is_present).count();
        if absent > 0 {
            let times = full.times;
            levels.notices.push(Notice::info(format!(
                "{absent} of its {times} time points are not there"
            )));
        }
        if found.kind == Kind::Labels && !voxel.is_integer() {
            return Err(format!(
                "labels must be integers; its voxels are {}",
                voxel.name()
            ));
        }
        let names = self
            .open_names(file, found.kind, given)
            .map_err(|problem| format!("names: {problem}"))?;
        // In RGB data, no value stands for missing data.
        let declared = match found.kind {
            Kind::Rgb => &[][..],
            Kind::Image | Kind::Labels => {
                given.missing.as_ref().unwrap_or(&found.missing).as_slice()
            }
        };
        let missing = Missing::new(declared, voxel);
        // Precomputed levels do not show gaps: a channel that has gaps uses none.
        if !levels.has_gaps {
            let search = LevelSearch {
                file,
                found: &found,
                levels: &levels.stored,
                voxel,
                missing: &missing,
                scaling: self.settings.style.scaling,
            };
            levels.pyramid_levels = search.open(self.sidecars, &mut levels.notices);
        }
        let notices = levels.notices.drain(..);
        self.notices
            .extend(notices.map(|notice| notice.about(found.name.as_str())));
        let channel = Channel::new(file, found, given, levels, missing, names);
        channel.load_survey();
        Ok(channel)
    }

    /// The table of names that is configured for a channel, if one is.
    fn open_names(
        &self,
        file: &OpenFile,
        kind: Kind,
        given: &ChannelSettings,
    ) -> Result<Option<Arc<Names>>, String> {
        let Some(names) = &given.names else {
            return Ok(None);
        };
        if kind != Kind::Labels {
            return Err(format!(
                "only labels have names; its kind is {}",
                kind.name()
            ));
        }
        let names = Names::open(names, file, &self.catalog.shared.tables)?;
        Ok(Some(Arc::new(names)))
    }
}

/// The folder of a dataset's own file, or of its first channel's.
fn folder(dataset: &Dataset) -> Option<PathBuf> {
    let own = match &dataset.file {
        Some(file) => file.location(),
        None => &dataset.channels.values().next()?.file,
    };
    Some(own.named().parent()?.to_owned())
}

/// A text without a folder at the beginning of paths: without `/data/`, `/data/a.h5: /raw/data/x`
/// is `a.h5: /raw/data/x`.
fn without_folder(text: &str, folder: &str) -> String {
    let mut result = String::new();
    for (number, part) in text.split(folder).enumerate() {
        let begins_path = result
            .chars()
            .next_back()
            .is_none_or(|before| !(before.is_alphanumeric() || "/._-".contains(before)));
        // Between two parts, the text has the folder.
        if number > 0 && !begins_path {
            result.push_str(folder);
        }
        result.push_str(part);
    }
    result
}

/// Logs notices about datasets.
pub fn tell(notices: &[(Severity, Fault)]) {
    for (severity, fault) in notices {
        match severity {
            Severity::Error | Severity::Warning => tracing::warn!("{fault}"),
            Severity::Info => tracing::info!("{fault}"),
        }
    }
}

/// The warning about a dataset whose file is marked as being written but does not change.
const LEFT_OPEN: &str = "its file is marked as being written in SWMR mode, but has not changed for a minute; it is served as any \
     other. If no program writes it, the last one has crashed: remove the mark with `h5clear -s`";

/// Whether to discover the file's channels: none are configured, or some of them only adjust
/// discovered ones.
pub(super) fn is_discovered(settings: &DatasetSettings) -> bool {
    settings.channels.is_empty() || !settings.channels.values().all(is_spelled_out)
}

/// The channel that will be [`Dataset::first_channel`], if it is among these.
fn first_image(found: &[FoundChannel]) -> Option<&FoundChannel> {
    let images = found.iter().filter(|channel| channel.kind != Kind::Labels);
    images.min_by_key(|image| (image.rank, Reverse(image.voxels), image.part(), &image.name))
}

/// Whether a channel's settings give its path or its levels.
fn is_spelled_out(given: &ChannelSettings) -> bool {
    given.path.is_some() || !given.levels.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_discovered_unless_all_have_paths() {
        let path = ChannelSettings {
            path: Some("/raw".to_owned()),
            ..ChannelSettings::default()
        };
        let only_kind = ChannelSettings::default();
        let settings = |channels: &[(&str, &ChannelSettings)]| DatasetSettings {
            channels: channels
                .iter()
                .map(|(n, c)| (Name::new(n).unwrap(), (*c).clone()))
                .collect(),
            ..DatasetSettings::default()
        };
        assert!(is_discovered(&settings(&[])));
        assert!(!is_discovered(&settings(&[("a", &path)])));
        assert!(is_discovered(&settings(&[("a", &path), ("b", &only_kind)])));
    }

    #[test]
    fn a_refused_file_stays_refused_for_datasets_that_are_opened_later() {
        let place = tempfile::tempdir().unwrap();
        let [first, second] = ["a.h5", "b.h5"].map(|name| {
            let path = place.path().join(name);
            std::fs::write(&path, "no HDF5").unwrap();
            Location::from(path)
        });
        let channel_of = |file: &Location| ChannelSettings {
            file: Some(file.clone()),
            path: Some("/raw".to_owned()),
            ..ChannelSettings::default()
        };
        let both = DatasetSettings {
            channels: BTreeMap::from([
                (Name::nearest("x"), channel_of(&first)),
                (Name::nearest("y"), channel_of(&second)),
            ]),
            ..DatasetSettings::default()
        };
        let settings = Settings {
            datasets: BTreeMap::from([
                (
                    Name::nearest("alone"),
                    DatasetSettings::of_file(second.clone()),
                ),
                (Name::nearest("both"), both),
            ]),
            ..Settings::default()
        };
        let (sender, verdicts) = channel();
        let verdicts = Mutex::new(Some(verdicts));
        sender
            .send((second, Some("it crashes".to_owned())))
            .unwrap();
        let empty = Catalog::open(
            &Settings::default(),
            &Metrics::default(),
            &Activity::default(),
        );
        let mut told = Vec::new();
        empty.catalog.open_each(
            &settings,
            settings.datasets.keys().cloned().collect(),
            &move |_, _| verdicts.lock().take().unwrap(),
            Duration::ZERO,
            |opened| {
                for opened in opened {
                    let faults = opened.faults.iter();
                    told.push((
                        opened.dataset.token.to_string(),
                        faults
                            .filter(|fault| fault.problem.contains("it crashes"))
                            .count(),
                    ));
                }
                // The trial of the other file takes longer.
                sender.send((first.clone(), None)).unwrap();
            },
        );
        assert_eq!(told, [("alone".to_owned(), 1), ("both".to_owned(), 1)]);
    }
}
