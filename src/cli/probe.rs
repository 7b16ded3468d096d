//! `voltile probe`, which nobody types: files are opened in a process of its own first, lest they take down this one.
//!
//! The HDF5 library is C, and there are files that crash it. So whoever is about to open files starts the same
//! binary once more and has it open each of them, under limits of time and memory. A child that dies does so of the
//! file it was at; that file is refused, and another child goes on with the rest. Both sides of the talk are here:
//! an errand goes in as a line of JSON, and a line comes out when it is done. What the child finds out is thrown
//! away, except that it lived. Time is measured in computing, because a slow disk is no fault of a file.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Failure, limits};
use crate::catalog::Errand;
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

/// The child's side: runs errands until there are no more.
pub(super) fn run() -> Result<(), Failure> {
    limits::allow_memory(MEMORY);
    let latest = Instant::now() + REHEARSALS;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let errand: Errand = serde_json::from_str(&line?)?;
        limits::allow_computing(computing(&errand));
        errand.run(latest);
        writeln!(out, "done")?;
        out.flush()?;
    }
    Ok(())
}

/// The seconds of computing that a file may cause.
fn computing(errand: &Errand) -> u64 {
    let bytes = std::fs::metadata(&errand.file).map_or(0, |about| about.len());
    (COMPUTING + bytes / BYTES_A_SECOND).min(MOST_COMPUTING)
}

/// The files among those of the settings that must not be opened here, and why.
pub(super) fn harmful(settings: &Settings) -> Vec<(PathBuf, String)> {
    let (mut harmful, mut prober) = (Vec::new(), None);
    for errand in Errand::all(settings) {
        let path = PathBuf::from(&errand.file);
        // What is no file is told without opening it.
        if !path.is_file() {
            continue;
        }
        let trial = prober.take().map_or_else(Prober::start, Ok).and_then(|prober| prober.send(&errand));
        match trial {
            Ok(Trial::Survived(living)) => prober = Some(living),
            Ok(Trial::Died(why)) => harmful.push((path, why)),
            Err(error) => tracing::warn!("{} is opened without a trial: {error}", errand.file),
        }
    }
    harmful
}

/// A child at work.
struct Prober {
    child: Child,
    errands: ChildStdin,
    done: Receiver<()>,
}

/// How an errand ended.
enum Trial {
    Survived(Prober),
    Died(String),
}

impl Prober {
    fn start() -> std::io::Result<Self> {
        let mut child = Command::new(own_program()?)
            .arg("probe")
            .env("VOLTILE_LOG", "off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let missing = || std::io::Error::other("a child has no pipes");
        let errands = child.stdin.take().ok_or_else(missing)?;
        let out = child.stdout.take().ok_or_else(missing)?;
        let (sender, done) = channel();
        // A thread, because pipes cannot be read with a limit of time.
        thread::spawn(move || {
            for _ in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, errands, done })
    }

    /// Has the child run an errand.
    fn send(mut self, errand: &Errand) -> std::io::Result<Trial> {
        let line = serde_json::to_string(errand)?;
        writeln!(self.errands, "{line}")?;
        match self.done.recv_timeout(PATIENCE) {
            Ok(()) => Ok(Trial::Survived(self)),
            Err(RecvTimeoutError::Disconnected) => {
                Ok(Trial::Died(died_of(self.child.wait()?, computing(errand))))
            }
            Err(RecvTimeoutError::Timeout) => {
                self.child.kill()?;
                self.child.wait()?;
                let seconds = PATIENCE.as_secs();
                Ok(Trial::Died(format!(
                    "opening it was not done within {seconds} seconds, so that it is refused; see whether its disk \
                     can be read at all, or copy it to a faster one"
                )))
            }
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        // It ends by itself when its errands do; one that will not is ended.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// This very program, also where its file has been replaced since it was started.
fn own_program() -> std::io::Result<PathBuf> {
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
        let errand = |path: &std::path::Path| Errand {
            file: path.display().to_string(),
            allow_external: false,
            discover: true,
            paths: Default::default(),
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let after = |length: u64| {
            file.as_file().set_len(length).unwrap();
            computing(&errand(file.path()))
        };
        assert_eq!([after(1000), after(40 << 20), after(1 << 40)], [8, 18, 50]);
    }
}
