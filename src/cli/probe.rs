//! Trials: every file is opened in a child process first, so that a file that crashes the HDF5 library does not take this
//! process down.
//!
//! The child is this program again, with the hidden command `probe`. It opens one file after the other, under limits of
//! time and memory: a trial goes in as a line of JSON, and a line comes out when it is done. If the child dies, the file
//! it was at is refused, and another child goes on with the rest. What the child finds out is thrown away, except that it
//! survived. Time is measured in computing, because a slow disk is no fault of a file.
//!
//! A file that cannot be tried is refused too: `files.trial = "off"` is how to open files without a trial.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Failure, limits};
use crate::catalog::Trial;
use crate::config::Settings;

/// The computing that one small file may cause. A sound one takes a hundredth of it.
const COMPUTING: u64 = 8;
/// A large file may hold hundreds of thousands of objects: it may cause a second more for each so many bytes …
const BYTES_A_SECOND: u64 = 4 << 20;
/// … up to so many seconds in all.
const MOST_COMPUTING: u64 = 50;
/// How long may be spent on rehearsing, for all files of a child.
const REHEARSALS: Duration = Duration::from_secs(6);
/// The memory that a child may take, in bytes.
const MEMORY: u64 = 1 << 30;
/// How long is waited for one file: longer than the most computing takes, because disks may be slow and others compute too.
const PATIENCE: Duration = Duration::from_secs(3 * MOST_COMPUTING);

/// The child's side: runs trials until there are no more.
pub(super) fn run() -> Result<(), Failure> {
    limits::allow_memory(MEMORY);
    let latest = Instant::now() + REHEARSALS;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let trial: Trial = serde_json::from_str(&line?)?;
        limits::allow_computing(computing(&trial));
        trial.run(latest);
        writeln!(out, "done")?;
        out.flush()?;
    }
    Ok(())
}

/// The seconds of computing that a file may cause.
fn computing(trial: &Trial) -> u64 {
    let bytes = std::fs::metadata(&trial.file).map_or(0, |about| about.len());
    (COMPUTING + bytes / BYTES_A_SECOND).min(MOST_COMPUTING)
}

/// The files among those of the settings that must not be opened here, and why.
pub(super) fn refused(settings: &Settings) -> Vec<(PathBuf, String)> {
    if settings.files.trial { refused_by(&own_program, &Trial::all(settings)) } else { Vec::new() }
}

/// The same, with the program that the child runs.
fn refused_by(program: &dyn Fn() -> io::Result<PathBuf>, trials: &[Trial]) -> Vec<(PathBuf, String)> {
    let (mut refused, mut child) = (Vec::new(), None);
    for trial in trials {
        let path = PathBuf::from(&trial.file);
        // What is no file is told without opening it.
        if !path.is_file() {
            continue;
        }
        match tried(program, child.take(), trial) {
            Ok(Outcome::Survived(living)) => child = Some(living),
            Ok(Outcome::Died(why)) => refused.push((path, why)),
            Err(error) => refused.push((path, not_tried(&error))),
        }
    }
    refused
}

/// Tries a file in the child of the last trial, or in a new one where there is none or it has died since.
fn tried(
    program: &dyn Fn() -> io::Result<PathBuf>,
    child: Option<TrialChild>,
    trial: &Trial,
) -> io::Result<Outcome> {
    let start = || TrialChild::start(&program()?);
    // A child that dies may have died of what it tried before: only a new one is believed.
    if let Some(mut child) = child
        && child.send(trial).is_ok()
        && let survived @ Outcome::Survived(_) = child.outcome(trial)?
    {
        return Ok(survived);
    }
    let mut child = start()?;
    child.send(trial)?;
    child.outcome(trial)
}

/// Why a file is refused that could not be tried.
fn not_tried(error: &io::Error) -> String {
    format!(
        "it is refused, because it could not be opened in a child process first, as every file is: {error}. Mend that, or \
         set files.trial = \"off\" to open files without a trial"
    )
}

/// A child process that runs trials.
struct TrialChild {
    child: Child,
    trials: ChildStdin,
    done: Receiver<()>,
}

/// How a trial ended.
enum Outcome {
    Survived(TrialChild),
    Died(String),
}

impl TrialChild {
    fn start(program: &Path) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg("probe")
            .env("VOLTILE_LOG", "off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let missing = || io::Error::other("a child has no pipes");
        let trials = child.stdin.take().ok_or_else(missing)?;
        let out = child.stdout.take().ok_or_else(missing)?;
        let (sender, done) = channel();
        // A thread, because pipes cannot be read with a limit of time.
        thread::Builder::new().name("trials".to_owned()).spawn(move || {
            for _ in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { child, trials, done })
    }

    /// Has the child run a trial.
    fn send(&mut self, trial: &Trial) -> io::Result<()> {
        let line = serde_json::to_string(trial)?;
        writeln!(self.trials, "{line}")
    }

    /// Waits until the child is done with the trial that was sent.
    fn outcome(mut self, trial: &Trial) -> io::Result<Outcome> {
        match self.done.recv_timeout(PATIENCE) {
            Ok(()) => Ok(Outcome::Survived(self)),
            Err(RecvTimeoutError::Disconnected) => {
                Ok(Outcome::Died(died_of(self.child.wait()?, computing(trial))))
            }
            Err(RecvTimeoutError::Timeout) => {
                self.child.kill()?;
                self.child.wait()?;
                let seconds = PATIENCE.as_secs();
                Ok(Outcome::Died(format!(
                    "opening it was not done within {seconds} seconds, so that it is refused; see whether its disk \
                     can be read at all, or copy it to a faster one"
                )))
            }
        }
    }
}

impl Drop for TrialChild {
    fn drop(&mut self) {
        // One that hangs would never end by itself.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// This very program, also where its file has been replaced since it was started.
fn own_program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let running = PathBuf::from("/proc/self/exe");
    Ok(if program.exists() || !running.exists() { program } else { running })
}

/// What a file did to the process that opened it, and what to do about the file.
fn died_of(status: ExitStatus, computing: u64) -> String {
    const XCPU: i32 = rustix::process::Signal::XCPU.as_raw();
    const ABORT: i32 = rustix::process::Signal::ABORT.as_raw();
    const SEGV: i32 = rustix::process::Signal::SEGV.as_raw();
    let what = match (status.signal(), status.code()) {
        (Some(XCPU), _) => format!("takes more than {computing} seconds of computing"),
        (Some(ABORT), _) => {
            format!("ends the process (signal {ABORT}), or takes more than {} MiB of memory", MEMORY >> 20)
        }
        (Some(SEGV), _) => format!("crashes the HDF5 library (signal {SEGV})"),
        (Some(signal), _) => format!("ends the process (signal {signal})"),
        (None, code) => format!("ends the process (status {})", code.unwrap_or_default()),
    };
    format!(
        "it is refused, because opening it {what}, as was found out in a process of its own; it is damaged, or made to do \
         harm: have it written anew by the program that it came from"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(path: &Path) -> Trial {
        let file = path.display().to_string();
        Trial { file, allow_external: false, discover: true, paths: Default::default() }
    }

    fn refused_where(program: &Path) -> Vec<(PathBuf, String)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = refused_by(&|| Ok(program.to_owned()), &[trial(file.path()), trial(file.path())]);
        assert!(refused.iter().all(|(path, _)| path == file.path()));
        refused
    }

    #[test]
    fn a_file_that_cannot_be_tried_is_refused() {
        let refused = refused_where(Path::new("/nonexistent/voltile"));
        assert_eq!(refused.len(), 2);
        assert!(refused.iter().all(|(_, why)| why.contains("files.trial = \"off\"")), "{refused:?}");
        // It reads nothing and says nothing: its pipe breaks, or it ends before the file is tried.
        assert_eq!(refused_where(Path::new("/bin/true")).len(), 2);
    }

    #[test]
    fn a_child_that_died_after_a_trial_is_not_blamed_on_the_next_file() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("once");
        std::fs::write(&program, "#!/bin/sh\nread trial; echo done; exec 0<&-; sleep 0.2\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(refused_where(&program), []);
    }

    #[test]
    fn a_death_is_told_by_what_caused_it() {
        let told = |script: &str| {
            let status = Command::new("sh").args(["-c", script]).stderr(Stdio::null()).status().unwrap();
            died_of(status, 9)
        };
        assert!(told("kill -SEGV $$").contains("crashes the HDF5 library (signal 11)"));
        assert!(
            told("ulimit -c 0; ulimit -S -t 1; while :; do :; done")
                .contains("more than 9 seconds of computing")
        );
        assert!(told("ulimit -c 0; kill -ABRT $$").contains("more than 1024 MiB of memory"));
        assert!(told("kill -KILL $$").contains("(signal 9)"));
        assert!(told("exit 101").contains("(status 101)"));
    }

    #[test]
    fn a_large_file_may_cause_more_computing_than_a_small_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let after = |length: u64| {
            file.as_file().set_len(length).unwrap();
            computing(&trial(file.path()))
        };
        assert_eq!([after(1000), after(40 << 20), after(1 << 40)], [8, 18, 50]);
    }
}
