//! Doing the work: hands that take tile after tile in order, a journal of what is done, a pace, and an end at any time.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::journal::{Failure, Journal, MOST_FAILURES, Position};
use super::work::Work;
use crate::request::{TilePath, TileRequest};

/// How often the journal is told how far the work is, while nothing fails.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// What became of a tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filled {
    /// It was drawn, or a server answered with it: so many bytes.
    Made(u64),
    /// It was there already.
    Held,
    /// Nothing is in it; it need not be kept.
    Black,
    /// It cannot be had, for a reason of its own.
    Failed(String),
    /// Nothing more can be had, for a reason that is not this tile's.
    Over(String),
    /// It was given up because the work is to stop.
    Stopped,
}

/// Whoever brings about that tiles are kept. Called from many threads.
pub trait Hand: Sync {
    /// Sees to it that a tile is kept. Waits no longer than it must once it is told to stop.
    fn fill(&self, tile: &TileRequest, stop: &Stop) -> Filled;

    /// Whether a tile that was done is still there, as far as that can be told.
    fn is_there(&self, _tile: &TileRequest) -> bool {
        true
    }
}

/// Who wants to know how far the work is. Called from many threads.
pub trait Progress: Sync {
    /// There are so many tiles, of which so many were done by an earlier run.
    fn begin(&self, total: u64, done: u64);
    /// One more is done: so many bytes came with it, or it failed.
    fn advance(&self, bytes: u64, failed: bool);
}

/// How to work.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How many tiles are under way at once.
    pub threads: NonZeroUsize,
    /// The most tiles a second.
    pub rate: Option<f64>,
}

/// A word to stop, heard by all who wait.
#[derive(Debug, Default)]
pub struct Stop {
    told: Mutex<bool>,
    heard: Condvar,
}

impl Stop {
    /// Tells everybody to stop.
    pub fn tell(&self) {
        *lock(&self.told) = true;
        self.heard.notify_all();
    }

    /// Whether it was told.
    pub fn is_told(&self) -> bool {
        *lock(&self.told)
    }

    /// Waits for so long, or until it is told; whether it was.
    pub fn wait(&self, time: Duration) -> bool {
        let told = lock(&self.told);
        let waited = self.heard.wait_timeout_while(told, time, |told| !*told);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// How a work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// All tiles were tried.
    Finished,
    /// It was told to stop.
    Stopped,
    /// It could not go on.
    Over(String),
}

/// What came of a work.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Tiles done by earlier runs.
    pub before: u64,
    /// Tiles that were drawn, or that a server answered with.
    pub made: u64,
    /// Tiles that were there already.
    pub held: u64,
    /// Tiles that nothing is in.
    pub black: u64,
    /// The bytes of those that were made.
    pub bytes: u64,
    /// How many failed, those of earlier runs counted that failed again.
    pub failed: u64,
    /// The first of these.
    pub failures: Vec<Failure>,
    /// How long it took.
    pub took: Duration,
}

/// Does a work from a position on.
pub fn run(
    work: &Work,
    hand: &dyn Hand,
    (journal, position): (Option<Journal>, Position),
    pace: Pace,
    stop: &Stop,
    progress: &dyn Progress,
) -> Outcome {
    let began = Instant::now();
    progress.begin(work.total(), position.done);
    let again: Vec<TileRequest> = position.failures.iter().filter_map(|f| request(&f.tile)).collect();
    let tiles = work.tiles(position.done).zip(position.done..);
    let tiles = tiles.map(|(tile, number)| (tile, Some(number)));
    let todo = again.into_iter().map(|tile| (tile, None)).chain(tiles);
    let feed = Mutex::new(todo);
    let ledger = Mutex::new(Ledger::new(journal, position.done, began));
    let turns = Turns::new(pace.rate);
    let one = || {
        while !stop.is_told() && turns.wait(stop) {
            let Some((tile, number)) = lock(&feed).next() else { break };
            let filled = hand.fill(&tile, stop);
            let bytes = if let Filled::Made(bytes) = filled { bytes } else { 0 };
            let failed = matches!(filled, Filled::Failed(_));
            if lock(&ledger).enter(&tile, number, filled) {
                if number.is_some() {
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

/// The request of a path below a mount.
fn request(path: &str) -> Option<TileRequest> {
    TilePath::split(&format!("/mount/tilecache/{path}"))?.ok()?.request().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns, given out at no more than a rate.
struct Turns {
    apart: Option<Duration>,
    next: Mutex<Instant>,
}

impl Turns {
    fn new(rate: Option<f64>) -> Self {
        let apart = rate.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
        Self { apart, next: Mutex::new(Instant::now()) }
    }

    /// Waits for a turn; whether there is one, for there is none once it is time to stop.
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

/// What is done, and the journal of it.
struct Ledger {
    journal: Option<Journal>,
    began: Instant,
    told: Instant,
    /// All before this one are done.
    done: u64,
    /// Done, though not all before them are: no more than are under way at once, and those that overtook a slow one.
    beyond: BTreeSet<u64>,
    outcome: Outcome,
}

impl Ledger {
    fn new(journal: Option<Journal>, done: u64, began: Instant) -> Self {
        let outcome = Outcome {
            ending: Ending::Finished,
            before: done,
            made: 0,
            held: 0,
            black: 0,
            bytes: 0,
            failed: 0,
            failures: Vec::new(),
            took: Duration::ZERO,
        };
        Self { journal, began, told: began, done, beyond: BTreeSet::new(), outcome }
    }

    /// Enters what became of a tile, one of this work's by its number, or one that an earlier run had left; whether there is
    /// any sense in going on.
    fn enter(&mut self, tile: &TileRequest, number: Option<u64>, filled: Filled) -> bool {
        let outcome = &mut self.outcome;
        match filled {
            Filled::Made(bytes) => {
                outcome.made += 1;
                outcome.bytes = outcome.bytes.saturating_add(bytes);
            }
            Filled::Held => outcome.held += 1,
            Filled::Black => outcome.black += 1,
            Filled::Failed(why) => {
                self.fail(Failure { tile: tile.to_string(), why }, number.is_some());
                self.advance(number);
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
        if number.is_none() {
            self.tell(|journal| journal.mended(&tile.to_string()));
        }
        self.advance(number);
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

    fn advance(&mut self, number: Option<u64>) {
        let Some(number) = number else { return };
        self.beyond.insert(number);
        while self.beyond.remove(&self.done) {
            self.done += 1;
        }
        if self.told.elapsed() >= TOLD_EVERY {
            self.tell_done();
        }
    }

    fn tell_done(&mut self) {
        let done = self.done;
        self.told = Instant::now();
        self.tell(|journal| journal.done(done));
    }

    /// Tells the journal; one that cannot be written is done without.
    fn tell(&mut self, what: impl FnOnce(&mut Journal) -> Result<(), super::JournalError>) {
        let Some(journal) = &mut self.journal else { return };
        if let Err(error) = what(journal) {
            tracing::warn!("{error}; if this work is stopped, it begins anew");
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
            && let Err(error) = journal.remove()
        {
            tracing::warn!("{error}");
        }
        self.outcome.took = self.began.elapsed();
        self.outcome
    }
}

#[cfg(test)]
mod tests;
