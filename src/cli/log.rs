//! The log: lines for standard error.
//!
//! A full disk, a closed pipe, or a pipe that nobody reads must not stop a server, but the standard
//! library's macros panic or block there. So a server's lines wait in a bounded channel for one
//! thread that writes them. A line that does not fit, or that standard error rejects, is lost and
//! counted (`voltile_log_lines_lost_total`). Other commands write their lines at once, and wait for
//! the reader.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets, dynamic_filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use voltile_base::flow::start_thread;

use crate::config::LogFormat;

/// The maximum number of lines that wait to be written.
const MAX_LINES: usize = 2048;
/// The time limit for writing the lines that wait, for example when the process ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// The log of this process; clones are the same log.
#[derive(Clone)]
pub(super) struct LogWriter {
    /// Whether lines are JSON from now on.
    is_json: Arc<AtomicBool>,
    /// The channel to the thread that writes; `None` if lines are written at once.
    queue: Option<SyncSender<QueueEntry>>,
    lost_lines: Counter,
}

enum QueueEntry {
    Line(Vec<u8>),
    /// Its sender is dropped once all lines before it are written.
    Mark(#[allow(dead_code, reason = "the receiver only notices that it is dropped")] Sender<()>),
}

impl LogWriter {
    /// A log that waits for the reader of standard error.
    pub fn direct() -> Self {
        Self {
            is_json: Arc::default(),
            queue: None,
            lost_lines: Counter::default(),
        }
    }

    /// A log that waits for nobody, unless its thread cannot be started.
    pub fn queued() -> Self {
        let log = Self::direct();
        let lost_lines = log.lost_lines();
        let (queue, lines) = sync_channel(MAX_LINES);
        let started = start_thread("log", move || write_lines(&lines, &lost_lines));
        Self {
            queue: started.is_ok().then_some(queue),
            ..log
        }
    }

    /// Makes this the log to which `tracing` and panics write. `VOLTILE_LOG` says which lines are
    /// logged, in the syntax of [`Targets`].
    pub fn install(&self) {
        let filter = std::env::var("VOLTILE_LOG").unwrap_or_default();
        let parsed = match filter.as_str() {
            "" => Ok(default_targets()),
            filter => filter.parse::<Targets>(),
        };
        let problem = parsed.as_ref().err().map(ToString::to_string);
        let format_layer = || {
            let writer = self.clone();
            tracing_subscriber::fmt::layer()
                // Otherwise a line that cannot be written is reported by a macro that panics for
                // the same reason.
                .log_internal_errors(false)
                .with_ansi(io::stderr().is_terminal())
                .with_target(false)
                .with_writer(move || writer.clone())
        };
        let json = format_layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false);
        // Each event passes the filter of one of the two formats; or of both or none, if the format
        // changes between the filters.
        let filter_of = |wants_json: bool| {
            let is_json = Arc::clone(&self.is_json);
            dynamic_filter_fn(move |_, _| is_json.load(Ordering::Relaxed) == wants_json)
        };
        let text = format_layer().with_filter(filter_of(false));
        tracing_subscriber::registry()
            .with(parsed.unwrap_or_else(|_| default_targets()))
            .with(text.and_then(json.with_filter(filter_of(true))))
            .init();
        if let Some(problem) = problem {
            tracing::warn!(
                "VOLTILE_LOG is ignored, because {filter:?} does not say which lines to log: {problem}; expected a level, or levels \
                 of targets such as warn,voltile=debug"
            );
        }
        let log = self.clone();
        // The standard library's hook would write to standard error itself, and could block.
        std::panic::set_hook(Box::new(move |panic| {
            log_panic(panic);
            // The panic may end the process.
            log.flush();
        }));
    }

    /// Uses a format from now on: the configuration is read after the log has begun.
    pub fn choose_format(&self, format: LogFormat) {
        self.is_json
            .store(format == LogFormat::Json, Ordering::Relaxed);
    }

    /// The number of lost lines; a handle to the counter itself.
    pub fn lost_lines(&self) -> Counter {
        self.lost_lines.clone()
    }

    /// Writes a message to the user, after the lines logged before it.
    pub fn message(&self, text: &str) {
        self.push(format!("{text}\n"));
    }

    /// Waits until the queued lines are written, at most for a moment: the reader may not read.
    pub fn flush(&self) {
        let Some(queue) = &self.queue else { return };
        let (mark, written) = channel();
        if queue.try_send(QueueEntry::Mark(mark)).is_ok() {
            // Nothing is sent: the wait ends when the mark is dropped, or after this time.
            let _ = written.recv_timeout(PATIENCE);
        }
    }

    fn push(&self, line: impl Into<Vec<u8>>) {
        let line = line.into();
        let is_taken = match &self.queue {
            Some(queue) => queue.try_send(QueueEntry::Line(line)).is_ok(),
            None => io::stderr().write_all(&line).is_ok(),
        };
        if !is_taken {
            self.lost_lines.inc();
        }
    }
}

/// The lines that are logged unless `VOLTILE_LOG` is set.
fn default_targets() -> Targets {
    Targets::new()
        .with_default(Level::WARN)
        .with_target("voltile", Level::INFO)
        // It logs an error for each connection that does not carry HTTP.
        .with_target("actix_http", LevelFilter::OFF)
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!("thread '{name}' {panic}\n{backtrace}");
    } else {
        tracing::error!("thread '{name}' {panic}");
    }
}

/// `tracing` writes to this, and writes each line with one call.
impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_lines(lines: &Receiver<QueueEntry>, lost_lines: &Counter) {
    for queued in lines {
        if let QueueEntry::Line(line) = queued
            && io::stderr().write_all(&line).is_err()
        {
            lost_lines.inc();
        }
    }
}
