//! The part of a control group's memory that a server takes: real groups with limits, where this
//! machine lets the stories make them (as its superuser, or in a group whose memory is delegated to
//! the user).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ndarray::Array3;

use crate::common::wire::Connection;
use crate::common::{MOUNT, Place, Server, outcome};

const MIB: u64 = 1 << 20;
const CLIENTS: usize = 12;
const REQUESTS: usize = 100;

/// A control group with a limit on memory, below that of this process; removed when it is dropped.
struct Group(PathBuf);

impl Group {
    /// `None`, with a note, where none can be made.
    fn limited_to(bytes: u64) -> Option<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "voltile-story-{}-{}",
            process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let own = |start: &str| {
            let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
            let line = groups
                .lines()
                .find(|line| line.split(':').nth(1) == Some(start))?;
            Some(
                line.splitn(3, ':')
                    .nth(2)?
                    .trim_start_matches('/')
                    .to_owned(),
            )
        };
        let places = [
            own("memory").map(|group| {
                (
                    Path::new("/sys/fs/cgroup/memory").join(group),
                    "memory.limit_in_bytes",
                )
            }),
            own("").map(|group| (Path::new("/sys/fs/cgroup").join(group), "memory.max")),
        ];
        for (place, limit) in places.into_iter().flatten() {
            let group = place.join(&name);
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Self(group);
            if fs::write(group.0.join(limit), bytes.to_string()).is_ok() {
                return Some(group);
            }
        }
        eprintln!("left out: no control group with a limit on memory can be made here");
        None
    }

    /// The shell command that moves the shell itself into the group.
    fn entered(&self) -> String {
        format!("echo $$ > {}", self.0.join("cgroup.procs").display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The system may still be about to end its processes.
        for _ in 0..1000 {
            match fs::remove_dir(&self.0) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                    thread::sleep(std::time::Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

/// Writes noise, whose tiles fill the cache of tiles, and a regular volume of half a gibibyte,
/// whose chunks fill theirs.
fn volumes(place: &Place) {
    let noise = |(z, y, x): (usize, usize, usize)| {
        ((((z * 512 + y) * 512 + x) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8
    };
    let file = crate::common::made::create(&place.path("noise.h5"));
    file.new_dataset_builder()
        .with_data(&Array3::from_shape_fn((512, 512, 512), noise))
        .create("raw")
        .unwrap();
    file.close().unwrap();
    let file = crate::common::made::create(&place.path("wide.h5"));
    let builder = file.new_dataset_builder().chunk((64, 64, 64)).deflate(1);
    let wide = builder
        .empty::<u8>()
        .shape((512, 1024, 1024))
        .create("raw")
        .unwrap();
    let slab = Array3::from_shape_fn((64, 1024, 1024), |(z, y, x)| (z + y / 16 + x / 16) as u8);
    for z in 0..8 {
        wide.write_slice(&slab, ndarray::s![64 * z..64 * (z + 1), .., ..])
            .unwrap();
    }
    file.close().unwrap();
}

/// Starts a server in a group.
fn served(place: &Place, group: &Group, arguments: &[&str]) -> Server {
    let all = ["serve", "--bind", "127.0.0.1:0", "noise.h5", "wide.h5"]
        .iter()
        .chain(arguments);
    place.start(place.limited(&group.entered(), all))
}

/// The number of a line of the log about the memory, in MiB.
fn told(server: &Server, key: &str) -> f64 {
    let log = server.log();
    let line = log
        .lines()
        .find(|line| line.contains("INFO memory: "))
        .expect("the log tells the memory");
    let rest = line
        .split_once(key)
        .unwrap_or_else(|| panic!("{key} is not in {line}"))
        .1;
    let (number, unit) = rest.trim_start().split_once(' ').unwrap();
    let factor = if unit.starts_with("GiB") { 1024.0 } else { 1.0 };
    number.parse::<f64>().unwrap() * factor
}

/// Requests tiles and boxes in an order without pattern; returns how many were answered.
fn traffic(server: &Server, seed: usize) -> usize {
    let mut connection = Connection::open(server.address);
    let mut state = seed as u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let path = |random: &mut dyn FnMut(u64) -> u64| match random(10) {
        0..5 => {
            format!(
                "{MOUNT}/noise/raw/{}/{}/0_0_0.png",
                ["xy", "xz", "yz"][random(3) as usize],
                random(512)
            )
        }
        5..8 => format!("{MOUNT}/wide/raw/xz/{}/{}_0_0.png", random(1024), random(2)),
        8 => format!("{MOUNT}/wide/raw/xy/{}/0_0_1.png", random(512)),
        _ => {
            let (x, y, z) = (random(700), random(700), random(400));
            let edge = 50 + random(200);
            format!(
                "/voxels/wide/raw/0/{x}-{}_{y}-{}_{z}-{}.raw",
                x + edge,
                y + edge,
                z + 100
            )
        }
    };
    let statuses = (0..REQUESTS).map(|_| connection.get(&path(&mut random)).status);
    statuses.filter(|status| *status == 200).count()
}

#[test]
#[ignore = "slow: a minute of load"]
fn a_server_with_default_settings_survives_in_a_small_control_group() {
    let place = Place::new();
    volumes(&place);
    for mib in [256, 512, 1024] {
        let Some(group) = Group::limited_to(mib * MIB) else {
            return;
        };
        let server = served(&place, &group, &[]);
        let (tiles, chunks) = (told(&server, "cache.tiles"), told(&server, "cache.chunks"));
        let boxes = told(&server, "render.boxes");
        assert!(
            told(&server, "the limit of the control group is") as u64 == mib,
            "{}",
            server.log()
        );
        assert!(tiles + chunks + boxes < 0.75 * mib as f64);
        assert_eq!(server.count("voltile_box_limit_bytes") / MIB, boxes as u64);
        let answered = thread::scope(|scope| {
            let clients = (0..CLIENTS).map(|seed| {
                scope.spawn({
                    let server = &server;
                    move || traffic(server, seed)
                })
            });
            let clients: Vec<_> = clients.collect();
            clients
                .into_iter()
                .map(|client| client.join().unwrap())
                .sum::<usize>()
        });
        assert_eq!(answered, CLIENTS * REQUESTS, "in {mib} MiB");
        let used = server.metrics();
        eprintln!(
            "{mib} MiB: peak {} MiB, tiles {} of {tiles} MiB, chunks {} of {chunks} MiB",
            server.peak_memory() / MIB,
            used["voltile_tile_cache_bytes"] / MIB,
            used["voltile_chunk_cache_bytes"] / MIB,
        );
        drop(server);
    }
}

#[test]
fn settings_that_exceed_the_control_group_are_a_warning_and_too_little_memory_an_error() {
    let place = Place::new();
    crate::common::volumes::planes(
        &place.path("noise.h5"),
        2,
        1,
        crate::common::volumes::Stored::Gzip,
    );
    fs::copy(place.path("noise.h5"), place.path("wide.h5")).unwrap();
    let Some(group) = Group::limited_to(512 * MIB) else {
        return;
    };
    let server = served(
        &place,
        &group,
        &[
            "--set",
            "cache.chunks=1 GiB",
            "--set",
            "render.boxes=64 MiB",
        ],
    );
    assert_eq!(told(&server, "render.boxes"), 64.0);
    let warnings = server.problems();
    assert!(
        warnings.len() == 1 && warnings[0].contains("cache.chunks"),
        "{warnings:?}"
    );
    assert!(
        warnings[0].contains("the limit of the control group is 512"),
        "{warnings:?}"
    );
    drop(server);
    let small = Group::limited_to(128 * MIB).unwrap();
    let refused = outcome(&mut place.limited(
        &small.entered(),
        ["serve", "--bind", "127.0.0.1:0", "noise.h5"],
    ));
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused
            .err
            .contains("memory: the limit of the control group is 128"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("are needed"), "{}", refused.err);
    let tile = [
        "render",
        "/ndtilecache/tilecache/noise/raw/xy/0/0_0_0.png",
        "-o",
        "tile.png",
        "noise.h5",
    ];
    let rendered = outcome(&mut place.limited(&small.entered(), tile));
    assert_eq!(
        rendered.code, 0,
        "other commands do with less: {}",
        rendered.err
    );
    let own = [
        "cache.tiles=8 MiB",
        "cache.chunks=8 MiB",
        "render.boxes=8 MiB",
        "render.threads=1",
    ];
    let own: Vec<&str> = own.iter().flat_map(|setting| ["--set", setting]).collect();
    drop(served(&place, &small, &own));
}
