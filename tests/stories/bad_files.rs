//! Damaged and malicious files: no content crashes the program, and it reports what is wrong.
//!
//! Each bad file is inspected, checked and served by processes with limits on processor time and
//! memory. The outcomes are printed as a table: `cargo test --test stories bad_files --
//! --nocapture`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use crate::common::volumes::{self, Stored};
use crate::common::{MOUNT, Outcome, Place, Server, fixture, made, outcome, shared_data};

/// The limits that no bad file may exceed: processor time in seconds, and memory in bytes.
const SECONDS: u64 = 60;
const MEMORY: u64 = 1 << 30;
/// The most channels of a file whose tiles are requested.
const MAX_CHANNELS: usize = 3;

/// Without core dumps, and ended by a signal if it exceeds the limit of time.
fn limits() -> String {
    format!("ulimit -c 0 && ulimit -t {SECONDS}")
}

/// Runs a command with limits on time and memory.
fn limited(place: &Place, arguments: &[&str]) -> Outcome {
    outcome(&mut place.limited(
        &format!("{} && ulimit -d {}", limits(), MEMORY >> 10),
        arguments,
    ))
}

/// Every file below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path.canonicalize().unwrap());
        }
    }
    found.sort();
    found
}

/// The files of a collection, without its descriptions.
fn bad_files(folder: &Path) -> Vec<PathBuf> {
    let is_text = |path: &PathBuf| {
        path.extension()
            .is_some_and(|e| e == "md" || e == "toml" || e == "json")
            || path.ends_with("COPYING")
    };
    files_below(folder)
        .into_iter()
        .filter(|path| !is_text(path))
        .collect()
}

/// The outcome for a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// It opens; the numbers of requests answered with a tile and with an error.
    Served { tiles: usize, errors: usize },
    /// It does not open; the reason.
    Refused(String),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Served { tiles, errors } => write!(f, "opens: {tiles} tiles, {errors} errors"),
            Fate::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

/// Inspects and checks a file, and serves it together with a good one.
fn fate(file: &Path) -> Fate {
    let place = Place::new();
    let name = file.to_str().expect("its name is UTF-8");
    place.write("bad.toml", &format!("[datasets.bad]\nfile = '''{name}'''"));
    let inspected = limited(&place, &["inspect", name]);
    let checked = limited(&place, &["check", "--config", "bad.toml"]);
    fs::copy(fixture("wide.h5"), place.path("good.h5")).unwrap();
    let serve = [
        "serve",
        "--bind",
        "127.0.0.1:0",
        "--config",
        "bad.toml",
        "good.h5",
    ];
    if inspected.code == 0 {
        // `check` alone fails for data that cannot be decoded, and for missing files.
        let is_known = |err: &str| err.contains("cannot decode") || err.contains("is incomplete");
        assert!(
            checked.code == 0 || is_known(&checked.err),
            "{name}: {}",
            checked.err
        );
        return served(&place.start(place.limited(&limits(), serve)), name);
    }
    let refused = limited(&place, &serve);
    for (Outcome { code, err, .. }, expected) in [(&inspected, 1), (&checked, 1), (&refused, 2)] {
        assert_eq!(*code, expected, "{name}: {err}");
        assert!(
            err.contains("1 thing is wrong")
                && err.contains(file.file_name().unwrap().to_str().unwrap()),
            "{err}"
        );
    }
    let line = checked
        .err
        .lines()
        .find(|line| line.trim().starts_with("datasets.bad"))
        .expect("the fault is listed");
    Fate::Refused(
        line.split(file.to_str().unwrap())
            .last()
            .unwrap()
            .trim_matches([':', ' '])
            .to_owned(),
    )
}

/// Requests tiles of the first channels, and after each channel one of the good file.
fn served(server: &Server, name: &str) -> Fate {
    let described = server.json("/datasets.json");
    let bad = described["datasets"]
        .as_array()
        .unwrap()
        .iter()
        .find(|dataset| dataset["token"] == "bad")
        .unwrap();
    let (mut tiles, mut errors) = (0, 0);
    for channel in bad["channels"]
        .as_array()
        .unwrap()
        .iter()
        .take(MAX_CHANNELS)
    {
        let time = if channel["times"].is_null() { "" } else { "0/" };
        for (axis, plane) in [(2, "xy"), (1, "xz"), (0, "yz")] {
            for level in [0, 1] {
                let middle = channel["levels"][0]["size"][axis].as_u64().unwrap() / (2 << level);
                let name_of = channel["name"].as_str().unwrap();
                let status = server
                    .tile(&format!(
                        "bad/{name_of}/{plane}/{time}{middle}/0_0_{level}.png"
                    ))
                    .status;
                assert!([200, 404, 500].contains(&status), "{name}: {status}");
                (tiles, errors) = (
                    tiles + usize::from(status == 200),
                    errors + usize::from(status != 200),
                );
            }
        }
        assert_eq!(server.tile("good/raw/xy/0/0_0_0.png").status, 200, "{name}");
    }
    let taken = server.peak_memory();
    assert!(taken < MEMORY, "{name} made the server take {taken} bytes");
    // Every error is about this file.
    server.allow_error(name);
    Fate::Served { tiles, errors }
}

/// No file of a collection crashes the program; returns how many are served and how many are
/// refused.
fn survived(files: &[PathBuf]) -> (usize, usize) {
    let (remaining, fates) = (Mutex::new(files.iter()), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let Some(file) = remaining.lock().unwrap().next() else {
                break;
            };
            let fate = fate(file);
            fates.lock().unwrap().insert(file, fate);
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let fates = fates.into_inner().unwrap();
    assert_eq!(fates.len(), files.len());
    for (file, fate) in &fates {
        let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
        println!(
            "{:<60} {fate}",
            Path::new(folder).join(file.file_name().unwrap()).display()
        );
    }
    let served = fates
        .values()
        .filter(|fate| matches!(fate, Fate::Served { .. }))
        .count();
    println!(
        "{} files: {served} are served, {} are refused",
        fates.len(),
        fates.len() - served
    );
    (served, fates.len() - served)
}

#[test]
fn no_checked_in_bad_file_crashes_the_program() {
    let (served, refused) = survived(&bad_files(&fixture("bad")));
    assert!(
        served >= 5 && refused >= 4,
        "{served} are served, {refused} are refused"
    );
}

#[test]
#[ignore = "slow: opens every damaged file of the shared collections"]
fn no_bad_file_of_the_shared_collections_crashes_the_program() {
    let Some(data) = shared_data() else { return };
    for collection in ["bad", "hdf5_testfiles"] {
        let (served, refused) = survived(&bad_files(&data.join(collection)));
        assert!(
            served + refused >= 5,
            "{collection}: {served} are served, {refused} are refused"
        );
    }
}

#[test]
fn a_file_that_crashes_the_library_is_refused_by_name_and_others_are_not() {
    let place = Place::new();
    volumes::crashing(&place.path("crash.h5"));
    for name in ["good.h5", "other.h5"] {
        volumes::planes(&place.path(name), 2, 1, Stored::Gzip);
    }
    let alone = place.run(["inspect", "crash.h5"]);
    assert_eq!((alone.code, alone.out.as_str()), (1, ""));
    for word in ["crash.h5", "signal 11", "write it again"] {
        assert!(alone.err.contains(word), "{word} is not in {}", alone.err);
    }
    let among = place.run(["check", "good.h5", "crash.h5", "other.h5"]);
    assert_eq!(among.code, 1);
    assert!(
        among.err.contains("1 thing is wrong") && among.err.contains("datasets.crash.file"),
        "{}",
        among.err
    );
    let serve = place.run([
        "serve",
        "--bind",
        "127.0.0.1:0",
        "good.h5",
        "crash.h5",
        "other.h5",
    ]);
    assert_eq!(serve.code, 2, "{}", serve.err);
    assert!(serve.err.contains("1 thing is wrong"), "{}", serve.err);
    let tile = format!("{MOUNT}/crash/raw/xy/0/0_0_0.png");
    let tile = place.run(["render", &tile, "-o", "t.png", "crash.h5"]);
    assert_eq!(tile.code, 2, "{}", tile.err);
}

#[test]
fn a_file_that_crashes_the_library_when_a_configured_path_is_opened_is_refused() {
    let place = Place::with(
        "[datasets.named]\nfile = 'crash.h5'\n[datasets.named.channels.raw]\npath = '/a/raw'",
    );
    volumes::crashing(&place.path("crash.h5"));
    let outcome = place.run(["check"]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("datasets.named.file") && outcome.err.contains("signal 11"),
        "{}",
        outcome.err
    );
}

#[test]
fn a_file_that_links_to_a_crashing_one_is_refused() {
    let place = Place::new();
    volumes::crashing(&place.path("crash.h5"));
    let main = hdf5::File::create(place.path("main.h5")).unwrap();
    main.link_external("crash.h5", "/a/raw", "raw").unwrap();
    main.close().unwrap();
    place.write(
        "voltile.toml",
        "[datasets.main]\nfile = 'main.h5'\n[datasets.main.channels.raw]\npath = '/raw'",
    );
    let outcome = place.run(["check"]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("main.h5") && outcome.err.contains("signal 11"),
        "{}",
        outcome.err
    );
}

#[test]
fn a_missing_filter_is_reported_before_any_tile_is_requested() {
    let place = Place::new();
    let file = fixture("bad/missing.h5");
    let name = file.to_str().unwrap();
    let checked = place.run(["check", name]);
    assert_eq!(checked.code, 1);
    let inspected = place.run(["inspect", name]);
    assert_eq!(inspected.code, 0, "{}", inspected.err);
    let server = place.serve([name]);
    server.wait_for_log("datasets.missing.channels.filter");
    let told = [
        ("check", checked.err),
        ("inspect", inspected.out.clone()),
        ("serve", server.log()),
    ];
    for (command, log) in told {
        let line = log
            .lines()
            .find(|line| line.contains("filter: /filter is stored"));
        let line = line.unwrap_or_else(|| panic!("{command} does not report it: {log}"));
        for word in ["B3D", "32016"] {
            assert!(line.contains(word), "{command}: {word} is not in {line}");
        }
    }
    assert_eq!(
        server.tile("missing/good/xy/0/0_0_0.png").status,
        200,
        "other channels are served"
    );
    for notice in [
        "error      filter: /filter is stored with the filter B3D (number 32016)",
        "error      codec: /codec is stored with the filter blosc with codec 33, which",
    ] {
        assert!(inspected.out.contains(notice), "{}", inspected.out);
    }
    server.expect_error("a tile could not be rendered: /filter in");
    let fetched = server.count("voltile_chunk_stored_bytes_total");
    assert_eq!(server.tile("missing/filter/xy/0/0_0_0.png").status, 500);
    let now = server.count("voltile_chunk_stored_bytes_total");
    assert_eq!(now, fetched, "a chunk that cannot be decoded is not read");
    server.expect_error("a tile could not be rendered: /codec in");
    let codec = server.tile("missing/codec/xy/0/0_0_0.png");
    assert_eq!(codec.status, 500);
    assert!(
        codec.text().contains("filter blosc with codec 33") && !codec.text().contains("damaged"),
        "{}",
        codec.text()
    );
    for _ in 0..3 {
        server.json("/datasets/missing.json");
    }
    let log = server.log();
    let unsampled = log.lines().filter(|line| {
        line.contains("no sample could be taken") && line.contains("channel=filter")
    });
    assert_eq!(unsampled.count(), 1, "{log}");
    let attributes = server.json("/zarr/0.4/missing.ome.zarr/.zattrs");
    let offered = attributes["omero"]["channels"].as_array().unwrap();
    let offered: Vec<_> = offered.iter().map(|channel| &channel["label"]).collect();
    assert_eq!(offered, ["external", "good", "skipped"]);
    assert!(
        !inspected.out.contains("/skipped is stored"),
        "all chunks of it skip the filter: {}",
        inspected.out
    );
}

#[test]
fn a_file_whose_metadata_takes_too_much_memory_is_refused_by_name_and_others_are_not() {
    let place = Place::new();
    volumes::greedy(&place.path("greedy.h5"));
    volumes::planes(&place.path("good.h5"), 2, 1, Stored::Gzip);
    let checked = place.run(["check", "good.h5", "greedy.h5"]);
    assert_eq!(checked.code, 1, "{}", checked.err);
    for word in [
        "1 thing is wrong",
        "datasets.greedy.file",
        "MiB of memory",
        "files.trial",
    ] {
        assert!(
            checked.err.contains(word),
            "{word} is not in {}",
            checked.err
        );
    }
    let served = Place::new();
    let folder = served.path("data");
    fs::create_dir(&folder).unwrap();
    for name in ["good.h5", "greedy.h5"] {
        fs::rename(place.path(name), folder.join(name)).unwrap();
    }
    let server = served.serve([folder.to_str().unwrap()]);
    assert_eq!(server.tile("good/raw/xy/0/0_0_0.png").status, 200);
    assert_eq!(server.tile("greedy/raw/xy/0/0_0_0.png").status, 404);
    server.wait_for_log("MiB of memory");
    assert!(
        server.peak_memory() < MEMORY / 2,
        "the server took {} bytes",
        server.peak_memory()
    );
}

/// The library takes such a file for one that is being written in SWMR mode, and by default reads
/// it again and again.
#[test]
fn a_file_with_a_wrong_checksum_in_its_superblock_is_refused_soon() {
    let place = Place::new();
    let mut bytes = fs::read(fixture("layouts_latest.h5")).unwrap();
    assert_eq!(bytes[8], 3, "it has a superblock of version 3");
    bytes[44] ^= 1;
    fs::write(place.path("torn.h5"), bytes).unwrap();
    let told = place.run(["inspect", "torn.h5"]);
    assert_eq!(told.code, 1, "{}", told.out);
    assert!(
        told.err.contains("torn.h5") && !told.err.contains("refused"),
        "{}",
        told.err
    );
}

/// Writes `/raw` with four planes in a format, behind a user block of this many bytes.
fn formatted(path: &Path, is_latest: bool, user_block: u64) {
    let mut options = hdf5::File::with_options();
    options.with_fapl(|access| {
        if is_latest {
            access.libver_latest()
        } else {
            access.libver_earliest()
        }
    });
    options.with_fcpl(|creation| creation.userblock(user_block));
    let file = options.create(path).unwrap();
    file.new_dataset_builder()
        .with_data(&ndarray::Array3::<u8>::ones((4, 40, 40)))
        .create("raw")
        .unwrap();
    file.close().unwrap();
}

/// The line of a text that tells how many bytes are missing.
fn told_missing(text: &str, missing: u64) -> Option<&str> {
    text.lines()
        .find(|line| line.contains(&format!(": {missing} bytes are missing")))
}

#[test]
fn a_truncated_file_fails_the_check_and_serve_and_inspect_warn_of_it() {
    for (is_latest, user_block) in [(false, 0), (true, 0), (false, 512), (true, 8192)] {
        let (place, story) = (
            Place::new(),
            format!("latest: {is_latest}, user block: {user_block}"),
        );
        formatted(&place.path("raw.h5"), is_latest, user_block);
        let whole = place.run(["check", "raw.h5"]);
        assert_eq!(whole.code, 0, "{story}: {}", whole.err);
        let length = fs::metadata(place.path("raw.h5")).unwrap().len();
        volumes::truncate(&place.path("raw.h5"), length - 1000);
        let checked = place.run(["check", "raw.h5"]);
        assert_eq!(
            (checked.code, checked.out.as_str()),
            (1, ""),
            "{story}: {}",
            checked.err
        );
        assert!(
            checked.err.contains("1 thing is wrong"),
            "{story}: {}",
            checked.err
        );
        let inspected = place.run(["inspect", "raw.h5"]);
        assert_eq!(inspected.code, 0, "{story}: {}", inspected.err);
        // No sample of the voxels is taken.
        let server = place.serve(["raw.h5", "--set", "datasets.raw.channels.raw.window=full"]);
        server.wait_for_log("bytes are missing");
        assert_eq!(
            server.tile("raw/raw/xy/0/0_0_0.png").status,
            200,
            "{story}: what is left is served"
        );
        for (command, told) in [
            ("check", checked.err),
            ("inspect", inspected.out),
            ("serve", server.problems().join("\n")),
        ] {
            let line =
                told_missing(&told, 1000).unwrap_or_else(|| panic!("{story}: {command}: {told}"));
            for word in ["raw.h5", &(length - 1000).to_string(), &length.to_string()] {
                assert!(
                    line.contains(word),
                    "{story}: {command}: {word} is not in {line}"
                );
            }
        }
    }
}

#[test]
fn a_file_cut_before_its_volumes_is_refused_with_what_is_missing() {
    let place = Place::new();
    formatted(&place.path("whole.h5"), false, 0);
    let whole = fs::read(place.path("whole.h5")).unwrap();
    for left in [100, 600] {
        fs::write(place.path("cut.h5"), &whole[..left]).unwrap();
        for command in ["check", "inspect"] {
            let outcome = place.run([command, "cut.h5"]);
            assert_eq!(outcome.code, 1, "{left}: {}", outcome.err);
            assert!(
                outcome.err.contains("1 thing is wrong"),
                "{left}: {}",
                outcome.err
            );
            assert!(
                told_missing(&outcome.err, (whole.len() - left) as u64).is_some(),
                "{}",
                outcome.err
            );
        }
    }
}

#[test]
fn a_truncated_file_behind_a_link_is_told_by_its_own_name() {
    let place = Place::new();
    formatted(&place.path("part.h5"), false, 0);
    made::file(&place.path("main.h5"), |file| {
        file.link_external("part.h5", "/raw", "raw").unwrap();
    });
    assert_eq!(place.run(["check", "main.h5"]).code, 0);
    let length = fs::metadata(place.path("part.h5")).unwrap().len();
    volumes::truncate(&place.path("part.h5"), length - 10);
    let checked = place.run(["check", "main.h5"]);
    assert_eq!(checked.code, 1, "{}", checked.err);
    let line = told_missing(&checked.err, 10).expect("it is told");
    assert!(
        line.contains("part.h5") && !line.contains("main.h5"),
        "{line}"
    );
}

/// Such files are shorter than their superblocks say until the writer flushes them.
#[test]
fn a_file_that_may_grow_is_not_called_truncated() {
    let place = Place::new();
    formatted(&place.path("raw.h5"), true, 0);
    let mut bytes = fs::read(place.path("raw.h5")).unwrap();
    bytes.truncate(bytes.len() - 10);
    fs::write(place.path("raw.h5"), &bytes).unwrap();
    assert_eq!(place.run(["check", "raw.h5"]).code, 1);
    let growing = place.run(["check", "raw.h5", "--set", "datasets.raw.growing=true"]);
    assert_eq!(growing.code, 0, "{}", growing.err);
}

#[test]
fn a_genuine_file_that_was_downloaded_in_part_fails_the_check() {
    let Some(data) = shared_data() else { return };
    let place = Place::new();
    let whole = fs::read(data.join("plantseg/1135_mini.h5")).unwrap();
    fs::write(place.path("trunc.h5"), &whole[..300_000]).unwrap();
    let checked = place.run(["check", "trunc.h5"]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    assert!(
        told_missing(&checked.err, whole.len() as u64 - 300_000).is_some(),
        "{}",
        checked.err
    );
}

#[test]
fn a_file_that_is_no_hdf5_file_is_told_by_what_it_is() {
    let place = Place::new();
    let at =
        |position: usize, magic: &[u8]| [vec![1; position], magic.to_vec(), vec![2; 600]].concat();
    for (bytes, what) in [
        (at(0, b"II*\0"), "a TIFF image"),
        (at(0, b"MM\0*"), "a TIFF image"),
        (at(0, b"II+\0\x08\0"), "a BigTIFF image"),
        (at(0, b"\x89PNG\r\n\x1a\n"), "a PNG image"),
        (at(0, b"\xff\xd8\xff\xe0"), "a JPEG image"),
        (at(0, b"PK\x03\x04"), "a ZIP archive"),
        (at(0, b"\x1f\x8b\x08"), "gzip"),
        (at(344, b"n+1\0"), "a NIfTI image"),
        (at(128, b"DICM"), "a DICOM file"),
        (at(0, b"ZISRAWFILE"), "CZI"),
        (at(0, b"\xda\xce\xbe\x0a"), "ND2"),
        (at(0, b"\x70\0\0\0"), "LIF"),
        (at(0, b"CDF\x01"), "netCDF-3"),
        (at(0, b"\x0e\x03\x13\x01"), "HDF4"),
        (at(208, b"MAP "), "an MRC"),
        (at(0, b"NRRD0005\n"), "an NRRD"),
        (at(0, b"MATLAB 5.0 MAT-file"), "-v7.3"),
        (
            b"\n<!DOCTYPE html>\n<html><body>Please log in".to_vec(),
            "a web page",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n".to_vec(),
            "git lfs pull",
        ),
        (b"x,y,z\n1,2,3\n".to_vec(), "text"),
        (vec![0; 5000], "zeros"),
        (Vec::new(), "it is empty"),
    ] {
        fs::write(place.path("image.h5"), bytes).unwrap();
        for command in ["check", "inspect"] {
            let outcome = place.run([command, "image.h5"]);
            assert_eq!(outcome.code, 1, "{what}: {}", outcome.err);
            assert!(
                outcome.err.contains("HDF5 file") && outcome.err.contains(what),
                "{what}: {}",
                outcome.err
            );
            assert!(
                !outcome.err.contains("H5F"),
                "{what}: no word of the library: {}",
                outcome.err
            );
        }
    }
    for (marker, what) in [
        (".zgroup", "a Zarr tree"),
        ("attributes.json", "an N5 tree"),
        ("a.txt", "a folder"),
    ] {
        let folder = place.path(&format!("tree-{marker}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(marker), "{}").unwrap();
        let outcome = place.run(["inspect".as_ref(), folder.as_os_str()]);
        assert_eq!(outcome.code, 1, "{what}: {}", outcome.err);
        assert!(outcome.err.contains(what), "{what}: {}", outcome.err);
    }
}
