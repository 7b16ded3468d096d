//! The query parameters with which CATMAID's tile source 9 says how a tile is drawn:
//! `?color=&min=&max=&gamma=`. Only some mounts accept them.
//!
//! CATMAID sends the values as the user typed them (`FlixServerTileSource.getTileURL` in its
//! `tile-source.js`): each value may be a comma-separated list with one item per channel, and items
//! may be empty. An invalid value is an error, so that the user notices a typo; other parameters
//! (`quality`, `nocache`) are ignored. As in FlixServer, a colour is a word or its first letter,
//! and gamma is an exponent.

use percent_encoding::percent_decode_str;

use super::malformed::{MAX_CHANNELS, Malformed};
use crate::color::Colour;
use crate::paint::Finite;

/// A client's changes to how one channel is drawn; a field of `None` changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Adjustment {
    /// The colour.
    pub colour: Option<Colour>,
    /// The value that is drawn black.
    pub lo: Option<Finite>,
    /// The value that is drawn white, or in the full colour.
    pub hi: Option<Finite>,
    /// The exponent of the curve between `lo` and `hi`; never 1, which is linear and the default.
    pub gamma: Option<Finite>,
}

/// Parses a query string into one adjustment per channel, in the order of the channels:
/// `min=10,,30` sets `lo` of the first and the third channel.
pub fn adjustments(query: &str) -> Result<Vec<Adjustment>, Malformed> {
    let mut all = Vec::new();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let (parameter, expected) = match name {
            "color" => ("color", COLOURS),
            "min" => ("min", NUMBERS),
            "max" => ("max", NUMBERS),
            "gamma" => ("gamma", EXPONENTS),
            _ => continue,
        };
        let value = value.replace('+', " ");
        let text = percent_decode_str(&value).decode_utf8_lossy();
        let items: Vec<&str> = text.split(',').map(str::trim).collect();
        let channels = items.len().min(MAX_CHANNELS);
        all.resize(channels.max(all.len()), Adjustment::default());
        let mut is_valid = items.len() <= MAX_CHANNELS;
        for (channel, item) in all.iter_mut().zip(&items) {
            is_valid &= channel.set(parameter, item);
        }
        if !is_valid {
            return Err(Malformed::Parameter {
                parameter,
                value: text.into_owned(),
                expected,
            });
        }
    }
    Ok(all)
}

// Each constant ends the message "PARAMETER=VALUE is not …".
const COLOURS: &str = "a list, one item for each channel, of red, green, blue, cyan, magenta, yellow, white, \
     inverted, fire, viridis, magma, cyanhot, coolwarm and colours of six hexadecimal digits";
const NUMBERS: &str = "a list of at most six finite numbers, one for each channel";
const EXPONENTS: &str = "a list of at most six finite numbers of 0 or more, one for each channel";

impl Adjustment {
    /// Sets the property that a parameter stands for; an empty item sets it to `None`. Returns
    /// whether the item is valid.
    fn set(&mut self, parameter: &str, item: &str) -> bool {
        let is_valid = match parameter {
            "color" => {
                self.colour = Colour::from_word(item);
                self.colour.is_some()
            }
            "min" => {
                self.lo = number(item);
                self.lo.is_some()
            }
            "max" => {
                self.hi = number(item);
                self.hi.is_some()
            }
            "gamma" => {
                let gamma = number(item).filter(|gamma| gamma.get() >= 0.0);
                self.gamma = gamma.filter(|gamma| gamma.get() != 1.0);
                gamma.is_some()
            }
            _ => false,
        };
        is_valid || item.is_empty()
    }
}

/// A finite number in Rust's notation, such as `10`, `-0.5` or `1e3`.
pub(super) fn number(text: &str) -> Option<Finite> {
    text.parse().ok().and_then(Finite::new)
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
