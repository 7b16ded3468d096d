//! Merges the layers: data files named on the command line, the file, the environment, the flags.
//!
//! The `config` crate merges them. It parses the keys that it is given: a token such as `FlyEM.v1`
//! would be split at its dot. So every layer is one tree below a single plain key; the crate merges
//! these trees key by key, and does not parse the keys in them. The configuration file is the only
//! file read; its values are interpreted elsewhere.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use config::{Config, ConfigError, Map, Source, Value, ValueKind};
use voltile_base::name::Name;
use voltile_hdf5::store::Location;
use voltile_hdf5::store::address::Address;

use super::faults::Notes;
use super::memory::Memory;
use super::settings::DatasetSettings;
use super::toml_file;
use super::tree::has_known_keys;
use super::values;

/// The configuration file that is read if none is named and no data file is given.
const DEFAULT_FILE: &str = "voltile.toml";

/// The single key above every layer while they are merged.
const TOP: &str = "voltile";
/// Prefix of the environment variables that are read.
const PREFIX: &str = "VOLTILE_";
/// Separates the levels of a key in an environment variable.
const BETWEEN: &str = "__";
/// The tables that hold settings directly, unlike `access` and `datasets`.
const SECTIONS: [&str; 5] = ["server", "cache", "render", "files", "log"];

/// The keys whose values are paths of files, which in the configuration file are relative to its
/// folder; for the stars see [`for_each_at`].
const PATHS: [&[&str]; 9] = [
    &["server", "unix_socket"],
    &["server", "tls", "certificate"],
    &["server", "tls", "key"],
    &["cache", "directory"],
    &["access", "*", "secrets"],
    &["datasets", "*", "file"],
    &["datasets", "*", "channels", "*", "file"],
    &["datasets", "*", "channels", "*", "names"],
    &["datasets", "*", "channels", "*", "names", "file"],
];

/// The unparsed sources of settings.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The configuration file (`--config`).
    pub config: Option<PathBuf>,
    /// Data files to serve without a configuration, each under its file stem (`serve FILE ...`).
    pub files: Vec<Location>,
    /// Data files found in folders. A file that cannot be opened is left out.
    pub found: Vec<PathBuf>,
    /// The folders that were searched. Files with the same stem are told apart by the names of the
    /// folders below these.
    pub folders: Vec<PathBuf>,
    /// The tokens of files that earlier searches found. Each file keeps its token, and no other
    /// file gets it.
    pub known: BTreeMap<PathBuf, Name>,
    /// Environment variables; a variable is read if its name has the form `VOLTILE_SECTION__KEY`,
    /// and ignored otherwise.
    pub env: Vec<(String, String)>,
    /// `KEY=VALUE` from `--set`; later ones win.
    pub set: Vec<String>,
    /// The addresses from `--bind`. If there are any, no other setting of `server.bind` counts.
    pub bind: Vec<String>,
    /// The memory that this process may use, which limits the default sizes; `None`: nothing
    /// limits them.
    pub memory: Option<Memory>,
}

impl Layers {
    /// The environment of this process, and nothing else.
    pub fn of_process() -> Self {
        let env = std::env::vars_os()
            .map(|(name, value)| (lossy(&name), lossy(&value)))
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

fn lossy(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// All layers merged.
pub(super) struct MergedLayers {
    /// The keys of all layers: a table of tables.
    pub tree: Value,
    /// The data files named on the command line or found in folders, by their tokens.
    pub files: BTreeMap<Name, DatasetSettings>,
}

/// One layer: a tree below [`TOP`].
#[derive(Debug, Clone)]
struct SettingsLayer(Value);

impl Source for SettingsLayer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(Map::from([(TOP.to_owned(), self.0.clone())]))
    }
}

/// Reads and merges the layers. A flag that cannot be read is a fault, and left out. If the
/// configuration file cannot be read, nothing is merged.
pub(super) fn merge(layers: &Layers, notes: &mut Notes) -> Option<MergedLayers> {
    let mut file = table([]);
    if let Some(path) = &layers.config {
        match read_file(path) {
            Ok(tree) => file = tree,
            Err(problem) => {
                notes.fault(path.display().to_string(), problem);
                return None;
            }
        }
    }
    let files = datasets_of_files(layers, &file);
    let named = files
        .keys()
        .map(|token| nest(&["datasets", token.as_str()], table([])));
    let lower: Vec<Value> = named.chain([file]).collect();
    // Environment variables may name datasets and channels of the lower layers in any case
    // (upper or lower).
    let known = merged(lower.clone(), notes);
    let upper = environment(&layers.env, &known, notes)
        .into_iter()
        .chain(flags(layers, notes));
    let mut tree = merged(lower.into_iter().chain(upper), notes);
    expand_short_forms(&mut tree);
    Some(MergedLayers { tree, files })
}

/// Replaces the short forms of values by the long ones: `levels = ["/a"]` by
/// `levels = [{ path = "/a" }]`.
fn expand_short_forms(tree: &mut Value) {
    let levels = ["datasets", "*", "channels", "*", "levels", "*"];
    for_each_at(tree, &levels, &mut |value| wrap_text(value, "path"));
    let names = ["datasets", "*", "channels", "*", "names"];
    for_each_at(tree, &names, &mut |value| wrap_text(value, "file"));
}

/// Turns a text into a table that holds it under `key`; leaves other values as they are.
fn wrap_text(value: &mut Value, key: &str) {
    if matches!(value.kind, ValueKind::String(_)) {
        *value = table([(key.to_owned(), value.clone())]);
    }
}

/// Calls `change` with every value at a path of keys. A star stands for every name and every item
/// of a list.
fn for_each_at(tree: &mut Value, keys: &[&str], change: &mut dyn FnMut(&mut Value)) {
    let Some((first, rest)) = keys.split_first() else {
        change(tree);
        return;
    };
    let values: Vec<&mut Value> = match (*first, &mut tree.kind) {
        ("*", ValueKind::Table(table)) => table.values_mut().collect(),
        ("*", ValueKind::Array(items)) => items.iter_mut().collect(),
        (key, ValueKind::Table(table)) => table.get_mut(key).into_iter().collect(),
        _ => Vec::new(),
    };
    for value in values {
        for_each_at(value, rest, change);
    }
}

fn merged(layers: impl IntoIterator<Item = Value>, notes: &mut Notes) -> Value {
    let mut builder = Config::builder();
    for tree in layers {
        builder = builder.add_source(SettingsLayer(tree));
    }
    match builder.build().map(|config| config.cache.kind) {
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
fn nest<K: ToString>(path: &[K], mut value: Value) -> Value {
    for key in path.iter().rev() {
        value = table([(key.to_string(), value)]);
    }
    value
}

/// The value of a key; `None` unless `tree` is a table with this key.
pub(super) fn value_of<'v>(tree: Option<&'v Value>, key: &str) -> Option<&'v Value> {
    match &tree?.kind {
        ValueKind::Table(table) => table.get(key),
        _ => None,
    }
}

/// The tree of the configuration file, with its relative paths below its directory.
fn read_file(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let mut tree = toml_file::tree(&text)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let base = folder.to_str().ok_or(
        "the path of its directory must be Unicode, because paths in the file are relative to it",
    )?;
    for keys in PATHS {
        for_each_at(&mut tree, keys, &mut |value| {
            if let ValueKind::String(path) = &mut value.kind
                && !path.is_empty()
                && Address::parsed(path).is_none()
            {
                *path = Path::new(base).join(&*path).to_string_lossy().into_owned();
            }
        });
    }
    Ok(tree)
}

/// The data files served without configuration, by tokens that the configuration does not have.
fn datasets_of_files(layers: &Layers, file: &Value) -> BTreeMap<Name, DatasetSettings> {
    let configured = value_of(Some(file), "datasets");
    let named = layers.files.iter().map(|file| (file.clone(), None));
    let paths = layers.found.iter();
    let found = paths.map(|path| (Location::from(path.as_path()), Some(path)));
    // The path of a file is given only if the file was found in a folder.
    let files: Vec<(Location, Option<&PathBuf>)> = named.chain(found).collect();
    let mut stems: BTreeMap<Name, usize> = BTreeMap::new();
    for (file, _) in &files {
        *stems.entry(stem_of(file)).or_default() += 1;
    }
    let mut datasets: BTreeMap<Name, DatasetSettings> = BTreeMap::new();
    for (file, found_path) in files {
        let is_taken = |name: &Name| {
            datasets.contains_key(name)
                || layers.known.values().any(|known| known == name)
                || value_of(configured, name.as_str()).is_some()
        };
        // The served folders' own names do not become parts of tokens.
        let folder = found_path
            .and_then(|path| path.parent())
            .filter(|folder| layers.folders.iter().all(|served| served != folder));
        let is_alone = stems.get(&stem_of(&file)) == Some(&1);
        let token = match found_path.and_then(|path| layers.known.get(path)) {
            Some(token) => token.clone(),
            None => token_of(&file, folder, is_alone, is_taken),
        };
        let dataset = DatasetSettings {
            found_in: found_path.map(|path| below_served(path, &layers.folders).to_owned()),
            ..DatasetSettings::of_file(file)
        };
        datasets.insert(token, dataset);
    }
    datasets
}

/// The path of a file's folder below the served folder in which it was found; empty for the served
/// folder itself.
fn below_served<'a>(file: &'a Path, served_folders: &[PathBuf]) -> &'a Path {
    let folder = file.parent().unwrap_or(Path::new(""));
    served_folders
        .iter()
        .find_map(|served| folder.strip_prefix(served).ok())
        .unwrap_or(Path::new(""))
}

/// The token of a file: its stem, if no other file has this stem (`is_alone`) and it is not taken.
/// Otherwise the name of the folder precedes the stem; if the result is taken too, `_2`, `_3`, …
/// follow. For example `raw` for `a/b/raw.h5`, but `b.raw` if there is `a/c/raw.h5`, too.
fn token_of(
    file: &Location,
    folder: Option<&Path>,
    is_alone: bool,
    is_taken: impl Fn(&Name) -> bool,
) -> Name {
    let stem = stem_of(file);
    if is_alone && !is_taken(&stem) {
        return stem;
    }
    let base = match folder.and_then(Path::file_name) {
        Some(name) => Name::nearest(&format!("{}.{stem}", name.to_string_lossy())),
        None => stem,
    };
    let numbered = (2_u64..).map(|number| Name::nearest(&format!("{base}_{number}")));
    std::iter::once(base.clone())
        .chain(numbered)
        .find(|name| !is_taken(name))
        .unwrap_or(base)
}

/// The file's stem, converted to a valid token; `_` follows a name that cannot be a token.
fn stem_of(file: &Location) -> Name {
    let nearest = Name::nearest(&file.stem().unwrap_or_default());
    if values::token(nearest.as_str()).is_ok() {
        nearest
    } else {
        Name::nearest(&format!("{nearest}_"))
    }
}

/// The trees of the flags: every `--set` in order, then every `--bind` as one list.
fn flags(layers: &Layers, notes: &mut Notes) -> Vec<Value> {
    let set = layers.set.iter();
    let mut trees: Vec<Value> = set.filter_map(|text| set_flag(text, notes)).collect();
    if !layers.bind.is_empty() {
        let origin = "--bind".to_owned();
        let bind = layers.bind.iter();
        let addresses = bind.map(|text| Value::new(Some(&origin), text.as_str()));
        let list = Value::new(Some(&origin), ValueKind::Array(addresses.collect()));
        trees.push(nest(&["server", "bind"], list));
    }
    trees
}

/// The tree of one `--set`: `{ render = { threads = 4 } }` for `render.threads=4`.
fn set_flag(text: &str, notes: &mut Notes) -> Option<Value> {
    if let Some((key, value)) = text.split_once('=')
        && let Some(path) = toml_file::dotted_key(key)
    {
        return Some(nest(&path, toml_file::value_or_text(value, "--set")));
    }
    let problem = "is not KEY=VALUE; write for example render.threads=4, or 'datasets.\"FlyEM.v1\".scaling=isotropic'";
    notes.fault(format!("--set {text}"), problem);
    None
}

/// The variables with two underscores between levels, each as a tree. An empty variable counts as
/// not set.
fn environment(variables: &[(String, String)], known: &Value, notes: &mut Notes) -> Vec<Value> {
    let not_empty = variables.iter().filter(|(_, value)| !value.is_empty());
    let mut variables: Vec<_> = not_empty.collect();
    variables.sort();
    let mut trees = Vec::new();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if rest.contains(BETWEEN) {
            trees.push(nest(
                &variable_path(rest, known),
                toml_file::value_or_text(value, name),
            ));
        } else if let Some(meant) = single_underscore(rest) {
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

/// The path of keys that a variable refers to: `render`, `threads` for `RENDER__THREADS`. `known`
/// has the datasets and channels of the lower layers.
fn variable_path(rest: &str, known: &Value) -> Vec<String> {
    let mut tree = Some(known);
    let mut path: Vec<String> = Vec::new();
    for segment in rest.split(BETWEEN) {
        let above: Vec<&str> = path.iter().map(String::as_str).collect();
        let key = match above.as_slice() {
            ["datasets"] | ["datasets", _, "channels"] => known_name(segment, tree),
            _ => segment.to_ascii_lowercase(),
        };
        tree = value_of(tree, &key);
        path.push(key);
    }
    path
}

/// The name of a dataset or a channel that a segment of a variable refers to: a known name that
/// differs from the segment at most in case; otherwise the segment as it is written, or in lower
/// case if it has no small letters.
fn known_name(segment: &str, tree: Option<&Value>) -> String {
    if value_of(tree, segment).is_some() {
        return segment.to_owned();
    }
    if let Some(ValueKind::Table(table)) = tree.map(|tree| &tree.kind) {
        let alike = table
            .keys()
            .filter(|name| name.eq_ignore_ascii_case(segment));
        if let Some(name) = alike.min() {
            return name.clone();
        }
    }
    if segment.bytes().any(|byte| byte.is_ascii_lowercase()) {
        segment.to_owned()
    } else {
        segment.to_ascii_lowercase()
    }
}

/// The variable that was probably meant by a name with a single underscore between section and key.
fn single_underscore(rest: &str) -> Option<String> {
    let (section, key) = rest.split_once('_')?;
    let path = [section, key].map(str::to_ascii_lowercase);
    let is_section = SECTIONS.contains(&path[0].as_str());
    if !is_section || !has_known_keys(&nest(&path, Value::default())) {
        return None;
    }
    Some(format!("{PREFIX}{section}{BETWEEN}{key}"))
}
