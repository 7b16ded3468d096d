//! Walks the configuration table by table and key by key, and collects faults.
//!
//! A [`Section`] is opened with its allowed keys and reports all others at once. Values are parsed by the
//! functions of [`values`](super::values), which know neither keys nor faults.

use config::{Map, Value, ValueKind};

use super::Fault;
use super::keys::Key;
use super::values::{Parsed, expected};
use crate::name::Name;

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
        self.faults.push(Fault { key: key.into(), problem: problem.into() });
    }

    pub fn warning(&mut self, key: impl Into<String>, problem: impl Into<String>) {
        self.warnings.push(Fault { key: key.into(), problem: problem.into() });
    }

    /// Faults and warnings sorted by key; those of one key stay in the order in which they were found.
    pub fn sorted(mut self) -> (Vec<Fault>, Vec<Fault>) {
        self.faults.sort_by(|a, b| a.key.cmp(&b.key));
        self.warnings.sort_by(|a, b| a.key.cmp(&b.key));
        (self.faults, self.warnings)
    }
}

/// The path of a key within a table; a key that is not a bare key in TOML is quoted.
pub(super) fn child(path: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let key = if bare { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// A problem with a value, and where that value was set.
pub(super) fn at(problem: &str, value: &Value) -> String {
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
    /// Opens the table at that path. Keys not in `keys` are faults; without a value the table is empty.
    pub fn open(path: String, value: Option<&'v Value>, keys: &'static [Key], notes: &'n mut Notes) -> Self {
        let table = value.and_then(|value| table_of(&path, value, notes));
        for (name, value) in by_name(table) {
            if !keys.iter().any(|key| key.name == name) {
                notes.fault(child(&path, name), at(&unknown(&path, name, value, keys), value));
            }
        }
        Self { path, table, notes }
    }

    /// The table below that key.
    pub fn section(&mut self, name: &str, keys: &'static [Key]) -> Section<'v, '_> {
        Section::open(child(&self.path, name), self.get(name), keys, self.notes)
    }

    /// Assigns the value of the key; if it is absent or invalid, the slot keeps its value.
    pub fn set<T, S: From<T>>(&mut self, name: &str, read: impl Fn(&Value) -> Parsed<T>, slot: &mut S) {
        let Some(value) = self.get(name) else { return };
        match read(value) {
            Ok(right) => *slot = right.into(),
            Err(problem) => self.notes.fault(child(&self.path, name), at(&problem, value)),
        }
    }

    /// The tables below that key by name, sorted; names that `read` rejects are faults.
    pub fn named(&mut self, key: &str, read: impl Fn(&str) -> Parsed<Name>) -> Vec<Entry<'v, Option<Name>>> {
        let path = child(&self.path, key);
        let table = self.get(key).and_then(|value| table_of(&path, value, self.notes));
        let mut entries = Vec::new();
        for (text, value) in by_name(table) {
            let path = child(&path, text);
            let name = read(text).map_err(|problem| self.notes.fault(&path, at(&problem, value))).ok();
            entries.push(Entry { name, path, value });
        }
        entries
    }

    /// The items of the list at that key; `None` if there is no list.
    pub fn list(&mut self, key: &str) -> Option<Vec<Entry<'v, usize>>> {
        let path = child(&self.path, key);
        let value = self.get(key)?;
        let ValueKind::Array(items) = &value.kind else {
            self.notes.fault(path, at(&expected("a list", value), value));
            return None;
        };
        let entry = |(name, value)| Entry { name, path: format!("{path}[{name}]"), value };
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

    /// A fault at a required key; none if the table itself could not be read.
    pub fn missing(&mut self, name: &str, problem: impl Into<String>) {
        if self.table.is_some() && !self.notes.incomplete {
            self.fault(name, problem);
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
        notes.fault(path, at(&expected("a table", value), value));
        return None;
    };
    Some(table)
}

fn by_name(table: Option<&Map<String, Value>>) -> Vec<(&str, &Value)> {
    let mut entries: Vec<_> =
        table.into_iter().flatten().map(|(name, value)| (name.as_str(), value)).collect();
    entries.sort_by_key(|(name, _)| *name);
    entries
}

fn unknown(path: &str, name: &str, value: &Value, keys: &[Key]) -> String {
    let distances = keys.iter().map(|key| (distance(&name.to_lowercase(), key.name), key.name));
    let known = || keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
    match distances.min() {
        Some((steps, nearest)) if steps <= 1 + nearest.len() / 4 => {
            format!("there is no such key; did you mean {nearest:?}?")
        }
        _ if path.starts_with("datasets.") && matches!(value.kind, ValueKind::Table(_)) => {
            let last = path.rsplit('.').next().unwrap_or(path);
            format!("there is no such key; a name with a dot in it must be quoted: \"{last}.{name}\"")
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
        for (from, to, steps) in
            [("", "", 0), ("bind", "bind", 0), ("bnd", "bind", 1), ("thread", "threads", 1)]
        {
            assert_eq!(distance(from, to), steps, "{from} {to}");
        }
        assert_eq!((distance("kitten", "sitting"), distance("", "abc"), distance("abc", "")), (3, 3, 3));
    }

    #[test]
    fn paths_quote_what_is_no_bare_key() {
        assert_eq!(child("", "server"), "server");
        assert_eq!(child("datasets", "FlyEM.v1"), "datasets.\"FlyEM.v1\"");
        assert_eq!(child("datasets", ""), "datasets.\"\"");
    }
}
