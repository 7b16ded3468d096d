//! Confinement: what a server and its trial children can no longer do, as the kernel tells and as
//! outsiders see it.
//!
//! A kernel without Landlock restricts no folders; the stories that need it are then skipped.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::json;

use crate::common::volumes::{self, Stored};
use crate::common::{Place, Server, wait_until};

const PLANES: usize = 4;
const TILE: &str = "planes/raw/xy/1/0_0_0.png";
const OFF: [&str; 2] = ["--set", "files.confinement=off"];

/// The values of a field in the status of every thread of a process.
fn of_threads(process: &Path, field: &str) -> BTreeSet<String> {
    let threads = fs::read_dir(process.join("task")).unwrap().flatten();
    // A thread may end in the meantime.
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    texts.map(|text| value(&text, field)).collect()
}

fn value(status: &str, field: &str) -> String {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .expect("Linux reports it");
    line.trim_matches([':', '\t', ' ']).to_owned()
}

/// Whether the kernel restricts folders, which the log of a confined server tells. Says so if it
/// does not.
fn has_landlock(server: &Server) -> bool {
    let log = server.log();
    let has_it =
        log.contains("reading is restricted to") || log.contains("reading is not restricted, as");
    if !has_it {
        assert!(
            log.contains("reading and writing are not restricted: "),
            "the reason is logged:\n{log}"
        );
        eprintln!("SKIPPED: this kernel has no Landlock");
    }
    has_it
}

/// A folder with a volume, in a place of its own.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    volumes::planes(&place.path("data/planes.h5"), PLANES, 1, Stored::Gzip);
    place
}

/// Puts a link in the place of a file, in one step.
fn link_instead(place: &Place, file: &str, target: &Path) {
    symlink(target, place.path("next")).unwrap();
    fs::rename(place.path("next"), place.path(file)).unwrap();
}

#[test]
fn no_thread_of_a_server_can_gain_privileges_and_the_log_tells_its_folders() {
    let place = place();
    let cache = format!("cache.directory={}", place.path("cache").display());
    let server = place.serve(["data/planes.h5", "--set", &cache]);
    assert_eq!(server.tile(TILE).status, 200);
    assert_eq!(
        of_threads(&server.process(), "NoNewPrivs"),
        BTreeSet::from(["1".to_owned()])
    );
    if has_landlock(&server) {
        let real = |name: &str| {
            place
                .path(name)
                .canonicalize()
                .unwrap()
                .display()
                .to_string()
        };
        let folders = format!(
            "reading is restricted to {}; writing is restricted to {}",
            real("data"),
            real("cache")
        );
        assert!(server.log().contains(&folders), "{}", server.log());
    }
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(
        server.log().contains("voltile runs as root"),
        is_root,
        "{}",
        server.log()
    );
    let free = place.serve(["data/planes.h5"].into_iter().chain(OFF));
    assert_eq!(
        of_threads(&free.process(), "NoNewPrivs"),
        BTreeSet::from(["0".to_owned()])
    );
    assert!(
        free.log().contains("files.confinement is \"off\""),
        "{}",
        free.log()
    );
}

#[test]
fn a_file_replaced_by_a_link_to_another_folder_is_not_read() {
    let outside = Place::new();
    volumes::planes(&outside.path("secret.h5"), PLANES, 2, Stored::Gzip);
    let secret = outside.path("secret.h5");
    for settings in [&[][..], &["--set", "files.trial=off"]] {
        let place = place();
        let server = place.serve(["data/planes.h5"].iter().chain(settings));
        if !has_landlock(&server) {
            return;
        }
        server.allow_error("planes");
        assert_eq!(server.tile(TILE).picture(), volumes::plane(1, 1));
        link_instead(&place, "data/planes.h5", &secret);
        wait_until("the refusal is logged", || {
            let tile = server.tile(TILE);
            // Until the change is noticed, the old tile is served.
            assert!(
                tile.status != 200 || tile.picture() == volumes::plane(1, 1),
                "the other file is shown"
            );
            server
                .log()
                .contains("is outside of the folders that voltile may read")
        });
        volumes::planes(&place.path("planes.h5"), PLANES, 3, Stored::Gzip);
        fs::rename(place.path("planes.h5"), place.path("data/planes.h5")).unwrap();
        wait_until("a file in the folder is read", || {
            let tile = server.tile(TILE);
            tile.status == 200 && tile.picture() == volumes::plane(3, 1)
        });
    }
}

#[test]
fn the_kernel_refuses_a_configuration_in_another_folder() {
    let outside =
        Place::with("[datasets.planes]\nfile = \"data/planes.h5\"\nscaling = \"isotropic\"\n");
    for settings in [&[][..], &OFF] {
        let place = place();
        place.write(
            "voltile.toml",
            "[datasets.planes]\nfile = \"data/planes.h5\"\n",
        );
        let server = place.serve(settings);
        link_instead(&place, "voltile.toml", &outside.path("voltile.toml"));
        server.signal(Signal::HUP);
        if settings.is_empty() {
            if !has_landlock(&server) {
                return;
            }
            server.expect_error("cannot be read: Permission denied");
            server.wait_for_log("Permission denied");
        } else {
            server.wait_for_log("reloaded: opened planes");
        }
        assert_eq!(server.tile(TILE).picture(), volumes::plane(1, 1));
    }
}

#[test]
fn a_server_that_is_not_confined_or_may_leave_the_folder_follows_the_link() {
    let outside = Place::new();
    volumes::planes(&outside.path("other.h5"), PLANES, 2, Stored::Gzip);
    for settings in [OFF, ["--set", "datasets.planes.allow_external=true"]] {
        let place = place();
        let server = place.serve(["data/planes.h5"].iter().chain(&settings));
        server.allow_error("planes");
        link_instead(&place, "data/planes.h5", &outside.path("other.h5"));
        wait_until("the other file is shown", || {
            let tile = server.tile(TILE);
            tile.status == 200 && tile.picture() == volumes::plane(2, 1)
        });
    }
}

#[test]
fn a_server_whose_program_was_upgraded_still_runs_trials() {
    let place = place();
    let program = place.path("voltile");
    fs::copy(crate::common::PROGRAM, &program).unwrap();
    let mut command = place.started(&program);
    command.args(["serve", "--bind", "127.0.0.1:0", "data/planes.h5"]);
    let server = place.start(command);
    server.allow_error("planes");
    fs::copy(&program, place.path("new")).unwrap();
    fs::rename(place.path("new"), &program).unwrap();
    volumes::planes(&place.path("planes.h5"), PLANES, 2, Stored::Gzip);
    fs::rename(place.path("planes.h5"), place.path("data/planes.h5")).unwrap();
    wait_until("the new file is shown", || {
        let tile = server.tile(TILE);
        tile.status == 200 && tile.picture() == volumes::plane(2, 1)
    });
}

#[test]
fn another_cache_directory_of_the_same_name_is_not_written() {
    let place = place();
    let server = place.serve([
        "data/planes.h5",
        "--set",
        "cache.directory=cache",
        "--set",
        "render.neighbours=0",
    ]);
    if !has_landlock(&server) {
        return;
    }
    server.expect_error("cache");
    assert_eq!(server.tile(TILE).status, 200);
    wait_until("the tile is written", || {
        server.count("voltile_tier_writes_total") == 1
    });
    fs::rename(place.path("cache"), place.path("old")).unwrap();
    fs::create_dir(place.path("cache")).unwrap();
    fs::copy(
        place.path("old/CACHEDIR.TAG"),
        place.path("cache/CACHEDIR.TAG"),
    )
    .unwrap();
    for z in 0..PLANES {
        assert_eq!(
            server
                .tile(&format!("planes/raw/xy/{z}/0_0_0.png"))
                .picture(),
            volumes::plane(1, z)
        );
    }
    server.wait_for_log("ERROR");
    assert_eq!(fs::read_dir(place.path("cache")).unwrap().count(), 1);
}

/// A trial child that has confined itself and waits for a trial.
struct TrialChild {
    child: Child,
    answers: Box<dyn BufRead>,
}

impl TrialChild {
    fn start(place: &Place, bounds: &serde_json::Value) -> Self {
        let mut command = place.voltile(["probe"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = Box::new(BufReader::new(child.stdout.take().unwrap()));
        let mut started = Self { child, answers };
        let lacking = started.answer_to(bounds);
        // Each part that is not in force is named with its reason.
        assert!(
            lacking.is_empty()
                || ["Landlock", "filter", "confinement"]
                    .iter()
                    .any(|part| lacking.contains(part))
        );
        started
    }

    fn answer_to(&mut self, line: &serde_json::Value) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    fn of_threads(&self, field: &str) -> BTreeSet<String> {
        of_threads(&PathBuf::from(format!("/proc/{}", self.child.id())), field)
    }
}

impl Drop for TrialChild {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

#[test]
fn a_trial_child_has_no_privileges_and_a_filter_of_system_calls() {
    let place = place();
    let folder = place.path("data");
    let trial = json!({"Trial": {
        "file": place.path("data/planes.h5"), "allow_external": false, "discover": true, "paths": ["/raw"], "tables": [],
    }});
    let mut child = TrialChild::start(
        &place,
        &json!({"confined": true, "read": [folder], "memory": 1 << 30}),
    );
    let one = |value: &str| BTreeSet::from([value.to_owned()]);
    for _ in 0..2 {
        assert_eq!(child.of_threads("NoNewPrivs"), one("1"));
        // 2: a filter is in force. There are two of them.
        assert_eq!(
            (
                child.of_threads("Seccomp"),
                child.of_threads("Seccomp_filters")
            ),
            (one("2"), one("2"))
        );
        assert_eq!(child.answer_to(&trial), "\"Done\"");
    }
    let mut free = TrialChild::start(
        &place,
        &json!({"confined": false, "read": null, "memory": 1 << 30}),
    );
    assert_eq!(
        (free.of_threads("NoNewPrivs"), free.of_threads("Seccomp")),
        (one("0"), one("0"))
    );
    assert_eq!(free.answer_to(&trial), "\"Done\"");
}

#[test]
fn a_reload_that_needs_another_folder_is_refused() {
    let place = place();
    let outside = Place::new();
    volumes::planes(&outside.path("other.h5"), PLANES, 2, Stored::Gzip);
    volumes::planes(&place.path("data/more.h5"), PLANES, 3, Stored::Gzip);
    let planes = "[datasets.planes]\nfile = \"data/planes.h5\"\n";
    place.write("voltile.toml", planes);
    let server = place.serve::<&str>([]);
    if !has_landlock(&server) {
        return;
    }
    let reload = |more: &str, told: &str| {
        place.write("voltile.toml", &format!("{planes}{more}"));
        server.signal(Signal::HUP);
        server.wait_for_log(told);
    };
    let folder = outside.path("").canonicalize().unwrap();
    server.expect_error("is outside of the folders that voltile may read");
    let other = format!(
        "[datasets.other]\nfile = '{}'\n",
        outside.path("other.h5").display()
    );
    reload(&other, &format!("{} is outside", folder.display()));
    assert!(
        server
            .get("/readyz")
            .text()
            .contains("is outside of the folders")
    );
    assert_eq!(server.tile("other/raw/xy/1/0_0_0.png").status, 404);
    assert_eq!(server.tile(TILE).picture(), volumes::plane(1, 1));
    reload(
        "[datasets.more]\nfile = 'data/more.h5'\n",
        "reloaded: opened more",
    );
    assert_eq!(
        server.tile("more/raw/xy/1/0_0_0.png").picture(),
        volumes::plane(3, 1)
    );
}

#[test]
fn links_in_a_served_folder_are_followed_as_they_were_at_the_start() {
    let place = place();
    let (known, later) = (Place::new(), Place::new());
    volumes::planes(&known.path("known.h5"), PLANES, 2, Stored::Gzip);
    volumes::planes(&later.path("later.h5"), PLANES, 3, Stored::Gzip);
    symlink(known.path("known.h5"), place.path("data/known.h5")).unwrap();
    let server = place.serve(["data"]);
    if !has_landlock(&server) {
        return;
    }
    assert_eq!(
        server.tile("known/raw/xy/1/0_0_0.png").picture(),
        volumes::plane(2, 1)
    );
    symlink(later.path("later.h5"), place.path("data/later.h5")).unwrap();
    volumes::planes(&place.path("data/new.h5"), PLANES, 4, Stored::Gzip);
    wait_until("the new file is served", || {
        server.tile("new/raw/xy/1/0_0_0.png").status == 200
    });
    assert_eq!(server.tile("later/raw/xy/1/0_0_0.png").status, 404);
}
