//! Vector instructions (`VOLTILE_SIMD`): the pixels are the same with each set that this processor
//! has.

use std::path::Path;

use ndarray::Array3;

use crate::common::{MOUNT, Place, Server, fixture, fixture_json, made, outcome};
use crate::fixtures::{list, wrong_tile, wrongs};

/// The sets from the smallest to the largest.
const SETS: [&str; 3] = ["baseline", "avx2", "avx512"];

/// The sets that this processor has, as the program says; others are refused at the start.
fn sets(place: &Place) -> Vec<&'static str> {
    let is_usable = |set: &&str| {
        let told = outcome(
            place
                .voltile(["config", "example"])
                .env("VOLTILE_SIMD", set),
        );
        let refusal = format!("VOLTILE_SIMD={set} cannot be used: this processor has only");
        assert!(
            told.code == 0 || (told.code == 2 && told.err.contains(&refusal)),
            "{}",
            told.err
        );
        told.code == 0
    };
    let sets: Vec<&str> = SETS.into_iter().filter(is_usable).collect();
    assert!(SETS.starts_with(&sets) && !sets.is_empty(), "{sets:?}");
    #[cfg(target_arch = "x86_64")]
    assert_eq!(
        sets.contains(&"avx2"),
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2")
    );
    sets
}

/// A server that uses a set of instructions.
fn served(place: &Place, set: &str, source: &[&Path]) -> Server {
    let mut command = place.voltile(["serve", "--bind", "127.0.0.1:0"]);
    command
        .args(source)
        .env("VOLTILE_SIMD", set)
        .env("VOLTILE_LOG", "voltile=debug");
    let server = place.start(command);
    server.wait_for_log(&format!("vector instructions: {set}"));
    server
}

#[test]
#[ignore = "slow: draws every fixture once for each set of instructions"]
fn every_tile_of_the_fixtures_has_the_expected_pixels_with_each_set_of_instructions() {
    let (place, expected) = (Place::new(), fixture_json("expected.json"));
    for set in sets(&place) {
        let server = served(
            &place,
            set,
            &[Path::new("--config"), &fixture("voltile.toml")],
        );
        let wrong = wrongs(&server, list(&expected), wrong_tile);
        assert!(
            wrong.is_empty(),
            "{set}: {} wrong, among them {:#?}",
            wrong.len(),
            wrong.first()
        );
    }
}

/// Voxels of several kinds, wide enough to fill the longest vectors, and an odd number of them in
/// each row.
fn volumes(path: &Path) {
    let shape = (3, 517, 701);
    let noise = |z: usize, y: usize, x: usize| {
        let mixed = ((z * 517 + y) * 701 + x).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as u32 / (1 + (x / 100) as u32 * 9)
    };
    let chunk = (2, 100, 130);
    made::file(path, |file| {
        let builder = || file.new_dataset_builder();
        let bytes = Array3::from_shape_fn(shape, |(z, y, x)| noise(z, y, x) as u8);
        builder()
            .with_data(&bytes)
            .chunk(chunk)
            .deflate(1)
            .create("bytes")
            .unwrap();
        let words = bytes.map(|byte| u16::from(*byte) * 201);
        builder()
            .with_data(&words)
            .chunk(chunk)
            .shuffle()
            .deflate(1)
            .create("words")
            .unwrap();
        let floats = Array3::from_shape_fn(shape, |(z, y, x)| noise(z, y, x) as f32 / 7.0 - 1e5);
        builder()
            .with_data(&floats)
            .chunk(chunk)
            .shuffle()
            .fletcher32()
            .create("floats")
            .unwrap();
        let labels = Array3::from_shape_fn(shape, |(z, y, x)| u64::from(noise(z, y / 9, x / 40)));
        builder()
            .with_data(&labels)
            .chunk(chunk)
            .shuffle()
            .deflate(1)
            .create("labels")
            .unwrap();
    });
}

#[test]
#[ignore = "slow: draws all tiles with each set of instructions"]
fn large_tiles_are_the_same_bytes_with_each_set_of_instructions() {
    let place = Place::new();
    let path = place.path("noise.h5");
    volumes(&path);
    let configuration = "[datasets.noise]\nfile = \"noise.h5\"\n\
        [datasets.noise.channels]\nbytes = { path = \"/bytes\" }\nwords = { path = \"/words\" }\n\
        floats = { path = \"/floats\" }\nlabels = { path = \"/labels\", kind = \"labels\" }\n";
    let configuration = place.write("voltile.toml", configuration);
    let planes = [
        "xy/1/0_0_0",
        "xy/2/1_1_0",
        "xy/0/0_0_1",
        "xy/2/0_0_2",
        "xz/300/0_0_0",
        "yz/77/0_0_0",
        "xy/1/0_0_3",
    ];
    let channels = ["bytes", "words", "floats", "labels", "mcfc"];
    let path = |channel: &str, plane: &str| match channel {
        "mcfc" => format!("{MOUNT}/mcfc/noise/bytes:C,words:M,floats:Y/{plane}.png"),
        channel => format!("{MOUNT}/noise/{channel}/{plane}.png"),
    };
    let tiles = |set: &str| -> Vec<Vec<u8>> {
        let server = served(&place, set, &[Path::new("--config"), &configuration]);
        let paths = channels
            .iter()
            .flat_map(|channel| planes.iter().map(|plane| path(channel, plane)));
        let body = |path: String| {
            let answer = server.get(&path);
            assert_eq!(answer.status, 200, "{path}");
            answer.body
        };
        paths.map(body).collect()
    };
    let sets = sets(&place);
    let expected = tiles(sets[0]);
    for set in &sets[1..] {
        for (number, (tile, expected)) in tiles(set).iter().zip(&expected).enumerate() {
            assert!(tile == expected, "tile {number} with {set}");
        }
    }
}

#[test]
fn a_set_of_instructions_that_does_not_exist_is_refused_at_the_start() {
    let place = Place::new();
    let told = outcome(
        place
            .voltile(["config", "example"])
            .env("VOLTILE_SIMD", "sse9"),
    );
    assert_eq!((told.code, told.out.as_str()), (2, ""));
    assert!(
        told.err
            .contains("VOLTILE_SIMD=\"sse9\" is not a set of instructions"),
        "{}",
        told.err
    );
    assert!(
        told.err.contains("baseline, avx2 or avx512 is expected"),
        "{}",
        told.err
    );
}
