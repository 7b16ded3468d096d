//! Reads the sections of datasets, channels and levels. Whether the files match is checked by the catalogue.

use std::collections::BTreeMap;
use std::path::Path;

use config::{Value, ValueKind};

use super::keys;
use super::reader::{Entry, Notes, Section, at};
use super::settings::{ChannelSettings, DatasetSettings, LevelSettings};
use super::values::{self, Parsed};
use crate::axes::AxisName;
use crate::geometry::{Scaling, Xyz};
use crate::name::Name;
use crate::paint::Kind;

/// Reads every dataset.
///
/// `base` is the directory of the configuration file, `files` are the data files that need no configuration, with their
/// tokens.
pub(super) fn read(
    root: &mut Section<'_, '_>,
    base: &Path,
    files: &BTreeMap<Name, DatasetSettings>,
) -> BTreeMap<Name, DatasetSettings> {
    let mut datasets = BTreeMap::new();
    for entry in root.named("datasets", values::token) {
        let start = entry.name.as_ref().and_then(|token| files.get(token)).cloned().unwrap_or_default();
        let mut section = Section::open(entry.path, Some(entry.value), keys::DATASET, root.notes());
        let dataset = dataset(&mut section, base, start);
        datasets.extend(entry.name.map(|token| (token, dataset)));
    }
    datasets
}

fn dataset(section: &mut Section<'_, '_>, base: &Path, mut dataset: DatasetSettings) -> DatasetSettings {
    let scalings = [Scaling::Zslices, Scaling::Isotropic].map(|scaling| (scaling.name(), scaling));
    section.set("file", values::file_below(base), &mut dataset.file);
    section.set("scaling", values::choice(&scalings), &mut dataset.scaling);
    section.set("voxel_size", values::triple(values::length), &mut dataset.voxel_size);
    section.set("offset", values::triple(values::whole(i64::MIN, i64::MAX)), &mut dataset.offset);
    let squares = [("isotropic", true), ("stored", false)];
    section.set("orthogonal", values::choice(&squares), &mut dataset.square_pixels);
    let outside = [("black", false), ("not_found", true)];
    section.set("out_of_bounds", values::choice(&outside), &mut dataset.not_found_outside);
    section.set("allow_external", values::flag, &mut dataset.allow_external);
    section.set("growing", values::flag, &mut dataset.growing);
    let without_file = channels(section, base, &mut dataset.channels);
    if dataset.file.is_none() && !section.has("file") {
        check_files(section, &without_file);
    }
    dataset
}

/// Reads the channels; returns those that name no file of their own, except those with invalid names.
fn channels(
    section: &mut Section<'_, '_>,
    base: &Path,
    channels: &mut BTreeMap<Name, ChannelSettings>,
) -> Vec<Name> {
    let mut without_file = Vec::new();
    for entry in section.named("channels", values::name) {
        let mut section = Section::open(entry.path, Some(entry.value), keys::CHANNEL, section.notes());
        let channel = channel(&mut section, base);
        without_file.extend(entry.name.clone().filter(|_| !section.has("file")));
        channels.extend(entry.name.map(|name| (name, channel)));
    }
    without_file
}

/// A dataset without a file needs a file in every channel.
fn check_files(section: &mut Section<'_, '_>, without_file: &[Name]) {
    let names = without_file.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
    if !section.has("channels") {
        section.missing("file", "a dataset needs a file, such as file = \"data/kasthuri11.h5\"");
    } else if !without_file.is_empty() {
        section.missing("file", format!("a file is needed here, or in each channel; missing for {names}"));
    }
}

fn channel(section: &mut Section<'_, '_>, base: &Path) -> ChannelSettings {
    let kinds = [Kind::Image, Kind::Labels, Kind::Rgb].map(|kind| (kind.name(), kind));
    let mut channel = ChannelSettings::default();
    section.set("path", values::path, &mut channel.path);
    section.set("file", values::file_below(base), &mut channel.file);
    channel.levels = levels(section);
    section.set("axes", values::axes, &mut channel.axes);
    section.set("index", index, &mut channel.index);
    section.set("window", values::window, &mut channel.window);
    section.set("kind", values::choice(&kinds), &mut channel.kind);
    section.set("offset", values::triple(values::whole(i64::MIN, i64::MAX)), &mut channel.offset);
    section.set("missing", values::numbers, &mut channel.missing);
    section.set("stored_values", values::flag, &mut channel.stored_values);
    if section.has("file") && !section.has("path") && !section.has("levels") {
        section.missing("path", "a channel with a file of its own needs the path of the HDF5 dataset in it");
    }
    warn_of_unused_indices(section, &channel);
    channel
}

fn levels(section: &mut Section<'_, '_>) -> Vec<LevelSettings> {
    let Some(entries) = section.list("levels") else { return Vec::new() };
    if entries.is_empty() {
        section.fault("levels", "expected at least one level; omit the key if there is no pyramid");
    }
    entries.into_iter().filter_map(|entry| level(entry, section.notes())).collect()
}

/// A level is a path, or a table with a path and optionally a factor.
fn level(entry: Entry<'_, usize>, notes: &mut Notes) -> Option<LevelSettings> {
    let Entry { name: position, path: key, value } = entry;
    if !matches!(value.kind, ValueKind::Table(_)) {
        let path = values::path(value).map_err(|problem| notes.fault(key, at(&problem, value))).ok()?;
        return Some(LevelSettings { path, factor: None });
    }
    let mut section = Section::open(key, Some(value), keys::LEVEL, notes);
    let mut path = None;
    let mut factor = None;
    section.set("path", values::path, &mut path);
    section.set("factor", values::triple(values::whole(1, u64::MAX)), &mut factor);
    if !section.has("path") {
        section.missing("path", "a level needs the path of its HDF5 dataset, such as \"/volumes/raw_4\"");
    }
    if position == 0 && factor.is_some_and(|factor| factor != Xyz::all(1)) {
        section.fault("factor", "factors are relative to the first level: expected [1, 1, 1]");
    }
    Some(LevelSettings { path: path?, factor })
}

/// `{ c = 1 }`: positions by axis.
fn index(value: &Value) -> Parsed<BTreeMap<AxisName, u64>> {
    let ValueKind::Table(table) = &value.kind else {
        return Err(values::expected("a table such as { c = 1 }", value));
    };
    let position = |(letter, value): (&String, &Value)| {
        let axis = fixable(letter)
            .ok_or_else(|| format!("{letter:?} is none of t, c and z, the axes that can be fixed"))?;
        let position = values::whole(0, u64::MAX)(value).map_err(|problem| format!("{letter}: {problem}"))?;
        Ok((axis, position))
    };
    table.iter().map(position).collect()
}

fn fixable(letter: &str) -> Option<AxisName> {
    [AxisName::T, AxisName::C, AxisName::Z].into_iter().find(|axis| axis.to_string() == letter)
}

fn warn_of_unused_indices(section: &mut Section<'_, '_>, channel: &ChannelSettings) {
    let Some(axes) = &channel.axes else { return };
    for axis in channel.index.keys().filter(|axis| axes.position(**axis).is_none()) {
        section.warning("index", format!("{axis} has no effect: the axes \"{axes}\" do not have it"));
    }
}
