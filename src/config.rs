//! The configuration: flags, environment and file are parsed into [`Settings`] or a list of faults.
//!
//! Nothing here opens a data file or builds anything that runs: whether a file exists and contains what is
//! claimed is checked by the catalogue. Reading does not stop at the first fault: an invalid value is
//! replaced by its default, the fault is recorded, and reading continues, so that one run reports everything.
//!
//! Flags override the environment, which overrides the file, which overrides the defaults. The `config` crate
//! merges these layers (`layers`); `reader` walks the result along the table of `keys`, from which
//! [`example()`] is generated too.

mod access;
mod address;
mod datasets;
mod example;
mod fixed;
mod keys;
mod layers;
mod memory;
mod network;
mod reader;
mod redis;
mod server;
mod settings;
mod toml_file;
mod values;

pub use address::{BindAddress, NotAnAddress};
pub use example::example;
pub use fixed::keep_fixed;
pub use memory::Memory;
pub use network::{Network, NotANetwork, Proxy};
pub use redis::{NotARedisAddress, RedisAddress};
pub use settings::{
    AccessSettings, Caches, ChannelSettings, ContentType, DatasetSettings, Files, IdentityRule,
    LevelSettings, Log, LogFormat, Mount, Render, Server, Settings, Tls, Verify,
};

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::name::Name;
use reader::{Notes, Section};

/// The configuration file that is read if none is named and no data file is given.
pub const DEFAULT_FILE: &str = "voltile.toml";

/// The unparsed sources of settings.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The configuration file (`--config`).
    pub config: Option<PathBuf>,
    /// Data files to serve without a configuration, each under its file stem (`serve FILE ...`).
    pub files: Vec<PathBuf>,
    /// The same, for files found in folders: they may be left out if they cannot be opened.
    pub found: Vec<PathBuf>,
    /// The folders that were searched: files in those below are told apart by the names of these.
    pub folders: Vec<PathBuf>,
    /// The tokens of files that were found before. Each keeps its own, and no other gets it.
    pub known: BTreeMap<PathBuf, Name>,
    /// Environment variables; those of the form `VOLTILE_SECTION__KEY` are read, the others ignored.
    pub env: Vec<(String, String)>,
    /// `KEY=VALUE` from `--set`; later ones win.
    pub set: Vec<String>,
    /// The addresses from `--bind`; override everything unless there are none.
    pub bind: Vec<String>,
    /// The memory that this process may use, from which defaults are computed; `None`: it is plentiful.
    pub memory: Option<Memory>,
}

impl Layers {
    /// The environment of this process, and nothing else.
    pub fn of_process() -> Self {
        let text = |part: OsString| part.to_string_lossy().into_owned();
        let env = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
        Self { env, ..Self::default() }
    }

    /// Adds [`DEFAULT_FILE`] if it exists and neither a configuration nor a data file was named.
    pub fn or_default_file(mut self) -> Self {
        if self.config.is_none() && self.files.is_empty() && Path::new(DEFAULT_FILE).is_file() {
            self.config = Some(PathBuf::from(DEFAULT_FILE));
        }
        self
    }
}

/// One error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The key's path, such as `datasets.kasthuri11.channels.image.window`; for text that cannot be parsed at
    /// all, the file, the variable or the flag.
    pub key: String,
    /// What is wrong, what is expected, and the place of the setting.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

/// The result of reading a configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded {
    /// The settings, with defaults in place of faulty values. Not to be served if there are faults.
    pub settings: Settings,
    /// All errors, sorted by key.
    pub faults: Vec<Fault>,
    /// Settings without effect, which are probably mistakes, sorted by key. They do not prevent starting.
    pub warnings: Vec<Fault>,
    /// Why a server cannot do with the memory there is. Other commands may.
    pub shortage: Option<Fault>,
}

/// Reads a whole configuration. Data files are not opened; `file` is resolved, not checked for existence.
pub fn load(layers: &Layers) -> Loaded {
    let mut notes = Notes::default();
    let merged = layers::merge(layers, &mut notes);
    let mut root = Section::open(String::new(), Some(&merged.tree), keys::ROOT, &mut notes);
    let mut settings = Settings::default();
    let base = layers.config.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    server::read(&mut root, base, &mut settings);
    settings.access = access::read(&mut root, base);
    settings.datasets = datasets::read(&mut root, base, &merged.files);
    let shortage = layers.memory.and_then(|all| memory::divide(all, &merged.tree, &mut settings, &mut notes));
    let (faults, warnings) = notes.sorted();
    Loaded { settings, faults, warnings, shortage }
}

#[cfg(test)]
mod tests;
