//! Opens a catalogue: builds datasets and channels from settings and files, and collects all
//! faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use voltile_base::description::Recognised;
use voltile_base::flow::activity::Activity;
use voltile_base::geometry::{Scaling, Transforms};
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_base::notice::{Notice, Severity};
use voltile_base::paint::Kind;
use voltile_hdf5::store::{Location, Store};
use voltile_hdf5::volume::Missing;
use voltile_hdf5::volume::hdf5::{
    ChunkStore, Digests, FileIdentity, Files, Kept, OpenFile, Opener,
};

use super::channel::Channel;
use super::levels::ChannelLevels;
use super::names::{Names, Tables};
use super::sidecar::{LevelSearch, Sidecars};
use super::{
    Catalog, CatalogLimits, Closed, Dataset, DerivedFacts, LIVE, Stores, first_channel, growing,
    is_written,
};
use crate::catalog::access::{AccessRules, Grants};
use crate::config::{ChannelSettings, DatasetSettings, Fault, IdentityRule, Settings};
use crate::layout::{self, FoundChannel, Given, Rank};

/// A catalogue, and the problems found while opening it.
#[derive(Debug)]
pub struct OpenedCatalog {
    /// Everything that could be opened.
    pub catalog: Catalog,
    /// Everything that could not, by the key of its setting.
    pub faults: Vec<Fault>,
    /// The notices about the datasets that were opened, by the key of the dataset or the channel.
    pub notices: Vec<(Severity, Fault)>,
    /// Datasets that could not be opened, although the rest is served: they were found in a folder,
    /// or have changed since they were opened and are kept as they were.
    pub unopened: Vec<(Name, Fault)>,
    /// Datasets that cannot be opened until their store answers; the catalogue knows their names.
    pub unreachable: Vec<Fault>,
    /// Problems that are not faults, such as misspelt names in access rules.
    pub warnings: Vec<String>,
}

impl Catalog {
    /// Opens everything that the settings name. `activity` lets the volumes yield to busy render
    /// threads.
    pub fn open(settings: &Settings, metrics: &Metrics, activity: &Activity) -> OpenedCatalog {
        let files = Files::new(Store::new(None, metrics.stores.clone(), None));
        Self::open_among(files, settings, BTreeSet::new(), metrics, activity)
    }

    /// Like [`Catalog::open`], with files that must not be opened already recorded in `files`. The
    /// datasets `waiting` are not opened yet.
    pub fn open_among(
        files: Files,
        settings: &Settings,
        waiting: BTreeSet<Name>,
        metrics: &Metrics,
        activity: &Activity,
    ) -> OpenedCatalog {
        let chunks = ChunkStore::new(settings.cache.chunks, metrics.clone(), activity.clone());
        let chunks = chunks.verifying(settings.render.verify);
        let files = match settings.files.identity {
            IdentityRule::File => files,
            IdentityRule::Content => {
                files.identified_by(Digests::new(settings.cache.directory.clone()))
            }
        };
        let tables = Tables::new(settings.render.boxes, metrics.names_bytes.clone());
        let stores = Stores {
            files: Arc::new(files),
            chunks,
            tables,
        };
        let opening = CatalogOpening::with(stores, CatalogLimits::from(&settings.render));
        opening.catalog(settings, waiting, |opening, token, dataset| {
            opening.dataset(token, dataset).map(Arc::new)
        })
    }

    /// The tokens of the datasets that must be opened to serve `settings`: all datasets with other
    /// settings than `before`, or with changed files. Growing datasets are reopened by themselves.
    /// Accesses the file system for every file.
    pub fn to_open(&self, settings: &Settings, before: &Settings) -> Vec<Name> {
        let mut changed = Vec::new();
        for (token, wanted) in &settings.datasets {
            let is_current = self
                .dataset(token)
                .is_some_and(|dataset| dataset.growing || !dataset.find_change());
            if !is_current || before.datasets.get(token) != Some(wanted) {
                changed.push(token.clone());
            }
        }
        changed
    }

    /// The catalogue of other settings, with the same stores. Opens the datasets `to_open`, keeps
    /// all other datasets, and does not open the datasets `waiting` yet. Files in `refused` must
    /// not be opened.
    ///
    /// A dataset whose files have changed is kept as it was if it cannot be opened again and its
    /// settings are the same.
    pub fn reload(
        &self,
        settings: &Settings,
        before: &Settings,
        to_open: &[Name],
        waiting: BTreeSet<Name>,
        refused: Vec<(Location, String)>,
    ) -> OpenedCatalog {
        let files = to_open
            .iter()
            .filter_map(|token| settings.datasets.get(token))
            .flat_map(DatasetSettings::files);
        let files: Vec<Location> = files.filter_map(|file| file.resolved().ok()).collect();
        self.stores.files.forget(&files);
        self.stores.files.refuse(refused);
        let limits = CatalogLimits::from(&settings.render);
        // The facts that a dataset has derived, such as its version, depend on both.
        let has_same_style = self.style == settings.render.style;
        let opening = CatalogOpening::with(self.stores.clone(), limits);
        opening.catalog(settings, waiting, |opening, token, wanted| {
            let Some(known) = self.dataset(token) else {
                return opening.dataset(token, wanted).map(Arc::new);
            };
            if to_open.contains(token) {
                if before.datasets.get(token) != Some(wanted) {
                    return opening.dataset(token, wanted).map(Arc::new);
                }
                if let Some(dataset) = opening.again_if_whole(known, wanted) {
                    return Some(Arc::new(dataset));
                }
            }
            if has_same_style && known.limits == limits {
                Some(Arc::clone(known))
            } else {
                Some(Arc::new(known.within(limits)))
            }
        })
    }

    /// A warning for each name in the access rules that no dataset has, and for each public dataset
    /// whose token is a protected one with a number appended or a folder before it, such as
    /// `brain_2` and `run1.brain`.
    fn unknown_names(&self) -> Vec<String> {
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
        for token in self.datasets.keys() {
            if self.access.shows(token, &nobody)
                && let Some(base) =
                    plain_names(token.as_str()).find(|base| !self.access.shows(base, &nobody))
            {
                warnings.push(format!(
                    "access: the dataset {token} is public although {base} is protected"
                ));
            }
        }
        warnings
    }

    /// Reopens one dataset from the current files. Channels whose files have not changed are kept
    /// with their samples.
    pub fn reopen(&self, token: &Name, settings: &DatasetSettings) -> ReopenedDataset {
        let mut opening = CatalogOpening::with(self.stores.clone(), self.limits);
        let dataset = match self.dataset(token) {
            Some(known) => opening.again(known, settings),
            None => opening.dataset(token, settings),
        };
        let mut faults = opening.faults;
        faults.extend(opening.unopened.into_iter().map(|(_, fault)| fault));
        faults.extend(opening.unreachable.into_values().flatten());
        ReopenedDataset {
            dataset: dataset.map(Arc::new),
            faults,
            notices: opening.notices,
        }
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

    /// Whether a file is an object in a store that does not answer. Asks the store; blocks.
    pub(crate) fn is_unreachable(&self, store: &Store) -> bool {
        self.files()
            .any(|file| matches!(file, Location::Object(address) if store.is_unreachable(address)))
    }
}

/// The names that a token may be made from: without a number at its end, and without the names of
/// folders before it.
fn plain_names(token: &str) -> impl Iterator<Item = Name> {
    let behind_folders = token
        .match_indices('.')
        .filter_map(|(at, dot)| token.get(at + dot.len()..));
    let names = std::iter::once(token).chain(behind_folders);
    names
        .flat_map(|name| [Name::new(name).ok(), without_number(name)])
        .flatten()
}

fn without_number(name: &str) -> Option<Name> {
    let (base, number) = name.rsplit_once('_')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Name::new(base).ok().filter(|_| is_number)
}

/// The next generation of a dataset.
#[derive(Debug)]
pub struct ReopenedDataset {
    /// The dataset, with all channels that could be opened; `None` if it could not be opened at
    /// all.
    pub dataset: Option<Arc<Dataset>>,
    /// Everything that could not be opened.
    pub faults: Vec<Fault>,
    /// The notices about it, as in [`OpenedCatalog::notices`].
    pub notices: Vec<(Severity, Fault)>,
}

/// State while a catalogue is being opened.
struct CatalogOpening {
    stores: Stores,
    limits: CatalogLimits,
    sidecars: Sidecars,
    faults: Vec<Fault>,
    /// The notices about the dataset that is being opened.
    noticed: Vec<Notice>,
    notices: Vec<(Severity, Fault)>,
    unopened: Vec<(Name, Fault)>,
    unreachable: BTreeMap<Name, Vec<Fault>>,
    /// Discovered channels that cannot be served.
    left_out: Vec<(Name, Fault)>,
    _kept: Arc<Kept>,
}

impl CatalogOpening {
    fn with(stores: Stores, limits: CatalogLimits) -> Self {
        Self {
            _kept: stores.files.keep_open(),
            stores,
            limits,
            sidecars: Sidecars::default(),
            faults: Vec::new(),
            noticed: Vec::new(),
            notices: Vec::new(),
            unopened: Vec::new(),
            unreachable: BTreeMap::new(),
            left_out: Vec::new(),
        }
    }

    /// A catalogue of the datasets that `open` returns; it is not called with the datasets
    /// `waiting`.
    fn catalog(
        mut self,
        settings: &Settings,
        waiting: BTreeSet<Name>,
        open: impl Fn(&mut Self, &Name, &DatasetSettings) -> Option<Arc<Dataset>>,
    ) -> OpenedCatalog {
        let mut datasets = BTreeMap::new();
        for (token, wanted) in &settings.datasets {
            if !waiting.contains(token)
                && let Some(dataset) = open(&mut self, token, wanted)
            {
                datasets.insert(token.clone(), dataset);
            }
        }
        let mut closed = BTreeMap::new();
        for (token, faults) in &self.unreachable {
            if let Some(fault) = faults.first() {
                let closed_by = Closed::Unreachable(fault.problem.clone());
                closed.insert(token.clone(), closed_by);
            }
        }
        closed.extend(waiting.into_iter().map(|token| (token, Closed::Waiting)));
        let opened = AccessRules::open(&settings.access);
        let mut warnings = opened.warnings;
        self.faults.extend(opened.faults);
        let catalog = Catalog {
            datasets,
            closed,
            limits: self.limits,
            style: settings.render.style,
            stores: self.stores,
            access: opened.access,
            names_versions: settings.server.immutable,
            generation: 0,
            views: Mutex::default(),
        };
        warnings.extend(catalog.unknown_names());
        let left_open = catalog
            .datasets()
            .filter(|dataset| dataset.growing && !dataset.live);
        warnings.extend(left_open.map(left_open_warning));
        catalog.stores.files.save_metadata();
        OpenedCatalog {
            catalog,
            faults: self.faults,
            notices: self.notices,
            unopened: self.unopened,
            unreachable: self.unreachable.into_values().flatten().collect(),
            warnings,
        }
    }

    /// The next generation of a dataset; `None` if there is any fault, so that it must be kept as
    /// it was. Faults become reasons why it was not opened.
    fn again_if_whole(&mut self, known: &Dataset, settings: &DatasetSettings) -> Option<Dataset> {
        let token = &known.token;
        let before = self.faults.len();
        let opened = self.again(known, settings);
        let mut problems = self.faults.split_off(before);
        problems.extend(self.unreachable.remove(token).into_iter().flatten());
        let is_whole = problems.is_empty();
        let problems = problems.into_iter().map(|fault| (token.clone(), fault));
        self.unopened.extend(problems);
        opened.filter(|_| is_whole)
    }

    /// The next generation of a dataset. Channels whose files have not changed are kept with their
    /// samples; a channel that was served and is now left out is a fault.
    fn again(&mut self, known: &Dataset, settings: &DatasetSettings) -> Option<Dataset> {
        let before = known
            .channels
            .values()
            .flat_map(|channel| channel.watch.files());
        self.stores.files.forget(before.map(FileIdentity::location));
        let others = std::mem::take(&mut self.left_out);
        let mut dataset = self.dataset(&known.token, settings);
        let is_live = dataset.as_ref().is_some_and(|dataset| dataset.live);
        for (name, channel) in dataset.iter_mut().flat_map(|dataset| &mut dataset.channels) {
            let Some(before) = known.channels.get(name) else {
                continue;
            };
            if before.fingerprint == channel.fingerprint && !before.has_changed() {
                *channel = Arc::clone(before);
            } else if is_live {
                channel.sample_like(before);
            }
        }
        let left_out = std::mem::replace(&mut self.left_out, others);
        let served = left_out
            .into_iter()
            .filter(|(name, _)| known.channels.contains_key(name));
        self.faults.extend(served.map(|(_, fault)| fault));
        dataset
    }

    /// A dataset, with all channels that can be opened; `None` if it has a fault, and is optional
    /// or in a store that does not answer.
    fn dataset(&mut self, token: &Name, settings: &DatasetSettings) -> Option<Dataset> {
        let before = self.faults.len();
        let dataset = self.whole_dataset(token, settings);
        if settings.found_in.is_some() && self.faults.len() == before {
            self.refuse_incomplete(&dataset);
        }
        if self.faults.len() == before {
            return Some(dataset);
        }
        // A file that its trial has refused need not be asked for.
        let is_refused = settings
            .files()
            .any(|file| self.stores.files.is_refused(file));
        if !is_refused && settings.is_unreachable(self.stores.files.store()) {
            self.unreachable
                .insert(token.clone(), self.faults.split_off(before));
            return None;
        }
        if settings.found_in.is_none() {
            return Some(dataset);
        }
        let faults = self.faults.drain(before..);
        self.unopened
            .extend(faults.map(|fault| (token.clone(), fault)));
        None
    }

    /// Makes it a fault if the end of a file is missing and was written lately: the file is being
    /// copied, or written by a program that does not let other programs read meanwhile.
    fn refuse_incomplete(&mut self, dataset: &Dataset) {
        let files = dataset
            .channels
            .values()
            .flat_map(|channel| channel.watch.files());
        for file in files.filter(|file| file.was_modified_within(LIVE)) {
            if let Some(what) = self.stores.files.truncation(file.location()) {
                let problem = format!(
                    "{}: {what}; it is tried again when it has changed",
                    file.location()
                );
                return self.fault(&format!("datasets.{}.file", dataset.token), problem);
            }
        }
    }

    fn whole_dataset(&mut self, token: &Name, settings: &DatasetSettings) -> Dataset {
        let key = format!("datasets.{token}");
        let opener = self
            .stores
            .opener(settings.allow_external, settings.growing);
        let opener = Opener {
            access: settings.access,
            ..opener
        };
        let file = settings
            .file
            .as_ref()
            .and_then(|file| self.file(&opener, file, &format!("{key}.file")));
        file.iter().for_each(OpenFile::keep_datasets);
        let (channels, layouts) = self.channels(&key, &opener, file.as_ref(), settings);
        file.iter().for_each(OpenFile::forget_datasets);
        if channels.is_empty() && !self.faults.iter().any(|fault| fault.key.starts_with(&key)) {
            self.fault(
                &key,
                "none of its channels can be served; see the notices".to_owned(),
            );
        }
        self.note_truncation(&key, file.as_ref(), &channels);
        Dataset {
            token: token.clone(),
            style: settings.style,
            growing: settings.growing == Some(true) || growing(&channels).next().is_some(),
            live: settings.growing == Some(true) || is_written(&channels),
            found_in: settings.found_in.clone(),
            home: (
                folder(file.as_ref(), &channels).unwrap_or_default(),
                settings.below.clone(),
            ),
            file,
            layouts,
            notices: self.told(token, &channels),
            first: first_channel(&channels).map(|channel| channel.name.clone()),
            channels,
            counters: self.stores.chunks.metrics().datasets.counters(token),
            limits: self.limits,
            derived: DerivedFacts::default(),
        }
    }

    /// The channels of a dataset, and the layouts recognised in its file.
    fn channels(
        &mut self,
        key: &str,
        opener: &Opener,
        file: Option<&OpenFile>,
        settings: &DatasetSettings,
    ) -> (BTreeMap<Name, Arc<Channel>>, Vec<Recognised>) {
        let mut channels = BTreeMap::new();
        let mut layouts = Vec::new();
        if let Some(file) = file
            && is_discovered(settings)
            && let Some((layout, all)) = self.discovered(key, file, settings)
        {
            layouts.push(layout);
            for found in all {
                let name = found.name.clone();
                if let Some(channel) = self.found_channel(key, file, found, settings) {
                    channels.insert(name, Arc::new(channel));
                }
            }
        }
        for (name, given) in &settings.channels {
            if !is_spelled_out(given) {
                continue;
            }
            let key = format!("{key}.channels.{name}");
            let file = match &given.file {
                Some(own) => self.file(opener, own, &format!("{key}.file")),
                None => file.cloned(),
            };
            if let Some(file) = file
                && let Some(channel) =
                    self.spelled_out(&key, name, given, &file, settings.style.scaling)
            {
                channels.insert(name.clone(), Arc::new(channel));
            }
        }
        (channels, layouts)
    }

    /// The notices about a dataset. People read them who must not learn where its files are.
    fn told(&mut self, token: &Name, channels: &BTreeMap<Name, Arc<Channel>>) -> Vec<Notice> {
        let files = channels.values().map(|channel| &channel.file);
        let folders: BTreeSet<String> = files
            .filter_map(|file| Some(format!("{}/", file.as_path().parent()?.display())))
            .collect();
        let mut notices: Vec<Notice> = Vec::new();
        for notice in self.noticed.drain(..) {
            let mut text = notice.text;
            for folder in &folders {
                text = without_folder(&text, folder);
            }
            // Several channels of one dataset of the file may lack the same.
            if let Some(told) = notices.iter_mut().find(|told| told.text == text) {
                told.about = token.to_string();
                continue;
            }
            notices.push(Notice { text, ..notice }.about(token.as_str()));
        }
        notices.sort_by_key(|notice| notice.severity);
        for Notice {
            severity,
            about,
            text,
        } in &notices
        {
            let is_channel = channels.keys().any(|name| name.as_str() == about);
            let key = if is_channel {
                format!("datasets.{token}.channels.{about}")
            } else {
                format!("datasets.{token}")
            };
            let problem = if is_channel || about == token.as_str() {
                text.clone()
            } else {
                format!("{about}: {text}")
            };
            self.notices.push((*severity, Fault { key, problem }));
        }
        notices
    }

    /// Notes which files of a dataset end too early. If nothing is left of it, that belongs to the
    /// fault.
    fn note_truncation(
        &mut self,
        key: &str,
        file: Option<&OpenFile>,
        channels: &BTreeMap<Name, Arc<Channel>>,
    ) {
        if channels.is_empty() {
            let fault = self
                .faults
                .last_mut()
                .filter(|fault| fault.key.starts_with(key));
            if let Some((fault, what)) = fault.zip(file.and_then(OpenFile::truncation)) {
                fault.problem.push_str(&format!("; {what}"));
            }
            return;
        }
        let watched = channels
            .values()
            .flat_map(|channel| channel.watch.files())
            .map(FileIdentity::location);
        let files: BTreeSet<_> = watched.chain(file.map(OpenFile::location)).collect();
        for path in files {
            if let Some(what) = self.stores.files.truncation(path) {
                let name = path
                    .as_path()
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy();
                self.noticed.push(Notice::error(what).about(&name));
            }
        }
    }

    fn file(&mut self, opener: &Opener, location: &Location, key: &str) -> Option<OpenFile> {
        opener
            .open(location)
            .map_err(|e| self.fault(key, e.to_string()))
            .ok()
    }

    fn fault(&mut self, key: &str, problem: String) {
        self.faults.push(Fault {
            key: key.to_owned(),
            problem,
        });
    }

    /// The layout of the file, and the channels discovered in it, adjusted by the settings of the
    /// same name.
    fn discovered(
        &mut self,
        key: &str,
        file: &OpenFile,
        settings: &DatasetSettings,
    ) -> Option<(Recognised, Vec<FoundChannel>)> {
        let discovery = layout::discover(file)
            .map_err(|error| self.fault(&format!("{key}.file"), error.to_string()))
            .ok()?;
        let layout = Recognised {
            layout: discovery.layout.to_owned(),
            because: discovery.because,
        };
        let mut all = discovery.channels;
        let names: Vec<String> = all.iter().map(|channel| channel.name.to_string()).collect();
        let (wanted, hidden): (Vec<_>, Vec<_>) =
            discovery.beside.into_iter().partition(|channel| {
                settings.lists_all || settings.channels.contains_key(&channel.name)
            });
        all.extend(wanted);
        self.note_hidden(&hidden);
        for (name, given) in &settings.channels {
            if is_spelled_out(given) || all.iter().any(|channel| channel.name == *name) {
                continue;
            }
            let found = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            let problem = format!(
                "there is no such channel in {}; found there: {found}. Give its path, or one of these names",
                file.location()
            );
            self.fault(&format!("{key}.channels.{name}"), problem);
        }
        if names.is_empty() && settings.channels.is_empty() {
            let lost = discovery.lost.map(|lost| format!("; {lost}"));
            let problem = format!(
                "{} holds no dataset that looks like a volume{}",
                file.location(),
                lost.unwrap_or_default()
            );
            self.fault(&format!("{key}.file"), problem);
        } else {
            self.noticed.extend(discovery.notices);
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

    /// Notes the datasets with pictures that are not listed.
    fn note_hidden(&mut self, hidden: &[FoundChannel]) {
        let pictures = hidden.iter().filter(|channel| channel.has_pictures);
        let paths = pictures.filter_map(|channel| channel.levels.first()?.paths.first());
        let hidden = layout::named(paths.map(str::to_owned));
        if !hidden.is_empty() {
            self.noticed.push(Notice::info(format!(
                "beside the data lie coordinates, flags or what the layout does not describe, which are not listed: \
                 {hidden}; `voltile inspect --all` lists them"
            )));
        }
    }

    /// A discovered channel. One that is not configured by name is optional: it is left out if it
    /// cannot be opened.
    fn found_channel(
        &mut self,
        key: &str,
        file: &OpenFile,
        found: FoundChannel,
        settings: &DatasetSettings,
    ) -> Option<Channel> {
        let name = found.name.clone();
        let key = format!("{key}.channels.{name}");
        let none = ChannelSettings::default();
        let given = settings.channels.get(&name);
        let opened = self.channel(file, found, given.unwrap_or(&none), settings.style.scaling);
        let problem = match opened {
            Ok(channel) => return Some(channel),
            Err(problem) => problem,
        };
        if given.is_some() {
            self.fault(&key, problem);
        } else {
            let left_out = format!("the channel is left out: {problem}");
            self.noticed
                .push(Notice::warning(left_out).about(name.as_str()));
            self.left_out.push((name, Fault { key, problem }));
        }
        None
    }

    /// A channel whose path or levels are configured. It begins where the dataset's first channel
    /// does, unless its offset is configured too.
    fn spelled_out(
        &mut self,
        key: &str,
        name: &Name,
        given: &ChannelSettings,
        file: &OpenFile,
        scaling: Scaling,
    ) -> Option<Channel> {
        let levels = given.levels.iter();
        let known = Given {
            axes: given.axes.clone(),
            fixed: given.index.clone().into_iter().collect(),
            kind: given.kind,
            levels: levels
                .map(|level| (level.path.clone(), level.factor))
                .collect(),
            stored_values: given.stored_values,
        };
        let finest = given.levels.first().map(|level| &level.path);
        let path = given.path.as_ref().or(finest)?;
        let opened = match layout::channel_at(file, path, name.clone(), &known) {
            Err(error) => Err(error.to_string()),
            Ok(found) => {
                let found = FoundChannel {
                    transforms: Transforms::default(),
                    rank: Rank::default(),
                    voxels: 0,
                    ..found
                };
                self.channel(file, found, given, scaling)
            }
        };
        opened.map_err(|problem| self.fault(key, problem)).ok()
    }

    fn channel(
        &mut self,
        file: &OpenFile,
        found: FoundChannel,
        given: &ChannelSettings,
        scaling: Scaling,
    ) -> Result<Channel, String> {
        let mut levels = ChannelLevels::open(file, &found)?;
        levels.notices.extend(found.notices.iter().cloned());
        let full = levels.full().ok_or("it has no level at full resolution")?;
        let voxel = full.voxel;
        let present = full.present.iter().flat_map(|present| present.iter());
        let absent = present.filter(|is_present| !**is_present).count();
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
            .names(file, found.kind, given)
            .map_err(|problem| format!("names: {problem}"))?;
        // A component of a colour may have any value.
        let declared = match found.kind {
            Kind::Rgb => &[][..],
            Kind::Image | Kind::Labels => {
                given.missing.as_ref().unwrap_or(&found.missing).as_slice()
            }
        };
        let missing = Missing::new(declared, voxel);
        // Levels that were made before do not show what is missing now.
        if !levels.has_gaps {
            let wanted = LevelSearch {
                file,
                found: &found,
                levels: &levels.stored,
                voxel,
                missing: &missing,
                scaling,
            };
            levels.made = wanted.open(&mut self.sidecars, &mut levels.notices);
        }
        let notices = levels.notices.drain(..);
        self.noticed
            .extend(notices.map(|notice| notice.about(found.name.as_str())));
        let channel = Channel::new(file, found, given, levels, missing, names);
        channel.recall();
        Ok(channel)
    }

    /// The table of names that is configured for a channel, if one is.
    fn names(
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
        let names = Names::open(names, file, &self.stores.tables)?;
        Ok(Some(Arc::new(names)))
    }
}

/// The folder of a dataset's own file, or of its first channel's.
fn folder(file: Option<&OpenFile>, channels: &BTreeMap<Name, Arc<Channel>>) -> Option<PathBuf> {
    let own = match file {
        Some(file) => file.location(),
        None => &channels.values().next()?.file,
    };
    Some(own.named().parent()?.to_owned())
}

/// A text without a folder where it begins a path: the same words within a path in a file are
/// another thing.
fn without_folder(text: &str, folder: &str) -> String {
    let mut kept = String::new();
    for (number, part) in text.split(folder).enumerate() {
        let begins_path = kept
            .chars()
            .next_back()
            .is_none_or(|before| !(before.is_alphanumeric() || "/._-".contains(before)));
        if number > 0 && !begins_path {
            kept.push_str(folder);
        }
        kept.push_str(part);
    }
    kept
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

/// The warning about a dataset whose file is marked as being written, and does not change.
fn left_open_warning(dataset: &Arc<Dataset>) -> String {
    format!(
        "datasets.{}: its file is marked as being written in SWMR mode, but has not changed for a minute; it is served as any \
         other. If no program writes it, the last one has crashed: remove the mark with `h5clear -s`",
        dataset.token
    )
}

/// Whether to discover the file's channels: none are configured, or some of them only adjust
/// discovered ones.
fn is_discovered(settings: &DatasetSettings) -> bool {
    settings.channels.values().all(is_spelled_out) == settings.channels.is_empty()
}

/// The image whose grid all channels have (see [`Dataset::first_channel`]).
fn first_image(found: &[FoundChannel]) -> Option<&FoundChannel> {
    let images = found.iter().filter(|channel| channel.kind != Kind::Labels);
    images.min_by_key(|image| (image.rank, Reverse(image.voxels), image.part(), &image.name))
}

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
}
