//! The harness of the stories: the real binary in a directory of its own, asked over real sockets.
//!
//! A [`Place`] is where a story happens; in it commands run and servers are started. A [`Server`] listens on a port of
//! the system's choice, and when it is dropped it is told to stop: it must end well, soon, and with a clean log. What is
//! on the wire is in [`wire`], what is in a PNG in [`picture`], volumes made for a story are in [`volumes`].

#![allow(dead_code, reason = "each file of stories uses a part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a story that cannot go on has failed"
)]

pub mod made;
pub mod picture;
pub mod volumes;
pub mod wire;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wire::{Answer, Connection};

/// What stands before the path of every tile, by default.
pub const MOUNT: &str = "/ndtilecache/tilecache";
/// Longer than anything here takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A file that is checked in.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A list in one of the checked-in files.
pub fn fixture_json(name: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap()
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The whole part of a counter's value.
fn whole(value: &str) -> u64 {
    value.parse::<f64>().unwrap() as u64
}

/// A directory of its own, in which the program runs.
pub struct Place {
    directory: TempDir,
    servers: AtomicUsize,
}

/// What a command came to.
pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), servers: AtomicUsize::new(0) }
    }

    /// A place with a configuration that is read by itself, since it has the default name.
    pub fn with(configuration: &str) -> Self {
        let place = Self::new();
        place.write("voltile.toml", configuration);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// The program, in this directory and without anything of the environment.
    pub fn voltile<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_voltile"));
        command.args(arguments).env_clear().current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        outcome(&mut self.voltile(arguments))
    }

    /// Starts `voltile serve` with these arguments.
    pub fn serve<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Server {
        let mut command = self.voltile(["serve", "--bind", "127.0.0.1:0"]);
        command.args(arguments);
        self.start(command)
    }

    /// Starts a server and reads where it listens.
    pub fn start(&self, mut command: Command) -> Server {
        let number = self.servers.fetch_add(1, Ordering::Relaxed);
        let (out, err) = (self.path(&format!("{number}.out")), self.path(&format!("{number}.err")));
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        self.spawned(command, out, err)
    }

    /// Starts a server whose log goes elsewhere.
    pub fn start_logging_to(&self, mut command: Command, log: impl Into<Stdio>) -> Server {
        let number = self.servers.fetch_add(1, Ordering::Relaxed);
        let (out, err) = (self.path(&format!("{number}.out")), self.path(&format!("{number}.err")));
        File::create(&err).unwrap();
        command.stdout(File::create(&out).unwrap()).stderr(log);
        self.spawned(command, out, err)
    }

    fn spawned(&self, mut command: Command, out: PathBuf, err: PathBuf) -> Server {
        let child = command.spawn().unwrap();
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Server { child, address, out, err, stopped: false };
        server.address = server.announced();
        server
    }
}

/// Runs a command to its end.
pub fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let outcome = Outcome {
        code: output.status.code().expect("no signal ended it"),
        out: text(&output.stdout),
        err: text(&output.stderr),
    };
    assert_clean(&outcome.err);
    outcome
}

/// A log of a program that works tells of broken files, and never of a broken program.
fn assert_clean(log: &str) {
    for sign in ["panicked", "defect"] {
        assert!(!log.contains(sign), "the log is not clean:\n{log}");
    }
}

/// A server that runs.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    out: PathBuf,
    err: PathBuf,
    stopped: bool,
}

impl Server {
    fn announced(&mut self) -> SocketAddr {
        let mut address = None;
        wait_until("the server says where it listens", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the server ended, {status}:\n{}", self.log());
            }
            let printed = self.printed();
            let line = printed.lines().find_map(|line| line.strip_prefix("voltile listening on http://"));
            address = line.filter(|_| printed.contains("\npage ")).map(|line| line.parse().unwrap());
            address.is_some()
        });
        address.unwrap()
    }

    /// What it wrote on standard output.
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    /// What it wrote on standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Asks over a connection of its own.
    pub fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.connect().ask(method, target, headers)
    }

    pub fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[])
    }

    /// What is told in JSON at a path.
    pub fn json(&self, target: &str) -> serde_json::Value {
        self.get(target).json()
    }

    /// The addresses of the pictures on the simple page: each channel in each plane.
    pub fn pictures(&self) -> Vec<String> {
        let page = self.get("/simple").text();
        page.split("src=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    }

    /// The tile at a path below the default mount.
    pub fn tile(&self, path: &str) -> Answer {
        self.get(&format!("{MOUNT}/{path}"))
    }

    /// Every counter by name; of seconds the whole ones.
    pub fn metrics(&self) -> BTreeMap<String, u64> {
        let text = self.get("/metrics").text();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pair = |line: &str| line.split_once(' ').map(|(name, value)| (name.to_owned(), whole(value)));
        lines.filter_map(pair).collect()
    }

    /// One counter.
    pub fn count(&self, name: &str) -> u64 {
        self.metrics()[name]
    }

    /// How many tiles were drawn so far.
    pub fn renders(&self) -> u64 {
        self.count("voltile_renders_total")
    }

    /// The most memory it has taken so far, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the system tells it");
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal of that name.
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").arg("-c").arg(kill).status().unwrap().success());
    }

    /// Sends SIGKILL, and sees it end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.stopped = true;
    }

    /// How it ended, once it has.
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        self.stopped = true;
        status.unwrap()
    }

    /// Tells it to stop, and sees it end well.
    pub fn stop(&mut self) {
        self.terminate();
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            // The story has failed already; its server must not outlive it.
            let _ = self.child.kill();
            let _ = self.child.wait();
            return;
        }
        if !self.stopped {
            self.stop();
        }
        assert_clean(&self.log());
    }
}
