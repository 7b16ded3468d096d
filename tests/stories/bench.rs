//! `voltile bench`: its table and its JSON, and how it fails. Nothing here depends on how long
//! anything takes.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::volumes::{self, Stored};
use crate::common::{Outcome, Place, fixture, made};

/// A short measurement: a tile or a few in each row.
const QUICK: [&str; 2] = ["--seconds", "0.1"];
const STAGES: [&str; 4] = ["read", "inflate", "draw", "encode"];

fn bench(place: &Place, arguments: &[&str]) -> Outcome {
    place.run([&["bench"], arguments, &QUICK].concat())
}

/// The report in JSON.
fn measured(place: &Place, arguments: &[&str]) -> Value {
    let outcome = bench(place, &[arguments, &["--json"]].concat());
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.err, outcome.out);
    serde_json::from_str(&outcome.out).unwrap()
}

/// The plane and the pattern of each row.
fn rows(report: &Value) -> Vec<[&str; 2]> {
    let rows = report["rows"].as_array().unwrap().iter();
    rows.map(|row| [&row["plane"], &row["pattern"]].map(|name| name.as_str().unwrap()))
        .collect()
}

const ALL_ROWS: [[&str; 2]; 6] = [
    ["xy", "random"],
    ["xy", "scroll"],
    ["xz", "random"],
    ["xz", "scroll"],
    ["yz", "random"],
    ["yz", "scroll"],
];

/// Two channels of 9 × 20 × 30 voxels, one of them deflated.
fn small(path: &Path) {
    made::file(path, |file| {
        let voxels = made::cube([9, 20, 30]);
        made::put(file, "one", &voxels);
        let builder = file.new_dataset_builder().with_data(&voxels);
        builder.chunk((4, 8, 8)).deflate(1).create("two").unwrap();
    });
}

#[test]
fn the_table_has_a_row_for_each_plane_and_pattern_and_fits_a_terminal() {
    let place = Place::new();
    small(&place.path("v.h5"));
    let outcome = bench(&place, &["v.h5", "--channel", "two"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let text = &outcome.out;
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(
        text.starts_with("v two, level 0: 30 × 20 × 9 of uint8\n"),
        "{text}"
    );
    for title in STAGES
        .iter()
        .chain(&["milliseconds", "tiles per second", "1 thread"])
    {
        assert!(text.contains(title), "{title} is not in:\n{text}");
    }
    let found: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| {
            words
                .first()
                .is_some_and(|word| ["xy", "xz", "yz"].contains(word))
        })
        .collect();
    let names: Vec<[&str; 2]> = found.iter().map(|words| [words[0], words[1]]).collect();
    assert_eq!(names, ALL_ROWS, "{text}");
    for words in found {
        let numbers: Vec<f64> = words[2..]
            .iter()
            .map(|word| word.parse().unwrap())
            .collect();
        assert_eq!(numbers.len(), 7, "{text}");
    }
    let last = text.lines().last().unwrap();
    let stage = last.strip_prefix("bottleneck: ").unwrap().split(' ').next();
    assert!(
        STAGES.contains(&stage.unwrap()) && last.contains(" % of a tile's time"),
        "{last}"
    );
}

#[test]
fn the_json_report_has_the_stages_of_every_row() {
    let place = Place::new();
    small(&place.path("v.h5"));
    let set = ["v.h5", "--channel", "two", "--set", "render.threads=2"];
    let report = measured(&place, &set);
    let subject = json!({
        "token": "v", "channel": "two", "level": 0, "size": [30, 20, 9], "dtype": "uint8",
    });
    assert_eq!(report["subject"], subject);
    assert_eq!(report["threads"], 2);
    assert_eq!(rows(&report), ALL_ROWS);
    for row in report["rows"].as_array().unwrap() {
        assert!(row["tiles"].as_u64().unwrap() > 0, "{row}");
        let alone = row["tiles_per_second"].as_f64().unwrap();
        assert!(
            alone > 0.0 && row["tiles_per_second_all"].as_f64().unwrap() > 0.0,
            "{row}"
        );
        let times = STAGES.map(|stage| row["stages"][stage].as_f64().unwrap());
        assert!(times.iter().all(|time| *time > 0.0), "{row}");
        // The stages are parts of the time of a tile.
        assert!(times.iter().sum::<f64>() <= 1e3 / alone, "{row}");
    }
    let bottleneck = &report["bottleneck"];
    assert!(
        STAGES.contains(&bottleneck["stage"].as_str().unwrap()),
        "{bottleneck}"
    );
    let share = bottleneck["share"].as_f64().unwrap();
    assert!((0.25..=1.0).contains(&share), "{bottleneck}");
}

#[test]
fn every_kind_of_volume_can_be_measured() {
    let place = Place::new();
    for file in ["series.h5", "rgb.h5", "labels.h5", "floats.h5", "tall.h5"] {
        let path = fixture(file);
        let report = measured(&place, &[path.to_str().unwrap()]);
        assert_eq!(rows(&report), ALL_ROWS, "{file}");
    }
}

#[test]
fn a_volume_of_one_slice_can_be_measured_at_each_of_its_levels() {
    let place = Place::new();
    made::file(&place.path("flat.h5"), |file| {
        made::put(file, "raw", &made::cube([1, 600, 700]));
    });
    for level in ["0", "1"] {
        let report = measured(&place, &["flat.h5", "--level", level]);
        assert_eq!(rows(&report), ALL_ROWS, "{level}");
    }
}

#[test]
fn the_channel_may_be_named_and_lie_anywhere() {
    // The channel begins in the second tile of each plane, and slices have an offset.
    let place = Place::with(
        "[datasets.moved]\nfile = \"v.h5\"\noffset = [-3, 5, 7]\nout_of_bounds = \"not_found\"\n\
         [datasets.moved.channels.one]\npath = \"one\"\n\
         [datasets.moved.channels.two]\npath = \"two\"\noffset = [600, 700, 800]\n\
         [datasets.a]\nfile = \"v.h5\"\n",
    );
    small(&place.path("v.h5"));
    let report = measured(&place, &[]);
    assert_eq!(report["subject"]["token"], "a");
    let report = measured(&place, &["--token", "moved", "--channel", "two"]);
    assert_eq!(report["subject"]["channel"], "two");
    assert_eq!(rows(&report), ALL_ROWS);
}

#[test]
fn wrong_arguments_are_reported_before_anything_is_measured() {
    let place = Place::new();
    small(&place.path("v.h5"));
    let wrong: [(&[&str], &str); 6] = [
        (&["absent.h5"], "absent.h5"),
        (
            &["v.h5", "--token", "w"],
            "there is no dataset w; the datasets are v",
        ),
        (
            &["v.h5", "--channel", "x"],
            "there is no channel x; the channels are one, two",
        ),
        (
            &["v.h5", "--level", "5"],
            "the channel one has the levels 0 to 0; there is no 5",
        ),
        (&["v.h5", "--seconds", "0"], "seconds from above 0"),
        (&[], "there is nothing"),
    ];
    for (arguments, because) in wrong {
        let arguments = [&["bench"], arguments].concat();
        let outcome = place.run(&arguments);
        assert_eq!(
            (outcome.code, outcome.out.as_str()),
            (2, ""),
            "{arguments:?}: {}",
            outcome.err
        );
        assert!(
            outcome.err.contains(because),
            "{arguments:?}: {}",
            outcome.err
        );
    }
}

#[test]
fn a_tile_that_cannot_be_rendered_ends_the_measurement_and_is_named() {
    let place = Place::new();
    let path = place.path("v.h5");
    for plane in volumes::planes(&path, 5, 1, Stored::Gzip) {
        volumes::invert(&path, &plane);
    }
    for arguments in [&["v.h5"][..], &["v.h5", "--json"]] {
        let outcome = bench(&place, arguments);
        assert_eq!(outcome.code, 1, "{}", outcome.err);
        assert_eq!(outcome.out, "");
        assert!(outcome.err.contains("/raw in "), "{}", outcome.err);
    }
}
