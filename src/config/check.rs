//! Checks of several settings together. The catalogue checks whether the files match.

use std::collections::BTreeSet;

use config::{Value, ValueKind};
use voltile_base::geometry::Xyz;

use super::faults::{Notes, child};
use super::layers::value_of;
use super::settings::{ChannelSettings, DatasetSettings, Server, Settings};
use super::values;

/// Checks the names of datasets and channels.
pub(super) fn check_names(tree: &Value, notes: &mut Notes) {
    for (token, dataset) in tables(tree, "datasets") {
        let key = child("datasets", token);
        if let Err(problem) = values::token(token) {
            notes.fault(&key, problem);
        }
        for (name, _) in tables(dataset, "channels") {
            if let Err(problem) = values::name(name) {
                notes.fault(child(&format!("{key}.channels"), name), problem);
            }
        }
    }
}

/// The entries of the table at a key.
fn tables<'v>(tree: &'v Value, key: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    let table = match value_of(Some(tree), key).map(|value| &value.kind) {
        Some(ValueKind::Table(table)) => Some(table),
        _ => None,
    };
    table.into_iter().flatten()
}

/// Checks all settings.
pub(super) fn check(settings: &Settings, notes: &mut Notes) {
    check_server(&settings.server, notes);
    for (number, entry) in settings.access.iter().enumerate() {
        if entry.secrets.as_os_str().is_empty() {
            notes.fault_unless_faulty(
                format!("access[{number}].secrets"),
                "a file with one secret per line is needed, such as secrets = \"lab.txt\"",
            );
        }
    }
    for (token, dataset) in &settings.datasets {
        check_dataset(&child("datasets", token.as_str()), dataset, notes);
    }
}

fn check_server(server: &Server, notes: &mut Notes) {
    if let Some(tls) = &server.tls {
        for (key, path) in [("certificate", &tls.certificate), ("key", &tls.key)] {
            if path.as_os_str().is_empty() {
                notes.fault_unless_faulty(
                    format!("server.tls.{key}"),
                    "is required for TLS: the path of a file in PEM format",
                );
            }
        }
    }
    let mut services = BTreeSet::new();
    for (number, mount) in server.mounts.iter().enumerate() {
        if !services.insert(&mount.tile_service) {
            let problem = format!(
                "a mount {} exists already; each needs a different tile_service",
                mount.tile_service
            );
            notes.fault_unless_faulty(format!("server.mounts[{number}]"), problem);
        }
    }
    // The first segment: the path begins with a slash, unless it is empty.
    let first = server.base_path.split('/').nth(1).unwrap_or_default();
    if services.iter().any(|name| name.as_str() == first) {
        let problem =
            format!("it begins with {first:?}, which is a tile service; rename one of them");
        notes.fault("server.base_path", problem);
    }
}

/// Checks the channels, and that a dataset without a file has a file in every channel.
fn check_dataset(key: &str, dataset: &DatasetSettings, notes: &mut Notes) {
    for (name, channel) in &dataset.channels {
        let key = child(&format!("{key}.channels"), name.as_str());
        check_channel(&key, channel, notes);
    }
    if dataset.file.is_some() {
        return;
    }
    let without_file: Vec<&str> = dataset
        .channels
        .iter()
        .filter(|(_, channel)| channel.file.is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    if !without_file.is_empty() {
        let names = without_file.join(", ");
        notes.fault_unless_faulty(
            format!("{key}.file"),
            format!("a file is needed here, or in each channel; missing for {names}"),
        );
    } else if dataset.channels.is_empty() && !notes.is_faulty(&format!("{key}.channels")) {
        notes.fault_unless_faulty(
            format!("{key}.file"),
            "a dataset needs a file, such as file = \"data/kasthuri11.h5\"",
        );
    }
}

fn check_channel(key: &str, channel: &ChannelSettings, notes: &mut Notes) {
    let has_levels = !channel.levels.is_empty() || notes.is_faulty(&format!("{key}.levels"));
    if channel.file.is_some() && channel.path.is_none() && !has_levels {
        notes.fault_unless_faulty(
            format!("{key}.path"),
            "a channel with a file of its own needs the path of the HDF5 dataset in it",
        );
    }
    for (number, level) in channel.levels.iter().enumerate() {
        if level.path.is_empty() {
            notes.fault_unless_faulty(
                format!("{key}.levels[{number}].path"),
                "a level needs the path of its HDF5 dataset, such as \"/volumes/raw_4\"",
            );
        }
        if number == 0 && level.factor.is_some_and(|factor| factor != Xyz::all(1)) {
            notes.fault(
                format!("{key}.levels[0].factor"),
                "factors are relative to the first level: expected [1, 1, 1]",
            );
        }
    }
    if let Some(names) = &channel.names
        && names.file.is_some() == names.path.is_some()
    {
        notes.fault_unless_faulty(
            format!("{key}.names"),
            "either file or path is expected: a text file, or a table in the HDF5 file",
        );
    }
    if let Some(axes) = &channel.axes {
        for axis in channel.index.keys() {
            if axes.position(*axis).is_none() {
                let problem = format!("{axis} has no effect: the axes \"{axes}\" do not have it");
                notes.warning(format!("{key}.index"), problem);
            }
        }
    }
}
