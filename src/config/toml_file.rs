//! TOML → the value tree of the `config` crate, every value with its line number.
//!
//! The crate's own TOML reader drops line numbers and has 64-bit integers. Windows on unsigned
//! 64-bit data need larger ones.

use std::ops::Range;

use config::{Map, Value, ValueKind};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// Reads a document: a table, or the first syntax error with its position.
pub(super) fn tree(text: &str) -> Result<Value, String> {
    let document = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        let before = text.get(..place).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before[line_start..].chars().count() + 1;
        format!(
            "line {}, column {column}: {}",
            line_of(text, place),
            error.message()
        )
    })?;
    let root = table_of(document.get_ref(), &|span| {
        format!("line {}", line_of(text, span.start))
    });
    Ok(Value::new(None, root))
}

/// The line number of the byte at `place`, from 1.
fn line_of(text: &str, place: usize) -> usize {
    let before = text.as_bytes().get(..place).unwrap_or_default();
    memchr::memchr_iter(b'\n', before).count() + 1
}

/// Parses a single value, as in a flag or a variable: TOML, or else plain text.
pub(super) fn value_or_text(text: &str, origin: &str) -> Value {
    match DeValue::parse(text) {
        Ok(value) => tree_of(&value, &|_| origin.to_owned()),
        Err(_) => Value::new(Some(&origin.to_owned()), text),
    }
}

/// Parses a dotted key, quoted where necessary: `datasets."FlyEM.v1".file`.
pub(super) fn dotted_key(text: &str) -> Option<Vec<String>> {
    // A line break would begin another key.
    if text.contains(char::is_control) {
        return None;
    }
    // Parsed as the only key of a document: each table in it has one entry, up to the value.
    let document = format!("{text} = 0");
    let parsed = DeTable::parse(&document).ok()?;
    let mut path = Vec::new();
    let mut table = parsed.get_ref();
    while let Some((key, value)) = table.iter().next() {
        path.push(key.get_ref().to_string());
        let DeValue::Table(inner) = value.get_ref() else {
            break;
        };
        table = inner;
    }
    Some(path)
}

/// Converts a table; `origin` says where the bytes of a value are: `line 3`.
fn table_of(table: &DeTable<'_>, origin: &dyn Fn(Range<usize>) -> String) -> ValueKind {
    let entries = table
        .iter()
        .map(|(key, value)| (key.get_ref().to_string(), tree_of(value, origin)));
    ValueKind::Table(entries.collect::<Map<_, _>>())
}

/// Converts a value and all values in it.
fn tree_of(value: &Spanned<DeValue<'_>>, origin: &dyn Fn(Range<usize>) -> String) -> Value {
    let kind = match value.get_ref() {
        DeValue::String(text) => ValueKind::String(text.to_string()),
        DeValue::Integer(number) => integer(number),
        DeValue::Float(number) => ValueKind::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => ValueKind::Boolean(*flag),
        // No key accepts a date, and TOML has no nil, so nil represents dates.
        DeValue::Datetime(_) => ValueKind::Nil,
        DeValue::Array(items) => {
            ValueKind::Array(items.iter().map(|item| tree_of(item, origin)).collect())
        }
        DeValue::Table(table) => table_of(table, origin),
    };
    Value::new(Some(&origin(value.span())), kind)
}

/// Integers beyond 128 bits become floating point numbers, which no integer key accepts: decimal
/// ones the nearest number, others infinity.
fn integer(number: &DeInteger<'_>) -> ValueKind {
    match i128::from_str_radix(number.as_str(), number.radix()) {
        Ok(exact) => i64::try_from(exact).map_or(ValueKind::I128(exact), ValueKind::I64),
        Err(_) if number.radix() == 10 => {
            ValueKind::Float(number.as_str().parse().unwrap_or(f64::NAN))
        }
        Err(_) => ValueKind::Float(f64::INFINITY),
    }
}
