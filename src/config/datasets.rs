//! The tables of datasets, channels and levels. Whether the files match is checked by the
//! catalogue.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use config::{Value, ValueKind};

use super::keys::{Key, Shape, default, needed, optional};
use super::reader::{Entry, Notes, Section, Setting, keys, located};
use super::settings::{ChannelSettings, DatasetSettings, LevelSettings, NamesSettings, Settings};
use super::values::{self, Parsed};
use crate::base::axes::AxisName;
use crate::base::name::Name;
use crate::base::paint::Kind;
use crate::geometry::{Scaling, Xyz};
use crate::store::Location;

/// `[datasets.TOKEN]`; `base` is the directory of the configuration file. The settings contain the
/// data files of the command line, which need no configuration, already.
pub(super) fn datasets(base: &Path) -> Setting<Settings> {
    let (table, base) = (dataset(base), base.to_owned());
    Key::new("datasets", Shape::Named("kasthuri11", keys(&table)))
        .doc("A dataset; the name is the token in URLs. Quote a name with a dot: [datasets.\"FlyEM.v1\"].")
        .reads(move |root, settings: &mut Settings| {
            for entry in root.named("datasets", values::token) {
                let known = entry.name.as_ref().and_then(|token| settings.datasets.remove(token));
                let is_named_here = known.is_none();
                let mut dataset = known.unwrap_or_default();
                Section::read(entry.path, Some(entry.value), &table, &mut dataset, root.notes());
                let file = dataset.file.as_ref().and_then(Location::path).filter(|_| is_named_here);
                dataset.below = file.and_then(|file| below(file, &base)).unwrap_or_default();
                settings.datasets.extend(entry.name.map(|token| (token, dataset)));
            }
        })
}

/// The path of a file's folder below another folder.
fn below(file: &Path, folder: &Path) -> Option<PathBuf> {
    let path = file.parent()?.strip_prefix(folder).ok()?;
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts
        .map(|part| matches!(part, Component::Normal(_)).then_some(part))
        .collect()
}

fn dataset(base: &Path) -> Vec<Setting<DatasetSettings>> {
    vec![
        needed("file", "\"data/kasthuri11.h5\"")
            .doc("The HDF5 file, relative to this configuration file.")
            .sets(values::file_below(base), |s| &mut s.file),
        default("scaling", "\"zslices\"")
            .doc("Downsampling keeps z; or \"isotropic\": halves z as well.")
            .sets(
                values::choice(
                    [Scaling::Zslices, Scaling::Isotropic].map(|scaling| (scaling.name(), scaling)),
                ),
                |s| &mut s.style.scaling,
            ),
        optional("voxel_size", "[6.0, 6.0, 30.0]")
            .doc("x, y, z in nanometres. Default: from the file.")
            .sets(values::triple(values::length), |s| &mut s.style.voxel_size),
        default("offset", "[0, 0, 0]")
            .doc("x, y, z of the first voxel: where slice numbers start.")
            .sets(values::triple(values::whole(i64::MIN, i64::MAX)), |s| &mut s.style.offset),
        default("orthogonal", "\"isotropic\"")
            .doc("xz and yz tiles have square pixels; or \"stored\": one voxel per pixel.")
            .sets(values::choice([("isotropic", true), ("stored", false)]), |s| &mut s.style.square_pixels),
        default("out_of_bounds", "\"black\"")
            .doc("Tiles entirely outside; or \"not_found\".")
            .sets(values::choice([("black", false), ("not_found", true)]), |s| {
                &mut s.style.not_found_outside
            }),
        default("allow_external", "false")
            .doc("Whether links may leave the directory of the file that names them.")
            .sets(values::flag, |s| &mut s.allow_external),
        optional("growing", "true")
            .doc(
                "Whether the file is still being written, and served as last seen meanwhile. Default: as its \
                 mark says (SWMR).",
            )
            .sets(values::flag, |s| &mut s.growing),
        channels(base),
    ]
}

/// `[datasets.TOKEN.channels.CHANNEL]`
fn channels(base: &Path) -> Setting<DatasetSettings> {
    let table = channel(base);
    Key::new("channels", Shape::Named("image", keys(&table)))
        .doc("A channel; without path and levels it adjusts the discovered one. No channels: all as discovered.")
        .reads(move |section, dataset: &mut DatasetSettings| {
            // The channels that name no file of their own, except those with invalid names.
            let mut without_file = Vec::new();
            for entry in section.named("channels", values::name) {
                let mut channel = ChannelSettings::default();
                let notes = section.notes();
                let mut section = Section::read(entry.path, Some(entry.value), &table, &mut channel, notes);
                check_channel(&mut section, &channel);
                without_file.extend(entry.name.clone().filter(|_| !section.has("file")));
                dataset.channels.extend(entry.name.map(|name| (name, channel)));
            }
            if dataset.file.is_none() && !section.has("file") {
                check_files(section, &without_file);
            }
        })
}

/// A dataset without a file needs a file in every channel.
fn check_files(section: &mut Section<'_, '_>, without_file: &[Name]) {
    let names = without_file
        .iter()
        .map(Name::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if !section.has("channels") {
        section.missing(
            "file",
            "a dataset needs a file, such as file = \"data/kasthuri11.h5\"",
        );
    } else if !without_file.is_empty() {
        section.missing(
            "file",
            format!("a file is needed here, or in each channel; missing for {names}"),
        );
    }
}

fn channel(base: &Path) -> Vec<Setting<ChannelSettings>> {
    vec![
        optional("path", "\"/volumes/raw\"").doc("The HDF5 dataset.").sets(values::path, |s| &mut s.path),
        optional("file", "\"data/other.h5\"")
            .doc("If it is in another file than the dataset's.")
            .sets(values::file_below(base), |s| &mut s.file),
        levels(),
        optional("axes", "\"czyx\"")
            .doc("The axes as stored: any order of t c z y x. Default: from the layout or the rank.")
            .sets(values::axes, |s| &mut s.axes),
        optional("index", "{ c = 1 }")
            .doc("Positions along axes that are not served.")
            .sets(index, |s| &mut s.index),
        optional("window", "[10, 240]")
            .doc("The values shown as black and white; or \"auto\", or \"full\".")
            .sets(values::window, |s| &mut s.window),
        optional("kind", "\"image\"").doc("Or \"labels\", or \"rgb\". Default: from the layout.").sets(
            values::choice([Kind::Image, Kind::Labels, Kind::Rgb].map(|kind| (kind.name(), kind))),
            |s| &mut s.kind,
        ),
        optional("offset", "[300, 200, 15]")
            .doc(
                "x, y, z of the first voxel in voxels of the dataset's first channel. Default: from the \
                 file for discovered channels, else 0.",
            )
            .sets(values::triple(values::whole(i64::MIN, i64::MAX)), |s| &mut s.offset),
        optional("missing", "[65535]")
            .doc("Values that stand for missing data: black, and left out of means and windows.")
            .sets(values::numbers, |s| &mut s.missing),
        optional("stored_values", "true")
            .doc(
                "Serve stored values although they stand for others (superpixels, indices into a palette). \
                 Default: false.",
            )
            .sets(values::flag, |s| &mut s.stored_values),
        names(base),
    ]
}

fn check_channel(section: &mut Section<'_, '_>, channel: &ChannelSettings) {
    if section.has("file") && !section.has("path") && !section.has("levels") {
        section.missing(
            "path",
            "a channel with a file of its own needs the path of the HDF5 dataset in it",
        );
    }
    let Some(axes) = &channel.axes else { return };
    for axis in channel
        .index
        .keys()
        .filter(|axis| axes.position(**axis).is_none())
    {
        section.warning(
            "index",
            format!("{axis} has no effect: the axes \"{axes}\" do not have it"),
        );
    }
}

fn levels() -> Setting<ChannelSettings> {
    let table: Vec<Setting<LevelSettings>> = vec![
        needed("path", "\"/volumes/raw_4\"")
            .doc("The HDF5 dataset.")
            .sets(values::path, |s| &mut s.path),
        optional("factor", "[4, 4, 1]")
            .doc("x, y, z relative to the first level.")
            .sets(values::triple(values::whole(1, u64::MAX)), |s| {
                &mut s.factor
            }),
    ];
    let example = "[\"/volumes/raw\", { path = \"/volumes/raw_4\", factor = [4, 4, 1] }]";
    Key::new("levels", Shape::Inline(example, keys(&table)))
        .doc("An explicit pyramid instead of path, finest first; factor: x, y, z relative to the first, default: from \
              the sizes.")
        .reads(move |section, channel: &mut ChannelSettings| {
            let Some(entries) = section.list("levels") else { return };
            if entries.is_empty() {
                section.fault("levels", "expected at least one level; omit the key if there is no pyramid");
            }
            let read = |entry| level(entry, &table, section.notes());
            channel.levels = entries.into_iter().filter_map(read).collect();
        })
}

/// A text file, or a table that says where the columns are.
fn names(base: &Path) -> Setting<ChannelSettings> {
    let file = values::path_below(base);
    let table: Vec<Setting<NamesSettings>> = vec![
        optional("file", "\"cells.csv\"")
            .doc("A CSV or TSV file.")
            .sets(values::path_below(base), |s| &mut s.file),
        optional("path", "\"/table\"")
            .doc("Or a table in the channel's HDF5 file: a compound dataset, or a group of datasets.")
            .sets(values::path, |s| &mut s.path),
        optional("id", "\"id\"")
            .doc("The column of ids. Default: one that is called id, or so.")
            .sets(values::path, |s| &mut s.id),
        optional("name", "\"name\"")
            .doc("The column of names. Default: one that is called name, or so.")
            .sets(values::path, |s| &mut s.name),
    ];
    let example = "{ file = \"cells.csv\", id = \"id\", name = \"name\" }";
    Key::new("names", Shape::InlineTable(example, keys(&table)))
        .doc("Names and properties of labels: a CSV or TSV file, or { path = \"/table\" } in the HDF5 file.")
        .reads(move |section, channel: &mut ChannelSettings| {
            let Some(value) = section.get("names") else { return };
            let mut names = NamesSettings::default();
            if !matches!(value.kind, ValueKind::Table(_)) {
                section.set("names", &file, &mut names.file);
            } else {
                let given = section.below("names", &table, &mut names);
                if given.has("file") == given.has("path") {
                    let problem = "either file or path is expected: a text file, or a table in the HDF5 file";
                    section.fault("names", problem);
                }
            }
            channel.names = Some(names);
        })
}

/// A level is a path, or a table with a path and optionally a factor.
fn level(
    entry: Entry<'_, usize>,
    table: &[Setting<LevelSettings>],
    notes: &mut Notes,
) -> Option<LevelSettings> {
    let Entry {
        name: position,
        path: key,
        value,
    } = entry;
    if !matches!(value.kind, ValueKind::Table(_)) {
        let path = values::path(value)
            .map_err(|problem| notes.fault(key, located(&problem, value)))
            .ok()?;
        return Some(LevelSettings { path, factor: None });
    }
    let mut level = LevelSettings::default();
    let mut section = Section::read(key, Some(value), table, &mut level, notes);
    section.require(
        "path",
        "a level needs the path of its HDF5 dataset, such as \"/volumes/raw_4\"",
    );
    if position == 0 && level.factor.is_some_and(|factor| factor != Xyz::all(1)) {
        section.fault(
            "factor",
            "factors are relative to the first level: expected [1, 1, 1]",
        );
    }
    Some(level).filter(|level| !level.path.is_empty())
}

/// `{ c = 1 }`: positions by axis.
fn index(value: &Value) -> Parsed<BTreeMap<AxisName, u64>> {
    let ValueKind::Table(table) = &value.kind else {
        return Err(values::expected("a table such as { c = 1 }", value));
    };
    let position = |(letter, value): (&String, &Value)| {
        let axis = fixable(letter).ok_or_else(|| {
            format!("{letter:?} is none of t, c and z, the axes that can be fixed")
        })?;
        let position =
            values::whole(0, u64::MAX)(value).map_err(|problem| format!("{letter}: {problem}"))?;
        Ok((axis, position))
    };
    table.iter().map(position).collect()
}

fn fixable(letter: &str) -> Option<AxisName> {
    [AxisName::T, AxisName::C, AxisName::Z]
        .into_iter()
        .find(|axis| axis.to_string() == letter)
}
