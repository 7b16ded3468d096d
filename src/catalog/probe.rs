//! Trials: opening a file and reading its metadata in a child process first, which may crash.
//!
//! A malicious or damaged file can crash the HDF5 library, or make it loop for ever, merely when a
//! group is listed. A [`Trial`] opens a file as a catalogue does, and also reads the parts that a
//! catalogue defers to the first tile: chunk indexes, and the datasets of a long series. The
//! command line starts the child process and sets its limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use voltile_base::flow::activity::Activity;
use voltile_base::flow::side_by_side;
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_hdf5::store::{Location, Store};
use voltile_hdf5::volume::Volume;
use voltile_hdf5::volume::hdf5::Files;

use super::open::{accept_all, is_discovered};
use super::{Catalog, names};
use crate::config::{ChannelSettings, DatasetSettings, Settings};

/// The time limit per file for deferred reads. Reading an index of a million chunks takes a second
/// at most, but minutes from a slow disk; long series have tens of thousands of datasets.
const REHEARSAL: Duration = Duration::from_secs(2);
/// The maximum number of volumes of an object that are read side by side.
const MAX_AT_ONCE: usize = 8;

/// A file to be opened, and the parts of it that will be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The file. What is sent to the child process has no credentials, and invalid UTF-8 in a path
    /// is replaced, because the HDF5 crate accepts only UTF-8.
    pub file: Location,
    /// Whether its links may leave its directory.
    pub allow_external: bool,
    /// Whether its channels are to be discovered.
    pub discover: bool,
    /// The datasets named in the configuration.
    pub paths: BTreeSet<String>,
    /// The paths of tables of names.
    pub tables: BTreeSet<String>,
}

impl Trial {
    /// The trials that datasets require: one for each file and link policy.
    pub fn all<'a>(datasets: impl IntoIterator<Item = &'a DatasetSettings>) -> Vec<Trial> {
        let mut trials: BTreeMap<(Location, bool), Trial> = BTreeMap::new();
        for dataset in datasets {
            if let Some(file) = &dataset.file {
                let key = (file.clone(), dataset.allow_external);
                let trial = trials.entry(key).or_insert_with_key(Self::of_nothing);
                trial.discover |= is_discovered(dataset);
            }
            for given in dataset.channels.values() {
                let Some(file) = given.file.as_ref().or(dataset.file.as_ref()) else {
                    continue;
                };
                let key = (file.clone(), dataset.allow_external);
                let trial = trials.entry(key).or_insert_with_key(Self::of_nothing);
                trial.paths.extend(paths(given).cloned());
                let table = given.names.as_ref().and_then(|names| names.path.clone());
                trial.tables.extend(table);
            }
        }
        trials.into_values().collect()
    }

    /// A trial that opens the file and uses nothing of it.
    fn of_nothing((file, allow_external): &(Location, bool)) -> Self {
        Self {
            file: file.clone(),
            allow_external: *allow_external,
            discover: false,
            paths: BTreeSet::new(),
            tables: BTreeSet::new(),
        }
    }

    /// Opens the file and the parts that will be used, including attributes for people, then
    /// performs deferred reads until `latest` at most. Ignores errors: they are reported when the
    /// file is opened for use.
    pub fn run(&self, latest: Instant, store: &Store) {
        let until = latest.min(Instant::now() + REHEARSAL);
        let catalog = Catalog::open_tried(
            Files::new(store.clone()),
            &self.settings(),
            BTreeSet::new(),
            &accept_all,
            &Metrics::default(),
            &Activity::default(),
        )
        .catalog;
        let mut volumes: Vec<&Arc<dyn Volume>> = Vec::new();
        for dataset in catalog.datasets() {
            drop(dataset.attributes());
            let levels = dataset
                .channels
                .values()
                .flat_map(|channel| channel.levels());
            volumes.extend(levels.flat_map(|level| &level.volumes));
        }
        let opener = catalog.shared.opener(&self.of_file());
        if let Ok(file) = opener.open(&self.file) {
            for path in &self.tables {
                names::try_out(&file, path, until);
            }
        }
        // The volumes of an object wait for its store most of the time.
        let threads = if self.file.is_remote() {
            MAX_AT_ONCE
        } else {
            1
        };
        side_by_side(&volumes, threads, |volumes| {
            volumes.for_each(|volume| volume.rehearse(until));
        });
    }

    /// Settings for a dataset that consists of the channels discovered in the file.
    fn of_file(&self) -> DatasetSettings {
        DatasetSettings {
            allow_external: self.allow_external,
            // Otherwise a file that is being written would be refused.
            growing: Some(true),
            ..DatasetSettings::of_file(self.file.clone())
        }
    }

    /// Settings for a catalogue of this file: discovered channels under one token, configured ones
    /// under another.
    fn settings(&self) -> Settings {
        let mut channels = BTreeMap::new();
        for (number, path) in self.paths.iter().enumerate() {
            let channel = ChannelSettings {
                path: Some(path.clone()),
                ..ChannelSettings::default()
            };
            channels.insert(Name::nearest(&number.to_string()), channel);
        }
        let mut settings = Settings::default();
        if !channels.is_empty() {
            let named = DatasetSettings {
                channels,
                ..self.of_file()
            };
            settings.datasets.insert(Name::nearest("named"), named);
        }
        if self.discover {
            settings
                .datasets
                .insert(Name::nearest("discovered"), self.of_file());
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
