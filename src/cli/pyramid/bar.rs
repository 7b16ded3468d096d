//! How far the work is: a bar where somebody looks on, a line now and then in a log.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::pyramid::Progress;

/// How often a line is written where there is no terminal.
const PAUSE: Duration = Duration::from_secs(30);
const LOOK: &str = "{wide_bar} {percent}% of {total} voxels, {elapsed} gone, {eta} to go";

/// The progress of one work.
pub(super) struct Bar {
    name: String,
    bar: OnceLock<ProgressBar>,
    said: Mutex<Instant>,
}

impl Bar {
    /// For what is written to that path.
    pub fn new(output: &Path) -> Self {
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, bar: OnceLock::new(), said: Mutex::new(Instant::now()) }
    }

    /// Clears the bar away.
    pub fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }

    fn say(&self, bar: &ProgressBar) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.elapsed() < PAUSE {
            return;
        }
        *said = Instant::now();
        let (done, total) = (bar.position(), bar.length().unwrap_or_default());
        let percent = u128::from(done) * 100 / u128::from(total.max(1));
        tracing::info!("{}: {percent} % read, about {} s to go", self.name, bar.eta().as_secs());
    }
}

impl Progress for Bar {
    fn begin(&self, total: u64, done: u64) {
        // Where standard error is no terminal the bar only counts.
        let bar = self.bar.get_or_init(|| ProgressBar::new(total));
        let style = ProgressStyle::with_template(LOOK).unwrap_or_else(|_| ProgressStyle::default_bar());
        let total = |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = write!(out, "{}", grouped(state.len().unwrap_or_default()));
        };
        bar.set_style(style.with_key("total", total));
        bar.set_position(done);
        bar.reset_eta();
        if done > 0 {
            let of = grouped(bar.length().unwrap_or_default());
            tracing::info!("{}: {} of {of} voxels were read by an earlier run", self.name, grouped(done));
        }
    }

    fn advance(&self, voxels: u64) {
        let Some(bar) = self.bar.get() else { return };
        bar.inc(voxels);
        if !std::io::stderr().is_terminal() {
            self.say(bar);
        }
    }

    fn assemble(&self) {
        tracing::debug!("{}: all is read; its pieces are put together", self.name);
    }
}

/// 12345678 as 12.3 million and the like.
fn grouped(number: u64) -> String {
    match number {
        0..1_000_000 => number.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1} million", number as f64 / 1e6),
        _ => format!("{:.1} billion", number as f64 / 1e9),
    }
}
