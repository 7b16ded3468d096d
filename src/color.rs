//! Colours: the six that channels may be composited in, and the one that each label id has for good.

use std::fmt;

/// A red, green and blue value, 0 to 255 each.
pub type Rgb = [u8; 3];

/// A colour that a channel may be given in a composite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Colour {
    /// Green and blue.
    Cyan,
    /// Red and blue.
    Magenta,
    /// Red and green.
    Yellow,
    /// Red alone.
    Red,
    /// Green alone.
    Green,
    /// Blue alone.
    Blue,
    /// All three: grey. It has no letter in paths; see [`Colour::from_word`].
    White,
}

impl Colour {
    /// The order in which channels without a colour of their own get one: `CMYRGB`.
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

    /// The colour of exactly that text, one upper-case letter.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut letters = text.chars();
        let (first, rest) = (letters.next()?, letters.next());
        Self::BY_POSITION.into_iter().find(|c| rest.is_none() && c.letter() == first)
    }

    /// The colour of that name, or of its first letter, in either case; white is grey by another name.
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

    /// Which of red, green and blue the colour adds to.
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
/// Ids are spread over the hue circle by a multiplicative hash (the 64-bit golden ratio) in whole numbers, so
/// that every implementation of the rule gives the same bytes. Signed ids are sign-extended by the caller.
pub fn label_colour(id: u64) -> Rgb {
    const LOW: u8 = 85;
    const HIGH: u8 = 242;
    if id == 0 {
        return [0; 3];
    }
    let hue = (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) * 6;
    let part = (157 * ((hue >> 24) & 255) / 255) as u8;
    let (up, down) = (LOW + part, HIGH - part);
    match hue >> 32 {
        0 => [HIGH, up, LOW],
        1 => [down, HIGH, LOW],
        2 => [LOW, HIGH, up],
        3 => [LOW, down, HIGH],
        4 => [up, LOW, HIGH],
        _ => [HIGH, LOW, down],
    }
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

    #[test]
    fn label_colours_are_those_of_the_rule() {
        // Worked out by hand from the rule, in arbitrary precision.
        assert_eq!(label_colour(0), [0, 0, 0]);
        assert_eq!(label_colour(1), [85, 131, 242]);
        assert_eq!(label_colour(2), [177, 242, 85]);
        assert_eq!(label_colour(u64::MAX), [85, 242, 130]);
    }
}
