//! The log: lines for standard error that never fail or block the thread that logs them.
//!
//! A full disk, a closed pipe, or a pipe that nobody reads must not stop a server, but the standard
//! library's macros panic or block there. So lines go through a bounded queue to one thread that
//! writes them. A line that does not fit, or that standard error rejects, is lost and counted
//! (`voltile_log_lines_lost_total`). Messages of commands to the user take the same path, which
//! keeps the order, but wait for room. (The queue of the crate `tracing-appender` is bounded in
//! lines, not in bytes, and has no messages that wait.)

mod format;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::LogFormat;
use crate::flow::queue::Queue;

/// The capacity of the queue in bytes.
const MAX_BYTES: usize = 1 << 20;
/// The pause before a write to a non-blocking standard error is retried.
const RETRY: Duration = Duration::from_millis(10);

/// The log of this process; clones are the same log.
#[derive(Clone)]
pub(super) struct Log(Arc<Shared>);

struct Shared {
    lines: Queue<Vec<u8>>,
    is_json: Arc<AtomicBool>,
    started: Once,
    /// The number of lost lines.
    lost_lines: Counter,
}

impl Log {
    fn new() -> Self {
        let lines = Queue::new(MAX_BYTES);
        let (is_json, lost_lines) = Default::default();
        Self(Arc::new(Shared {
            lines,
            is_json,
            started: Once::new(),
            lost_lines,
        }))
    }

    /// A log that takes the lines of `tracing`, and panic messages. `VOLTILE_LOG` filters the
    /// former, in the syntax of [`Targets`].
    pub fn install() -> Self {
        let log = Self::new();
        let (writer, panics) = (log.clone(), log.clone());
        let wanted = std::env::var("VOLTILE_LOG")
            .ok()
            .and_then(|wanted| wanted.parse().ok());
        let default = || {
            Targets::new()
                .with_default(Level::WARN)
                .with_target("voltile", Level::INFO)
        };
        // Otherwise a line that cannot be written is reported by a macro that panics for the same
        // reason.
        let lines = tracing_subscriber::fmt::layer()
            .log_internal_errors(false)
            .with_ansi(io::stderr().is_terminal());
        let lines = lines.event_format(format::Chosen::new(Arc::clone(&log.0.is_json)));
        let lines = lines
            .with_writer(move || writer.clone())
            .with_filter(wanted.unwrap_or_else(default));
        tracing_subscriber::registry().with(lines).init();
        std::panic::set_hook(Box::new(move |panic| {
            panics.push(panics.panic_line(panic), Some(Duration::ZERO));
        }));
        log
    }

    /// Uses a format from now on: the configuration is read after the log has begun.
    pub fn choose_format(&self, format: LogFormat) {
        self.0
            .is_json
            .store(format == LogFormat::Json, Ordering::Relaxed);
    }

    fn is_json(&self) -> bool {
        self.0.is_json.load(Ordering::Relaxed)
    }

    /// Starts the thread that writes lines, unless it runs. If it cannot start, all lines are lost,
    /// which is better than not running.
    pub fn start_writing(&self) {
        self.0.started.call_once(|| {
            let log = self.clone();
            let thread = thread::Builder::new().name("log".to_owned());
            if thread
                .spawn(move || log.write_to(&mut io::stderr()))
                .is_err()
            {
                self.close();
            }
        });
    }

    /// Loses all lines, without a thread: for a process whose standard error nobody reads.
    pub fn discard(&self) {
        self.0.started.call_once(|| self.close());
    }

    /// The number of lost lines; a handle to the counter itself.
    pub fn lost_lines(&self) -> Counter {
        self.0.lost_lines.clone()
    }

    /// Writes a message to the user, after the lines logged before it. Waits for room in the queue,
    /// up to `patience`.
    pub fn message(&self, text: &str, patience: Option<Duration>) {
        self.start_writing();
        self.push(format!("{text}\n"), patience);
    }

    /// Waits until everything is written, up to `patience`.
    pub fn flush(&self, patience: Option<Duration>) {
        self.start_writing();
        self.0.lines.flush(patience);
    }

    fn push(&self, line: impl Into<Vec<u8>>, patience: Option<Duration>) {
        let line = line.into();
        let length = line.len();
        if !self.0.lines.push(line, length, patience) {
            self.0.lost_lines.inc();
        }
    }

    fn close(&self) {
        self.0.lines.close();
        self.0.lost_lines.inc_by(self.0.lines.clear() as u64);
    }

    /// Writes the lines to `out` until the queue is closed, and how many were lost before each.
    fn write_to(&self, out: &mut impl Write) {
        let mut mentioned = 0;
        while let Some((line, _room)) = self.0.lines.next() {
            let lost = self.0.lost_lines.get();
            if lost > mentioned
                && write_all(out, self.lost_line(lost - mentioned).as_bytes()).is_ok()
            {
                mentioned = lost;
            }
            if write_all(out, &line).is_err() {
                self.0.lost_lines.inc();
            }
        }
    }

    fn lost_line(&self, lost: u64) -> String {
        let text =
            format!("{lost} lines of this log were lost: standard error could not be written");
        format::error_line(self.is_json(), &text, None)
    }

    /// The message of the standard library's panic hook, which itself would write to standard error
    /// and could block.
    fn panic_line(&self, panic: &PanicHookInfo<'_>) -> String {
        let thread = thread::current();
        let mut text = format!("thread '{}' {panic}", thread.name().unwrap_or("<unnamed>"));
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text.push_str(&format!("\n{backtrace}"));
        }
        format::error_line(self.is_json(), &text, panic.location())
    }
}

/// For `tracing`, which writes each line with one call.
impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line, Some(Duration::ZERO));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts all input or none.
    struct Sink {
        taken: Vec<u8>,
        is_full: bool,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.is_full {
                return Err(ErrorKind::StorageFull.into());
            }
            // In small pieces, as a pipe may.
            let taken = bytes.len().min(7);
            self.taken.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a log with these lines writes.
    fn written(lines: &[&[u8]], is_full: bool) -> (String, u64) {
        let (log, mut sink) = (
            Log::new(),
            Sink {
                taken: Vec::new(),
                is_full,
            },
        );
        lines
            .iter()
            .for_each(|line| log.push(*line, Some(Duration::ZERO)));
        log.0.lines.close();
        log.write_to(&mut sink);
        (
            String::from_utf8(sink.taken).unwrap(),
            log.lost_lines().get(),
        )
    }

    #[test]
    fn lines_come_out_in_their_order() {
        assert_eq!(
            written(&[b"one line\n", b"and another\n"], false).0,
            "one line\nand another\n"
        );
    }

    #[test]
    fn lines_that_do_not_fit_are_lost_and_their_number_is_written() {
        let long = vec![b'x'; MAX_BYTES + 1];
        let (text, lost) = written(&[&long, b"lost\n", b"lost too\n"], false);
        assert!(text.starts_with("2 lines of this log were lost") && text.ends_with("xxx"));
        assert_eq!((text.lines().count(), lost), (2, 2));
    }

    #[test]
    fn lines_that_cannot_be_written_are_lost() {
        assert_eq!(
            written(&[b"lost\n", b"lost too\n"], true),
            (String::new(), 2)
        );
    }

    #[test]
    fn where_nobody_writes_nobody_waits() {
        let log = Log::new();
        log.push("lost\n", None);
        log.discard();
        log.message("lost", None);
        log.flush(None);
        assert_eq!(log.lost_lines().get(), 2);
    }
}
