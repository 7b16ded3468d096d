//! Reads the entries of `[[access]]`. Whether the files of secrets can be read is found out when they are opened.

use std::path::{Path, PathBuf};

use config::{Value, ValueKind};

use super::keys;
use super::reader::Section;
use super::settings::AccessSettings;
use super::values;
use crate::name::Pattern;

/// Reads every entry; `base` is the directory of the configuration file.
///
/// An entry with a fault keeps its place, so that the entries of a faulty configuration never protect less.
pub(super) fn read(root: &mut Section<'_, '_>, base: &Path) -> Vec<AccessSettings> {
    let entries = root.list("access").unwrap_or_default();
    let mut access = Vec::new();
    for entry in entries {
        let mut section = Section::open(entry.path, Some(entry.value), keys::ACCESS, root.notes());
        let mut given = AccessSettings { datasets: vec![Pattern::any()], ..AccessSettings::default() };
        section.set("secrets", secrets_below(base), &mut given.secrets);
        section.set("datasets", values::list(values::pattern), &mut given.datasets);
        if !section.has("secrets") {
            section.missing(
                "secrets",
                "a file with one secret per line is needed, such as secrets = \"lab.txt\"",
            );
        }
        if given.datasets.is_empty() {
            section
                .fault("datasets", "at least one dataset is expected; omit the key to protect all of them");
        }
        access.push(given);
    }
    access
}

/// The path of a file of secrets. What stands there instead is not repeated: it may be a secret.
fn secrets_below(base: &Path) -> impl Fn(&Value) -> Result<PathBuf, String> {
    let path = values::path_below(base);
    move |value| match &value.kind {
        ValueKind::String(_) | ValueKind::Nil => path(value),
        _ => Err("the path of a file, in quotes, is expected".to_owned()),
    }
}
