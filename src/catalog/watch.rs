//! Detects whether the files of a channel have changed since they were opened.
//!
//! The file system is accessed at most once per [`FRESH`], regardless of the number of requests. It
//! may block for a long time (a hanging network file system): requests call
//! [`FileWatch::check_soon`], which never blocks and lets at most one thread wait for the file
//! system.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use voltile_base::flow::stalls::Unresponsive;
use voltile_hdf5::volume::hdf5::FileIdentity;

/// How long the result of a check is valid.
const FRESH: Duration = Duration::from_millis(200);

/// How long a request waits for a check: longer than a busy network file system takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The files of a channel, and the result of the last check.
#[derive(Debug)]
pub(super) struct FileWatch {
    files: BTreeSet<FileIdentity>,
    created: Instant,
    /// When the last check that found no change began: nanoseconds since `created`, plus one. 0
    /// until a check has found no change.
    unchanged_at: AtomicU64,
    /// Never reset: later reads may mix old and new data.
    changed: AtomicBool,
    /// Whether a growing file has changed otherwise than by growing.
    rewritten: AtomicBool,
    /// Held while the file system is accessed.
    checking: Mutex<()>,
    /// Held while a thread checks on behalf of requests, so that no second one waits for the file
    /// system.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl FileWatch {
    /// A watch over these files, not yet checked.
    pub fn over(files: BTreeSet<FileIdentity>) -> Self {
        Self {
            files,
            created: Instant::now(),
            unchanged_at: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            rewritten: AtomicBool::new(false),
            checking: Mutex::default(),
            turn: Arc::default(),
        }
    }

    pub fn files(&self) -> impl Iterator<Item = &FileIdentity> + Clone {
        self.files.iter()
    }

    #[cfg(test)]
    fn is_fresh(&self) -> bool {
        self.is_known_since(self.oldest_fresh())
    }

    /// Whether a file was found to have changed.
    pub fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// Whether a growing file was found to have changed otherwise than by growing.
    pub fn was_rewritten(&self) -> bool {
        self.rewritten.load(Ordering::Acquire)
    }

    /// Records that a read found a file changed. Reads accept growth, so the file was rewritten.
    pub fn note_change(&self) {
        self.rewritten.store(true, Ordering::Release);
        self.changed.store(true, Ordering::Release);
    }

    /// Has the files checked on a thread for blocking work unless the last check is recent enough.
    pub async fn check_soon(self: &Arc<Self>) -> Result<(), Unresponsive> {
        // A check that has begun after this moment is recent enough, however long it takes.
        let since = self.oldest_fresh();
        if self.is_known_since(since) {
            return Ok(());
        }
        // On the heap: otherwise the future of every request would reserve room for this rare wait.
        let checked = Box::pin(tokio::time::timeout(PATIENCE, self.check_in_turn(since))).await;
        checked.map_err(|_| Unresponsive(PATIENCE))
    }

    /// Checks the files on a thread for blocking work, unless a check began at `since` or later.
    async fn check_in_turn(self: &Arc<Self>, since: u64) {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if self.is_known_since(since) {
            return;
        }
        let watch = Arc::clone(self);
        // The thread keeps the turn even if no request waits for it any more.
        let checked = tokio::task::spawn_blocking(move || {
            watch.check_since(since);
            drop(turn);
        });
        if let Err(error) = checked.await {
            tracing::error!("files could not be checked for changes: {error}");
        }
    }

    /// Checks the files unless the last check is recent enough. Accesses the file system for every
    /// file: must not be called on an async thread.
    pub fn check(&self) {
        self.check_since(self.oldest_fresh());
    }

    /// Whether no file had changed by `moment`: a check that began at that moment or later found no
    /// change. May access the file system for every file.
    pub fn was_unchanged_at(&self, moment: Instant) -> bool {
        let since = moment.saturating_duration_since(self.created).as_nanos() as u64;
        self.check_since(since);
        !self.has_changed()
    }

    /// Checks the files unless a check has begun at `since` (nanoseconds since `created`) or later.
    fn check_since(&self, since: u64) {
        let _checking = self.checking.lock();
        if self.is_known_since(since) {
            return;
        }
        let began = self.now();
        match self.files.iter().find(|file| !file.is_current()) {
            None => self.unchanged_at.store(began + 1, Ordering::Release),
            Some(file) => {
                let was_rewritten = self.files.iter().any(FileIdentity::was_rewritten);
                self.rewritten.fetch_or(was_rewritten, Ordering::Release);
                self.changed.store(true, Ordering::Release);
                if !file.is_growing() {
                    tracing::warn!("{} has changed since it was opened", file.path().display());
                }
            }
        }
    }

    /// Whether a check that found no change has begun at `since` (nanoseconds since `created`) or
    /// later, or any check has found a change, which is final.
    fn is_known_since(&self, since: u64) -> bool {
        self.has_changed() || self.unchanged_at.load(Ordering::Acquire) > since
    }

    /// Nanoseconds since `created`.
    fn now(&self) -> u64 {
        self.created.elapsed().as_nanos() as u64
    }

    /// The earliest time at which a recent enough check has begun, in nanoseconds since `created`.
    fn oldest_fresh(&self) -> u64 {
        self.now().saturating_sub(FRESH.as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_change_is_detected_and_final() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.h5");
        fs::write(&path, "one").unwrap();
        let watch = FileWatch::over(BTreeSet::from([FileIdentity::of_path(&path).unwrap()]));
        assert!(!watch.is_fresh());
        let checked_just_now = || {
            watch.check();
            watch.is_fresh()
        };
        assert!((0..100).any(|_| checked_just_now()) && !watch.has_changed());
        let before = Instant::now();
        assert!(watch.was_unchanged_at(before));
        fs::write(&path, "three").unwrap();
        assert!(
            watch.was_unchanged_at(before),
            "it was unchanged then, as the last check shows"
        );
        assert!(!watch.was_unchanged_at(Instant::now()));
        fs::remove_file(&path).unwrap();
        assert!(watch.has_changed() && watch.is_fresh() && !watch.was_unchanged_at(before));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_system_that_hangs_costs_one_thread_and_an_error() {
        let watch = Arc::new(FileWatch::over(BTreeSet::new()));
        let hanging = Arc::clone(&watch.turn).lock_owned().await;
        let (one, two) = tokio::join!(watch.check_soon(), watch.check_soon());
        assert_eq!(
            (one, two),
            (Err(Unresponsive(PATIENCE)), Err(Unresponsive(PATIENCE)))
        );
        drop(hanging);
        assert_eq!(watch.check_soon().await, Ok(()));
        assert!(watch.is_fresh());
    }
}
