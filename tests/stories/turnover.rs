//! Datasets that come and go, and those that nobody looks at: what they hold, and what is left of
//! them.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::volumes::{self, Stored};
use crate::common::{CHANGED, MOUNT, Place, Server, until_in_time, wait_until};

fn tile(token: &str) -> String {
    format!("{MOUNT}/{token}/raw/xy/1/0_0_0.png")
}

/// The number of descriptors of HDF5 files that the server holds.
fn open_files(server: &Server) -> usize {
    let links = fs::read_dir(server.process().join("fd")).unwrap().flatten();
    let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    targets
        .filter(|target| target.to_string_lossy().contains(".h5"))
        .count()
}

/// The number of mappings of HDF5 files that the server holds.
fn mappings(server: &Server) -> usize {
    let maps = fs::read_to_string(server.process().join("maps")).unwrap();
    maps.lines().filter(|line| line.contains(".h5")).count()
}

/// The resident memory in KiB.
fn memory(server: &Server) -> u64 {
    let status = fs::read_to_string(server.process().join("status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The number of datasets that the server lists.
fn listed(server: &Server) -> usize {
    server.json("/datasets.json")["datasets"]
        .as_array()
        .unwrap()
        .len()
}

/// Copies a file into a folder `count` times; each copy appears there whole.
fn copies(of: &Path, folder: &Path, count: usize) {
    for number in 0..count {
        let hidden = folder.join(format!(".{number}"));
        fs::copy(of, &hidden).unwrap();
        fs::rename(hidden, folder.join(format!("f{number}.h5"))).unwrap();
    }
}

#[test]
fn files_of_removed_datasets_are_closed_and_their_memory_is_free() {
    const FILES: usize = 100;
    let place = Place::new();
    let folder = place.path("data");
    fs::create_dir(&folder).unwrap();
    volumes::planes(&place.path("one.h5"), 3, 1, Stored::Gzip);
    // Without tiles and chunks that are kept up to a budget, whatever becomes of their files.
    let settings = ["files.watch=200ms", "cache.tiles=0", "cache.chunks=64 KiB"];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let server = place.serve(["data"].into_iter().chain(settings));
    server.allow_error(CHANGED);
    let mut served = Vec::new();
    for _ in 0..3 {
        copies(&place.path("one.h5"), &folder, FILES);
        wait_until("all files are served", || listed(&server) == FILES);
        let mut connection = server.connect();
        for number in 0..FILES {
            assert_eq!(
                connection.get(&tile(&format!("f{number}"))).picture(),
                volumes::plane(1, 1)
            );
        }
        assert_eq!(open_files(&server), FILES);
        served.push(memory(&server));
        (0..FILES)
            .for_each(|number| fs::remove_file(folder.join(format!("f{number}.h5"))).unwrap());
        wait_until("no file is served", || listed(&server) == 0);
        wait_until("all files are closed", || {
            open_files(&server) == 0 && mappings(&server) == 0
        });
    }
    let first = served[0];
    assert!(
        served.iter().all(|memory| *memory <= first + first / 20),
        "{served:?}"
    );
}

#[test]
fn a_file_that_leaves_the_configuration_is_closed_when_the_last_request_has_ended() {
    let place = Place::new();
    volumes::planes(&place.path("a.h5"), 3, 1, Stored::Gzip);
    volumes::slow(&place.path("b.h5"), 1);
    let of = |datasets: &[&str]| -> String {
        let datasets = datasets
            .iter()
            .map(|name| format!("[datasets.{name}]\nfile = \"{name}.h5\"\n"));
        format!(
            "[render]\nmax_voxels_per_tile = 1_000_000_000\n{}",
            datasets.collect::<String>()
        )
    };
    let window = "[datasets.b.channels.raw]\nwindow = [0, 200]\n";
    place.write("voltile.toml", &format!("{}{window}", of(&["a", "b"])));
    let server = place.serve::<&str>([]);
    assert_eq!(open_files(&server), 2);
    let mut waiting = server.connect();
    waiting.send(
        "GET",
        &format!("{MOUNT}/b/raw/xy/0/0_0_{}.png", volumes::SLOW_LEVEL),
        &[],
    );
    wait_until("it is being rendered", || server.renders() > 0);
    place.write("voltile.toml", &of(&["a"]));
    server.signal(Signal::HUP);
    server.wait_for_log("removed b");
    assert_eq!(
        waiting.receive("GET").unwrap().status,
        200,
        "it keeps the catalogue that it began with"
    );
    wait_until("the file is closed", || open_files(&server) == 1);
    assert_eq!(server.get(&tile("a")).picture(), volumes::plane(1, 1));
}

#[test]
fn an_idle_dataset_takes_little_memory() {
    const FEW: usize = 40;
    const MANY: usize = 440;
    let of = |count: usize| {
        let place = Place::new();
        let folder = place.path("data");
        fs::create_dir(&folder).unwrap();
        volumes::planes(&place.path("one.h5"), 3, 1, Stored::Gzip);
        copies(&place.path("one.h5"), &folder, count);
        let server = place.serve(["data"]);
        wait_until("all files are open", || listed(&server) == count);
        memory(&server)
    };
    let each = (of(MANY) - of(FEW)) / (MANY - FEW) as u64;
    assert!(each <= 30, "{each} KiB");
}

#[test]
fn more_files_than_stay_open_in_the_library_are_read() {
    const FILES: usize = 40;
    let place = Place::new();
    let folder = place.path("data");
    fs::create_dir(&folder).unwrap();
    for number in 0..FILES {
        volumes::planes(
            &folder.join(format!("f{number}.h5")),
            3,
            number,
            Stored::Packed,
        );
    }
    let server = place.serve(["data"].iter().chain(Stored::Packed.settings()));
    thread::scope(|scope| {
        for first in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for number in (0..FILES).map(|number| (first * 10 + number) % FILES) {
                    for z in 0..3 {
                        let tile = server.tile(&format!("f{number}/raw/xy/{z}/0_0_0.png"));
                        assert_eq!(tile.picture(), volumes::plane(number, z));
                    }
                }
            });
        }
    });
}

/// A child process that tries files, if there is one now.
fn trial_child(server: &Server) -> Option<Pid> {
    let threads = fs::read_dir(server.process().join("task"))
        .unwrap()
        .flatten();
    let children =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    children
        .into_iter()
        .find_map(|children| Pid::from_raw(children.split_whitespace().next()?.parse().ok()?))
}

#[test]
fn a_trial_that_takes_long_delays_no_other_file() {
    let place = Place::new();
    let folder = place.path("data");
    fs::create_dir(&folder).unwrap();
    volumes::planes(&place.path("one.h5"), 3, 1, Stored::Gzip);
    let add = |name: &str| {
        let hidden = folder.join(format!(".{name}"));
        fs::copy(place.path("one.h5"), &hidden).unwrap();
        fs::rename(hidden, folder.join(format!("{name}.h5"))).unwrap();
    };
    add("old");
    let server = place.serve(["data", "--set", "files.watch=200ms"]);
    server.allow_error(CHANGED);
    let is_served = |token: &str| server.get(&tile(token)).status == 200;
    let (stuck, child) = until_in_time(|attempt| {
        let name = format!("stuck{attempt}");
        add(&name);
        let mut child = None;
        wait_until("it is on trial, or served", || {
            child = trial_child(&server);
            child.is_some() || is_served(&name)
        });
        kill_process(child?, Signal::STOP).ok()?;
        // It may have been tried just before.
        thread::sleep(Duration::from_secs(4));
        (!is_served(&name)).then_some((name, child?))
    });
    fs::remove_file(folder.join("old.h5")).unwrap();
    add("new");
    wait_until("the new file is served", || is_served("new"));
    wait_until("the removed file is not", || {
        server.get(&tile("old")).status == 404
    });
    assert!(!is_served(&stuck));
    kill_process(child, Signal::CONT).unwrap();
    wait_until("the file is served once its trial has ended", || {
        is_served(&stuck)
    });
}
