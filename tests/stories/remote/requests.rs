//! The requests to a store: their ranges, their number, and when they are given up.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use ndarray::Array3;

use super::{DISTANCE, PLAIN, PLANES, Remote, shows, tile};
use crate::common::objects::{Asked, Manner, longest_chain, sent_twice};
use crate::common::picture::Picture;
use crate::common::volumes::{self, Stored};
use crate::common::wire::Connection;
use crate::common::{made, wait_until};

/// The edges of the volume of [`many`].
const SHAPE: (usize, usize, usize) = (64, 256, 256);

fn voxel(z: usize, y: usize, x: usize) -> u8 {
    (((z * 256 + y) * 256 + x).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8
}

/// Writes `/raw` with 8,192 chunks in the default format: their index is spread over the file.
fn many(path: &Path) {
    made::file(path, |file| {
        let data = Array3::from_shape_fn(SHAPE, |(z, y, x)| voxel(z, y, x));
        file.new_dataset_builder()
            .with_data(&data)
            .chunk((8, 8, 8))
            .create("raw")
            .unwrap();
    });
}

/// Writes `/one` and `/two` with 80 chunks of 16-bit voxels each: too many to be sampled whole.
fn two_channels(path: &Path, scale: u16) {
    made::file(path, |file| {
        for (name, step) in [("one", 3), ("two", 5)] {
            let value = |z, y, x| scale * (u16::from(voxel(z, y, x)) + step * x as u16);
            let data = Array3::from_shape_fn((160, 128, 128), |(z, y, x)| value(z, y, x));
            file.new_dataset_builder()
                .with_data(&data)
                .chunk((32, 32, 32))
                .create(name)
                .unwrap();
        }
    });
}

#[test]
fn samples_of_all_channels_are_fetched_at_once_and_their_windows_are_kept_for_the_next_start() {
    let remote = Remote::new();
    two_channels(&remote.path("planes.h5"), 1);
    remote.objects.answer(
        "",
        Manner {
            delay: Duration::from_millis(50),
            ..Manner::default()
        },
    );
    let settings = [
        "--set",
        "cache.directory=cache",
        "--set",
        "render.neighbours=0",
    ];
    let of_both = |z: usize| {
        format!(
            "{}/mcfc/planes/one:C,two:M/xy/{z}/0_0_0.png",
            crate::common::MOUNT
        )
    };
    let started = |z: usize| {
        remote.objects.take_asked();
        let mut server = remote.serve(&["planes.h5"], &settings);
        let shown = server.get(&of_both(z)).picture();
        let asked = reads(&remote.objects.take_asked());
        let windows = server.json("/datasets/planes.json")["channels"].clone();
        let windows: Vec<_> = (0..2)
            .map(|channel| windows[channel]["window"].clone())
            .collect();
        server.stop();
        (shown, windows, asked)
    };
    let (shown, windows, asked) = started(40);
    // Each channel has 27 samples. Before them come the first bytes and the index of each channel.
    assert!(
        asked.len() > 27 && longest_chain(&asked) <= 16,
        "{}: {asked:?}",
        longest_chain(&asked)
    );
    let (again, known, asked) = started(40);
    assert_eq!(
        (again, &known, asked.len()),
        (shown, &windows, 1),
        "the tile is in the disk cache: {asked:?}"
    );
    let (_, _, asked) = started(90);
    assert!(longest_chain(&asked) <= 2, "{asked:?}");
    two_channels(&remote.path("next.h5"), 2);
    remote.replace("planes.h5", &std::fs::read(remote.path("next.h5")).unwrap());
    let (_, others, _) = started(40);
    assert!(
        others[0] != windows[0] && others[1] != windows[1],
        "{others:?}"
    );
}

#[test]
fn metadata_and_chunks_are_kept_although_no_tiles_are() {
    let remote = Remote::with_scattered_planes();
    let settings = [
        "cache.directory=cache",
        "cache.disk=0",
        "cache.blocks=10 MiB",
    ];
    let settings: Vec<&str> = settings
        .iter()
        .flat_map(|setting| ["--set", setting])
        .chain(PLAIN)
        .collect();
    let mut server = remote.serve(&["planes.h5"], &settings);
    assert!(shows(&server, 1, 3));
    wait_until("the chunk is kept", || {
        server.count("voltile_store_block_bytes") > 0
    });
    server.stop();
    remote.objects.take_asked();
    let server = remote.serve(&["planes.h5"], &settings);
    assert!(shows(&server, 1, 3));
    assert_eq!(
        reads(&remote.objects.asked()).len(),
        1,
        "{:?}",
        remote.objects.asked()
    );
}

/// Requests for the object itself, but for those that only look whether it has changed.
fn reads(asked: &[Asked]) -> Vec<Asked> {
    let is_read = |asked: &&Asked| asked.path == "planes.h5" && asked.range != Some(0..1);
    asked.iter().filter(is_read).cloned().collect()
}

fn plane_range(z: usize) -> usize {
    (z + 1) * DISTANCE
}

/// The planes whose chunk was requested.
fn planes(asked: &[Asked]) -> Vec<usize> {
    let starts = asked
        .iter()
        .filter_map(|asked| Some(asked.range.clone()?.start as usize));
    let mut planes: Vec<usize> = starts
        .filter_map(|start| (0..PLANES).find(|z| plane_range(*z) / 4096 == start / 4096))
        .collect();
    planes.sort_unstable();
    planes
}

#[test]
fn a_second_start_confirms_the_object_with_one_request_and_fetches_chunks_with_the_next() {
    let remote = Remote::new();
    many(&remote.path("planes.h5"));
    let settings = [&PLAIN[..], &["--set", "cache.directory=cache"]].concat();
    let delay = Duration::from_millis(50);
    remote.objects.answer(
        "",
        Manner {
            delay,
            ..Manner::default()
        },
    );
    let shown = |z: usize| {
        let server = remote.serve(&["planes.h5"], &settings);
        let expected = Picture::of_plane(SHAPE.1, SHAPE.2, |y, x| voxel(z, y, x));
        assert_eq!(server.get(&tile(z)).picture(), expected);
    };
    shown(3);
    let first = reads(&remote.objects.take_asked());
    shown(40);
    let second = reads(&remote.objects.take_asked());
    assert!(
        first.len() > second.len(),
        "{} and {} requests",
        first.len(),
        second.len()
    );
    let unconditional = second
        .iter()
        .filter(|asked| !asked.headers.contains_key("if-match"))
        .count();
    assert_eq!(
        unconditional, 1,
        "one confirms that it is the same object: {second:?}"
    );
    // The chunks may lie in what was kept with the metadata.
    assert!(longest_chain(&second) <= 2, "{second:?}");
}

#[test]
fn a_stored_chunk_is_passed_on_when_it_arrives_without_a_render() {
    let remote = Remote::new();
    made::file(&remote.path("planes.h5"), |file| {
        let data = Array3::from_shape_fn((32, 64, 64), |(z, y, x)| voxel(z, y, x));
        file.new_dataset_builder()
            .with_data(&data)
            .chunk((32, 32, 32))
            .deflate(4)
            .create("raw")
            .unwrap();
    });
    let server = remote.serve(&["planes.h5"], &PLAIN[..2]);
    for key in ["0/0/0", "0/1/1"] {
        let chunk = server.get(&format!("/zarr/0.4/planes/raw.ome.zarr/0/{key}"));
        let passed = (200, Some("cache;desc=\"passed\""));
        assert_eq!(
            (chunk.status, chunk.header("server-timing")),
            passed,
            "{key}"
        );
    }
    let counts = [
        "voltile_chunks_passed_through_total",
        "voltile_renders_total",
    ];
    assert_eq!(counts.map(|name| server.count(name)), [2, 0]);
}

#[test]
fn every_range_names_the_version_that_it_must_be_of() {
    let remote = Remote::with_scattered_planes();
    let server = remote.serve_planes();
    assert!((0..PLANES).all(|z| shows(&server, 1, z)));
    let asked = reads(&remote.objects.asked());
    let (first, others) = asked.split_first().unwrap();
    assert_eq!(
        (first.range.clone(), first.headers.get("if-match")),
        (Some(0..65536), None)
    );
    assert!(
        others
            .iter()
            .all(|asked| asked.headers.contains_key("if-match")),
        "{others:?}"
    );
    assert!(
        asked
            .iter()
            .all(|asked| asked.method == "GET" && asked.headers["accept-encoding"] == "identity")
    );
}

#[test]
fn a_scroll_reads_ahead_and_no_byte_twice() {
    let remote = Remote::with_scattered_planes();
    let server = remote.serve(&["planes.h5"], &PLAIN[..2]);
    remote.objects.take_asked();
    assert!(shows(&server, 1, 0));
    // The first plane was read when the file was opened.
    wait_until("the next planes are fetched", || {
        let fetched = planes(&reads(&remote.objects.asked()));
        fetched == [1, 2]
    });
    for z in 1..PLANES {
        assert!(shows(&server, 1, z), "plane {z}");
    }
    wait_until("all has arrived", || {
        planes(&reads(&remote.objects.asked())).len() >= PLANES - 1
    });
    let asked = reads(&remote.objects.asked());
    assert_eq!(sent_twice(&asked), [], "{asked:?}");
    assert_eq!(planes(&asked), (1..PLANES).collect::<Vec<_>>());
}

#[test]
fn the_next_slices_come_from_the_disk_cache_if_it_has_them() {
    let remote = Remote::with_scattered_planes();
    let arguments = [PLAIN[0], PLAIN[1], "--set", "cache.directory=cache"];
    let server = remote.serve(&["planes.h5"], &arguments);
    assert!((0..PLANES).all(|z| shows(&server, 1, z)));
    wait_until("all are written", || {
        server.count("voltile_tier_writes_total") >= PLANES as u64
    });
    drop(server);
    let server = remote.serve(&["planes.h5"], &arguments);
    remote.objects.take_asked();
    assert!(shows(&server, 1, 0));
    wait_until("the next two are found, too", || {
        server.count("voltile_tier_hits_total") == 3
    });
    assert!(shows(&server, 1, 1) && shows(&server, 1, 2));
    let neighbours = server.count("voltile_neighbours_rendered_total");
    assert_eq!((server.renders(), neighbours), (0, 0));
}

#[test]
fn all_planes_and_all_chunks_take_no_byte_twice() {
    let remote = Remote::new();
    many(&remote.path("planes.h5"));
    let server = remote.serve(&["planes.h5"], &PLAIN[..2]);
    for z in (0..SHAPE.0).step_by(5) {
        let expected = Picture::of_plane(SHAPE.1, SHAPE.2, |y, x| voxel(z, y, x));
        assert_eq!(server.get(&tile(z)).picture(), expected, "plane {z}");
    }
    let asked = reads(&remote.objects.asked());
    let twice: u64 = sent_twice(&asked)
        .iter()
        .map(|(_, range)| range.end - range.start)
        .sum();
    let sent: u64 = asked.iter().map(|asked| asked.sent).sum();
    // Gaps between chunks are read along, and may hold metadata or chunks that were read before.
    assert!(
        twice * 8 <= sent,
        "{twice} of {sent} bytes in {} requests",
        asked.len()
    );
}

#[test]
fn fetching_is_given_up_when_the_client_is_gone() {
    let remote = Remote::with_scattered_planes();
    let server = remote.serve_planes();
    remote.objects.take_asked();
    remote.objects.answer(
        "planes.h5",
        Manner {
            delay: Duration::from_secs(600),
            ..Manner::default()
        },
    );
    let mut connection = server.connect();
    connection.send("GET", &tile(3), &[]);
    wait_until("the request is in flight", || is_asked(&remote));
    connection.hang_up();
    wait_until("it is given up", || !remote.objects.asked().is_empty());
    let asked = remote.objects.asked();
    assert_eq!((asked[0].status, planes(&asked)), (0, vec![3]), "{asked:?}");
    assert_eq!(
        server.count("voltile_store_failures_total"),
        0,
        "it was given up, and did not fail"
    );
    // Whoever asks next is not affected.
    remote.objects.mend();
    assert!(shows(&server, 1, 3));
}

#[test]
fn a_client_that_waits_for_many_tiles_of_a_slow_store_keeps_no_other_client_waiting() {
    const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
    const LONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    const MANY: usize = 800;
    const REFUSED: &str = "voltile_renders_rejected_total";
    let remote = Remote::new();
    made::file(&remote.path("planes.h5"), |file| {
        let data = Array3::from_shape_fn((MANY, 64, 64), |(z, y, x)| voxel(z, y, x));
        let raw = file.new_dataset_builder().with_data(&data);
        raw.chunk((1, 64, 64)).create("raw").unwrap();
    });
    let server = remote.serve_planes();
    // Reads the index of the chunks.
    assert_eq!(server.get("/datasets/planes/about.json").status, 200);
    remote.objects.answer(
        "planes.h5",
        Manner {
            delay: Duration::from_secs(600),
            ..Manner::default()
        },
    );
    let asked = |client, z| {
        let mut connection = Connection::open_from(IpAddr::V4(client), server.address);
        connection.send("GET", &tile(z), &[]);
        connection
    };
    let mut greedy: Vec<Connection> = (0..MANY - 1).map(|z| asked(GREEDY, z)).collect();
    wait_until("its queue is full", || server.count(REFUSED) > 0);
    let mut is_settled = 0;
    wait_until("all of its requests have come", || {
        let before = std::mem::replace(&mut is_settled, server.count(REFUSED));
        before == is_settled
    });
    let mut lone = asked(LONE, MANY - 1);
    wait_until("another request gives way", || {
        server.count(REFUSED) > is_settled
    });
    // The requests under way stay slow.
    remote.objects.mend();
    let before = server.renders();
    greedy.drain(..200).for_each(Connection::hang_up);
    assert_eq!(lone.receive("GET").unwrap().status, 200);
    let first = server.renders() - before;
    assert!(first < 200, "{first} tiles were rendered first");
}

#[test]
fn a_large_box_of_a_slow_store_occupies_no_render_thread_and_is_given_up_with_its_client() {
    let remote = Remote::new();
    made::file(&remote.path("large.h5"), |file| {
        let data = Array3::<u8>::zeros((64, 1024, 1024));
        let raw = file.new_dataset_builder().with_data(&data);
        raw.chunk((1, 1024, 1024)).create("raw").unwrap();
    });
    volumes::planes(&remote.place.path("local.h5"), 2, 1, Stored::Flat);
    let settings = ["local.h5", "--set", "render.threads=1"];
    let more = [
        "--set",
        "render.boxes=1 GiB",
        "--set",
        "render.neighbours=0",
    ];
    let server = remote.serve(&["large.h5"], &[&settings[..], &more].concat());
    // Reads the index of the chunks.
    assert_eq!(server.get("/datasets/large/about.json").status, 200);
    let slow = |delay| {
        let manner = Manner {
            delay: Duration::from_secs(delay),
            ..Manner::default()
        };
        remote.objects.answer("large.h5", manner);
    };
    slow(1);
    remote.objects.take_asked();
    let mut connection = server.connect();
    connection.send("GET", "/voxels/large/raw/0/0-1024_0-1024_0-64.raw", &[]);
    let mut begun = 0;
    wait_until("the first part of it is on its way", || {
        let before = std::mem::replace(&mut begun, remote.objects.waiting());
        before == begun && begun >= 10
    });
    slow(600);
    wait_until("the rest of it is waited for", || {
        remote.objects.asked().len() >= begun && is_asked(&remote)
    });
    assert_eq!(
        server.tile("local/raw/xy/1/0_0_0.png").picture(),
        volumes::plane(1, 1)
    );
    assert!(is_asked(&remote), "it was answered meanwhile");
    connection.hang_up();
    wait_until("it is given up", || !is_asked(&remote));
}

#[test]
fn a_client_that_leaves_and_asks_again_at_once_does_not_repeat_the_request() {
    let remote = Remote::with_scattered_planes();
    let server = remote.serve_planes();
    // A slow machine may take longer than the grace: another plane each time.
    let is_asked_once = |z: usize| {
        remote.objects.take_asked();
        remote.objects.answer(
            "planes.h5",
            Manner {
                delay: Duration::from_millis(300),
                ..Manner::default()
            },
        );
        let mut again = server.connect();
        let mut connection = server.connect();
        connection.send("GET", &tile(z), &[]);
        wait_until("the request is in flight", || is_asked(&remote));
        connection.hang_up();
        again.send("GET", &tile(z), &[]);
        assert_eq!(
            again.receive("GET").unwrap().picture(),
            volumes::plane(1, z)
        );
        planes(&reads(&remote.objects.asked())) == [z]
    };
    assert!((3..8).any(is_asked_once), "each time it was repeated");
}

/// Whether a request waits for its answer.
fn is_asked(remote: &Remote) -> bool {
    remote.objects.waiting() > 0
}

#[test]
fn two_clients_of_one_tile_cause_one_request_and_one_may_leave() {
    let remote = Remote::with_scattered_planes();
    let server = remote.serve_planes();
    remote.objects.take_asked();
    remote.objects.answer(
        "planes.h5",
        Manner {
            delay: Duration::from_millis(300),
            ..Manner::default()
        },
    );
    let (mut one, mut other) = (server.connect(), server.connect());
    one.send("GET", &tile(3), &[]);
    other.send("GET", &tile(3), &[]);
    wait_until("the request is in flight", || {
        is_asked(&remote) || !remote.objects.asked().is_empty()
    });
    one.hang_up();
    assert_eq!(
        other.receive("GET").unwrap().picture(),
        volumes::plane(1, 3)
    );
    assert_eq!(planes(&reads(&remote.objects.asked())), [3]);
}

#[test]
fn a_tile_in_a_gap_takes_no_request() {
    let remote = Remote::new();
    made::file(&remote.path("frames.h5"), |file| {
        let data = Array3::from_shape_fn((4, 64, 64), |(z, y, x)| voxel(z, y, x));
        // The second part, with the slice in the middle, is missing.
        for number in [1, 3] {
            let builder = file.new_dataset_builder().with_data(&data);
            let builder = builder.chunk((1, 64, 64)).deflate(1);
            let name = format!("entry/data/data_00000{number}");
            builder.create(name.as_str()).unwrap();
        }
    });
    let inspected = remote
        .place
        .run(["inspect", &remote.url("frames.h5"), "--json"]);
    let inspected: serde_json::Value = serde_json::from_str(&inspected.out).unwrap();
    let tile = &inspected["channels"][0]["levels"][0]["tile"];
    assert_eq!(tile["xy"]["store"]["requests"], 0, "{inspected:#}");
    assert_ne!(tile["xz"]["store"]["requests"], 0, "{inspected:#}");
}
