//! `voltile inspect --picture`: the pictures of channels, decoded from what is sent to the terminal, are their slices.
//!
//! [`decode`] reads the three forms; [`terminal`] plays a terminal that is asked which of them it understands.

mod decode;
mod terminal;

use std::path::Path;

use ndarray::{Array3, Array4, Dimension};
use voltile::base::color::label_colour;

use crate::common::volumes::invert;
use crate::common::{Outcome, Place, fixture, made, outcome};
use decode::{Block, Image, Shown, blocks, kitty, palette, sixel};
use terminal::Answered;

/// The width and height of a character in pixels, if the terminal does not tell.
const CELL: usize = 8;

/// Noise over the whole range of a byte, so that it is shown as stored.
fn noise(seed: usize, at: &[usize]) -> u8 {
    let mixed =
        at.iter().fold(seed, |mixed, n| (mixed ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29));
    (mixed >> 40) as u8
}

fn noisy(seed: usize, shape: [usize; 3]) -> Array3<u8> {
    Array3::from_shape_fn(shape, |(z, y, x)| noise(seed, &[z, y, x]))
}

fn put<T: hdf5::H5Type, D: Dimension>(file: &hdf5::File, path: &str, data: ndarray::Array<T, D>) {
    made::put(file, path, &data.into_dyn());
}

/// Writes a dataset whose last axis is red, green and blue, marked as ilastik does.
fn put_coloured(file: &hdf5::File, path: &str, data: Array4<u8>) {
    let data = made::put(file, path, &data.into_dyn());
    made::text(&data, "axistags", r#"{"axes": [{"key": "z"}, {"key": "y"}, {"key": "x"}, {"key": "c"}]}"#);
    made::text(&data, "display_mode", "rgba");
}

fn label(z: usize, y: usize, x: usize) -> u32 {
    (z * 100 + (y / 6) * 10 + x / 5) as u32 * u32::from(!x.is_multiple_of(7))
}

/// A file with a channel of each kind: `colour` is RGB, `labels` are ids, `raw` fits the terminal, `series` has twelve time
/// points, `wide` is twice as wide and high as half blocks can show.
fn write(path: &Path) {
    made::file(path, |file| {
        put_coloured(
            file,
            "colour",
            Array4::from_shape_fn((5, 12, 16, 3), |(z, y, x, c)| noise(3, &[z, y, x, c])),
        );
        put(file, "labels", Array3::from_shape_fn((5, 20, 30), |(z, y, x)| label(z, y, x)));
        put(file, "raw", noisy(1, [5, 30, 40]));
        put(file, "series", Array4::from_shape_fn((12, 3, 9, 20), |(t, z, y, x)| noise(t, &[z, y, x])));
        put(file, "wide", noisy(2, [6, 96, 160]));
    });
}

/// What the pictures of the file must show in half blocks, by channel.
fn expected() -> Vec<(&'static str, Image)> {
    let grey =
        |width, height, shade: &dyn Fn(usize, usize) -> u8| Image::of(width, height, |y, x| [shade(y, x); 3]);
    let mean = |y: usize, x: usize| {
        let four = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(j, i)| noise(2, &[3, 2 * y + j, 2 * x + i]));
        ((four.into_iter().map(u32::from).sum::<u32>() + 2) / 4) as u8
    };
    vec![
        ("colour", Image::of(16, 12, |y, x| [0, 1, 2].map(|c| noise(3, &[2, y, x, c])))),
        ("labels", Image::of(30, 20, |y, x| label_colour(label(2, y, x).into()))),
        ("raw", grey(40, 30, &|y, x| noise(1, &[2, y, x]))),
        ("series", grey(20, 9, &|y, x| noise(6, &[1, y, x]))),
        ("wide", grey(80, 48, &mean)),
    ]
}

/// What pictures made of pixels must show: there is room for all of `wide`, and each pixel is repeated as often as it fits,
/// up to the width of a character.
fn expected_in_pixels() -> Vec<(&'static str, Image)> {
    let whole = |(name, half_blocks): (&'static str, Image)| match name {
        "wide" => (name, Image::of(160, 96, |y, x| [noise(2, &[3, y, x]); 3])),
        _ => (name, half_blocks),
    };
    let enlarged = |(name, image): (&'static str, Image)| {
        let times = (80 * CELL / image.width).min(24 * 2 * CELL / image.height).min(CELL);
        (name, image.enlarged(times))
    };
    expected().into_iter().map(whole).map(enlarged).collect()
}

/// The captions of the file's pictures.
const CAPTIONS: [&str; 5] = [
    "colour: xy, slice 2 of 5, window as stored",
    "labels: xy, slice 2 of 5, labels",
    "raw: xy, slice 2 of 5, window as stored",
    "series: xy, slice 1 of 3, time 6 of 12, window as stored",
    "wide: xy, slice 3 of 6, window as stored",
];

fn inspect(place: &Place, file: &Path, form: &str, colorterm: Option<&str>) -> Outcome {
    let mut command = place.voltile(["inspect".as_ref(), file.as_os_str(), form.as_ref()]);
    outcome(command.envs(colorterm.map(|value| ("COLORTERM", value))))
}

/// The pictures in the output, each with its caption.
fn shown<T>(out: &str, decode: impl Fn(&str) -> T) -> Vec<(&str, T)> {
    let after = CAPTIONS.iter().map(|caption| {
        let begin =
            out.find(&format!("\n{caption}\n")).unwrap_or_else(|| panic!("{caption} is not in:\n{out}"));
        let rest = &out[begin + 1 + caption.len() + 1..];
        (*caption, rest.find("\n\n").map_or(rest, |end| &rest[..=end]))
    });
    after.map(|(caption, sent)| (caption, decode(sent))).collect()
}

/// The file, and what a form shows of it.
fn drawn<T>(form: &str, colorterm: Option<&str>, decode: impl Fn(&str) -> T) -> Vec<T> {
    let place = Place::new();
    write(&place.path("made.h5"));
    let outcome = inspect(&place, &place.path("made.h5"), form, colorterm);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert!(outcome.out.starts_with("layout     "), "the description comes first:\n{}", outcome.out);
    shown(&outcome.out, decode).into_iter().map(|(_, picture)| picture).collect()
}

/// The colours of blocks that are in 24-bit colour.
fn direct(picture: Shown) -> Image {
    picture.map(|block| match block {
        Block::Direct(colour) => colour,
        Block::Indexed(number) => panic!("the colour {number} is not 24-bit"),
    })
}

#[test]
fn half_blocks_in_24_bit_colour_are_the_middle_slices() {
    for colorterm in ["truecolor", "24bit"] {
        let pictures = drawn("--picture=blocks", Some(colorterm), |sent| direct(blocks(sent)));
        for ((name, expected), picture) in expected().into_iter().zip(pictures) {
            assert_eq!(picture, expected, "{name}");
        }
    }
}

#[test]
fn without_a_terminal_and_a_form_pictures_are_half_blocks() {
    let pictures = drawn("--picture", Some("truecolor"), |sent| direct(blocks(sent)));
    for ((name, expected), picture) in expected().into_iter().zip(pictures) {
        assert_eq!(picture, expected, "{name}");
    }
}

#[test]
fn half_blocks_without_colorterm_have_near_colours_of_256() {
    let pictures = drawn("--picture=blocks", None, |sent| {
        blocks(sent).map(|block| match block {
            Block::Indexed(number) => palette(number),
            Block::Direct(colour) => panic!("{colour:?} is none of 256 colours"),
        })
    });
    for ((name, expected), picture) in expected().into_iter().zip(pictures) {
        assert_eq!((picture.width, picture.height), (expected.width, expected.height), "{name}");
        let is_grey = !matches!(name, "colour" | "labels");
        // Half of the largest step between components, or between greys.
        let most = if is_grey { 9 } else { 48 };
        assert!(picture.farthest(&expected) <= most, "{name}: {}", picture.farthest(&expected));
    }
}

#[test]
fn sixels_are_the_middle_slices_enlarged_in_whole_steps() {
    let pictures = drawn("--picture=sixel", None, sixel);
    for ((name, expected), picture) in expected_in_pixels().into_iter().zip(pictures) {
        // Colours are percentages.
        assert_eq!(picture, expected.map(|colour| colour.map(decode::percent)), "{name}");
    }
}

#[test]
fn kitty_pictures_are_the_middle_slices_enlarged_in_whole_steps() {
    let pictures = drawn("--picture=kitty", None, kitty);
    for ((name, expected), picture) in expected_in_pixels().into_iter().zip(pictures) {
        assert_eq!(picture, expected, "{name}");
    }
}

#[test]
fn a_picture_of_many_colours_has_near_ones_as_sixels() {
    let place = Place::new();
    let voxel = |y: usize, x: usize| [2 * x as u8, 4 * y as u8, (x + y) as u8];
    made::file(&place.path("made.h5"), |file| {
        put_coloured(file, "raw", Array4::from_shape_fn((5, 60, 120, 3), |(_, y, x, c)| voxel(y, x)[c]));
    });
    let outcome = inspect(&place, &place.path("made.h5"), "--picture=sixel", None);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let sent = &outcome.out[outcome.out.find("\x1bP").unwrap()..];
    let picture = sixel(sent);
    let expected = Image::of(120, 60, voxel).enlarged(5).map(|colour| colour.map(decode::percent));
    assert_eq!((picture.width, picture.height), (expected.width, expected.height));
    assert!(picture.farthest(&expected) <= 12, "a component is off by {} %", picture.farthest(&expected));
}

#[test]
fn pictures_of_large_slices_fit_80_columns_and_24_lines() {
    let place = Place::new();
    made::file(&place.path("made.h5"), |file| {
        put(file, "high", noisy(1, [5, 1200, 700]));
        put(file, "wide", noisy(1, [5, 70, 2100]));
    });
    let file = place.path("made.h5");
    let outcome = inspect(&place, &file, "--picture=blocks", Some("truecolor"));
    let pictures: Vec<Image> =
        outcome.out.split("window as stored\n").skip(1).map(|sent| direct(blocks(sent))).collect();
    let sizes: Vec<(usize, usize)> = pictures.iter().map(|picture| (picture.width, picture.height)).collect();
    assert_eq!(sizes, [(28, 48), (80, 2)]);
    for form in ["--picture=sixel", "--picture=kitty"] {
        let outcome = inspect(&place, &file, form, None);
        let decode = if form.ends_with("kitty") { kitty } else { sixel };
        let pictures: Vec<Image> = outcome.out.split("window as stored\n").skip(1).map(decode).collect();
        let fits = |picture: &Image| picture.width <= 80 * CELL && picture.height <= 24 * 2 * CELL;
        assert!(pictures.len() == 2 && pictures.iter().all(fits), "{form}");
    }
}

#[test]
fn a_channel_that_cannot_be_read_says_why_and_the_others_are_drawn() {
    let place = Place::new();
    let path = place.path("made.h5");
    let mut chunk = None;
    made::file(&path, |file| {
        put(file, "good", noisy(1, [5, 30, 40]));
        let voxels = noisy(2, [5, 30, 40]);
        let builder = file.new_dataset_builder().with_data(&voxels);
        let bad = builder.chunk((1, 30, 40)).deflate(1).create("bad\u{1b}[2Jone").unwrap();
        file.flush().unwrap();
        chunk = bad.chunk_info(2);
    });
    let chunk = chunk.unwrap();
    invert(&path, &(chunk.addr..chunk.addr + chunk.size));
    let outcome = inspect(&place, &path, "--picture=blocks", Some("truecolor"));
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    assert!(outcome.err.contains("voltile: 1 of 2 channels could not be drawn"), "{}", outcome.err);
    let why = outcome.out.lines().find(|line| line.starts_with("bad__2Jone: no picture: ")).unwrap();
    assert!(why.contains("zlib stream is invalid"), "{why}");
    assert!(!outcome.out.contains("\u{1b}[2J"), "a name in the file can clear the screen");
    let good = outcome.out.split("good: xy, slice 2 of 5, window as stored\n").nth(1).unwrap();
    assert_eq!(direct(blocks(good)), Image::of(40, 30, |y, x| [noise(1, &[2, y, x]); 3]));
}

#[test]
fn damaged_fixtures_show_their_good_channel() {
    let place = Place::new();
    for name in ["bad/gzip.h5", "bad/missing.h5", "bad/truncated.h5"] {
        let outcome = inspect(&place, &fixture(name), "--picture=blocks", Some("truecolor"));
        assert_eq!(outcome.code, 1, "{name}: {}", outcome.err);
        let good = outcome.out.split("\ngood: xy, ").nth(1).and_then(|rest| rest.lines().nth(1));
        assert!(good.is_some_and(|line| line.contains('▀')), "{name}: {}", outcome.out);
        assert!(outcome.out.contains(": no picture: "), "{name}: {}", outcome.out);
    }
}

#[test]
fn pictures_are_refused_in_json() {
    let place = Place::new();
    write(&place.path("made.h5"));
    for form in ["--picture", "--picture=kitty"] {
        let outcome = place.run(["inspect", "made.h5", "--json", form]);
        assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{form}");
        assert!(outcome.err.contains("--json") && outcome.err.contains("--picture"), "{}", outcome.err);
    }
    let outcome = place.run(["inspect", "made.h5", "--picture=jpeg"]);
    assert!(outcome.code == 2 && outcome.err.contains("kitty, sixel, blocks"), "{}", outcome.err);
}

#[test]
fn nothing_is_drawn_unless_asked_for() {
    let place = Place::new();
    write(&place.path("made.h5"));
    let outcome = place.run(["inspect", "made.h5"]);
    assert!(outcome.code == 0 && !outcome.out.contains(['▀', '\u{1b}']), "{}", outcome.out);
}

/// A small file with one channel, in a place.
fn small() -> (Place, Image) {
    let place = Place::new();
    made::file(&place.path("made.h5"), |file| put(file, "raw", noisy(1, [3, 12, 20])));
    (place, Image::of(20, 12, |y, x| [noise(1, &[1, y, x]); 3]))
}

#[test]
fn a_terminal_that_understands_kitty_pictures_gets_them() {
    let (place, expected) = small();
    let out = terminal::printed(&place, Answered::With(b"\x1b_Gi=31;OK\x1b\\\x1b[?62;4c"), |out| {
        out.contains("a=T")
    });
    assert_eq!(kitty(&out[out.find("\x1b_Ga=T").unwrap()..]), expected.enlarged(CELL));
}

#[test]
fn a_terminal_that_understands_sixel_gets_it() {
    let (place, expected) = small();
    let out = terminal::printed(&place, Answered::With(b"\x1b[?62;4;6c"), |out| out.contains("\x1bP"));
    let expected = expected.enlarged(CELL).map(|colour| colour.map(decode::percent));
    assert_eq!(sixel(&out[out.find("\x1bP").unwrap()..]), expected);
}

#[test]
fn other_terminals_get_half_blocks_and_so_do_those_that_do_not_answer() {
    for answer in [Answered::With(b"\x1b[?1;2c"), Answered::Never] {
        let (place, expected) = small();
        let out = terminal::printed(&place, answer, |out| out.contains('▀'));
        let sent = out.split("window as stored\r\n").nth(1).unwrap();
        assert_eq!(direct(blocks(sent)), expected);
    }
}

#[test]
fn a_named_form_asks_no_terminal() {
    let (place, _) = small();
    for form in ["--picture=blocks", "--picture=sixel", "--picture=kitty"] {
        assert!(!terminal::is_asked(&place, form), "{form}");
    }
    assert!(terminal::is_asked(&place, "--picture"));
}
