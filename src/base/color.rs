//! Colours: those of channels in composites, and the fixed colour of each label id.

use std::fmt;

/// Red, green and blue, 0 to 255 each.
pub type Rgb = [u8; 3];

/// The colour of a channel in a composite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Colour {
    /// Green and blue.
    Cyan,
    /// Red and blue.
    Magenta,
    /// Red and green.
    Yellow,
    /// Red only.
    Red,
    /// Green only.
    Green,
    /// Blue only.
    Blue,
    /// All three: grey. It has no letter in paths; see [`Colour::from_word`].
    White,
}

impl Colour {
    /// The default colours of channels, by position: `CMYRGB`.
    pub const BY_POSITION: [Colour; 6] =
        [Colour::Cyan, Colour::Magenta, Colour::Yellow, Colour::Red, Colour::Green, Colour::Blue];

    /// The letter in URLs.
    pub fn letter(self) -> char {
        match self {
            Colour::Cyan => 'C',
            Colour::Magenta => 'M',
            Colour::Yellow => 'Y',
            Colour::Red => 'R',
            Colour::Green => 'G',
            Colour::Blue => 'B',
            Colour::White => 'W',
        }
    }

    /// The colour for exactly one upper-case letter.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut letters = text.chars();
        let (first, rest) = (letters.next()?, letters.next());
        Self::BY_POSITION.into_iter().find(|c| rest.is_none() && c.letter() == first)
    }

    /// The colour for a name or its first letter, in either case; grey is a synonym of white.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "cyan" | "c" => Colour::Cyan,
            "magenta" | "m" => Colour::Magenta,
            "yellow" | "y" => Colour::Yellow,
            "red" | "r" => Colour::Red,
            "green" | "g" => Colour::Green,
            "blue" | "b" => Colour::Blue,
            "white" | "whites" | "w" | "gray" | "grays" | "grey" | "greys" => Colour::White,
            _ => return None,
        })
    }

    /// Which of red, green and blue the colour contributes to.
    pub fn components(self) -> [bool; 3] {
        match self {
            Colour::Cyan => [false, true, true],
            Colour::Magenta => [true, false, true],
            Colour::Yellow => [true, true, false],
            Colour::Red => [true, false, false],
            Colour::Green => [false, true, false],
            Colour::Blue => [false, false, true],
            Colour::White => [true; 3],
        }
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.letter())
    }
}

/// The colour of a label: the same id always has the same one, 0 is black.
///
/// Ids are spread over the hue circle by a multiplicative hash (the 64-bit golden ratio) in integers, so that
/// every implementation of the rule gives the same bytes. Signed ids are sign-extended by the caller.
///
/// Branch-free arithmetic that vectorises: each component is high over two of the six sectors of the circle,
/// low over two, and rises or falls in between.
#[inline(always)]
pub fn label_colour(id: u64) -> Rgb {
    const LOW: i32 = 85;
    const HEIGHT: i32 = 157;
    let hue = (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) * 6;
    let part = HEIGHT as u32 * ((hue >> 24) as u32 & 255) / 255;
    let place = (hue >> 32) as i32 * HEIGHT + part as i32;
    let distance = |sectors: i32| (place - sectors * HEIGHT).abs();
    let is_coloured = i32::from(id != 0);
    let component = |height: i32| (is_coloured * (LOW + height.clamp(0, HEIGHT))) as u8;
    [
        component(distance(3) - HEIGHT),
        component(2 * HEIGHT - distance(2)),
        component(2 * HEIGHT - distance(4)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_colours_agree() {
        for colour in Colour::BY_POSITION {
            assert_eq!(Colour::from_text(&colour.to_string()), Some(colour));
        }
        let letters: String = Colour::BY_POSITION.iter().map(|c| c.letter()).collect();
        assert_eq!(letters, "CMYRGB");
        for wrong in ["", "c", "K", "CC", "C "] {
            assert_eq!(Colour::from_text(wrong), None);
        }
    }

    /// The rule as specified, sector by sector.
    fn by_sector(id: u64) -> Rgb {
        if id == 0 {
            return [0; 3];
        }
        let k = (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) * 6;
        let f = (157 * ((k >> 24) & 255) / 255) as u8;
        let (up, down) = (85 + f, 242 - f);
        match k >> 32 {
            0 => [242, up, 85],
            1 => [down, 242, 85],
            2 => [85, 242, up],
            3 => [85, down, 242],
            4 => [up, 85, 242],
            _ => [242, 85, down],
        }
    }

    #[test]
    fn the_branch_free_form_equals_the_rule_by_sector() {
        // `inverse` undoes the hash: its multiples step through all hues evenly.
        let inverse = (0..6)
            .fold(1u64, |x, _| x.wrapping_mul(2u64.wrapping_sub(x.wrapping_mul(0x9E37_79B9_7F4A_7C15))));
        let hues = (0..6 * 256 * 4).map(|i: u64| (i << (64 - 13)).wrapping_mul(inverse));
        for id in (0..5000).chain(hues).chain([u64::MAX, 1 << 63]) {
            assert_eq!(label_colour(id), by_sector(id), "{id}");
        }
    }

    #[test]
    fn label_colours_are_those_of_the_rule() {
        // Computed independently from the rule, in arbitrary precision.
        assert_eq!(label_colour(0), [0, 0, 0]);
        assert_eq!(label_colour(1), [85, 131, 242]);
        assert_eq!(label_colour(2), [177, 242, 85]);
        assert_eq!(label_colour(u64::MAX), [85, 242, 130]);
    }
}
