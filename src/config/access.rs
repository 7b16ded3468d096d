//! The entries of `[[access]]`. Whether the files of secrets can be read is found out when they are
//! opened.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use config::{Value, ValueKind};

use super::keys::{Key, Shape, default, needed};
use super::reader::{Section, Setting, keys};
use super::settings::{AccessSettings, Settings};
use super::values;
use crate::base::name::{Name, Pattern};
use crate::base::tile::Fingerprint;

/// Every entry; `base` is the directory of the configuration file.
///
/// An entry with a fault keeps its place, so that the entries of a faulty configuration never
/// protect less.
pub(super) fn access(base: &Path) -> Setting<Settings> {
    let table: Vec<Setting<AccessSettings>> = vec![
        needed("secrets", "\"secrets/lab.txt\"")
            .doc("A file with one secret per line, relative to this file. Each of them opens the datasets.")
            .sets(secrets_below(base), |s| &mut s.secrets),
        default("datasets", "[\"*\"]")
            .doc("The protected datasets: tokens, in which * stands for any text and ? for one character.")
            .sets(values::list(values::pattern), |s| &mut s.datasets),
    ];
    Key::new("access", Shape::OptionalList(keys(&table)))
        .doc("Who may see which datasets. Without any entry everything is public. Repeat the table for more entries.")
        .reads(move |root, settings: &mut Settings| {
            for entry in root.list("access").unwrap_or_default() {
                let mut given = AccessSettings { datasets: vec![Pattern::any()], ..AccessSettings::default() };
                let notes = root.notes();
                let mut section = Section::read(entry.path, Some(entry.value), &table, &mut given, notes);
                section.require(
                    "secrets",
                    "a file with one secret per line is needed, such as secrets = \"lab.txt\"",
                );
                if given.datasets.is_empty() {
                    section.fault(
                        "datasets",
                        "at least one dataset is expected; omit the key to protect all of them",
                    );
                }
                settings.access.push(given);
            }
        })
}

/// Identifies the rules that protect a dataset by the patterns that match its token: the same
/// patterns are in the same entries. Other datasets and secrets in these entries do not change it.
pub(super) fn rules_of(token: &Name, entries: &[AccessSettings]) -> Option<Fingerprint> {
    let patterns = entries
        .iter()
        .flat_map(|entry| &entry.datasets)
        .filter(|pattern| pattern.matches(token));
    let texts: BTreeSet<&str> = patterns.map(Pattern::as_str).collect();
    (!texts.is_empty()).then(|| Fingerprint::digest(&texts))
}

/// The path of a file of secrets. What stands there instead is not repeated: it may be a secret.
fn secrets_below(base: &Path) -> impl Fn(&Value) -> Result<PathBuf, String> + use<> {
    let path = values::path_below(base);
    move |value| match &value.kind {
        ValueKind::String(_) | ValueKind::Nil => path(value),
        _ => Err("the path of a file, in quotes, is expected".to_owned()),
    }
}
