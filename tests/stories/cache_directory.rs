//! A disk cache whose directory is removed, moved, emptied, unmounted or filled by others: tiles
//! are still served, and nothing is written to a wrong place.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::volumes::{self, Stored};
use crate::common::{Place, Server, wait_until};
use rustix::process::Signal;

const PLANES: usize = 24;
const WRITES: &str = "voltile_tier_writes_total";
const HITS: &str = "voltile_tier_hits_total";
const DROPPED: &str = "voltile_tier_dropped_total";
const CORRUPT: &str = "voltile_tier_corrupt_total";
const ERRORS: &str = "voltile_tier_errors_total";
const BYTES: &str = "voltile_tier_bytes";

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

/// Requests some tiles, and waits until they are dropped instead of written.
fn drop_all(server: &Server, planes: std::ops::Range<usize>) {
    let expected = server.count(DROPPED) + planes.len() as u64;
    let written = server.count(WRITES);
    ask(server, planes);
    wait_until("they are dropped", || server.count(DROPPED) == expected);
    assert_eq!(
        (server.count(WRITES), server.count(ERRORS)),
        (written, 0),
        "{}",
        server.log()
    );
}

/// Waits for a line of the log with these words; returns their number.
fn logged(server: &Server, words: &str) -> usize {
    server.wait_for_log(words);
    server
        .log()
        .lines()
        .filter(|line| line.contains(words))
        .count()
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
fn a_removed_directory_is_not_created_again_until_the_next_start() {
    let place = place();
    let mut server = served(&place);
    server.expect_error("cache no longer exists");
    keep(&server, 0..4);
    fs::remove_dir_all(place.path("cache")).unwrap();
    drop_all(&server, 0..12);
    assert!(!place.path("cache").exists());
    assert_eq!(logged(&server, "cache.directory"), 1, "{}", server.log());
    assert_eq!(logged(&server, "no longer exists"), 1);
    wait_until("it counts as empty", || server.count(BYTES) == 0);
    server.stop();
    let server = served(&place);
    keep(&server, 0..4);
    assert!(place.path("cache/CACHEDIR.TAG").exists());
    assert_eq!(
        server.log().matches("cache.directory").count(),
        0,
        "{}",
        server.log()
    );
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
fn a_directory_moved_away_and_back_is_used_again_after_a_reload() {
    let place = place();
    let server = served(&place);
    server.expect_error("cache no longer exists");
    server.allow_error("cache is neither empty nor a voltile cache");
    keep(&server, 0..4);
    fs::rename(place.path("cache"), place.path("elsewhere")).unwrap();
    drop_all(&server, 0..8);
    // A foreign directory has its name for a while.
    fs::create_dir(place.path("cache")).unwrap();
    place.write("cache/thesis.tex", "words");
    drop_all(&server, 0..8);
    let problem = "tiles are served without it until the configuration is reloaded";
    assert!(server.get("/readyz").text().contains(problem));
    reload(&server);
    drop_all(&server, 0..8);
    assert_eq!(
        files(&place.path("cache")),
        [place.path("cache/thesis.tex")]
    );
    fs::remove_dir_all(place.path("cache")).unwrap();
    fs::rename(place.path("elsewhere"), place.path("cache")).unwrap();
    drop_all(&server, 0..8);
    reload(&server);
    assert!(!server.get("/readyz").text().contains(problem));
    ask(&server, 0..4);
    assert_eq!(server.count(HITS), 4, "earlier tiles are found");
    keep(&server, 4..8);
    assert_eq!(
        (tiles(&place).len(), logged(&server, "cache is used again")),
        (8, 1),
        "{}",
        server.log()
    );
    assert_eq!(logged(&server, "no longer exists"), 1, "{}", server.log());
}

/// Has the server reload its configuration, and waits until it has.
fn reload(server: &Server) {
    let before = server.log().matches("reloaded: ").count();
    server.signal(Signal::HUP);
    wait_until("it has reloaded", || {
        server.log().matches("reloaded: ").count() > before
    });
}

#[test]
fn an_emptied_directory_is_marked_again_before_anything_else() {
    let place = place();
    let mut server = served(&place);
    server.expect_error("cache has lost its marker and contains other files");
    keep(&server, 0..4);
    let marker = fs::read(place.path("cache/CACHEDIR.TAG")).unwrap();
    empty(&place);
    keep(&server, 0..4);
    assert_eq!(fs::read(place.path("cache/CACHEDIR.TAG")).unwrap(), marker);
    assert_eq!(
        (tiles(&place).len(), logged(&server, "was emptied")),
        (4, 1),
        "{}",
        server.log()
    );
    // With foreign files in it, it is left alone.
    empty(&place);
    place.write("cache/thesis.tex", "words");
    drop_all(&server, 0..8);
    assert_eq!(
        (
            tiles(&place).len(),
            place.path("cache/CACHEDIR.TAG").exists()
        ),
        (0, false)
    );
    assert_eq!(
        logged(&server, "contains other files"),
        1,
        "{}",
        server.log()
    );
    fs::remove_file(place.path("cache/thesis.tex")).unwrap();
    reload(&server);
    keep(&server, 0..4);
    server.stop();
    keep(&served(&place), 4..8);
}

/// Removes everything in the cache directory.
fn empty(place: &Place) {
    for entry in fs::read_dir(place.path("cache")).unwrap() {
        assert!(
            Command::new("rm")
                .arg("-r")
                .arg(entry.unwrap().path())
                .status()
                .unwrap()
                .success()
        );
    }
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
    server.expect_error("cache is a different directory now");
    keep(&server, 0..4);
    assert_eq!(files(&place.path("disk/tiles")).len(), 4);
    mounted.unmount();
    drop_all(&server, 0..8);
    assert_eq!(
        fs::read_dir(place.path("cache")).unwrap().count(),
        0,
        "the mount point is unchanged"
    );
    assert_eq!(
        logged(&server, "is a different directory now"),
        1,
        "{}",
        server.log()
    );
    let _mounted = mount().unwrap();
    reload(&server);
    keep(&server, 4..8);
    assert_eq!(
        (
            files(&place.path("disk/tiles")).len(),
            logged(&server, "cache is used again")
        ),
        (8, 1)
    );
    drop(server);
}

#[test]
fn links_fifos_and_huge_files_in_place_of_tiles_are_replaced_without_reading_them() {
    let place = place();
    let server = served(&place);
    keep(&server, 0..8);
    let before = server.peak_memory();
    let kept = tiles(&place);
    let outside = place.write("outside.png", "a foreign picture");
    let replaced: [&dyn Fn(&Path); 5] = [
        &|path| symlink("/dev/zero", path).unwrap(),
        &|path| symlink(&outside, path).unwrap(),
        &|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        &|path| fs::File::create(path).unwrap().set_len(1 << 42).unwrap(),
        &|path| fs::create_dir(path).unwrap(),
    ];
    for (path, replace) in kept.iter().zip(replaced) {
        fs::remove_file(path).unwrap();
        replace(path);
    }
    let stats = place.run(["cache", "stats", "--directory", "cache", "--verify"]);
    assert!(
        stats.code == 0 && stats.out.contains("3 tiles"),
        "{}{}",
        stats.out,
        stats.err
    );
    assert!(
        stats.out.contains("5 that are not voltile's"),
        "{}",
        stats.out
    );
    keep_five(&server);
    assert_eq!(
        [HITS, CORRUPT, ERRORS].map(|name| server.count(name)),
        [3, 5, 0],
        "{}",
        server.log()
    );
    let grown = server.peak_memory() - before;
    assert!(grown < 64 << 20, "{grown} bytes more");
    let bytes = server.get("/metrics").text();
    let bytes = bytes
        .lines()
        .find_map(|line| line.strip_prefix("voltile_tier_bytes "))
        .unwrap();
    assert!(
        (0..=1 << 20).contains(&bytes.parse::<i64>().unwrap()),
        "{bytes}"
    );
    assert_eq!(fs::read_to_string(&outside).unwrap(), "a foreign picture");
    assert!(
        tiles(&place)
            .iter()
            .all(|path| fs::symlink_metadata(path).unwrap().is_file())
    );
}

/// Requests all eight tiles, of which five are written again.
fn keep_five(server: &Server) {
    ask(server, 0..8);
    wait_until("they are written again", || server.count(WRITES) == 13);
}

#[test]
fn a_token_folder_that_is_a_link_is_not_followed() {
    let place = place();
    fs::create_dir(place.path("outside")).unwrap();
    place.write("outside/notes.txt", "mine");
    let mut server = served(&place);
    server.expect_error("cannot be opened: it is not a directory, or a symbolic link");
    server.expect_error("cannot be written: it is not a directory, or a symbolic link");
    keep(&server, 0..1);
    fs::remove_dir_all(place.path("cache/tiles/planes")).unwrap();
    symlink(place.path("outside"), place.path("cache/tiles/planes")).unwrap();
    ask(&server, 0..8);
    wait_until("reading and writing have failed", || {
        server.count(ERRORS) == 16
    });
    server.stop();
    assert_eq!(
        place.run(["cache", "clear", "--directory", "cache"]).code,
        0
    );
    assert_eq!(
        files(&place.path("outside")),
        [place.path("outside/notes.txt")]
    );
}

#[test]
fn a_marker_that_is_a_link_or_a_fifo_does_not_count() {
    let place = place();
    keep(&served(&place), 0..1);
    let marker = place.path("cache/CACHEDIR.TAG");
    fs::rename(&marker, place.path("tag")).unwrap();
    symlink(place.path("tag"), &marker).unwrap();
    assert_eq!(
        place.run(["cache", "stats", "--directory", "cache"]).code,
        2
    );
    fs::remove_file(&marker).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&marker)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(
        place.run(["cache", "stats", "--directory", "cache"]).code,
        2
    );
}
