//! How work flows through a busy process: values made once for all who wait, services that fail,
//! bounded queues, what a request did, and when background work may run.

pub mod activity;
pub(crate) mod breaker;
pub(crate) mod cache;
pub(crate) mod queue;
pub mod stalls;
pub mod trace;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also if a thread that held it has panicked: nothing panics while what it guards
/// is inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
