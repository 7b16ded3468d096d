//! `--shard` and `--assemble`: several processes make a pyramid or warm tiles together, each its
//! part, and give what one process gives. Any of them may be killed, run twice, or run again with
//! another number of shards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, FileTimes};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use crate::common::made::{file, put};
use crate::common::{Outcome, Place, fixture, outcome, wait_until};
use crate::pyramid::{array, beside, everything, noise};
use crate::warm::{CHUNK, SHAPE, SLOWLY, kept, kill_after, paths, pictures, url, volume, warm};
use serde_json::Value;

/// Channels of three types; one is a series. The work has about ten pieces.
fn series(place: &Place) -> PathBuf {
    let path = place.path("series.h5");
    file(&path, |file| {
        let data = array(&[20, 24, 160, 190], |at| {
            noise(&at[1..]) as u16 ^ at[0] as u16
        });
        let builder = file
            .new_dataset_builder()
            .with_data(&data)
            .chunk((1, 8, 64, 64))
            .deflate(1);
        builder.create("raw").unwrap();
        put(
            file,
            "labels",
            &array(&[140, 300, 400], |at| {
                (at[0] / 9 + at[1] / 13 + at[2] / 17) as u32
            }),
        );
        put(file, "f", &array(&[20, 300, 700], |at| noise(at) as f32));
    });
    path
}

fn pyramid(place: &Place, path: &Path, more: &[&str]) -> Command {
    let mut command = place.voltile(["pyramid".as_ref(), path.as_os_str()]);
    command
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Runs `voltile pyramid`, which must succeed.
fn done(place: &Place, path: &Path, more: &[&str]) -> Outcome {
    let made = outcome(pyramid(place, path, more).stdout(Stdio::piped()));
    assert_eq!(made.code, 0, "{more:?}: {}", made.err);
    made
}

fn shard(index: u64, count: u64) -> String {
    format!("{index}/{count}")
}

/// The names of the finished pieces in the work folder of an output, and when each was made.
fn pieces(output: &Path) -> BTreeMap<String, SystemTime> {
    let files = fs::read_dir(format!("{}.work", output.display()))
        .into_iter()
        .flatten()
        .flatten();
    let of = |file: fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        name.ends_with(".piece")
            .then(|| Some((name, file.metadata().ok()?.modified().ok()?)))?
    };
    files.filter_map(of).collect()
}

fn names(output: &Path) -> BTreeSet<String> {
    pieces(output).into_keys().collect()
}

/// The result of a run without shards; its output is removed.
fn undivided(place: &Place, path: &Path) -> BTreeMap<String, (Vec<usize>, Vec<f64>)> {
    done(place, path, &[]);
    let levels = everything(&beside(path));
    fs::remove_file(beside(path)).unwrap();
    levels
}

/// Assembles the pyramid, which must have the expected levels, and removes it.
fn assembled(place: &Place, path: &Path, expected: &BTreeMap<String, (Vec<usize>, Vec<f64>)>) {
    done(place, path, &["--assemble"]);
    assert!(
        everything(&beside(path)) == *expected,
        "the levels are the same"
    );
    assert!(
        !Path::new(&format!("{}.work", beside(path).display())).exists(),
        "no work is left"
    );
    fs::remove_file(beside(path)).unwrap();
}

#[test]
#[ignore = "slow: runs many processes"]
fn shards_make_disjoint_pieces_that_together_are_the_pyramid_of_one_process() {
    let place = Place::new();
    let path = series(&place);
    let expected = undivided(&place, &path);
    assert!(expected.len() > 15);
    let mut all = BTreeSet::new();
    for count in [1, 2, 3, 5] {
        let mut seen = BTreeSet::new();
        for index in (0..count).rev() {
            let made = done(&place, &path, &["--shard", &shard(index, count)]);
            let now = names(&beside(&path));
            let own = now.difference(&seen).count();
            let reported = format!("shard {index}/{count}: {own} of ");
            assert!(
                made.out.contains(&reported),
                "a piece was made twice: {reported}{}",
                made.out
            );
            assert!(own > 0, "{index}/{count} has nothing to do");
            seen = now;
        }
        all = if all.is_empty() { seen.clone() } else { all };
        assert_eq!(seen, all);
        assembled(&place, &path, &expected);
    }
    assert!(all.len() >= 5, "{all:?}");
}

#[test]
#[ignore = "slow: runs many processes"]
fn a_killed_shard_is_resumed_by_any_division_and_assembly_names_what_is_missing() {
    let place = Place::new();
    let path = series(&place);
    let expected = undivided(&place, &path);
    let refused = |named: &[&str]| {
        let outcome = outcome(&mut pyramid(&place, &path, &["--assemble"]));
        assert!(
            outcome.code == 1 && !beside(&path).exists(),
            "{}",
            outcome.err
        );
        for name in named {
            assert!(outcome.err.contains(name), "{name}: {}", outcome.err);
        }
    };
    refused(&["pieces are missing", "--shard for every shard"]);
    let mut child = pyramid(&place, &path, &["--shard", "0/2", "--threads", "1"])
        .spawn()
        .unwrap();
    wait_until("a piece is made", || !pieces(&beside(&path)).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = pieces(&beside(&path));
    refused(&["pieces are missing", "Run these shards again: ", "1/2"]);
    let last = done(&place, &path, &["--shard", "2/3"]);
    assert!(last.out.contains("of all are missing"), "{}", last.out);
    refused(&["Run these shards again: ", "; or ", "1/3"]);
    done(&place, &path, &["--shard", "0/4000000000"]);
    refused(&["Run these shards again: ", "all of 4000000000"]);
    done(&place, &path, &["--shard", "0/3"]);
    done(&place, &path, &["--shard", "1/3"]);
    let now = pieces(&beside(&path));
    assert!(
        kept.iter().all(|(name, made)| now.get(name) == Some(made)),
        "a finished piece was made again"
    );
    assembled(&place, &path, &expected);
}

fn spawned(mut command: Command) -> Child {
    command.spawn().unwrap()
}

#[test]
#[ignore = "slow: runs many processes"]
fn two_processes_with_the_same_shard_or_the_same_assembly_do_not_harm_each_other() {
    let place = Place::new();
    let path = series(&place);
    let expected = undivided(&place, &path);
    let twice = |more: &[&str]| {
        let both = [
            spawned(pyramid(&place, &path, more)),
            spawned(pyramid(&place, &path, more)),
        ];
        both.map(|child| child.wait_with_output().unwrap())
    };
    for shard in ["0/2", "1/2"] {
        for ended in twice(&["--shard", shard]) {
            assert!(
                ended.status.success(),
                "{}",
                String::from_utf8_lossy(&ended.stderr)
            );
        }
    }
    let ended = twice(&["--assemble"]);
    assert!(ended.iter().any(|ended| ended.status.success()));
    for lost in ended.iter().filter(|ended| !ended.status.success()) {
        let log = String::from_utf8_lossy(&lost.stderr);
        assert!(
            log.contains("is there already and is not overwritten"),
            "{log}"
        );
    }
    assert!(everything(&beside(&path)) == expected);
    let late = outcome(&mut pyramid(&place, &path, &["--shard", "0/2"]));
    assert!(
        late.code == 1 && late.err.contains("is there already"),
        "{}",
        late.err
    );
}

#[test]
#[ignore = "slow: runs many processes"]
fn pieces_from_before_a_file_changed_are_not_assembled() {
    let place = Place::new();
    let path = series(&place);
    done(&place, &path, &["--shard", "0/2"]);
    let later = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_times(later)
        .unwrap();
    done(&place, &path, &["--shard", "1/2"]);
    let refused = outcome(&mut pyramid(&place, &path, &["--assemble"]));
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("Run these shards again: 0/2"),
        "{}",
        refused.err
    );
    assert!(
        refused.err.contains("from before a file was changed"),
        "{}",
        refused.err
    );
    done(&place, &path, &["--shard", "0/2"]);
    done(&place, &path, &["--assemble"]);
}

#[test]
fn channels_that_a_shard_cannot_read_are_left_out_as_without_shards() {
    let place = Place::new();
    let path = place.path("gzip.h5");
    fs::copy(fixture("bad").join("gzip.h5"), &path).unwrap();
    let undivided = outcome(&mut pyramid(&place, &path, &[]));
    assert_eq!(undivided.code, 1, "{}", undivided.err);
    let expected = everything(&beside(&path));
    fs::remove_file(beside(&path)).unwrap();
    let codes =
        ["0/2", "1/2"].map(|shard| outcome(&mut pyramid(&place, &path, &["--shard", shard])).code);
    assert!(codes.contains(&1), "{codes:?}");
    let assembled = outcome(&mut pyramid(&place, &path, &["--assemble"]));
    assert!(
        assembled.code == 1 && assembled.err.contains("could not be made"),
        "{}",
        assembled.err
    );
    assert!(everything(&beside(&path)) == expected);
}

#[test]
fn what_is_no_shard_is_an_error_that_says_what_is() {
    let place = Place::new();
    volume(&place.path("brain.h5"), SHAPE, CHUNK);
    for command in [
        &["pyramid", "brain.h5"][..],
        &["warm", "brain.h5", "--into", "cache"],
    ] {
        for (text, advice) in [
            ("4/4", "0/4 to 3/4"),
            ("x", "INDEX/COUNT"),
            ("0/0", "at least 1"),
            ("-1/2", ""),
        ] {
            let wrong = outcome(place.voltile(command).args(["--shard", text]));
            assert!(
                wrong.code == 2 && wrong.err.contains(advice),
                "{text}: {}",
                wrong.err
            );
        }
    }
    let both = place.run(["pyramid", "brain.h5", "--shard", "0/2", "--assemble"]);
    assert!(
        both.code == 2 && both.err.contains("--assemble"),
        "{}",
        both.err
    );
}

/// Every file of a cache directory below `tiles`, with its content.
fn tiles(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn add(folder: &Path, root: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                add(&path, root, found);
            } else {
                found.insert(
                    path.strip_prefix(root).unwrap().to_owned(),
                    fs::read(&path).unwrap(),
                );
            }
        }
    }
    let mut found = BTreeMap::new();
    add(&directory.join("tiles"), directory, &mut found);
    found
}

/// A volume of ten blocks of eight slices each, in which chunks are aligned.
fn tall(place: &Place) -> u64 {
    volume(&place.path("brain.h5"), [80, 60, 600], [8, 60, 600])
}

/// Its tiles in xy: two at level 0 and one at level 1, in each slice.
const TILES: u64 = 80 * 3;

fn number(report: &Value, name: &str) -> u64 {
    report[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {report}"))
}

#[test]
#[ignore = "slow: runs many processes"]
fn shards_warm_disjoint_tiles_that_together_are_those_of_one_process() {
    let place = Place::new();
    let once = tall(&place);
    let warmed =
        |into: &str, more: &[&str]| warm(&place, &[&["brain.h5", "--into", into], more].concat());
    let whole = warmed("whole", &[]);
    let expected = tiles(&place.path("whole"));
    assert_eq!(number(&whole, "rendered"), expected.len() as u64);
    for count in [1, 2, 3, 5] {
        let into = format!("cache{count}");
        let mut inflated = 0;
        for index in 0..count {
            let report = warmed(&into, &["--shard", &shard(index, count)]);
            assert_eq!(
                (number(&report, "stored"), number(&report, "empty")),
                (0, 0),
                "{report}"
            );
            assert_eq!(number(&report, "rendered"), number(&report, "tiles"));
            assert!(number(&report, "rendered") > 0);
            inflated += number(&report, "bytes_inflated");
        }
        assert!(tiles(&place.path(&into)) == expected, "{count} shards");
        // The window is measured by every process: it samples a few chunks.
        let samples = (count - 1) * number(&whole, "bytes_inflated").saturating_sub(once);
        assert!(
            inflated <= number(&whole, "bytes_inflated") + samples,
            "chunks are decoded by two shards"
        );
    }
}

#[test]
#[ignore = "slow: runs many processes"]
fn a_killed_shard_that_warms_is_resumed_by_any_division() {
    let place = Place::new();
    tall(&place);
    let arguments = ["brain.h5", "--into", "cache"];
    let directory = place.path("cache");
    let slowly = |shard: &str| {
        let mut command = place.voltile(["warm"]);
        command
            .args(arguments)
            .args(SLOWLY)
            .args(["--shard", shard]);
        command
    };
    for shard in ["1/3", "0/2", "1/2", "1/3"] {
        kill_after(slowly(shard), 12, || kept(&directory));
    }
    let there = kept(&directory);
    let reports: Vec<Value> = (0..4)
        .map(|index| {
            warm(
                &place,
                &[&arguments[..], &["--shard", &shard(index, 4)]].concat(),
            )
        })
        .collect();
    let sum = |name: &str| {
        reports
            .iter()
            .map(|report| number(report, name))
            .sum::<u64>()
    };
    assert_eq!(
        (sum("tiles"), sum("rendered"), sum("stored")),
        (TILES, TILES - there, there)
    );
    assert_eq!(kept(&directory), TILES);
    let whole = warm(&place, &arguments);
    assert_eq!(
        (number(&whole, "stored"), number(&whole, "rendered")),
        (TILES, 0)
    );
}

#[test]
fn a_run_of_the_whole_finishes_what_shards_have_begun() {
    let place = Place::new();
    tall(&place);
    let arguments = ["brain.h5", "--into", "cache"];
    let part = warm(&place, &[&arguments[..], &["--shard", "1/2"]].concat());
    let dry = warm(
        &place,
        &[&arguments[..], &["--shard", "1/2", "--dry-run"]].concat(),
    );
    assert_eq!(number(&dry, "tiles"), number(&part, "tiles"));
    let whole = warm(&place, &arguments);
    assert_eq!(number(&whole, "stored"), number(&part, "tiles"));
    assert_eq!(kept(&place.path("cache")), TILES);
}

#[test]
#[ignore = "slow: runs many processes"]
fn two_processes_with_the_same_shard_warm_the_same_tiles() {
    let place = Place::new();
    tall(&place);
    warm(&place, &["brain.h5", "--into", "whole"]);
    let arguments = ["warm", "brain.h5", "--into", "cache", "--shard"];
    for shard in ["0/2", "1/2"] {
        let mut command = place.voltile(arguments);
        command
            .arg(shard)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let both = [command.spawn().unwrap(), command.spawn().unwrap()];
        for ended in both.map(|child| child.wait_with_output().unwrap()) {
            assert!(
                ended.status.success(),
                "{}",
                String::from_utf8_lossy(&ended.stderr)
            );
        }
    }
    assert!(tiles(&place.path("cache")) == tiles(&place.path("whole")));
}

#[test]
fn shards_warm_a_server_and_every_tile_is_rendered_once() {
    let place = Place::new();
    tall(&place);
    let server = place.serve(["brain.h5"]);
    let address = url(&server);
    let mut tiles = 0;
    for index in 0..3 {
        let report = warm(&place, &[&address, "--shard", &shard(index, 3)]);
        tiles += number(&report, "rendered");
    }
    assert_eq!((tiles, server.renders()), (TILES, TILES));
    pictures(&server, &paths(&server, &["xy"]));
    assert_eq!(server.renders(), TILES);
}

#[test]
fn a_shard_of_a_batch_script_that_is_killed_is_queued_again_three_times_and_then_fails() {
    let place = Place::new();
    fs::create_dir(place.path("bin")).unwrap();
    let program = |name: &str, text: &str| {
        let path = place.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("scontrol", "echo \"$@\" >> queued");
    for script in ["pyramid", "warm"] {
        let run = |ends: &str, restarts: &str| {
            let _ = fs::remove_file(place.path("queued"));
            program("voltile", ends);
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(format!("packaging/slurm/{script}.sbatch"));
            let mut command = place.started(Path::new("/bin/bash"));
            command.arg(path).arg("brain.h5").env(
                "PATH",
                format!("{}:/usr/bin:/bin", place.path("bin").display()),
            );
            command
                .env("SLURM_ARRAY_JOB_ID", "12")
                .env("SLURM_ARRAY_TASK_ID", "3");
            command
                .env("SLURM_ARRAY_TASK_COUNT", "16")
                .env("SLURM_RESTART_COUNT", restarts);
            let ended = outcome(&mut command);
            (
                ended.code,
                fs::read_to_string(place.path("queued")).unwrap_or_default(),
                ended.err,
            )
        };
        let queued = "requeue 12_3\n".to_owned();
        for (ends, code) in [("kill -KILL $$", 137), ("exit 1", 1)] {
            for restarts in ["0", "1", "2"] {
                let (ended, again, said) = run(ends, restarts);
                assert_eq!((ended, &again), (code, &queued), "{script}, {ends}");
                assert!(said.contains("shard 3/16"), "{said}");
            }
            let (ended, again, said) = run(ends, "3");
            assert_eq!((ended, again.as_str()), (code, ""), "{script}, {ends}");
            assert!(said.contains("failed for good"), "{said}");
        }
        assert_eq!(
            run("exit 2", "0").1,
            "",
            "a wrong command is not tried again"
        );
        assert_eq!(run("exit 0", "0"), (0, String::new(), String::new()));
    }
}
