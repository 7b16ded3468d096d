//! The progress of long jobs.

/// Shows how far a job is. Called from many threads.
pub(crate) trait Progress: Sync {
    /// The job has so many units in all, `done` of which an earlier run did.
    fn begin(&self, total: u64, done: u64);

    /// So many more units have been tried; `failed`: in vain.
    fn advance(&self, units: u64, failed: bool);
}
