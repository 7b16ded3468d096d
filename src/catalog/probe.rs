//! Trials: opening a file and reading its metadata in a child process first, which may crash.
//!
//! A malicious or damaged file can crash the HDF5 library, or make it loop for ever, merely when a
//! group is listed. A [`Trial`] opens a file as a catalogue does, including what is otherwise
//! deferred to the first tile: chunk indexes, and the datasets of a long series. The command line
//! starts the child process and sets its limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use voltile_base::flow::activity::Activity;
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_hdf5::store::{Location, Store};
use voltile_hdf5::volume::Volume;
use voltile_hdf5::volume::hdf5::Files;

use super::{Catalog, Dataset, names};
use crate::config::{ChannelSettings, DatasetSettings, Settings};

/// The time limit per file for deferred reads: an index of a million chunks takes a second at most,
/// but minutes from a slow disk, and long series have tens of thousands of datasets.
const REHEARSAL: Duration = Duration::from_secs(2);
/// The most volumes of an object that are read side by side.
const MAX_AT_ONCE: usize = 8;

/// A file to be opened, and what will be used of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The file. Sent to a child, invalid UTF-8 is replaced, as the HDF5 crate accepts only UTF-8,
    /// and credentials are left out.
    pub file: Location,
    /// Whether its links may leave its directory.
    pub allow_external: bool,
    /// Whether its channels are to be discovered.
    pub discover: bool,
    /// The datasets named in the configuration.
    pub paths: BTreeSet<String>,
    /// The tables of names.
    pub tables: BTreeSet<String>,
}

impl Trial {
    /// The trials required by settings: one for each file and link policy.
    pub fn all(settings: &Settings) -> Vec<Trial> {
        let mut trials: BTreeMap<(Location, bool), Trial> = BTreeMap::new();
        for dataset in settings.datasets.values() {
            let is_adjusted = |given: &ChannelSettings| paths(given).next().is_none();
            let discover =
                dataset.channels.is_empty() || dataset.channels.values().any(is_adjusted);
            let own = dataset.file.iter().map(|file| (file, discover, None));
            let named = dataset.channels.values().filter_map(|given| {
                Some((
                    given.file.as_ref().or(dataset.file.as_ref())?,
                    false,
                    Some(given),
                ))
            });
            for (file, discover, given) in own.chain(named) {
                let key = (file.clone(), dataset.allow_external);
                let trial = trials.entry(key).or_insert_with_key(Self::nothing);
                trial.discover |= discover;
                trial
                    .paths
                    .extend(given.into_iter().flat_map(paths).cloned());
                let names = given.and_then(|given| given.names.as_ref());
                trial
                    .tables
                    .extend(names.and_then(|names| names.path.clone()));
            }
        }
        trials.into_values().collect()
    }

    /// A trial that only opens the file.
    fn nothing((file, allow_external): &(Location, bool)) -> Self {
        let (file, allow_external) = (file.clone(), *allow_external);
        Self {
            file,
            allow_external,
            discover: false,
            paths: BTreeSet::new(),
            tables: BTreeSet::new(),
        }
    }

    /// Opens the file and everything used of it, attributes for people included, then performs
    /// deferred reads until `latest` at most. Ignores errors: they are reported when the file is
    /// opened for use.
    pub fn run(&self, latest: Instant, store: &Store) {
        let until = latest.min(Instant::now() + REHEARSAL);
        let (files, metrics) = (Files::new(store.clone()), Metrics::default());
        let opened = Catalog::open_among(
            files,
            &self.settings(),
            BTreeSet::new(),
            &metrics,
            &Activity::default(),
        );
        opened
            .catalog
            .datasets()
            .for_each(|dataset| drop(dataset.attributes()));
        if let Ok(file) = opened
            .catalog
            .stores
            .opener(self.allow_external, Some(true))
            .open(&self.file)
        {
            self.tables
                .iter()
                .for_each(|path| names::try_out(&file, path, until));
        }
        let channels = opened
            .catalog
            .datasets()
            .flat_map(|dataset: &Arc<Dataset>| dataset.channels.values());
        let levels = channels.flat_map(|channel| channel.levels());
        let volumes: Vec<&Arc<dyn Volume>> = levels.flat_map(|level| &level.volumes).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(volume) = volumes.get(next.fetch_add(1, Ordering::Relaxed)) {
                volume.rehearse(until);
            }
        };
        // Those of an object wait for its store most of the time.
        let threads = if self.file.is_remote() {
            MAX_AT_ONCE.min(volumes.len())
        } else {
            1
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, work) {
                    tracing::debug!("fewer volumes are read side by side: {error}");
                }
            }
            work();
        });
    }

    /// Settings for a catalogue of this file: discovered channels under one token, configured ones
    /// under another.
    fn settings(&self) -> Settings {
        let of_file = DatasetSettings {
            allow_external: self.allow_external,
            // Otherwise a file that is being written would be refused.
            growing: Some(true),
            ..DatasetSettings::of_file(self.file.clone())
        };
        let named = |path: &String| ChannelSettings {
            path: Some(path.clone()),
            ..ChannelSettings::default()
        };
        let names = (0..).map(|number: usize| Name::nearest(&number.to_string()));
        let channels: BTreeMap<Name, ChannelSettings> =
            names.zip(self.paths.iter().map(named)).collect();
        let mut settings = Settings::default();
        if !channels.is_empty() {
            let named = DatasetSettings {
                channels,
                ..of_file.clone()
            };
            settings.datasets.insert(Name::nearest("named"), named);
        }
        if self.discover {
            settings
                .datasets
                .insert(Name::nearest("discovered"), of_file);
        }
        settings
    }
}

/// The datasets named in a channel's settings.
fn paths(given: &ChannelSettings) -> impl Iterator<Item = &String> {
    given
        .path
        .iter()
        .chain(given.levels.iter().map(|level| &level.path))
}
