//! Stories of files that are broken or made to do harm: whatever is in them, the program lives and says what is wrong.
//!
//! Every bad file at hand (those checked in, and where the shared folder lies beside the project, the collections in it)
//! is inspected, checked and served, each time by a process of its own that may compute for ten seconds and take a GiB
//! of memory. The outcomes are printed as a table: `cargo test --test bad_files -- --nocapture`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use crate::common::volumes::{self, Stored};
use crate::common::{Outcome, Place, Server, fixture};

/// What no bad file may make a process take: seconds of computing, and bytes of memory.
const SECONDS: u64 = 10;
const MEMORY: u64 = 1 << 30;
/// Of how many channels of a file tiles are asked for.
const MOST_CHANNELS: usize = 3;

/// The program, made to end by a signal where it takes more than is allowed.
fn limited(place: &Place, arguments: &[&str], memory: bool) -> Command {
    let memory = if memory { format!("ulimit -d {}; ", MEMORY >> 10) } else { String::new() };
    let mut command = place.voltile(arguments);
    let program = command.get_program().to_owned();
    command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -c 0; ulimit -t {SECONDS}; {memory}exec \"$0\" \"$@\""));
    command.arg(program).args(arguments).env_clear().current_dir(place.path(""));
    command
}

/// Every file below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path.canonicalize().unwrap());
        }
    }
    found.sort();
    found
}

/// All bad files there are.
fn bad_files() -> Vec<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let folders = [fixture("bad"), shared.join("bad"), shared.join("hdf5_testfiles")];
    let is_text = |path: &PathBuf| {
        path.extension().is_some_and(|e| e == "md" || e == "toml" || e == "json") || path.ends_with("COPYING")
    };
    folders.iter().flat_map(|folder| files_below(folder)).filter(|path| !is_text(path)).collect()
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// It opens, and so many of its tiles were right, or errors.
    Served { tiles: usize, errors: usize },
    /// It does not, for this reason.
    Refused(String),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Served { tiles, errors } => write!(f, "opens: {tiles} tiles, {errors} errors"),
            Fate::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

/// Has a file inspected, checked and served beside a good one.
fn fate(file: &Path) -> Fate {
    let place = Place::new();
    let name = file.to_str().expect("its name is UTF-8");
    place.write("bad.toml", &format!("[datasets.bad]\nfile = '''{name}'''"));
    let inspected = crate::common::outcome(&mut limited(&place, &["inspect", name], true));
    let checked = crate::common::outcome(&mut limited(&place, &["check", "--config", "bad.toml"], true));
    fs::copy(fixture("wide.h5"), place.path("good.h5")).unwrap();
    let serve = ["serve", "--bind", "127.0.0.1:0", "--config", "bad.toml", "good.h5"];
    if inspected.code == 0 {
        // What cannot be decoded is a fault to `check` alone.
        let is_told = checked.code == 0 || checked.err.contains("cannot decode");
        assert!(is_told, "{name}: {}", checked.err);
        return served(&place.start(limited(&place, &serve, false)), name);
    }
    let refused = crate::common::outcome(&mut limited(&place, &serve, true));
    for (Outcome { code, err, .. }, expected) in [(&inspected, 1), (&checked, 1), (&refused, 2)] {
        assert_eq!(*code, expected, "{name}: {err}");
        assert!(
            err.contains("1 thing is wrong") && err.contains(file.file_name().unwrap().to_str().unwrap()),
            "{err}"
        );
    }
    let line =
        checked.err.lines().find(|line| line.trim().starts_with("datasets.bad")).expect("the fault is told");
    Fate::Refused(line.split(file.to_str().unwrap()).last().unwrap().trim_matches([':', ' ']).to_owned())
}

/// Asks for tiles of every channel, and in between for one of the good file.
fn served(server: &Server, name: &str) -> Fate {
    let described = server.json("/datasets.json");
    let bad =
        described["datasets"].as_array().unwrap().iter().find(|dataset| dataset["token"] == "bad").unwrap();
    let (mut tiles, mut errors) = (0, 0);
    for channel in bad["channels"].as_array().unwrap().iter().take(MOST_CHANNELS) {
        let time = if channel["times"].is_null() { "" } else { "0/" };
        for (axis, plane) in [(2, "xy"), (1, "xz"), (0, "yz")] {
            for level in [0, 1] {
                let middle = channel["levels"][0]["size"][axis].as_u64().unwrap() / (2 << level);
                let name_of = channel["name"].as_str().unwrap();
                let status =
                    server.tile(&format!("bad/{name_of}/{plane}/{time}{middle}/0_0_{level}.png")).status;
                assert!([200, 404, 500].contains(&status), "{name}: {status}");
                (tiles, errors) = (tiles + usize::from(status == 200), errors + usize::from(status != 200));
            }
        }
        assert_eq!(server.tile("good/raw/xy/0/0_0_0.png").status, 200, "{name}");
    }
    let taken = server.peak_memory();
    assert!(taken < MEMORY, "{name} made the server take {taken} bytes");
    Fate::Served { tiles, errors }
}

#[test]
fn no_bad_file_takes_the_program_down() {
    let files = bad_files();
    let (ahead, fates) = (Mutex::new(files.iter()), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let Some(file) = ahead.lock().unwrap().next() else { break };
            fates.lock().unwrap().insert(file, fate(file));
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let fates = fates.into_inner().unwrap();
    assert_eq!(fates.len(), files.len());
    for (file, fate) in &fates {
        let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
        println!("{:<60} {fate}", Path::new(folder).join(file.file_name().unwrap()).display());
    }
    let served = fates.values().filter(|fate| matches!(fate, Fate::Served { .. })).count();
    println!("{} files: {served} are served, {} are refused", fates.len(), fates.len() - served);
    assert!(served >= 5 && fates.len() - served >= 4, "the collection has both kinds");
}

#[test]
fn a_file_that_crashes_the_library_is_refused_by_name_and_others_are_untouched() {
    let place = Place::new();
    volumes::crashing(&place.path("crash.h5"));
    for name in ["good.h5", "other.h5"] {
        volumes::planes(&place.path(name), 2, 1, Stored::Gzip);
    }
    let alone = place.run(["inspect", "crash.h5"]);
    assert_eq!((alone.code, alone.out.as_str()), (1, ""));
    for word in ["crash.h5", "signal 11", "written anew"] {
        assert!(alone.err.contains(word), "{word} is not in {}", alone.err);
    }
    let among = place.run(["check", "good.h5", "crash.h5", "other.h5"]);
    assert_eq!(among.code, 1);
    assert!(
        among.err.contains("1 thing is wrong") && among.err.contains("datasets.crash.file"),
        "{}",
        among.err
    );
    let serve = place.run(["serve", "--bind", "127.0.0.1:0", "good.h5", "crash.h5", "other.h5"]);
    assert_eq!(serve.code, 2, "as with any file that cannot be opened: {}", serve.err);
    assert!(serve.err.contains("1 thing is wrong"), "{}", serve.err);
    let tile =
        place.run(["render", "/ndtilecache/tilecache/crash/raw/xy/0/0_0_0.png", "-o", "t.png", "crash.h5"]);
    assert_eq!(tile.code, 2, "{}", tile.err);
}

#[test]
fn a_file_that_crashes_when_something_named_in_it_is_opened_is_refused_too() {
    let place =
        Place::with("[datasets.named]\nfile = 'crash.h5'\n[datasets.named.channels.raw]\npath = '/a/raw'");
    volumes::crashing(&place.path("crash.h5"));
    let outcome = place.run(["check"]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("datasets.named.file") && outcome.err.contains("signal 11"),
        "{}",
        outcome.err
    );
}

#[test]
fn a_file_that_leads_to_a_crashing_one_is_refused() {
    let place = Place::new();
    volumes::crashing(&place.path("crash.h5"));
    let main = hdf5::File::create(place.path("main.h5")).unwrap();
    main.link_external("crash.h5", "/a/raw", "raw").unwrap();
    main.close().unwrap();
    place.write(
        "voltile.toml",
        "[datasets.main]\nfile = 'main.h5'\n[datasets.main.channels.raw]\npath = '/raw'",
    );
    let outcome = place.run(["check"]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.err.contains("main.h5") && outcome.err.contains("signal 11"), "{}", outcome.err);
}

#[test]
fn a_filter_that_is_not_there_is_told_before_any_tile() {
    let place = Place::new();
    let file = fixture("bad/missing.h5");
    let name = file.to_str().unwrap();
    let checked = place.run(["check", name]);
    assert_eq!(checked.code, 1);
    let inspected = place.run(["inspect", name]);
    assert_eq!(inspected.code, 0, "{}", inspected.err);
    let server = place.serve([name]);
    for (command, told) in [("check", checked.err), ("inspect", inspected.err), ("serve", server.log())] {
        let line = told.lines().find(|line| line.contains("datasets.missing.channels.filter"));
        let line = line.unwrap_or_else(|| panic!("{command} does not tell: {told}"));
        for word in ["/filter", "B3D", "32016", "missing.h5"] {
            assert!(line.contains(word), "{command}: {word} is not in {line}");
        }
    }
    assert_eq!(server.tile("missing/good/xy/0/0_0_0.png").status, 200, "others are served");
    assert!(
        inspected.out.contains("warning    filter: /filter is stored with the filter B3D (number 32016)"),
        "{}",
        inspected.out
    );
}
