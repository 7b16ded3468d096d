//! Merges the layers: data files named on the command line, the file, the environment, the flags.
//!
//! The `config` crate merges them. Its keys are path expressions, in which dots split and brackets
//! index; a token such as `FlyEM.v1` must survive. So every layer is one tree below a single plain
//! key, and the crate merges what is below it key by key, unparsed. The configuration file is the
//! only file read; its values are interpreted elsewhere.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use config::{Config, ConfigError, Map, Source, Value, ValueKind};

use super::keys::{self, Key, Shape};
use super::memory::Memory;
use super::reader::Notes;
use super::settings::DatasetSettings;
use super::toml_file::{self, Document};
use super::values;
use crate::base::name::Name;
use crate::store::Location;

/// The configuration file that is read if none is named and no data file is given.
pub const DEFAULT_FILE: &str = "voltile.toml";

/// The single key above every layer while they are merged.
const TOP: &str = "voltile";
/// Prefix of the environment variables that are read.
const PREFIX: &str = "VOLTILE_";
/// Separates the levels of a key in an environment variable.
const BETWEEN: &str = "__";

/// The unparsed sources of settings.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The configuration file (`--config`).
    pub config: Option<PathBuf>,
    /// Data files to serve without a configuration, each under its file stem (`serve FILE ...`).
    pub files: Vec<Location>,
    /// Data files found in folders. A file that cannot be opened is left out.
    pub found: Vec<PathBuf>,
    /// The folders that were searched: files in those below are told apart by the names of these.
    pub folders: Vec<PathBuf>,
    /// The tokens of files that were found before. Each keeps its own, and no other gets it.
    pub known: BTreeMap<PathBuf, Name>,
    /// Environment variables; those of the form `VOLTILE_SECTION__KEY` are read, the others
    /// ignored.
    pub env: Vec<(String, String)>,
    /// `KEY=VALUE` from `--set`; later ones win.
    pub set: Vec<String>,
    /// The addresses from `--bind`; override everything unless there are none.
    pub bind: Vec<String>,
    /// The memory that this process may use, from which defaults are computed; `None`: it is
    /// plentiful.
    pub memory: Option<Memory>,
}

impl Layers {
    /// The environment of this process, and nothing else.
    pub fn of_process() -> Self {
        let text = |part: OsString| part.to_string_lossy().into_owned();
        let env = std::env::vars_os()
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        Self {
            env,
            ..Self::default()
        }
    }

    /// Adds [`DEFAULT_FILE`] if it exists and neither a configuration nor a data file was named.
    pub fn or_default_file(mut self) -> Self {
        if self.config.is_none() && self.files.is_empty() && Path::new(DEFAULT_FILE).is_file() {
            self.config = Some(PathBuf::from(DEFAULT_FILE));
        }
        self
    }
}

/// All layers merged.
pub(super) struct Merged {
    /// A table.
    pub tree: Value,
    /// The data files named on the command line, and those found in folders, by their tokens.
    pub files: BTreeMap<Name, DatasetSettings>,
}

/// One layer: a tree below [`TOP`].
#[derive(Debug, Clone)]
struct Layer(Value);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(Map::from([(TOP.to_owned(), self.0.clone())]))
    }
}

/// Reads and merges the layers. A layer that cannot be read is a fault, and the rest is merged
/// without it.
pub(super) fn merge(layers: &Layers, keys: &[Key], notes: &mut Notes) -> Merged {
    let document = layers.config.as_deref().map(|path| read_file(path, notes));
    let file = document.map_or_else(|| table([]), |document| document.tree);
    let files = tokens(layers, &file);
    let named = files
        .keys()
        .map(|token| nest(&["datasets", token.as_str()], table([])));
    let below: Vec<Value> = named.chain([file]).collect();
    let known = merged(below.clone(), notes);
    let above = environment(&layers.env, &known, keys, notes)
        .into_iter()
        .chain(flags(layers, notes));
    Merged {
        tree: merged(below.into_iter().chain(above), notes),
        files,
    }
}

fn merged(layers: impl IntoIterator<Item = Value>, notes: &mut Notes) -> Value {
    let builder = layers.into_iter().fold(Config::builder(), |builder, tree| {
        builder.add_source(Layer(tree))
    });
    let root = builder.build().map(|config| config.cache.kind);
    match root {
        Ok(ValueKind::Table(mut table)) => table.remove(TOP).unwrap_or_default(),
        Ok(_) => Value::default(),
        Err(error) => {
            notes.fault("configuration", error.to_string());
            Value::default()
        }
    }
}

fn table<const N: usize>(entries: [(String, Value); N]) -> Value {
    Value::new(None, ValueKind::Table(Map::from(entries)))
}

/// A tree with `value` at a path of keys.
fn nest<K: ToString>(path: &[K], value: Value) -> Value {
    path.iter()
        .rev()
        .fold(value, |value, key| table([(key.to_string(), value)]))
}

/// The value of a key; `None` if there is no table or no such key.
fn below<'v>(tree: Option<&'v Value>, key: &str) -> Option<&'v Value> {
    match &tree?.kind {
        ValueKind::Table(table) => table.get(key),
        _ => None,
    }
}

fn read_file(path: &Path, notes: &mut Notes) -> Document {
    let name = path.display().to_string();
    let document = match std::fs::read_to_string(path) {
        Ok(text) => toml_file::document(&text),
        Err(error) => Document {
            tree: table([]),
            mistakes: vec![format!("cannot be read: {error}")],
        },
    };
    notes.incomplete = !document.mistakes.is_empty();
    for mistake in &document.mistakes {
        notes.fault(&name, mistake);
    }
    document
}

/// The tokens of data files served without configuration; those of the configuration are taken.
fn tokens(layers: &Layers, file: &Value) -> BTreeMap<Name, DatasetSettings> {
    let configured = below(Some(file), "datasets");
    let mut tokens = BTreeMap::new();
    let mut stems: BTreeMap<Name, usize> = BTreeMap::new();
    let found = layers
        .found
        .iter()
        .map(|path| (Location::from(path.as_path()), true));
    let files: Vec<(Location, bool)> = layers
        .files
        .iter()
        .map(|file| (file.clone(), false))
        .chain(found)
        .collect();
    for (file, _) in &files {
        *stems.entry(stem_of(file)).or_default() += 1;
    }
    for (file, is_optional) in files {
        let is_known = |name: &Name| layers.known.values().any(|known| known == name);
        let taken = |name: &Name| {
            tokens.contains_key(name)
                || is_known(name)
                || below(configured, name.as_str()).is_some()
        };
        let path = file.path().filter(|_| is_optional);
        let known = path.and_then(|path| layers.known.get(path)).cloned();
        let folder = path.and_then(Path::parent);
        let folder = folder.filter(|folder| !layers.folders.iter().any(|one| one == folder));
        let is_alone = stems.get(&stem_of(&file)) == Some(&1);
        let token = known.unwrap_or_else(|| token_of(&file, folder, is_alone, taken));
        let found_in = path.map(|path| below_served(path, &layers.folders).to_owned());
        let dataset = DatasetSettings {
            found_in,
            ..DatasetSettings::of_file(file)
        };
        tokens.insert(token, dataset);
    }
    tokens
}

/// The path of a file's folder below the served folder in which it was found; empty for the served
/// folder itself.
fn below_served<'a>(file: &'a Path, served: &[PathBuf]) -> &'a Path {
    let folder = file.parent().unwrap_or(Path::new(""));
    served
        .iter()
        .find_map(|served| folder.strip_prefix(served).ok())
        .unwrap_or(Path::new(""))
}

/// The file's stem, converted to a valid token. Unless it `is_alone` and not `taken`, the name of
/// its folder, if that is to be used, comes before it. That is followed by `_2`, `_3`, … if
/// `taken`.
fn token_of(
    file: &Location,
    folder: Option<&Path>,
    is_alone: bool,
    taken: impl Fn(&Name) -> bool,
) -> Name {
    let stem = stem_of(file);
    let folder = folder
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned());
    let base = folder.as_ref().map_or_else(
        || stem.clone(),
        |name| Name::nearest(&format!("{name}.{stem}")),
    );
    let first = Some(stem).filter(|_| is_alone || folder.is_none());
    let others = (2_u64..).map(|number| Name::nearest(&format!("{base}_{number}")));
    first
        .into_iter()
        .chain([base.clone()])
        .chain(others)
        .find(|name| !taken(name))
        .unwrap_or(base)
}

/// The file's stem, converted to a valid token.
fn stem_of(file: &Location) -> Name {
    let nearest = Name::nearest(&file.stem().unwrap_or_default());
    if values::token(nearest.as_str()).is_ok() {
        nearest
    } else {
        Name::nearest(&format!("{nearest}_"))
    }
}

/// `--set` in order, then every `--bind` as one list.
fn flags(layers: &Layers, notes: &mut Notes) -> Vec<Value> {
    let mut trees: Vec<Value> = layers
        .set
        .iter()
        .filter_map(|text| set_flag(text, notes))
        .collect();
    if !layers.bind.is_empty() {
        let origin = "--bind".to_owned();
        let addresses = layers
            .bind
            .iter()
            .map(|text| Value::new(Some(&origin), text.as_str()));
        let list = Value::new(Some(&origin), ValueKind::Array(addresses.collect()));
        trees.push(nest(&["server", "bind"], list));
    }
    trees
}

fn set_flag(text: &str, notes: &mut Notes) -> Option<Value> {
    let parts = text
        .split_once('=')
        .and_then(|(key, value)| Some((toml_file::dotted_key(key)?, value)));
    let Some((path, value)) = parts else {
        let problem = "is not KEY=VALUE; write for example render.threads=4, or 'datasets.\"FlyEM.v1\".scaling=isotropic'";
        notes.fault(format!("--set {text}"), problem);
        return None;
    };
    Some(nest(&path, toml_file::value_or_text(value, "--set")))
}

/// The variables with two underscores between levels, each as a tree. Empty ones count as not set.
fn environment(
    variables: &[(String, String)],
    known: &Value,
    keys: &[Key],
    notes: &mut Notes,
) -> Vec<Value> {
    let mut ours: Vec<_> = variables
        .iter()
        .filter_map(|(name, value)| Some((name, name.strip_prefix(PREFIX)?, value)))
        .collect();
    ours.sort();
    let mut trees = Vec::new();
    for (name, rest, value) in ours.into_iter().filter(|(.., value)| !value.is_empty()) {
        if rest.contains(BETWEEN) {
            trees.push(nest(
                &variable_path(rest, known, keys),
                toml_file::value_or_text(value, name),
            ));
        } else if let Some(meant) = single_underscore(rest, keys) {
            notes.warning(
                name,
                format!(
                    "has no effect: levels are separated by two underscores; {meant} would set it"
                ),
            );
        }
    }
    trees
}

/// The key path that a variable name refers to. Keys are lower case. A user-chosen name is the one
/// already known that differs only in case; otherwise as written, or in lower case if all of it is
/// upper case.
fn variable_path(rest: &str, known: &Value, keys: &[Key]) -> Vec<String> {
    let mut place = Place::Keys(keys);
    let mut tree = Some(known);
    let mut path = Vec::new();
    for segment in rest.split(BETWEEN) {
        let key = match place {
            Place::Names(_) => known_name(segment, tree),
            Place::Keys(_) => segment.to_ascii_lowercase(),
        };
        tree = below(tree, &key);
        place = place.below(&key);
        path.push(key);
    }
    path
}

#[derive(Clone, Copy)]
enum Place<'k> {
    Keys(&'k [Key]),
    Names(&'k [Key]),
}

impl Place<'_> {
    fn below(self, key: &str) -> Self {
        match self {
            Place::Names(keys) => Place::Keys(keys),
            Place::Keys(keys) => match keys::find(keys, key) {
                Some(Key {
                    shape: Shape::Named(_, keys),
                    ..
                }) => Place::Names(keys),
                found => Place::Keys(found.map_or(&[], Key::below)),
            },
        }
    }
}

fn known_name(segment: &str, tree: Option<&Value>) -> String {
    let Some(ValueKind::Table(table)) = tree.map(|tree| &tree.kind) else {
        return as_written(segment);
    };
    let alike = || {
        table
            .keys()
            .filter(|name| name.eq_ignore_ascii_case(segment))
            .min()
            .cloned()
    };
    if table.contains_key(segment) {
        segment.to_owned()
    } else {
        alike().unwrap_or_else(|| as_written(segment))
    }
}

fn as_written(segment: &str) -> String {
    let lower = segment.bytes().any(|byte| byte.is_ascii_lowercase());
    if lower {
        segment.to_owned()
    } else {
        segment.to_ascii_lowercase()
    }
}

/// The variable that was meant by a name with a single underscore between section and key.
fn single_underscore(rest: &str, keys: &[Key]) -> Option<String> {
    let (section, key) = keys.iter().find_map(|section| {
        let key = rest
            .strip_prefix(&section.name.to_ascii_uppercase())?
            .strip_prefix('_')?;
        Some((
            section,
            keys::find(section.below(), &key.to_ascii_lowercase())?,
        ))
    })?;
    let plain = matches!(section.shape, Shape::Table(_));
    let meant = format!("{PREFIX}{}{BETWEEN}{}", section.name, key.name).to_ascii_uppercase();
    plain.then_some(meant)
}
