//! Runs a work: threads take tile after tile in order, with a maximum rate and a way to stop at any
//! time.

use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::work::Work;
use crate::base::request::TileRequest;
use crate::flow::lock;
use crate::tools::progress::Progress;

/// The maximum number of failures that are listed; all are counted.
const MAX_FAILURES: usize = 1000;

/// The result for a tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was rendered, or returned by a server: its size in bytes.
    Rendered(u64),
    /// It was stored already.
    Stored,
    /// It is empty and need not be stored.
    Empty,
    /// This tile failed.
    Failed(String),
    /// No further tile can succeed, for a reason that does not concern this tile.
    Over(String),
    /// It was abandoned because the work is stopping.
    Stopped,
}

/// Renders and stores tiles. Called from many threads.
pub trait Producer: Sync {
    /// Makes sure that a tile is stored. Returns as soon as possible once a stop is requested.
    fn fill(&self, tile: &TileRequest, stop: &Stop) -> Outcome;

    /// What was counted so far, if that is known.
    fn counters(&self) -> Option<Counters>;
}

/// What a producer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Tiles evicted from the cache directory.
    pub evicted: u64,
    /// Bytes inflated.
    pub bytes_inflated: u64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// All tiles were tried.
    #[default]
    Finished,
    /// It was stopped.
    Stopped,
    /// It could not continue: why.
    #[serde(untagged)]
    Over(String),
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Report {
    /// `finished`, `stopped`, or why it could not continue.
    pub ending: Ending,
    /// All tiles of the work.
    pub tiles: u64,
    /// Those rendered, or returned by a server.
    pub rendered: u64,
    /// Those that were stored already.
    pub stored: u64,
    /// Those that are empty.
    pub empty: u64,
    /// Those that failed.
    pub failed: u64,
    /// The bytes of those rendered.
    pub bytes: u64,
    /// The duration.
    pub seconds: f64,
    /// What was counted meanwhile.
    #[serde(flatten)]
    pub counters: Option<Counters>,
    /// The first of the tiles that failed: the path of each below a mount, and why.
    pub failures: Vec<String>,
}

/// A stop signal that wakes all waiting threads.
#[derive(Debug, Default)]
pub struct Stop {
    is_requested: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Signals everybody to stop.
    pub fn request(&self) {
        *lock(&self.is_requested) = true;
        self.changed.notify_all();
    }

    /// Whether a stop was requested.
    pub fn is_requested(&self) -> bool {
        *lock(&self.is_requested)
    }

    /// Waits for `time` or the signal; returns whether it was signalled.
    pub fn wait(&self, time: Duration) -> bool {
        let requested = lock(&self.is_requested);
        let waited = self
            .changed
            .wait_timeout_while(requested, time, |requested| !*requested);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Runs a work: so many tiles are in flight at once, and at most `rate` are begun in a second.
pub fn run(
    work: &Work,
    producer: &dyn Producer,
    threads: NonZeroUsize,
    rate: Option<f64>,
    stop: &Stop,
    progress: &Progress,
) -> Report {
    let (began, before) = (Instant::now(), producer.counters());
    progress.begin(work.total(), 0);
    let tiles = Mutex::new(work.tiles());
    let report = Mutex::new(Report {
        tiles: work.total(),
        ..Report::default()
    });
    let turns = Turns::new(rate);
    let take_tiles = || {
        while !stop.is_requested() && turns.wait(stop) {
            let Some(tile) = lock(&tiles).next() else {
                break;
            };
            let outcome = producer.fill(&tile, stop);
            let failed = matches!(outcome, Outcome::Failed(_));
            if lock(&report).enter(&tile, outcome) {
                progress.advance(1, failed);
            } else {
                stop.request();
            }
        }
    };
    thread::scope(|scope| (0..threads.get()).for_each(|_| drop(scope.spawn(take_tiles))));
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    if stop.is_requested() && report.ending == Ending::Finished {
        report.ending = Ending::Stopped;
    }
    report.seconds = began.elapsed().as_secs_f64();
    report.counters = before
        .zip(producer.counters())
        .map(|(before, after)| Counters {
            evicted: after.evicted.saturating_sub(before.evicted),
            bytes_inflated: after.bytes_inflated.saturating_sub(before.bytes_inflated),
        });
    report
}

impl Report {
    /// Records the result for a tile; returns whether to continue.
    fn enter(&mut self, tile: &TileRequest, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Rendered(bytes) => {
                self.rendered += 1;
                self.bytes = self.bytes.saturating_add(bytes);
            }
            Outcome::Stored => self.stored += 1,
            Outcome::Empty => self.empty += 1,
            Outcome::Failed(why) => {
                self.failed += 1;
                if self.failures.len() < MAX_FAILURES {
                    self.failures.push(format!("{tile}: {why}"));
                }
            }
            Outcome::Over(why) => {
                if self.ending == Ending::Finished {
                    self.ending = Ending::Over(why);
                }
                return false;
            }
            Outcome::Stopped => return false,
        }
        true
    }
}

/// Limits the rate.
struct Turns {
    apart: Option<Duration>,
    next: Mutex<Instant>,
}

impl Turns {
    fn new(rate: Option<f64>) -> Self {
        let apart = rate.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
        Self {
            apart,
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits for the next turn; false if the work is stopping.
    fn wait(&self, stop: &Stop) -> bool {
        let Some(apart) = self.apart else { return true };
        let turn = {
            let mut next = lock(&self.next);
            let turn = (*next).max(Instant::now());
            *next = turn + apart;
            turn
        };
        !stop.wait(turn.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests;
