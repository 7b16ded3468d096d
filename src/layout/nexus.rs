//! NeXus: signals of `NXdata` groups, and the axes that these name.
//!
//! Source: the NeXus manual, "NXdata" and "Associating plottable data using attributes of the
//! group". The group's `signal` names the dataset to plot, and `axes` a dataset for each of its
//! dimensions (`.` for none); `<name>_indices` says to which dimension a dataset belongs. Older
//! files mark the dataset: `signal` = 1, and `axes` with names separated by colons. The attributes
//! `default` of the root and the groups below lead to the data to plot first, which is the first
//! channel here. Axes whose names say nothing of x and y are taken in order: the last two of images
//! are y, x. The distance of positions and their `units` give the voxel size.

use voltile_base::axes::AxisName;
use voltile_hdf5::volume::hdf5::{Attributes, OpenFile};

use super::axis_names::{axis_named, completed, is_spectral};
use super::contents::{About, Contents};
use super::marks::Marks;
use super::spacing::{Calibration, Spacing};
use super::{FoundChannel, Layout, Rank};

/// At most this many groups are followed from the root.
const MAX_DEFAULTS: usize = 8;

pub(super) struct Nexus;

impl Layout for Nexus {
    fn marks_links(&self) -> bool {
        true
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        let group = about.file.attributes(about.group())?;
        if group.text("NX_class").as_deref() != Some("NXdata") || !is_signal(about, &group) {
            return None;
        }
        let along = |place| axis(about, &group, place).unwrap_or_default();
        let (names, spacings): (Vec<_>, Vec<_>) = (0..about.rank()).map(along).unzip();
        let axes = completed(&names, &about.dataset.shape);
        let calibration = axes
            .as_ref()
            .map(|axes| Calibration::new(axes, &about.dataset.shape, &spacings));
        let Calibration { voxel, origin } = calibration.unwrap_or_default();
        let because = format!("{} is the signal of an NXdata group", about.path);
        let rank = Some(Rank::Declared);
        let is_spectrum = (0..about.rank())
            .filter_map(|place| name(about, &group, place))
            .any(|name| is_spectral(&name));
        Some(Marks {
            rank,
            axes,
            is_spectrum,
            voxel,
            origin,
            ..Marks::because(because)
        })
    }
}

/// Marks the channel that the file says is to be plotted first, in files of any layout, and moves
/// it to the front.
pub(super) fn mark_default(contents: &Contents<'_>, channels: &mut [FoundChannel]) {
    let Some(group) = default_group(contents.file) else {
        return;
    };
    let attributes = contents.file.attributes(&group);
    let signal = attributes
        .and_then(|group| group.text("signal"))
        .map(|signal| format!("{group}/{signal}"));
    let signal = signal.as_deref().map(|path| contents.found_at(path));
    let shows = |channel: &FoundChannel, wanted: &dyn Fn(&str) -> bool| {
        channel
            .levels
            .first()
            .is_some_and(|level| level.paths.all().any(wanted))
    };
    let is_signal = |channel: &FoundChannel| shows(channel, &|path| Some(path) == signal);
    let is_within = |channel: &FoundChannel| shows(channel, &|path| super::group_of(path) == group);
    let place = channels
        .iter()
        .position(is_signal)
        .or_else(|| channels.iter().position(is_within));
    if let Some(channel) = place.and_then(|place| channels.get_mut(place)) {
        channel.rank = Rank::First;
    }
    channels.sort_by_key(|channel| channel.rank != Rank::First);
}

/// Whether a dataset is what its group plots.
fn is_signal(about: &About<'_>, group: &Attributes) -> bool {
    let named = group
        .text("signal")
        .is_some_and(|signal| signal == about.last());
    let marked = || about.attributes.has("signal");
    named || marked()
}

/// The name and the spacing of one dimension.
fn axis(
    about: &About<'_>,
    group: &Attributes,
    place: usize,
) -> Option<(Option<AxisName>, Option<Spacing>)> {
    let name = name(about, group, place)?;
    let path = format!("{}/{name}", about.group());
    let own = about.file.attributes(&path);
    let units = own.and_then(|own| own.text("units"));
    let extent = about.dataset.shape.get(place).copied().unwrap_or(0);
    let positions = about
        .file
        .numbers(&path)
        .filter(|positions| positions.len() as u64 == extent);
    let spacing = positions
        .and_then(|positions| Spacing::from_positions(&positions, Some(units.as_deref()?)));
    Some((axis_named(&name), spacing))
}

/// The name of the dataset with the positions along one dimension.
fn name(about: &About<'_>, group: &Attributes, place: usize) -> Option<String> {
    let listed = group
        .texts("axes")
        .or_else(|| about.attributes.texts("axes"))?;
    let names: Vec<String> = match &listed[..] {
        [one] => one
            .trim_matches(['[', ']'])
            .split([':', ','])
            .map(|name| name.trim().to_owned())
            .collect(),
        _ => listed,
    };
    let dimensions = |name: &String| group.numbers(&format!("{name}_indices"));
    let placed = names
        .iter()
        .find(|name| dimensions(name).is_some_and(|at| at == [place as f64]));
    let in_order = || names.get(place).filter(|name| dimensions(name).is_none());
    placed
        .or_else(in_order)
        .filter(|name| name.as_str() != ".")
        .cloned()
}

/// The group that the attributes `default` lead to, from the root on.
fn default_group(file: &OpenFile) -> Option<String> {
    let mut group = String::new();
    for _ in 0..MAX_DEFAULTS {
        let at = if group.is_empty() { "/" } else { &group };
        match file.attributes(at)?.text("default") {
            Some(next) => group = format!("{group}/{next}"),
            None => break,
        }
    }
    (!group.is_empty()).then_some(group)
}
