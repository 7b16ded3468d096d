//! Confinement: what the child process that tries files can no longer do, as the kernel tells; and
//! what a server does that has more rights than it needs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use serde_json::json;

use crate::common::volumes::{self, Stored};
use crate::common::{Place, wait_until};

const PLANES: usize = 4;
const TILE: &str = "planes/raw/xy/1/0_0_0.png";

fn value(status: &str, field: &str) -> String {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .expect("Linux reports it");
    line.trim_matches([':', '\t', ' ']).to_owned()
}

/// A folder with a volume, in a place of its own.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    volumes::planes(&place.path("data/planes.h5"), PLANES, 1, Stored::Gzip);
    place
}

#[test]
fn a_server_warns_if_it_runs_as_root() {
    let place = place();
    let server = place.serve(["data/planes.h5"]);
    assert_eq!(server.tile(TILE).status, 200);
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(
        server.log().contains("voltile runs as root"),
        is_root,
        "{}",
        server.log()
    );
}

#[test]
fn a_server_that_was_told_not_to_confine_says_what_does_now() {
    let place = place();
    let outcome = place.run(["serve", "data/planes.h5", "--set", "files.confinement=off"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome
            .err
            .contains("files.confinement: there is no such key any more")
            && outcome.err.contains("service manager"),
        "{}",
        outcome.err
    );
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
                || ["Landlock", "filter"]
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

    /// The values of a field in the status of every thread.
    fn of_threads(&self, field: &str) -> BTreeSet<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let statuses = threads.unwrap().flatten().filter_map(|thread| {
            // A thread may end in the meantime.
            fs::read_to_string(thread.path().join("status")).ok()
        });
        statuses.map(|status| value(&status, field)).collect()
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
    let mut child = TrialChild::start(&place, &json!({"read": [folder], "memory": 1 << 30}));
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
}
