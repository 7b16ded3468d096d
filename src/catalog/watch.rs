//! Whether the files of a channel are still what they were when they were opened.
//!
//! The file system is asked at most every [`FRESH`], however many requests come. It may take long to answer (a network
//! file system that hangs): [`Watch::check`] is never to be called on an async thread.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::volume::hdf5::FileIdentity;

/// How old the last answer of the file system may be.
const FRESH: Duration = Duration::from_millis(200);

/// The beginning of the time that is counted here.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The files of a channel, and what is known of them.
#[derive(Debug)]
pub(super) struct Watch {
    files: BTreeSet<FileIdentity>,
    /// Nanoseconds from [`EPOCH`] to the beginning of the last check that found no change, plus one; 0 before the first.
    unchanged_at: AtomicU64,
    /// For good: what was read of the files may be mixed with what they were.
    changed: AtomicBool,
    checking: Mutex<()>,
}

impl Watch {
    /// A watch over these files, which has yet to look.
    pub fn over(files: BTreeSet<FileIdentity>) -> Self {
        Self {
            files,
            unchanged_at: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            checking: Mutex::default(),
        }
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &FileIdentity> {
        self.files.iter()
    }

    /// Whether the last check is recent enough, or there is nothing left to find out.
    pub fn is_fresh(&self) -> bool {
        self.has_changed() || self.unchanged_since(now().saturating_sub(FRESH.as_nanos() as u64))
    }

    /// Whether a file was found to have changed.
    pub fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// Notes that a file turned out to have changed while it was read.
    pub fn note_change(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Looks, unless somebody has just now. Asks the file system for every file.
    pub fn check(&self) {
        self.check_after(now().saturating_sub(FRESH.as_nanos() as u64));
    }

    /// Whether no file was changed before that moment. May ask the file system for every file.
    pub fn was_unchanged_at(&self, moment: Instant) -> bool {
        let moment = moment.saturating_duration_since(*EPOCH).as_nanos() as u64;
        self.check_after(moment);
        !self.has_changed()
    }

    /// Looks, unless somebody has since then.
    fn check_after(&self, moment: u64) {
        let _checking = self.checking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_changed() || self.unchanged_since(moment) {
            return;
        }
        let began = now();
        match self.files.iter().find(|file| !file.is_current()) {
            None => self.unchanged_at.store(began + 1, Ordering::Release),
            Some(file) => {
                self.changed.store(true, Ordering::Release);
                tracing::warn!("{} has changed since it was opened", file.path().display());
            }
        }
    }

    fn unchanged_since(&self, moment: u64) -> bool {
        self.unchanged_at.load(Ordering::Acquire) > moment
    }
}

/// Nanoseconds since [`EPOCH`].
fn now() -> u64 {
    EPOCH.elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_change_is_found_and_is_for_good() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.h5");
        fs::write(&path, "one").unwrap();
        let watch = Watch::over(BTreeSet::from([FileIdentity::of(&path).unwrap()]));
        assert!(!watch.is_fresh());
        watch.check();
        assert!(watch.is_fresh() && !watch.has_changed());
        let before = Instant::now();
        assert!(watch.was_unchanged_at(before));
        fs::write(&path, "three").unwrap();
        assert!(watch.was_unchanged_at(before), "it was unchanged then, and nobody need look again");
        assert!(!watch.was_unchanged_at(Instant::now()));
        fs::remove_file(&path).unwrap();
        assert!(watch.has_changed() && watch.is_fresh() && !watch.was_unchanged_at(before));
    }
}
