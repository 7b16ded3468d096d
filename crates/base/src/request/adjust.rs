//! Parameters of CATMAID's tile source 9 for drawing a tile: `?color=&min=&max=&gamma=`, on mounts
//! that accept them.
//!
//! CATMAID sends them as typed (`FlixServerTileSource.getTileURL` in its `tile-source.js`): each
//! value may be a comma-separated list, one item per channel, and items may be empty. Invalid
//! values are an error rather than ignored, so that users notice a typo; other parameters
//! (`quality`, `nocache`) are ignored. As in FlixServer, colours are words or their first letters,
//! and gamma is an exponent.

use percent_encoding::percent_decode_str;

use super::malformed::{MAX_CHANNELS, Malformed};
use crate::color::Colour;
use crate::paint::Finite;

/// A client's changes to how one channel is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Adjustment {
    /// The colour.
    pub colour: Option<Colour>,
    /// The value that becomes black.
    pub lo: Option<Finite>,
    /// The value that becomes white.
    pub hi: Option<Finite>,
    /// The exponent of the curve between them; `None` for 1, which is linear.
    pub gamma: Option<Finite>,
}

/// Parses a query string into adjustments, by channel position: `min=10,,30` sets the black of the
/// first and the third channel.
pub fn adjustments(query: &str) -> Result<Vec<Adjustment>, Malformed> {
    let mut all = Vec::new();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "color" => each(
                &mut all,
                "color",
                value,
                COLOURS,
                Colour::from_word,
                |to, it| to.colour = it,
            )?,
            "min" => each(&mut all, "min", value, NUMBERS, number, |to, it| to.lo = it)?,
            "max" => each(&mut all, "max", value, NUMBERS, number, |to, it| to.hi = it)?,
            "gamma" => each(&mut all, "gamma", value, EXPONENTS, exponent, |to, it| {
                to.gamma = it.filter(|gamma: &Finite| gamma.get() != 1.0);
            })?,
            _ => {}
        }
    }
    Ok(all)
}

const COLOURS: &str = "a list, one item for each channel, of red, green, blue, cyan, magenta, yellow, white, \
     inverted, fire, viridis, magma, cyanhot, coolwarm and colours of six hexadecimal digits";
const NUMBERS: &str = "a list of at most six finite numbers, one for each channel";
const EXPONENTS: &str = "a list of at most six finite numbers of 0 or more, one for each channel";

/// Parses a list and stores each item in the adjustment at its position; empty items change
/// nothing.
fn each<T>(
    all: &mut Vec<Adjustment>,
    parameter: &'static str,
    value: &str,
    expected: &'static str,
    read: impl Fn(&str) -> Option<T>,
    put: impl Fn(&mut Adjustment, Option<T>),
) -> Result<(), Malformed> {
    let spaced = value.replace('+', " ");
    let text = percent_decode_str(&spaced).decode_utf8_lossy();
    let wrong = || Malformed::Parameter {
        parameter,
        value: text.clone().into_owned(),
        expected,
    };
    if text.split(',').count() > MAX_CHANNELS {
        return Err(wrong());
    }
    for (position, item) in text.split(',').map(str::trim).enumerate() {
        let read = if item.is_empty() {
            None
        } else {
            Some(read(item).ok_or_else(wrong)?)
        };
        if all.len() <= position {
            all.resize(position + 1, Adjustment::default());
        }
        if let Some(adjustment) = all.get_mut(position) {
            put(adjustment, read);
        }
    }
    Ok(())
}

pub(super) fn number(text: &str) -> Option<Finite> {
    text.parse().ok().and_then(Finite::new)
}

fn exponent(text: &str) -> Option<Finite> {
    number(text).filter(|gamma| gamma.get() >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finite(number: f64) -> Option<Finite> {
        Finite::new(number)
    }

    #[test]
    fn lists_are_read_by_position_and_gaps_change_nothing() {
        let all =
            adjustments("color=cyan,%20M&min=,10.5&max=256.0&gamma=1,0.5&quality=80&nocache=1")
                .unwrap();
        let first = Adjustment {
            colour: Some(Colour::Cyan),
            hi: finite(256.0),
            ..Adjustment::default()
        };
        let second = Adjustment {
            colour: Some(Colour::Magenta),
            lo: finite(10.5),
            gamma: finite(0.5),
            ..Adjustment::default()
        };
        assert_eq!(all, [first, second]);
        for nothing in [
            "",
            "nocache=17",
            "min",
            "min=",
            "color=,",
            "gamma=1",
            "a=b&&",
        ] {
            let all = adjustments(nothing).unwrap();
            assert!(
                all.iter()
                    .all(|adjustment| *adjustment == Adjustment::default()),
                "{nothing}"
            );
        }
    }

    #[test]
    fn what_cannot_be_understood_is_malformed() {
        for wrong in [
            "min=abc",
            "max=NaN",
            "max=inf",
            "max=1e999",
            "gamma=-1",
            "color=pink",
            "min=1;2",
            "min=1,2,3,4,5,6,7",
            "color=%ff",
        ] {
            assert!(
                matches!(adjustments(wrong), Err(Malformed::Parameter { .. })),
                "{wrong}"
            );
        }
    }
}
