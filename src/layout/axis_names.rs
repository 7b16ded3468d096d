//! The words by which files name axes.

use voltile_base::axes::{Axes, AxisName};

/// The first of four axes is taken for channels, not time, if its extent is at most this.
pub(super) const MAX_CHANNELS: u64 = 8;

/// Whether a name or a unit is that of an axis of spectra.
pub(super) fn is_spectral(text: &str) -> bool {
    matches!(
        text.trim().to_lowercase().replace('_', " ").as_str(),
        "wavelength"
            | "wavelengths"
            | "wavenumber"
            | "wavenumbers"
            | "energy"
            | "energies"
            | "energy loss"
            | "frequency"
            | "frequencies"
            | "raman shift"
            | "spectrum"
            | "spectral"
            | "ev"
            | "kev"
            | "1/cm"
            | "cm-1"
            | "cm^-1"
    )
}

/// The axis that a word names: a letter (`x`), a usual word (`row`), or a letter at the end of a
/// longer name (`R_x`, `tomo_zdim`).
pub(super) fn axis_named(word: &str) -> Option<AxisName> {
    let word = word.trim().to_lowercase();
    let word = word.strip_prefix("dimensionscale").unwrap_or(&word);
    if let Some(axis) = usual(word) {
        return Some(axis);
    }
    // As in `nx`, the number of positions along x.
    if let Some(axis) = word.strip_prefix('n').and_then(usual) {
        return Some(axis);
    }
    let (_, end) = word.rsplit_once('_')?;
    letter(end.strip_suffix("dim").unwrap_or(end))
}

/// The axis of a word in lower case: a usual word, or a letter (`x`, `xdim`).
fn usual(word: &str) -> Option<AxisName> {
    match word {
        "time" | "times" | "frame" | "frames" | "timepoint" | "month" | "months" | "date" => {
            Some(AxisName::T)
        }
        "ch" | "channel" | "channels" | "band" | "bands" | "rgb" | "rgba" => Some(AxisName::C),
        _ if is_spectral(word) => Some(AxisName::C),
        "zspace" | "depth" | "plane" | "planes" | "section" | "slice" | "slices" | "layer"
        | "layers" | "lev" | "level" | "levels" | "plev" | "altitude" | "bottom_top" => {
            Some(AxisName::Z)
        }
        "yspace" | "height" | "row" | "rows" | "lat" | "latitude" | "northing" | "south_north"
        | "j" => Some(AxisName::Y),
        "xspace" | "width" | "column" | "columns" | "col" | "cols" | "lon" | "longitude"
        | "easting" | "west_east" | "i" => Some(AxisName::X),
        _ => letter(word.strip_suffix("dim").unwrap_or(word)),
    }
}

/// The axis of a word of one letter.
fn letter(word: &str) -> Option<AxisName> {
    let mut letters = word.chars();
    let first = letters.next().and_then(AxisName::from_letter);
    first.filter(|_| letters.next().is_none())
}

/// The axes with these names, if all are known. If x and y are known, one other axis may be
/// unknown: it is taken for z, else for channels if it has few positions, else for time. With 3
/// positions along the unknown axis, (?, z, y, x) is czyx. If two of three or more axes are unknown
/// and neither x nor y is known, they are y and x: rows and columns have many names, as in (scan
/// line, pixel, band), which is yxc.
pub(super) fn completed(
    names: impl IntoIterator<Item = Option<AxisName>>,
    shape: &[u64],
) -> Option<Axes> {
    let mut names: Vec<_> = names.into_iter().collect();
    let unknown: Vec<usize> = (0..names.len())
        .filter(|place| names[*place].is_none())
        .collect();
    match *unknown {
        [] => {}
        [place] if is_known(&names, AxisName::X) && is_known(&names, AxisName::Y) => {
            let may_be_channels = shape
                .get(place)
                .is_some_and(|extent| *extent <= MAX_CHANNELS);
            let in_order = if may_be_channels {
                [AxisName::Z, AxisName::C, AxisName::T]
            } else {
                [AxisName::Z, AxisName::T, AxisName::C]
            };
            names[place] = in_order.into_iter().find(|axis| !is_known(&names, *axis));
        }
        [y, x]
            if names.len() > 2
                && !is_known(&names, AxisName::X)
                && !is_known(&names, AxisName::Y) =>
        {
            names[y] = Some(AxisName::Y);
            names[x] = Some(AxisName::X);
        }
        _ => return None,
    }
    let letters: Option<String> = names
        .into_iter()
        .map(|name| name.map(AxisName::letter))
        .collect();
    Axes::new(&letters?).ok()
}

fn is_known(names: &[Option<AxisName>], axis: AxisName) -> bool {
    names.contains(&Some(axis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_letters_name_axes() {
        let words = [
            "Time",
            "C",
            "zspace",
            "rows",
            " x ",
            "DimensionScaleX",
            "R_y",
            "tomo_zdim",
            "XDim",
        ];
        let letters: Option<String> = words
            .iter()
            .map(|word| axis_named(word).map(AxisName::letter))
            .collect();
        assert_eq!(letters.as_deref(), Some("tczyxxyzx"));
        let counts = ["ntimes", "nz", "nlat", "ni", "Energy"]
            .map(axis_named)
            .map(|axis| axis.map(AxisName::letter));
        assert_eq!(
            counts.into_iter().collect::<Option<String>>().as_deref(),
            Some("tzyxc")
        );
        for other in [
            "phony_dim_0",
            "bin_outer_angle",
            "",
            "Qx",
            "dim",
            "n",
            "name",
        ] {
            assert_eq!(axis_named(other), None, "{other}");
        }
    }

    #[test]
    fn one_unknown_axis_is_the_next_that_is_free() {
        use AxisName::{X, Y, Z};
        let axes = |names: &[Option<AxisName>], shape: &[u64]| {
            completed(names.iter().copied(), shape).map(|axes| axes.to_string())
        };
        assert_eq!(
            axes(&[Some(X), Some(Y), None], &[9, 9, 9]).as_deref(),
            Some("xyz")
        );
        assert_eq!(
            axes(&[None, Some(Z), Some(Y), Some(X)], &[3, 9, 9, 9]).as_deref(),
            Some("czyx")
        );
        assert_eq!(
            axes(&[None, Some(Z), Some(Y), Some(X)], &[30, 9, 9, 9]).as_deref(),
            Some("tzyx")
        );
        assert_eq!(axes(&[None, None, Some(Y), Some(X)], &[9, 9, 9, 9]), None);
        assert_eq!(axes(&[None, Some(Y), Some(Z)], &[9, 9, 9]), None);
        assert_eq!(axes(&[Some(X), Some(X)], &[9, 9]), None);
    }

    #[test]
    fn two_unknown_axes_are_rows_and_columns_if_no_others_are() {
        use AxisName::{C, T, X, Z};
        let axes = |names: &[Option<AxisName>]| {
            completed(names.iter().copied(), &[9, 9, 9, 9]).map(|axes| axes.to_string())
        };
        assert_eq!(axes(&[None, None, Some(C)]).as_deref(), Some("yxc"));
        assert_eq!(
            axes(&[Some(T), None, None, Some(Z)]).as_deref(),
            Some("tyxz")
        );
        for open in [
            &[None, None][..],
            &[None, None, Some(X)],
            &[None, None, None, Some(T)],
        ] {
            assert_eq!(axes(open), None, "{open:?}");
        }
    }
}
