//! `voltile inspect --picture`: the pictures of channels, decoded from what is sent to the terminal, are their slices.
//!
//! [`decode`] reads the half blocks.

mod decode;

use std::path::Path;

use ndarray::{Array3, Array4, Dimension};
use voltile::base::color::label_colour;

use crate::common::volumes::invert;
use crate::common::{Outcome, Place, fixture, made, outcome};
use decode::{Block, Image, Shown, blocks, palette};

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

/// The captions of the file's pictures.
const CAPTIONS: [&str; 5] = [
    "colour: xy, slice 2 of 5, window as stored",
    "labels: xy, slice 2 of 5, labels",
    "raw: xy, slice 2 of 5, window as stored",
    "series: xy, slice 1 of 3, time 6 of 12, window as stored",
    "wide: xy, slice 3 of 6, window as stored",
];

fn inspect(place: &Place, file: &Path, colorterm: Option<&str>) -> Outcome {
    let mut command = place.voltile(["inspect".as_ref(), "--picture".as_ref(), file.as_os_str()]);
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

/// What is shown of the file.
fn drawn<T>(colorterm: Option<&str>, decode: impl Fn(&str) -> T) -> Vec<T> {
    let place = Place::new();
    write(&place.path("made.h5"));
    let outcome = inspect(&place, &place.path("made.h5"), colorterm);
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
        let pictures = drawn(Some(colorterm), |sent| direct(blocks(sent)));
        for ((name, expected), picture) in expected().into_iter().zip(pictures) {
            assert_eq!(picture, expected, "{name}");
        }
    }
}

#[test]
fn half_blocks_without_colorterm_have_near_colours_of_256() {
    let pictures = drawn(None, |sent| {
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
fn pictures_of_large_slices_fit_80_columns_and_24_lines() {
    let place = Place::new();
    made::file(&place.path("made.h5"), |file| {
        put(file, "high", noisy(1, [5, 1200, 700]));
        put(file, "wide", noisy(1, [5, 70, 2100]));
    });
    let file = place.path("made.h5");
    let outcome = inspect(&place, &file, Some("truecolor"));
    let pictures: Vec<Image> =
        outcome.out.split("window as stored\n").skip(1).map(|sent| direct(blocks(sent))).collect();
    let sizes: Vec<(usize, usize)> = pictures.iter().map(|picture| (picture.width, picture.height)).collect();
    assert_eq!(sizes, [(28, 48), (80, 2)]);
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
    let outcome = inspect(&place, &path, Some("truecolor"));
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
        let outcome = inspect(&place, &fixture(name), Some("truecolor"));
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
    let outcome = place.run(["inspect", "made.h5", "--json", "--picture"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (2, ""));
    assert!(outcome.err.contains("--json") && outcome.err.contains("--picture"), "{}", outcome.err);
}

#[test]
fn nothing_is_drawn_unless_asked_for() {
    let place = Place::new();
    write(&place.path("made.h5"));
    let outcome = place.run(["inspect", "made.h5"]);
    assert!(outcome.code == 0 && !outcome.out.contains(['▀', '\u{1b}']), "{}", outcome.out);
}
