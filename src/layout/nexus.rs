//! NeXus: signals of `NXdata` groups, and the axes that the groups name.
//!
//! Source: the NeXus manual, "NXdata" and "Associating plottable data using attributes of the
//! group". The attribute `signal` of the group names the dataset to plot. Its attribute `axes`
//! names a dataset of positions for each dimension of the signal (`.` for none), and
//! `<name>_indices` says to which dimension such a dataset belongs. In older files the dataset to
//! plot has the attributes itself: `signal` = 1, and `axes` with names separated by colons.
//!
//! The attribute `default` of the root names a group, the `default` of that group the next one, and
//! so on to the data to plot first, which becomes the first channel. If the names of axes do not
//! tell which are x and y, the last two axes of an image are taken for y, x. The distance of
//! adjacent positions and their `units` give the voxel size. `interpretation`, an attribute of the
//! dataset or its group, says whether the last axes are an image, a spectrum or colours.

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
/// The attribute `default` is followed at most this many times from the root.
const MAX_DEFAULTS: usize = 8;

pub(super) struct Nexus;

impl Layout for Nexus {
    fn marks_links(&self) -> bool {
        true
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        let group = about.group_attributes()?;
        let is_in_data_group = group.text("NX_class").as_deref() == Some("NXdata");
        let is_plotted = is_in_data_group && is_signal(about, group);
        let own_word = about.attributes.text(INTERPRETATION);
        // The group's word is about its signal only.
        let word = own_word.or_else(|| group.text(INTERPRETATION).filter(|_| is_plotted));
        let interpretation = word.and_then(|word| Interpretation::new(&word, about));
        if !is_plotted {
            return interpretation.map(|interpretation| Marks {
                axes: interpretation.axes(Vec::new(), about),
                kind: interpretation.kind,
                is_spectrum: interpretation.is_spectrum,
                ..Marks::default()
            });
        }
        let mut names = Vec::new();
        let mut spacings = Vec::new();
        let mut has_spectral_axis = false;
        for dimension in 0..about.rank() {
            let positions = positions_name(about, group, dimension);
            let positions = positions.as_deref();
            names.push(positions.and_then(axis_named));
            spacings.push(positions.and_then(|name| spacing(about, name, dimension)));
            has_spectral_axis |= positions.is_some_and(is_spectral);
        }
        let axes = match &interpretation {
            Some(interpretation) => interpretation.axes(names, about),
            None => completed(&names, &about.dataset.shape),
        };
        let calibration = axes
            .as_ref()
            .map(|axes| Calibration::new(axes, &about.dataset.shape, &spacings));
        let Calibration { voxel, origin } = calibration.unwrap_or_default();
        let because = format!("{} is the signal of an NXdata group", about.path);
        let is_spectrum = interpretation
            .as_ref()
            .is_some_and(|interpretation| interpretation.is_spectrum);
        Some(Marks {
            rank: Some(Rank::Declared),
            axes,
            kind: interpretation.and_then(|interpretation| interpretation.kind),
            is_spectrum: has_spectral_axis || is_spectrum,
            voxel,
            origin,
            ..Marks::because(because)
        })
    }
}

/// The meaning of the last axes of a dataset, as the attribute `interpretation` states it.
struct Interpretation {
    /// The letters of the last axes, in storage order.
    letters: &'static str,
    kind: Option<Kind>,
    is_spectrum: bool,
}

impl Interpretation {
    /// The interpretation that a word of NeXus names; `None` if the word is unknown or does not fit
    /// the shape of the dataset.
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

    /// All axes of a dataset; `names` holds the axes that are known by name. The last axes get the
    /// letters of the interpretation, unless an image or a spectrum has names for both x and y.
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
        // The names do not suffice, so the axes before the last ones are the usual ones.
        let usual = usual_axes(rank - self.letters.matches('c').count())?.to_string();
        let first = if self.letters == "c" {
            usual.as_str()
        } else {
            usual.strip_suffix("yx").unwrap_or(&usual)
        };
        Axes::new(&format!("{first}{}", self.letters)).ok()
    }
}

/// Moves the channel that the file says is to be plotted first to the front, and gives it the rank
/// [`Rank::First`]. This applies to files of all layouts.
pub(super) fn mark_default(contents: &Contents<'_>, channels: &mut [FoundChannel]) {
    let Some(group) = default_group(contents.file) else {
        return;
    };
    let attributes = contents.file.attributes(&group);
    let signal = attributes
        .and_then(|attributes| attributes.text("signal"))
        .map(|signal| format!("{group}/{signal}"));
    let signal = signal.as_deref().map(|path| contents.found_at(path));
    let of_signal = channels
        .iter()
        .position(|channel| finest_paths(channel).any(|path| Some(path) == signal));
    // If the signal is not a channel, the first channel of the group is taken.
    let of_group = channels
        .iter()
        .position(|channel| finest_paths(channel).any(|path| group_of(path) == group));
    let first = of_signal.or(of_group);
    if let Some(channel) = first.and_then(|first| channels.get_mut(first)) {
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

/// Whether the dataset is the signal of its group, which the attributes of either may say.
fn is_signal(about: &About<'_>, group: &Attributes) -> bool {
    let is_named = group
        .text("signal")
        .is_some_and(|signal| signal == about.last());
    is_named || about.attributes.has("signal")
}

/// The spacing of the positions in the dataset called `name`, which belongs to this dimension;
/// `None` if they have no units.
fn spacing(about: &About<'_>, name: &str, dimension: usize) -> Option<Spacing> {
    let path = about.beside(name);
    let attributes = about.file.attributes(&path);
    let units = attributes.and_then(|attributes| attributes.text("units"))?;
    let extent = about.dataset.shape.get(dimension).copied().unwrap_or(0);
    let positions = about
        .file
        .numbers(&path)
        .filter(|positions| positions.len() as u64 == extent);
    Spacing::from_positions(&positions?, Some(&units))
}

/// The name of the dataset with the positions along one dimension.
fn positions_name(about: &About<'_>, group: &Attributes, dimension: usize) -> Option<String> {
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
    let by_index = names
        .iter()
        .find(|name| indices(group, name).is_some_and(|indices| indices == [dimension as f64]));
    let in_order = names.get(dimension);
    by_index
        .or_else(|| in_order.filter(|name| indices(group, name).is_none()))
        .filter(|name| name.as_str() != ".")
        .cloned()
}

/// The dimensions to which the dataset of positions called `name` belongs; `None` if the group does
/// not state them.
fn indices(group: &Attributes, name: &str) -> Option<Vec<f64>> {
    group.numbers(&format!("{name}_indices"))
}

/// The path of the group to which the attributes `default` lead from the root; `None` if the root
/// has none, or if a group on the way cannot be opened.
fn default_group(file: &OpenFile) -> Option<String> {
    let mut group = String::new();
    for _ in 0..MAX_DEFAULTS {
        let path = if group.is_empty() { "/" } else { &group };
        match file.attributes(path)?.text("default") {
            Some(next) => group = format!("{group}/{next}"),
            None => break,
        }
    }
    (!group.is_empty()).then_some(group)
}
