//! The configuration equivalent to serving a file without one, to copy and edit.

use std::fmt::Write;

use voltile_base::geometry::Xyz;
use voltile_base::paint::Kind;
use voltile_base::text::joined;
use voltile_hdf5::store::Location;

use crate::catalog::{Catalog, Channel, Dataset, SpelledOut};
use crate::cli::output::is_control;
use crate::config::{NamesSettings, is_bare_key};

/// The configuration of a dataset, with every guess spelled out so that it can be changed.
pub(super) fn configuration(catalog: &Catalog, dataset: &Dataset, file: &Location) -> String {
    let token = key(dataset.token.as_str());
    let mut out = format!("[datasets.{token}]\nfile = {}\n", quoted(&file.to_string()));
    for channel in dataset.listed() {
        let _ = write!(
            out,
            "\n[datasets.{token}.channels.{}]\n{}",
            key(channel.name.as_str()),
            channel_keys(dataset, channel)
        );
        if let Some(names) = catalog.proposed_names(dataset, channel) {
            out.push_str(&names_key(&names));
        }
    }
    out
}

fn channel_keys(dataset: &Dataset, channel: &Channel) -> String {
    let mut out = String::new();
    if let Some(SpelledOut { levels, view }) = channel.spelled_out() {
        if let [(path, _)] = levels.as_slice() {
            let _ = writeln!(out, "path = {}", quoted(path));
        } else {
            let tables = levels.iter().map(|(path, factor)| {
                let factor = <[u64; 3]>::from(*factor);
                format!("{{ path = {}, factor = {factor:?} }}", quoted(path))
            });
            let _ = writeln!(out, "levels = [{}]", joined(tables));
        }
        let _ = writeln!(out, "axes = \"{}\"", view.axes);
        if !view.fixed.is_empty() {
            let entries = view.fixed.iter();
            let entries = entries.map(|(axis, position)| format!("{axis} = {position}"));
            let _ = writeln!(out, "index = {{ {} }}", joined(entries));
        }
    }
    let _ = writeln!(out, "kind = \"{}\"", channel.kind.name());
    if channel.shows_stored_values {
        out.push_str("stored_values = true\n");
    }
    let offset = dataset.grid_offset(channel);
    if offset != Xyz::all(0) {
        let _ = writeln!(out, "offset = {:?}", <[i64; 3]>::from(offset));
    }
    if channel.kind == Kind::Image && channel.is_measured() {
        out.push_str("window = \"auto\"\n");
    }
    out
}

fn names_key(names: &NamesSettings) -> String {
    let file = names.file.as_ref().map(|file| file.display().to_string());
    let keys = [
        ("file", &file),
        ("path", &names.path),
        ("id", &names.id),
        ("name", &names.name),
    ];
    let given = keys
        .iter()
        .filter_map(|(key, value)| Some(format!("{key} = {}", quoted(value.as_deref()?))));
    format!("names = {{ {} }}\n", joined(given))
}

/// A TOML key, unquoted if possible.
fn key(name: &str) -> String {
    if is_bare_key(name) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// A TOML string. JSON's escapes are valid in TOML. Control characters that JSON leaves alone are
/// escaped too: TOML refuses some of them, and terminals interpret the rest.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for character in serde_json::Value::from(text).to_string().chars() {
        match is_control(character) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_name_is_read_back_as_it_was_and_holds_no_control_characters() {
        let name = "/a\u{1b}[2J\u{7f}\u{9b}\u{202e}\"\\\n水";
        let line = format!("path = {}", quoted(name));
        assert!(!line.chars().any(is_control), "{line:?}");
        assert_eq!(
            line.parse::<toml::Table>().unwrap()["path"].as_str(),
            Some(name)
        );
    }
}
