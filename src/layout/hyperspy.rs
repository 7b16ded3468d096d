//! hyperspy's `.hspy`: `/Experiments/<title>/data`, with the groups `axis-0`, `axis-1`, … next to
//! it.
//!
//! Source: RosettaSciIO (`rsciio._hierarchical`) and hyperspy's "The data axes". An axis group has
//! the attributes `name`, `scale`, `offset`, `units` and `navigate`, in the order of the array's
//! axes. Axes that hyperspy does not navigate belong to one signal: the two of an image are y, x.
//! The positions of a spectrum are taken for z.

use voltile_base::axes::{Axes, AxisName};

use super::axis_names::{axis_named, completed, is_spectral};
use super::contents::About;
use super::marks::Marks;
use super::spacing::{Calibration, Spacing};
use super::{Layout, last_of, usual_axes};

const EXPERIMENTS: &str = "/Experiments/";

pub(super) struct Hyperspy;

/// An axis as its group describes it.
struct DataAxis {
    name: Option<AxisName>,
    is_navigated: bool,
    is_spectral: bool,
    spacing: Option<Spacing>,
}

impl Layout for Hyperspy {
    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        if about.last() != "data" || !about.path.starts_with(EXPERIMENTS) {
            return None;
        }
        let group = about.group();
        let found: Vec<DataAxis> = (0..about.rank())
            .map(|place| axis(about, place))
            .collect::<Option<_>>()?;
        let names: Vec<_> = found.iter().map(|axis| axis.name).collect();
        let navigated: Vec<_> = found.iter().map(|axis| axis.is_navigated).collect();
        let axes = completed(&names, &about.dataset.shape)
            .or_else(|| by_navigation(&navigated))
            .or_else(|| usual_axes(about.rank()))?;
        let is_spectrum = found.iter().any(|axis| axis.is_spectral);
        let spacings: Vec<_> = found.into_iter().map(|axis| axis.spacing).collect();
        let Calibration { voxel, origin } =
            Calibration::new(&axes, &about.dataset.shape, &spacings);
        let title = about.file.attributes(&format!("{group}/metadata/General"));
        let title = title
            .and_then(|general| general.text("title"))
            .filter(|title| !title.trim().is_empty());
        Some(Marks {
            named_by: Some(group.to_owned()).filter(|group| last_of(group) != "__unnamed__"),
            label: title,
            axes: Some(axes),
            is_spectrum,
            voxel,
            origin,
            ..Marks::because(format!("it has {group}/axis-0"))
        })
    }
}

fn axis(about: &About<'_>, place: usize) -> Option<DataAxis> {
    let own = about
        .file
        .attributes(&format!("{}/axis-{place}", about.group()))?;
    let units = own.text("units").filter(|units| is_defined(units));
    // Without a unit, the scale is that of the array's indices.
    let spacing = match (own.number("scale"), &units) {
        (Some(scale), Some(units)) => Some(Spacing::new(scale, own.number("offset"), Some(units))),
        _ => None,
    };
    let name = own.text("name").filter(|name| is_defined(name));
    Some(DataAxis {
        name: name.as_deref().and_then(axis_named),
        is_spectral: name.iter().chain(&units).any(|text| is_spectral(text)),
        is_navigated: own.flag("navigate").unwrap_or(false),
        spacing,
    })
}

/// Whether a text is not one of the marks for an undefined value.
fn is_defined(text: &str) -> bool {
    !matches!(
        text.trim(),
        "" | "_None_" | "<undefined>" | "t.Undefined" | "px"
    )
}

/// The axes by whether they are navigated: the own axes of an image are y, x; the own axis of a
/// spectrum is z, below the last two that are navigated.
fn by_navigation(navigated: &[bool]) -> Option<Axes> {
    let places =
        |wanted: bool| (0..navigated.len()).filter(move |place| navigated[*place] == wanted);
    let (signal, outer): (Vec<_>, Vec<_>) = (places(false).collect(), places(true).collect());
    let mut letters = vec![None; navigated.len()];
    let rest = match (&signal[..], &outer[..]) {
        ([y, x], outer) => {
            letters[*y] = Some('y');
            letters[*x] = Some('x');
            outer
                .iter()
                .rev()
                .copied()
                .zip("ztc".chars())
                .collect::<Vec<_>>()
        }
        ([energy], [outer @ .., y, x]) => {
            letters[*y] = Some('y');
            letters[*x] = Some('x');
            letters[*energy] = Some('z');
            outer.iter().rev().copied().zip("tc".chars()).collect()
        }
        _ => return None,
    };
    rest.into_iter()
        .for_each(|(place, letter)| letters[place] = Some(letter));
    Axes::new(&letters.into_iter().collect::<Option<String>>()?).ok()
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
