//! What a confined process can and cannot do. Each act is tried in a process of its own: this test
//! program again, which runs only [`one_act`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use landlock::{AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use rustix::process::{Pid, Signal, kill_process};

use super::{AllowedFolders, Bounds, Lack, Needs};
use crate::base::name::Name;
use crate::config::{DatasetSettings, Settings};

const ACT: &str = "VOLTILE_TEST_ACT";
const PLACE: &str = "VOLTILE_TEST_PLACE";
/// The exit status after an act that succeeded; if it failed, the status is the number of the
/// error.
const DONE: i32 = 42;
const DENIED: i32 = libc::EACCES;

/// Tries an act under the confinement that begins its name.
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

/// A place with a folder that may be read, one that may be written, and one that may not be used.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for folder in ["read", "write", "sockets", "outside"] {
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
    let (kind, act) = act.split_once(' ').unwrap();
    let folder = |name: &str| place.join(name);
    let parent = rustix::process::getppid().unwrap();
    match kind {
        "server" => {
            let needs = Needs::default()
                .and_file(&folder("read/file"))
                .and_written(&folder("write/file"));
            let needs = needs.and_socket(&folder("sockets/file"));
            drop(super::server(&needs));
        }
        _ => {
            let lacking = super::trial_child(&Bounds {
                memory: 1 << 30,
                confined: true,
                read: Some(vec![folder("read").display().to_string()]),
            });
            assert!(lacking.is_empty() || !has_landlock(), "{lacking:?}");
        }
    }
    let status = match done(&place, parent, act) {
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
        "socket" => UnixListener::bind(at(what)).map(drop),
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
        assert_eq!(
            tried(place.path(), &format!("child {act}")).code(),
            Some(DONE),
            "{act}"
        );
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
            assert_eq!(
                tried(place.path(), &format!("child {act}")).code(),
                Some(DENIED),
                "{act}"
            );
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
        let status = tried(place.path(), &format!("child {act}"));
        assert_eq!(status.signal(), Some(libc::SIGSYS), "{act}: {status}");
    }
    assert_eq!(
        tried(place.path(), "child abort").signal(),
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
fn a_server_reads_and_writes_only_its_folders() {
    let place = place();
    let own = std::env::current_exe().unwrap();
    let own = format!("execute {}", own.display());
    for act in [
        "read read/file",
        "list read",
        "create write/new",
        "remove write/new",
        "make-folder write/folder",
        "socket sockets/new",
        "remove sockets/file",
        "listen",
        &own,
    ] {
        assert_eq!(
            tried(place.path(), &format!("server {act}")).code(),
            Some(DONE),
            "{act}"
        );
    }
    if !has_landlock() {
        return;
    }
    for act in [
        "read outside/file",
        "read read/link",
        "list outside",
        "read /etc/passwd",
        "write read/file",
        "create read/new",
        "remove read/file",
        "rename read/file",
        "create outside/new",
        "link write/link",
        "socket write/socket",
        "create sockets/other",
        "execute /bin/true",
        "become /bin/true",
    ] {
        assert_eq!(
            tried(place.path(), &format!("server {act}")).code(),
            Some(DENIED),
            "{act}"
        );
    }
    let needed = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if needed.scope(Scope::Signal).is_ok() {
        assert_eq!(
            tried(place.path(), "server signal").code(),
            Some(libc::EPERM)
        );
    }
}

fn settings(files: &[&Path], cache: Option<&Path>, allow_external: bool) -> Settings {
    let mut settings = Settings::default();
    for (number, file) in files.iter().enumerate() {
        let dataset = DatasetSettings {
            allow_external,
            ..DatasetSettings::of_file(file.to_path_buf())
        };
        settings
            .datasets
            .insert(Name::nearest(&format!("d{number}")), dataset);
    }
    settings.cache.directory = cache.map(Path::to_owned);
    settings
}

#[test]
fn settings_that_need_another_folder_lack_it() {
    let place = place();
    let at = |name: &str| place.path().canonicalize().unwrap().join(name);
    let (file, cache) = (at("read/file"), at("write"));
    let allowed = AllowedFolders::new(&Needs::from_settings(&settings(
        &[&file],
        Some(&cache),
        false,
    )));
    let lacks = |files: &[&Path], cache: Option<&Path>, anywhere| {
        allowed.lacks(&settings(files, cache, anywhere))
    };
    assert_eq!(lacks(&[&file], Some(&cache), false), None);
    assert_eq!(
        lacks(&[&file, &at("read/later/new.h5")], None, false),
        None,
        "below the folder, though not there yet"
    );
    assert_eq!(
        lacks(&[&file, &at("outside/file")], None, false),
        Some(Lack::Reading(at("outside")))
    );
    assert_eq!(
        lacks(&[&at("read/link")], None, false),
        Some(Lack::Reading(at("outside"))),
        "links are resolved"
    );
    assert_eq!(
        lacks(&[&file], Some(&at("read")), false),
        Some(Lack::Writing(at("read")))
    );
    assert_eq!(
        lacks(&[&file], None, true),
        Some(Lack::Anywhere("d0".to_owned()))
    );
    assert_eq!(
        allowed.lacks_file(&at("read/link").into()),
        Some(Lack::Reading(at("read/link")))
    );
    assert_eq!(allowed.lacks_file(&at("read/file").into()), None);
    let anywhere = AllowedFolders::new(&Needs::from_settings(&settings(&[&file], None, true)));
    assert_eq!(
        anywhere.lacks(&settings(&[&at("outside/file")], None, false)),
        None
    );
    assert_eq!(
        AllowedFolders::unconfined().lacks(&settings(&[&file], Some(&cache), true)),
        None
    );
    let told = lacks(&[&at("outside/file")], None, false)
        .unwrap()
        .to_string();
    assert!(
        told.contains("outside") && told.contains("restart"),
        "{told}"
    );
}

#[test]
fn the_log_names_the_folders() {
    let place = place();
    let at = |name: &str| place.path().canonicalize().unwrap().join(name);
    let many: Vec<PathBuf> = (0..12)
        .map(|number| at(&format!("read/{number:02}")))
        .collect();
    many.iter()
        .for_each(|folder| fs::create_dir(folder).unwrap());
    let files: Vec<PathBuf> = many.iter().map(|folder| folder.join("a.h5")).collect();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let told = |files: &[&Path], cache, anywhere| {
        AllowedFolders::new(&Needs::from_settings(&settings(files, cache, anywhere))).to_string()
    };
    let all = told(&files, None, false);
    assert!(
        all.contains("read/07, 4 more folders; writing is restricted to no folder"),
        "{all}"
    );
    let (file, cache) = (at("read/file"), at("write"));
    let top = told(&[files[0], &file], Some(&cache), false);
    assert_eq!(
        top,
        format!(
            "reading is restricted to {}; writing is restricted to {}",
            at("read").display(),
            at("write").display()
        ),
        "folders below another are left out"
    );
    assert!(
        told(&files, None, true)
            .starts_with("reading is not restricted, as datasets.d0.allow_external")
    );
    let needs = Needs::default().and_socket(&at("write/http.sock"));
    let sockets = AllowedFolders::new(&needs).to_string();
    assert!(
        sockets.ends_with(&format!(
            "no folder, and to sockets in {}",
            at("write").display()
        )),
        "{sockets}"
    );
    let missing = AllowedFolders::new(&Needs::from_settings(&settings(
        &[&at("none/a.h5")],
        None,
        false,
    )));
    assert_eq!(missing.missing(), [at("none")]);
    assert!(
        AllowedFolders::unconfined()
            .to_string()
            .contains("files.confinement")
    );
}

/// The service manager confines the packaged server, too: from outside, and with the same folders
/// and connections.
#[test]
fn the_unit_of_the_service_manager_allows_what_a_confined_server_needs_and_no_more() {
    let unit = include_str!("../../packaging/voltile.service");
    let value = |key: &str| {
        let values = unit
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        values
            .map(str::to_owned)
            .next()
            .unwrap_or_else(|| panic!("{key} is missing"))
    };
    // The calls by which a server and its trial children confine themselves.
    let calls = value("SystemCallFilter");
    for call in [
        "seccomp",
        "landlock_create_ruleset",
        "landlock_add_rule",
        "landlock_restrict_self",
    ] {
        assert!(calls.split(' ').any(|allowed| allowed == call), "{call}");
    }
    // TCP, and Unix sockets.
    assert_eq!(value("RestrictAddressFamilies"), "AF_UNIX AF_INET AF_INET6");
    assert_eq!(
        (value("NoNewPrivileges"), value("CapabilityBoundingSet")),
        ("yes".to_owned(), String::new())
    );
    // Nothing can be written but what the packaged configuration names: the cache, and a folder for
    // a socket.
    let mut settings = Settings::default();
    settings.cache.directory = Some(PathBuf::from("/var/cache").join(value("CacheDirectory")));
    settings.server.unix_socket = Some(
        PathBuf::from("/run")
            .join(value("RuntimeDirectory"))
            .join("http.sock"),
    );
    let Needs { write, sockets, .. } = Needs::from_settings(&settings);
    let folders: Vec<_> = write
        .iter()
        .chain(&sockets)
        .map(|folder| folder.to_str().unwrap())
        .collect();
    assert_eq!(
        (value("ProtectSystem").as_str(), folders),
        ("strict", vec!["/var/cache/voltile", "/run/voltile"])
    );
    assert!(!unit.contains("ReadWritePaths") && !unit.contains("StateDirectory"));
}
