//! `voltile warm`: every tile is rendered once, from chunks that are decoded once, and is cached
//! afterwards; a run that was killed is repeated, and does the rest; failed tiles are listed and do
//! not affect the others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::made::{file, put};
use crate::common::picture::Picture;
use crate::common::volumes::{self, SLOW_LEVEL, Stored, invert};
use crate::common::{MOUNT, Place, Server, outcome, signal, until_in_time, wait_until};
use ndarray::{Array3, ArrayD, IxDyn};
use rustix::process::Signal;
use serde_json::Value;

const DECODED: &str = "voltile_chunk_decoded_bytes_total";
const FROM_DISK: &str = "voltile_tier_hits_total";

/// A voxel of the volumes.
fn voxel(z: usize, y: usize, x: usize) -> u8 {
    let noise = ((z * 131 + y * 37 + x * 11).wrapping_mul(0x9E37_79B9) >> 13) as u8;
    (z * 3 + y / 2 + x / 3) as u8 ^ (noise & 7)
}

/// Writes `/raw` in deflated chunks; returns the number of bytes that all of them inflate to.
pub fn volume(path: &Path, [z, y, x]: [usize; 3], chunk: [usize; 3]) -> u64 {
    file(path, |file| {
        let data = Array3::from_shape_fn((z, y, x), |(z, y, x)| voxel(z, y, x));
        file.new_dataset_builder()
            .with_data(&data)
            .chunk(chunk)
            .deflate(1)
            .create("raw")
            .unwrap();
    });
    let along = |extent: usize, chunk: usize| extent.next_multiple_of(chunk) as u64;
    along(z, chunk[0]) * along(y, chunk[1]) * along(x, chunk[2])
}

/// The usual volume: 20 slices of two tiles, and one tile at level 1. Chunks are not aligned with
/// tiles.
pub const SHAPE: [usize; 3] = [20, 60, 600];
pub const CHUNK: [usize; 3] = [8, 32, 50];
/// Without a sample, which decodes chunks too.
const AS_STORED: [&str; 2] = ["--set", "datasets.brain.channels.raw.window=full"];
/// The tiles in xy, and in all planes.
const TILES: u64 = 20 * 3;
const ALL_TILES: u64 = TILES + (60 * 2 + 30) + (600 + 300);
/// Two planes with enough tiles for runs that are stopped, and the number of their tiles.
const TWO_PLANES: [&str; 2] = ["xy", "xz"];
const OF_TWO_PLANES: u64 = TILES + (60 * 2 + 30);

/// Runs `voltile warm`, which must succeed; returns its report.
pub fn warm(place: &Place, arguments: &[&str]) -> Value {
    let warmed = outcome(place.voltile(["warm", "--json"]).args(arguments));
    assert_eq!(warmed.code, 0, "{arguments:?}: {}", warmed.err);
    serde_json::from_str(&warmed.out).unwrap()
}

pub fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

/// The addresses of all tiles of all channels in some planes, from the descriptions.
pub fn paths(server: &Server, planes: &[&str]) -> Vec<String> {
    let described: Value = serde_json::from_str(&server.get("/datasets.json").text()).unwrap();
    let mut paths = Vec::new();
    for dataset in described["datasets"].as_array().unwrap() {
        for channel in dataset["channels"].as_array().unwrap() {
            for level in channel["levels"].as_array().unwrap() {
                for plane in planes {
                    let (place, axis) = [(0, 2), (1, 1), (2, 0)]
                        [["xy", "xz", "yz"].iter().position(|p| p == plane).unwrap()];
                    let drawn: Vec<u64> = level["drawn"][place]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|n| n.as_u64().unwrap())
                        .collect();
                    let factor = level["factor"][axis].as_i64().unwrap();
                    let shift = dataset["offset"][axis].as_i64().unwrap().div_euclid(factor);
                    for slice in 0..level["size"][axis].as_i64().unwrap() {
                        for row in 0..drawn[1].div_ceil(512) {
                            for column in 0..drawn[0].div_ceil(512) {
                                paths.push(format!(
                                    "{}/{}/{plane}/{}/{row}_{column}_{}.png",
                                    dataset["token"].as_str().unwrap(),
                                    channel["name"].as_str().unwrap(),
                                    slice + shift,
                                    level["level"]
                                ));
                            }
                        }
                    }
                }
            }
        }
    }
    paths
}

pub fn pictures(server: &Server, paths: &[String]) -> Vec<Picture> {
    let mut connection = server.connect();
    paths
        .iter()
        .map(|path| connection.get(&format!("{MOUNT}/{path}")).picture())
        .collect()
}

/// The number of tiles in a cache directory.
pub fn kept(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let of = |path: &Path| {
        if path.is_dir() {
            kept(path)
        } else {
            u64::from(path.extension().is_some_and(|e| e == "png"))
        }
    };
    entries.flatten().map(|entry| of(&entry.path())).sum()
}

#[test]
fn a_warmed_server_answers_from_its_cache_and_has_decoded_every_chunk_once() {
    let place = Place::new();
    let once = volume(&place.path("brain.h5"), SHAPE, CHUNK);
    for (planes, tiles) in [(&["xy"][..], TILES), (&["xy", "xz", "yz"], ALL_TILES)] {
        // Warming prefetches no neighbours.
        let server = place.serve(["brain.h5", AS_STORED[0], AS_STORED[1]]);
        let report = warm(&place, &[&url(&server), "--plane", &planes.join(",")]);
        assert_eq!(
            (report["tiles"].as_u64(), report["rendered"].as_u64()),
            (Some(tiles), Some(tiles))
        );
        assert_eq!((server.renders(), server.count(DECODED)), (tiles, once));
        assert_eq!(server.count("voltile_neighbours_rendered_total"), 0);
        let paths = paths(&server, planes);
        assert_eq!(paths.len() as u64, tiles);
        let seen = pictures(&server, &paths);
        assert_eq!((server.renders(), server.count(DECODED)), (tiles, once));
        let first = paths
            .iter()
            .position(|path| path == "brain/raw/xy/7/0_1_0.png")
            .unwrap();
        assert_eq!(
            seen[first],
            Picture::of_plane(60, 88, |y, x| voxel(7, y, 512 + x))
        );
    }
}

/// Writes a volume with a stored level 1 and its configuration; returns the number of bytes that
/// one pass inflates.
fn pyramid(place: &Place) -> u64 {
    let [z, y, x] = SHAPE;
    let once = volume(&place.path("fine.h5"), SHAPE, CHUNK);
    file(&place.path("coarse.h5"), |file| {
        let data = Array3::from_shape_fn((z, y / 2, x / 2), |(z, y, x)| voxel(z, y, x));
        file.new_dataset_builder()
            .with_data(&data)
            .chunk([4, 30, 150])
            .deflate(1)
            .create("raw")
            .unwrap();
    });
    file(&place.path("both.h5"), |file| {
        file.link_external("fine.h5", "/raw", "raw").unwrap();
        file.link_external("coarse.h5", "/raw", "raw_2").unwrap();
    });
    place.write(
        "voltile.toml",
        "[datasets.both]\nfile = \"both.h5\"\noffset = [0, 0, 5]\n[datasets.both.channels.raw]\n\
         levels = [\"/raw\", \"/raw_2\"]\naxes = \"zyx\"\nwindow = \"full\"\n",
    );
    once + (z * (y / 2) * (x / 2)) as u64
}

#[test]
#[ignore = "slow: warms all planes of a pyramid"]
fn stored_levels_are_read_once_and_slice_numbers_include_the_offset() {
    let place = Place::new();
    let once = pyramid(&place);
    let report = warm(&place, &["--into", "cache", "--plane", "all"]);
    assert_eq!(
        (
            report["rendered"].as_u64(),
            report["bytes_inflated"].as_u64()
        ),
        (Some(ALL_TILES), Some(once))
    );
    let server = place.serve(["--set", "cache.directory=cache"]);
    let paths = paths(&server, &["xy", "xz", "yz"]);
    assert!(
        paths.contains(&"both/raw/xy/24/0_0_1.png".to_owned())
            && !paths.iter().any(|path| path.contains("/xy/4/"))
    );
    pictures(&server, &paths);
    assert_eq!((server.renders(), server.count(FROM_DISK)), (0, ALL_TILES));
}

#[test]
fn a_server_with_a_warmed_directory_renders_nothing_and_serves_the_same_pixels() {
    let place = Place::new();
    let once = volume(&place.path("brain.h5"), SHAPE, CHUNK);
    let report = warm(
        &place,
        &["brain.h5", "--into", "cache", AS_STORED[0], AS_STORED[1]],
    );
    assert_eq!(
        (
            report["rendered"].as_u64(),
            report["bytes_inflated"].as_u64()
        ),
        (Some(TILES), Some(once))
    );
    assert_eq!(kept(&place.path("cache")), TILES);
    // Existing tiles are not rendered again, even if more are selected.
    let again = warm(
        &place,
        &[
            "brain.h5",
            "--into",
            "cache",
            "--plane",
            "xy,xz",
            AS_STORED[0],
            AS_STORED[1],
        ],
    );
    assert_eq!(
        (again["stored"].as_u64(), again["rendered"].as_u64()),
        (Some(TILES), Some(150))
    );
    let [set, as_stored] = AS_STORED;
    let cold = place.serve(["brain.h5"]);
    let warmed = place.serve(["brain.h5", "--set", "cache.directory=cache", set, as_stored]);
    let paths = paths(&cold, &["xy", "xz"]);
    assert!(pictures(&cold, &paths) == pictures(&warmed, &paths));
    assert_eq!(
        (
            warmed.renders(),
            warmed.count(DECODED),
            warmed.count(FROM_DISK)
        ),
        (0, 0, TILES + 150)
    );
}

#[test]
fn tiles_of_a_warmed_server_with_a_disk_cache_outlive_it() {
    let place = Place::new();
    volume(&place.path("brain.h5"), SHAPE, CHUNK);
    let settings = [
        "brain.h5",
        "--set",
        "cache.directory=cache",
        "--set",
        "render.neighbours=0",
    ];
    let mut server = place.serve(settings);
    warm(&place, &[&url(&server), "--plane", "xy,xz"]);
    server.stop();
    let server = place.serve(settings);
    pictures(&server, &paths(&server, &TWO_PLANES));
    assert_eq!(
        (server.renders(), server.count(FROM_DISK)),
        (0, OF_TWO_PLANES)
    );
}

#[test]
fn tiles_that_a_server_has_in_memory_only_are_in_its_directory_once_it_is_warmed() {
    let place = Place::new();
    volume(&place.path("brain.h5"), SHAPE, CHUNK);
    let settings = ["brain.h5", "--set", "cache.directory=cache"];
    let quiet = ["--set", "render.neighbours=0"];
    let arguments = [&settings[..], &quiet, &AS_STORED].concat();
    let mut server = place.serve(&arguments);
    let paths = paths(&server, &["xy"]);
    pictures(&server, &paths);
    wait_until("all are written", || {
        server.count("voltile_tier_writes_total") == TILES
    });
    let cleared = place.run(["cache", "clear", "--directory", "cache"]);
    assert_eq!(cleared.code, 0, "{}", cleared.err);
    let renders = server.renders();
    warm(&place, &[&url(&server), "--plane", "xy"]);
    assert_eq!(server.renders() - renders, TILES);
    warm(&place, &[&url(&server), "--plane", "xy"]);
    assert_eq!(server.renders() - renders, TILES, "nothing is left to do");
    server.stop();
    let again = place.serve(&arguments);
    pictures(&again, &paths);
    assert_eq!(again.renders(), 0);
}

/// A pseudo-random number.
fn chance(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}

/// Starts `voltile warm`, and kills it once `more` tiles are done.
pub fn kill_after(mut command: Command, more: u64, done: impl Fn() -> u64) {
    let before = done();
    let mut child: Child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("some more tiles are done", || {
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "it ended before it was killed"
        );
        done() >= before + more
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A rate at which all tiles together take far longer than this thread needs to see some of them
/// done.
pub const SLOWLY: [&str; 2] = ["--rate", "40"];

#[test]
#[ignore = "slow: kills many runs"]
fn a_run_into_a_directory_can_be_killed_often_and_makes_every_tile_once() {
    let place = Place::new();
    volume(&place.path("brain.h5"), SHAPE, CHUNK);
    let arguments = ["warm", "brain.h5", "--into", "cache", "--plane", "xy,xz"];
    let directory = place.path("cache");
    for time in 0..4 {
        let mut command = place.voltile(arguments);
        command.args(SLOWLY);
        kill_after(command, 5 + chance(time + 1) % 20, || kept(&directory));
    }
    let there = kept(&directory);
    let report = warm(&place, &arguments[1..]);
    let number = |name: &str| report[name].as_u64().unwrap();
    assert_eq!((number("stored"), number("tiles")), (there, OF_TWO_PLANES));
    assert_eq!(
        (number("rendered"), kept(&directory)),
        (OF_TWO_PLANES - there, OF_TWO_PLANES)
    );
    let (cold, warmed) = (
        place.serve(["brain.h5"]),
        place.serve(["brain.h5", "--set", "cache.directory=cache"]),
    );
    let paths = paths(&cold, &TWO_PLANES);
    assert!(pictures(&cold, &paths) == pictures(&warmed, &paths));
    assert_eq!(warmed.renders(), 0);
}

#[test]
#[ignore = "slow: kills many runs"]
fn a_run_against_a_server_can_be_killed_often_and_renders_every_tile_once() {
    let place = Place::new();
    let once = volume(&place.path("brain.h5"), SHAPE, CHUNK);
    let server = place.serve(["brain.h5", AS_STORED[0], AS_STORED[1]]);
    let address = url(&server);
    let command = |more: &[&str]| {
        let mut command = place.voltile(["warm", &address, "--plane", "xy,xz", "--json"]);
        command.args(more);
        command
    };
    for time in 0..4 {
        kill_after(command(&SLOWLY), 5 + chance(time + 1) % 20, || {
            server.renders()
        });
    }
    assert!(server.renders() > 0);
    let warmed = outcome(&mut command(&[]));
    let report: Value = serde_json::from_str(&warmed.out).unwrap();
    assert_eq!(
        (warmed.code, report["rendered"].as_u64()),
        (0, Some(OF_TWO_PLANES))
    );
    assert_eq!(server.renders(), OF_TWO_PLANES);
    assert!(server.count(DECODED) * 100 <= once * 105);
    pictures(&server, &paths(&server, &TWO_PLANES));
    assert_eq!(server.renders(), OF_TWO_PLANES);
}

#[test]
fn a_stopped_run_is_finished_by_the_same_command_and_a_changed_file_has_other_tiles() {
    let place = Place::new();
    volume(&place.path("brain.h5"), SHAPE, CHUNK);
    let directory = place.path("cache");
    let arguments = ["brain.h5", "--into", "cache", "--plane", "xy,xz"];
    let mut command = place.voltile(["warm"]);
    command
        .args(arguments)
        .args(SLOWLY)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("some tiles are done", || kept(&directory) > 10);
    signal(&child, Signal::TERM);
    let ended = child.wait_with_output().unwrap();
    let log = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(log.contains("the same command does the rest"), "{log}");
    let there = kept(&directory);
    let rest = warm(&place, &arguments);
    assert_eq!(
        (rest["stored"].as_u64(), rest["rendered"].as_u64()),
        (Some(there), Some(OF_TWO_PLANES - there))
    );
    volume(&place.path("brain.h5"), [19, 60, 600], CHUNK);
    let changed = warm(&place, &arguments);
    assert_eq!(
        (changed["stored"].as_u64(), changed["rendered"].as_u64()),
        (Some(0), changed["tiles"].as_u64())
    );
}

#[test]
fn tiles_that_were_cleared_after_a_kill_are_made_again() {
    let place = Place::new();
    volume(&place.path("brain.h5"), SHAPE, CHUNK);
    let arguments = ["warm", "brain.h5", "--into", "cache", "--plane", "xy,xz"];
    let mut command = place.voltile(arguments);
    command.args(SLOWLY);
    kill_after(command, 10, || kept(&place.path("cache")));
    let cleared = place.run(["cache", "clear", "--directory", "cache"]);
    assert_eq!(
        (cleared.code, kept(&place.path("cache"))),
        (0, 0),
        "{}",
        cleared.err
    );
    let again = outcome(place.voltile(arguments).args(["--json"]));
    assert_eq!(again.code, 0, "{}", again.err);
    assert_eq!(kept(&place.path("cache")), OF_TWO_PLANES);
}

/// The number of tiles of a selection, from a dry run.
fn counted(place: &Place, arguments: &[&str]) -> u64 {
    let report = warm(place, &[&["--dry-run"], arguments].concat());
    report["tiles"].as_u64().unwrap()
}

#[test]
fn selections_have_the_expected_numbers_of_tiles() {
    let place = Place::new();
    file(&place.path("two.h5"), |file| {
        for name in ["em", "er"] {
            let data = ArrayD::from_shape_fn(IxDyn(&SHAPE), |at| voxel(at[0], at[1], at[2]));
            put(file, name, &data);
        }
        put(
            file,
            "film",
            &ArrayD::from_shape_fn(IxDyn(&[4, 3, 50, 60]), |at| at[3] as u8),
        );
    });
    place.write(
        "voltile.toml",
        "[datasets.two]\nfile = \"two.h5\"\noffset = [0, 0, 10]\nvoxel_size = [10, 10, 40]\n\
         [datasets.two.channels.em]\npath = \"/em\"\n[datasets.two.channels.er]\npath = \"/er\"\n\
         [datasets.film]\nfile = \"two.h5\"\n[datasets.film.channels.film]\npath = \"/film\"\naxes = \"tzyx\"\n",
    );
    for (arguments, tiles) in [
        (&[][..], 2 * TILES + 3),
        (&["--token", "two"], 2 * TILES),
        (&["--token", "two", "--channel", "em"], TILES),
        (
            &["--token", "two", "--channel", "em,er", "--level", "1"],
            40,
        ),
        (
            &["--token", "two", "--channel", "em:R,er", "--channel", "em"],
            2 * TILES,
        ),
        (
            &["--channel", "em", "--slice", "0-11,29,100", "--level", "0"],
            6,
        ),
        (&["--channel", "em", "--slice", "10-29:5"], 4 * 3),
        (&["--channel", "em", "--plane", "xz", "--slice", "7"], 2 + 1),
        (&["--token", "film", "--time", "1-"], 3 * 3),
        (
            &[
                "--token", "film", "--time", "all", "--plane", "all", "--level", "0",
            ],
            4 * (3 + 50 + 60),
        ),
    ] {
        assert_eq!(counted(&place, arguments), tiles, "{arguments:?}");
    }
    for (wrong, reason) in [
        (&["--token", "three"][..], "the datasets are film, two"),
        (&["--channel", "et"], "the channels are"),
        (&["--channel", "em", "--level", "2-"], "levels 0 to 1"),
        (&["--channel", "em", "--slice", "0-9"], "10 to 29"),
        (&["--channel", "em:W"], "one of C, M, Y, R, G, B"),
        (
            &["--token", "film", "--time", "4"],
            "time points are 0 to 3",
        ),
        (&["http://a", "http://b"], "another server or file"),
        (&["http://a", "two.h5"], "with --token"),
        (
            &["http://a", "--set", "cache.disk=0"],
            "cannot be used with a server",
        ),
    ] {
        let refused = outcome(place.voltile(["warm", "--dry-run"]).args(wrong));
        assert!(
            refused.code == 2 && refused.err.contains(reason),
            "{wrong:?}: {}",
            refused.err
        );
    }
    assert!(
        outcome(&mut place.voltile(["warm"]))
            .err
            .contains("no target")
    );
}

#[test]
fn warmed_composites_are_those_that_viewers_request() {
    let place = Place::new();
    file(&place.path("two.h5"), |file| {
        for name in ["em", "er"] {
            put(
                file,
                name,
                &ArrayD::from_shape_fn(IxDyn(&[3, 40, 50]), |at| voxel(at[0], at[1], at[2])),
            );
        }
    });
    let server = place.serve(["two.h5"]);
    warm(&place, &[&url(&server), "--channel", "em:R,er"]);
    let drawn = server.renders();
    for path in [
        "mcfc/two/em:R,er:M/xy/2/0_0_0.png",
        "mcfc/two/em:R,er/xy/0/0_0_0.png",
    ] {
        assert_eq!(server.tile(path).picture().mode, "RGB");
    }
    assert_eq!((drawn, server.renders()), (3, 3));
}

#[test]
fn a_dry_run_counts_tiles_and_renders_none() {
    let place = Place::new();
    volume(&place.path("brain.h5"), SHAPE, CHUNK);
    assert_eq!(counted(&place, &["brain.h5", "--into", "cache"]), TILES);
    assert!(!place.path("cache").exists());
    let server = place.serve(["brain.h5"]);
    let all = [&url(&server), "--plane", "all"];
    assert_eq!(counted(&place, &all), ALL_TILES);
    assert_eq!(server.renders(), 0);
}

#[test]
fn requests_that_a_busy_server_refuses_are_repeated() {
    let place = Place::new();
    volumes::slow(&place.path("slow.h5"), 2);
    place.write(
        "voltile.toml",
        "[render]\nthreads = 1\nqueue = 0\nmax_voxels_per_tile = 10_000_000_000\n\
         [datasets.slow]\nfile = \"slow.h5\"\n[datasets.slow.channels.raw]\nwindow = [0, 200]\n",
    );
    until_in_time(|_| {
        let server = place.serve::<&str>([]);
        let level = SLOW_LEVEL.to_string();
        let report = warm(
            &place,
            &[
                &url(&server),
                "--level",
                &level,
                "--clients",
                "2",
                "--retries",
                "1000",
            ],
        );
        assert_eq!(
            (report["rendered"].as_u64(), server.renders()),
            (Some(2), 2)
        );
        (server.count("voltile_renders_rejected_total") > 0).then_some(())
    });
}

#[test]
fn failed_tiles_are_listed_and_tried_again_by_the_same_command() {
    let place = Place::new();
    let chunks = volumes::planes(&place.path("planes.h5"), 6, 1, Stored::Gzip);
    invert(&place.path("planes.h5"), &chunks[3]);
    let server = place.serve(["planes.h5"]);
    server.expect_error("a tile could not be rendered: /raw in ");
    for arguments in [&[&url(&server)[..]][..], &["planes.h5", "--into", "cache"]] {
        let warmed = outcome(place.voltile(["warm"]).args(arguments));
        assert_eq!(warmed.code, 1, "{}", warmed.err);
        let listed: BTreeSet<&str> = warmed
            .err
            .lines()
            .filter(|line| line.contains("planes/raw/xy/3/0_0_0.png: "))
            .collect();
        assert_eq!(listed.len(), 1, "{}", warmed.err);
        assert!(
            warmed.err.contains("1 of 6 tiles failed") && warmed.out.contains("5 of 6 tiles"),
            "{}",
            warmed.out
        );
    }
    drop(server);
    assert_eq!(kept(&place.path("cache")), 5);
    // The mended file has another modification time, and its tiles have other keys.
    invert(&place.path("planes.h5"), &chunks[3]);
    let mended = warm(&place, &["planes.h5", "--into", "cache"]);
    assert_eq!(
        (mended["rendered"].as_u64(), mended["failed"].as_u64()),
        (Some(6), Some(0))
    );
}

#[test]
fn a_rate_is_not_exceeded() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 21, 1, Stored::Flat);
    let report = warm(&place, &["planes.h5", "--into", "cache", "--rate", "40"]);
    assert_eq!(report["rendered"].as_u64(), Some(21));
    assert!(
        report["seconds"].as_f64().unwrap() >= 20.0 / 40.0,
        "{report}"
    );
}

#[test]
fn a_run_ends_if_the_server_goes_away_and_is_finished_once_it_is_back() {
    let place = Place::new();
    volume(&place.path("brain.h5"), SHAPE, CHUNK);
    // No other story has an address on this host, so that the port stays free until the server is
    // back.
    let serve = |bind: &str| {
        place.start(place.voltile([
            "serve",
            "brain.h5",
            "--set",
            "cache.directory=cache",
            "--bind",
            bind,
        ]))
    };
    let mut server = serve("127.0.42.1:0");
    let address = server.address.to_string();
    let url = format!("http://{address}");
    let warming = |more: &[&'static str]| {
        let mut command = place.voltile(["warm", &url, "--plane", "xy,xz", "--retries", "1"]);
        command
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    let child = warming(&SLOWLY).spawn().unwrap();
    wait_until("some tiles are done", || server.renders() > 15);
    server.stop();
    let ended = child.wait_with_output().unwrap();
    let log = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        log.contains("the server is gone") && log.contains("does the rest"),
        "{log}"
    );
    let unanswered = outcome(&mut warming(&[]));
    assert_eq!(unanswered.code, 1);
    assert!(
        unanswered.err.contains("/datasets.json: no answer"),
        "{}",
        unanswered.err
    );
    let again = serve(&address);
    let report = outcome(&mut warming(&["--json"]));
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert!(
        report["rendered"].as_u64() == Some(OF_TWO_PLANES) && again.count(FROM_DISK) > 10,
        "{report}"
    );
    assert_eq!(kept(&place.path("cache")), OF_TWO_PLANES);
}
