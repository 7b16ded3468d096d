//! The configuration, as typed → as meant: flags, environment and file become [`Settings`], or a list of faults.
//!
//! Nothing here opens a data file or builds what will run: whether a file is there and holds what is claimed is the
//! catalogue's to find out. The odd one: reading never stops at the first fault. Every value that is wrong is left
//! at its default, the fault is written down, and reading goes on, so that one run tells everything.
//!
//! Flags win over the environment, which wins over the file, which wins over the defaults. The `config` crate lays
//! these over one another (`layers`); `reader` walks the result along the table of `keys`, from which
//! [`example()`] is written too.

mod address;
mod datasets;
mod example;
mod keys;
mod layers;
mod network;
mod reader;
mod server;
mod settings;
mod toml_file;
mod values;

pub use address::{BindAddress, NotAnAddress};
pub use example::example;
pub use network::{Network, NotANetwork};
pub use settings::{
    Caches, ChannelSettings, ContentType, DatasetSettings, Files, LevelSettings, Mount, Render, Server,
    Settings, Verify,
};

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use reader::{Notes, Section};

/// The configuration file that is read where none is named and no data file is given.
pub const DEFAULT_FILE: &str = "voltile.toml";

/// Where settings come from, as typed.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The configuration file (`--config`).
    pub config: Option<PathBuf>,
    /// Data files to serve without any configuration, each under its stem (`serve FILE ...`).
    pub files: Vec<PathBuf>,
    /// Environment variables; those of the form `VOLTILE_SECTION__KEY` are read, the others ignored.
    pub env: Vec<(String, String)>,
    /// `KEY=VALUE` as after `--set`; later ones win.
    pub set: Vec<String>,
    /// The address as after `--bind`; wins over everything.
    pub bind: Option<String>,
}

impl Layers {
    /// The environment of this process, and nothing else.
    pub fn of_process() -> Self {
        let text = |part: OsString| part.to_string_lossy().into_owned();
        let env = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
        Self { env, ..Self::default() }
    }

    /// Adds [`DEFAULT_FILE`], where it is there and neither a configuration nor a data file was named.
    pub fn or_default_file(mut self) -> Self {
        if self.config.is_none() && self.files.is_empty() && Path::new(DEFAULT_FILE).is_file() {
            self.config = Some(PathBuf::from(DEFAULT_FILE));
        }
        self
    }
}

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The key's path, such as `datasets.kasthuri11.channels.image.window`; for a text that cannot be read at all,
    /// the file, the variable or the flag.
    pub key: String,
    /// What is wrong, what would be right, and where it was said.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

/// What came of reading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded {
    /// The settings; where a value is at fault, its default stands in. Not to be served if there are faults.
    pub settings: Settings,
    /// Everything that is wrong, sorted by key.
    pub faults: Vec<Fault>,
    /// What has no effect and was probably meant otherwise, sorted by key. No reason not to start.
    pub warnings: Vec<Fault>,
}

/// Reads a whole configuration. Data files are not opened; `file` is resolved, not looked for.
pub fn load(layers: &Layers) -> Loaded {
    let mut notes = Notes::default();
    let merged = layers::merge(layers, &mut notes);
    let mut root = Section::open(String::new(), Some(&merged.tree), keys::ROOT, &mut notes);
    let mut settings = Settings::default();
    let base = layers.config.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    server::read(&mut root, base, &mut settings);
    settings.datasets = datasets::read(&mut root, base, &merged.files);
    let (faults, warnings) = notes.sorted();
    Loaded { settings, faults, warnings }
}

#[cfg(test)]
mod tests;
