//! Runs a work: threads take tile after tile in order, with a maximum rate and a way to stop at any time.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::report::{Ending, Failure, Report};
use super::work::Work;
use crate::base::request::TileRequest;

/// The maximum number of failures that are recorded; all are counted.
const MAX_FAILURES: usize = 10_000;

/// The result for a tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was rendered, or returned by a server: its size in bytes.
    Rendered(u64),
    /// It was stored already.
    Stored,
    /// It is empty and need not be stored.
    Black,
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
}

/// How to work.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How many tiles are in flight at once.
    pub threads: NonZeroUsize,
    /// The maximum number of tiles per second.
    pub rate: Option<f64>,
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
        let waited = self.changed.wait_timeout_while(requested, time, |requested| !*requested);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Runs the part of a work that has these numbers. `progress` is called from many threads after each tile: with its
/// bytes, and whether it failed.
pub fn run(
    work: &Work,
    producer: &dyn Producer,
    part: Range<u64>,
    pace: Pace,
    stop: &Stop,
    progress: &(dyn Fn(u64, bool) + Sync),
) -> Report {
    let began = Instant::now();
    let numbered = (part.start..part.end).zip(work.tiles(part.start));
    let feed = Mutex::new(numbered.map(|(_, tile)| tile));
    let report = Mutex::new(Report::begun(part.end - part.start));
    let turns = Turns::new(pace.rate);
    let one = || {
        while !stop.is_requested() && turns.wait(stop) {
            let Some(tile) = lock(&feed).next() else { break };
            let outcome = producer.fill(&tile, stop);
            let bytes = if let Outcome::Rendered(bytes) = outcome { bytes } else { 0 };
            let failed = matches!(outcome, Outcome::Failed(_));
            if lock(&report).enter(&tile, outcome) {
                progress(bytes, failed);
            } else {
                stop.request();
            }
        }
    };
    thread::scope(|scope| (0..pace.threads.get()).for_each(|_| drop(scope.spawn(one))));
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    if stop.is_requested() && report.ending == Ending::Finished {
        report.ending = Ending::Stopped;
    }
    report.seconds = began.elapsed().as_secs_f64();
    report
}

impl Report {
    /// Records the result for a tile; returns whether to continue.
    fn enter(&mut self, tile: &TileRequest, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Rendered(bytes) => {
                self.made += 1;
                self.bytes = self.bytes.saturating_add(bytes);
            }
            Outcome::Stored => self.held += 1,
            Outcome::Black => self.black += 1,
            Outcome::Failed(why) => {
                self.failed += 1;
                if self.failures.len() < MAX_FAILURES {
                    self.failures.push(Failure { tile: tile.to_string(), why });
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Limits the rate.
struct Turns {
    apart: Option<Duration>,
    next: Mutex<Instant>,
}

impl Turns {
    fn new(rate: Option<f64>) -> Self {
        let apart = rate.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
        Self { apart, next: Mutex::new(Instant::now()) }
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
