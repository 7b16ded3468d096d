//! Half blocks: each character is the upper half of its cell, in the colour of one pixel on the colour of the pixel below.
//!
//! Colours are set with SGR sequences: `38;2;R;G;B` and `48;2;R;G;B`, or `38;5;N` and `48;5;N` with a colour of xterm's
//! palette (<https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>).

use std::fmt::Write;

use crate::base::color::Rgb;

/// The upper half of a character cell.
const UPPER: char = '▀';
/// Ends all colours.
const RESET: &str = "\x1b[0m";
/// The components of the 6 × 6 × 6 colours of the palette, which follow the 16 that users change.
const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
/// The number of the first of those colours.
const FIRST_COLOUR: u8 = 16;
/// The number of the first of 24 greys: 8, 18, … 238.
const FIRST_GREY: u8 = 232;

/// The colours of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// The 240 fixed colours of xterm's palette of 256.
    Indexed,
    /// 24-bit colours.
    Direct,
}

/// Pixels of rows of `width`, two rows to a line.
pub(super) fn encode(pixels: &[Rgb], width: usize, depth: Depth) -> String {
    let mut out = String::new();
    for rows in pixels.chunks(2 * width.max(1)) {
        let (upper, lower) = rows.split_at(width.min(rows.len()));
        let lower = lower.iter().map(Some).chain(std::iter::repeat(None));
        let mut current = None;
        for cell in upper.iter().zip(lower) {
            if current != Some(cell) {
                set(&mut out, cell, depth);
                current = Some(cell);
            }
            out.push(UPPER);
        }
        out.push_str(RESET);
        out.push('\n');
    }
    out
}

/// Sets the colours of a cell. Writing to a string cannot fail. The last line may have no lower pixels.
fn set(out: &mut String, (upper, lower): (&Rgb, Option<&Rgb>), depth: Depth) {
    let colour = |[r, g, b]: Rgb| match depth {
        Depth::Direct => format!("2;{r};{g};{b}"),
        Depth::Indexed => format!("5;{}", nearest([r, g, b])),
    };
    let _ = match lower {
        Some(lower) => write!(out, "\x1b[38;{};48;{}m", colour(*upper), colour(*lower)),
        None => write!(out, "\x1b[38;{}m", colour(*upper)),
    };
}

/// The number of the palette's colour that is nearest.
fn nearest(colour: Rgb) -> u8 {
    let distance = |number: &u8| {
        let differences = colour.iter().zip(palette(*number)).map(|(a, b)| u32::from(a.abs_diff(b)));
        differences.map(|difference| difference * difference).sum::<u32>()
    };
    (FIRST_COLOUR..=u8::MAX).min_by_key(distance).unwrap_or(FIRST_COLOUR)
}

/// A colour of the palette.
fn palette(number: u8) -> Rgb {
    match number.checked_sub(FIRST_GREY) {
        Some(grey) => [8 + 10 * grey; 3],
        None => {
            let number = number.saturating_sub(FIRST_COLOUR);
            [number / 36, number / 6 % 6, number % 6].map(|step| LEVELS[usize::from(step)])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_of_the_palette_is_its_own_nearest() {
        for number in FIRST_COLOUR..=255 {
            assert_eq!(palette(nearest(palette(number))), palette(number), "{number}");
        }
    }

    #[test]
    fn greys_have_the_nearest_of_30_greys() {
        let greys: Vec<u8> =
            (FIRST_COLOUR..=255).map(palette).filter(|[r, g, b]| r == g && g == b).map(|[r, ..]| r).collect();
        assert_eq!(greys.len(), 30);
        for shade in 0..=255u8 {
            let best = greys.iter().map(|grey| grey.abs_diff(shade)).min().unwrap();
            let [r, g, b] = palette(nearest([shade; 3]));
            assert_eq!((r, g, r.abs_diff(shade)), (g, b, best), "{shade}");
        }
    }

    #[test]
    fn colours_are_set_where_they_change_and_an_odd_last_row_has_no_background() {
        let (a, b) = ([1, 2, 3], [4, 5, 6]);
        let picture = [a, a, b, b, b, b, b, b, a];
        assert_eq!(
            encode(&picture, 3, Depth::Direct),
            "\x1b[38;2;1;2;3;48;2;4;5;6m▀▀\x1b[38;2;4;5;6;48;2;4;5;6m▀\x1b[0m\n\
             \x1b[38;2;4;5;6m▀▀\x1b[38;2;1;2;3m▀\x1b[0m\n"
        );
        assert_eq!(encode(&[[255, 0, 0], [0; 3]], 1, Depth::Indexed), "\x1b[38;5;196;48;5;16m▀\x1b[0m\n");
    }
}
