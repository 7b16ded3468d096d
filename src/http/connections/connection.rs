//! One connection as the registry sees it: its client, its state, and how to close it.
//!
//! The state changes with every request, so it is one atomic number. The registry reads it only to choose which
//! connection to close, so a slightly stale value does no harm.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// The address that a connection counts for; `None` on a Unix socket.
pub(super) type Client = Option<IpAddr>;

/// The state of a connection. Times are in milliseconds since the registry was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// Waiting since then for the first byte of a request, or for the rest of its head.
    Idle(u64),
    /// The client has read nothing of a response since then.
    Stalled(u64),
    /// A request is being answered.
    Busy,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub client: Client,
    doing: AtomicU64,
    is_told_to_close: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Connection {
    pub fn new(client: Client, doing: Doing) -> Self {
        let doing = AtomicU64::new(doing.packed());
        Self { client, doing, is_told_to_close: AtomicBool::new(false), waker: Mutex::new(None) }
    }

    pub fn set_doing(&self, doing: Doing) {
        self.doing.store(doing.packed(), Ordering::Relaxed);
    }

    pub fn doing(&self) -> Doing {
        Doing::unpacked(self.doing.load(Ordering::Relaxed))
    }

    /// Registers the task to wake when the connection is asked to close. Call it before [`Connection::is_told_to_close`].
    pub fn register_waker(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    pub fn is_told_to_close(&self) -> bool {
        self.is_told_to_close.load(Ordering::SeqCst)
    }

    /// Makes the connection close itself, at once or after the response in progress.
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
        let connection = Connection::new(None, Doing::Idle(7));
        assert_eq!(connection.doing(), Doing::Idle(7));
        for doing in [Doing::Busy, Doing::Stalled(u64::MAX >> 2), Doing::Idle(0)] {
            connection.set_doing(doing);
            assert_eq!(connection.doing(), doing);
        }
    }
}
