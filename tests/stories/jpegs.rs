//! Lossy tiles, for pages on slow lines.

use ndarray::{ArrayD, Dimension, IxDyn};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

use crate::common::picture::TILE;
use crate::common::wire::Answer;
use crate::common::{Place, Server, made};

/// `em`: two waves, one of them with a corner of missing voxels, and labels.
fn served(place: &Place) -> Server {
    let wave = |at: &[usize]| {
        let share = |place: usize, length: f64| (place as f64 / length).sin() / 4.0 + 0.25;
        (60_000.0 * (share(at[1], 40.0) + share(at[2], 25.0))) as u16
    };
    made::file(&place.path("em.h5"), |file| {
        let data = |value: &dyn Fn(&[usize]) -> u16| {
            ArrayD::from_shape_fn(IxDyn(&[3, TILE, TILE]), |at| value(at.slice()))
        };
        made::put(file, "raw", &data(&|at| wave(at)));
        let is_lost = |at: &[usize]| at[1] < 64 && at[2] < 64;
        made::put(
            file,
            "holes",
            &data(&|at| if is_lost(at) { 65_535 } else { wave(at) }),
        );
        made::put(
            file,
            "labels",
            &data(&|at| (at[1] / 9) as u16).mapv(u32::from),
        );
    });
    place.write(
        "voltile.toml",
        "[datasets.em]\nfile = \"em.h5\"\n[datasets.em.channels.raw]\n[datasets.em.channels.holes]\nmissing = [65535]\n\
         [datasets.em.channels.labels]\n",
    );
    place.serve::<&str>([])
}

fn found(server: &Server, path: &str) -> Answer {
    let answer = server.get(&format!("/view/em/{path}"));
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer
}

/// The pixels of a JPEG, with as many components as it has.
fn decoded(jpeg: &Answer, components: usize) -> Vec<u8> {
    assert_eq!(jpeg.header("content-type"), Some("image/jpeg"));
    let mut decoder = JpegDecoder::new(ZCursor::new(&jpeg.body));
    let pixels = decoder.decode().unwrap();
    assert_eq!(decoder.dimensions(), Some((TILE, TILE)));
    // Colours are decoded from components that are not subsampled, grey to one component.
    let grey = if components == 1 {
        pixels.len() / TILE / TILE
    } else {
        1
    };
    pixels.into_iter().step_by(grey).collect()
}

/// The mean and the greatest difference of pixels.
fn difference(one: &[u8], other: &[u8]) -> (f64, u8) {
    assert_eq!(one.len(), other.len());
    let each = one
        .iter()
        .zip(other)
        .map(|(one, other)| one.abs_diff(*other));
    let sum: u64 = each.clone().map(u64::from).sum();
    (sum as f64 / one.len() as f64, each.max().unwrap())
}

/// The sampling factors in the header of a baseline JPEG, one for each component.
fn sampling(jpeg: &[u8]) -> Vec<u8> {
    let start = jpeg
        .windows(2)
        .position(|pair| pair == [0xff, 0xc0])
        .expect("it is baseline");
    let components = usize::from(jpeg[start + 9]);
    (0..components)
        .map(|number| jpeg[start + 11 + 3 * number])
        .collect()
}

#[test]
fn a_jpeg_shows_about_the_pixels_of_the_png_in_fewer_bytes() {
    let place = Place::new();
    let server = served(&place);
    for (layers, components) in [
        ("raw:0:60000:1:grey", 1),
        ("raw:0:60000:2:fire", 3),
        ("raw:0:60000:1:ff0000,holes:60000:0:1:00ff00", 3),
    ] {
        for slices in ["1", "0-3.max"] {
            let path = format!("{layers}/xy/{slices}/0_0_0");
            let (png, jpeg) = (
                found(&server, &format!("{path}.png")),
                found(&server, &format!("{path}.jpg")),
            );
            assert_eq!(sampling(&jpeg.body), vec![0x11; components], "{path}");
            let (mean, greatest) = difference(&decoded(&jpeg, components), &png.picture().pixels);
            assert!(mean < 2.5 && greatest < 40, "{path}: {mean}, {greatest}");
            assert!(
                jpeg.body.len() < png.body.len() / 2,
                "{path}: {}",
                jpeg.body.len()
            );
            assert_ne!(jpeg.etag(), png.etag());
            let again = server.ask(
                "GET",
                &format!("/view/em/{path}.jpg"),
                &[("If-None-Match", jpeg.etag())],
            );
            assert_eq!(again.status, 304);
        }
    }
}

#[test]
fn what_is_missing_is_black_in_a_jpeg() {
    let place = Place::new();
    let server = served(&place);
    let shown = decoded(&found(&server, "holes:60000:0:1:grey/xy/1/0_0_0.jpg"), 1);
    let exact = found(&server, "holes:60000:0:1:grey/xy/1/0_0_0.png").picture();
    assert_eq!(exact.mode, "LA");
    let shades: Vec<u8> = exact.pixels.iter().step_by(2).copied().collect();
    assert!(difference(&shown, &shades).0 < 2.5);
    // Eight by eight blocks of nothing else are exactly black.
    assert!((0..56).all(|row| shown[row * TILE..][..56].iter().all(|shade| *shade == 0)));
    for outside in ["xy/900", "xz/513"] {
        let black = decoded(
            &found(&server, &format!("raw:0:60000:1:grey/{outside}/0_0_0.jpg")),
            1,
        );
        assert!(black.iter().all(|shade| *shade == 0), "{outside}");
    }
}

#[test]
fn labels_and_ordinary_tiles_are_never_lossy() {
    let place = Place::new();
    let server = served(&place);
    let labels = server.get("/view/em/labels:0:9:1:grey/xy/0/0_0_0.jpg");
    assert_eq!(labels.status, 404);
    assert!(
        labels.problem().contains("holds labels"),
        "{}",
        labels.problem()
    );
    for path in [
        "/view/em/raw:0:9:1:grey/xy/0/small.jpg",
        "/ndtilecache/tilecache/em/raw/xy/0/0_0_0.jpg",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}
