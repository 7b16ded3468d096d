//! Trials: what opening and first reading will ask of a file, done beforehand in a process that may crash.
//!
//! A file can be made such that the HDF5 library crashes, or works for ever, when it only lists a group. A [`Trial`] opens
//! a file as a catalogue does, and looks at what is put off until a tile is wanted: lists of chunks, and the datasets of a
//! long series. The process that runs trials, and its limits, are the command line's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Catalog, Dataset};
use crate::activity::Activity;
use crate::config::{ChannelSettings, DatasetSettings, Settings};
use crate::metrics::Metrics;
use crate::name::Name;

/// How long is spent on what is put off, for one file: a list of a million chunks takes a second at most, but minutes
/// from a slow disk, and long series have tens of thousands of datasets.
const REHEARSAL: Duration = Duration::from_secs(2);

/// A file to be opened, and what of it will be wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The file. A name that is not UTF-8 is the nearest one that is: the library knows no others.
    pub file: String,
    /// Whether its links may lead anywhere.
    pub allow_external: bool,
    /// Whether its channels are to be discovered.
    pub discover: bool,
    /// The datasets that a configuration names.
    pub paths: BTreeSet<String>,
}

impl Trial {
    /// The trials that settings ask for: one for each file and policy.
    pub fn all(settings: &Settings) -> Vec<Trial> {
        let mut trials: BTreeMap<(PathBuf, bool), Trial> = BTreeMap::new();
        for dataset in settings.datasets.values() {
            let is_adjusted = |given: &ChannelSettings| paths(given).next().is_none();
            let discover = dataset.channels.is_empty() || dataset.channels.values().any(is_adjusted);
            let own = dataset.file.iter().map(|file| (file, discover, None));
            let named = dataset.channels.values().filter_map(|given| {
                Some((given.file.as_ref().or(dataset.file.as_ref())?, false, Some(given)))
            });
            for (file, discover, given) in own.chain(named) {
                let key = (file.clone(), dataset.allow_external);
                let trial = trials.entry(key).or_insert_with_key(Self::nothing);
                trial.discover |= discover;
                trial.paths.extend(given.into_iter().flat_map(paths).cloned());
            }
        }
        trials.into_values().collect()
    }

    /// Only to open the file.
    fn nothing((file, allow_external): &(PathBuf, bool)) -> Self {
        let (file, allow_external) = (file.to_string_lossy().into_owned(), *allow_external);
        Self { file, allow_external, discover: false, paths: BTreeSet::new() }
    }

    /// Opens the file and everything wanted of it, and rehearses what comes later, though not beyond `latest`. Errors
    /// are for others to tell.
    pub fn run(&self, latest: Instant) {
        let until = latest.min(Instant::now() + REHEARSAL);
        let opened = Catalog::open(&self.settings(), &Metrics::default(), &Activity::default());
        for channel in opened.catalog.datasets().flat_map(|dataset: &Arc<Dataset>| dataset.channels.values())
        {
            for volume in channel.levels().iter().flat_map(|level| &level.volumes) {
                volume.storage().rehearse(until);
            }
        }
    }

    /// Settings that have a catalogue open it: its discovered channels under one token, the named ones under another.
    fn settings(&self) -> Settings {
        let of_file = DatasetSettings {
            allow_external: self.allow_external,
            // A file that is being written is tried as it is at the moment.
            growing: true,
            ..DatasetSettings::of_file(PathBuf::from(&self.file))
        };
        let named =
            |path: &String| ChannelSettings { path: Some(path.clone()), ..ChannelSettings::default() };
        let names = (0..).map(|number: usize| Name::nearest(&number.to_string()));
        let channels: BTreeMap<Name, ChannelSettings> = names.zip(self.paths.iter().map(named)).collect();
        let mut settings = Settings::default();
        if !channels.is_empty() {
            let named = DatasetSettings { channels, ..of_file.clone() };
            settings.datasets.insert(Name::nearest("named"), named);
        }
        if self.discover {
            settings.datasets.insert(Name::nearest("discovered"), of_file);
        }
        settings
    }
}

/// The datasets that a channel's settings name.
fn paths(given: &ChannelSettings) -> impl Iterator<Item = &String> {
    given.path.iter().chain(given.levels.iter().map(|level| &level.path))
}
