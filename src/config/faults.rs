//! The faults of a configuration.

use std::fmt;

use config::{Value, ValueKind};

/// The longest text that a fault repeats, in characters.
const MAX_REPEATED: usize = 60;

/// One error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The key's path, such as `datasets.kasthuri11.channels.image.window`; for text that cannot be
    /// parsed at all, the file, the variable or the flag.
    pub key: String,
    /// The problem, the expected value, and the place of the setting.
    pub problem: String,
}

impl Fault {
    /// A problem with the setting at a key.
    pub fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

/// The faults and warnings found.
#[derive(Debug, Default)]
pub(super) struct Notes {
    faults: Vec<Fault>,
    warnings: Vec<Fault>,
}

impl Notes {
    pub fn fault(&mut self, key: impl Into<String>, problem: impl Into<String>) {
        self.faults.push(Fault::new(key, problem));
    }

    pub fn warning(&mut self, key: impl Into<String>, problem: impl Into<String>) {
        self.warnings.push(Fault::new(key, problem));
    }

    /// Adds a fault at a key, unless there is one already at the key or below it.
    pub fn fault_unless_faulty(&mut self, key: String, problem: impl Into<String>) {
        if !self.is_faulty(&key) {
            self.fault(key, problem);
        }
    }

    /// Whether there is a fault at a key or below it.
    pub fn is_faulty(&self, key: &str) -> bool {
        self.faults.iter().any(|fault| {
            let below = fault.key.strip_prefix(key);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Faults and warnings sorted by key; the notes on one key stay in the order in which they were
    /// found.
    pub fn sorted(mut self) -> (Vec<Fault>, Vec<Fault>) {
        self.faults.sort_by(|a, b| a.key.cmp(&b.key));
        self.warnings.sort_by(|a, b| a.key.cmp(&b.key));
        (self.faults, self.warnings)
    }
}

/// The path of a key within a table; a key that is not a bare key in TOML is quoted.
pub(super) fn child(path: &str, key: &str) -> String {
    let key = if is_bare_key(key) {
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

/// Whether a key needs no quotes in TOML.
pub fn is_bare_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    !key.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// A problem with a value, and where that value was set.
pub(super) fn located(problem: &str, value: &Value) -> String {
    match value.origin() {
        Some(origin) => format!("{problem} ({origin})"),
        None => problem.to_owned(),
    }
}

/// The error for a value of the wrong kind.
pub(super) fn expected(right: &str, found: &Value) -> String {
    format!("{right} is expected, not {}", in_words(found))
}

/// A value as the errors repeat it: `the text "lots"`, `a list of 2`.
fn in_words(value: &Value) -> String {
    match &value.kind {
        ValueKind::String(text) if text.chars().count() > MAX_REPEATED => {
            "a longer text".to_owned()
        }
        ValueKind::String(text) => format!("the text {text:?}"),
        ValueKind::Boolean(flag) => flag.to_string(),
        ValueKind::Float(number) => format!("the number {number:?}"),
        ValueKind::Table(_) => "a table".to_owned(),
        ValueKind::Array(items) => format!("a list of {}", items.len()),
        // TOML has no other values that become nil.
        ValueKind::Nil => "a date or a time".to_owned(),
        ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_) => {
            format!("the whole number {value}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Notes, child};

    #[test]
    fn a_fault_is_one_of_its_own_key_and_of_those_above() {
        let mut notes = Notes::default();
        notes.fault("server.mounts[10].origin", "wrong");
        for above in ["server", "server.mounts", "server.mounts[10]"] {
            assert!(notes.is_faulty(above), "{above}");
        }
        for other in ["server.mounts[1]", "server.mount", "cache"] {
            assert!(!notes.is_faulty(other), "{other}");
        }
    }

    #[test]
    fn paths_quote_what_is_no_bare_key() {
        assert_eq!(child("", "server"), "server");
        assert_eq!(child("datasets", "FlyEM.v1"), "datasets.\"FlyEM.v1\"");
        assert_eq!(child("datasets", ""), "datasets.\"\"");
    }
}
