//! Runs a work: threads take tile after tile in order; with a journal of progress, a maximum rate, and a way
//! to stop at any time.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use super::journal::{Failure, Journal, MOST_FAILURES, Position};
use super::numbers::Runs;
use super::work::Work;
use crate::request::{TilePath, TileRequest};

/// How often progress is written to the journal while nothing fails.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// The result for a tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filled {
    /// It was drawn, or returned by a server: its size in bytes.
    Made(u64),
    /// It existed already.
    Held,
    /// It is empty and need not be stored.
    Black,
    /// This tile failed.
    Failed(String),
    /// No further tile can succeed, for a reason that does not concern this tile.
    Over(String),
    /// It was abandoned because the work is stopping.
    Stopped,
}

/// Produces and stores tiles. Called from many threads.
pub trait Producer: Sync {
    /// Makes sure that a tile is stored. Returns as soon as possible once told to stop.
    fn fill(&self, tile: &TileRequest, stop: &Stop) -> Filled;

    /// Whether a finished tile still exists, if that can be determined.
    fn is_there(&self, _tile: &TileRequest) -> bool {
        true
    }
}

/// Receives progress updates. Called from many threads.
pub trait Progress: Sync {
    /// `total` tiles, of which `done` were done by an earlier run.
    fn begin(&self, total: u64, done: u64);
    /// One more tile is done, with this many bytes, or failed.
    fn advance(&self, bytes: u64, failed: bool);
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
    told: Mutex<bool>,
    heard: Condvar,
}

impl Stop {
    /// Signals everybody to stop.
    pub fn tell(&self) {
        *lock(&self.told) = true;
        self.heard.notify_all();
    }

    /// Whether it was signalled.
    pub fn is_told(&self) -> bool {
        *lock(&self.told)
    }

    /// Waits for `time` or the signal; returns whether it was signalled.
    pub fn wait(&self, time: Duration) -> bool {
        let told = lock(&self.told);
        let waited = self.heard.wait_timeout_while(told, time, |told| !*told);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Where a run begins.
#[derive(Debug)]
pub struct Begun {
    /// The journal, if any.
    pub journal: Option<Journal>,
    /// The numbers of the tiles that are to be done.
    pub part: Range<u64>,
    /// What is done already.
    pub position: Position,
}

/// How a work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// All tiles were tried.
    Finished,
    /// It was stopped.
    Stopped,
    /// It could not continue.
    Over(String),
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// The number of tiles that were to be done.
    pub tiles: u64,
    /// Those done by earlier runs.
    pub before: u64,
    /// Tiles drawn, or returned by a server.
    pub made: u64,
    /// Tiles that existed already.
    pub held: u64,
    /// Tiles that are empty.
    pub black: u64,
    /// The bytes of those drawn.
    pub bytes: u64,
    /// Tiles that failed, including those of earlier runs that failed again.
    pub failed: u64,
    /// The first of these.
    pub failures: Vec<Failure>,
    /// The tiles of the whole work that nobody has done yet, if it was one of several shards with a journal.
    pub left: Option<u64>,
    /// The duration.
    pub took: Duration,
}

/// Runs a part of a work.
pub fn run(
    work: &Work,
    producer: &dyn Producer,
    begun: Begun,
    pace: Pace,
    stop: &Stop,
    progress: &dyn Progress,
) -> Outcome {
    let began = Instant::now();
    let Begun { journal, part, position } = begun;
    let tiles = part.end - part.start;
    let todo = Runs::from(part.clone()).without(&position.done);
    let before = tiles - todo.count();
    progress.begin(tiles, before);
    let failed = position.failures.iter().filter(|failure| part.contains(&failure.number));
    let again: Vec<Turn> = failed.filter_map(Turn::again).collect();
    let new = work.numbered(todo.clone()).map(|(number, tile)| Turn { tile, number, is_again: false });
    let feed = Mutex::new(again.into_iter().chain(new));
    let ledger = Mutex::new(Ledger::new(journal, (tiles, before), todo, began));
    let turns = Turns::new(pace.rate);
    let one = || {
        while !stop.is_told() && turns.wait(stop) {
            let Some(turn) = lock(&feed).next() else { break };
            let filled = producer.fill(&turn.tile, stop);
            let bytes = if let Filled::Made(bytes) = filled { bytes } else { 0 };
            let failed = matches!(filled, Filled::Failed(_));
            if lock(&ledger).enter(&turn, filled) {
                if !turn.is_again {
                    progress.advance(bytes, failed);
                }
            } else {
                stop.tell();
            }
        }
    };
    thread::scope(|scope| (0..pace.threads.get()).for_each(|_| drop(scope.spawn(one))));
    let stopped = stop.is_told();
    ledger.into_inner().unwrap_or_else(PoisonError::into_inner).close(stopped)
}

/// A tile to be done.
struct Turn {
    tile: TileRequest,
    number: u64,
    /// Whether it failed in an earlier run.
    is_again: bool,
}

impl Turn {
    fn again(failure: &Failure) -> Option<Self> {
        Some(Self { tile: request(&failure.tile)?, number: failure.number, is_again: true })
    }
}

/// Parses a path below a mount.
fn request(path: &str) -> Option<TileRequest> {
    TilePath::split(&format!("/mount/tilecache/{path}"))?.ok()?.request().ok()
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

/// The progress, and its journal.
struct Ledger {
    journal: Option<Journal>,
    began: Instant,
    told: Instant,
    /// The tiles to be done, after those that are being done now.
    todo: IntoIter<Range<u64>>,
    /// The run of numbers that is being done: those before its start are done.
    now: Range<u64>,
    /// The first number of the run that is not recorded yet.
    recorded: u64,
    /// Tiles done out of order: at most those in flight, and those that overtook a slow one.
    beyond: BTreeSet<u64>,
    outcome: Outcome,
}

impl Ledger {
    fn new(journal: Option<Journal>, (tiles, before): (u64, u64), todo: Runs, began: Instant) -> Self {
        let outcome = Outcome {
            ending: Ending::Finished,
            tiles,
            before,
            made: 0,
            held: 0,
            black: 0,
            bytes: 0,
            failed: 0,
            failures: Vec::new(),
            left: None,
            took: Duration::ZERO,
        };
        let mut todo = todo.into_iter();
        let now = todo.next().unwrap_or(0..0);
        Self { journal, began, told: began, recorded: now.start, now, todo, beyond: BTreeSet::new(), outcome }
    }

    /// Records the result for a tile; returns whether to continue.
    fn enter(&mut self, turn: &Turn, filled: Filled) -> bool {
        let outcome = &mut self.outcome;
        match filled {
            Filled::Made(bytes) => {
                outcome.made += 1;
                outcome.bytes = outcome.bytes.saturating_add(bytes);
            }
            Filled::Held => outcome.held += 1,
            Filled::Black => outcome.black += 1,
            Filled::Failed(why) => {
                let failure = Failure { tile: turn.tile.to_string(), number: turn.number, why };
                self.fail(failure, !turn.is_again);
                self.advance(turn);
                return true;
            }
            Filled::Over(why) => {
                if outcome.ending == Ending::Finished {
                    outcome.ending = Ending::Over(why);
                }
                return false;
            }
            Filled::Stopped => return false,
        }
        if turn.is_again {
            self.tell(|journal| journal.mended(&turn.tile.to_string()));
        }
        self.advance(turn);
        true
    }

    fn fail(&mut self, failure: Failure, is_new: bool) {
        self.outcome.failed += 1;
        if is_new {
            self.tell(|journal| journal.failed(&failure));
        }
        if self.outcome.failures.len() < MOST_FAILURES {
            self.outcome.failures.push(failure);
        }
    }

    fn advance(&mut self, turn: &Turn) {
        if turn.is_again {
            return;
        }
        self.beyond.insert(turn.number);
        while self.beyond.remove(&self.now.start) {
            self.now.start += 1;
            if self.now.is_empty() {
                self.tell_done();
                self.now = self.todo.next().unwrap_or(0..0);
                self.recorded = self.now.start;
            }
        }
        if self.told.elapsed() >= TOLD_EVERY {
            self.tell_done();
        }
    }

    fn tell_done(&mut self) {
        self.told = Instant::now();
        let done = self.recorded..self.now.start;
        self.recorded = self.now.start;
        if !done.is_empty() {
            self.tell(|journal| journal.done(done));
        }
    }

    /// Writes to the journal; if that fails, continues without it.
    fn tell(&mut self, what: impl FnOnce(&mut Journal) -> Result<(), super::JournalError>) {
        let Some(journal) = &mut self.journal else { return };
        if let Err(error) = what(journal) {
            tracing::warn!("{error}; a stopped run cannot be resumed");
            self.journal = None;
        }
    }

    fn close(mut self, stopped: bool) -> Outcome {
        self.tell_done();
        if stopped && self.outcome.ending == Ending::Finished {
            self.outcome.ending = Ending::Stopped;
        }
        if self.outcome.ending == Ending::Finished
            && let Some(journal) = self.journal.take()
        {
            let is_shard = journal.is_shard();
            match journal.finish() {
                Ok(left) => self.outcome.left = is_shard.then_some(left),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        self.outcome.took = self.began.elapsed();
        self.outcome
    }
}

#[cfg(test)]
mod tests;
