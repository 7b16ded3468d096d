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
//!
//! Example: a group of the class `NXdata` with `signal` = "counts" and `axes` = "energy", "y", "x"
//! holds `counts` of 100 × 64 × 64, and `x` and `y` with positions 5 µm apart. The signal is the
//! channel `counts` with pixels of 5 × 5 µm. Its axes are stored as cyx; the spectrum along c is
//! shown as sections.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::paint::Kind;
use voltile_hdf5::volume::hdf5::{Attributes, OpenFile};

use super::axis_names::{axis_named, completed, is_spectral};
use super::contents::{About, Contents};
use super::marks::Marks;
use super::spacing::{Spacing, StoredAxis};
use super::{FoundChannel, Rank, group_of, usual_axes};

/// The attribute that says what the last axes of a dataset are.
const INTERPRETATION: &str = "interpretation";
/// The attribute `default` is followed at most this many times from the root.
const MAX_DEFAULTS: usize = 8;

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let group = about.group_attributes();
    let is_in_data_group = group.text("NX_class").as_deref() == Some("NXdata");
    let is_plotted = is_in_data_group && is_signal(about, group);
    let own_word = about.attributes.text(INTERPRETATION);
    // The group's word is about its signal only.
    let word = own_word.or_else(|| group.text(INTERPRETATION).filter(|_| is_plotted));
    let shape = &about.dataset.shape;
    let interpretation = word.and_then(|word| last_axes(&word, shape));
    let is_colour = interpretation.is_some_and(are_of_colours);
    let kind = is_colour.then_some(Kind::Rgb);
    let is_spectrum = interpretation == Some("c");
    if !is_plotted {
        return Some(Marks {
            axes: interpreted(interpretation?, Vec::new(), shape),
            kind,
            is_spectrum,
            ..Marks::default()
        });
    }
    let stored: Vec<StoredAxis> = (0..about.rank())
        .map(|dimension| axis(about, group, dimension).unwrap_or_default())
        .collect();
    let names = stored.iter().map(|axis| axis.name).collect();
    let axes = match interpretation {
        Some(letters) => interpreted(letters, names, shape),
        None => completed(names, shape),
    };
    let marks = axes
        .map(|axes| Marks::from_stored(axes, shape, &stored))
        .unwrap_or_default();
    Some(Marks {
        because: Some(format!("{} is the signal of an NXdata group", about.path)),
        rank: Some(Rank::Declared),
        kind,
        is_spectrum: is_spectrum || marks.is_spectrum,
        ..marks
    })
}

/// The letters of the last axes of a dataset, in storage order, by a word of the attribute
/// `interpretation`; `None` if the word is unknown or does not fit the shape of the dataset.
fn last_axes(word: &str, shape: &[u64]) -> Option<&'static str> {
    match (word.trim().to_lowercase().as_str(), shape) {
        ("image", [_, _, ..]) => Some("yx"),
        ("spectrum", [_, _, _, ..]) => Some("c"),
        ("rgb-image" | "rgba-image", [.., 3 | 4]) => Some("yxc"),
        ("rgb-image" | "rgba-image", [.., 3 | 4, _, _]) => Some("cyx"),
        _ => None,
    }
}

/// Whether the last axes are those of pictures in colour.
fn are_of_colours(letters: &str) -> bool {
    matches!(letters, "yxc" | "cyx")
}

/// All axes of a dataset, by the `letters` that the interpretation gives the last axes, and by
/// `names`, the axes that are known by name. Without names, `c` of three axes is yxc, and `cyx` of
/// four is zcyx. If both x and y are known by name, only letters of colours are used.
fn interpreted(letters: &str, mut names: Vec<Option<AxisName>>, shape: &[u64]) -> Option<Axes> {
    names.resize(shape.len(), None);
    let has_plane = [AxisName::X, AxisName::Y]
        .iter()
        .all(|axis| names.contains(&Some(*axis)));
    if !has_plane || are_of_colours(letters) {
        let last = names.iter_mut().rev().zip(letters.chars().rev());
        for (name, letter) in last {
            *name = AxisName::from_letter(letter);
        }
    }
    if let Some(axes) = completed(names, shape) {
        return Some(axes);
    }
    // The names do not suffice: the leading axes are the usual ones of a dataset without an axis c.
    let usual = usual_axes(shape.len() - letters.matches('c').count())?.to_string();
    let leading = if letters == "c" {
        usual.as_str()
    } else {
        usual.strip_suffix("yx").unwrap_or(&usual)
    };
    Axes::new(&format!("{leading}{letters}")).ok()
}

/// Moves the channel that the file wants to be plotted first to the front, and gives it the rank
/// [`Rank::First`]. This applies to files of all layouts.
pub(super) fn mark_default(contents: &Contents<'_>, channels: &mut [FoundChannel]) {
    let Some(group) = default_group(contents.file) else {
        return;
    };
    let attributes = contents.file.attributes(&group);
    let signal_path = attributes
        .text("signal")
        .map(|name| format!("{group}/{name}"));
    let signal = signal_path.as_deref().map(|path| contents.target_of(path));
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

/// Whether the dataset is the signal of its group, as the group or the dataset itself states.
fn is_signal(about: &About<'_>, group: &Attributes) -> bool {
    let is_named = group
        .text("signal")
        .is_some_and(|signal| signal == about.last());
    is_named || about.attributes.has("signal")
}

/// The axis of a dimension, by the dataset of its positions; `None` if the file names none.
fn axis(about: &About<'_>, group: &Attributes, dimension: usize) -> Option<StoredAxis> {
    let name = positions_name(about, group, dimension)?;
    Some(StoredAxis {
        name: axis_named(&name),
        is_spectral: is_spectral(&name),
        spacing: spacing(about, &name, dimension),
    })
}

/// The spacing of the positions in the dataset called `name`, which belongs to this dimension;
/// `None` if they have no units.
fn spacing(about: &About<'_>, name: &str, dimension: usize) -> Option<Spacing> {
    let path = about.beside(name);
    let units = about.file.attributes(&path).text("units")?;
    let extent = about.dataset.shape.get(dimension).copied().unwrap_or(0);
    let positions = about
        .file
        .numbers(&path)
        .filter(|positions| positions.len() as u64 == extent);
    Spacing::from_positions(&positions?, Some(&units))
}

/// The name of the dataset with the positions along one dimension. A name without `_indices`
/// belongs to the dimension at its place in the list.
fn positions_name(about: &About<'_>, group: &Attributes, dimension: usize) -> Option<String> {
    let listed = group
        .texts("axes")
        .or_else(|| about.attributes.texts("axes"))?;
    let names: Vec<String> = match &listed[..] {
        // All names in one text: "energy:y:x" or "[energy,y,x]".
        [text] => text
            .trim_matches(['[', ']'])
            .split([':', ','])
            .map(|name| name.trim().to_owned())
            .collect(),
        _ => listed,
    };
    let by_index = names
        .iter()
        .find(|name| indices(group, name).is_some_and(|indices| indices == [dimension as f64]));
    let at_place = names.get(dimension);
    by_index
        .or_else(|| at_place.filter(|name| indices(group, name).is_none()))
        .filter(|name| name.as_str() != ".")
        .cloned()
}

/// The dimensions to which the dataset of positions called `name` belongs; `None` if the group does
/// not state them.
fn indices(group: &Attributes, name: &str) -> Option<Vec<f64>> {
    group.numbers(&format!("{name}_indices"))
}

/// The path of the group to which the attributes `default` lead from the root; `None` if the root
/// has none.
fn default_group(file: &OpenFile) -> Option<String> {
    let mut group = String::new();
    for _ in 0..MAX_DEFAULTS {
        match file.attributes(&group).text("default") {
            Some(next) => group = format!("{group}/{next}"),
            None => break,
        }
    }
    (!group.is_empty()).then_some(group)
}
