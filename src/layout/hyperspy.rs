//! hyperspy's `.hspy`: `/Experiments/<title>/data`, with the groups `axis-0`, `axis-1`, … next to
//! it.
//!
//! Source: RosettaSciIO (`rsciio._hierarchical`) and hyperspy's "The data axes". An axis group has
//! the attributes `name`, `scale`, `offset`, `units` and `navigate`, in the order of the array's
//! axes. The axes that are not navigated are those of a signal: y and x if the signal is an image.
//! If it is a spectrum, its axis is taken for z.
//!
//! Example: `/Experiments/Foil/data` of 9 × 512 × 512, whose `axis-1` and `axis-2` are not
//! navigated, with the `scale` 0.5 and the `units` nm, is the channel `Foil` with the axes zyx. It
//! has no voxel size, unless `axis-0` has a scale too.

use voltile_base::axes::Axes;

use super::axis_names::{axis_named, completed, is_spectral};
use super::contents::About;
use super::marks::Marks;
use super::spacing::{Spacing, StoredAxis};
use super::{last_of, usual_axes};

const EXPERIMENTS: &str = "/Experiments/";

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    if about.last() != "data" || !about.path.starts_with(EXPERIMENTS) {
        return None;
    }
    let group = about.group();
    let mut stored = Vec::new();
    let mut navigated = Vec::new();
    for index in 0..about.rank() {
        let (stored_axis, is_navigated) = axis(about, index)?;
        stored.push(stored_axis);
        navigated.push(is_navigated);
    }
    let shape = &about.dataset.shape;
    let axes = completed(stored.iter().map(|axis| axis.name), shape)
        .or_else(|| by_navigation(&navigated))
        .or_else(|| usual_axes(about.rank()))?;
    let general = about.file.attributes(&format!("{group}/metadata/General"));
    // hyperspy's name for the group of a signal without a title.
    let is_unnamed = last_of(group) == "__unnamed__";
    Some(Marks {
        because: Some(format!("it has {group}/axis-0")),
        named_by: (!is_unnamed).then(|| group.to_owned()),
        label: general.text("title"),
        ..Marks::from_stored(axes, shape, &stored)
    })
}

/// The axis of the array with this index, and whether it is navigated; `None` if it has no group.
fn axis(about: &About<'_>, index: usize) -> Option<(StoredAxis, bool)> {
    let path = format!("{}/axis-{index}", about.group());
    let (attributes, _) = about.file.object(&path)?;
    let units = attributes.text("units").filter(|units| is_defined(units));
    // A scale without a unit only counts the array's indices.
    let scale = attributes.number("scale").filter(|_| units.is_some());
    let offset = attributes.number("offset");
    let name = attributes.text("name").filter(|name| is_defined(name));
    let stored = StoredAxis {
        name: name.as_deref().and_then(axis_named),
        is_spectral: name.iter().chain(&units).any(|text| is_spectral(text)),
        spacing: scale.map(|scale| Spacing::new(scale, offset, units.as_deref())),
    };
    Some((stored, attributes.flag("navigate").unwrap_or(false)))
}

/// Whether the text of a name or a unit is more than a placeholder. `px` is treated as one, because
/// it only counts the array's indices.
fn is_defined(text: &str) -> bool {
    !matches!(
        text.trim(),
        "" | "_None_" | "<undefined>" | "t.Undefined" | "px"
    )
}

/// Names the axes by whether they are navigated. The signal's axes are y, x if it is an image. If
/// it is a spectrum, its axis is z, and the last two navigated axes are y, x: three axes, the first
/// two navigated, are yxz.
fn by_navigation(navigated: &[bool]) -> Option<Axes> {
    let (outer, signal): (Vec<usize>, Vec<usize>) =
        (0..navigated.len()).partition(|index| navigated[*index]);
    // For the axes of the signal, the last one first, then for the navigated axes, the last one
    // first.
    let letters_from_last = match (outer.len(), signal.len()) {
        (_, 2) => "xyztc",
        (2.., 1) => "zxytc",
        _ => return None,
    };
    let from_last = signal.iter().rev().chain(outer.iter().rev());
    let mut letters: Vec<(&usize, char)> = from_last.zip(letters_from_last.chars()).collect();
    // In storage order.
    letters.sort();
    let letters: String = letters.into_iter().map(|(_, letter)| letter).collect();
    Axes::new(&letters)
        .ok()
        .filter(|axes| axes.rank() == navigated.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_spectra_have_their_axes_by_navigation() {
        let axes = |navigated: &[bool]| by_navigation(navigated).map(|axes| axes.to_string());
        assert_eq!(axes(&[false, false]).as_deref(), Some("yx"));
        assert_eq!(axes(&[true, false, false]).as_deref(), Some("zyx"));
        assert_eq!(axes(&[true, true, false, false]).as_deref(), Some("tzyx"));
        assert_eq!(axes(&[true, true, false]).as_deref(), Some("yxz"));
        assert_eq!(axes(&[true, false]), None);
    }
}
