//! `voltile bench`: it measures what was selected, its counts are those of the work done, and it
//! reports failures. Nothing here depends on how long anything takes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::volumes::{self, Stored};
use crate::common::{NOBODY, Outcome, Place, Server, fixture, made};
use ndarray::{ArrayD, IxDyn};
use serde_json::{Value, json};

/// Short measurements: enough to count.
const QUICK: [&str; 4] = ["--seconds", "0.02", "--tiles", "6"];
/// Time enough for every tile, on any machine.
const ENOUGH: [&str; 2] = ["--seconds", "600"];

/// A volume of one tile in each plane; each slice is in 16 chunks.
fn cubes(path: &Path) {
    made::file(path, |file| {
        let voxel = |at: &IxDyn| (at[0] * 31 + at[1] * 57 + at[2] * at[1]) as u8;
        let voxels = ArrayD::from_shape_fn(IxDyn(&[64, 64, 64]), |at| voxel(&at));
        let builder = file
            .new_dataset_builder()
            .with_data(&voxels)
            .chunk((16, 16, 16));
        builder.deflate(1).create("raw").unwrap();
    });
}

fn bench(place: &Place, arguments: &[&str]) -> Outcome {
    place.run([&["bench"], arguments].concat())
}

/// The report in JSON.
fn report_of(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.out)
        .unwrap_or_else(|e| panic!("{e}: {}\n{}", outcome.out, outcome.err))
}

fn measured(place: &Place, arguments: &[&str]) -> Value {
    let outcome = bench(place, &[arguments, &["--json"]].concat());
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.err, outcome.out);
    report_of(&outcome)
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().unwrap()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// What identifies a row, as in the table.
fn name(row: &Value) -> [String; 4] {
    let plane = if row["plane"] == "xy+xz+yz" {
        "all".to_owned()
    } else {
        text(&row["plane"])
    };
    [
        plane,
        text(&row["pattern"]),
        text(&row["threads"]),
        text(&row["state"]),
    ]
}

/// The schema of a number that is not below 0.
fn amount() -> Value {
    json!({"type": "number", "minimum": 0})
}

fn object(required: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = required.iter().map(|(name, _)| *name).collect();
    let properties: BTreeMap<&str, &Value> = required
        .iter()
        .map(|(name, schema)| (*name, schema))
        .collect();
    json!({"type": "object", "required": names, "properties": properties})
}

fn amounts(names: &[&str]) -> Value {
    object(
        &names
            .iter()
            .map(|name| (*name, amount()))
            .collect::<Vec<_>>(),
    )
}

/// The schema of a report on files.
fn schema() -> Value {
    let latency = amounts(&["mean", "p50", "p90", "p99", "max"]);
    let stages = amounts(&[
        "plan", "read", "inflate", "library", "wait", "draw", "encode",
    ]);
    let row = object(&[
        ("plane", json!({"type": "string"})),
        ("level", json!({"type": "integer"})),
        (
            "pattern",
            json!({"enum": ["random", "scroll", "walk", "sweep"]}),
        ),
        ("state", json!({"enum": ["disk", "chunks", "warm"]})),
        ("threads", json!({"type": "integer", "minimum": 1})),
        ("tiles", json!({"type": "integer", "minimum": 1})),
        ("failed", json!({"const": 0})),
        ("tiles_per_second", amount()),
        ("voxel_mb_per_second", amount()),
        ("latency", latency),
        ("stages", stages),
        (
            "chunks",
            amounts(&["decoded", "found", "stored_bytes", "decoded_bytes"]),
        ),
        ("png_bytes", amount()),
        ("disk_bytes", json!({"type": ["integer", "null"]})),
    ]);
    let help = object(&[
        ("help", json!({"type": "string"})),
        ("how", json!({"type": "string", "minLength": 4})),
    ]);
    let verdict = object(&[
        ("rows", json!({"type": "string", "pattern": "^level "})),
        ("limit", json!({"type": "string"})),
        (
            "share",
            json!({"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}}),
        ),
        (
            "says",
            json!({"type": "string", "pattern": "% of a tile's time"}),
        ),
        ("helps", json!({"type": "array", "items": help})),
    ]);
    let list = |items: Value| json!({"type": "array", "items": items, "minItems": 1});
    object(&[
        ("version", json!({"type": "string"})),
        (
            "machine",
            object(&[("cores", json!({"type": "integer", "minimum": 1}))]),
        ),
        (
            "settings",
            amounts(&["seconds", "tiles", "seed", "chunk_cache_bytes"]),
        ),
        (
            "subjects",
            list(object(&[
                ("storage", json!({"type": "object"})),
                ("tile", json!({"type": "object"})),
            ])),
        ),
        ("rows", list(row)),
        ("verdicts", list(verdict)),
        ("scaling", json!({"type": "array"})),
        ("remarks", json!({"type": "array"})),
        ("left_out", json!({"type": "array"})),
        ("failures", json!({"type": "array", "maxItems": 0})),
    ])
}

#[test]
fn every_selected_row_is_measured_and_its_numbers_are_consistent() {
    let place = Place::new();
    cubes(&place.path("v.h5"));
    let report = measured(
        &place,
        &[&["v.h5", "--threads", "1,2"][..], &QUICK].concat(),
    );
    let errors: Vec<String> = jsonschema::validator_for(&schema())
        .unwrap()
        .iter_errors(&report)
        .map(|e| e.to_string())
        .collect();
    assert_eq!(errors, Vec::<String>::new());
    // One level: two patterns in three planes and the walk, with one thread and with two, from
    // three states.
    let names: BTreeSet<[String; 4]> = rows(&report).iter().map(name).collect();
    assert_eq!((rows(&report).len(), names.len()), (7 * 2 * 3, 7 * 2 * 3));
    for row in rows(&report) {
        let latency = ["p50", "p90", "p99", "max"].map(|key| number(&row["latency"][key]));
        assert!(
            latency.is_sorted() && latency[0] > 0.0 && number(&row["tiles_per_second"]) > 0.0,
            "{row}"
        );
        assert!(row["tiles"].as_u64().unwrap() <= 6 * 64, "{row}");
    }
    assert_eq!(
        report["scaling"].as_array().unwrap().len(),
        3,
        "{}",
        report["scaling"]
    );
}

#[test]
fn stages_add_up_to_the_time_of_a_tile() {
    let place = Place::new();
    cubes(&place.path("v.h5"));
    let report = measured(&place, &[&["v.h5", "--threads", "1"][..], &QUICK].concat());
    for state in ["disk", "chunks", "warm"] {
        let rows = rows(&report).iter().filter(|row| row["state"] == state);
        let shares: Vec<f64> = rows
            .map(|row| {
                let stages: f64 = row["stages"]
                    .as_object()
                    .unwrap()
                    .values()
                    .map(number)
                    .sum();
                stages / number(&row["latency"]["mean"])
            })
            .collect();
        // A busy machine may suspend the thread between two stages, but hardly in every row.
        let most = shares.iter().copied().fold(0.0, f64::max);
        assert!((0.8..1.000_001).contains(&most), "{state}: {shares:?}");
    }
}

#[test]
fn the_table_has_the_rows_of_the_json_report() {
    let place = Place::new();
    cubes(&place.path("v.h5"));
    let arguments = [&["v.h5", "--threads", "1"][..], &QUICK].concat();
    let report = measured(&place, &arguments);
    let outcome = bench(&place, &arguments);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let states = BTreeMap::from([
        ("cold disk", "disk"),
        ("cold chunks", "chunks"),
        ("warm", "warm"),
    ]);
    let lines: Vec<[String; 4]> = outcome
        .out
        .lines()
        .filter_map(|line| {
            let (words, state) = states.iter().find_map(|(words, state)| {
                Some((line.split_once(&format!("1  {words} "))?, *state))
            })?;
            let mut words = words.0.split_whitespace().filter(|word| *word != "three");
            Some([
                words.next()?.to_owned(),
                words.next()?.to_owned(),
                "1".to_owned(),
                state.to_owned(),
            ])
        })
        .collect();
    assert_eq!(
        lines,
        rows(&report).iter().map(name).collect::<Vec<_>>(),
        "{}",
        outcome.out
    );
    for words in [
        "machine    ",
        "v raw, level 0: 64 × 64 × 64 of uint8, stored in [16, 16, 16]",
        "verdict",
        "tiles/s",
        "p99",
    ] {
        assert!(
            outcome.out.contains(words),
            "{words} is not in:\n{}",
            outcome.out
        );
    }
}

#[test]
fn cold_tiles_decode_every_chunk_that_inspect_counts_and_warm_tiles_none() {
    let place = Place::new();
    cubes(&place.path("v.h5"));
    let arguments = ["v.h5", "--threads", "1", "--pattern", "random"];
    let report = measured(&place, &[&arguments[..], &QUICK].concat());
    for row in rows(&report) {
        let (tiles, chunks) = (row["tiles"].as_u64().unwrap(), &row["chunks"]);
        let cost = &report["subjects"][0]["tile"][text(&row["plane"])];
        assert_eq!(cost["reads"], 16);
        if row["state"] == "warm" {
            assert_eq!(
                (&chunks["decoded"], &chunks["found"]),
                (&json!(0), &json!(16 * tiles)),
                "{row}"
            );
        } else {
            assert_eq!(
                (&chunks["decoded"], &chunks["found"]),
                (&json!(16 * tiles), &json!(0)),
                "{row}"
            );
            assert!(
                chunks["stored_bytes"].as_u64().unwrap() > 16 * tiles,
                "{row}"
            );
        }
    }
}

#[test]
fn the_same_seed_selects_the_same_tiles() {
    let place = Place::new();
    cubes(&place.path("v.h5"));
    // How many chunks are found in the cache, and the sizes of the images, depend on which tiles
    // are rendered.
    let arguments = [
        "v.h5",
        "--threads",
        "1",
        "--pattern",
        "walk",
        "--state",
        "warm",
        "--tiles",
        "97",
    ];
    let found = |seed: &str| {
        let report = measured(
            &place,
            &[&arguments[..], &ENOUGH, &["--seed", seed]].concat(),
        );
        let row = &rows(&report)[0];
        (row["png_bytes"].clone(), row["chunks"]["found"].clone())
    };
    let (one, again, other) = (found("1"), found("1"), found("2"));
    assert_eq!(one, again);
    assert_ne!(one.0, other.0);
}

#[test]
fn every_kind_of_volume_can_be_measured() {
    let place = Place::new();
    for file in [
        "series.h5",
        "rgb.h5",
        "labels.h5",
        "levels.h5",
        "floats.h5",
        "layouts.h5",
        "tall.h5",
    ] {
        let path = fixture(file);
        let arguments = [
            path.to_str().unwrap(),
            "--threads",
            "2",
            "--state",
            "chunks",
        ];
        let report = measured(
            &place,
            &[&arguments[..], &["--seconds", "0.01", "--tiles", "2"]].concat(),
        );
        assert!(
            rows(&report)
                .iter()
                .all(|row| row["tiles"].as_u64().unwrap() > 0),
            "{file}"
        );
    }
}

#[test]
fn only_the_selected_tiles_are_measured() {
    let place = Place::new();
    cubes(&place.path("a.h5"));
    made::file(&place.path("b.h5"), |file| {
        for name in ["one", "two"] {
            made::put(file, name, &made::cube([9, 20, 30]));
        }
    });
    let few = [
        "--state",
        "warm",
        "--pattern",
        "random,scroll",
        "--threads",
        "1",
    ];
    let report = measured(&place, &[&["a.h5", "b.h5"][..], &few, &QUICK].concat());
    let channels: BTreeSet<String> = rows(&report)
        .iter()
        .map(|row| format!("{} {}", text(&row["token"]), text(&row["channel"])))
        .collect();
    assert_eq!(
        channels,
        BTreeSet::from(["a raw".to_owned(), "b one".to_owned()])
    );
    assert_eq!(report["left_out"], json!(["b/two"]));
    let some = [
        "a.h5",
        "b.h5",
        "--channel",
        "two",
        "--plane",
        "xz,yz",
        "--level",
        "0",
    ];
    let report = measured(&place, &[&some[..], &few, &QUICK].concat());
    let names: Vec<_> = rows(&report)
        .iter()
        .map(|row| (text(&row["channel"]), name(row)[0].clone()))
        .collect();
    let two = |plane: &str| ("two".to_owned(), plane.to_owned());
    assert_eq!(names, [two("xz"), two("xz"), two("yz"), two("yz")]);
    // Slices 3 and 4 of 9, once each.
    let swept = [
        "b.h5",
        "--pattern",
        "sweep",
        "--plane",
        "xy",
        "--min",
        "3",
        "--max",
        "5",
        "--state",
        "warm",
    ];
    let report = measured(
        &place,
        &[&swept[..], &["--threads", "1", "--tiles", "2"], &ENOUGH].concat(),
    );
    assert_eq!(rows(&report)[0]["tiles"], 2);
}

#[test]
fn wrong_arguments_are_reported_before_anything_is_measured() {
    let place = Place::new();
    cubes(&place.path("v.h5"));
    let wrong: [(&[&str], i32, &str); 14] = [
        (&["absent.h5"], 2, "absent.h5"),
        (
            &["v.h5", "--token", "w"],
            2,
            "there is no dataset w; the datasets are v",
        ),
        (
            &["v.h5", "--channel", "x"],
            2,
            "no dataset has the channel x; the channels are raw",
        ),
        (&["v.h5", "--level", "5"], 2, "there are the levels 0 to 0"),
        (
            &["v.h5", "--min", "900"],
            2,
            "nothing is left to be measured",
        ),
        (&["v.h5", "--plane", "zy"], 2, "xy, xz or yz is expected"),
        (
            &["v.h5", "--pattern", "fast"],
            2,
            "random, scroll, walk, sweep",
        ),
        (&["v.h5", "--threads", "0"], 2, "--threads"),
        (&["v.h5", "--seconds", "0"], 2, "seconds above 0"),
        (&["v.h5", "--clients", "2"], 2, "--clients is for a server"),
        (
            &["http://127.0.0.1:9", "--threads", "2"],
            2,
            "--threads is for files",
        ),
        (
            &["http://127.0.0.1:9", "em", "raw"],
            2,
            "TOKEN CHANNEL LEVEL",
        ),
        (
            &["ftp://127.0.0.1:9"],
            2,
            "expected http://, https:// or unix:",
        ),
        (&[], 2, "there is nothing"),
    ];
    for (arguments, code, because) in wrong {
        let outcome = bench(&place, arguments);
        assert_eq!(
            (outcome.code, outcome.out.as_str()),
            (code, ""),
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
fn tiles_that_cannot_be_rendered_are_counted_and_named_and_the_others_measured() {
    let place = Place::new();
    let path = place.path("v.h5");
    let planes = volumes::planes(&path, 5, 1, Stored::Gzip);
    volumes::invert(&path, &planes[2]);
    let swept = [
        "v.h5",
        "--plane",
        "xy",
        "--pattern",
        "sweep",
        "--state",
        "chunks",
        "--threads",
        "1",
    ];
    let six = [&ENOUGH[..], &["--tiles", "6"]].concat();
    let outcome = bench(&place, &[&swept[..], &six, &["--json"]].concat());
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    let report = report_of(&outcome);
    let row = &rows(&report)[0];
    assert!(
        row["failed"].as_u64().unwrap() > 0 && row["tiles"].as_u64().unwrap() > 0,
        "{row}"
    );
    assert!(
        report["failures"][0].as_str().unwrap().contains("/raw in "),
        "{}",
        report["failures"]
    );
    assert!(
        outcome.err.contains("could not be rendered"),
        "{}",
        outcome.err
    );
    let outcome = bench(&place, &[&swept[..], &six].concat());
    assert!(
        outcome.out.contains("failed     /raw in "),
        "{}",
        outcome.out
    );
}

#[test]
fn a_volume_without_a_readable_tile_is_given_up_early_and_has_no_verdict() {
    let place = Place::new();
    let path = place.path("v.h5");
    let planes = volumes::planes(&path, 5, 1, Stored::Gzip);
    planes
        .iter()
        .for_each(|plane| volumes::invert(&path, plane));
    // Two rows, in random order and in sequence; there is time for many thousands of tiles.
    let all = [
        "v.h5",
        "--plane",
        "xy",
        "--pattern",
        "random,sweep",
        "--state",
        "chunks",
        "--threads",
        "1",
    ];
    let outcome = bench(
        &place,
        &[&all[..], &["--seconds", "20", "--tiles", "512", "--json"]].concat(),
    );
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    let report = report_of(&outcome);
    for row in rows(&report) {
        assert_eq!(
            (&row["tiles"], &row["tiles_per_second"]),
            (&json!(0), &json!(0.0)),
            "{row}"
        );
        assert!(
            (5..=512).contains(&row["failed"].as_u64().unwrap()),
            "{row}"
        );
        assert!(
            row["stages"]
                .as_object()
                .unwrap()
                .values()
                .all(|stage| number(stage) == 0.0),
            "{row}"
        );
    }
    let outcome = bench(
        &place,
        &[&all[..], &["--seconds", "20", "--tiles", "512"]].concat(),
    );
    assert!(
        !outcome.out.contains("verdict") && outcome.out.contains("failed     /raw in "),
        "{}",
        outcome.out
    );
}

/// A server without prefetching of `em`: two by two tiles, two levels.
fn served(place: &Place) -> Server {
    made::file(&place.path("em.h5"), |file| {
        let voxel = |at: &IxDyn| 1 + ((at[0] * 31 + at[1] * 7 + at[2] * 3) % 250) as u8;
        made::put(
            file,
            "raw",
            &ArrayD::from_shape_fn(IxDyn(&[4, 600, 700]), |at| voxel(&at)),
        );
    });
    place.serve(["em.h5", "--set", "render.neighbours=0"])
}

fn sum(rows: &[Value], of: impl Fn(&Value) -> &Value) -> u64 {
    rows.iter().map(|row| of(row).as_u64().unwrap()).sum()
}

#[test]
fn requests_to_a_server_are_as_many_as_its_metrics_count() {
    let place = Place::new();
    let server = served(&place);
    let url = format!("http://{}/ndtilecache", server.address);
    let report = measured(
        &place,
        &[
            url.as_str(),
            "--clients",
            "1,3",
            "--seconds",
            "0.05",
            "--tiles",
            "40",
        ],
    );
    // Two levels: two patterns in three planes and the walk, with two numbers of clients, twice
    // each.
    assert_eq!(rows(&report).len(), 2 * 7 * 2 * 2);
    for row in rows(&report) {
        let counted = ["hits", "tier", "waits", "renders", "black"]
            .map(|key| row["server"][key].as_u64().unwrap());
        assert_eq!(
            counted.iter().sum::<u64>(),
            row["requests"].as_u64().unwrap(),
            "{row}"
        );
        assert_eq!(row["statuses"], json!({"200": row["requests"]}), "{row}");
        assert_eq!(
            (&row["unanswered"], &row["problems"]),
            (&json!(0), &json!([]))
        );
        assert!(row["client_micros"].as_f64().unwrap() > 0.0, "{row}");
        let latency = ["p50", "p90", "p99", "max"].map(|key| number(&row["latency"][key]));
        assert!(
            latency.is_sorted() && latency[0] > 0.0 && number(&row["mb_per_second"]) > 0.0,
            "{row}"
        );
    }
    let again: Vec<Value> = rows(&report)
        .iter()
        .filter(|row| row["turn"] == "again")
        .cloned()
        .collect();
    assert_eq!(
        sum(&again, |row| &row["server"]["renders"]),
        0,
        "tiles rendered before are cached"
    );
    let metrics = server.metrics();
    let answered = [
        "tile_cache_hits",
        "tile_cache_waits",
        "renders",
        "black_tiles",
    ];
    let answered: u64 = answered
        .iter()
        .map(|name| metrics[&format!("voltile_{name}_total")])
        .sum();
    assert_eq!(answered, sum(rows(&report), |row| &row["requests"]));
    assert!(!report["verdicts"].as_array().unwrap().is_empty());
}

#[test]
fn hits_in_the_disk_cache_are_counted_apart_from_hits_in_memory() {
    let place = Place::new();
    drop(served(&place));
    let mut counted = Vec::new();
    for _ in 0..2 {
        let mut server = place.serve([
            "em.h5",
            "--set",
            "render.neighbours=0",
            "--set",
            "cache.directory=tiles",
        ]);
        let host = server.address.to_string();
        let report = measured(&place, &["em", "raw", "0", "--server", &host, "--min", "0"]);
        let share = |row: &Value| {
            ["renders", "tier", "hits"].map(|key| row["server"][key].as_u64().unwrap())
        };
        counted.extend(rows(&report).iter().map(share));
        // Rendered tiles are written before it ends.
        server.stop();
    }
    // Four slices of two by two tiles; the second server finds them on disk.
    assert_eq!(counted, [[16, 0, 0], [0, 0, 16], [0, 16, 0], [0, 0, 16]]);
}

#[test]
fn a_server_is_reported_in_a_table_too() {
    let place = Place::new();
    let server = served(&place);
    let url = format!("http://{}", server.address);
    let few = [
        "--clients",
        "2",
        "--seconds",
        "0.02",
        "--tiles",
        "5",
        "--level",
        "1",
        "--pattern",
        "random",
    ];
    let outcome = bench(&place, &[&[url.as_str()], &few[..]].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    for words in [
        format!("server     {url}"),
        "em raw, level 1, 2 clients".to_owned(),
        "yz        random  again".to_owned(),
    ] {
        assert!(
            outcome.out.contains(&words),
            "{words} is not in:\n{}",
            outcome.out
        );
    }
    assert!(
        outcome
            .out
            .contains("verdict\n  requested the first time, in "),
        "{}",
        outcome.out
    );
    for (arguments, because) in [
        (
            ["--token", "x"],
            "there is no dataset x; the datasets are em",
        ),
        (["--level", "9"], "there are the levels 0 to 1"),
    ] {
        let outcome = bench(&place, &[&[url.as_str()], &arguments[..]].concat());
        assert_eq!(outcome.code, 2);
        assert!(outcome.err.contains(because), "{}", outcome.err);
    }
    let elsewhere = bench(&place, &[format!("{url}/other").as_str()]);
    assert_eq!(elsewhere.code, 2);
    assert!(
        elsewhere
            .err
            .contains("no tile service \"other\"; it has ndtilecache"),
        "{}",
        elsewhere.err
    );
}

#[test]
fn the_arguments_of_ndtilecaches_benchmark_are_understood() {
    let place = Place::new();
    let server = served(&place);
    let host = format!("{}/ndtilecache", server.address);
    for flag in ["--server", "--server_name"] {
        let words = [
            "em", "raw", "0", flag, &host, "--min", "1", "--max", "3", "--x", "0", "1", "--y", "1",
            "1", "--num", "2",
        ];
        let report = measured(&place, &words);
        let measured: Vec<_> = rows(&report)
            .iter()
            .map(|row| {
                [
                    &row["plane"],
                    &row["pattern"],
                    &row["clients"],
                    &row["requests"],
                ]
            })
            .collect();
        let one = [&json!("xy"), &json!("sweep"), &json!(2), &json!(4)];
        assert_eq!(measured, [one, one]);
    }
    // Its defaults: slices from 1 on, two by two tiles, four processes.
    let report = measured(&place, &["em", "raw", "0", "--server", &host]);
    let row = &rows(&report)[0];
    assert_eq!(
        (&row["clients"], &row["requests"]),
        (&json!(4), &json!(3 * 4))
    );
    // Level 1 is one tile; the others of the range are outside.
    let report = measured(
        &place,
        &[
            "em", "raw", "1", "--server", &host, "--x", "0", "9", "--max", "2",
        ],
    );
    assert_eq!(rows(&report)[0]["requests"], 1);
}

/// A minimal server with given answers, and the paths that were requested.
struct Fake {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A status and a body; `None` closes the connection.
type Answer = Option<(u16, &'static str)>;

impl Fake {
    fn start(answer: fn(&str, usize) -> Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, asked) = (
            listener.local_addr().unwrap(),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let paths = Arc::clone(&asked);
        thread::spawn(move || {
            for client in listener.incoming() {
                let paths = Arc::clone(&paths);
                thread::spawn(move || serve(&client.unwrap(), &paths, answer));
            }
        });
        Self { address, asked }
    }

    /// The tiles that were requested.
    fn tiles(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|path| path.ends_with(".png"))
            .cloned()
            .collect()
    }
}

/// Answers the requests of one connection.
fn serve(
    stream: &TcpStream,
    asked: &Mutex<Vec<String>>,
    answer: fn(&str, usize) -> Answer,
) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let first = lines.next()?.ok()?;
        while !lines.next()?.ok()?.is_empty() {}
        let path = first.split(' ').nth(1)?.to_owned();
        let number = {
            let mut asked = asked.lock().unwrap();
            asked.push(path.clone());
            asked.iter().filter(|path| path.ends_with(".png")).count()
        };
        let (status, body) = answer(&path, number)?;
        let head = format!(
            "HTTP/1.1 {status} So\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut writer = stream;
        writer.write_all(format!("{head}{body}").as_bytes()).ok()?;
    }
}

/// Tiles without descriptions, as of ndtilecache.
fn tiles_alone(path: &str, _number: usize) -> Answer {
    Some(if path.ends_with(".png") {
        (200, "a tile")
    } else {
        (404, "nothing here")
    })
}

#[test]
fn a_server_without_descriptions_is_asked_for_the_tiles_named() {
    let place = Place::new();
    let fake = Fake::start(tiles_alone);
    let host = format!("{}/ocp", fake.address);
    let words = [
        "kasthuri11",
        "image",
        "5",
        "--server",
        &host,
        "--min",
        "7",
        "--max",
        "9",
        "--x",
        "2",
        "3",
        "--num",
        "1",
    ];
    let report = measured(&place, &words);
    let path = |(slice, row, column)| {
        format!("/ocp/tilecache/kasthuri11/image/xy/{slice}/{row}_{column}_5.png")
    };
    let of_slice = |slice| [(slice, 0, 2), (slice, 0, 3), (slice, 1, 2), (slice, 1, 3)];
    let expected: Vec<String> = [7, 8].into_iter().flat_map(of_slice).map(path).collect();
    assert_eq!(fake.tiles(), [expected.clone(), expected].concat());
    assert_eq!(
        (&rows(&report)[0]["requests"], &rows(&report)[0]["server"]),
        (&json!(8), &Value::Null)
    );
    assert!(
        report["remarks"][0]
            .as_str()
            .unwrap()
            .contains("requesting the tiles named"),
        "{}",
        report["remarks"]
    );
    // Without a mount, paths begin with /tilecache.
    let bare = fake.address.to_string();
    measured(
        &place,
        &[
            "k", "i", "0", "--server", &bare, "--max", "2", "--x", "0", "0", "--y", "0", "0",
        ],
    );
    assert_eq!(fake.tiles().pop().unwrap(), "/tilecache/k/i/xy/1/0_0_0.png");
    // Without names, descriptions are needed.
    let outcome = bench(&place, &[format!("http://{}", fake.address).as_str()]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("/datasets.json: the status is 404"),
        "{}",
        outcome.err
    );
}

#[test]
fn failed_requests_are_counted_by_status() {
    let place = Place::new();
    let fake = Fake::start(|path, number| match number % 4 {
        _ if !path.ends_with(".png") => Some((404, "")),
        0 => Some((503, r#"{"detail": "256 renders are waiting already"}"#)),
        1 => Some((500, "")),
        _ => Some((200, "a tile")),
    });
    let host = fake.address.to_string();
    let arguments = [
        "k", "i", "0", "--server", &host, "--max", "11", "--x", "0", "0", "--y", "0", "1",
    ];
    let outcome = bench(&place, &[&arguments[..], &["--json"]].concat());
    assert_eq!(outcome.code, 1);
    let report = report_of(&outcome);
    let statuses = &rows(&report)[0]["statuses"];
    assert_eq!(*statuses, json!({"200": 10, "500": 5, "503": 5}));
    let verdicts = report["verdicts"].to_string();
    assert!(
        verdicts.contains("10 of 40 requests were answered 503")
            && verdicts.contains("render.queue"),
        "{verdicts}"
    );
    assert!(
        report["failures"]
            .to_string()
            .contains("256 renders are waiting already"),
        "{}",
        report["failures"]
    );
    assert!(
        outcome.err.contains("20 of 40 requests returned no tile"),
        "{}",
        outcome.err
    );
}

#[test]
fn a_server_that_goes_away_ends_the_measurement_with_a_report_so_far() {
    let place = Place::new();
    let fake = Fake::start(|path, number| {
        if number > 7 {
            None
        } else {
            tiles_alone(path, number)
        }
    });
    let host = fake.address.to_string();
    let arguments = ["k", "i", "0", "--server", &host, "--num", "2"];
    let outcome = bench(&place, &[&arguments[..], &["--json"]].concat());
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("no longer responds"),
        "{}",
        outcome.err
    );
    let report = report_of(&outcome);
    assert_eq!(rows(&report).len(), 1);
    assert_eq!(rows(&report)[0]["statuses"], json!({"200": 7}));
    assert!(rows(&report)[0]["unanswered"].as_u64().unwrap() >= 3);
}

#[test]
fn an_address_without_a_server_is_an_error() {
    let place = Place::new();
    let url = format!("http://{NOBODY}");
    for arguments in [&[url.as_str()][..], &["k", "i", "0", "--server", NOBODY]] {
        let outcome = bench(&place, arguments);
        assert_eq!(
            (outcome.code, outcome.out.as_str()),
            (1, ""),
            "{}",
            outcome.err
        );
        assert!(outcome.err.contains("no answer"), "{}", outcome.err);
    }
}
