//! Replicas: servers that share tiles through Redis, agree on every ETag, and stand in for each
//! other behind nginx.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::helpers::{self, Helper};
use crate::common::picture::Picture;
use crate::common::volumes::{self, EDGE, Stored};
use crate::common::wire::Connection;
use crate::common::{MOUNT, Place, Server, fixture, until_in_time, wait_until};

const PLANES: usize = 24;
const SEED: usize = 3;
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

fn plane_path(z: usize) -> String {
    format!("planes/raw/xy/{z}/0_0_0.png")
}

/// A server for its own copy of the planes in a folder.
fn replica(place: &Place, folder: &str, more: &[&str]) -> Server {
    let path = place.path(folder);
    if !path.exists() {
        fs::create_dir(&path).unwrap();
        let file = path.join("planes.h5");
        if place.path("planes.h5").exists() {
            fs::copy(place.path("planes.h5"), &file).unwrap();
        } else {
            volumes::planes(&place.path("planes.h5"), PLANES, SEED, Stored::Gzip);
            fs::copy(place.path("planes.h5"), &file).unwrap();
        }
    }
    let file = path.join("planes.h5");
    let mut arguments = vec![file.to_str().unwrap(), "--set", "files.identity=content"];
    arguments.extend(["--set", "render.neighbours=0"]);
    arguments.extend(["--set", "datasets.planes.channels.raw.window=full"]);
    arguments.extend(more);
    place.serve(arguments)
}

fn problem_of_redis(server: &Server) -> Option<String> {
    let ready = server.json("/readyz");
    assert_eq!(ready["status"], "ready");
    let problems = ready["problems"].as_array().unwrap();
    let redis = problems
        .iter()
        .find(|problem| problem["part"] == "cache.redis")?;
    Some(redis["problem"].as_str().unwrap().to_owned())
}

/// Requests every plane; every picture must be right.
fn ask_for_all(server: &Server) {
    (0..PLANES).for_each(|z| {
        assert_eq!(
            server.tile(&plane_path(z)).picture(),
            volumes::plane(SEED, z)
        );
    });
}

#[test]
#[ignore = "slow: needs Redis"]
fn a_tile_that_one_replica_has_rendered_is_not_rendered_by_another() {
    let place = Place::new();
    let Some(redis) = helpers::redis(&place, None, "") else {
        return;
    };
    let address = format!("cache.redis=redis://127.0.0.1:{}/2", redis.port);
    // Lookups that take too long are misses: on a slow machine, tiles are rendered and written
    // again.
    until_in_time(|attempt| {
        let one = replica(&place, "one", &["--set", &address]);
        ask_for_all(&one);
        wait_until("everything is looked up and written", || {
            let written =
                one.count("voltile_redis_writes_total") + one.count("voltile_redis_dropped_total");
            written + one.count("voltile_redis_errors_total") >= one.renders()
        });
        let two = replica(&place, &format!("two-{attempt}"), &["--set", &address]);
        ask_for_all(&two);
        let counts = [
            "voltile_renders_total",
            "voltile_redis_hits_total",
            "voltile_chunk_reads_total",
        ];
        (counts.map(|name| two.count(name)) == [0, PLANES as u64, 0]).then_some(())
    });
    // One that finds a tile there also writes it to its disk cache.
    until_in_time(|attempt| {
        let directory = format!("cache.directory=cache-{attempt}");
        let three = replica(&place, "three", &["--set", &address, "--set", &directory]);
        let told = three
            .tile(&plane_path(1))
            .header("server-timing")
            .map(str::to_owned);
        let is_shared = told.as_deref() == Some("cache;desc=\"shared\"");
        is_shared.then(|| {
            wait_until("it is on disk", || {
                three.count("voltile_tier_writes_total") == 1
            });
        })
    });
}

#[test]
#[ignore = "slow: needs Redis"]
fn without_redis_no_tile_waits_for_it_and_it_is_used_when_it_is_there() {
    let place = Place::new();
    let Some(first) = helpers::redis(&place, None, "hidden-word") else {
        return;
    };
    let port = first.port;
    drop(first);
    let address = format!("cache.redis=redis://:hidden-word@127.0.0.1:{port}");
    let server = replica(&place, "one", &["--set", &address]);
    ask_for_all(&server);
    let counts = ["skipped_total", "errors_total", "breaker_open"]
        .map(|name| server.count(&format!("voltile_redis_{name}")));
    assert_eq!(counts, [PLANES as u64, 0, 1], "nothing was asked");
    let problem = problem_of_redis(&server).unwrap();
    assert!(
        problem.contains(&format!("redis://127.0.0.1:{port}/0 could not be reached")),
        "{problem}"
    );
    let redis = helpers::redis(&place, Some(port), "hidden-word");
    wait_until("Redis is found", || problem_of_redis(&server).is_none());
    wait_until("tiles are written", || {
        server.tile("planes/raw/xz/3/0_0_0.png");
        ask_for_others(&server);
        server.count("voltile_redis_writes_total") > 0
    });
    server.wait_for_log("answers again");
    assert!(!server.log().contains("hidden-word"), "{}", server.log());
    drop(redis);
}

/// Requests tiles that have not been requested before.
fn ask_for_others(server: &Server) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % EDGE;
    server.tile(&format!("planes/raw/yz/{number}/0_0_0.png"));
}

/// A server that understands nothing and answers after a while; counts the lookups that it was
/// sent.
fn slow_redis() -> (u16, Arc<AtomicUsize>) {
    let (listener, lookups) = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        Arc::new(AtomicUsize::new(0)),
    );
    let (port, counted) = (listener.local_addr().unwrap().port(), Arc::clone(&lookups));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, counted) = (stream.unwrap(), Arc::clone(&counted));
            thread::spawn(move || {
                for line in BufReader::new(stream.try_clone().unwrap())
                    .lines()
                    .map_while(Result::ok)
                {
                    counted.fetch_add(usize::from(line == "GET"), Ordering::SeqCst);
                    thread::sleep(Duration::from_secs(5));
                    if stream.write_all(b"+OK\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    (port, lookups)
}

#[test]
fn a_redis_that_answers_after_five_seconds_is_not_asked_for_tiles() {
    let place = Place::new();
    let (port, lookups) = slow_redis();
    let server = replica(
        &place,
        "one",
        &["--set", &format!("cache.redis=redis://127.0.0.1:{port}")],
    );
    ask_for_all(&server);
    assert_eq!(server.count("voltile_redis_skipped_total"), PLANES as u64);
    assert_eq!(lookups.load(Ordering::SeqCst), 0);
    assert!(problem_of_redis(&server).is_some());
}

/// The most that is sent on one connection: less than would fill the memory of this machine.
const MAX_SENT: usize = 256 << 20;

/// A server at which everything is well but lookups: it announces two gigabytes, and begins to send
/// them. Counts lookups, and keeps the most bytes that it could send for one.
fn endless_redis() -> (u16, Arc<[AtomicUsize; 2]>) {
    let (listener, seen) = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        Arc::<[AtomicUsize; 2]>::default(),
    );
    let (port, shared) = (listener.local_addr().unwrap().port(), Arc::clone(&seen));
    let serve = |mut stream: TcpStream, [lookups, most]: &[AtomicUsize; 2]| {
        let mut input = BufReader::new(stream.try_clone().unwrap());
        let mut word = Vec::new();
        while input
            .read_until(b'\n', &mut word)
            .is_ok_and(|length| length > 0)
        {
            let answer = match word.trim_ascii_end() {
                b"PING" => "+PONG\r\n",
                b"SET" => "+OK\r\n",
                b"GET" => {
                    lookups.fetch_add(1, Ordering::SeqCst);
                    let mut sent = 0;
                    let _ = stream.write_all(b"$2147483647\r\n");
                    while sent < MAX_SENT && stream.write_all(&[7; 1 << 16]).is_ok() {
                        sent += 1 << 16;
                        most.fetch_max(sent, Ordering::SeqCst);
                    }
                    return;
                }
                _ => "",
            };
            word.clear();
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            let shared = Arc::clone(&shared);
            thread::spawn(move || serve(stream.unwrap(), &shared));
        }
    });
    (port, seen)
}

#[test]
fn a_redis_that_sends_without_end_is_read_no_further_than_the_longest_entry() {
    let place = Place::new();
    let (port, seen) = endless_redis();
    let server = replica(
        &place,
        "one",
        &["--set", &format!("cache.redis=redis://127.0.0.1:{port}")],
    );
    server.allow_error("cache.redis");
    let lookups = || seen[0].load(Ordering::SeqCst);
    wait_until("it is asked for tiles a few times", || {
        ask_for_others(&server);
        lookups() >= 6
    });
    ask_for_all(&server);
    // What both sockets of a connection buffer may be several MiB.
    let most = seen[1].load(Ordering::SeqCst);
    assert!(most < MAX_SENT / 4, "{most} bytes were taken");
    assert!(server.count("voltile_redis_errors_total") > 0);
}

#[test]
#[ignore = "slow: needs Redis"]
fn a_redis_that_stops_while_it_is_used_is_soon_not_asked_any_more() {
    let place = Place::new();
    let Some(mut redis) = helpers::redis(&place, None, "") else {
        return;
    };
    let server = replica(
        &place,
        "one",
        &[
            "--set",
            &format!("cache.redis=redis://127.0.0.1:{}", redis.port),
        ],
    );
    server.allow_error("cache.redis");
    wait_until("Redis is found", || {
        server.count("voltile_redis_breaker_open") == 0
    });
    server.tile(&plane_path(0));
    redis.kill();
    ask_for_all(&server);
    wait_until("the breaker is open", || {
        ask_for_others(&server);
        server.count("voltile_redis_breaker_open") == 1
    });
    // Three lookups or writes fail, and at most eight that were made at the same time.
    assert!(
        server.count("voltile_redis_errors_total") <= 3 + 8,
        "{:?}",
        server.metrics()
    );
}

#[test]
fn addresses_of_redis_are_checked_and_passwords_are_not_repeated() {
    let place = Place::new();
    for wrong in [
        "redis://:hidden-word@",
        "rediss://:hidden-word@a",
        "http://:hidden-word@a",
        "hidden-word",
    ] {
        place.write("voltile.toml", &format!("[cache]\nredis = \"{wrong}\"\n"));
        let outcome = place.run(["check"]);
        assert_eq!(outcome.code, 1, "{}", outcome.err);
        assert!(
            outcome.err.contains("cache.redis") && outcome.err.contains("line 2"),
            "{}",
            outcome.err
        );
        assert!(
            !outcome.err.contains("hidden") && !outcome.out.contains("hidden"),
            "{}",
            outcome.err
        );
    }
}

/// The ETags of one thing in each format, and the version.
fn tags(server: &Server) -> Vec<String> {
    let paths = [
        format!("{MOUNT}/{}", plane_path(3)),
        format!("{MOUNT}/mcfc/planes/raw:R/xy/3/0_0_0.png"),
        format!("{MOUNT}/planes/raw/xy/3/small.png"),
        "/voxels/planes/raw/0/0-4_0-4_0-4.npy".to_owned(),
        format!("/neuroglancer/planes/raw/{}", first_chunk(server)),
        "/zarr/0.4/planes.ome.zarr/0/0/0/0".to_owned(),
        "/zarr/0.5/planes/raw.ome.zarr/0/c/0/0/0".to_owned(),
    ];
    let tag = |path: &String| {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.etag().to_owned()
    };
    paths.iter().map(tag).chain([version(server)]).collect()
}

/// The name of the first chunk in Neuroglancer's format.
fn first_chunk(server: &Server) -> String {
    let scale = &server.json("/neuroglancer/planes/raw/info")["scales"][0];
    let number = |list: &serde_json::Value, axis: usize| list[axis].as_u64().unwrap();
    let end = |axis| number(&scale["chunk_sizes"][0], axis).min(number(&scale["size"], axis));
    format!("0/0-{}_0-{}_0-{}", end(0), end(1), end(2))
}

fn version(server: &Server) -> String {
    server.json("/datasets.json")["datasets"][0]["version"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn copies_of_a_file_have_the_same_etags_if_they_are_identified_by_content() {
    let place = Place::new();
    let (one, two) = (
        replica(&place, "one", &[]),
        replica(&place, "two", &["--set", "cache.directory=cache"]),
    );
    let before = tags(&one);
    assert_eq!(before, tags(&two));
    let by_file = replica(&place, "two", &["--set", "files.identity=file"]);
    assert!(
        tags(&by_file)
            .iter()
            .zip(&before)
            .all(|(other, tag)| other != tag)
    );
    drop((by_file, two));
    // Other times of the same contents; a restart.
    let file = place.path("two/planes.h5");
    fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(
        tags(&replica(&place, "two", &["--set", "cache.directory=cache"])),
        before
    );
    // Other contents, while it is served.
    volumes::planes(&place.path("next.h5"), PLANES, SEED + 1, Stored::Gzip);
    fs::rename(place.path("next.h5"), place.path("one/planes.h5")).unwrap();
    one.signal(Signal::HUP);
    wait_until("the file is reopened", || {
        let answer = one.tile(&plane_path(3));
        answer.status == 200 && answer.etag() != before[0]
    });
    one.allow_error("has changed");
    assert!(tags(&one).iter().zip(&before).all(|(new, old)| new != old));
    let cache = place.run(["cache", "stats", "--directory", "cache", "--verify"]);
    assert_eq!(
        cache.code, 0,
        "digests in a cache directory are part of it: {}",
        cache.err
    );
}

#[test]
fn keys_and_versions_are_the_same_on_every_machine() {
    let place = Place::new();
    // A copy: its digest is kept beside it.
    fs::copy(fixture("enums.h5"), place.path("enums.h5")).unwrap();
    let server = place.serve(["enums.h5", "--set", "files.identity=content"]);
    let tag = |path: &str| server.get(path).etag().trim_matches('"').to_owned();
    let tile = tag(&format!("{MOUNT}/enums/bool/xz/1/0_0_0.png"));
    let cutout = tag("/voxels/enums/bool/0/0-2_0-3_0-1.npy");
    let pinned = [
        "00de515798b1e6ef8a8a864421588bac",
        "2e93283e0f078f9f6dbdf4e860012d0e",
        "7a5b15c9a729",
    ];
    assert_eq!(
        [tile, cutout, version(&server)],
        pinned,
        "if pixels or documents could be others now, increment RULES; then pin these"
    );
}

/// Every form of address of the planes, and whether what is there is kept for a year.
fn addresses(token: &str, chunk: &str) -> BTreeMap<String, bool> {
    let info = format!("{MOUNT}/{token}/info");
    let kept = [
        format!("{MOUNT}/{token}/raw/xy/3/0_0_0.png"),
        format!("{MOUNT}/{token}/raw/xy/900/0_0_0.png"),
        format!("{MOUNT}/mcfc/{token}/raw:R/xy/3/0_0_0.png"),
        format!("{MOUNT}/viking/{token}/volume/raw/0/X0_Y0_Z3.png"),
        format!("{MOUNT}/{token}/raw/xy/3/small.png"),
        format!("/voxels/{token}/raw/0/0-4_0-4_0-4.raw"),
        format!("/neuroglancer/{token}/raw/info"),
        format!("/neuroglancer/{token}/raw/{chunk}"),
        format!("/zarr/0.4/{token}.ome.zarr/.zattrs"),
        format!("/zarr/0.4/{token}.ome.zarr/0/0/0/0"),
        format!("/zarr/0.5/{token}/raw.ome.zarr/zarr.json"),
    ];
    let asked_again = [
        format!("/datasets/{token}.json"),
        format!("{MOUNT}/viking/{token}/volume.vikingxml"),
        info,
    ];
    kept.into_iter()
        .map(|path| (path, true))
        .chain(asked_again.map(|path| (path, false)))
        .collect()
}

#[test]
fn addresses_with_a_version_never_change_their_content() {
    let place = Place::new();
    let server = replica(&place, "one", &[]);
    let (version, chunk) = (version(&server), first_chunk(&server));
    for ((plain, is_kept), named) in addresses("planes", &chunk)
        .into_iter()
        .zip(addresses(&format!("planes@{version}"), &chunk))
    {
        let (before, answer) = (server.get(&plain), server.get(&named.0));
        assert_eq!(
            (answer.status, &answer.body),
            (200, &before.body),
            "{named:?}"
        );
        let [shown, plain] =
            [&answer, &before].map(|answer| answer.header("cache-control") == Some(IMMUTABLE));
        assert_eq!((shown, plain), (is_kept, false), "{named:?}");
        if let Some(tag) = answer.header("etag") {
            let again = server.ask("GET", &named.0, &[("If-None-Match", tag)]);
            assert_eq!(
                (
                    again.status,
                    again.header("cache-control") == Some(IMMUTABLE)
                ),
                (304, is_kept)
            );
        }
    }
    for (path, _) in addresses("planes@000000000000", &chunk) {
        let answer = server.get(&path);
        assert_eq!(
            (answer.status, answer.header("cache-control")),
            (404, Some("no-store")),
            "{path}"
        );
        assert!(
            answer.text().contains("outdated") && answer.text().contains(&version),
            "{path}: {answer:?}"
        );
    }
    // Settings that decide pixels decide the version too.
    drop(server);
    let other = replica(
        &place,
        "one",
        &["--set", "datasets.planes.offset=[0, 0, 1]"],
    );
    let outdated = other.get(&format!("{MOUNT}/planes@{version}/raw/xy/3/0_0_0.png"));
    assert_eq!(outdated.status, 404);
}

#[test]
fn versions_of_protected_datasets_are_protected() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), PLANES, SEED, Stored::Gzip);
    place.write("lab.txt", "secret-of-the-lab\n");
    place.write(
        "voltile.toml",
        "[[access]]\nsecrets = \"lab.txt\"\n[datasets.planes]\nfile = \"planes.h5\"\n",
    );
    let server = place.serve::<&str>([]);
    let version =
        server.json("/k/secret-of-the-lab/datasets.json")["datasets"][0]["version"].clone();
    let (version, chunk) = (version.as_str().unwrap(), "0/0-40_0-40_0-24");
    for version in [version, "000000000000"] {
        for (path, is_kept) in addresses(&format!("planes@{version}"), chunk) {
            assert_eq!(server.get(&path).status, 401, "{path}");
            let opened = server.get(&format!("/k/secret-of-the-lab{path}"));
            let control = opened.header("cache-control").unwrap();
            assert!(control.contains("private"), "{path}: {control}");
            assert_eq!(
                control.contains("immutable"),
                is_kept && opened.status == 200,
                "{path}: {control}"
            );
        }
    }
}

#[test]
fn documents_name_versions_if_so_configured() {
    let place = Place::new();
    let server = replica(&place, "one", &["--set", "server.immutable=true"]);
    let address = format!("planes@{}", version(&server));
    assert_eq!(
        server.json("/datasets.json")["datasets"][0]["address"],
        address.as_str()
    );
    for path in [
        "/projects.json",
        "/simple",
        &format!("{MOUNT}/viking/planes/volume.vikingxml"),
    ] {
        assert!(server.get(path).text().contains(&address), "{path}");
    }
    for path in server.pictures() {
        assert_eq!(
            server.get(&path).header("cache-control"),
            Some(IMMUTABLE),
            "{path}"
        );
    }
}

/// The volumes behind nginx, and how many slices of each are shown in each plane.
const VOLUMES: usize = 12;
const SLICES: usize = 6;

/// The addresses that clients request, with the expected pictures.
fn everything() -> Vec<(String, Picture)> {
    let of_volume = |seed: usize| {
        let voxel = move |z, y, x| volumes::voxel(seed, z, y, x);
        (0..SLICES).flat_map(move |at| {
            [
                ("xy", volumes::plane(seed, at)),
                (
                    "xz",
                    Picture::of_plane(SLICES, EDGE, |z, x| voxel(z, at, x)),
                ),
                (
                    "yz",
                    Picture::of_plane(SLICES, EDGE, |z, y| voxel(z, y, at)),
                ),
            ]
            .map(|(plane, picture)| {
                (
                    format!("{MOUNT}/p{seed}/raw/{plane}/{at}/0_0_0.png"),
                    picture,
                )
            })
        })
    };
    (0..VOLUMES).flat_map(of_volume).collect()
}

/// A server for its own copies of these volumes.
fn replica_of_many(place: &Place, folder: &str, redis: u16) -> Server {
    let path = place.path(folder);
    fs::create_dir(&path).unwrap();
    let mut configuration = format!(
        "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n[cache]\nredis = \"redis://127.0.0.1:{redis}\"\n\
         [files]\nidentity = \"content\"\n[render]\nneighbours = 0\n"
    );
    for seed in 0..VOLUMES {
        let original = place.path(&format!("p{seed}.h5"));
        if !original.exists() {
            volumes::planes(&original, SLICES, seed, Stored::Gzip);
        }
        fs::copy(&original, path.join(format!("p{seed}.h5"))).unwrap();
        configuration += &format!(
            "[datasets.p{seed}]\nfile = \"p{seed}.h5\"\n[datasets.p{seed}.channels.raw]\nwindow = \"full\"\n"
        );
    }
    let file = format!("{folder}/voltile.toml");
    place.write(&file, &configuration);
    place.serve(["--config", &file])
}

/// The answers that the clients of nginx have got.
#[derive(Default)]
struct Seen {
    answered: AtomicUsize,
    /// When a server error was requested and answered.
    failed: Mutex<Vec<(Instant, Instant, String)>>,
    stop: AtomicBool,
}

fn browse(nginx: &Helper, all: &[(String, Picture)], seed: usize, seen: &Seen) {
    let mut connection = Connection::open(([127, 0, 0, 1], nginx.port).into());
    let mut number = seed;
    while !seen.stop.load(Ordering::SeqCst) {
        number = number
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(0x1405_7B7E_F767_814F);
        let (path, picture) = &all[(number >> 33) % all.len()];
        let began = Instant::now();
        let answer = connection.ask("GET", path, &[]);
        if answer.status >= 500 {
            seen.failed.lock().unwrap().push((
                began,
                Instant::now(),
                format!("{path}: {}", answer.status),
            ));
        } else {
            assert_eq!(&answer.picture(), picture, "{path}");
            seen.answered.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
#[ignore = "slow: needs Redis and nginx"]
fn a_replica_that_hangs_behind_nginx_is_left_out_and_the_others_answer() {
    let place = Place::new();
    let Some(redis) = helpers::redis(&place, None, "") else {
        return;
    };
    let replicas =
        ["one", "two", "three"].map(|folder| replica_of_many(&place, folder, redis.port));
    replicas
        .iter()
        .for_each(|replica| replica.allow_error("cache.redis"));
    let Some(nginx) = helpers::nginx(&place, replicas.each_ref().map(|replica| replica.address))
    else {
        return;
    };
    let (all, seen) = (everything(), Seen::default());
    replicas[1].signal(Signal::STOP);
    thread::scope(|scope| {
        for seed in 0..4 {
            let (nginx, all, seen) = (&nginx, &all, &seen);
            scope.spawn(move || browse(nginx, all, seed, seen));
        }
        wait_until("clients are answered", || {
            seen.answered.load(Ordering::SeqCst) >= 20 * all.len()
        });
        seen.stop.store(true, Ordering::SeqCst);
    });
    replicas[1].signal(Signal::CONT);
    assert_eq!(*seen.failed.lock().unwrap(), []);
    let log = fs::read_to_string(place.path("nginx/error.log")).unwrap();
    let timeouts = log.matches("upstream timed out").count();
    assert!(
        (1..=12).contains(&timeouts),
        "{timeouts} requests waited for it: {log}"
    );
}

#[test]
#[ignore = "slow: needs Redis and nginx"]
fn nobody_notices_when_one_of_three_replicas_behind_nginx_is_killed() {
    let place = Place::new();
    let Some(redis) = helpers::redis(&place, None, "") else {
        return;
    };
    let mut replicas =
        ["one", "two", "three"].map(|folder| replica_of_many(&place, folder, redis.port));
    replicas
        .iter()
        .for_each(|replica| replica.allow_error("cache.redis"));
    let Some(nginx) = helpers::nginx(&place, replicas.each_ref().map(|replica| replica.address))
    else {
        return;
    };
    let (all, seen) = (everything(), Seen::default());
    let (mut renders_of_killed, mut killed) = (0, (Instant::now(), Instant::now()));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn({
                    let (nginx, all, seen) = (&nginx, &all, &seen);
                    move || browse(nginx, all, seed, seen)
                })
            })
            .collect();
        let answered = |count: usize| {
            wait_until("clients are answered", || {
                seen.answered.load(Ordering::SeqCst) >= count
                    || clients.iter().any(thread::ScopedJoinHandle::is_finished)
            });
        };
        answered(60);
        let [_, doomed, _] = &mut replicas;
        renders_of_killed = doomed.renders();
        assert!(renders_of_killed > 0, "it has a share of the work");
        killed.0 = Instant::now();
        doomed.kill();
        killed.1 = Instant::now();
        answered(60 + 20 * all.len());
        seen.stop.store(true, Ordering::SeqCst);
    });
    let failed = seen.failed.lock().unwrap();
    let was_in_flight =
        |(began, ended, _): &&(Instant, Instant, String)| *began <= killed.1 && *ended >= killed.0;
    assert!(
        failed.iter().all(|failure| was_in_flight(&failure)),
        "{failed:?}"
    );
    let [one, doomed, three] = replicas;
    drop(doomed);
    let renders = renders_of_killed + one.renders() + three.renders();
    let limit = all.len() + all.len() / 10;
    assert!(
        renders as usize <= limit,
        "{renders} renders of {} tiles",
        all.len()
    );
    let shares = [one.renders(), renders_of_killed, three.renders()];
    assert!(
        shares.iter().all(|share| *share > 0),
        "every replica has a share: {shares:?}"
    );
    let log = fs::read_to_string(place.path("nginx/error.log")).unwrap_or_default();
    let is_severe = |line: &&str| {
        ["[emerg]", "[alert]", "[crit]"]
            .iter()
            .any(|level| line.contains(level))
    };
    assert_eq!(log.lines().find(is_severe), None);
}

#[test]
#[ignore = "slow: needs nginx"]
fn requests_for_nearby_slices_go_to_the_same_replica() {
    let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/nginx-replicas.conf");
    let example = fs::read_to_string(map).unwrap();
    assert!(example.contains("hash $voltile_place consistent;"));
    let place = Place::new();
    let Some(_) = helpers::needed("nginx") else {
        return;
    };
    // nginx itself says which place it takes a path for.
    let Some(nginx) = helpers::nginx_places(&place) else {
        return;
    };
    let mut connection = Connection::open(([127, 0, 0, 1], nginx.port).into());
    for (path, expected) in [
        (
            "/ndtilecache/tilecache/brain/raw/xy/1234/5_6_0.png",
            "brain/xy/12",
        ),
        (
            "/k/secret/x/ndtilecache/tilecache/brain/raw/xy/1299/0_0_3.png",
            "brain/xy/12",
        ),
        (
            "/ndtilecache/tilecache/brain/raw/xz/7/1234/5_6_0.png",
            "brain/xz/12",
        ),
        (
            "/ndtilecache/tilecache/mcfc/brain/a:R,b:G/yz/7/5_6_0.png",
            "brain/yz/",
        ),
        (
            "/ndtilecache/tilecache/brain@0123/raw/xy/99/small.png",
            "brain@0123/xy/",
        ),
        (
            "/ndtilecache/tilecache/viking/brain/volume/raw/0/X1_Y2_Z345.png",
            "brain/xy/3",
        ),
        (
            "/neuroglancer/brain/raw/2/0-64_64-128_128-192",
            "brain/xy/1",
        ),
        (
            "/neuroglancer/brain/raw@3/2/0-64_64-128_-64-0",
            "brain/xy/-",
        ),
        ("/voxels/brain/raw/0/0-10_0-10_1500-1600.npy", "brain/xy/15"),
        ("/zarr/0.4/brain.ome.zarr/0/3/4/5", "0.4/brain.ome.zarr/0/3"),
        (
            "/zarr/0.5/brain/raw.ome.zarr/0/c/3/4/5",
            "0.5/brain/raw.ome.zarr/0/c/3",
        ),
        ("/datasets.json", "/datasets.json"),
    ] {
        let answer = connection.ask("GET", path, &[]);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, expected),
            "{path}"
        );
    }
}
