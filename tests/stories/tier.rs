//! The disk cache: tiles are served again after a restart, are complete even after a kill, stay
//! within the budget, and failures of the directory do not disturb requests.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use voltile_base::flow::activity::Activity;
use voltile_base::metrics::Metrics;
use voltile_base::request::TilePath;

use crate::common::volumes::{self, Stored};
use crate::common::{CHANGED, MOUNT, Place, Server, wait_until};
use ndarray::Array3;
use serde_json::Value;
use voltile::catalog::Catalog;
use voltile::config::{Layers, load};
use voltile::service::{Client, Demand, RenderPool, TileService, WarmOutcome};
use voltile::tier::{Directory, Tier, TierKind, Tiers};

const WRITES: &str = "voltile_tier_writes_total";
const HITS: &str = "voltile_tier_hits_total";
const DROPPED: &str = "voltile_tier_dropped_total";
const CORRUPT: &str = "voltile_tier_corrupt_total";
const ERRORS: &str = "voltile_tier_errors_total";
const EVICTED: &str = "voltile_tier_evicted_total";
const BYTES: &str = "voltile_tier_bytes";

fn plane_path(z: usize) -> String {
    format!("planes/raw/xy/{z}/0_0_0.png")
}

/// A server with a disk cache and without prefetching.
fn served(place: &Place, more: &[&str]) -> Server {
    let mut arguments = vec![
        "--set",
        "cache.directory=cache",
        "--set",
        "render.neighbours=0",
    ];
    arguments.extend(more);
    place.serve(arguments)
}

fn served_planes(place: &Place) -> Server {
    served(
        place,
        &[
            "planes.h5",
            "--set",
            "datasets.planes.channels.raw.window=full",
        ],
    )
}

/// Requests every plane, and waits until all tiles are on disk.
fn warmed(place: &Place, planes: usize) {
    volumes::planes(&place.path("planes.h5"), planes, 1, Stored::Flat);
    let server = served_planes(place);
    (0..planes)
        .for_each(|z| assert_eq!(server.tile(&plane_path(z)).picture(), volumes::plane(1, z)));
    wait_until("all tiles are written", || {
        server.count(WRITES) == planes as u64
    });
}

/// The files of all tiles of a token, sorted.
fn tiles(place: &Place, token: &str) -> Vec<PathBuf> {
    let listed = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten();
        entries
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
    };
    let fans = listed(&place.path("cache/tiles").join(token));
    let mut tiles: Vec<_> = fans.iter().flat_map(|fan| listed(fan)).collect();
    tiles.retain(|path| path.extension().is_some_and(|extension| extension == "png"));
    tiles.sort();
    tiles
}

/// The report of `voltile cache stats` with every tile verified.
fn stats(place: &Place) -> Value {
    let outcome = place.run([
        "cache",
        "stats",
        "--directory",
        "cache",
        "--verify",
        "--json",
    ]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    serde_json::from_str(&outcome.out).unwrap()
}

#[test]
fn tiles_are_served_after_a_restart_without_being_rendered() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 20, 1, Stored::Gzip);
    let mut server = served_planes(&place);
    let first: Vec<_> = (0..20).map(|z| server.tile(&plane_path(z))).collect();
    let overview = "planes/raw/xy/3/small.png";
    let small = server.tile(overview);
    // Tiles that wait are written before it ends.
    server.stop();
    let server = served_planes(&place);
    for (z, before) in first.iter().enumerate() {
        let again = server.tile(&plane_path(z));
        assert_eq!(again.picture(), volumes::plane(1, z));
        assert_eq!((again.etag(), &again.body), (before.etag(), &before.body));
    }
    assert_eq!(server.tile(overview).body, small.body);
    let counts = [
        HITS,
        "voltile_renders_total",
        "voltile_chunk_reads_total",
        WRITES,
    ];
    assert_eq!(counts.map(|name| server.count(name)), [21, 0, 0, 0]);
    server.tile(&plane_path(0));
    assert_eq!(server.count(HITS), 21, "it is in memory now");
}

#[test]
fn prefetched_tiles_come_from_the_disk_cache_if_possible() {
    let place = Place::new();
    warmed(&place, 12);
    let as_stored = "datasets.planes.channels.raw.window=full";
    let server = place.serve([
        "planes.h5",
        "--set",
        "cache.directory=cache",
        "--set",
        as_stored,
    ]);
    server.tile(&plane_path(5));
    wait_until("two slices ahead and one behind are fetched", || {
        server.count(HITS) == 4
    });
    assert_eq!(
        (
            server.renders(),
            server.count("voltile_neighbours_rendered_total")
        ),
        (0, 0)
    );
}

#[test]
fn the_disk_cache_has_more_tiles_than_memory() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 30, 1, Stored::Flat);
    let server = served(&place, &["planes.h5", "--set", "cache.tiles=\"16 KiB\""]);
    (0..30).for_each(|z| drop(server.tile(&plane_path(z)).picture()));
    wait_until("all tiles are written", || server.count(WRITES) == 30);
    for z in 0..30 {
        assert_eq!(server.tile(&plane_path(z)).picture(), volumes::plane(1, z));
    }
    let metrics = server.metrics();
    assert!(metrics["voltile_tile_cache_bytes"] <= 16 << 10);
    assert_eq!((metrics["voltile_renders_total"], metrics[HITS]), (30, 30));
    assert!(metrics[BYTES] >= 30 * 4096);
}

#[test]
fn the_largest_possible_tiles_are_stored() {
    let place = Place::new();
    let file = hdf5::File::create(place.path("rgb.h5")).unwrap();
    let data = ndarray::Array4::from_shape_fn((1, 512, 512, 3), |(_, y, x, c)| noise(c, y, x));
    file.new_dataset_builder()
        .with_data(&data)
        .create("raw")
        .unwrap();
    file.close().unwrap();
    place.write(
        "voltile.toml",
        "[cache]\ndirectory = \"cache\"\ntiles = 0\n[datasets.rgb]\nfile = \"rgb.h5\"\n\
         [datasets.rgb.channels.raw]\npath = \"/raw\"\nkind = \"rgb\"\naxes = \"zyxc\"\n",
    );
    for png in ["fast", "small"] {
        let profile = format!("render.png={png}");
        let server = place.serve(["--config", "voltile.toml", "--set", &profile]);
        let tile = server.tile("rgb/raw/xy/0/0_0_0.png");
        assert!(tile.body.len() > 512 * 512 * 3, "noise does not compress");
        wait_until("it is written", || server.count(WRITES) == 1);
        assert_eq!(server.tile("rgb/raw/xy/0/0_0_0.png").body, tile.body);
        assert_eq!([HITS, CORRUPT].map(|name| server.count(name)), [1, 0]);
    }
}

#[test]
fn tiles_of_a_changed_file_are_rendered_again() {
    let place = Place::new();
    warmed(&place, 4);
    volumes::planes(&place.path("planes.h5"), 4, 2, Stored::Flat);
    let server = served_planes(&place);
    for z in 0..4 {
        assert_eq!(server.tile(&plane_path(z)).picture(), volumes::plane(2, z));
    }
    assert_eq!((server.renders(), server.count(HITS)), (4, 0));
}

/// The file is edited while it is served, and restored together with its modification time, as from
/// a backup: tiles have the old keys again.
#[test]
fn a_tile_of_an_edited_file_is_not_stored_under_the_key_of_the_original() {
    let place = Place::new();
    let path = place.path("planes.h5");
    let bytes = volumes::planes(&path, 4, 1, Stored::Flat);
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let server = served_planes(&place);
    server.allow_error(CHANGED);
    server.tile(&plane_path(0));
    wait_until("the first is written", || server.count(WRITES) == 1);
    volumes::invert(&path, &bytes[1]);
    wait_until("the changed file is shown", || {
        let answer = server.tile(&plane_path(1));
        answer.status == 200 && answer.picture() != volumes::plane(1, 1)
    });
    volumes::invert(&path, &bytes[1]);
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(time)
        .unwrap();
    server.wait_for_log("has changed since it was opened");
    drop(server);
    let server = served_planes(&place);
    for z in 0..2 {
        assert_eq!(server.tile(&plane_path(z)).picture(), volumes::plane(1, z));
    }
    assert_eq!((server.count(HITS), server.renders()), (1, 1));
}

#[test]
fn damaged_tiles_are_removed_counted_logged_and_rendered_again() {
    let place = Place::new();
    warmed(&place, 8);
    let files = tiles(&place, "planes");
    assert_eq!(files.len(), 8);
    fs::write(&files[0], "dear diary").unwrap();
    volumes::truncate(&files[1], 1000);
    volumes::truncate(&files[2], 0);
    volumes::invert(&files[3], &(700..701));
    fs::copy(&files[5], &files[4]).unwrap();
    let verified = place.run(["cache", "stats", "--directory", "cache", "--verify"]);
    assert_eq!(verified.code, 1);
    assert!(
        verified.out.contains("5 damaged") && verified.err.contains("5 tiles are damaged"),
        "{}",
        verified.out
    );
    let server = served_planes(&place);
    for z in 0..8 {
        assert_eq!(server.tile(&plane_path(z)).picture(), volumes::plane(1, z));
    }
    wait_until("they are written again", || server.count(WRITES) == 5);
    assert_eq!(
        [HITS, CORRUPT, ERRORS].map(|name| server.count(name)),
        [3, 5, 0]
    );
    server.wait_for_log("is damaged and was removed");
    assert_eq!(
        (
            stats(&place)["tiles"].as_u64(),
            stats(&place)["corrupt"].as_u64()
        ),
        (Some(8), Some(0))
    );
}

/// The planes of the large volume; each fills a tile.
const LARGE: usize = 60;

/// Noise that no PNG filter makes smaller.
fn noise(z: usize, y: usize, x: usize) -> u8 {
    let mixed = ((z * 512 + y) * 512 + x).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 56) as u8
}

/// Writes a volume whose tiles have about 260 KiB each.
fn large(place: &Place) {
    let file = hdf5::File::create(place.path("large.h5")).unwrap();
    let data = Array3::from_shape_fn((LARGE, 512, 512), |(z, y, x)| noise(z, y, x));
    file.new_dataset_builder()
        .with_data(&data)
        .create("raw")
        .unwrap();
    file.close().unwrap();
}

/// The tiles of a round; no two rounds share a tile.
fn round_of(round: usize) -> Vec<String> {
    let channel = [
        "large/raw",
        "mcfc/large/raw:C",
        "mcfc/large/raw:M",
        "mcfc/large/raw:R",
        "mcfc/large/raw:G",
    ];
    let plane = |z| format!("{}/xy/{z}/0_0_0.png", channel[round % 5]);
    let across = |slice| format!("large/raw/xz/{}/0_0_0.png", slice + LARGE * (round - 5));
    (0..LARGE)
        .map(|slice| {
            if round < 5 {
                plane(slice)
            } else {
                across(slice)
            }
        })
        .collect()
}

/// Requests tiles until all are answered or the server is gone.
fn asked(address: SocketAddr, paths: &[String], next: &AtomicUsize) -> io::Result<()> {
    while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "GET {MOUNT}/{path} HTTP/1.1\r\nHost: voltile.test\r\nConnection: close\r\n\r\n"
        )?;
        stream.read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

#[test]
#[ignore = "slow: kills many servers"]
fn a_killed_server_leaves_no_incomplete_or_wrong_tile() {
    const ROUNDS: usize = 10;
    let place = Place::new();
    large(&place);
    let mut left = 0;
    for round in 0..ROUNDS {
        let mut server = served(&place, &["large.h5"]);
        let (paths, next, address) = (round_of(round), AtomicUsize::new(0), server.address);
        // After up to twenty-three tiles of the round.
        let moment = 1 + (round * 7919) % 23;
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| asked(address, &paths, &next));
            }
            wait_until("it is in the middle of writing", || {
                tiles(&place, "large").len() >= left + moment
            });
            server.kill();
        });
        left = tiles(&place, "large").len();
    }
    let found = stats(&place);
    assert_eq!(
        (found["tiles"].as_u64(), found["corrupt"].as_u64()),
        (Some(left as u64), Some(0))
    );
    let with = served(&place, &["large.h5"]);
    let without = place.serve(["large.h5", "--set", "render.neighbours=0"]);
    let paths: Vec<_> = (0..ROUNDS).flat_map(round_of).collect();
    thread::scope(|scope| {
        for half in [0, 1] {
            let (with, without, paths) = (&with, &without, &paths);
            scope.spawn(move || {
                let (mut with, mut without) = (with.connect(), without.connect());
                for path in paths.iter().skip(half).step_by(2) {
                    let target = format!("{MOUNT}/{path}");
                    assert!(
                        with.get(&target).picture() == without.get(&target).picture(),
                        "{path}"
                    );
                }
            });
        }
    });
    assert_eq!((with.count(HITS), with.count(CORRUPT)), (left as u64, 0));
}

#[test]
fn the_disk_cache_is_kept_within_its_budget() {
    let place = Place::new();
    large(&place);
    let server = served(&place, &["large.h5", "--set", "cache.disk=\"4 MiB\""]);
    let mut connection = server.connect();
    for path in round_of(0) {
        assert_eq!(connection.get(&format!("{MOUNT}/{path}")).status, 200);
    }
    let is_settled = || {
        let metrics = server.metrics();
        metrics[EVICTED] > 0
            && metrics[WRITES] + metrics[DROPPED] == LARGE as u64
            && metrics[BYTES] <= 4 << 20
    };
    wait_until("the excess is removed", is_settled);
    let found = stats(&place);
    assert!(found["bytes"].as_u64().unwrap() <= 4 << 20, "{found}");
    assert_eq!(
        server.count(WRITES) - server.count(EVICTED),
        found["tiles"].as_u64().unwrap()
    );
    assert!(
        found["tiles"].as_u64().unwrap() > 5,
        "only the excess is removed: {found}"
    );
}

#[test]
fn a_directory_beyond_its_budget_at_start_is_reduced_to_it() {
    let place = Place::new();
    warmed(&place, 30);
    let oldest: Vec<_> = tiles(&place, "planes").into_iter().take(10).collect();
    for path in &oldest {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
    }
    let budget = format!("cache.disk={}", 25 * 4096);
    let server = served(&place, &["planes.h5", "--set", &budget]);
    wait_until("the excess is removed", || server.count(BYTES) == 22 * 4096);
    let left = tiles(&place, "planes");
    assert_eq!((left.len(), server.count(EVICTED)), (22, 8));
    assert_eq!(
        oldest.iter().filter(|path| left.contains(path)).count(),
        2,
        "the oldest go first"
    );
}

#[test]
fn tiles_dated_in_the_future_are_removed_first_unless_they_are_read() {
    let place = Place::new();
    warmed(&place, 30);
    let ahead: Vec<_> = tiles(&place, "planes").into_iter().take(10).collect();
    for path in &ahead {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::now() + Duration::from_secs(365 * 24 * 3600))
            .unwrap();
    }
    let budget = format!("cache.disk={}", 25 * 4096);
    let server = served(&place, &["planes.h5", "--set", &budget]);
    wait_until("the excess is removed", || server.count(BYTES) == 22 * 4096);
    let left = tiles(&place, "planes");
    assert_eq!((left.len(), server.count(EVICTED)), (22, 8));
    assert_eq!(
        ahead.iter().filter(|path| left.contains(path)).count(),
        2,
        "they go first"
    );
}

#[test]
fn two_servers_share_one_directory() {
    let place = Place::new();
    large(&place);
    let (one, two) = (served(&place, &["large.h5"]), served(&place, &["large.h5"]));
    let paths = round_of(0);
    let (first, both) = paths.split_at(LARGE / 2);
    first.iter().for_each(|path| drop(one.tile(path).picture()));
    wait_until("the first server has written its tiles", || {
        one.count(WRITES) == first.len() as u64
    });
    first.iter().for_each(|path| drop(two.tile(path).picture()));
    assert_eq!((two.renders(), two.count(HITS)), (0, first.len() as u64));
    thread::scope(|scope| {
        for server in [&one, &two] {
            scope.spawn(move || {
                both.iter()
                    .for_each(|path| drop(server.tile(path).picture()));
            });
        }
    });
    let (mut one, mut two) = (one, two);
    one.stop();
    two.stop();
    assert_eq!(
        (
            stats(&place)["tiles"].as_u64(),
            stats(&place)["corrupt"].as_u64()
        ),
        (Some(60), Some(0))
    );
}

#[test]
fn only_the_server_that_holds_the_lock_evicts_and_another_takes_over_after_it_was_killed() {
    let place = Place::new();
    warmed(&place, 30);
    let mut first = served_planes(&place);
    wait_until("it has counted the tiles", || {
        first.count(BYTES) == 30 * 4096
    });
    let small = ["planes.h5", "--set", "cache.disk=\"100 KiB\""];
    let second = served(&place, &small);
    (0..3).for_each(|z| drop(second.tile(&plane_path(z)).picture()));
    wait_until("further tiles are written", || second.count(WRITES) == 3);
    assert_eq!(tiles(&place, "planes").len(), 33);
    assert_eq!([EVICTED, BYTES].map(|name| second.count(name)), [0, 0]);
    first.kill();
    let third = served(&place, &small);
    wait_until("one of them evicts", || {
        second.count(BYTES) + third.count(BYTES) == 22 * 4096
    });
    assert_eq!(tiles(&place, "planes").len(), 22);
}

#[test]
fn tiles_are_served_and_few_lines_logged_if_the_directory_can_be_neither_read_nor_written() {
    let place = Place::new();
    warmed(&place, 1);
    fs::remove_dir_all(place.path("cache/tiles/planes")).unwrap();
    place.write("cache/tiles/planes", "in the way");
    volumes::planes(&place.path("planes.h5"), 30, 1, Stored::Flat);
    let server = served_planes(&place);
    server.expect_error("cannot be read: Not a directory");
    server.expect_error("cannot be written: Not a directory");
    for z in 0..30 {
        assert_eq!(server.tile(&plane_path(z)).picture(), volumes::plane(1, z));
    }
    wait_until("all reads and writes have failed", || {
        server.count(ERRORS) == 60
    });
    server.wait_for_log("cache.directory");
    // Three lines a minute for each of two kinds of errors.
    let lines = server
        .log()
        .lines()
        .filter(|line| line.contains("cache.directory"))
        .count();
    assert!((1..30).contains(&lines), "{}", server.log());
    fs::remove_file(place.path("cache/tiles/planes")).unwrap();
    volumes::planes(&place.path("more.h5"), 1, 1, Stored::Flat);
    let mut server = served(&place, &["planes.h5", "more.h5"]);
    server.tile(&plane_path(0));
    server.stop();
    assert_eq!(tiles(&place, "planes").len(), 1, "it works again");
}

#[test]
fn a_foreign_directory_is_refused_and_not_changed() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 1, 1, Stored::Flat);
    fs::create_dir(place.path("thesis")).unwrap();
    place.write("thesis/chapter.tex", "words");
    for (directory, reason) in [
        ("thesis", "nor a voltile cache"),
        ("planes.h5", "not a directory"),
    ] {
        let set = format!("cache.directory={directory}");
        for (arguments, code) in [
            (
                vec!["serve", "planes.h5", "--bind", "127.0.0.1:0", "--set", &set],
                2,
            ),
            (vec!["check", "planes.h5", "--set", &set], 1),
            (vec!["cache", "stats", "--set", &set], 2),
            (vec!["cache", "stats", "--directory", directory], 2),
            (vec!["cache", "clear", "--directory", directory], 2),
        ] {
            let outcome = place.run(&arguments);
            assert_eq!(outcome.code, code, "{arguments:?}: {}", outcome.err);
            assert!(
                outcome.err.contains(reason) && outcome.err.contains(directory),
                "{}",
                outcome.err
            );
        }
    }
    assert_eq!(fs::read_dir(place.path("thesis")).unwrap().count(), 1);
}

#[test]
fn a_server_runs_without_a_directory_that_cannot_be_created() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 2, 1, Stored::Flat);
    let server = place.serve(["planes.h5", "--set", "cache.directory=/proc/voltile"]);
    server.expect_error("/proc/voltile cannot be made a cache");
    server.allow_error("cache.directory: /proc/voltile");
    assert_eq!(server.tile(&plane_path(1)).picture(), volumes::plane(1, 1));
    wait_until("writing has failed, too", || server.count(ERRORS) >= 2);
}

/// Like `voltile warm`: without a server and without a cache in memory.
#[test]
fn a_service_without_a_server_warms_each_tile_once() {
    let place = Place::new();
    let path = place.path("planes.h5");
    let bytes = volumes::planes(&path, 6, 1, Stored::Flat);
    let (metrics, activity) = (Metrics::default(), Activity::default());
    let settings = load(&Layers {
        files: vec![path.clone().into()],
        ..Layers::default()
    })
    .settings;
    let catalog = Catalog::open(&settings, &metrics, &activity).catalog;
    let pool = RenderPool::new(NonZeroUsize::MIN, 4, activity, metrics.clone()).unwrap();
    let directory = Directory::open(&place.path("cache")).unwrap();
    let tier = Tier::start(TierKind::Directory, directory, metrics.tier.clone()).unwrap();
    let service = TileService::new(catalog, 0, 0, pool, metrics.clone())
        .unwrap()
        .with_tiers(Tiers::new(vec![tier]));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let warm = |z: usize| {
        let path = format!("{MOUNT}/{}", plane_path(z));
        let request = TilePath::split(&path).unwrap().unwrap().request().unwrap();
        let catalog = service.catalog();
        let prefetch = Demand::prefetch(Client::InProcess);
        let planned = service.plan(&catalog, &request.token, prefetch, || {
            catalog.plan_tile(&request)
        });
        let plan = runtime.block_on(planned).unwrap();
        runtime.block_on(service.warm(&plan))
    };
    for z in 0..5 {
        assert!(matches!(warm(z), Ok(WarmOutcome::Drawn(bytes)) if bytes > 1000));
        assert_eq!(
            tiles(&place, "planes").len(),
            z + 1,
            "it is written when the call returns"
        );
        assert!(matches!(warm(z), Ok(WarmOutcome::WasThere)));
    }
    assert!(matches!(warm(6), Ok(WarmOutcome::Black)));
    assert_eq!((metrics.renders.get(), metrics.tier.writes.get()), (5, 5));
    let request = TilePath::split(&format!("{MOUNT}/{}", plane_path(5)))
        .unwrap()
        .unwrap()
        .request()
        .unwrap();
    let prefetch = Demand::prefetch(Client::InProcess);
    let catalog = service.catalog();
    let planned = service.plan(&catalog, &request.token, prefetch, || {
        catalog.plan_tile(&request)
    });
    let plan = runtime.block_on(planned).unwrap();
    volumes::invert(&path, &bytes[5]);
    let warmed = runtime.block_on(service.warm(&plan));
    let error = warmed.expect_err("its file has changed").public();
    assert!(error.contains("has changed since it was opened"), "{error}");
    assert_eq!(tiles(&place, "planes").len(), 5);
}

#[test]
fn check_creates_no_directory() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 1, 1, Stored::Flat);
    assert_eq!(
        place
            .run(["check", "planes.h5", "--set", "cache.directory=cache"])
            .code,
        0
    );
    assert!(!place.path("cache").exists());
}

/// A place with 5 tiles of one token and 3 of another in the disk cache.
fn two_tokens() -> Place {
    let place = Place::new();
    for token in ["one", "two"] {
        volumes::planes(&place.path(&format!("{token}.h5")), 5, 1, Stored::Flat);
    }
    let mut server = served(&place, &["one.h5", "two.h5"]);
    for (token, count) in [("one", 5), ("two", 3)] {
        (0..count).for_each(|z| {
            drop(
                server
                    .tile(&format!("{token}/raw/xy/{z}/0_0_0.png"))
                    .picture(),
            );
        });
    }
    server.stop();
    place
}

#[test]
fn stats_count_tiles_by_token() {
    let place = two_tokens();
    place.write(
        "voltile.toml",
        "[cache]\ndirectory = \"cache\"\ndisk = \"1 GiB\"\n",
    );
    let outcome = place.run(["cache", "stats", "--json"]);
    let found: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(
        (found["budget"].as_u64(), found["tiles"].as_u64()),
        (Some(1 << 30), Some(8))
    );
    assert_eq!(
        (found["bytes"].as_u64(), found["corrupt"].as_u64()),
        (Some(8 * 4096), None)
    );
    let counted = |token: usize| {
        (
            found["tokens"][token]["token"].clone(),
            found["tokens"][token]["tiles"].clone(),
        )
    };
    assert_eq!(
        [counted(0), counted(1)],
        [("one".into(), 5.into()), ("two".into(), 3.into())]
    );
    let table = place.run(["cache", "stats", "--verify"]);
    for word in [
        "1.0 GiB",
        "one",
        "two",
        "5 tiles",
        "8 tiles",
        "32.0 KiB",
        "0 damaged",
    ] {
        assert!(table.out.contains(word), "{word} is not in {}", table.out);
    }
    let nothing = place.run(["cache", "stats", "--directory", "nowhere"]);
    assert!(
        nothing.code == 0 && nothing.out.contains("0 tiles"),
        "{}",
        nothing.out
    );
    fs::remove_file(place.path("voltile.toml")).unwrap();
    let unnamed = place.run(["cache", "stats"]);
    assert!(
        unnamed.code == 2 && unnamed.err.contains("cache.directory"),
        "{}",
        unnamed.err
    );
}

#[test]
fn clear_removes_the_tiles_of_one_token_or_of_all() {
    let place = two_tokens();
    let clear =
        |more: &[&str]| place.run([&["cache", "clear", "--directory", "cache"][..], more].concat());
    let unknown = clear(&["three"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("one, two"), "{}", unknown.err);
    assert_eq!(clear(&["../one"]).code, 2);
    let notes = tiles(&place, "two")[0].with_file_name("notes.txt");
    fs::write(&notes, "mine").unwrap();
    let one = clear(&["one"]);
    assert_eq!(
        (one.code, one.out.trim()),
        (0, "removed 5 tiles of one, 20.0 KiB")
    );
    assert_eq!(
        (tiles(&place, "one").len(), tiles(&place, "two").len()),
        (0, 3)
    );
    assert!(!place.path("cache/tiles/one").exists());
    let all = clear(&[]);
    assert_eq!(
        (all.code, all.out.trim()),
        (0, "removed 3 tiles of two, 12.0 KiB")
    );
    assert_eq!(stats(&place)["tiles"], 0);
    assert!(place.path("cache/CACHEDIR.TAG").exists() && notes.exists());
}

#[test]
fn tiles_are_served_while_the_directory_is_cleared_repeatedly() {
    let place = Place::new();
    large(&place);
    let server = served(&place, &["large.h5", "--set", "cache.tiles=0"]);
    let requests = || {
        let mut connection = server.connect();
        for path in round_of(5).iter().chain(&round_of(5)) {
            assert_eq!(connection.get(&format!("{MOUNT}/{path}")).status, 200);
        }
        wait_until("all tiles are written", || {
            server.count(WRITES) + server.count(DROPPED) == server.renders()
        });
    };
    thread::scope(|scope| {
        let requests = scope.spawn(requests);
        while !requests.is_finished() {
            assert_eq!(
                place.run(["cache", "clear", "--directory", "cache"]).code,
                0
            );
        }
    });
    assert_eq!(
        [ERRORS, CORRUPT].map(|name| server.count(name)),
        [0, 0],
        "{}",
        server.log()
    );
}
