//! TOML → the value tree of the `config` crate, every value with its line number.
//!
//! The crate's own TOML reader stops at the first error, drops line numbers and has 64-bit
//! integers. This reader reports all errors that can be distinguished, keeps the valid rest, and
//! supports integers of up to 128 bits: windows on unsigned 64-bit data need them.

use std::ops::Range;

use config::{Map, Value, ValueKind};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// Prefix of the origin of every value from a file.
const LINE: &str = "line ";

/// A document with everything that could be read.
pub(super) struct Document {
    /// A table.
    pub tree: Value,
    /// Syntax errors with their positions, in the order of the text.
    pub mistakes: Vec<String>,
}

/// Whether the value is in the configuration file, not in a flag or a variable.
pub(super) fn is_in_file(value: &Value) -> bool {
    value
        .origin()
        .is_some_and(|origin| origin.starts_with(LINE))
}

/// Reads a document. Values that begin on a line with an error are left out.
pub(super) fn document(text: &str) -> Document {
    let (table, errors) = DeTable::parse_recoverable(text);
    let lines = Lines::new(text);
    let mistakes = mistakes(table.get_ref(), &errors, &lines);
    let broken: Vec<usize> = mistakes.iter().map(|mistake| mistake.line).collect();
    let origin = |span: Range<usize>| format!("{LINE}{}", lines.number(span.start));
    let tree = Reader {
        origin,
        broken: &broken,
        lines: &lines,
    }
    .table(table.get_ref());
    let message = |m: &Mistake<'_>| format!("{}: {}", lines.describe(text, m.place), m.problem);
    Document {
        tree: Value::new(None, tree),
        mistakes: mistakes.iter().map(message).collect(),
    }
}

/// A syntax error.
struct Mistake<'e> {
    /// The byte at which the parser noticed it.
    place: usize,
    /// The line on which the invalid value begins.
    line: usize,
    problem: &'e str,
}

/// After a missing bracket everything is an error, so one error per line and one per list are kept.
fn mistakes<'e>(
    table: &DeTable<'_>,
    errors: &'e [toml::de::Error],
    lines: &Lines,
) -> Vec<Mistake<'e>> {
    let mut lists = Vec::new();
    table
        .values()
        .for_each(|value| list_spans(value, &mut lists));
    let mut mistakes: Vec<Mistake<'e>> = errors
        .iter()
        .map(|error| {
            let place = error.span().map_or(0, |span| span.start);
            let list = lists
                .iter()
                .find(|list| (list.start..=list.end).contains(&place));
            let line = lines.number(list.map_or(place, |list| list.start));
            Mistake {
                place,
                line,
                problem: error.message(),
            }
        })
        .collect();
    mistakes.sort_by_key(|mistake| mistake.place);
    mistakes.dedup_by_key(|mistake| mistake.line);
    mistakes
}

/// Parses a single value, as in a flag or a variable: TOML, or else plain text.
pub(super) fn value_or_text(text: &str, origin: &str) -> Value {
    let lines = Lines::new(text);
    let reader = Reader {
        origin: |_| origin.to_owned(),
        broken: &[],
        lines: &lines,
    };
    match DeValue::parse(text) {
        Ok(value) => reader.value(&value),
        Err(_) => Value::new(Some(&origin.to_owned()), text),
    }
}

/// Parses a dotted key, quoted where necessary: `datasets."FlyEM.v1".file`.
pub(super) fn dotted_key(text: &str) -> Option<Vec<String>> {
    if text.contains(char::is_control) {
        return None;
    }
    let document = format!("{text} = 0");
    let parsed = DeTable::parse(&document).ok()?;
    let mut path = Vec::new();
    let mut table = parsed.get_ref();
    while let Some((key, value)) = table.iter().next() {
        path.push(key.get_ref().to_string());
        let DeValue::Table(below) = value.get_ref() else {
            break;
        };
        table = below;
    }
    Some(path)
}

fn list_spans(value: &Spanned<DeValue<'_>>, spans: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Array(_) => spans.push(value.span()),
        DeValue::Table(table) => table.values().for_each(|value| list_spans(value, spans)),
        _ => {}
    }
}

/// The offsets at which lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(
            std::iter::once(0)
                .chain(text.match_indices('\n').map(|(end, _)| end + 1))
                .collect(),
        )
    }

    /// The line number of the byte at `place`, from 1.
    fn number(&self, place: usize) -> usize {
        self.0.partition_point(|start| *start <= place)
    }

    fn describe(&self, text: &str, place: usize) -> String {
        let number = self.number(place);
        let start = self.0.get(number.saturating_sub(1)).copied().unwrap_or(0);
        let column = text
            .get(start..place)
            .map_or(0, |before| before.chars().count())
            + 1;
        format!("{LINE}{number}, column {column}")
    }
}

struct Reader<'l, O: Fn(Range<usize>) -> String> {
    origin: O,
    broken: &'l [usize],
    lines: &'l Lines,
}

impl<O: Fn(Range<usize>) -> String> Reader<'_, O> {
    fn table(&self, table: &DeTable<'_>) -> Map<String, Value> {
        let whole = |value: &Spanned<DeValue<'_>>| {
            matches!(value.get_ref(), DeValue::Table(_))
                || !self.broken.contains(&self.lines.number(value.span().start))
        };
        let entries = table.iter().filter(|(_, value)| whole(value));
        entries
            .map(|(key, value)| (key.get_ref().to_string(), self.value(value)))
            .collect()
    }

    fn value(&self, value: &Spanned<DeValue<'_>>) -> Value {
        let kind = match value.get_ref() {
            DeValue::String(text) => ValueKind::String(text.to_string()),
            DeValue::Integer(number) => integer(number),
            DeValue::Float(number) => ValueKind::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => ValueKind::Boolean(*flag),
            // No key accepts a date, and TOML has no nil, so nil represents dates.
            DeValue::Datetime(_) => ValueKind::Nil,
            DeValue::Array(items) => {
                ValueKind::Array(items.iter().map(|item| self.value(item)).collect())
            }
            DeValue::Table(table) => ValueKind::Table(self.table(table)),
        };
        Value::new(Some(&(self.origin)(value.span())), kind)
    }
}

/// Integers beyond 128 bits become the nearest floating point number, which no integer key accepts.
fn integer(number: &DeInteger<'_>) -> ValueKind {
    match i128::from_str_radix(number.as_str(), number.radix()) {
        Ok(exact) => i64::try_from(exact).map_or(ValueKind::I128(exact), ValueKind::I64),
        Err(_) if number.radix() == 10 => {
            ValueKind::Float(number.as_str().parse().unwrap_or(f64::NAN))
        }
        Err(_) => ValueKind::Float(f64::INFINITY),
    }
}
