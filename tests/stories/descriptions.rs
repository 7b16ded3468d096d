//! Descriptions: the list of datasets reads no voxels; the description of one dataset has
//! statistics of its channels.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::volumes::{self, EDGE, SLOW_LEVEL, Stored};
use crate::common::wire::Connection;
use crate::common::{ATTEMPTS, MOUNT, Place, Server, fixture, made, until_in_time, wait_until};
use ndarray::{ArrayD, IxDyn};
use serde_json::{Value, json};

/// The shape of [`ramp`]: sections, rows, columns.
const RAMP: [usize; 3] = [4, 50, 60];

/// A 16-bit volume whose values are 0, 3, 6, … in storage order.
fn ramp() -> ArrayD<u16> {
    let [_, rows, columns] = RAMP;
    ArrayD::from_shape_fn(IxDyn(&RAMP), |at| {
        3 * ((at[0] * rows + at[1]) * columns + at[2]) as u16
    })
}

/// `ramp.h5` with the ramp as `raw`, 8-bit `bytes` and `labels`.
fn ramped() -> Place {
    let place = Place::new();
    made::file(&place.path("ramp.h5"), |file| {
        made::put(file, "raw", &ramp());
        made::put(file, "bytes", &made::cube([2, 30, 10]));
        made::put(file, "labels", &made::zeros::<u32>(&[2, 20, 20]));
    });
    place
}

fn channel<'a>(dataset: &'a Value, name: &str) -> &'a Value {
    dataset["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|channel| channel["name"] == name)
        .unwrap()
}

fn samples(server: &Server) -> usize {
    server.log().matches("a sample was taken").count()
}

/// Waits until two samples are logged; there must not be more.
fn assert_two_samples(server: &Server) {
    wait_until("two samples are logged", || samples(server) >= 2);
    assert_eq!(samples(server), 2, "one of raw, one of bytes");
}

#[test]
fn the_list_has_mounts_and_datasets_and_reads_no_voxels() {
    let place = ramped();
    let server = place.serve(["ramp.h5"]);
    let list = server.json("/datasets.json");
    assert_eq!(list["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        list["mounts"],
        json!([{ "tile_service": "ndtilecache", "content_type": "application/png", "adjustable": false }])
    );
    let raw = channel(&list["datasets"][0], "raw");
    assert_eq!(
        (&raw["window"], &raw["histogram"], &raw["percentiles"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(
        (server.count("voltile_chunk_reads_total"), samples(&server)),
        (0, 0)
    );
}

#[test]
fn a_dataset_has_window_percentiles_and_histogram_of_the_same_sample() {
    let place = ramped();
    let server = place.serve(["ramp.h5"]);
    let dataset = server.json("/datasets/ramp.json");
    assert_eq!(dataset["token"], "ramp");
    let (raw, values) = (channel(&dataset, "raw"), ramp());
    // The sample of a small volume is all of it: percentiles are counted from both ends.
    let last = values.len() - 1;
    let at = |position: usize| json!(f64::from(values.as_slice().unwrap()[position]));
    let from_above = |permille: usize| at(last - last * permille / 1000);
    let (lo, hi) = (at(last / 1000), from_above(1));
    assert_eq!(raw["window"], json!([lo, hi]));
    let percentiles: Vec<(&Value, &Value)> = raw["percentiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (&p["percent"], &p["value"]))
        .collect();
    let expected = [
        (0.1, lo),
        (1.0, at(last / 100)),
        (50.0, at(last / 2)),
        (99.0, from_above(10)),
        (99.9, hi),
    ];
    let expected: Vec<(Value, Value)> = expected
        .into_iter()
        .map(|(percent, value)| (json!(percent), value))
        .collect();
    assert_eq!(
        percentiles,
        expected.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>()
    );
    let histogram = &raw["histogram"];
    assert_eq!(
        (&histogram["lo"], &histogram["hi"]),
        (&json!(0.0), &at(last))
    );
    let counts: Vec<usize> = histogram["counts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|count| count.as_u64().unwrap() as usize)
        .collect();
    let mut expected = vec![0; 256];
    (0..=last).for_each(|step| expected[(step * 256 / last).min(255)] += 1);
    assert_eq!(counts, expected);
    assert_eq!(server.renders(), 0);
}

#[test]
fn bytes_have_a_bin_for_each_value_and_labels_have_no_histogram() {
    let place = ramped();
    let dataset = place.serve(["ramp.h5"]).json("/datasets/ramp.json");
    let bytes = channel(&dataset, "bytes");
    let mut counts = vec![0; 256];
    made::cube([2, 30, 10])
        .iter()
        .for_each(|value| counts[usize::from(*value)] += 1);
    assert_eq!(
        bytes["histogram"],
        json!({ "lo": 0.0, "hi": 255.0, "counts": counts })
    );
    assert_eq!(bytes["window"], Value::Null, "bytes are shown as stored");
    let labels = channel(&dataset, "labels");
    assert_eq!(
        (&labels["kind"], &labels["histogram"], &labels["window"]),
        (&json!("labels"), &Value::Null, &Value::Null)
    );
}

#[test]
fn the_description_is_the_same_each_time_and_has_the_window_of_the_tiles() {
    let place = ramped();
    let first = place.serve(["ramp.h5"]).json("/datasets/ramp.json");
    let server = place.serve(["ramp.h5"]);
    let tile = server.tile("ramp/raw/xy/0/0_0_0.png");
    let listed = &server.json("/datasets.json")["datasets"][0];
    assert_eq!(
        channel(listed, "raw")["window"],
        channel(&first, "raw")["window"]
    );
    assert_eq!(server.json("/datasets/ramp.json"), first);
    assert_eq!(server.tile("ramp/raw/xy/0/0_0_0.png").etag(), tile.etag());
    assert_two_samples(&server);
}

#[test]
fn concurrent_requests_wait_for_one_sample() {
    let place = ramped();
    let server = place.serve(["ramp.h5"]);
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    clients
        .iter_mut()
        .for_each(|client| client.send("GET", "/datasets/ramp.json", &[]));
    let answers: Vec<_> = clients
        .iter_mut()
        .map(|client| client.receive("GET").unwrap())
        .collect();
    assert!(
        answers
            .iter()
            .all(|answer| answer.status == 200 && answer.body == answers[0].body)
    );
    assert_two_samples(&server);
}

#[test]
fn each_document_is_built_once_for_a_generation_and_confirmed_by_its_etag() {
    let place = ramped();
    let write = |offset: u64| {
        place.write(
            "voltile.toml",
            &format!("[datasets.ramp]\nfile = \"ramp.h5\"\noffset = [0, 0, {offset}]\n"),
        )
    };
    write(1);
    let server = place.serve::<&str>([]);
    // Before windows are known, and then after.
    let list = server.get("/datasets.json");
    assert_eq!(
        channel(&list.json()["datasets"][0], "raw")["window"],
        Value::Null
    );
    assert_eq!(server.tile("ramp/raw/xy/1/0_0_0.png").status, 200);
    let measured = server.ask("GET", "/datasets.json", &[("If-None-Match", list.etag())]);
    assert_eq!(measured.status, 200, "the window is known now");
    assert!(channel(&measured.json()["datasets"][0], "raw")["window"].is_array());
    let paths = [
        "/datasets.json",
        "/datasets/ramp.json",
        "/openapi.json",
        "/simple",
        "/ndtilecache/ramp/info/",
        "/neuroglancer/ramp/raw/info",
        "/zarr/0.4/ramp.ome.zarr/.zattrs",
        "/zarr/0.4/ramp.ome.zarr/.zmetadata",
        "/zarr/0.4/ramp/bytes.ome.zarr/0/.zarray",
        "/zarr/0.5/ramp.ome.zarr/zarr.json",
    ];
    // The first round measures the windows of all channels.
    let first = paths.map(|path| server.get(path));
    let known = paths.map(|path| server.get(path));
    let built = server.count("voltile_documents_built_total");
    for (path, known) in paths.iter().zip(&known) {
        let same = server.get(path);
        assert_eq!(
            (same.status, same.etag(), &same.body),
            (200, known.etag(), &known.body),
            "{path}"
        );
        let confirmed = server.ask("GET", path, &[("If-None-Match", known.etag())]);
        assert_eq!(
            (confirmed.status, confirmed.header("cache-control")),
            (304, Some("no-cache")),
            "{path}"
        );
        assert_eq!(confirmed.etag(), known.etag(), "{path}");
    }
    assert_eq!(server.count("voltile_documents_built_total"), built);
    assert!(first.iter().all(|answer| answer.status == 200));
    write(2);
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded: ");
    let list = server.json("/datasets.json");
    assert_eq!(
        list["datasets"][0]["offset"],
        json!([0, 0, 2]),
        "of the new generation"
    );
    assert_eq!(server.count("voltile_documents_built_total"), built + 1);
}

#[test]
fn requests_for_a_long_list_do_not_delay_other_clients() {
    const CHANNELS: usize = 2000;
    const REQUESTS: usize = 60;
    let place = Place::new();
    made::file(&place.path("many.h5"), |file| {
        (0..CHANNELS).for_each(|number| {
            _ = made::put(file, &format!("c{number}"), &made::cube([2, 16, 16]));
        });
    });
    let server = place.serve(["many.h5"]);
    let client = IpAddr::from([127, 0, 0, 2]);
    let mut waiting: Vec<_> = (0..REQUESTS)
        .map(|_| Connection::open_from(client, server.address))
        .collect();
    waiting
        .iter_mut()
        .for_each(|connection| connection.send("GET", "/datasets.json", &[]));
    let began = Instant::now();
    assert_eq!(server.get("/livez").status, 200);
    // It took a minute when each was built anew on the threads that answer requests.
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    let lists: Vec<_> = waiting
        .iter_mut()
        .map(|connection| connection.receive("GET").unwrap())
        .collect();
    assert_eq!(
        lists[0].json()["datasets"][0]["channels"]
            .as_array()
            .unwrap()
            .len(),
        CHANNELS
    );
    assert!(
        lists
            .iter()
            .all(|list| list.body == lists[0].body && list.etag() == lists[0].etag())
    );
    assert_eq!(server.count("voltile_documents_built_total"), 1);
}

#[test]
fn two_tokens_of_one_file_each_have_a_window() {
    let place = ramped();
    place.write(
        "voltile.toml",
        "[datasets.one]\nfile = \"ramp.h5\"\n[datasets.two]\nfile = \"ramp.h5\"\n",
    );
    let server = place.serve::<&str>([]);
    let [one, two] = ["one", "two"].map(|token| server.json(&format!("/datasets/{token}.json")));
    assert!(channel(&one, "raw")["window"].is_array());
    assert_eq!(one["channels"], two["channels"]);
    let [one, two] = ["one", "two"].map(|token| {
        server
            .tile(&format!("{token}/raw/xy/1/0_0_0.png"))
            .picture()
    });
    assert!(one == two);
}

#[test]
fn a_channel_that_cannot_be_read_has_a_problem_and_the_others_are_described() {
    let place = ramped();
    let path = place.path("planes.h5");
    let bytes = volumes::planes(&path, 4, 1, Stored::Flat);
    place.write(
        "voltile.toml",
        "[datasets.both]\nfile = \"ramp.h5\"\n[datasets.both.channels.raw]\npath = \"/raw\"\n\
         [datasets.both.channels.lost]\nfile = \"planes.h5\"\npath = \"/raw\"\n",
    );
    let server = place.serve::<&str>([]);
    let whole = std::fs::read(&path).unwrap();
    volumes::truncate(&path, bytes[0].start);
    let dataset = server.json("/datasets/both.json");
    let lost = channel(&dataset, "lost");
    let problem = lost["problem"].as_str().unwrap();
    assert!(
        !problem.contains("planes") && !problem.contains('/'),
        "{problem}"
    );
    assert_eq!(
        (&lost["histogram"], &lost["levels"][0]["size"]),
        (&Value::Null, &json!([EDGE, EDGE, 4]))
    );
    assert!(
        channel(&dataset, "raw")["window"].is_array()
            && channel(&dataset, "raw")["problem"].is_null()
    );
    std::fs::write(&path, whole).unwrap();
    wait_until("the file is reopened", || {
        let dataset = server.json("/datasets/both.json");
        let lost = channel(&dataset, "lost");
        lost["problem"].is_null() && lost["histogram"].is_object()
    });
}

#[test]
fn a_description_has_no_statistics_while_the_queue_is_full() {
    let place = ramped();
    volumes::slow(&place.path("slow.h5"), ATTEMPTS);
    place.write(
        "voltile.toml",
        "[render]\nthreads = 1\nqueue = 0\nmax_voxels_per_tile = 10_000_000_000\n[datasets.ramp]\nfile = \"ramp.h5\"\n\
         [datasets.slow]\nfile = \"slow.h5\"\n[datasets.slow.channels.raw]\nwindow = [0, 200]\n",
    );
    until_in_time(|attempt| {
        let server = place.serve(["--set", "render.neighbours=0"]);
        let mut waiting = server.connect();
        waiting.send(
            "GET",
            &format!("{MOUNT}/slow/raw/xy/{attempt}/0_0_{SLOW_LEVEL}.png"),
            &[],
        );
        wait_until("the slow tile is being rendered", || server.renders() > 0);
        let is_known =
            || !channel(&server.json("/datasets/ramp.json"), "raw")["percentiles"].is_null();
        let was_known = is_known();
        if !waiting.is_silent() {
            return None;
        }
        assert!(!was_known);
        assert_eq!(
            server.get("/datasets.json").status,
            200,
            "the list needs no render thread"
        );
        assert_eq!(waiting.receive("GET").unwrap().status, 200);
        wait_until("there is room again", is_known);
        Some(())
    });
}

#[test]
fn unknown_datasets_are_404s_with_a_reason() {
    let place = ramped();
    let server = place.serve(["ramp.h5"]);
    for target in [
        "/datasets/nothing.json",
        "/datasets/.json",
        "/datasets/a%20b.json",
        "/datasets/ramp/raw.json",
    ] {
        let answer = server.get(target);
        assert_eq!(answer.status, 404, "{target}");
        answer.problem();
    }
    assert_eq!(server.ask("HEAD", "/datasets/ramp.json", &[]).status, 200);
    assert_eq!(
        server
            .ask("POST", "/datasets/ramp.json", &[("Content-Length", "0")])
            .status,
        405
    );
}

#[test]
fn descriptions_tell_whether_pixels_are_square() {
    let place = Place::new();
    let voxels = fixture("voxels.h5");
    place.write(
        "voltile.toml",
        &format!(
            "[datasets.square]\nfile = {voxels:?}\nvoxel_size = [1, 1, 5]\n\
             [datasets.stored]\nfile = {voxels:?}\nvoxel_size = [1, 1, 5]\northogonal = \"stored\"\n\
             [datasets.unknown]\nfile = {:?}\n",
            fixture("wide.h5")
        ),
    );
    let list = place.serve::<&str>([]).json("/datasets.json");
    let described: Vec<(&Value, &Value)> = list["datasets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|dataset| (&dataset["token"], &dataset["channels"][0]["orthogonal"]))
        .collect();
    let expected = [
        ("square", "isotropic"),
        ("stored", "stored"),
        ("unknown", "stored"),
    ]
    .map(|(a, b)| (json!(a), json!(b)));
    assert_eq!(
        described,
        expected.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>()
    );
}

/// A server of 40 channels; a quarter of its render queue holds four of them.
fn many_channels(place: &Place) -> Server {
    made::file(&place.path("many.h5"), |file| {
        for channel in 0..40u16 {
            made::put(file, &format!("c{channel:02}"), &(ramp() + channel));
        }
    });
    place.serve(["many.h5", "--set", "render.queue=16"])
}

#[test]
fn more_channels_than_the_render_queue_holds_are_described_a_part_at_a_time() {
    let place = Place::new();
    let server = many_channels(&place);
    for round in 1..=10 {
        let description = server.json("/datasets/many.json");
        let channels = description["channels"].as_array().unwrap();
        let known = channels
            .iter()
            .filter(|channel| !channel["percentiles"].is_null());
        assert_eq!(known.count(), 4 * round);
        assert!(
            channels
                .iter()
                .all(|channel| channel["percentiles"].is_null() == channel["window"].is_null())
        );
        assert!(
            channels.iter().all(|channel| channel["problem"].is_null()),
            "{description}"
        );
    }
    assert_eq!(server.count("voltile_renders_rejected_total"), 0);
}

#[test]
fn windows_for_zarr_are_measured_a_part_at_a_time_and_failures_are_one_line() {
    let place = Place::new();
    let server = many_channels(&place);
    let before = server.log().lines().count();
    assert_eq!(server.get("/zarr/0.4/many.ome.zarr/.zattrs").status, 200);
    let lines = server.log().lines().count() - before;
    assert!(lines <= 4, "{lines} lines are logged");
    assert_eq!(
        (
            server.count("voltile_renders_rejected_total"),
            server.problems().len()
        ),
        (0, 0)
    );
}

#[test]
fn documents_are_compressed_for_those_who_accept_it_and_tiles_never() {
    let place = Place::new();
    let server = place.serve(["--config".as_ref(), fixture("voltile.toml").as_os_str()]);
    let accepting = [("Accept-Encoding", "gzip, deflate, br")];
    for path in [
        "/datasets.json",
        "/datasets/axes.json",
        "/openapi.json",
        "/simple",
    ] {
        let (plain, short) = (server.get(path), server.ask("GET", path, &accepting));
        assert_eq!((plain.status, short.status), (200, 200), "{path}");
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        assert_eq!(short.header("content-encoding"), Some("gzip"), "{path}");
        for answer in [&plain, &short] {
            assert!(
                answer.header("vary").unwrap().contains("Accept-Encoding"),
                "{path}"
            );
        }
        let mut whole = vec![0; plain.body.len()];
        let length = libdeflater::Decompressor::new().gzip_decompress(&short.body, &mut whole);
        assert_eq!(length, Ok(plain.body.len()), "{path}");
        assert!(whole == plain.body, "{path}");
        assert!(short.body.len() < plain.body.len() / 2, "{path}");
        assert_ne!(short.etag(), plain.etag(), "{path}");
        let known = [accepting[0], ("If-None-Match", short.etag())];
        let again = server.ask("GET", path, &known);
        assert_eq!((again.status, again.etag()), (304, short.etag()), "{path}");
        assert_eq!(server.ask("GET", path, &known[1..]).status, 200, "{path}");
        let part = server.ask("GET", path, &[accepting[0], ("Range", "bytes=3-9")]);
        assert_eq!(
            (part.status, part.body.as_slice()),
            (206, &plain.body[3..10]),
            "{path}"
        );
    }
    for path in [
        "/livez",
        "/ndtilecache/tilecache/wide_zslices/raw/xy/0/0_0_0.png",
    ] {
        let answer = server.ask("GET", path, &accepting);
        assert_eq!(
            (answer.status, answer.header("content-encoding")),
            (200, None),
            "{path}"
        );
    }
}

#[test]
fn a_list_may_have_only_the_datasets_that_are_asked_for() {
    let place = Place::new();
    let server = place.serve(["--config".as_ref(), fixture("voltile.toml").as_os_str()]);
    let list = |query: &str| server.json(&format!("/datasets.json{query}"));
    let all = list("");
    let of = |tokens: &[&str]| -> Vec<Value> {
        let datasets = all["datasets"].as_array().unwrap().iter();
        let listed = |set: &&Value| tokens.contains(&set["token"].as_str().unwrap());
        datasets.filter(listed).cloned().collect()
    };
    for (query, tokens) in [
        ("?tokens=axes", ["axes"].as_slice()),
        ("?tokens=series%2Caxes", &["axes", "series"]),
        (
            "?a=b&tokens=axes,axes,gone,no%20name,odd-name_1.0",
            &["axes", "odd-name_1.0"],
        ),
        ("?tokens=gone", &[]),
        ("?tokens=", &[]),
    ] {
        let some = list(query);
        assert_eq!(some["datasets"], Value::from(of(tokens)), "{query}");
        assert_eq!(
            (&some["version"], &some["mounts"]),
            (&all["version"], &all["mounts"]),
            "{query}"
        );
    }
    assert_eq!(list("?token=axes"), all);
}
