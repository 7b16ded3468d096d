//! Takes libhdf5's process-wide lock, also without waiting forever; and ensures that some locks are
//! taken only while it is held.

use std::marker::PhantomData;
use std::time::Duration;

use hdf5::sync::sync;
use parking_lot::{Mutex, MutexGuard};
use voltile_base::flow::stalls::{Unresponsive, ensure_library_answers};

/// While a thread waits, how often it checks whether the holder of the library's lock is stuck.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Holds the library's lock until the result is dropped. Fails if it is held by a thread that reads
/// a stuck file.
pub(super) fn lock() -> Result<impl Sized, Unresponsive> {
    loop {
        if let Some(guard) = hdf5_sys::LOCK.try_lock_for(CHECK_INTERVAL) {
            return Ok(guard);
        }
        ensure_library_answers()?;
    }
}

/// Waits until the library's lock is free. Fails if it is held by a thread that reads a stuck file.
/// Called before work that takes the lock in many steps, each without a limit.
pub(super) fn ensure_available() -> Result<(), Unresponsive> {
    lock().map(drop)
}

/// Proof that this thread holds the library's lock.
pub(super) struct LibraryHeld(PhantomData<*const ()>);

/// Runs `work` under the library's lock, however long it must wait for the lock.
pub(super) fn with<T>(work: impl FnOnce(&LibraryHeld) -> T) -> T {
    sync(|| work(&LibraryHeld(PhantomData)))
}

/// A lock that can be taken only under the library's lock. So no thread waits for the library's
/// lock while it holds this one.
#[derive(Debug, Default)]
pub(super) struct InnerLock<T>(Mutex<T>);

impl<T> InnerLock<T> {
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub fn lock(&self, _held: &LibraryHeld) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    /// The protected value, without locking: this is the only reference to it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// Whether this thread holds the library's lock.
pub(super) fn is_held_here() -> bool {
    hdf5_sys::LOCK.is_owned_by_current_thread()
}
