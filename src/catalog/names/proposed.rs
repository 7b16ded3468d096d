//! Finds the obvious table of names of a file, which `voltile inspect` proposes.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

use voltile_hdf5::volume::hdf5::OpenFile;

use super::stored::column_names;
use super::table::{IDS, id_and_name};
use super::text;
use crate::config::NamesSettings;

/// The maximum number of datasets that are inspected.
const MAX_DATASETS: usize = 10_000;
/// The maximum size in bytes of a table beside the file.
const MAX_BYTES: usize = 64 << 20;
/// The table that BrainGlobe puts beside the volumes of an atlas.
const STRUCTURES: &str = "structures.csv";

/// The table for the labels of a channel: the only one in its file, or the one beside it. If the
/// file has several tables, or other channels of labels (`has_other_labels`), it is the table whose
/// path contains the name of the channel.
pub(in crate::catalog) fn propose(
    file: &OpenFile,
    channel: &str,
    has_other_labels: bool,
) -> Option<NamesSettings> {
    let paths = file.datasets().ok()?.datasets;
    // A table is a dataset, or a group with a dataset whose name is usual for a column of ids.
    let mut places = BTreeSet::new();
    for path in paths.iter().take(MAX_DATASETS) {
        places.insert(path.as_str());
        if let Some((group, name)) = path.rsplit_once('/')
            && IDS.iter().any(|id| id.eq_ignore_ascii_case(name))
        {
            places.insert(group);
        }
    }
    let mut tables: Vec<_> = places
        .into_iter()
        .filter_map(|path| Some((path, table_at(file, path)?)))
        .collect();
    if has_other_labels || tables.len() > 1 {
        tables.retain(|(path, _)| path.contains(channel));
    }
    if let [(_, table)] = tables.as_slice() {
        return Some(table.clone());
    }
    if has_other_labels {
        return None;
    }
    let folder = file.location().path().and_then(Path::parent)?;
    let beside = folder.join(STRUCTURES);
    text::read(&beside, &NamesSettings::default(), &Cell::new(MAX_BYTES)).ok()?;
    Some(NamesSettings {
        file: Some(beside),
        ..NamesSettings::default()
    })
}

/// The table at a path, if it has a column of numbers that are usually ids, and one of texts that
/// are usually names.
fn table_at(file: &OpenFile, path: &str) -> Option<NamesSettings> {
    let columns = file.columns(path).ok()?;
    let (id, name) = id_and_name(&column_names(&columns), &NamesSettings::default()).ok()?;
    let id = columns.get(id)?;
    let name = columns.get(name?)?;
    let is_table = !id.is_text && name.is_text && id.rows == name.rows && id.rows > 0;
    is_table.then(|| NamesSettings {
        file: None,
        path: Some(path.to_owned()),
        id: Some(id.name.clone()),
        name: Some(name.name.clone()),
    })
}
