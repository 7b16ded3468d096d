//! A confined trial child can read its files and do nothing else. Each act is tried in a process of
//! its own: this test program again, which runs only [`one_act`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use landlock::{AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use rustix::process::{Pid, Signal, kill_process};

use super::Bounds;

const ACT: &str = "VOLTILE_TEST_ACT";
const PLACE: &str = "VOLTILE_TEST_PLACE";
/// The exit status after an act that succeeded; if it failed, the status is the number of the
/// error.
const DONE: i32 = 42;
const DENIED: i32 = libc::EACCES;

/// Tries an act in a confined process.
fn tried(place: &Path, act: &str) -> ExitStatus {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args([
        "--exact",
        "--ignored",
        "confine::tests::one_act",
        "--test-threads=1",
    ]);
    program
        .env(ACT, act)
        .env(PLACE, place)
        .output()
        .unwrap()
        .status
}

/// A place with a folder that may be read, and one that may not.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for folder in ["read", "outside"] {
        fs::create_dir(place.path().join(folder)).unwrap();
        fs::write(place.path().join(folder).join("file"), folder).unwrap();
    }
    symlink(
        place.path().join("outside/file"),
        place.path().join("read/link"),
    )
    .unwrap();
    place
}

/// Whether the kernel has Landlock. Says so if it does not: then parts of a test are skipped.
fn has_landlock() -> bool {
    let needed = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let has_it = needed.handle_access(AccessFs::ReadFile).is_ok();
    if !has_it {
        writeln!(io::stderr(), "SKIPPED: this kernel has no Landlock").unwrap();
    }
    has_it
}

#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn one_act() {
    let (Ok(act), Some(place)) = (std::env::var(ACT), std::env::var_os(PLACE)) else {
        return;
    };
    let place = PathBuf::from(place);
    let parent = rustix::process::getppid().unwrap();
    let lacking = super::trial_child(&Bounds::of(1 << 30, [(&*place.join("read/file"), false)]));
    assert!(lacking.is_empty() || !has_landlock(), "{lacking:?}");
    let status = match done(&place, parent, &act) {
        Ok(()) => DONE,
        Err(error) => error.raw_os_error().unwrap_or(1),
    };
    std::process::exit(status);
}

fn done(place: &Path, parent: Pid, act: &str) -> io::Result<()> {
    let at = |name: &str| place.join(name);
    let (verb, what) = act.split_once(' ').unwrap_or((act, ""));
    match verb {
        "read" => fs::read(at(what)).map(drop),
        "list" => fs::read_dir(at(what)).map(drop),
        "write" => OpenOptions::new().write(true).open(at(what)).map(drop),
        "create" => File::create_new(at(what)).map(drop),
        "remove" => fs::remove_file(at(what)),
        "rename" => fs::rename(at(what), at(what).with_file_name("other")),
        "make-folder" => fs::create_dir(at(what)),
        "link" => symlink("/", at(what)),
        "permit" => fs::set_permissions(at(what), PermissionsExt::from_mode(0o777)),
        "execute" => Command::new(what).arg("--list").status().map(drop),
        "become" => Err(Command::new(what).exec()),
        "listen" => TcpListener::bind("127.0.0.1:0").map(drop),
        "connect" => TcpStream::connect("127.0.0.1:1").map(drop),
        "datagram" => UdpSocket::bind("127.0.0.1:0").map(drop),
        "pair" => UnixDatagram::pair().map(drop),
        "memory-file" => rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC)
            .map(drop)
            .map_err(io::Error::from),
        "signal" => kill_process(parent, Signal::URG).map_err(io::Error::from),
        "thread" => std::thread::Builder::new()
            .spawn(|| drop(vec![1_u8; 100 << 20]))
            .map(|thread| thread.join().unwrap()),
        "abort" => std::process::abort(),
        _ => panic!("{act}"),
    }
}

#[test]
fn a_trial_child_reads_its_files_and_does_nothing_else() {
    let place = place();
    for act in ["read read/file", "list read", "thread"] {
        assert_eq!(tried(place.path(), act).code(), Some(DONE), "{act}");
    }
    if has_landlock() {
        for act in [
            "read outside/file",
            "read read/link",
            "list outside",
            "list .",
            "read /etc/passwd",
            "read /proc/self/environ",
        ] {
            assert_eq!(tried(place.path(), act).code(), Some(DENIED), "{act}");
        }
    }
    for act in [
        "write read/file",
        "create read/new",
        "remove read/file",
        "rename read/file",
        "make-folder read/new",
        "link read/new",
        "permit read/file",
        "execute /bin/true",
        "become /bin/true",
        "listen",
        "connect",
        "datagram",
        "pair",
        "memory-file",
        "signal",
    ] {
        let status = tried(place.path(), act);
        assert_eq!(status.signal(), Some(libc::SIGSYS), "{act}: {status}");
    }
    assert_eq!(
        tried(place.path(), "abort").signal(),
        Some(libc::SIGABRT),
        "a crash is still told as one"
    );
    assert_eq!(
        fs::read_dir(place.path().join("read")).unwrap().count(),
        2,
        "nothing was changed"
    );
}

#[test]
fn a_child_may_read_the_folders_of_its_files_and_of_what_they_link_to() {
    let place = place();
    let at = |name: &str| place.path().canonicalize().unwrap().join(name);
    let bounds = |files: &[(PathBuf, bool)]| {
        let files = files.iter().map(|(file, anywhere)| (&**file, *anywhere));
        Bounds::of(1, files).read
    };
    let own = (at("read/file"), false);
    let link = (at("read/link"), false);
    let absent = (PathBuf::from("absent.h5"), false);
    let anywhere = (at("read/file"), true);
    assert_eq!(bounds(&[own]), Some([at("read")].into()));
    assert_eq!(
        bounds(std::slice::from_ref(&link)),
        Some([at("read"), at("outside")].into())
    );
    assert_eq!(bounds(&[absent]), Some([".".into()].into()));
    assert_eq!(bounds(&[anywhere, link]), None);
}

/// The service manager restricts the packaged server from outside.
#[test]
fn the_unit_of_the_service_manager_restricts_the_server_and_lets_trial_children_confine_themselves()
{
    let unit = include_str!("../../packaging/voltile.service");
    let value = |key: &str| {
        let mut values = unit
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        values.next().unwrap_or_else(|| panic!("{key} is missing"))
    };
    // The calls by which trial children confine themselves.
    let calls: Vec<&str> = value("SystemCallFilter").split(' ').collect();
    for call in [
        "seccomp",
        "landlock_create_ruleset",
        "landlock_add_rule",
        "landlock_restrict_self",
    ] {
        assert!(calls.contains(&call), "{call}");
    }
    // TCP, and Unix sockets.
    assert_eq!(value("RestrictAddressFamilies"), "AF_UNIX AF_INET AF_INET6");
    assert_eq!(value("NoNewPrivileges"), "yes");
    assert_eq!(value("CapabilityBoundingSet"), "");
    // Nothing can be written but the cache, and a folder for a socket.
    assert_eq!(value("ProtectSystem"), "strict");
    assert_eq!(value("CacheDirectory"), "voltile");
    assert_eq!(value("RuntimeDirectory"), "voltile");
    assert!(!unit.contains("ReadWritePaths") && !unit.contains("StateDirectory"));
}
