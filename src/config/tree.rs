//! Reads the merged tree into the settings with serde.
//!
//! Serde stops at the first error. A key that cannot be read is noted and left out, and the tree is
//! read again, so that one run reports every error.

use config::{Value, ValueKind};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserialize, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use serde_path_to_error::Segment;

use super::faults::{Notes, child, expected, located};
use super::settings::Settings;

/// The nearest key is suggested if the wrong key is at most this many edits away from it, plus one
/// edit for every four letters of the nearest key.
const TYPING_ERRORS: usize = 1;

/// The keys of earlier versions, each with what to do instead.
const REMOVED: [(&str, &str); 3] = [
    (
        "files.confinement",
        "the child process that tries files is always confined, and the service manager or the \
         container restricts the server; delete this key",
    ),
    ("server.connections_for_each_client", LIMITED_BY_PROXY),
    ("server.bandwidth_for_each_client", LIMITED_BY_PROXY),
];
const LIMITED_BY_PROXY: &str = "voltile does not limit each client; packaging/nginx.conf shows how nginx does; delete this key";

/// A value as serde reads it. Types are as strict as TOML's.
struct TreeValue<'de>(&'de Value);

impl<'de> IntoDeserializer<'de, ValueProblem> for TreeValue<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for TreeValue<'de> {
    type Error = ValueProblem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueProblem> {
        match &self.0.kind {
            ValueKind::Nil => visitor.visit_unit(),
            ValueKind::Boolean(flag) => visitor.visit_bool(*flag),
            ValueKind::I64(number) => visitor.visit_i64(*number),
            ValueKind::U64(number) => visitor.visit_u64(*number),
            ValueKind::I128(number) => visitor.visit_i128(*number),
            ValueKind::U128(number) => visitor.visit_u128(*number),
            ValueKind::Float(number) => visitor.visit_f64(*number),
            ValueKind::String(text) => visitor.visit_borrowed_str(text),
            ValueKind::Array(items) => {
                SeqDeserializer::new(items.iter().map(TreeValue)).deserialize_any(visitor)
            }
            ValueKind::Table(table) => {
                let entries = table
                    .iter()
                    .map(|(key, value)| (key.as_str(), TreeValue(value)));
                MapDeserializer::new(entries).deserialize_any(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueProblem> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueProblem> {
        match &self.0.kind {
            ValueKind::String(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            _ => Err(ValueProblem::Expected(one_of(variants))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// Why a value cannot be read.
#[derive(Debug, thiserror::Error)]
enum ValueProblem {
    #[error("{0} is expected")]
    Expected(String),
    /// Holds all keys of the table.
    #[error("there is no such key")]
    UnknownKey(&'static [&'static str]),
    #[error("{0}")]
    Other(String),
}

impl de::Error for ValueProblem {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        ValueProblem::Other(message.to_string())
    }

    fn invalid_type(_found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        ValueProblem::Expected(in_words(&wanted.to_string()))
    }

    fn invalid_value(_found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        ValueProblem::Expected(in_words(&wanted.to_string()))
    }

    fn invalid_length(_found: usize, wanted: &dyn Expected) -> Self {
        ValueProblem::Expected(in_words(&wanted.to_string()))
    }

    fn unknown_variant(_found: &str, words: &'static [&'static str]) -> Self {
        ValueProblem::Expected(one_of(words))
    }

    fn unknown_field(_found: &str, keys: &'static [&'static str]) -> Self {
        ValueProblem::UnknownKey(keys)
    }
}

/// Translates serde's name of an expected type into the words of TOML.
fn in_words(wanted: &str) -> String {
    let words = match wanted {
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        "an array of length 3" | "3 elements in sequence" => "a list of three numbers [x, y, z]",
        "f64" => "a number",
        "i64" => "a whole number",
        // The error goes on after the comma: "is expected". This is so for all expected values
        // that end with a comma.
        "u64" | "usize" => "a whole number, 0 or more,",
        other => other,
    };
    words.to_owned()
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    quoted.join(" or ")
}

/// Reads the tree. Each key that cannot be read is a fault, and left out.
pub(super) fn read(mut tree: Value, notes: &mut Notes) -> Settings {
    loop {
        let error = match serde_path_to_error::deserialize(TreeValue(&tree)) {
            Ok(settings) => return settings,
            Err(error) => error,
        };
        let path: Vec<Segment> = error.path().iter().cloned().collect();
        let mut key = String::new();
        for step in &path {
            match step {
                Segment::Map { key: name } => key = child(&key, name),
                Segment::Seq { index } => key = format!("{key}[{index}]"),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let problem: ValueProblem = error.into_inner();
        let Some(value) = take(&mut tree, &path) else {
            notes.fault(key, problem.to_string());
            return Settings::default();
        };
        let problem = match problem {
            ValueProblem::Expected(wanted) => expected(&wanted, &value),
            ValueProblem::UnknownKey(keys) => no_such_key(&key, &path, &value, keys),
            ValueProblem::Other(problem) => problem,
        };
        notes.fault(key, located(&problem, &value));
    }
}

/// Whether serde meets no unknown key when it reads the tree.
pub(super) fn has_known_keys(tree: &Value) -> bool {
    let read = Settings::deserialize(TreeValue(tree));
    !matches!(read, Err(ValueProblem::UnknownKey(_)))
}

/// Removes the innermost key on the path, never an item of a list: the items after it would be
/// renumbered. Returns the value at the end of the path.
fn take(tree: &mut Value, path: &[Segment]) -> Option<Value> {
    let last = path.iter().rposition(|step| key_of(step).is_some())?;
    let mut table = tree;
    for step in &path[..last] {
        table = step_into(table, step)?;
    }
    let ValueKind::Table(table) = &mut table.kind else {
        return None;
    };
    let mut value = table.remove(key_of(&path[last])?)?;
    for step in &path[last + 1..] {
        if let Some(inner) = step_into(&mut value, step) {
            value = inner.clone();
        }
    }
    Some(value)
}

/// The value one step further down the path.
fn step_into<'v>(value: &'v mut Value, step: &Segment) -> Option<&'v mut Value> {
    match (step, &mut value.kind) {
        (Segment::Map { key }, ValueKind::Table(table)) => table.get_mut(key),
        (Segment::Seq { index }, ValueKind::Array(items)) => items.get_mut(*index),
        _ => None,
    }
}

/// The error for a key that does not exist, with advice: the key's replacement, the nearest key,
/// missing quotes, or all keys.
fn no_such_key(full_key: &str, path: &[Segment], value: &Value, keys: &[&str]) -> String {
    if let Some((_, instead)) = REMOVED.iter().find(|(removed, _)| *removed == full_key) {
        return format!("there is no such key any more: {instead}");
    }
    let names: Vec<&str> = path.iter().filter_map(key_of).collect();
    let wrong = names.last().copied().unwrap_or_default();
    let nearest = keys
        .iter()
        .map(|key| (strsim::levenshtein(&wrong.to_lowercase(), key), *key))
        .min();
    if let Some((edits, nearest)) = nearest
        && edits <= TYPING_ERRORS + nearest.len() / 4
    {
        return format!("there is no such key; did you mean {nearest:?}?");
    }
    // `[datasets.FlyEM.v1]` is a table `v1` in the dataset `FlyEM`.
    if let ["datasets", .., parent, _] = names.as_slice()
        && matches!(value.kind, ValueKind::Table(_))
    {
        return format!(
            "there is no such key; a name with a dot in it must be quoted: \"{parent}.{wrong}\""
        );
    }
    format!(
        "there is no such key; the keys here are {}",
        keys.join(", ")
    )
}

/// The key of a step into a table; `None` for any other step.
fn key_of(step: &Segment) -> Option<&str> {
    match step {
        Segment::Map { key } => Some(key),
        _ => None,
    }
}
