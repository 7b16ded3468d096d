//! Progress: a bar on a terminal, an occasional line in a log.

use std::io::IsTerminal;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The interval between log lines if standard error is not a terminal.
const PAUSE: Duration = Duration::from_secs(30);

/// The progress of one job.
pub(super) struct Bar {
    name: String,
    /// The unit, and a participle for what is done with it: "voxels", "read".
    counts: &'static str,
    done: &'static str,
    bar: OnceLock<ProgressBar>,
    said: Mutex<Instant>,
}

impl Bar {
    /// The name of the job, its unit, and a participle for what is done with the unit ("voxels", "read").
    pub fn new(name: String, counts: &'static str, done: &'static str) -> Self {
        Self { name, counts, done, bar: OnceLock::new(), said: Mutex::new(Instant::now()) }
    }

    /// `total` units, `done` of which were done by an earlier run.
    pub fn begin(&self, total: u64, done: u64) {
        // Without a terminal the bar only counts.
        let bar = self.bar.get_or_init(|| ProgressBar::new(total));
        let look = format!(
            "{{wide_bar}} {{percent}}% of {{total}} {}{{msg}}, {{elapsed}} elapsed, {{eta}} left",
            self.counts
        );
        let style = ProgressStyle::with_template(&look).unwrap_or_else(|_| ProgressStyle::default_bar());
        let total = |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = write!(out, "{}", grouped(state.len().unwrap_or_default()));
        };
        bar.set_style(style.with_key("total", total));
        bar.set_position(done);
        bar.reset_eta();
        if done > 0 {
            let of = grouped(bar.length().unwrap_or_default());
            let Self { name, counts, done: what, .. } = self;
            tracing::info!("{name}: {} of {of} {counts} were {what} by an earlier run", grouped(done));
        }
    }

    /// `by` more units are done; `more` gives further text to show.
    pub fn advance(&self, by: u64, more: impl Fn() -> String) {
        let Some(bar) = self.bar.get() else { return };
        bar.inc(by);
        if std::io::stderr().is_terminal() {
            let text = more();
            if !text.is_empty() {
                bar.set_message(text);
            }
        } else {
            self.say(bar, more);
        }
    }

    /// Clears the bar.
    pub fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }

    fn say(&self, bar: &ProgressBar, more: impl Fn() -> String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.elapsed() < PAUSE {
            return;
        }
        *said = Instant::now();
        let (done, total) = (bar.position(), bar.length().unwrap_or_default());
        let percent = u128::from(done) * 100 / u128::from(total.max(1));
        let (what, left) = (self.done, bar.eta().as_secs());
        tracing::info!("{}: {percent} % {what}{}, about {left} s left", self.name, more());
    }
}

/// Formats 12345678 as "12.3 million" and the like.
fn grouped(number: u64) -> String {
    match number {
        0..1_000_000 => number.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1} million", number as f64 / 1e6),
        _ => format!("{:.1} billion", number as f64 / 1e9),
    }
}
