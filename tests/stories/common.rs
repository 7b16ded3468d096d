//! The tools of all stories: they run the real program in a temporary directory, and make requests
//! to it over real sockets.
//!
//! A [`Place`] is a directory in which commands run and servers start. A [`Server`] listens on a
//! port that the system chooses. When it is dropped it is stopped, it must exit with status 0, and
//! its [`log`] must hold no error that the story did not announce. [`wire`] is HTTP as it is sent,
//! [`picture`] decodes tiles, [`made`] and [`volumes`] write HDF5 files.
//!
//! Stories run in parallel threads of one process: none may change the environment, the working
//! directory or anything else that belongs to the process, or rely on a port that it does not hold.

pub mod helpers;
mod log;
pub mod made;
pub mod objects;
pub mod picture;
pub mod volumes;
pub mod wire;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use log::Announced;
use wire::{Answer, Connection};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_voltile");
/// The beginning of every tile's path by default.
pub const MOUNT: &str = "/ndtilecache/tilecache";
/// The longest wait for anything: far longer than it takes on a slow and busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The number of attempts of [`until_in_time`].
pub const ATTEMPTS: usize = 100;
/// Settings of a server that does not close a connection because a story is slow to send its
/// request.
const PATIENT: [&str; 4] = [
    "--set",
    "server.head_timeout=5m",
    "--set",
    "server.idle_timeout=5m",
];

/// An address at which nothing listens: the system hands out no port this low.
pub const NOBODY: &str = "127.0.0.1:1";

/// The error of a tile whose file changes while it is rendered.
pub const CHANGED: &str = "a file has changed since it was opened";

/// The path of a checked-in file.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

/// The folder of real files from other projects. If it does not lie next to this one, the story is
/// skipped.
pub fn shared_data() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    if !folder.join("MANIFEST.md").exists() {
        skipped("there is no ../shared/data");
        return None;
    }
    Some(folder)
}

/// Notes that the running story is skipped, in the file that `scripts/test` names, or else on
/// standard error.
pub fn skipped(reason: &str) {
    let story = thread::current();
    let line = format!("{} ({reason})\n", story.name().unwrap_or("a story"));
    // Not by `eprintln!`, which the test runner keeps to itself.
    let Some(file) = std::env::var_os("VOLTILE_SKIPPED") else {
        return io::stderr()
            .write_all(format!("SKIPPED: {line}").as_bytes())
            .unwrap();
    };
    File::options()
        .append(true)
        .open(file)
        .unwrap()
        .write_all(line.as_bytes())
        .unwrap();
}

/// A checked-in JSON file.
pub fn fixture_json(name: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap()
}

/// Waits until a condition holds. The longer it takes, the less often it is checked: checks take
/// the processor from what they wait for.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "timed out waiting for: {what}");
        thread::sleep((waited / 50).clamp(Duration::from_millis(2), Duration::from_millis(50)));
    }
}

/// Repeats an attempt, numbered from 0, until it returns something. It returns `None` if this
/// thread was too slow to see what the story is about, such as a tile that is still being rendered.
pub fn until_in_time<T>(attempt: impl FnMut(usize) -> Option<T>) -> T {
    (0..ATTEMPTS)
        .find_map(attempt)
        .expect("one of many attempts is in time")
}

/// Sends a signal to a child.
pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Every metric by name; fractions are cut off.
pub fn metrics(answer: &Answer) -> BTreeMap<String, u64> {
    let text = answer.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &str| {
        line.split_once(' ')
            .map(|(name, value)| (name.to_owned(), value.parse::<f64>().unwrap()))
    };
    lines
        .filter_map(pair)
        .map(|(name, value)| (name, value as u64))
        .collect()
}

/// A temporary directory in which the program runs.
pub struct Place {
    directory: TempDir,
    servers: AtomicUsize,
}

/// The exit status and output of a command.
pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            servers: AtomicUsize::new(0),
        }
    }

    /// A place with a configuration file of the default name.
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

    /// The program, in this directory and with an empty environment.
    pub fn voltile<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments);
        self.prepare(&mut command);
        command
    }

    /// Another program, in this directory and with an empty environment.
    pub fn started(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        self.prepare(&mut command);
        command
    }

    /// The same, started by a shell that sets a limit first, such as `ulimit -n 64`.
    pub fn limited<S: AsRef<OsStr>>(
        &self,
        limit: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("{limit} && exec \"$0\" \"$@\""))
            .arg(PROGRAM)
            .args(arguments);
        self.prepare(&mut command);
        command
    }

    #[allow(
        unsafe_code,
        reason = "there is no safe way to act between fork and exec"
    )]
    fn prepare(&self, command: &mut Command) {
        command
            .env_clear()
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        // SAFETY: between fork and exec, the closure makes one system call and uses no memory of
        // the parent.
        unsafe { command.pre_exec(close_inherited) };
    }

    /// Runs a command to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        outcome(&mut self.voltile(arguments))
    }

    /// Starts `voltile serve` with these arguments.
    pub fn serve<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Server {
        let mut command = self.voltile(["serve", "--bind", "127.0.0.1:0"]);
        command.args(PATIENT).args(arguments);
        self.start(command)
    }

    /// Starts a server and reads its address from its standard output.
    pub fn start(&self, mut command: Command) -> Server {
        let (out, err) = self.outputs();
        command
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap());
        Server::spawn(command, out, err, Server::printed_address)
    }

    /// Starts a server that listens on Unix sockets only; its address means nothing.
    pub fn start_without_address(&self, mut command: Command) -> Server {
        let (out, err) = self.outputs();
        command
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap());
        Server::spawn(command, out, err, |server| {
            server
                .printed()
                .contains("voltile listening on unix:")
                .then(|| NOBODY.parse().unwrap())
        })
    }

    /// Starts a server whose log is not captured.
    pub fn start_logging_to(&self, mut command: Command, log: impl Into<Stdio>) -> Server {
        let (out, err) = self.outputs();
        File::create(&err).unwrap();
        command.stdout(File::create(&out).unwrap()).stderr(log);
        Server::spawn(command, out, err, Server::printed_address)
    }

    /// Starts a server whose standard output cannot be read.
    pub fn start_printing_to(&self, mut command: Command, output: impl Into<Stdio>) -> Server {
        let (out, err) = self.outputs();
        File::create(&out).unwrap();
        command.stdout(output).stderr(File::create(&err).unwrap());
        Server::spawn(command, out, err, Server::bound_address)
    }

    /// The files for standard output and standard error of the next server.
    fn outputs(&self) -> (PathBuf, PathBuf) {
        let number = self.servers.fetch_add(1, Ordering::Relaxed);
        (
            self.path(&format!("{number}.out")),
            self.path(&format!("{number}.err")),
        )
    }
}

/// Keeps descriptors of this process from the program. The HDF5 library opens files without
/// `O_CLOEXEC`: a server would hold the files that other stories are writing at this moment, and
/// their locks.
#[allow(unsafe_code, reason = "std and rustix do not wrap this call")]
fn close_inherited() -> io::Result<()> {
    // SAFETY: it sets flags of descriptors and accesses no memory.
    match unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs a command to its end.
pub fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let outcome = Outcome {
        code: output
            .status
            .code()
            .expect("it exits by itself, not by a signal"),
        out: text(&output.stdout),
        err: text(&output.stderr),
    };
    log::assert_no_defect(&outcome.err);
    outcome
}

/// A running server.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    out: PathBuf,
    err: PathBuf,
    has_ended: bool,
    announced: Mutex<Vec<Announced>>,
}

impl Server {
    fn spawn(
        mut command: Command,
        out: PathBuf,
        err: PathBuf,
        address: fn(&Self) -> Option<SocketAddr>,
    ) -> Self {
        let child = command.spawn().unwrap();
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Self {
            child,
            address: unknown,
            out,
            err,
            has_ended: false,
            announced: Mutex::default(),
        };
        wait_until("the server listens", || {
            if let Some(status) = server.child.try_wait().unwrap() {
                panic!("the server ended, {status}:\n{}", server.log());
            }
            server.address = address(&server).unwrap_or(unknown);
            server.address != unknown
        });
        server
    }

    /// The address on standard output, once everything is printed.
    fn printed_address(&self) -> Option<SocketAddr> {
        let printed = self.printed();
        let mut places = printed
            .lines()
            .filter_map(|line| line.strip_prefix("voltile listening on http"));
        let line = places
            .next()
            .map(|place| place.trim_start_matches("s").trim_start_matches("://"));
        line.filter(|_| printed.contains("\npage "))
            .map(|line| line.parse().unwrap())
    }

    /// The address of its listening socket, as the system lists it.
    fn bound_address(&self) -> Option<SocketAddr> {
        let process = format!("/proc/{}", self.child.id());
        let links = fs::read_dir(format!("{process}/fd")).unwrap().flatten();
        let held: Vec<PathBuf> = links
            .filter_map(|link| fs::read_link(link.path()).ok())
            .collect();
        let sockets = fs::read_to_string(format!("{process}/net/tcp")).unwrap();
        sockets.lines().skip(1).find_map(|socket| {
            let columns: Vec<&str> = socket.split_whitespace().collect();
            // The columns are: number, local address, remote address, state (0A: listening), …,
            // inode.
            let (local, state, inode) = (columns[1], columns[3], columns[9]);
            let is_held = || held.contains(&PathBuf::from(format!("socket:[{inode}]")));
            (state == "0A" && is_held()).then(|| socket_address(local))
        })
    }

    /// The text that it wrote to standard output.
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    /// The text that it wrote to standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }

    /// The lines of its log with level WARN or ERROR, except for what it says of the user who runs
    /// the stories.
    pub fn problems(&self) -> Vec<String> {
        let is_problem = |line: &&str| line.contains("WARN") || line.contains("ERROR");
        let log = self.log();
        let problems = log
            .lines()
            .filter(is_problem)
            .filter(|line| !line.contains("voltile runs as root"));
        problems.map(str::to_owned).collect()
    }

    /// Waits for a line with this text in its log, which a thread writes a little later than it
    /// happens.
    pub fn wait_for_log(&self, text: &str) {
        wait_until(&format!("{text:?} is logged"), || self.log().contains(text));
    }

    /// Announces an error: a line of level ERROR with this text must be in the log when the server
    /// has ended.
    pub fn expect_error(&self, text: &str) {
        self.announced.lock().unwrap().push(Announced {
            text: text.to_owned(),
            is_certain: true,
        });
    }

    /// Announces an error that depends on timing: it may be logged.
    pub fn allow_error(&self, text: &str) {
        self.announced.lock().unwrap().push(Announced {
            text: text.to_owned(),
            is_certain: false,
        });
    }

    /// The folder in which the system describes its process.
    pub fn process(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.child.id()))
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Sends a request over a connection of its own.
    pub fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.connect().ask(method, target, headers)
    }

    pub fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[])
    }

    /// The JSON at a path.
    pub fn json(&self, target: &str) -> serde_json::Value {
        self.get(target).json()
    }

    /// The addresses of the pictures on the simple page: each channel in each plane.
    pub fn pictures(&self) -> Vec<String> {
        let page = self.get("/simple").text();
        page.split("src=\"")
            .skip(1)
            .map(|rest| format!("/{}", rest.split('"').next().unwrap()))
            .collect()
    }

    /// The tile at a path below the default mount.
    pub fn tile(&self, path: &str) -> Answer {
        self.get(&format!("{MOUNT}/{path}"))
    }

    pub fn metrics(&self) -> BTreeMap<String, u64> {
        metrics(&self.get("/metrics"))
    }

    /// One metric.
    pub fn count(&self, name: &str) -> u64 {
        self.metrics()[name]
    }

    /// The number of tiles rendered.
    pub fn renders(&self) -> u64 {
        self.count("voltile_renders_total")
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The peak of its resident memory in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .expect("Linux reports it");
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub fn signal(&self, number: Signal) {
        signal(&self.child, number);
    }

    /// Sends SIGKILL, and waits until it has ended.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.has_ended = true;
    }

    /// Waits until it has ended, and returns how.
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        self.has_ended = true;
        status.unwrap()
    }

    /// Stops it with SIGTERM; it must exit with status 0.
    pub fn stop(&mut self) {
        self.terminate();
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }
}

/// An address as `/proc/net/tcp` has it: in hexadecimal, the bytes of the host in reverse order.
fn socket_address(text: &str) -> SocketAddr {
    let (host, port) = text.split_once(':').unwrap();
    let host = u32::from_str_radix(host, 16).unwrap().to_ne_bytes();
    SocketAddr::from((host, u16::from_str_radix(port, 16).unwrap()))
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            // The story has failed already; its server must not outlive it.
            let _ = self.child.kill();
            let _ = self.child.wait();
            return;
        }
        if !self.has_ended {
            self.stop();
        }
        log::assert_clean(&self.log(), &self.announced.lock().unwrap());
    }
}
