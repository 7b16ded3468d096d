//! A file system that hangs: reads of one file do not return. Everything else is served meanwhile,
//! requests for that file are answered with 503, and it is served again as soon as its reads
//! return.
//!
//! Page faults of mapped files cannot be made to hang without a file system of our own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ndarray::Array3;

use crate::common::volumes::{self, Stored};
use crate::common::wire::Answer;
use crate::common::{MOUNT, Place, Server, made, wait_until};

const PLANES: usize = 24;
/// How long an answer may take on a busy machine. Before, there was none at all.
const BOUND: Duration = Duration::from_secs(60);
/// No sample is taken, and nothing is prefetched: only the requested planes are read.
const PLAIN: [&str; 6] = [
    "--set",
    "datasets.stuck.channels.raw.window=full",
    "--set",
    "datasets.sound.channels.raw.window=full",
    "--set",
    "render.neighbours=0",
];

/// Ranges are not measured; neighbours are rendered, and chunks finished.
const AHEAD: [&str; 6] = [
    "--set",
    "datasets.stuck.channels.raw.window=full",
    "--set",
    "datasets.sound.channels.raw.window=full",
    "--set",
    "server.references=\"http://voltile.test/\"",
];
/// The planes of the files of [`Hanging::deep`], and how many of them lie in a chunk.
const DEEP_PLANES: usize = 64;
const DEPTH: usize = 8;

fn tile(dataset: &str, z: usize) -> String {
    format!("{MOUNT}/{dataset}/raw/xy/{z}/0_0_0.png")
}

/// A file that can be made to hang, beside files that cannot.
struct Hanging {
    place: Place,
    switch: PathBuf,
    shim: PathBuf,
}

impl Hanging {
    fn new() -> Self {
        Self::of(|path, seed| drop(volumes::planes(path, PLANES, seed, Stored::Gzip)))
    }

    /// Of files with several planes in a chunk: a tile takes a part of it, and its neighbours the
    /// next one.
    fn deep() -> Self {
        Self::of(|path, seed| {
            let edge = volumes::EDGE;
            let data = Array3::from_shape_fn((DEEP_PLANES, edge, edge), |(z, y, x)| {
                volumes::voxel(seed, z, y, x)
            });
            let file = made::create(path);
            let builder = file
                .new_dataset_builder()
                .with_data(&data)
                .chunk((DEPTH, edge, edge));
            builder.deflate(6).create("raw").unwrap();
        })
    }

    fn of(write: impl Fn(&Path, usize)) -> Self {
        let place = Place::new();
        for (seed, name) in ["stuck.h5", "sound.h5", "other.h5"].iter().enumerate() {
            write(&place.path(name), seed);
        }
        let (switch, shim) = (place.path("the-file-hangs"), place.path("hanging_file.so"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories/hanging_file.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&shim)
            .arg(source)
            .arg("-ldl")
            .output();
        let compiled = compiled.expect("there is a C compiler: libhdf5 was built with it");
        assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        Self {
            place,
            switch,
            shim,
        }
    }

    fn serve(&self, threads: usize, more: &[&str]) -> Server {
        let files = ["stuck.h5", "sound.h5", "other.h5", "--bind", "127.0.0.1:0"];
        let mut command = self.place.voltile(["serve"]);
        command
            .args(files)
            .arg("--set")
            .arg(format!("render.threads={threads}"))
            .args(more);
        self.place.start({
            command
                .env("LD_PRELOAD", &self.shim)
                .env("HANGING_FILE", &self.switch);
            command
        })
    }

    fn hang(&self) {
        fs::write(&self.switch, "").unwrap();
    }

    fn answer(&self) {
        fs::remove_file(&self.switch).unwrap();
    }
}

fn shows(server: &Server, dataset: &str, z: usize) -> bool {
    let seed = ["stuck", "sound", "other"]
        .iter()
        .position(|name| *name == dataset)
        .unwrap();
    let began = Instant::now();
    let answer = server.get(&tile(dataset, z));
    assert!(
        began.elapsed() < BOUND,
        "{dataset} {z}: {:?}",
        began.elapsed()
    );
    answer.status == 200 && answer.picture() == volumes::plane(seed, z)
}

fn is_unavailable(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    assert!(
        answer
            .problem()
            .contains("the file system has not answered"),
        "{answer:?}"
    );
}

/// Requests for planes of the stuck file, all at once.
fn ask_for_stuck<T>(
    server: &Server,
    planes: std::ops::Range<usize>,
    meanwhile: impl FnOnce() -> T,
) -> T {
    thread::scope(|scope| {
        let asked: Vec<_> = planes
            .map(|z| scope.spawn(move || server.get(&tile("stuck", z))))
            .collect();
        let result = meanwhile();
        asked
            .into_iter()
            .for_each(|asked| is_unavailable(&asked.join().unwrap()));
        result
    })
}

fn problems(server: &Server) -> String {
    server.json("/readyz")["problems"].to_string()
}

fn render_threads(server: &Server) -> usize {
    let tasks = fs::read_dir(server.process().join("task"))
        .unwrap()
        .flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "render").count()
}

#[test]
fn a_file_whose_reads_hang_delays_no_other_file() {
    let hanging = Hanging::new();
    for threads in [1, 2] {
        let server = hanging.serve(threads, &PLAIN);
        for dataset in ["stuck", "sound", "other"] {
            assert!(shows(&server, dataset, 0));
        }
        hanging.hang();
        ask_for_stuck(&server, 1..21, || {
            for z in 1..12 {
                assert!(shows(&server, "sound", z), "{z}");
            }
        });
        assert!(shows(&server, "stuck", 0), "what is cached is served");
        ask_for_stuck(&server, 1..21, || {
            assert!((1..12).all(|z| shows(&server, "other", z)));
        });
        let told = problems(&server);
        assert!(
            told.contains("\"stuck\"") && !told.contains("\"sound\""),
            "{told}"
        );
        assert!(told.contains("the file system has not answered"), "{told}");
        assert!(render_threads(&server) <= 2 * threads);
        hanging.answer();
        wait_until("the file is served again", || {
            (0..PLANES).all(|z| shows(&server, "stuck", z))
        });
        wait_until("no problem is left", || problems(&server) == "[]");
        assert!((12..PLANES).all(|z| shows(&server, "sound", z)));
        assert_eq!(server.count("voltile_render_errors_total"), 0);
    }
}

/// Makes a file hang while as many threads as there are read it ahead, or finish its chunks, and
/// others for requests.
fn hang_ahead(hanging: &Hanging, threads: usize) {
    let server = hanging.serve(threads, &AHEAD);
    for (before, dataset) in ["stuck", "sound", "other"].iter().enumerate() {
        assert!(shows(&server, dataset, 5));
        let rendered = || server.count("voltile_neighbours_rendered_total");
        wait_until("three neighbours are rendered", || {
            rendered() >= 3 * (before as u64 + 1)
        });
    }
    for number in 0..threads {
        assert!(shows(&server, "stuck", 2 * DEPTH + 1 + number * DEPTH));
    }
    hanging.hang();
    assert!(
        shows(&server, "stuck", DEPTH - 1),
        "it is cached, and its neighbours are read"
    );
    let last = DEEP_PLANES - 2 * DEPTH;
    ask_for_stuck(&server, last..DEEP_PLANES, || {
        thread::scope(|scope| {
            let server = &server;
            for z in 20..36 {
                scope.spawn(move || assert!(shows(server, "sound", z), "{threads} threads: {z}"));
            }
            for document in [
                "/datasets.json",
                "/datasets/sound.json",
                "/datasets/stuck.json",
                "/datasets/sound/about.json",
                "/references/sound.json",
                "/zarr/0.4/sound.ome.zarr/.zattrs",
                "/neuroglancer/sound/raw/info",
            ] {
                scope.spawn(move || assert_eq!(server.get(document).status, 200, "{document}"));
            }
        });
    });
    assert!(render_threads(&server) <= 2 * threads);
    hanging.answer();
    wait_until("the file is served again", || {
        (0..DEEP_PLANES).all(|z| shows(&server, "stuck", z))
    });
    wait_until("no problem is left", || problems(&server) == "[]");
    assert_eq!(server.count("voltile_render_errors_total"), 0);
}

#[test]
fn a_file_that_hangs_while_it_is_read_ahead_delays_no_other_file() {
    hang_ahead(&Hanging::deep(), 2);
}

#[test]
#[ignore = "slow: makes a file hang twelve times"]
fn a_file_that_hangs_at_any_moment_while_it_is_read_ahead_delays_no_other_file() {
    thread::scope(|scope| {
        for threads in [1, 2, 4] {
            scope.spawn(move || {
                let hanging = Hanging::deep();
                (0..4).for_each(|_| hang_ahead(&hanging, threads));
            });
        }
    });
}

/// Those for which files are read.
fn documents(server: &Server, dataset: &str) -> [Answer; 2] {
    [
        format!("/datasets/{dataset}/about.json"),
        format!("/references/{dataset}.json"),
    ]
    .map(|path| server.get(&path))
}

#[test]
fn documents_of_a_file_that_hangs_keep_nobody_from_others() {
    let hanging = Hanging::new();
    let server = hanging.serve(1, &AHEAD);
    for dataset in ["sound", "other"] {
        assert!(shows(&server, dataset, 0));
    }
    assert!(
        documents(&server, "sound")
            .iter()
            .all(|answer| answer.status == 200)
    );
    hanging.hang();
    let began = Instant::now();
    thread::scope(|scope| {
        // More than places.
        let asked = &server;
        let stuck: Vec<_> = [
            "/datasets/stuck/about.json",
            "/references/stuck.json",
            "/references/stuck/raw.json",
        ]
        .map(|path| scope.spawn(move || asked.get(path)))
        .into();
        for document in [
            "/datasets.json",
            "/datasets/sound.json",
            "/zarr/0.4/other.ome.zarr/.zattrs",
        ] {
            assert_eq!(server.get(document).status, 200, "{document}");
        }
        assert_eq!(
            server.get("/references/other.json").status,
            200,
            "its chunks are known"
        );
        assert!(
            documents(&server, "sound")
                .iter()
                .all(|answer| answer.status == 200),
            "they are kept"
        );
        stuck
            .into_iter()
            .for_each(|asked| is_unavailable(&asked.join().unwrap()));
    });
    let [needs_library, _] = documents(&server, "other");
    is_unavailable(&needs_library);
    assert!((1..12).all(|z| shows(&server, "sound", z)));
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    assert!(
        problems(&server).contains("\"stuck\""),
        "{}",
        problems(&server)
    );
    hanging.answer();
    for dataset in ["stuck", "other"] {
        wait_until("its documents are there", || {
            documents(&server, dataset)
                .iter()
                .all(|answer| answer.status == 200)
        });
        let [about, _] = documents(&server, dataset);
        assert!(!about.text().contains("has not answered"), "{about:?}");
    }
}

#[test]
fn a_file_that_hangs_while_it_is_sampled_delays_no_other_file() {
    let hanging = Hanging::new();
    let server = hanging.serve(1, &["--set", "render.neighbours=0"]);
    assert!(shows(&server, "sound", 0));
    hanging.hang();
    ask_for_stuck(&server, 0..20, || {
        assert!((1..12).all(|z| shows(&server, "sound", z)));
    });
    let described = server.json("/datasets/stuck.json").to_string();
    assert!(
        described.contains("the file system has not answered"),
        "{described}"
    );
    hanging.answer();
    wait_until("the file is served", || {
        (0..PLANES).all(|z| shows(&server, "stuck", z))
    });
}

#[test]
fn a_file_that_hangs_inside_libhdf5_delays_only_what_needs_the_library() {
    let hanging = Hanging::new();
    let server = hanging.serve(1, &PLAIN);
    assert!(shows(&server, "sound", 0));
    hanging.hang();
    // The list of chunks is read by the library, which then holds its lock.
    ask_for_stuck(&server, 0..20, || {
        assert!((1..12).all(|z| shows(&server, "sound", z)));
    });
    is_unavailable(&server.get(&tile("other", 0)));
    assert!(
        (12..PLANES).all(|z| shows(&server, "sound", z)),
        "no thread waits for the library"
    );
    hanging.answer();
    wait_until("everything is served", || {
        shows(&server, "stuck", 0) && shows(&server, "other", 0)
    });
}

#[test]
fn a_server_ends_in_time_although_reads_hang() {
    for is_in_library in [false, true] {
        let hanging = Hanging::new();
        let more = [
            "--set",
            "server.shutdown_timeout=2s",
            "--set",
            "cache.directory=cache",
        ];
        let more: Vec<&str> = PLAIN.into_iter().chain(more).collect();
        let mut server = hanging.serve(2, &more);
        if !is_in_library {
            assert!(shows(&server, "stuck", 0));
        }
        hanging.hang();
        ask_for_stuck(&server, 1..5, || ());
        let began = Instant::now();
        server.stop();
        assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    }
}
