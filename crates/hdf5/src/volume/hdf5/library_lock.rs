//! libhdf5's process-wide lock, for threads that must not wait for it forever.

use std::time::Duration;

use voltile_base::flow::stalls::{Unresponsive, ensure_library_answers};

/// The interval of checks whether the thread that holds the library's lock is stuck.
const CHECKS: Duration = Duration::from_millis(250);

/// Holds the library's lock until the result is dropped. Fails if it is held by a thread that reads
/// a stuck file.
pub(super) fn lock() -> Result<impl Sized, Unresponsive> {
    loop {
        if let Some(guard) = hdf5_sys::LOCK.try_lock_for(CHECKS) {
            return Ok(guard);
        }
        ensure_library_answers()?;
    }
}

/// Whether this thread holds the library's lock.
pub(super) fn is_held_here() -> bool {
    hdf5_sys::LOCK.is_owned_by_current_thread()
}
