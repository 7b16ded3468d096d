//! The disk budget of a directory: its current use, and the signals between writers and the sweeper.
//!
//! A writer that exceeds the budget requests a sweep and continues; only if the budget is exceeded by more than an
//! eighth does it wait for the sweep. It can afford to: no request waits for it. The lock protects the flags alone
//! and is never held during I/O.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::gauge::Gauge;

use super::tally::{Tally, on_disk};

/// The longest time that a writer waits for the sweep.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A budget and its current use.
#[derive(Debug)]
pub(super) struct Space {
    /// The maximum disk space in bytes.
    pub budget: u64,
    pub tally: Tally,
    flags: Mutex<Flags>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Flags {
    /// A sweep was requested.
    sweep: bool,
    /// A recount was requested.
    recount: bool,
    stopped: bool,
    /// The last sweep could not remove enough.
    stuck: bool,
}

/// Why the sweeper was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// The budget may be exceeded.
    Sweep,
    /// The time given to [`Space::wait`] has come.
    Due,
    /// The counts are invalid.
    Recount,
    /// The directory was closed.
    Stopped,
}

impl Space {
    pub fn new(budget: u64, gauge: Gauge) -> Self {
        Self { budget, tally: Tally::new(gauge), flags: Mutex::default(), changed: Condvar::new() }
    }

    /// Whether the budget is exceeded.
    pub fn is_over(&self) -> bool {
        self.tally.bytes() > self.budget
    }

    /// Whether there is room for a file of that length; may wait for the sweeper to make room.
    pub fn has_room(&self, length: u64) -> bool {
        let fits = || self.tally.bytes() + on_disk(length) <= self.budget + self.budget / 8;
        if on_disk(length) > self.budget || fits() {
            return on_disk(length) <= self.budget;
        }
        let until = Instant::now() + LONGEST_WAIT;
        let mut flags = self.lock();
        while !fits() && !flags.stuck && !flags.stopped && Instant::now() < until {
            flags.sweep = true;
            self.changed.notify_all();
            let left = until.saturating_duration_since(Instant::now());
            flags = self.changed.wait_timeout(flags, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(flags);
        fits()
    }

    /// Counts a written file, which replaced one of length `before`, if any; wakes the sweeper if the budget is
    /// exceeded.
    pub fn put(&self, byte: u8, length: u64, before: Option<u64>) {
        self.tally.put(byte, length, before);
        if self.is_over() {
            self.request_sweep();
        }
    }

    fn request_sweep(&self) {
        self.lock().sweep = true;
        self.changed.notify_all();
    }

    /// Requests a recount: the directory disappeared, came back, or was emptied.
    pub fn recount(&self) {
        self.lock().recount = true;
        self.changed.notify_all();
    }

    /// Ends the sweeper.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Wakes waiting writers after a sweep; `stuck` if it could not remove enough.
    pub fn swept(&self, stuck: bool) {
        self.lock().stuck = stuck;
        self.changed.notify_all();
    }

    /// Waits for a request, until `until` at most.
    pub fn wait(&self, until: Instant) -> Woken {
        let mut flags = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match () {
                () if flags.stopped => return Woken::Stopped,
                () if std::mem::take(&mut flags.recount) => return Woken::Recount,
                () if std::mem::take(&mut flags.sweep) => return Woken::Sweep,
                () if left.is_zero() => return Woken::Due,
                () => {}
            }
            flags = self.changed.wait_timeout(flags, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Flags> {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_far_over_budget_waits_for_room() {
        let space = Space::new(80 << 10, Gauge::default());
        assert!(space.has_room(80 << 10) && !space.has_room(81 << 10), "nothing larger than the budget");
        space.tally.put(0, 88 << 10, None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| space.has_room(4096));
            assert_eq!(space.wait(Instant::now() + LONGEST_WAIT), Woken::Sweep);
            space.tally.removed(0, 88 << 10);
            space.swept(false);
            assert!(waiting.join().unwrap());
        });
        space.tally.put(0, 88 << 10, None);
        space.swept(true);
        assert!(!space.has_room(4096), "there is no waiting if the sweeper is stuck");
    }

    #[test]
    fn a_request_wakes_once_and_a_stop_always() {
        let space = Space::new(0, Gauge::default());
        space.request_sweep();
        let soon = Instant::now();
        assert_eq!([space.wait(soon), space.wait(soon)], [Woken::Sweep, Woken::Due]);
        space.stop();
        assert_eq!([space.wait(soon), space.wait(soon)], [Woken::Stopped; 2]);
    }
}
