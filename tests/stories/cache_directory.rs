//! A disk cache whose directory is removed, moved, emptied or unmounted: tiles are still served, and
//! nothing is written to a wrong place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::volumes::{self, Stored};
use crate::common::{Place, Server, wait_until};
use rustix::process::Signal;

const PLANES: usize = 24;
const WRITES: &str = "voltile_tier_writes_total";
const HITS: &str = "voltile_tier_hits_total";
const ERRORS: &str = "voltile_tier_errors_total";
/// The words of the log while tiles cannot be written.
const UNMARKED: &str = "cache was removed, unmounted or emptied: it has no CACHEDIR.TAG";

/// A server with a disk cache, without prefetching and without tiles in memory.
fn served(place: &Place) -> Server {
    let settings = [
        "cache.directory=cache",
        "cache.tiles=0",
        "render.neighbours=0",
    ];
    place.serve(
        ["planes.h5"]
            .into_iter()
            .chain(settings.iter().flat_map(|set| ["--set", set])),
    )
}

fn place() -> Place {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), PLANES, 1, Stored::Flat);
    place
}

/// Requests some tiles, which must be right.
fn ask(server: &Server, planes: std::ops::Range<usize>) {
    for z in planes {
        assert_eq!(
            server
                .tile(&format!("planes/raw/xy/{z}/0_0_0.png"))
                .picture(),
            volumes::plane(1, z)
        );
    }
}

/// Requests some tiles, and waits until they are written.
fn keep(server: &Server, planes: std::ops::Range<usize>) {
    let expected = server.count(WRITES) + planes.len() as u64;
    ask(server, planes);
    wait_until("they are written", || server.count(WRITES) == expected);
}

/// Requests some tiles, which cannot be written.
fn fail(server: &Server, planes: std::ops::Range<usize>) {
    let expected = server.count(ERRORS) + planes.len() as u64;
    let written = server.count(WRITES);
    ask(server, planes);
    wait_until("writing has failed", || server.count(ERRORS) == expected);
    assert_eq!(server.count(WRITES), written, "{}", server.log());
}

/// Every file below a folder, without following links.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn tiles(place: &Place) -> Vec<PathBuf> {
    files(&place.path("cache/tiles"))
}

#[test]
fn a_removed_directory_is_not_created_again_until_a_reload_or_the_next_start() {
    let place = place();
    let mut server = served(&place);
    server.expect_error(UNMARKED);
    keep(&server, 0..4);
    fs::remove_dir_all(place.path("cache")).unwrap();
    fail(&server, 0..12);
    assert!(!place.path("cache").exists());
    server.wait_for_log(UNMARKED);
    let lines = server.log().matches("cache.directory").count();
    assert!((1..12).contains(&lines), "{}", server.log());
    reload(&server);
    keep(&server, 0..4);
    fs::remove_dir_all(place.path("cache")).unwrap();
    server.stop();
    keep(&served(&place), 0..4);
    assert!(place.path("cache/CACHEDIR.TAG").exists());
}

#[test]
fn a_directory_removed_while_tiles_are_written_can_be_used_after_a_restart() {
    for _ in 0..5 {
        let place = place();
        let mut server = served(&place);
        server.allow_error("cache.directory: cache");
        keep(&server, 0..2);
        std::thread::scope(|scope| {
            scope.spawn(|| ask(&server, 0..PLANES));
            // It may fail if tiles are written to a folder that it has just emptied.
            let _ = Command::new("rm")
                .arg("-r")
                .arg(place.path("cache"))
                .output()
                .unwrap();
        });
        server.kill();
        assert_eq!(
            place.run(["cache", "stats", "--directory", "cache"]).code,
            0
        );
        let server = served(&place);
        ask(&server, 0..PLANES);
        wait_until("all are written or were there", || {
            server.count(WRITES) + server.count(HITS) == PLANES as u64
        });
    }
}

#[test]
fn a_directory_moved_away_and_back_is_used_again() {
    let place = place();
    let server = served(&place);
    server.expect_error(UNMARKED);
    server.expect_error("cache is neither empty nor a voltile cache");
    keep(&server, 0..4);
    fs::rename(place.path("cache"), place.path("elsewhere")).unwrap();
    fail(&server, 0..8);
    // A foreign directory has its name for a while.
    fs::create_dir(place.path("cache")).unwrap();
    place.write("cache/thesis.tex", "words");
    fail(&server, 0..8);
    assert!(server.get("/readyz").text().contains(UNMARKED));
    server.signal(Signal::HUP);
    server.wait_for_log("neither empty");
    fail(&server, 0..8);
    assert_eq!(
        files(&place.path("cache")),
        [place.path("cache/thesis.tex")]
    );
    fs::remove_dir_all(place.path("cache")).unwrap();
    fs::rename(place.path("elsewhere"), place.path("cache")).unwrap();
    ask(&server, 0..4);
    assert_eq!(server.count(HITS), 4, "earlier tiles are found");
    keep(&server, 4..8);
    assert_eq!(tiles(&place).len(), 8);
    assert!(!server.get("/readyz").text().contains(UNMARKED));
}

/// Has the server reload its configuration, and waits until it has.
fn reload(server: &Server) {
    let before = server.log().matches("reloaded: ").count();
    server.signal(Signal::HUP);
    wait_until("it has reloaded", || {
        server.log().matches("reloaded: ").count() > before
    });
}

/// A mount, until this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a folder at another; `None` if that is not permitted.
    fn bind(from: &Path, at: &Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .arg("--bind")
            .arg(from)
            .arg(at)
            .output()
            .ok()?;
        mounted.status.success().then(|| Self(at.to_owned()))
    }

    fn unmount(self) {
        drop(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Detached at once: a server has files open in it.
        assert!(
            Command::new("umount")
                .arg("-l")
                .arg(&self.0)
                .status()
                .unwrap()
                .success()
        );
    }
}

#[test]
fn nothing_is_written_below_a_mount_point() {
    let place = place();
    for name in ["disk", "cache"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    let mount = || Mounted::bind(&place.path("disk"), &place.path("cache"));
    let Some(mounted) = mount() else {
        eprintln!("SKIPPED: this user may not mount");
        return;
    };
    let server = served(&place);
    server.expect_error(UNMARKED);
    keep(&server, 0..4);
    assert_eq!(files(&place.path("disk/tiles")).len(), 4);
    mounted.unmount();
    fail(&server, 0..8);
    assert_eq!(
        fs::read_dir(place.path("cache")).unwrap().count(),
        0,
        "the mount point is unchanged"
    );
    let _mounted = mount().unwrap();
    ask(&server, 0..4);
    keep(&server, 4..8);
    assert_eq!(files(&place.path("disk/tiles")).len(), 8);
    drop(server);
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let place = place();
    fs::create_dir(place.path("cache")).unwrap();
    if std::os::unix::fs::chown(place.path("cache"), Some(65_534), None).is_err() {
        eprintln!("SKIPPED: this user may not give directories away");
        return;
    }
    let set = ["--set", "cache.directory=cache"];
    let serve = ["serve", "planes.h5", "--bind", "127.0.0.1:0"];
    for arguments in [&serve[..], &["cache", "stats"]] {
        let outcome = place.run([arguments, &set].concat());
        assert_eq!(outcome.code, 2, "{arguments:?}: {}", outcome.err);
        let problem = "cache belongs to another user (uid 65534";
        assert!(outcome.err.contains(problem), "{}", outcome.err);
    }
    assert_eq!(fs::read_dir(place.path("cache")).unwrap().count(), 0);
}
