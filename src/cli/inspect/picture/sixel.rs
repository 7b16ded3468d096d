//! Sixel: a palette of up to 256 colours, and bands of six rows of pixels, each drawn in one colour after the other.
//!
//! Colours are percentages of red, green and blue. A picture of at most 256 such colours, as every grey one, is sent
//! exactly; in others each pixel gets the nearest of 256 chosen ones, without dithering. Source: DEC's description of the
//! VT330 and VT340, <https://vt100.net/docs/vt3xx-gp/chapter14.html>.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use color_quant::NeuQuant;

use crate::base::color::Rgb;

/// The rows of a band.
const BAND: usize = 6;
/// The maximum number of colours.
const COLOURS: usize = 256;
/// How much of a picture the palette is chosen from: all of it.
const SAMPLE: i32 = 1;
/// The sixel of a column without pixels; the sixels of others are higher by a bit for each pixel, the top one first.
const EMPTY: u8 = b'?';

/// Pixels of rows of `width`.
pub(super) fn encoded(pixels: &[Rgb], width: usize) -> String {
    let width = width.max(1);
    let Indexed { palette, indices } = Indexed::of(pixels);
    // Pixels are square, and those that are not drawn keep their colour. Writing to a string cannot fail.
    let mut out = format!("\x1bP0;1;0q\"1;1;{width};{}", pixels.len() / width);
    for (number, [r, g, b]) in palette.iter().enumerate() {
        let _ = write!(out, "#{number};2;{r};{g};{b}");
    }
    let bands: Vec<String> = indices.chunks(BAND * width).map(|band| passes(band, width)).collect();
    out.push_str(&bands.join("-"));
    out.push_str("\x1b\\\n");
    out
}

/// A picture as a palette, in percentages, and the number of each pixel's colour.
struct Indexed {
    palette: Vec<Rgb>,
    indices: Vec<usize>,
}

impl Indexed {
    fn of(pixels: &[Rgb]) -> Self {
        let exact = pixels.iter().map(|pixel| percent(*pixel));
        let palette: Vec<Rgb> = exact.clone().collect::<BTreeSet<_>>().into_iter().collect();
        if palette.len() > COLOURS {
            return Self::reduced(pixels);
        }
        let numbers: BTreeMap<Rgb, usize> = palette.iter().copied().zip(0..).collect();
        let indices = exact.map(|colour| numbers.get(&colour).copied().unwrap_or_default()).collect();
        Self { palette, indices }
    }

    /// With the nearest of 256 colours chosen for the picture.
    fn reduced(pixels: &[Rgb]) -> Self {
        let rgba: Vec<u8> = pixels.iter().flat_map(|[r, g, b]| [*r, *g, *b, u8::MAX]).collect();
        let chosen = NeuQuant::new(SAMPLE, COLOURS, &rgba);
        let palette =
            chosen.color_map_rgb().as_chunks::<3>().0.iter().map(|colour| percent(*colour)).collect();
        let indices = rgba.as_chunks::<4>().0.iter().map(|pixel| chosen.index_of(pixel)).collect();
        Self { palette, indices }
    }
}

fn percent(colour: Rgb) -> Rgb {
    colour.map(|component| ((u16::from(component) * 100 + 127) / 255) as u8)
}

/// A band: the sixels of each colour in it, each from the beginning of the band.
fn passes(band: &[usize], width: usize) -> String {
    let pass = |(number, sixels): (usize, Vec<u8>)| format!("#{number}{}", runs(&sixels));
    columns(band, width).into_iter().map(pass).collect::<Vec<_>>().join("$")
}

/// The columns of a band for each colour in it: a bit for each row.
fn columns(band: &[usize], width: usize) -> BTreeMap<usize, Vec<u8>> {
    let mut all: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for (row, indices) in band.chunks(width).enumerate() {
        for (column, number) in indices.iter().enumerate() {
            all.entry(*number).or_insert_with(|| vec![0; width])[column] |= 1 << row;
        }
    }
    all
}

/// The sixels of columns, repeated ones as `!COUNT` and the sixel.
fn runs(columns: &[u8]) -> String {
    let run = |run: &[u8]| {
        let sixel = char::from(EMPTY + run.first().copied().unwrap_or_default());
        match run.len() {
            count @ 0..=3 => std::iter::repeat_n(sixel, count).collect(),
            count => format!("!{count}{sixel}"),
        }
    };
    columns.chunk_by(|a, b| a == b).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_colour_of_a_band_is_drawn_in_a_pass() {
        let (black, red) = ([0; 3], [255, 0, 0]);
        // Seven rows of five columns: a red column, else black.
        let picture: Vec<Rgb> = (0..35).map(|at| if at % 5 == 1 { red } else { black }).collect();
        assert_eq!(
            encoded(&picture, 5),
            "\x1bP0;1;0q\"1;1;5;7#0;2;0;0;0#1;2;100;0;0#0~?~~~$#1?~???-#0@?@@@$#1?@???\x1b\\\n"
        );
    }

    #[test]
    fn long_runs_are_counted() {
        assert_eq!(runs(&[1, 1, 1, 0, 2, 2, 2, 2]), "@@@?!4A");
    }

    #[test]
    fn a_grey_picture_keeps_every_percentage() {
        let greys: Vec<Rgb> = (0..=255).map(|shade| [shade; 3]).collect();
        let Indexed { palette, indices } = Indexed::of(&greys);
        assert_eq!(palette.len(), 101);
        for (shade, index) in indices.into_iter().enumerate() {
            assert_eq!(palette[index], percent([shade as u8; 3]));
        }
    }

    #[test]
    fn many_colours_are_reduced_to_near_ones() {
        let colours: Vec<Rgb> =
            (0..4096u16).map(|n| [n >> 8, n >> 4 & 15, n & 15].map(|part| 17 * part as u8)).collect();
        let Indexed { palette, indices } = Indexed::of(&colours);
        assert_eq!(palette.len(), COLOURS);
        let error = |(colour, index): (&Rgb, usize)| {
            percent(*colour).iter().zip(palette[index]).map(|(a, b)| u32::from(a.abs_diff(b))).sum::<u32>()
        };
        let mean = colours.iter().zip(indices).map(error).sum::<u32>() / colours.len() as u32;
        assert!(mean < 30, "the mean error of three percentages is {mean}");
    }
}
