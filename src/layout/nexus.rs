//! NeXus: signals of `NXdata` groups, and the axes that the groups name.
//!
//! Source: the NeXus manual, "NXdata" and "Associating plottable data using attributes of the
//! group". The group's `signal` names the dataset to plot, and `axes` a dataset for each of its
//! dimensions (`.` for none); `<name>_indices` says to which dimension a dataset belongs. Older
//! files mark the dataset: `signal` = 1, and `axes` with names separated by colons. The attributes
//! `default` of the root and the groups below lead to the data to plot first, which is the first
//! channel here. Axes whose names say nothing of x and y are taken in order: the last two of images
//! are y, x. The distance of positions and their `units` give the voxel size. `interpretation`, of
//! a dataset or its group, says what the last axes are: an image, a spectrum, or colours.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::paint::Kind;
use voltile_hdf5::volume::hdf5::{Attributes, OpenFile};

use super::axis_names::{axis_named, completed, is_spectral};
use super::contents::{About, Contents};
use super::marks::Marks;
use super::spacing::{Calibration, Spacing};
use super::{FoundChannel, Layout, Rank, group_of, usual_axes};

/// The attribute that says what the last axes of a dataset are.
const INTERPRETATION: &str = "interpretation";
/// At most this many groups are followed from the root.
const MAX_DEFAULTS: usize = 8;

pub(super) struct Nexus;

impl Layout for Nexus {
    fn marks_links(&self) -> bool {
        true
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        let group = about.group_attributes()?;
        let is_of_data = group.text("NX_class").as_deref() == Some("NXdata");
        let is_plotted = is_of_data && is_signal(about, group);
        let own = about.attributes.text(INTERPRETATION);
        let shown_as = own.or_else(|| group.text(INTERPRETATION).filter(|_| is_plotted));
        let shown_as = shown_as.and_then(|word| Interpretation::new(&word, about));
        if !is_plotted {
            return shown_as.map(|shown_as| Marks {
                axes: shown_as.axes(Vec::new(), about),
                kind: shown_as.kind,
                is_spectrum: shown_as.is_spectrum,
                ..Marks::default()
            });
        }
        let (names, spacings): (Vec<_>, Vec<_>) = (0..about.rank())
            .map(|place| axis(about, group, place).unwrap_or_default())
            .unzip();
        let axes = match &shown_as {
            Some(shown_as) => shown_as.axes(names, about),
            None => completed(&names, &about.dataset.shape),
        };
        let calibration = axes
            .as_ref()
            .map(|axes| Calibration::new(axes, &about.dataset.shape, &spacings));
        let Calibration { voxel, origin } = calibration.unwrap_or_default();
        let because = format!("{} is the signal of an NXdata group", about.path);
        let rank = Some(Rank::Declared);
        let is_spectrum = (0..about.rank())
            .filter_map(|place| name(about, group, place))
            .any(|name| is_spectral(&name));
        Some(Marks {
            rank,
            axes,
            kind: shown_as.as_ref().and_then(|shown_as| shown_as.kind),
            is_spectrum: is_spectrum || shown_as.is_some_and(|shown_as| shown_as.is_spectrum),
            voxel,
            origin,
            ..Marks::because(because)
        })
    }
}

/// The meaning of the last axes of a dataset.
struct Interpretation {
    /// The letters of the last axes.
    letters: &'static str,
    kind: Option<Kind>,
    is_spectrum: bool,
}

impl Interpretation {
    /// By a word of NeXus; `None` if it does not fit the dataset.
    fn new(word: &str, about: &About<'_>) -> Option<Self> {
        let word = word.trim().to_lowercase();
        let (letters, kind) = match (word.as_str(), &about.dataset.shape[..]) {
            ("image", [_, _, ..]) => ("yx", None),
            ("spectrum", [_, _, _, ..]) => ("c", None),
            ("rgb-image" | "rgba-image", [.., 3 | 4]) => ("yxc", Some(Kind::Rgb)),
            ("rgb-image" | "rgba-image", [.., 3 | 4, _, _]) => ("cyx", Some(Kind::Rgb)),
            _ => return None,
        };
        Some(Self {
            letters,
            kind,
            is_spectrum: letters == "c",
        })
    }

    /// All axes of a dataset, some of which may be named.
    fn axes(&self, mut names: Vec<Option<AxisName>>, about: &About<'_>) -> Option<Axes> {
        let rank = about.dataset.shape.len();
        names.resize(rank, None);
        let has_plane = [AxisName::X, AxisName::Y]
            .iter()
            .all(|axis| names.contains(&Some(*axis)));
        if !has_plane || self.kind.is_some() {
            let last = names.iter_mut().rev().zip(self.letters.chars().rev());
            for (name, letter) in last {
                *name = AxisName::from_letter(letter);
            }
        }
        if let Some(axes) = completed(&names, &about.dataset.shape) {
            return Some(axes);
        }
        let space = usual_axes(rank - self.letters.matches('c').count())?.to_string();
        let first = space.strip_suffix("yx").filter(|_| self.letters != "c");
        Axes::new(&format!("{}{}", first.unwrap_or(&space), self.letters)).ok()
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
    let place = channels
        .iter()
        .position(|channel| finest_paths(channel).any(|path| Some(path) == signal))
        .or_else(|| {
            channels
                .iter()
                .position(|channel| finest_paths(channel).any(|path| group_of(path) == group))
        });
    if let Some(channel) = place.and_then(|place| channels.get_mut(place)) {
        channel.rank = Rank::First;
    }
    channels.sort_by_key(|channel| channel.rank != Rank::First);
}

/// The paths of the datasets of a channel's finest level.
fn finest_paths(channel: &FoundChannel) -> impl Iterator<Item = &str> {
    channel
        .levels
        .iter()
        .take(1)
        .flat_map(|level| level.paths.all())
}

/// Whether a group plots a dataset.
fn is_signal(about: &About<'_>, group: &Attributes) -> bool {
    let signal = group.text("signal");
    signal.is_some_and(|signal| signal == about.last()) || about.attributes.has("signal")
}

/// The name and the spacing of one dimension.
fn axis(
    about: &About<'_>,
    group: &Attributes,
    place: usize,
) -> Option<(Option<AxisName>, Option<Spacing>)> {
    let name = name(about, group, place)?;
    let path = about.beside(&name);
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
    let placed = names
        .iter()
        .find(|name| indices(group, name).is_some_and(|at| at == [place as f64]));
    let in_order = names.get(place);
    placed
        .or_else(|| in_order.filter(|name| indices(group, name).is_none()))
        .filter(|name| name.as_str() != ".")
        .cloned()
}

/// The dimensions to which a dataset with positions belongs, if the group states them.
fn indices(group: &Attributes, name: &str) -> Option<Vec<f64>> {
    group.numbers(&format!("{name}_indices"))
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
