//! The annotated example, generated from the table of keys, so that it is complete and has no
//! unknown keys.

use super::keys::{Key, Shape};

const HEAD: &str = "\
# All settings of voltile. Lines that begin with # and a space are explanations; lines that begin with # alone are
# optional keys, with an example; all others are set to their defaults, except those of the dataset.
#
# The environment overrides this file: VOLTILE_SERVER__BIND, two underscores between levels, values as in TOML or plain
# text. Flags override the environment: --set KEY=VALUE, --bind. Relative paths in this file are relative to its
# directory, those in flags and variables to the working directory.
";

pub(super) fn write(keys: &[Key]) -> String {
    let mut text = HEAD.to_owned();
    keys.iter()
        .for_each(|key| write_table(&mut text, key, "", true));
    text
}

/// A table's header, its values, and its subtables. Unless `live` they are commented out.
fn write_table(text: &mut String, key: &Key, parent: &str, live: bool) {
    let path = if parent.is_empty() {
        key.name.to_owned()
    } else {
        format!("{parent}.{}", key.name)
    };
    let (header, path, live) = match &key.shape {
        Shape::List(_) => (format!("[[{path}]]"), path, live),
        Shape::OptionalList(_) => (format!("[[{path}]]"), path, false),
        Shape::Named(name, _) => (
            format!("[{path}.{name}]"),
            format!("{path}.{name}"),
            live && parent.is_empty(),
        ),
        _ => (format!("[{path}]"), path, live),
    };
    text.push_str(&format!("\n# {}\n{}{header}\n", key.doc, mark(live)));
    key.below()
        .iter()
        .for_each(|key| write_value(text, key, live));
    key.below()
        .iter()
        .filter(|key| is_table(key))
        .for_each(|key| write_table(text, key, &path, live));
}

fn write_value(text: &mut String, key: &Key, live: bool) {
    let (value, live) = match &key.shape {
        Shape::Default(value) | Shape::Needed(value) => (value, live),
        Shape::Optional(value) | Shape::Inline(value, _) | Shape::InlineTable(value, _) => {
            (value, false)
        }
        Shape::Table(_) | Shape::List(_) | Shape::OptionalList(_) | Shape::Named(..) => return,
    };
    text.push_str(&format!(
        "# {}\n{}{} = {value}\n",
        key.doc,
        mark(live),
        key.name
    ));
}

fn is_table(key: &Key) -> bool {
    matches!(
        key.shape,
        Shape::Table(_) | Shape::List(_) | Shape::OptionalList(_) | Shape::Named(..)
    )
}

fn mark(live: bool) -> &'static str {
    if live { "" } else { "#" }
}
