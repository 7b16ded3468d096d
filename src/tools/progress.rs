//! The progress of long jobs: a bar on a terminal, an occasional line in a log.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use parking_lot::Mutex;

/// The interval between log lines if standard error is not a terminal.
const PAUSE: Duration = Duration::from_secs(30);

/// The progress of one job. Called from many threads.
pub(crate) struct Progress {
    name: String,
    unit: &'static str,
    pub(super) bar: ProgressBar,
    pub(super) failed: AtomicU64,
    last_logged: Mutex<Instant>,
}

impl Progress {
    /// The progress of the job of this name, which is counted in `unit`s (in the plural).
    pub fn new(name: String, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            bar: ProgressBar::new(0),
            failed: AtomicU64::new(0),
            last_logged: Mutex::new(Instant::now()),
        }
    }

    /// Clears the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Starts the bar: the job has `total` units, and an earlier run did `done` of them.
    pub fn begin(&self, total: u64, done: u64) {
        let look = format!(
            "{{wide_bar}} {{percent}}% of {{human_len}} {}{{msg}}, {{per_sec}}, {{elapsed}} elapsed, {{eta}} left",
            self.unit
        );
        let style =
            ProgressStyle::with_template(&look).unwrap_or_else(|_| ProgressStyle::default_bar());
        // Without a terminal the bar only counts.
        self.bar.set_length(total);
        self.bar.set_style(style);
        self.bar.set_position(done);
        self.bar.reset_eta();
        if done > 0 {
            let Self { name, unit, .. } = self;
            tracing::info!(
                "{name}: {} of {} {unit} were done by an earlier run",
                HumanCount(done),
                HumanCount(total)
            );
        }
    }

    /// Counts `units` that have been tried together; if they failed, as one failure.
    pub fn advance(&self, units: u64, has_failed: bool) {
        self.bar.inc(units);
        let new_failures = u64::from(has_failed);
        let failures = new_failures + self.failed.fetch_add(new_failures, Ordering::Relaxed);
        let message = match failures {
            0 => String::new(),
            _ => format!(", {} failed", HumanCount(failures)),
        };
        if std::io::stderr().is_terminal() {
            self.bar.set_message(message);
        } else {
            self.log(&message);
        }
    }

    /// Logs the progress, at most once in [`PAUSE`]. `message` states the number of failures.
    fn log(&self, message: &str) {
        let mut last_logged = self.last_logged.lock();
        if last_logged.elapsed() < PAUSE {
            return;
        }
        *last_logged = Instant::now();
        let percent = u128::from(self.bar.position()) * 100
            / u128::from(self.bar.length().unwrap_or(0).max(1));
        let left = self.bar.eta().as_secs();
        tracing::info!(
            "{}: {percent} % of the {} done{message}, about {left} s left",
            self.name,
            self.unit
        );
    }
}
