//! How work flows through a busy process: values made once for all who wait, services that fail,
//! bounded queues, what a request did, and when background work may run.

pub mod activity;
pub mod breaker;
pub mod cache;
pub mod interest;
pub mod queue;
pub mod stalls;
pub mod trace;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, iter, thread};

/// Starts a thread with a name.
///
/// # Errors
/// The system cannot start another thread.
pub fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop)
}

/// Works on the items with at most `threads` threads, this one among them. Each thread calls `work`
/// once, with an iterator that takes the next item that no other thread has taken.
pub fn side_by_side<'a, T: Sync>(
    items: &'a [T],
    threads: usize,
    work: impl Fn(&mut dyn Iterator<Item = &'a T>) + Sync,
) {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut taken = iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed)));
        work(&mut taken);
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, take) {
                tracing::debug!("fewer items are worked on side by side: {error}");
            }
        }
        take();
    });
}
