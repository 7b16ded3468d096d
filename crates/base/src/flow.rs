//! How work flows through a busy process: values made once for all who wait, services that fail,
//! bounded queues, what a request did, and when background work may run.

pub mod activity;
pub mod breaker;
pub mod cache;
pub mod interest;
pub mod queue;
pub mod stalls;
pub mod trace;

use std::{io, thread};

/// Starts a thread with a name.
///
/// # Errors
/// The system cannot start another thread.
pub fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop)
}
