//! Faults of the machine: a failing disk, a full one, no descriptors, thousands of idle clients.
//! Afterwards the server answers correct pixels, and its metrics show what happened. Faults of
//! files are in [`crate::damage`] and [`crate::generations`], those of clients in
//! [`crate::connections`] and [`crate::load`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use crate::common::volumes::{self, Stored};
use crate::common::wire::Connection;
use crate::common::{MOUNT, Place, Server, wait_until};

const PLANES: usize = 12;

fn tile(z: usize) -> String {
    format!("{MOUNT}/planes/raw/xy/{z}/0_0_0.png")
}

fn place() -> Place {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), PLANES, 1, Stored::Gzip);
    place
}

fn shows(server: &Server, z: usize) -> bool {
    let answer = server.get(&tile(z));
    answer.status == 200 && answer.picture() == volumes::plane(1, z)
}

/// No sample is taken, and nothing is prefetched: only the requested planes are read.
const PLAIN: [&str; 4] = [
    "--set",
    "datasets.planes.channels.raw.window=full",
    "--set",
    "render.neighbours=0",
];

#[test]
fn a_failing_disk_gives_errors_until_it_works_again() {
    let place = place();
    let shim = place.path("failing_disk.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories/failing_disk.c");
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
    let failing = place.path("the-disk-fails");
    let mut command = place.voltile(["serve", "planes.h5", "--bind", "127.0.0.1:0"]);
    command
        .args(PLAIN)
        .env("LD_PRELOAD", &shim)
        .env("FAILING_DISK", &failing);
    let server = place.start(command);
    server.expect_error("a tile could not be rendered: /raw in ");
    assert!(shows(&server, 0));
    fs::write(&failing, "").unwrap();
    assert!(shows(&server, 0), "what is cached is served");
    for z in 1..4 {
        let answer = server.get(&tile(z));
        assert_eq!(answer.status, 500, "{answer:?}");
        assert!(!answer.problem().contains("planes.h5"), "{answer:?}");
    }
    assert_eq!(server.count("voltile_render_errors_total"), 3);
    assert_eq!(server.get("/livez").status, 200);
    fs::remove_file(&failing).unwrap();
    wait_until("everything is served again", || {
        (0..PLANES).all(|z| shows(&server, z))
    });
}

/// A file system in memory with room for a few tiles, until this is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` if this user may not mount.
    fn at(path: &Path) -> Option<Self> {
        fs::create_dir(path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=40k", "tmpfs"])
            .arg(path)
            .output()
            .ok()?;
        mounted.status.success().then(|| Self(path.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_costs_the_disk_cache_and_nothing_else() {
    let place = place();
    let Some(_disk) = SmallDisk::at(&place.path("cache")) else {
        eprintln!("SKIPPED: this user may not mount");
        return;
    };
    let server = place.serve(
        [
            "planes.h5",
            "--set",
            "cache.directory=cache",
            "--set",
            "cache.tiles=0",
        ]
        .iter()
        .chain(&PLAIN),
    );
    server.allow_error("cache.directory: ");
    wait_until("the disk is full", || {
        assert!((0..PLANES).all(|z| shows(&server, z)));
        server.count("voltile_tier_errors_total") > 0
    });
    assert!((0..PLANES).all(|z| shows(&server, z)));
    let ready = server.json("/readyz");
    assert_eq!(ready["status"], "ready");
    assert!(
        ready["problems"].to_string().contains("cache.directory"),
        "{ready}"
    );
}

/// Sets the limit of open files of a running server.
fn limit_descriptors(server: &Server, current: u64) {
    let process = Pid::from_raw(i32::try_from(server.id()).unwrap());
    let maximum = getrlimit(Resource::Nofile).maximum;
    prlimit(
        process,
        Resource::Nofile,
        Rlimit {
            current: Some(current),
            maximum,
        },
    )
    .unwrap();
}

#[test]
fn without_descriptors_open_connections_and_files_are_served() {
    let place = place();
    let server = place.serve(["planes.h5"].iter().chain(&PLAIN));
    server.allow_error("accept");
    server.allow_error("Too many open files");
    let mut kept = server.connect();
    assert_eq!(kept.get(&tile(0)).picture(), volumes::plane(1, 0));
    let open = fs::read_dir(format!("/proc/{}/fd", server.id()))
        .unwrap()
        .count() as u64;
    limit_descriptors(&server, open.saturating_sub(1));
    // These cannot be accepted now.
    let waiting: Vec<Connection> = (0..20).map(|_| server.connect()).collect();
    for z in 0..6 {
        assert_eq!(kept.get(&tile(z)).picture(), volumes::plane(1, z));
    }
    limit_descriptors(&server, 1024);
    drop(waiting);
    wait_until("new clients are served", || {
        server.connect().get(&tile(7)).picture() == volumes::plane(1, 7)
    });
    assert!((0..PLANES).all(|z| shows(&server, z)));
}

#[test]
fn five_thousand_idle_connections_are_kept_and_harm_nobody() {
    const IDLE: usize = 5000;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < 4 * IDLE as u64) {
        eprintln!("SKIPPED: the limit of open files is {:?}", limit.maximum);
        return;
    }
    // The clients are this process; the higher limit does not affect other stories.
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )
    .unwrap();
    let place = place();
    let limits = ["--set", "server.connections=6000"];
    let server = place.serve(["planes.h5"].iter().chain(&PLAIN).chain(&limits));
    let before = server.peak_memory();
    let mut idle: Vec<Connection> = Vec::new();
    for at in 0..IDLE {
        let mut connection = server.connect();
        // A few do not even send a request.
        if at % 10 > 0 {
            assert_eq!(connection.get("/healthz").status, 200);
        }
        idle.push(connection);
    }
    assert!((0..PLANES).all(|z| shows(&server, z)));
    assert!(server.count("voltile_connections") >= IDLE as u64);
    let each = (server.peak_memory() - before) / IDLE as u64;
    assert!(each < 64 << 10, "{each} bytes for each connection");
    assert_eq!(
        idle[IDLE / 2 + 1].get(&tile(0)).picture(),
        volumes::plane(1, 0)
    );
    drop(idle);
    wait_until("they are gone", || server.count("voltile_connections") < 10);
    assert!((0..PLANES).all(|z| shows(&server, z)));
}
