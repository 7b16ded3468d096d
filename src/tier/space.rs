//! The space that a directory may take: what it takes now, and the bell that is rung when that is too much.
//!
//! Writers ring and go on; only one that is an eighth beyond the budget waits for the sweep, which a writer may: nobody
//! waits for it. The lock is the bell's alone, and held by nobody who does anything.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::gauge::Gauge;

use super::tally::{Tally, on_disk};

/// The longest that a writer waits for the sweep.
const PATIENCE: Duration = Duration::from_secs(10);

/// A budget, and what is known of its use.
#[derive(Debug)]
pub(super) struct Space {
    /// The most bytes that files may take.
    pub budget: u64,
    pub tally: Tally,
    bell: Mutex<Bell>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Bell {
    rung: bool,
    /// What was counted is not so any more.
    recount: bool,
    stopped: bool,
    /// The last sweep could not remove what it should.
    stuck: bool,
}

/// Why the sweeper was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// There may be too much.
    Rung,
    /// It is time.
    Due,
    /// All is to be counted anew now.
    Recount,
    /// Nobody uses the directory any more.
    Stopped,
}

impl Space {
    pub fn new(budget: u64, gauge: Gauge) -> Self {
        Self { budget, tally: Tally::new(gauge), bell: Mutex::default(), changed: Condvar::new() }
    }

    /// Whether more is there than may be.
    pub fn is_over(&self) -> bool {
        self.tally.bytes() > self.budget
    }

    /// Whether there is room for a file of that length, perhaps after a while.
    pub fn has_room(&self, length: u64) -> bool {
        let fits = || self.tally.bytes() + on_disk(length) <= self.budget + self.budget / 8;
        if on_disk(length) > self.budget || fits() {
            return on_disk(length) <= self.budget;
        }
        let until = Instant::now() + PATIENCE;
        let mut bell = self.lock();
        while !fits() && !bell.stuck && !bell.stopped && Instant::now() < until {
            bell.rung = true;
            self.changed.notify_all();
            let left = until.saturating_duration_since(Instant::now());
            bell = self.changed.wait_timeout(bell, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(bell);
        fits()
    }

    /// A file of that length was put, in the place of one of `before`. The sweeper is woken where that is too much.
    pub fn put(&self, byte: u8, length: u64, before: Option<u64>) {
        self.tally.put(byte, length, before);
        if self.is_over() {
            self.ring();
        }
    }

    fn ring(&self) {
        self.lock().rung = true;
        self.changed.notify_all();
    }

    /// Has everything counted anew: the directory has gone, come back, or was emptied.
    pub fn recount(&self) {
        self.lock().recount = true;
        self.changed.notify_all();
    }

    /// Has the sweeper end.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Tells writers how a sweep stands.
    pub fn swept(&self, stuck: bool) {
        self.lock().stuck = stuck;
        self.changed.notify_all();
    }

    /// Waits for the bell, until then at most.
    pub fn wait(&self, until: Instant) -> Woken {
        let mut bell = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match () {
                () if bell.stopped => return Woken::Stopped,
                () if std::mem::take(&mut bell.recount) => return Woken::Recount,
                () if std::mem::take(&mut bell.rung) => return Woken::Rung,
                () if left.is_zero() => return Woken::Due,
                () => {}
            }
            bell = self.changed.wait_timeout(bell, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Bell> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_far_beyond_the_budget_waits_until_there_is_room() {
        let space = Space::new(80 << 10, Gauge::default());
        assert!(space.has_room(80 << 10) && !space.has_room(81 << 10), "nothing larger than the budget");
        space.tally.put(0, 88 << 10, None);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| space.has_room(4096));
            assert_eq!(space.wait(Instant::now() + PATIENCE), Woken::Rung);
            space.tally.removed(0, 88 << 10);
            space.swept(false);
            assert!(waiting.join().unwrap());
        });
        space.tally.put(0, 88 << 10, None);
        space.swept(true);
        assert!(!space.has_room(4096), "nobody waits for what cannot be helped");
    }

    #[test]
    fn the_bell_is_heard_once_and_the_end_by_all() {
        let space = Space::new(0, Gauge::default());
        space.ring();
        let soon = Instant::now();
        assert_eq!([space.wait(soon), space.wait(soon)], [Woken::Rung, Woken::Due]);
        space.stop();
        assert_eq!([space.wait(soon), space.wait(soon)], [Woken::Stopped; 2]);
    }
}
