//! The program as a process: unread or failing output, a full disk, signals, and control characters
//! in names.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use crate::common::picture::Picture;
use crate::common::volumes::{self, ENDLESS_LEVEL, Stored};
use crate::common::{MOUNT, PATIENCE, Place, Server, outcome, signal, wait_until};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;

const LOST: &str = "voltile_log_lines_lost_total";

/// A device to which every write fails with ENOSPC.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// A pipe without a reader.
fn closed() -> PipeWriter {
    io::pipe().unwrap().1
}

/// A full pipe that is not read.
fn stuck() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    for block in [4096, 1] {
        while writer.write(&vec![b'.'; block]).is_ok() {}
    }
    assert_eq!(
        writer.write(b".").unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// A place with a volume in which every second plane is damaged.
fn damaged(planes: usize) -> Place {
    let place = Place::new();
    let path = place.path("planes.h5");
    let bytes = volumes::planes(&path, planes, 1, Stored::Gzip);
    bytes
        .iter()
        .skip(1)
        .step_by(2)
        .for_each(|plane| volumes::invert(&path, plane));
    place
}

/// A server of such a volume that logs to `log`.
fn served(place: &Place, log: impl Into<Stdio>) -> Server {
    let arguments = [
        "serve",
        "--bind",
        "127.0.0.1:0",
        "planes.h5",
        "--set",
        "render.neighbours=0",
    ];
    place.start_logging_to(place.voltile(arguments), log)
}

/// Requests every tile: tiles of damaged slices must fail, all other tiles must be right.
fn assert_served(server: &Server, planes: usize) {
    for z in 0..planes {
        let tile = server.tile(&format!("planes/raw/xy/{z}/0_0_0.png"));
        match z % 2 {
            0 => assert_eq!(tile.picture(), volumes::plane(1, z)),
            _ => assert_eq!(tile.status, 500),
        }
    }
}

#[test]
fn a_log_that_cannot_be_written_only_loses_lines() {
    let place = damaged(8);
    for log in [Stdio::from(full()), Stdio::from(closed())] {
        let mut server = served(&place, log);
        assert_served(&server, 8);
        wait_until("the lines are counted as lost", || server.count(LOST) >= 4);
        assert_served(&server, 8);
        server.stop();
    }
}

#[test]
fn an_unread_log_blocks_no_request_and_continues_once_it_is_read() {
    const PLANES: usize = 8;
    let place = damaged(PLANES);
    let (mut reader, writer) = stuck();
    let mut server = served(&place, writer);
    assert_served(&server, PLANES);
    assert_eq!(server.count(LOST), 0, "the lines wait");
    // More lines than the queue holds.
    let line = "planes/raw/xy/1/0_0_0.png";
    let mut connection = server.connect();
    wait_until("the queue is full", || {
        for _ in 0..200 {
            assert_eq!(connection.get(&format!("{MOUNT}/{line}")).status, 500);
        }
        server.count(LOST) > 0
    });
    let (sender, read) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        sender.send(text).unwrap();
    });
    wait_until("the queue has room again", || {
        let before = server.count(LOST);
        assert_eq!(connection.get(&format!("{MOUNT}/{line}")).status, 500);
        server.count(LOST) == before
    });
    server.stop();
    let text = read.recv_timeout(PATIENCE).unwrap();
    assert!(
        text.contains("could not be rendered") && text.contains("stopping"),
        "{text}"
    );
}

#[test]
fn a_server_with_an_unread_log_can_be_stopped() {
    let place = damaged(2);
    let (_reader, writer) = stuck();
    let mut server = served(&place, writer);
    assert_served(&server, 2);
    server.stop();
}

/// Runs a command with `out` as its standard output; returns its exit status and what it wrote to
/// standard error.
fn ended(command: &mut Command, out: impl Into<Stdio>) -> (Option<i32>, String) {
    let output = command
        .stdout(out)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    (output.status.code(), stderr)
}

#[test]
fn every_command_succeeds_if_its_reader_has_gone_and_fails_if_its_output_is_lost() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 4, 1, Stored::Gzip);
    let server = place.serve(["planes.h5", "--set", "cache.directory=cache"]);
    server.tile("planes/raw/xy/0/0_0_0.png").picture();
    wait_until("a tile is kept", || {
        server.count("voltile_tier_writes_total") > 0
    });
    let tile = format!("{MOUNT}/planes/raw/xy/0/0_0_0.png");
    let commands: [&[&str]; 16] = [
        &["--help"],
        &["--version"],
        &["config", "example"],
        &["inspect", "planes.h5"],
        &["inspect", "planes.h5", "--json"],
        &["check", "planes.h5"],
        &["cache", "stats", "--directory", "cache"],
        &["cache", "stats", "--directory", "cache", "--json"],
        &["cache", "clear", "--directory", "empty"],
        &["render", &tile, "planes.h5", "-o", "-"],
        &["bench", "planes.h5", "--seconds", "0.1"],
        &["bench", "planes.h5", "--seconds", "0.1", "--json"],
        &["warm", "planes.h5", "--into", "warmed", "--dry-run"],
        &["warm", "planes.h5", "--into", "warmed"],
        &["warm", "planes.h5", "--into", "warmed", "--json"],
        &["pyramid", "planes.h5"],
    ];
    for arguments in commands {
        let (code, stderr) = ended(&mut place.voltile(arguments), closed());
        assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
        // An existing file is not overwritten.
        let _ = fs::remove_file(place.path("planes.h5.pyramid"));
        let (code, stderr) = ended(&mut place.voltile(arguments), full());
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert!(
            stderr.contains("standard output cannot be written"),
            "{arguments:?}: {stderr}"
        );
    }
}

#[test]
fn a_failing_standard_error_does_not_change_the_exit_status() {
    let place = Place::new();
    for stderr in [Stdio::from(full()), Stdio::from(closed())] {
        let status = place
            .voltile(["inspect", "missing.h5"])
            .stderr(stderr)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(1));
    }
    let status = place
        .voltile(["serve", "--nonsense"])
        .stderr(full())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn a_wrong_filter_of_the_log_is_told_and_ignored() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 2, 1, Stored::Flat);
    let mut command = place.voltile(["check", "planes.h5"]);
    let checked = outcome(command.env("VOLTILE_LOG", "voltile=loud"));
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(
        checked.err.contains("VOLTILE_LOG is ignored") && checked.err.contains("\"voltile=loud\""),
        "{}",
        checked.err
    );
}

#[test]
fn references_of_an_unknown_dataset_or_channel_are_a_fault_of_the_command_line() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 2, 1, Stored::Flat);
    for (choice, problem) in [
        ("--token=absent", "there is no dataset"),
        ("--token=a b", "is not a name"),
        ("--channel=absent", "has no channel"),
    ] {
        let ended = place.run(["references", "planes.h5", "-o", "out", choice]);
        assert_eq!(ended.code, 2, "{choice}: {}", ended.err);
        assert!(ended.err.contains(problem), "{choice}: {}", ended.err);
    }
    assert!(!place.path("out").exists());
}

#[test]
fn a_tile_can_be_written_to_standard_output() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 4, 1, Stored::Flat);
    let tile = format!("{MOUNT}/planes/raw/xy/2/0_0_0.png");
    let output = place
        .voltile(["render", &tile, "planes.h5", "-o", "-"])
        .output()
        .unwrap();
    assert_eq!(Picture::decode(&output.stdout), volumes::plane(1, 2));
    assert!(!place.path("-").exists());
}

#[test]
fn a_server_that_cannot_print_its_address_serves_and_can_be_stopped() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 2, 1, Stored::Flat);
    let (_reader, unread) = stuck();
    for out in [
        Stdio::from(closed()),
        Stdio::from(full()),
        Stdio::from(unread),
    ] {
        let mut server = place.start_printing_to(
            place.voltile(["serve", "planes.h5", "--bind", "127.0.0.1:0"]),
            out,
        );
        assert_eq!(server.get("/healthz").status, 200);
        server.stop();
    }
}

#[test]
fn sighup_without_a_change_is_logged_and_changes_nothing() {
    let place = damaged(2);
    let mut server = place.serve(["planes.h5"]);
    server.expect_error("a tile could not be rendered: /raw in ");
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded: nothing has changed");
    assert_served(&server, 2);
    server.stop();
}

/// A server of a tile that takes minutes, with a shutdown timeout of an hour.
fn with_endless_tile() -> (Place, Server) {
    let place = Place::new();
    volumes::endless(&place.path("endless.h5"));
    place.write(
        "voltile.toml",
        "[server]\nshutdown_timeout = \"1h\"\n[render]\nmax_voxels_per_tile = 100_000_000_000\n\
         [datasets.endless]\nfile = \"endless.h5\"\n[datasets.endless.channels.raw]\nwindow = [0, 200]\n",
    );
    let server = place.serve::<&str>([]);
    (place, server)
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    for (second, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (_place, mut server) = with_endless_tile();
        let mut waiting = server.connect();
        waiting.send(
            "GET",
            &format!("{MOUNT}/endless/raw/xy/0/0_0_{ENDLESS_LEVEL}.png"),
            &[],
        );
        wait_until("the tile is being rendered", || server.renders() > 0);
        server.terminate();
        server.wait_for_log("stopping");
        server.signal(second);
        assert_eq!(server.ended().code(), Some(code), "{}", server.log());
    }
}

#[test]
fn a_server_that_stops_with_its_input_ends_when_the_other_end_of_the_pipe_is_gone() {
    let place = damaged(2);
    let (reader, writer) = io::pipe().unwrap();
    let mut command = place.voltile([
        "serve",
        "--stop-with-input",
        "--bind",
        "127.0.0.1:0",
        "planes.h5",
    ]);
    command.stdin(reader);
    let mut server = place.start(command);
    (&writer)
        .write_all(b"what is written does not matter\n")
        .unwrap();
    server.expect_error("a tile could not be rendered: /raw in ");
    assert_served(&server, 2);
    drop(writer);
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
    assert!(
        server
            .log()
            .contains("stopping: requests in flight are answered first"),
        "{}",
        server.log()
    );
}

/// Waits until a child ends.
fn end_of(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

#[test]
fn sigterm_while_the_server_starts_ends_it_at_once() {
    let place = Place::new();
    // It waits for its configuration: the other end of the FIFO is open, and nothing is written to
    // it.
    let fifo = place.path("slow.toml");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let writer = OpenOptions::new()
        .read(true)
        .write(true)
        .open(fifo)
        .unwrap();
    let mut child = place
        .voltile(["serve", "--config", "slow.toml"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    wait_until("it handles SIGHUP", || {
        let status = fs::read_to_string(&status).unwrap();
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:\t"))
            .unwrap();
        u64::from_str_radix(caught, 16).unwrap() & 1 == 1
    });
    [Signal::HUP, Signal::TERM]
        .into_iter()
        .for_each(|number| signal(&child, number));
    assert_eq!(
        end_of(&mut child).signal(),
        Some(15),
        "as if SIGTERM were not handled"
    );
    drop(writer);
}

#[test]
fn control_characters_in_names_are_escaped_in_output() {
    let place = Place::new();
    let file = hdf5::File::create(place.path("odd.h5")).unwrap();
    let data = ndarray::Array3::<u8>::zeros((4, 8, 8));
    for name in [
        "clear\u{1b}[2J",
        "bell\u{7}",
        "line\nchannel    forged",
        "c1\u{9b}31m",
        "turned\u{202e}",
    ] {
        file.new_dataset_builder()
            .with_data(&data)
            .create(name)
            .unwrap();
    }
    file.close().unwrap();
    let inspected = place.run(["inspect", "odd.h5"]);
    assert_eq!(inspected.code, 0, "{}", inspected.err);
    let is_odd = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!inspected.out.contains(is_odd), "{:?}", inspected.out);
    assert!(
        !inspected
            .out
            .lines()
            .any(|line| line.starts_with("channel    forged")),
        "{}",
        inspected.out
    );
    assert!(inspected.out.contains(r"/clear\u{1b}[2J") && inspected.out.contains(r"line\nchannel"));
    // The printed configuration has the same datasets.
    let configuration = inspected
        .out
        .split_once("your own configuration:\n\n")
        .unwrap()
        .1;
    place.write("voltile.toml", configuration);
    let checked = place.run(["check"]);
    assert!(
        checked.code == 0 && checked.out.contains("5 channels"),
        "{}{}",
        checked.out,
        checked.err
    );
    let missing = place.run(["inspect", "no\u{1b}[31m.h5"]);
    assert!(
        missing.code == 1 && !missing.err.contains('\u{1b}'),
        "{:?}",
        missing.err
    );
}

#[test]
fn a_file_is_refused_if_its_trial_cannot_start_unless_trials_are_off() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 2, 1, Stored::Flat);
    let checked = |descriptors: u32, more: &[&str]| {
        let arguments = [&["check", "planes.h5"], more].concat();
        outcome(&mut place.limited(&format!("ulimit -n {descriptors}"), arguments))
    };
    // With only as many descriptors as the file needs, there are none for the pipes of a child.
    let fewest =
        (4..20).find(|descriptors| checked(*descriptors, &["--set", "files.trial=off"]).code == 0);
    let refused = checked(fewest.expect("some number is enough"), &[]);
    assert_eq!(refused.code, 1, "{}{}", refused.out, refused.err);
    for words in [
        "planes.h5",
        "could not be opened in a child process first",
        "files.trial = \"off\"",
    ] {
        assert!(refused.err.contains(words), "{words}: {}", refused.err);
    }
}
