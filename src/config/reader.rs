//! Walks the configuration table by table and key by key, and collects faults.
//!
//! A [`Section`] is read with the [`Setting`]s of its table and reports all other keys at once.
//! Values are parsed by the functions of [`values`](super::values), which know neither keys nor
//! faults.

use std::fmt;
use std::rc::Rc;

use config::{Map, Value, ValueKind};

use super::keys::{Key, Shape};
use super::values::{Parsed, expected};
use crate::base::name::Name;

/// One error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The key's path, such as `datasets.kasthuri11.channels.image.window`; for text that cannot be
    /// parsed at all, the file, the variable or the flag.
    pub key: String,
    /// What is wrong, what is expected, and the place of the setting.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

type Read<S> = dyn Fn(&mut Section<'_, '_>, &mut S);
type Keep<S> = dyn Fn(&mut S, &mut S) -> Vec<String>;

/// A key, and what it sets in the settings `S` of its table.
pub(super) struct Setting<S> {
    pub key: Key,
    read: Box<Read<S>>,
    keep: Box<Keep<S>>,
}

impl Key {
    /// A setting that is read in a way of its own.
    pub fn reads<S>(self, read: impl Fn(&mut Section<'_, '_>, &mut S) + 'static) -> Setting<S> {
        Setting {
            key: self,
            read: Box::new(read),
            keep: Box::new(|_, _| Vec::new()),
        }
    }

    /// Sets what `slot` returns, also when the configuration is read again.
    pub fn sets<S: 'static, T, F: From<T> + 'static>(
        self,
        parse: impl Fn(&Value) -> Parsed<T> + 'static,
        slot: fn(&mut S) -> &mut F,
    ) -> Setting<S> {
        let name = self.name;
        self.reads(move |section, settings| section.set(name, &parse, slot(settings)))
    }

    /// Sets what `slot` returns; a server that runs keeps it.
    pub fn sets_at_start<S: 'static, T, F: From<T> + Clone + PartialEq + 'static>(
        self,
        parse: impl Fn(&Value) -> Parsed<T> + 'static,
        slot: fn(&mut S) -> &mut F,
    ) -> Setting<S> {
        self.sets(parse, slot).kept_if(
            move |started, settings| slot(started) != slot(settings),
            slot,
        )
    }

    /// The table of these settings.
    pub fn table<S: 'static, T: 'static>(
        name: &'static str,
        doc: &'static str,
        table: Vec<Setting<T>>,
        slot: fn(&mut S) -> &mut T,
    ) -> Setting<S> {
        let is_fixed = table.iter().any(|setting| setting.key.is_fixed);
        let key = Key {
            is_fixed,
            ..Key::new(name, Shape::Table(keys(&table))).doc(doc)
        };
        let table = Rc::new(table);
        let same = Rc::clone(&table);
        let read = move |section: &mut Section<'_, '_>, settings: &mut S| {
            section.below(name, &table, slot(settings));
        };
        let keep = move |started: &mut S, settings: &mut S| {
            let kept = keep_fixed(&same, slot(started), slot(settings));
            kept.into_iter()
                .map(|key| format!("{name}.{key}"))
                .collect()
        };
        Setting {
            key,
            read: Box::new(read),
            keep: Box::new(keep),
        }
    }
}

impl<S: 'static> Setting<S> {
    /// A server that runs keeps what `slot` returns, if the settings differ.
    pub fn kept_if<F: Clone + 'static>(
        self,
        differ: impl Fn(&mut S, &mut S) -> bool + 'static,
        slot: fn(&mut S) -> &mut F,
    ) -> Self {
        let name = self.key.name;
        let keep = move |started: &mut S, settings: &mut S| {
            if !differ(started, settings) {
                return Vec::new();
            }
            slot(settings).clone_from(slot(started));
            vec![name.to_owned()]
        };
        Self {
            key: Key {
                is_fixed: true,
                ..self.key
            },
            keep: Box::new(keep),
            ..self
        }
    }
}

/// The keys of a table.
pub(super) fn keys<S>(table: &[Setting<S>]) -> Vec<Key> {
    table.iter().map(|setting| setting.key.clone()).collect()
}

/// Gives those settings back their old values that a running server cannot change; returns their
/// keys.
pub(super) fn keep_fixed<S>(
    table: &[Setting<S>],
    started: &mut S,
    settings: &mut S,
) -> Vec<String> {
    let fixed = table.iter().filter(|setting| setting.key.is_fixed);
    fixed
        .flat_map(|setting| (setting.keep)(started, settings))
        .collect()
}

/// The faults and warnings found.
#[derive(Debug, Default)]
pub(super) struct Notes {
    faults: Vec<Fault>,
    warnings: Vec<Fault>,
    /// Whether the file could not be read to its end, so that missing keys may only be unread.
    pub incomplete: bool,
}

impl Notes {
    pub fn fault(&mut self, key: impl Into<String>, problem: impl Into<String>) {
        self.faults.push(Fault {
            key: key.into(),
            problem: problem.into(),
        });
    }

    pub fn warning(&mut self, key: impl Into<String>, problem: impl Into<String>) {
        self.warnings.push(Fault {
            key: key.into(),
            problem: problem.into(),
        });
    }

    /// Faults and warnings sorted by key; those of one key stay in the order in which they were
    /// found.
    pub fn sorted(mut self) -> (Vec<Fault>, Vec<Fault>) {
        self.faults.sort_by(|a, b| a.key.cmp(&b.key));
        self.warnings.sort_by(|a, b| a.key.cmp(&b.key));
        (self.faults, self.warnings)
    }
}

/// The path of a key within a table; a key that is not a bare key in TOML is quoted.
pub(super) fn child(path: &str, key: &str) -> String {
    let bare = !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let key = if bare {
        key.to_owned()
    } else {
        format!("{key:?}")
    };
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}

/// A problem with a value, and where that value was set.
pub(super) fn located(problem: &str, value: &Value) -> String {
    match value.origin() {
        Some(origin) => format!("{problem} ({origin})"),
        None => problem.to_owned(),
    }
}

/// A table below a list or a table of names, not opened yet.
pub(super) struct Entry<'v, N> {
    /// The name or index; `None` if the name is invalid.
    pub name: N,
    pub path: String,
    pub value: &'v Value,
}

pub(super) struct Section<'v, 'n> {
    path: String,
    table: Option<&'v Map<String, Value>>,
    notes: &'n mut Notes,
}

impl<'v, 'n> Section<'v, 'n> {
    /// Reads the table at that path. Keys that are not settings of it are faults; without a value
    /// the table is empty.
    pub fn read<S>(
        path: String,
        value: Option<&'v Value>,
        settings: &[Setting<S>],
        into: &mut S,
        notes: &'n mut Notes,
    ) -> Self {
        let table = value.and_then(|value| table_of(&path, value, notes));
        for (name, value) in by_name(table) {
            if !settings.iter().any(|setting| setting.key.name == name) {
                notes.fault(
                    child(&path, name),
                    located(&unknown(&path, name, value, &keys(settings)), value),
                );
            }
        }
        let mut section = Self { path, table, notes };
        settings
            .iter()
            .for_each(|setting| (setting.read)(&mut section, into));
        section
    }

    /// Reads the table below that key.
    pub fn below<S>(
        &mut self,
        name: &str,
        settings: &[Setting<S>],
        into: &mut S,
    ) -> Section<'v, '_> {
        Section::read(
            child(&self.path, name),
            self.get(name),
            settings,
            into,
            self.notes,
        )
    }

    /// Assigns the value of the key; if it is absent or invalid, the slot keeps its value.
    pub fn set<T, S: From<T>>(
        &mut self,
        name: &str,
        read: impl Fn(&Value) -> Parsed<T>,
        slot: &mut S,
    ) {
        let Some(value) = self.get(name) else { return };
        match read(value) {
            Ok(right) => *slot = right.into(),
            Err(problem) => self
                .notes
                .fault(child(&self.path, name), located(&problem, value)),
        }
    }

    /// The tables below that key by name, sorted; names that `read` rejects are faults.
    pub fn named(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Parsed<Name>,
    ) -> Vec<Entry<'v, Option<Name>>> {
        let path = child(&self.path, key);
        let table = self
            .get(key)
            .and_then(|value| table_of(&path, value, self.notes));
        let mut entries = Vec::new();
        for (text, value) in by_name(table) {
            let path = child(&path, text);
            let name = read(text)
                .map_err(|problem| self.notes.fault(&path, located(&problem, value)))
                .ok();
            entries.push(Entry { name, path, value });
        }
        entries
    }

    /// The items of the list at that key; `None` if there is no list.
    pub fn list(&mut self, key: &str) -> Option<Vec<Entry<'v, usize>>> {
        let path = child(&self.path, key);
        let value = self.get(key)?;
        let ValueKind::Array(items) = &value.kind else {
            self.notes
                .fault(path, located(&expected("a list", value), value));
            return None;
        };
        let entry = |(name, value)| Entry {
            name,
            path: format!("{path}[{name}]"),
            value,
        };
        Some(items.iter().enumerate().map(entry).collect())
    }

    /// The value as given.
    pub fn get(&self, name: &str) -> Option<&'v Value> {
        self.table.and_then(|table| table.get(name))
    }

    /// Whether the key was given, valid or not.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A fault at a key.
    pub fn fault(&mut self, name: &str, problem: impl Into<String>) {
        self.notes.fault(child(&self.path, name), problem);
    }

    /// A fault at a key that should be there; none if the table itself could not be read.
    pub fn missing(&mut self, name: &str, problem: impl Into<String>) {
        if self.table.is_some() && !self.notes.incomplete {
            self.fault(name, problem);
        }
    }

    /// A fault at a required key that was not given.
    pub fn require(&mut self, name: &str, problem: &str) {
        if !self.has(name) {
            self.missing(name, problem);
        }
    }

    /// A warning at a key.
    pub fn warning(&mut self, name: &str, problem: impl Into<String>) {
        self.notes.warning(child(&self.path, name), problem);
    }

    /// The collector of faults, for sections that are opened separately.
    pub fn notes(&mut self) -> &mut Notes {
        self.notes
    }
}

fn table_of<'v>(path: &str, value: &'v Value, notes: &mut Notes) -> Option<&'v Map<String, Value>> {
    let ValueKind::Table(table) = &value.kind else {
        notes.fault(path, located(&expected("a table", value), value));
        return None;
    };
    Some(table)
}

fn by_name(table: Option<&Map<String, Value>>) -> Vec<(&str, &Value)> {
    let mut entries: Vec<_> = table
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    entries.sort_by_key(|(name, _)| *name);
    entries
}

/// Keys that earlier versions had, with what replaces them.
const REMOVED: [(&str, &str); 1] = [(
    "files.confinement",
    "the child process that tries files is always confined, and the service manager or the \
     container restricts the server; delete this key",
)];

fn unknown(path: &str, name: &str, value: &Value, keys: &[Key]) -> String {
    let full = child(path, name);
    if let Some((_, instead)) = REMOVED.iter().find(|(removed, _)| *removed == full) {
        return format!("there is no such key any more: {instead}");
    }
    let distances = keys
        .iter()
        .map(|key| (distance(&name.to_lowercase(), key.name), key.name));
    let known = || {
        keys.iter()
            .map(|key| key.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match distances.min() {
        Some((steps, nearest)) if steps <= 1 + nearest.len() / 4 => {
            format!("there is no such key; did you mean {nearest:?}?")
        }
        _ if path.starts_with("datasets.") && matches!(value.kind, ValueKind::Table(_)) => {
            let last = path.rsplit('.').next().unwrap_or(path);
            format!(
                "there is no such key; a name with a dot in it must be quoted: \"{last}.{name}\""
            )
        }
        _ => format!("there is no such key; the keys here are {}", known()),
    }
}

/// The edit distance (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut corner = line;
        let mut left = line + 1;
        for (b, above) in to.chars().zip(row.iter_mut().skip(1)) {
            let best = (corner + usize::from(a != b)).min(left + 1).min(*above + 1);
            corner = std::mem::replace(above, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_letters() {
        for (from, to, steps) in [
            ("", "", 0),
            ("bind", "bind", 0),
            ("bnd", "bind", 1),
            ("thread", "threads", 1),
        ] {
            assert_eq!(distance(from, to), steps, "{from} {to}");
        }
        assert_eq!(
            (
                distance("kitten", "sitting"),
                distance("", "abc"),
                distance("abc", "")
            ),
            (3, 3, 3)
        );
    }

    #[test]
    fn paths_quote_what_is_no_bare_key() {
        assert_eq!(child("", "server"), "server");
        assert_eq!(child("datasets", "FlyEM.v1"), "datasets.\"FlyEM.v1\"");
        assert_eq!(child("datasets", ""), "datasets.\"\"");
    }
}
