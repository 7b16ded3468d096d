//! Trials: every file is first opened in a child process, so that a file that crashes the HDF5
//! library does not crash this process.
//!
//! The child is this program, run with the hidden command `probe`. It opens one file after another,
//! with limits on CPU time and memory. It is sent each trial as a line of JSON, and writes a line
//! when the trial is over. If the child dies, the file in progress is refused, and another child
//! continues with the next file. Only the child's survival counts; its results are discarded. CPU
//! time is limited rather than the time that passes, because a slow disk is not the file's fault.
//! Several children run side by side, each with files of its own.
//!
//! The child reads objects in stores through this process: it sends requests among its answers, and
//! takes the bytes from its standard input.
//!
//! The child inherits nothing of this process but its pipes: no credentials of the environment, and
//! no open file. It confines itself before the first trial ([`crate::confine`]): it may read the
//! folders of the files on trial, and nothing else. The first line of its input says which folders,
//! and how much memory it may take; its first answer names the limits that the kernel does not
//! enforce.
//!
//! A file that cannot be tried is refused too; `files.trial = "off"` opens files without a trial.

mod memory;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use voltile_base::flow::{side_by_side, start_thread};
use voltile_base::metrics::StoreMetrics;
use voltile_hdf5::store::address::Address;
use voltile_hdf5::store::{self, Location, Relay, Store};

use super::failure::Failure;
use super::limits;
use crate::catalog::{RunTrials, Trial, accept_all};
use crate::config::Files;
use crate::confine::{self, Bounds};

/// The CPU time for a small file, in seconds. An undamaged file takes a hundredth of this time.
const MIN_CPU_SECONDS: u64 = 8;
/// A file gets one more second of CPU time for each of this many bytes: large files may hold
/// hundreds of thousands of objects.
const BYTES_PER_CPU_SECOND: u64 = 4 << 20;
/// The maximum CPU time for one file, in seconds.
const MAX_CPU_SECONDS: u64 = 50;
/// A child makes deferred reads ([`Trial::run`]) only until this long after its start, for all of
/// its files together.
const TRIAL_READS: Duration = Duration::from_secs(6);
/// The longest wait for one trial: longer than the maximum CPU time, as disks may be slow and other
/// processes need CPU time, too.
const PATIENCE: Duration = Duration::from_secs(3 * MAX_CPU_SECONDS);

/// The longest line from a child, in bytes. A child that a file has taken over may print anything.
const LONGEST_LINE: u64 = 64 << 10;

/// The maximum number of children that run side by side. More would hardly be faster.
const MAX_CHILDREN: usize = 4;
/// The maximum memory for a child. An index of a million chunks takes 60 MiB.
const MAX_MEMORY: u64 = 1 << 30;
/// A child that gets less than this runs alone.
const LEAST_MEMORY: u64 = 128 << 20;
/// Any shorter answer to a child counts as this many bytes, so that the number of unread answers is
/// limited, too.
const LEAST_ANSWER: u64 = 64 << 10;

/// Why a child is killed: the predicate of a sentence whose subject is "opening it".
const ASKS_TOO_MUCH: &str =
    "requests more bytes at once than the memory of the child process holds";
const INVALID_MESSAGE: &str = "makes the child process send an invalid message";
/// How to mend a damaged file.
const WRITE_AGAIN: &str = "write it again with the program that created it";

/// The variables of the environment that a child needs: where the program's libraries are, and
/// which instructions it may use.
const ENVIRONMENT: [&str; 2] = ["LD_LIBRARY_PATH", "VOLTILE_SIMD"];

/// The parent's messages, one line each; the bytes of an answer follow its line.
#[derive(Debug, Serialize, Deserialize)]
enum ToChild {
    Trial(Trial),
    Bytes(store::RelayAnswer),
}

/// The child's messages, one line each.
#[derive(Debug, Serialize, Deserialize)]
enum FromChild {
    /// The trial is over.
    Done,
    /// The child wants bytes of an object.
    Wanted(store::RelayRequest),
}

/// The child's side: runs trials until its input ends.
pub(super) fn run() -> Result<(), Failure> {
    name_process();
    let reads_end = Instant::now() + TRIAL_READS;
    let mut first = String::new();
    if io::stdin().read_line(&mut first)? == 0 {
        return Ok(());
    }
    let bounds: Bounds = serde_json::from_str(&first)?;
    let unenforced = confine::trial_child(&bounds);
    memory::watch(bounds.memory)?;
    say(&unenforced.join("; "))?;
    let relay = Relay::new(Box::new(|wanted| {
        say(&serde_json::to_string(&FromChild::Wanted(wanted.clone()))?)
    }));
    let relay = Arc::new(relay);
    let store = Store::new(Some(Arc::clone(&relay)), StoreMetrics::default(), None);
    let (sender, trials) = channel();
    // Answers arrive while a trial runs.
    start_thread("input", move || {
        if let Err(error) = listen(&relay, &sender) {
            tracing::debug!("the parent's side of the pipe has ended: {error}");
        }
    })?;
    for trial in trials {
        limits::allow_cpu_seconds(cpu_seconds(&trial));
        trial.run(reads_end, &store);
        say(&serde_json::to_string(&FromChild::Done)?)?;
    }
    Ok(())
}

/// Passes on the parent's messages until its side of the pipe ends.
fn listen(relay: &Relay, trials: &Sender<Trial>) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        match serde_json::from_str(&line)? {
            ToChild::Trial(trial) => {
                if trials.send(trial).is_err() {
                    break;
                }
            }
            ToChild::Bytes(answer) => {
                let mut bytes = vec![0; answer.length()];
                input.read_exact(&mut bytes)?;
                relay.take(answer, bytes);
            }
        }
        line.clear();
    }
    Ok(())
}

/// Sets the name shown in process lists, which would otherwise be `exe`, from `/proc/self/exe`.
fn name_process() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::set_name(c"voltile") {
        tracing::debug!("the child cannot be named: {error}");
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// The CPU time allowed for a file, in seconds.
fn cpu_seconds(trial: &Trial) -> u64 {
    let Some(path) = trial.file.path() else {
        return MAX_CPU_SECONDS;
    };
    let bytes = std::fs::metadata(path).map_or(0, |about| about.len());
    (MIN_CPU_SECONDS + bytes / BYTES_PER_CPU_SECOND).min(MAX_CPU_SECONDS)
}

/// Runs trials as the settings say; objects are read from this store.
pub(super) fn run_trials(store: Store) -> Box<RunTrials> {
    Box::new(move |files, trials| {
        if !files.trial || trials.is_empty() {
            return accept_all(files, trials);
        }
        let (sender, verdicts) = channel();
        let store = store.clone();
        let started = start_thread("trials", move || {
            try_each(&own_program(), &store, files, &trials, &|file, why| {
                // Nobody waits any more if the server is shutting down.
                let _ = sender.send((file, why));
            });
        });
        if let Err(error) = started {
            tracing::warn!("no thread could be started for trials: {error}");
        }
        verdicts
    })
}

/// Runs trials in several children side by side; `program` is the path of the child's program.
/// Calls `ended` when a trial ends: with the file, and the reason if the file must not be opened.
fn try_each(
    program: &Path,
    store: &Store,
    files: Files,
    trials: &[Trial],
    ended: &(dyn Fn(Location, Option<String>) + Sync),
) {
    let children = child_count(files.trial_memory);
    let memory = (files.trial_memory / children as u64).min(MAX_MEMORY);
    // The child may read only files: objects have no path, and this process reads them for it.
    let paths = trials
        .iter()
        .filter_map(|trial| Some((trial.file.path()?, trial.allow_external)));
    let bounds = Bounds::of(memory, paths);
    side_by_side(trials, children, |trials| {
        let mut child = None;
        for trial in trials {
            let file = trial.file.clone();
            // Missing files are reported elsewhere, and need no trial.
            if file.path().is_some_and(|path| !path.is_file()) {
                ended(file, None);
                continue;
            }
            let start = &|| TrialChild::start(program, store, &bounds);
            let why = match run_trial(start, child.take(), trial) {
                Ok(TrialOutcome::Survived(survivor)) => {
                    child = Some(survivor);
                    None
                }
                Ok(TrialOutcome::Died(why) | TrialOutcome::Late(why)) => Some(why),
                Err(error) => Some(not_tried(&error)),
            };
            ended(file, why);
        }
    });
}

/// The number of children that run side by side and share `memory` bytes: at least two if the
/// memory suffices, because a file may take long.
fn child_count(memory: u64) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let fitting = usize::try_from(memory / LEAST_MEMORY).unwrap_or(usize::MAX);
    cores.clamp(2, MAX_CHILDREN).min(fitting).max(1)
}

/// Tries a file in the child of the last trial, or in a new child if there is none or it has died
/// since.
fn run_trial(
    start: &dyn Fn() -> io::Result<TrialChild>,
    child: Option<TrialChild>,
    trial: &Trial,
) -> io::Result<TrialOutcome> {
    if let Some(mut child) = child
        && child.send(trial).is_ok()
    {
        match child.outcome(trial)? {
            // An old child may have died of an earlier file, so only the death of a new child counts.
            // A child that took too long was alive.
            TrialOutcome::Died(_) => {}
            outcome => return Ok(outcome),
        }
    }
    let mut child = start()?;
    child.send(trial)?;
    child.outcome(trial)
}

/// Why a file is refused if its trial could not be run.
fn not_tried(error: &io::Error) -> String {
    format!(
        "the file is refused because it could not be opened in a child process first: {error}. Fix that, or \
         set files.trial = \"off\" to open files without a trial"
    )
}

/// A child process that runs trials.
struct TrialChild {
    child: Child,
    input: ChildInput,
    /// Receives a message for each trial that the child finishes, or the reason to kill the child.
    done: Receiver<Result<(), &'static str>>,
    /// The object on trial: the child may read all objects in its folder and below.
    on_trial: Arc<Mutex<Option<Address>>>,
}

/// How a trial ended; with the reason if the file is refused.
enum TrialOutcome {
    Survived(TrialChild),
    /// The child died, or was killed because of a message that it sent.
    Died(String),
    /// The child was killed because it took too long.
    Late(String),
}

impl TrialChild {
    fn start(program: &Path, store: &Store, bounds: &Bounds) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg0(env!("CARGO_PKG_NAME"))
            .arg("probe")
            .env_clear()
            .envs(
                ENVIRONMENT
                    .iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?))),
            )
            .env("VOLTILE_LOG", "off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = ChildInput::start(child.stdin.take().ok_or_else(no_pipes)?, bounds.memory)?;
        let on_trial = Arc::<Mutex<Option<Address>>>::default();
        let out = child.stdout.take().ok_or_else(no_pipes)?;
        let (sender, done) = channel();
        // A separate thread, because reads from pipes have no timeout.
        let answers = input.clone();
        let shared_on_trial = Arc::clone(&on_trial);
        let store = store.clone();
        start_thread("trials", move || {
            hear_child(out, &answers, &shared_on_trial, &store, &sender);
        })?;
        input.send(bounds, Bytes::new(), 0)?;
        Ok(Self {
            child,
            input,
            done,
            on_trial,
        })
    }

    /// Sends a trial to the child.
    fn send(&mut self, trial: &Trial) -> io::Result<()> {
        *self.on_trial.lock() = match &trial.file {
            Location::Object(address) => Some(address.clone()),
            Location::Path(_) => None,
        };
        self.input
            .send(&ToChild::Trial(trial.clone()), Bytes::new(), 0)
    }

    /// Waits for the child to finish the trial that was sent.
    fn outcome(mut self, trial: &Trial) -> io::Result<TrialOutcome> {
        let ended = self.done.recv_timeout(PATIENCE);
        if ended == Ok(Ok(())) {
            return Ok(TrialOutcome::Survived(self));
        }
        // The child may only have closed its output: then `wait` would not return.
        self.child.kill()?;
        let status = self.child.wait()?;
        Ok(match ended {
            Ok(Err(reason)) => TrialOutcome::Died(refusal(reason, WRITE_AGAIN)),
            Err(RecvTimeoutError::Timeout) => TrialOutcome::Late(format!(
                "the file is refused because opening it took more than {} seconds; check whether its disk can be read, or \
                 copy the file to a faster one",
                PATIENCE.as_secs()
            )),
            Ok(Ok(())) | Err(RecvTimeoutError::Disconnected) => {
                TrialOutcome::Died(died_of(status, cpu_seconds(trial), self.input.memory))
            }
        })
    }
}

impl Drop for TrialChild {
    fn drop(&mut self) {
        // A child that hangs would never end by itself.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn no_pipes() -> io::Error {
    io::Error::other("the child process has no pipes")
}

/// Answers a child's requests for bytes of objects. Sends a message to `done` when a trial is over,
/// or the child must be killed. Returns when the child's output ends.
fn hear_child(
    out: ChildStdout,
    answers: &ChildInput,
    on_trial: &Mutex<Option<Address>>,
    store: &Store,
    done: &Sender<Result<(), &'static str>>,
) {
    let mut out = BufReader::new(out);
    if let Some(unenforced) = next_line(&mut out).filter(|line| !line.is_empty()) {
        tracing::debug!("a trial child is not fully confined: {unenforced}");
    }
    while let Some(line) = next_line(&mut out) {
        match serde_json::from_str(&line) {
            Ok(FromChild::Wanted(wanted)) => {
                let expected = wanted.length().max(LEAST_ANSWER);
                if !answers.expect(expected) {
                    // If nobody receives it, the child is being killed already.
                    let _ = done.send(Err(ASKS_TOO_MUCH));
                    break;
                }
                let own = on_trial.lock().clone();
                let address = own.and_then(|own| own.asked_on_trial(&wanted.address));
                let answers = answers.clone();
                store.answer(wanted, address, move |answer, bytes| {
                    if let Err(error) = answers.send(&ToChild::Bytes(answer), bytes, expected) {
                        tracing::debug!("a trial child gets no answer: {error}");
                    }
                });
            }
            Ok(FromChild::Done) => {
                if done.send(Ok(())).is_err() {
                    break;
                }
            }
            Err(_) => {
                let _ = done.send(Err(INVALID_MESSAGE));
                break;
            }
        }
    }
}

/// The input of a child. A thread writes it: a child that a file has taken over may read nothing,
/// and only [`TrialChild::outcome`], which has a time limit, waits for the child.
#[derive(Clone)]
struct ChildInput {
    queue: Sender<ChildMessage>,
    /// The number of bytes that the child has asked for and not read yet.
    unread: Arc<AtomicU64>,
    /// The memory of the child in bytes, and the maximum of `unread`.
    memory: u64,
}

/// A line, and the bytes that follow it.
struct ChildMessage {
    line: String,
    bytes: Bytes,
    /// The number of bytes that this message adds to the unread bytes until it is written.
    expected: u64,
}

impl ChildInput {
    fn start(mut pipe: ChildStdin, memory: u64) -> io::Result<Self> {
        let (queue, messages) = channel::<ChildMessage>();
        let unread = Arc::<AtomicU64>::default();
        let still_unread = Arc::clone(&unread);
        start_thread("trials", move || {
            for message in messages {
                let written = writeln!(pipe, "{}", message.line);
                if let Err(error) = written.and_then(|()| pipe.write_all(&message.bytes)) {
                    tracing::debug!("a trial child takes no more input: {error}");
                    break;
                }
                still_unread.fetch_sub(message.expected, Ordering::Relaxed);
            }
        })?;
        Ok(Self {
            queue,
            unread,
            memory,
        })
    }

    /// Counts an answer that was asked for as unread; returns `false` if the unread answers are now
    /// longer than the child's memory.
    fn expect(&self, expected: u64) -> bool {
        let before = self.unread.fetch_add(expected, Ordering::Relaxed);
        before.saturating_add(expected) <= self.memory
    }

    /// Sends a line of JSON and the bytes that follow it, without waiting; fails if the child takes
    /// no more input.
    fn send(&self, line: &impl Serialize, bytes: Bytes, expected: u64) -> io::Result<()> {
        let message = ChildMessage {
            line: serde_json::to_string(line)?,
            bytes,
            expected,
        };
        self.queue
            .send(message)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The next line, without the line break; `None` at the end of the output, and if the line is
/// longer than [`LONGEST_LINE`].
fn next_line(out: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    out.take(LONGEST_LINE).read_until(b'\n', &mut line).ok()?;
    if line.pop() != Some(b'\n') {
        return None;
    }
    String::from_utf8(line).ok()
}

/// The path by which to run this program again: `/proc/self/exe` if it exists, because the
/// program's file may have been replaced since the start.
fn own_program() -> PathBuf {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return running;
    }
    // A path that does not exist is reported when the child is started.
    std::env::current_exe().unwrap_or(running)
}

/// Describes how a file ended the process that opened it, and what to do.
fn died_of(status: ExitStatus, cpu_seconds: u64, memory: u64) -> String {
    let mut mend = WRITE_AGAIN;
    let predicate = match (status.signal(), status.code()) {
        (Some(libc::SIGXCPU), _) => format!("takes more than {cpu_seconds} seconds of CPU time"),
        (None, Some(memory::EXCEEDED)) => {
            mend = "write it again with the program that created it, or, if you trust it and there is enough memory, \
                    set files.trial = \"off\"";
            format!("takes more than {} MiB of memory", memory >> 20)
        }
        (Some(signal @ libc::SIGABRT), _) => {
            format!("ends the process (signal {signal}), or takes more memory than it can get")
        }
        (Some(signal @ libc::SIGKILL), _) => {
            format!(
                "ends the process (signal {signal}), most likely because the system has no more memory"
            )
        }
        (Some(signal @ libc::SIGSEGV), _) => format!("crashes the HDF5 library (signal {signal})"),
        (Some(signal @ libc::SIGSYS), _) => format!(
            "does what reading a file never needs, such as starting a program, opening a connection or writing (the \
             trial child was stopped by its filter of system calls, signal {signal})"
        ),
        (Some(signal), _) => format!("ends the process (signal {signal})"),
        (None, code) => format!("ends the process (status {})", code.unwrap_or_default()),
    };
    refusal(&predicate, mend)
}

fn refusal(predicate: &str, mend: &str) -> String {
    format!(
        "the file is refused because opening it {predicate}, as a trial in a child process showed; it is damaged or \
         malicious: {mend}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(path: &Path) -> Trial {
        Trial {
            file: path.into(),
            allow_external: false,
            discover: true,
            paths: Default::default(),
            tables: Default::default(),
        }
    }

    /// The refused files, sorted.
    fn refused_by(program: &Path, trials: &[Trial]) -> Vec<(Location, String)> {
        let refused = Mutex::new(Vec::new());
        let store = Store::default();
        try_each(program, &store, Files::default(), trials, &|file, why| {
            refused.lock().extend(why.map(|why| (file, why)));
        });
        let mut refused = refused.into_inner();
        refused.sort();
        refused
    }

    fn refused_where(program: &Path) -> Vec<(Location, String)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = refused_by(program, &[trial(file.path()), trial(file.path())]);
        assert!(
            refused
                .iter()
                .all(|(refused, _)| refused.path() == Some(file.path()))
        );
        refused
    }

    #[test]
    fn a_file_that_cannot_be_tried_is_refused() {
        let refused = refused_where(Path::new("/nonexistent/voltile"));
        assert_eq!(refused.len(), 2);
        assert!(
            refused
                .iter()
                .all(|(_, why)| why.contains("files.trial = \"off\"")),
            "{refused:?}"
        );
        // It neither reads nor writes: its pipe breaks, or it ends before the file is tried.
        assert_eq!(refused_where(Path::new("/bin/true")).len(), 2);
    }

    #[test]
    fn a_child_that_died_after_a_trial_is_not_blamed_on_the_next_file() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("once");
        std::fs::write(
            &program,
            "#!/bin/sh\nread bounds; echo; read trial; echo '\"Done\"'; exec 0<&-; sleep 0.2\n",
        )
        .unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(refused_where(&program), []);
    }

    #[test]
    fn a_child_that_asks_for_more_than_it_reads_is_killed() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("greedy");
        let asks = |count: u64, length: u64| {
            let wanted = format!(
                r#"{{"Wanted":{{"number":1,"address":"https://127.0.0.1:1/a.h5","range":{{"start":0,"end":{length}}}}}}}"#
            );
            let script = format!(
                "#!/bin/sh\nread bounds; echo; read trial\nyes '{wanted}' | head -n {count}\nexec sleep 100\n"
            );
            std::fs::write(&program, script).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            let refused = refused_where(&program);
            assert!(
                refused.iter().all(|(_, why)| why.contains(ASKS_TOO_MUCH)),
                "{refused:?}"
            );
            refused.len()
        };
        assert_eq!(
            [asks(1, u64::MAX), asks(MAX_MEMORY / LEAST_ANSWER * 2, 1)],
            [2, 2]
        );
    }

    #[test]
    fn exactly_the_bad_files_are_refused_whatever_becomes_of_the_children() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("picky");
        // Every third file takes too much memory, and some take longer than the rest.
        let script = format!(
            "#!/bin/sh\nread bounds; echo\nwhile read trial; do case $trial in *[147]x*) exit {};; *2x*) sleep 0.05;; esac; \
             echo '\"Done\"'; done\n",
            memory::EXCEEDED
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let files: Vec<PathBuf> = (0..40)
            .map(|number| place.path().join(format!("{number:02}x")))
            .collect();
        files
            .iter()
            .for_each(|file| std::fs::write(file, "").unwrap());
        let trials: Vec<Trial> = files.iter().map(|file| trial(file)).collect();
        let refused = refused_by(&program, &trials);
        let expected = files.iter().filter(|file| {
            let name = file.to_string_lossy();
            ["1x", "4x", "7x"].iter().any(|end| name.ends_with(end))
        });
        assert_eq!(
            refused
                .iter()
                .filter_map(|(file, _)| file.path())
                .collect::<Vec<_>>(),
            expected.collect::<Vec<_>>()
        );
        assert!(
            refused.iter().all(|(_, why)| why.contains("MiB of memory")),
            "{refused:?}"
        );
    }

    #[test]
    fn a_death_is_told_by_what_caused_it() {
        let death_by = |script: &str| {
            let status = Command::new("sh")
                .args(["-c", script])
                .stderr(Stdio::null())
                .status()
                .unwrap();
            died_of(status, 9, MAX_MEMORY)
        };
        assert!(death_by("kill -SEGV $$").contains("crashes the HDF5 library (signal 11)"));
        assert!(
            death_by("ulimit -c 0; ulimit -S -t 1; while :; do :; done")
                .contains("more than 9 seconds of CPU time")
        );
        let exceeded = death_by(&format!("exit {}", memory::EXCEEDED));
        assert!(
            exceeded.contains("more than 1024 MiB of memory") && exceeded.contains("files.trial")
        );
        assert!(death_by("ulimit -c 0; kill -ABRT $$").contains("more memory than it can get"));
        assert!(death_by("kill -KILL $$").contains("the system has no more memory"));
        assert!(death_by("kill -KILL $$").contains("(signal 9)"));
        assert!(death_by("exit 101").contains("(status 101)"));
    }

    #[test]
    fn a_large_file_is_allowed_more_cpu_time_than_a_small_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let after = |length: u64| {
            file.as_file().set_len(length).unwrap();
            cpu_seconds(&trial(file.path()))
        };
        assert_eq!([after(1000), after(40 << 20), after(1 << 40)], [8, 18, 50]);
    }
}
