//! The configuration: flags, environment and file are parsed into [`Settings`] or a list of faults.
//!
//! Nothing here opens a data file or builds anything that runs: whether a file exists and contains
//! what is claimed is checked by the catalogue. Reading does not stop at the first fault: an
//! invalid value is replaced by its default, the fault is recorded, and reading continues, so that
//! one run reports everything.
//!
//! Flags override the environment, which overrides the file, which overrides the defaults. The
//! `config` crate merges these layers (`layers`); `reader` walks the result along a table of
//! settings, each with its key, its explanation, its parser, its place in [`Settings`], and whether
//! a reload applies it. [`example()`] and [`keep_fixed`] walk along the same table, and tests
//! compare the manual with it. The defaults are those of the types; a test compares them with the
//! table.
//!
//! The values are not deserialized by serde, because it stops at the first error: this reader
//! reports all of them at once, each with its line.

mod access;
mod address;
mod datasets;
mod example;
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
pub use layers::{DEFAULT_FILE, Layers};
pub use memory::Memory;
pub use network::{Network, NotANetwork, Proxy};
pub use reader::Fault;
pub use redis::{NotARedisAddress, RedisAddress};
pub use settings::{
    AccessSettings, Caches, ChannelSettings, ContentType, DatasetSettings, Files, IdentityRule,
    LevelSettings, Log, LogFormat, Mount, NamesSettings, Render, Server, Settings, Tls, Verify,
};

use std::path::Path;

use keys::Key;
use reader::{Notes, Section, Setting};

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
    /// Why a server cannot do with the memory there is. Other commands may.
    pub shortage: Option<Fault>,
}

/// All settings, in the order of the example. Relative paths in the configuration file are relative
/// to `base`.
fn table(base: &Path) -> Vec<Setting<Settings>> {
    vec![
        Key::table(
            "server",
            "HTTP.",
            server::server(base),
            |s: &mut Settings| &mut s.server,
        ),
        Key::table(
            "cache",
            "Cache sizes: bytes, or \"KiB\", \"MiB\", \"GiB\".",
            server::cache(base),
            |s| &mut s.cache,
        ),
        Key::table("render", "Rendering.", server::render(), |s| &mut s.render),
        Key::table(
            "files",
            "How HDF5 files are opened.",
            server::files(),
            |s| &mut s.files,
        ),
        Key::table("log", "The log on standard error.", server::log(), |s| {
            &mut s.log
        }),
        access::access(base),
        datasets::datasets(base),
    ]
}

/// Reads a whole configuration. Data files are not opened; `file` is resolved, not checked for
/// existence.
pub fn load(layers: &Layers) -> Loaded {
    let base = layers
        .config
        .as_deref()
        .and_then(Path::parent)
        .unwrap_or(Path::new(""));
    let (table, mut notes) = (table(base), Notes::default());
    let merged = layers::merge(layers, &reader::keys(&table), &mut notes);
    let mut settings = Settings {
        datasets: merged.files,
        ..Settings::default()
    };
    Section::read(
        String::new(),
        Some(&merged.tree),
        &table,
        &mut settings,
        &mut notes,
    );
    for (token, dataset) in &mut settings.datasets {
        dataset.access = access::rules_of(token, &settings.access);
    }
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

/// Gives those settings back their old values that a running server cannot change; returns their
/// keys.
pub fn keep_fixed(started: &Settings, settings: &mut Settings) -> Vec<String> {
    reader::keep_fixed(&table(Path::new("")), &mut started.clone(), settings)
}

/// A complete configuration file with every key explained. It is valid as it is, and with every key
/// uncommented.
pub fn example() -> String {
    example::write(&reader::keys(&table(Path::new(""))))
}

#[cfg(test)]
mod tests;
