//! Merges the layers: data files named on the command line, the file, the environment, the flags.
//!
//! The `config` crate merges them. Its keys are path expressions, in which dots split and brackets index; a
//! token such as `FlyEM.v1` must survive. So every layer is one tree below a single plain key, and the crate
//! merges what is below it key by key, unparsed. The configuration file is the only file read; its values are
//! interpreted elsewhere.

use std::collections::BTreeMap;
use std::path::Path;

use config::{Config, ConfigError, Map, Source, Value, ValueKind};

use super::keys::{self, Key, Shape};
use super::reader::Notes;
use super::settings::DatasetSettings;
use super::toml_file::{self, Document};
use super::{Layers, values};
use crate::address;
use crate::name::Name;

/// The single key above every layer while they are merged.
const TOP: &str = "voltile";
/// Prefix of the environment variables that are read.
const PREFIX: &str = "VOLTILE_";
/// Separates the levels of a key in an environment variable.
const BETWEEN: &str = "__";

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

/// Reads and merges the layers. A layer that cannot be read is a fault, and the rest is merged without it.
pub(super) fn merge(layers: &Layers, notes: &mut Notes) -> Merged {
    let document = layers.config.as_deref().map(|path| read_file(path, notes));
    let file = document.map_or_else(|| table([]), |document| document.tree);
    let files = tokens(layers, &file);
    let named = files.keys().map(|token| nest(&["datasets", token.as_str()], table([])));
    let below: Vec<Value> = named.chain([file]).collect();
    let known = merged(below.clone(), notes);
    let above = environment(&layers.env, &known, notes).into_iter().chain(flags(layers, notes));
    Merged { tree: merged(below.into_iter().chain(above), notes), files }
}

fn merged(layers: impl IntoIterator<Item = Value>, notes: &mut Notes) -> Value {
    let builder = layers.into_iter().fold(Config::builder(), |builder, tree| builder.add_source(Layer(tree)));
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
    path.iter().rev().fold(value, |value, key| table([(key.to_string(), value)]))
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
        Err(error) => Document { tree: table([]), mistakes: vec![format!("cannot be read: {error}")] },
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
    for path in layers.files.iter().chain(&layers.found) {
        *stems.entry(stem_of(path)).or_default() += 1;
    }
    let named = layers.files.iter().map(|path| (path, false));
    for (path, is_optional) in named.chain(layers.found.iter().map(|path| (path, true))) {
        let is_known = |name: &Name| layers.known.values().any(|known| known == name);
        let taken = |name: &Name| {
            tokens.contains_key(name) || is_known(name) || below(configured, name.as_str()).is_some()
        };
        let known = layers.known.get(path).filter(|_| is_optional).cloned();
        let folder =
            path.parent().filter(|folder| is_optional && !layers.folders.iter().any(|one| one == folder));
        let is_alone = stems.get(&stem_of(path)) == Some(&1);
        let token = known.unwrap_or_else(|| token_of(path, folder, is_alone, taken));
        let dataset = DatasetSettings { is_optional, ..DatasetSettings::of_file(path.clone()) };
        tokens.insert(token, dataset);
    }
    tokens
}

/// The file's stem, converted to a valid token. Unless it `is_alone` and not `taken`, the name of its folder, if that is to
/// be used, comes before it. That is followed by `_2`, `_3`, … if `taken`.
fn token_of(file: &Path, folder: Option<&Path>, is_alone: bool, taken: impl Fn(&Name) -> bool) -> Name {
    let stem = stem_of(file);
    let folder = folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let base = folder.as_ref().map_or_else(|| stem.clone(), |name| Name::nearest(&format!("{name}.{stem}")));
    let first = Some(stem).filter(|_| is_alone || folder.is_none());
    let others = (2_u64..).map(|number| Name::nearest(&format!("{base}_{number}")));
    first.into_iter().chain([base.clone()]).chain(others).find(|name| !taken(name)).unwrap_or(base)
}

/// The file's stem, converted to a valid token.
fn stem_of(file: &Path) -> Name {
    let nearest = Name::nearest(&address::stem(file).unwrap_or_default());
    if values::token(nearest.as_str()).is_ok() { nearest } else { Name::nearest(&format!("{nearest}_")) }
}

/// `--set` in order, then every `--bind` as one list.
fn flags(layers: &Layers, notes: &mut Notes) -> Vec<Value> {
    let mut trees: Vec<Value> = layers.set.iter().filter_map(|text| set_flag(text, notes)).collect();
    if !layers.bind.is_empty() {
        let origin = "--bind".to_owned();
        let addresses = layers.bind.iter().map(|text| Value::new(Some(&origin), text.as_str()));
        let list = Value::new(Some(&origin), ValueKind::Array(addresses.collect()));
        trees.push(nest(&["server", "bind"], list));
    }
    trees
}

fn set_flag(text: &str, notes: &mut Notes) -> Option<Value> {
    let parts = text.split_once('=').and_then(|(key, value)| Some((toml_file::dotted_key(key)?, value)));
    let Some((path, value)) = parts else {
        let problem = "is not KEY=VALUE; write for example render.threads=4, or 'datasets.\"FlyEM.v1\".scaling=isotropic'";
        notes.fault(format!("--set {text}"), problem);
        return None;
    };
    Some(nest(&path, toml_file::value_or_text(value, "--set")))
}

/// The variables with two underscores between levels, each as a tree. Empty ones count as not set.
fn environment(variables: &[(String, String)], known: &Value, notes: &mut Notes) -> Vec<Value> {
    let mut ours: Vec<_> = variables
        .iter()
        .filter_map(|(name, value)| Some((name, name.strip_prefix(PREFIX)?, value)))
        .collect();
    ours.sort();
    let mut trees = Vec::new();
    for (name, rest, value) in ours.into_iter().filter(|(.., value)| !value.is_empty()) {
        if rest.contains(BETWEEN) {
            trees.push(nest(&variable_path(rest, known), toml_file::value_or_text(value, name)));
        } else if let Some(meant) = single_underscore(rest) {
            notes.warning(
                name,
                format!("has no effect: levels are separated by two underscores; {meant} would set it"),
            );
        }
    }
    trees
}

/// The key path that a variable name refers to. Keys are lower case. A user-chosen name is the one already
/// known that differs only in case; otherwise as written, or in lower case if all of it is upper case.
fn variable_path(rest: &str, known: &Value) -> Vec<String> {
    let mut place = Place::Keys(keys::ROOT);
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
enum Place {
    Keys(&'static [Key]),
    Names(&'static [Key]),
}

impl Place {
    fn below(self, key: &str) -> Self {
        match self {
            Place::Names(keys) => Place::Keys(keys),
            Place::Keys(keys) => match keys::find(keys, key) {
                Some(Key { shape: Shape::Named(_, keys), .. }) => Place::Names(keys),
                found => Place::Keys(found.map_or(&[], Key::below)),
            },
        }
    }
}

fn known_name(segment: &str, tree: Option<&Value>) -> String {
    let Some(ValueKind::Table(table)) = tree.map(|tree| &tree.kind) else { return as_written(segment) };
    let alike = || table.keys().filter(|name| name.eq_ignore_ascii_case(segment)).min().cloned();
    if table.contains_key(segment) {
        segment.to_owned()
    } else {
        alike().unwrap_or_else(|| as_written(segment))
    }
}

fn as_written(segment: &str) -> String {
    let lower = segment.bytes().any(|byte| byte.is_ascii_lowercase());
    if lower { segment.to_owned() } else { segment.to_ascii_lowercase() }
}

/// The variable that was meant by a name with a single underscore between section and key.
fn single_underscore(rest: &str) -> Option<String> {
    let (section, key) = keys::ROOT.iter().find_map(|section| {
        let key = rest.strip_prefix(&section.name.to_ascii_uppercase())?.strip_prefix('_')?;
        Some((section, keys::find(section.below(), &key.to_ascii_lowercase())?))
    })?;
    let plain = matches!(section.shape, Shape::Table(_));
    let meant = format!("{PREFIX}{}{BETWEEN}{}", section.name, key.name).to_ascii_uppercase();
    plain.then_some(meant)
}
