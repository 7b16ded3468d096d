//! The configuration: flags, environment and file are parsed into [`Settings`] or a list of faults.
//!
//! Nothing here opens a data file or builds anything that runs: the catalogue checks whether a file
//! exists and has the contents that the settings claim. Reading does not stop at the first fault:
//! an invalid value is replaced by its default, the fault is recorded, and reading continues, so
//! that one run reports everything.
//!
//! Flags override the environment, which overrides the file, which overrides the defaults. `layers`
//! merges these layers, and serde reads the result into the settings (`tree`), which have the
//! defaults and check themselves. Afterwards `check` compares several settings. `example.toml`
//! explains every key; tests compare it with the settings and with the manual.

mod address;
mod check;
mod faults;
mod layers;
mod memory;
mod network;
mod redis;
mod restart;
mod settings;
mod toml_file;
mod tree;
mod values;

pub use address::BindAddress;
pub use faults::{Fault, is_bare_key};
pub use layers::Layers;
pub use memory::Memory;
pub use network::Proxy;
pub use redis::RedisAddress;
pub use restart::restart_only;
pub use settings::{
    AccessSettings, Caches, ChannelSettings, ContentType, DatasetSettings, Files, IdentityRule,
    LevelSettings, Log, LogFormat, Mount, NamesSettings, Render, Server, Settings, Tls,
};

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use faults::Notes;
use voltile_base::name::{Name, Pattern};
use voltile_base::tile::Fingerprint;

/// A complete configuration file with every key explained. It is valid as it is, and with every key
/// uncommented.
pub const EXAMPLE: &str = include_str!("config/example.toml");

/// The result of reading a configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded {
    /// The settings, with defaults in place of faulty values. Not to be served if there are faults.
    pub settings: Settings,
    /// All errors, sorted by key.
    pub faults: Vec<Fault>,
    /// Settings without effect, which are probably mistakes, sorted by key. They do not prevent
    /// starting.
    pub warnings: Vec<Fault>,
    /// Why the memory is too small for a server. Other commands may need less.
    pub shortage: Option<Fault>,
}

/// Reads a whole configuration. Data files are not opened; `file` is resolved, not checked for
/// existence.
pub fn load(layers: &Layers) -> Loaded {
    let mut notes = Notes::default();
    let Some(merged) = layers::merge(layers, &mut notes) else {
        let (faults, warnings) = notes.sorted();
        return Loaded {
            faults,
            warnings,
            ..Loaded::default()
        };
    };
    check::check_names(&merged.tree, &mut notes);
    let mut settings = tree::read(merged.tree.clone(), &mut notes);
    let base = layers.config.as_deref().and_then(Path::parent);
    for dataset in settings.datasets.values_mut() {
        dataset.below = folder_below(dataset, base).unwrap_or_default();
    }
    // Files named on the command line or found in folders. The environment and flags may set keys
    // of their datasets, even `file`.
    for (token, named) in merged.files {
        let dataset = settings.datasets.entry(token).or_default();
        dataset.file = dataset.file.take().or(named.file);
        dataset.found_in = named.found_in;
        dataset.below = PathBuf::new();
    }
    for (token, dataset) in &mut settings.datasets {
        dataset.access = rules_of(token, &settings.access);
    }
    check::check(&settings, &mut notes);
    let shortage = layers
        .memory
        .and_then(|all| memory::divide(all, &merged.tree, &mut settings, &mut notes));
    let (faults, warnings) = notes.sorted();
    Loaded {
        settings,
        faults,
        warnings,
        shortage,
    }
}

/// A digest of the patterns that protect a dataset; `None`: no pattern matches its token, so it is
/// public. Changes of other patterns and of secrets do not change the digest.
fn rules_of(token: &Name, entries: &[AccessSettings]) -> Option<Fingerprint> {
    let patterns = entries.iter().flat_map(|entry| &entry.datasets);
    let matching = patterns.filter(|pattern| pattern.matches(token));
    let texts: BTreeSet<&str> = matching.map(Pattern::as_str).collect();
    (!texts.is_empty()).then(|| Fingerprint::digest(&texts))
}

/// The path of the folder of a dataset's file below `base`, the folder of the configuration: `data`
/// for the file `data/a.h5`. `None` if the file lies elsewhere, such as in `../a.h5`.
fn folder_below(dataset: &DatasetSettings, base: Option<&Path>) -> Option<PathBuf> {
    let file = dataset.file.as_ref()?.path()?;
    let path = file
        .parent()?
        .strip_prefix(base.unwrap_or(Path::new("")))
        .ok()?;
    let mut folder = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => folder.push(name),
            _ => return None,
        }
    }
    Some(folder)
}

#[cfg(test)]
mod tests;
