//! What the registry knows of one connection: whose it is, what it is doing, and how to have it closed.
//!
//! What it is doing changes with every request, and is kept in one atomic number that no other thread waits for. The
//! registry reads it only to choose whom to close; so it may be a moment old.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// The address that a connection counts for; absent where the system does not tell it.
pub(super) type Client = Option<IpAddr>;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It has waited for a request since then: for its first byte, or for the rest of its head.
    Idle(u64),
    /// Its client has read nothing of an answer since then.
    Stalled(u64),
    /// A request is being answered.
    Busy,
}

/// One connection. Times are in milliseconds since the registry was made.
#[derive(Debug)]
pub(super) struct Seat {
    pub client: Client,
    doing: AtomicU64,
    is_told_to_close: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Seat {
    pub fn new(client: Client, doing: Doing) -> Self {
        let doing = AtomicU64::new(doing.packed());
        Self { client, doing, is_told_to_close: AtomicBool::new(false), waker: Mutex::new(None) }
    }

    pub fn does(&self, doing: Doing) {
        self.doing.store(doing.packed(), Ordering::Relaxed);
    }

    pub fn doing(&self) -> Doing {
        Doing::unpacked(self.doing.load(Ordering::Relaxed))
    }

    /// Whom to wake when the connection is told to close. To be called before [`Seat::is_told_to_close`].
    pub fn wake(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    pub fn is_told_to_close(&self) -> bool {
        self.is_told_to_close.load(Ordering::SeqCst)
    }

    /// Has the connection close itself, now or after the answer that it is about to give.
    pub fn tell_to_close(&self) {
        self.is_told_to_close.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Doing {
    fn packed(self) -> u64 {
        match self {
            Doing::Idle(since) => since << 2,
            Doing::Stalled(since) => since << 2 | 1,
            Doing::Busy => 2,
        }
    }

    fn unpacked(packed: u64) -> Self {
        match packed & 3 {
            0 => Doing::Idle(packed >> 2),
            1 => Doing::Stalled(packed >> 2),
            _ => Doing::Busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_what_is_read() {
        let seat = Seat::new(None, Doing::Idle(7));
        assert_eq!(seat.doing(), Doing::Idle(7));
        for doing in [Doing::Busy, Doing::Stalled(u64::MAX >> 2), Doing::Idle(0)] {
            seat.does(doing);
            assert_eq!(seat.doing(), doing);
        }
    }
}
