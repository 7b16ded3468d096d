//! Colours of channels in composites, and the fixed colour of each label id.

use std::fmt;

/// Red, green and blue, 0 to 255 each.
pub type Rgb = [u8; 3];

/// The colour of a channel in a composite: how its shades become red, green and blue.
///
/// Its hash is part of the keys of tiles: new variants come last.
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
    /// All three: grey. It has no letter in paths; see `Colour::from_word`.
    White,
    /// A colour map.
    Map(ColourMap),
    /// Any colour, scaled by the shade.
    Pure(Rgb),
}

/// A colour map: 256 colours, one for each shade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColourMap {
    /// White to black.
    Inverted,
    /// That of ImageJ.
    Fire,
    /// That of matplotlib.
    Viridis,
    /// That of matplotlib.
    Magma,
    /// Black, blue, cyan, white: `Cyan Hot` of ImageJ.
    CyanHot,
    /// Blue, light grey, red, as in matplotlib: for values below and above a middle value.
    CoolWarm,
}

impl ColourMap {
    /// All maps in their order, each with its name.
    const ALL: [(ColourMap, &'static str); 6] = [
        (ColourMap::Inverted, "inverted"),
        (ColourMap::Fire, "fire"),
        (ColourMap::Viridis, "viridis"),
        (ColourMap::Magma, "magma"),
        (ColourMap::CyanHot, "cyanhot"),
        (ColourMap::CoolWarm, "coolwarm"),
    ];

    /// The name in addresses.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The colour of a shade. The files, which the page uses too, are in the format of ImageJ: 256
    /// reds, 256 greens, 256 blues.
    fn colour(self, shade: u8) -> Rgb {
        let file: &[u8; 3 * 256] = match self {
            ColourMap::Inverted => return [u8::MAX - shade; 3],
            ColourMap::Fire => include_bytes!("maps/fire.lut"),
            ColourMap::Viridis => include_bytes!("maps/viridis.lut"),
            ColourMap::Magma => include_bytes!("maps/magma.lut"),
            ColourMap::CyanHot => include_bytes!("maps/cyanhot.lut"),
            ColourMap::CoolWarm => include_bytes!("maps/coolwarm.lut"),
        };
        [0, 1, 2].map(|component| file[256 * component + usize::from(shade)])
    }
}

impl Colour {
    /// The default colours of channels, by position: `CMYRGB`.
    pub(crate) const BY_POSITION: [Colour; 6] = [
        Colour::Cyan,
        Colour::Magenta,
        Colour::Yellow,
        Colour::Red,
        Colour::Green,
        Colour::Blue,
    ];

    /// The colours of images that are shown together and have none of their own.
    pub const TOGETHER: [Colour; 6] = [
        Colour::Green,
        Colour::Magenta,
        Colour::Cyan,
        Colour::Yellow,
        Colour::Red,
        Colour::Blue,
    ];

    /// The colour of a composite that is nearest to `#rrggbb`; `None` for greys.
    pub fn nearest(code: &str) -> Option<Self> {
        let parts = Self::code(code)?.map(u16::from);
        let greatest = parts.into_iter().max()?;
        // A component is in the colour if it is more than half of the greatest one.
        let is_in = parts.map(|part| 2 * part > greatest);
        Self::BY_POSITION
            .into_iter()
            .find(|colour| colour.components() == Some(is_in))
    }

    /// Red, green and blue of `#rrggbb`.
    pub fn code(code: &str) -> Option<Rgb> {
        hexadecimal(code.strip_prefix('#')?)
    }

    /// The letter in URLs, if it has one.
    pub fn letter(self) -> Option<char> {
        Some(match self {
            Colour::Cyan => 'C',
            Colour::Magenta => 'M',
            Colour::Yellow => 'Y',
            Colour::Red => 'R',
            Colour::Green => 'G',
            Colour::Blue => 'B',
            Colour::White => 'W',
            Colour::Map(_) | Colour::Pure(_) => return None,
        })
    }

    /// The colour for exactly one upper-case letter.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let [letter] = text.as_bytes() else {
            return None;
        };
        Self::BY_POSITION
            .into_iter()
            .find(|colour| colour.letter() == Some(char::from(*letter)))
    }

    /// The colour for a name or its first letter, in either case; grey is a synonym of white. Also
    /// the name of a map, or six hexadecimal digits.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        Some(match word.as_str() {
            "cyan" | "c" => Colour::Cyan,
            "magenta" | "m" => Colour::Magenta,
            "yellow" | "y" => Colour::Yellow,
            "red" | "r" => Colour::Red,
            "green" | "g" => Colour::Green,
            "blue" | "b" => Colour::Blue,
            "white" | "whites" | "w" | "gray" | "grays" | "grey" | "greys" => Colour::White,
            word => match ColourMap::ALL.iter().find(|(_, name)| *name == word) {
                Some((map, _)) => Colour::Map(*map),
                None => Colour::Pure(hexadecimal(word)?),
            },
        })
    }

    /// Whether red, green and blue are the shade or 0; `None` for colours that need a table.
    pub fn components(self) -> Option<[bool; 3]> {
        Some(match self {
            Colour::Cyan => [false, true, true],
            Colour::Magenta => [true, false, true],
            Colour::Yellow => [true, true, false],
            Colour::Red => [true, false, false],
            Colour::Green => [false, true, false],
            Colour::Blue => [false, false, true],
            Colour::White => [true; 3],
            Colour::Map(_) | Colour::Pure(_) => return None,
        })
    }

    /// The colour of a shade.
    pub fn of_shade(self, shade: u8) -> Rgb {
        match self {
            Colour::Map(map) => map.colour(shade),
            // part · shade / 255, rounded.
            Colour::Pure(colour) => {
                colour.map(|part| ((u32::from(part) * u32::from(shade) * 2 + 255) / 510) as u8)
            }
            _ => self
                .components()
                .unwrap_or_default()
                .map(|is_in| shade * u8::from(is_in)),
        }
    }
}

/// A colour as six hexadecimal digits.
fn hexadecimal(text: &str) -> Option<Rgb> {
    if text.len() != 6 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let [_, rgb @ ..] = u32::from_str_radix(text, 16).ok()?.to_be_bytes();
    Some(rgb)
}

impl fmt::Display for Colour {
    /// As written in addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.letter()) {
            (_, Some(letter)) => write!(f, "{letter}"),
            (Colour::Map(map), _) => f.write_str(map.name()),
            (Colour::Pure([r, g, b]), _) => write!(f, "{r:02x}{g:02x}{b:02x}"),
            // Never: all other colours have a letter.
            (..) => Ok(()),
        }
    }
}

/// The colour of a label: an id always has the same colour, and 0 is black.
///
/// Ids are spread over the hue circle by a multiplicative hash (the 64-bit golden ratio) in
/// integers, so that every implementation of the rule gives the same bytes. Signed ids are
/// sign-extended by the caller.
///
/// The arithmetic has no branches, so that it is vectorised: each component is high over two of the
/// six sectors of the circle, low over two, and rises or falls in between.
#[inline(always)]
pub fn label_colour(id: u64) -> Rgb {
    /// The least component of every colour.
    const LOW: i32 = 85;
    /// How far the greatest component is above the least.
    const HEIGHT: i32 = 157;
    // The hue in sectors, 0 to 6, as a number with 32 binary places.
    let hue = (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) * 6;
    // The same where a sector is `HEIGHT` long; 8 binary places decide the position within it.
    let part = HEIGHT as u32 * ((hue >> 24) as u32 & 255) / 255;
    let place = (hue >> 32) as i32 * HEIGHT + part as i32;
    let distance = |sectors: i32| (place - sectors * HEIGHT).abs();
    let is_coloured = i32::from(id != 0);
    let component = |height: i32| (is_coloured * (LOW + height.clamp(0, HEIGHT))) as u8;
    // Red is least around the start of sector 3, green greatest around that of sector 2, and blue
    // greatest around that of sector 4.
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
    fn maps_are_listed_in_their_order() {
        let mut maps = ColourMap::ALL.iter().enumerate();
        assert!(maps.all(|(number, (map, _))| *map as usize == number));
    }

    #[test]
    fn letters_and_colours_agree() {
        for colour in Colour::BY_POSITION {
            assert_eq!(Colour::from_text(&colour.to_string()), Some(colour));
        }
        let letters: String = Colour::BY_POSITION.iter().map(Colour::to_string).collect();
        assert_eq!(letters, "CMYRGB");
        for wrong in ["", "c", "K", "CC", "C "] {
            assert_eq!(Colour::from_text(wrong), None);
        }
    }

    #[test]
    fn maps_are_those_of_imagej_and_matplotlib() {
        let at = |word: &str| {
            [0, 1, 64, 128, 255].map(|shade| Colour::from_word(word).unwrap().of_shade(shade))
        };
        assert_eq!(
            at("fire"),
            [
                [0, 0, 0],
                [0, 0, 7],
                [146, 0, 210],
                [240, 79, 0],
                [255, 255, 255]
            ]
        );
        assert_eq!(
            at("viridis"),
            [
                [68, 1, 84],
                [68, 2, 86],
                [59, 82, 139],
                [33, 145, 140],
                [253, 231, 37]
            ]
        );
        assert_eq!(
            at("magma"),
            [
                [0, 0, 4],
                [1, 0, 5],
                [81, 18, 124],
                [183, 55, 121],
                [252, 253, 191]
            ]
        );
        assert_eq!(
            at("cyanhot"),
            [
                [0, 0, 0],
                [0, 1, 2],
                [0, 92, 191],
                [0, 189, 255],
                [255, 255, 255]
            ]
        );
        assert_eq!(
            at("inverted"),
            [[255; 3], [254; 3], [191; 3], [127; 3], [0; 3]]
        );
    }

    #[test]
    fn a_colour_of_six_digits_is_scaled_by_the_shade_and_rounded() {
        let orange = Colour::from_word("FF8003").unwrap();
        assert_eq!(orange.to_string(), "ff8003");
        assert_eq!(
            [0, 1, 85, 255].map(|shade| orange.of_shade(shade)),
            [[0; 3], [1, 1, 0], [85, 43, 1], [255, 128, 3]]
        );
        for wrong in ["ff800", "ff80033", "+f8003", "ff800g", "blueish", "äöü"] {
            assert_eq!(Colour::from_word(wrong), None, "{wrong}");
        }
        for word in ["inverted", "fire", "viridis", "magma", "cyanhot"] {
            assert_eq!(Colour::from_word(word).unwrap().to_string(), word);
        }
        for (word, full) in [("cyan", [0, 255, 255]), ("grey", [255; 3])] {
            assert_eq!(Colour::from_word(word).unwrap().of_shade(255), full);
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
        let inverse = (0..6).fold(1u64, |x, _| {
            x.wrapping_mul(2u64.wrapping_sub(x.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        });
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
