//! Eviction: counts the disk space of a directory, and removes the least recently used files if it
//! exceeds the budget.
//!
//! Any process may add and read files. One process counts and evicts, on a thread of its own: the
//! one that holds an advisory lock on a file in the directory. The other processes try to get the
//! lock once a minute.
//!
//! A writer that exceeds the budget requests an eviction and continues; only if the budget is
//! exceeded by more than an eighth does it wait for the eviction. It can afford to: no request
//! waits for it.

use std::collections::BinaryHeap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use voltile_base::flow::start_thread;
use voltile_base::metrics::Metrics;
use voltile_base::tile::TileKey;
use voltile_hdf5::store::whole_file::TEMPORARY;

use super::error_log::ErrorLog;
use super::folder::{EntryKind, TokenFolder, unless_missing};
use super::{TierError, TierKind, marker};

/// The block size of nearly all file systems.
const BLOCK: u64 = 4096;
/// The maximum number of files that one walk through the directory evicts: it bounds memory.
const MAX_EVICTED: usize = 1 << 18;
/// The interval between counts: other processes add and remove files, too.
const COUNT_INTERVAL: Duration = Duration::from_secs(60);
/// The pause after a count is at least this many times as long as the count took.
const PAUSE_FACTOR: u32 = 20;
/// The pause after an eviction that could not remove enough.
const STUCK_PAUSE: Duration = Duration::from_secs(30);
/// The longest time that a writer waits for an eviction.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// A temporary file older than this was left by a killed process.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);
/// The clocks of machines that share a directory may differ by this much; a modification time
/// further in the future is not trusted.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(3600);

/// The disk space of a file of this length, in bytes.
pub(super) fn on_disk(length: u64) -> u64 {
    length.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// The maximum disk space, and the space in use as far as this process counts it.
#[derive(Debug)]
pub(super) struct Budget {
    /// In bytes.
    pub limit: u64,
    /// The bytes in use; 0 where another process counts.
    used: Gauge,
    state: Mutex<BudgetState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BudgetState {
    /// Whether this process counts and evicts.
    is_owner: bool,
    /// Whether a count is requested, and an eviction if the budget is exceeded.
    is_requested: bool,
    /// Whether the last eviction could not remove enough.
    is_stuck: bool,
    is_closed: bool,
}

impl Budget {
    fn new(limit: u64, used: Gauge) -> Self {
        Self {
            limit,
            used,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn used(&self) -> u64 {
        self.used.get().max(0) as u64
    }

    /// Whether there is room for a file of this length; may wait for an eviction.
    pub fn has_room(&self, length: u64) -> bool {
        if on_disk(length) > self.limit {
            return false;
        }
        if self.fits(length) {
            return true;
        }
        self.request();
        let mut state = self.state.lock();
        self.changed.wait_while_for(
            &mut state,
            |state| !self.fits(length) && !state.is_stuck && !state.is_closed,
            MAX_WAIT,
        );
        drop(state);
        self.fits(length)
    }

    /// Whether all files and one more of this length exceed the budget by at most an eighth.
    fn fits(&self, length: u64) -> bool {
        self.used() + on_disk(length) <= self.limit + self.limit / 8
    }

    /// Counts a file that was written; requests an eviction if the budget is exceeded.
    pub fn add(&self, length: u64) {
        if self.state.lock().is_owner {
            self.used.inc_by(on_disk(length) as i64);
            if self.used() > self.limit {
                self.request();
            }
        }
    }

    /// Requests a count, and an eviction if the budget is exceeded.
    fn request(&self) {
        self.state.lock().is_requested = true;
        self.changed.notify_all();
    }

    /// Ends the thread that evicts.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Wakes the writers that wait. Then waits until an eviction is requested or the pause is over;
    /// if the last eviction was stuck, a request does not shorten the pause. Returns false once the
    /// budget is closed.
    fn wait(&self, is_stuck: bool, pause: Duration) -> bool {
        let mut state = self.state.lock();
        state.is_stuck = is_stuck;
        // All earlier requests are done, but writers may have exceeded the budget again since.
        state.is_requested = self.used() > self.limit;
        self.changed.notify_all();
        self.changed.wait_while_for(
            &mut state,
            |state| !state.is_closed && (is_stuck || !state.is_requested),
            pause,
        );
        !state.is_closed
    }
}

/// The thread that counts and evicts.
pub(super) struct Evictor {
    path: PathBuf,
    kind: EntryKind,
    budget: Arc<Budget>,
    evicted: Counter,
    errors: Counter,
    log: ErrorLog,
}

/// A file that may be evicted; files used less recently are smaller in the order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct EvictionCandidate {
    last_used: SystemTime,
    key: TileKey,
    /// Index among the folders.
    folder: usize,
    length: u64,
}

impl Evictor {
    pub fn new(path: PathBuf, kind: EntryKind, limit: u64, metrics: &Metrics) -> Self {
        let stores = &metrics.stores;
        let (used, evicted, errors) = match kind {
            EntryKind::Tile => (
                &metrics.tier_bytes,
                &metrics.tier_evicted,
                &metrics.tier.errors,
            ),
            EntryKind::Block => (
                &stores.chunk_bytes,
                &stores.chunks_evicted,
                &stores.chunk_errors,
            ),
        };
        Self {
            path,
            kind,
            budget: Arc::new(Budget::new(limit, used.clone())),
            evicted: evicted.clone(),
            errors: errors.clone(),
            log: ErrorLog::new(TierKind::Directory),
        }
    }

    /// Starts the thread, which runs until the budget is closed.
    pub fn start(self) -> io::Result<Arc<Budget>> {
        let budget = Arc::clone(&self.budget);
        start_thread("evictor", move || self.run())?;
        Ok(budget)
    }

    fn run(&self) {
        let mut lock_file = None;
        loop {
            let began = Instant::now();
            let is_done = self.work(&mut lock_file);
            let pause = if is_done {
                COUNT_INTERVAL.max(began.elapsed() * PAUSE_FACTOR)
            } else {
                STUCK_PAUSE
            };
            if !self.budget.wait(!is_done, pause) {
                return;
            }
        }
    }

    /// If this process gets the lock, counts, and evicts if the budget is exceeded. Returns false
    /// if too few files could be removed. The lock is held until `lock_file` is dropped.
    fn work(&self, lock_file: &mut Option<File>) -> bool {
        // The lock is taken anew each time: its file may have been removed with the directory.
        *lock_file = None;
        let mut is_owner = marker::ensure(&self.path).is_ok();
        if is_owner {
            match self.lock() {
                Ok(file) => {
                    is_owner = file.is_some();
                    *lock_file = file;
                }
                // Where files cannot be locked, every process evicts. That does no harm, because
                // each removes the files used least recently.
                Err(error) => tracing::debug!("cache.directory cannot be locked: {error}"),
            }
        }
        self.budget.state.lock().is_owner = is_owner;
        if !is_owner {
            self.budget.used.set(0);
            return true;
        }
        self.keep_to_budget()
    }

    /// Takes the lock; `None` if another process holds it, perhaps on another machine that shares
    /// the directory by NFS. The system frees the lock when that process ends, however it ends.
    fn lock(&self) -> io::Result<Option<File>> {
        let name = format!("{TEMPORARY}{}.lock", self.kind.folder());
        let file = File::create(self.path.join(name))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Counts the files. If they exceed the budget, removes the files used least recently until
    /// nine tenths of it are in use. Returns false if too few files could be removed.
    fn keep_to_budget(&self) -> bool {
        // Several rounds, because a count returns at most `MAX_EVICTED` files.
        loop {
            let folders = match TokenFolder::all(&self.path, self.kind) {
                Ok(folders) => folders,
                Err(error) => {
                    self.note(&self.path, "listed", &error);
                    return false;
                }
            };
            let oldest = self.count(&folders);
            if self.budget.used() <= self.budget.limit {
                return true;
            }
            let mut removed = 0;
            for file in oldest.into_sorted_vec() {
                if self.budget.used() <= self.budget.limit / 10 * 9 {
                    return true;
                }
                let path = folders[file.folder].file(&file.key);
                match unless_missing(fs::remove_file(&path)) {
                    // `None` if another process has removed the file.
                    Ok(removal) => {
                        self.evicted.inc_by(u64::from(removal.is_some()));
                        self.budget.used.dec_by(on_disk(file.length) as i64);
                        removed += 1;
                    }
                    Err(error) => self.note(&path, "evicted", &error),
                }
            }
            if removed == 0 {
                return false;
            }
        }
    }

    /// Counts all files, and removes abandoned temporary files. Returns the files used least
    /// recently, at most [`MAX_EVICTED`].
    fn count(&self, folders: &[TokenFolder]) -> BinaryHeap<EvictionCandidate> {
        let used_before = self.budget.used.get();
        let now = SystemTime::now();
        let mut counted = 0;
        let mut oldest = BinaryHeap::new();
        for (number, folder) in folders.iter().enumerate() {
            let visited = folder.visit(|file| {
                let is_ahead = file.modified > now + MAX_CLOCK_DIFFERENCE;
                let Some(key) = file.key else {
                    if is_ahead || file.modified + ABANDONED_AFTER < now {
                        unless_missing(fs::remove_file(&file.path))?;
                    }
                    return Ok(());
                };
                counted += on_disk(file.length);
                oldest.push(EvictionCandidate {
                    // Readers set a time in the future to now: nobody has read this file since.
                    last_used: if is_ahead {
                        SystemTime::UNIX_EPOCH
                    } else {
                        file.modified
                    },
                    key,
                    folder: number,
                    length: file.length,
                });
                // Leaves out the file used most recently.
                if oldest.len() > MAX_EVICTED {
                    oldest.pop();
                }
                Ok(())
            });
            if let Err(error) = visited {
                self.note(&folder.path, "counted", &error);
            }
        }
        // Not `set`: the gauge keeps the files that writers have added to it during the walk. If
        // the walk has met such a file, it counts twice until the next count.
        self.budget.used.inc_by(counted as i64 - used_before);
        oldest
    }

    /// Counts and logs an error.
    fn note(&self, path: &Path, doing: &'static str, error: &io::Error) {
        self.errors.inc();
        self.log.log(&TierError::system(path, doing, error));
    }
}

#[cfg(test)]
mod tests {
    use voltile_base::name::Name;

    use super::*;
    use crate::tier::{Backend, Directory};
    use bytes::Bytes;

    /// In seconds since 1970.
    const LONG_AGO: u64 = 1_000_000_000;

    /// A directory of `tiles` tiles, in order of their modification times, and what evicts them.
    fn filled(tiles: u64, limit: u64) -> (tempfile::TempDir, Directory, Evictor) {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path()).unwrap();
        for number in 0..tiles {
            directory
                .put(
                    &token(number),
                    &TileKey::digest(&number),
                    &Bytes::from(vec![7; 3000]),
                )
                .unwrap();
            set_time(&path(&place, number), LONG_AGO + number);
        }
        let evictor = evictor(&place, limit);
        (place, directory, evictor)
    }

    fn evictor(place: &tempfile::TempDir, limit: u64) -> Evictor {
        let path = place.path().to_owned();
        Evictor::new(path, EntryKind::Tile, limit, &Metrics::default())
    }

    fn token(number: u64) -> Name {
        Name::new(["a", "b", "c"][number as usize % 3]).unwrap()
    }

    fn path(place: &tempfile::TempDir, number: u64) -> PathBuf {
        TokenFolder::new(place.path(), EntryKind::Tile, &token(number))
            .file(&TileKey::digest(&number))
    }

    fn set_time(path: &Path, seconds: u64) {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
            .unwrap();
    }

    fn left(directory: &Directory, tiles: u64) -> Vec<u64> {
        let has = |number: &u64| {
            directory
                .has(&token(*number), &TileKey::digest(number))
                .unwrap()
        };
        (0..tiles).filter(has).collect()
    }

    #[test]
    fn the_tiles_used_least_recently_are_evicted_until_a_tenth_is_free() {
        let (_place, directory, evictor) = filled(60, 40 * 4096);
        assert!(evictor.work(&mut None));
        assert_eq!(left(&directory, 60), (24..60).collect::<Vec<_>>());
        assert_eq!(
            (evictor.budget.used(), evictor.evicted.get()),
            (36 * 4096, 24)
        );
        assert!(
            evictor.work(&mut None) && evictor.evicted.get() == 24,
            "there is nothing more to do"
        );
    }

    #[test]
    fn a_tile_that_is_read_is_kept_longer() {
        let (_place, directory, evictor) = filled(60, 40 * 4096);
        directory
            .get(&token(3), &TileKey::digest(&3_u64))
            .unwrap()
            .unwrap();
        evictor.work(&mut None);
        assert_eq!(
            left(&directory, 60),
            [3].into_iter().chain(25..60).collect::<Vec<_>>()
        );
    }

    #[test]
    fn tiles_dated_in_the_future_are_evicted_first_and_kept_longer_once_they_are_read() {
        let (place, directory, evictor) = filled(60, 40 * 4096);
        let future = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
            + 24 * MAX_CLOCK_DIFFERENCE.as_secs();
        (40..60).for_each(|number| set_time(&path(&place, number), future));
        let unfinished = path(&place, 50).with_file_name(".voltile-unfinished");
        fs::write(&unfinished, "x").unwrap();
        set_time(&unfinished, future);
        directory
            .get(&token(45), &TileKey::digest(&45_u64))
            .unwrap()
            .unwrap();
        evictor.work(&mut None);
        assert_eq!(
            left(&directory, 60),
            (5..40).chain([45]).collect::<Vec<_>>()
        );
        assert!(!unfinished.exists());
    }

    #[test]
    fn old_temporary_files_are_removed_and_other_files_stay() {
        let (place, _directory, evictor) = filled(1, 1 << 20);
        let beside = path(&place, 0);
        let [old, young, foreign] = [".voltile-old", ".voltile-young", "notes.txt"].map(|name| {
            fs::write(beside.with_file_name(name), "x").unwrap();
            beside.with_file_name(name)
        });
        set_time(&old, LONG_AGO);
        set_time(&foreign, LONG_AGO);
        evictor.work(&mut None);
        assert_eq!(
            [&old, &young, &foreign, &beside].map(|path| path.exists()),
            [false, true, true, true]
        );
        assert_eq!(evictor.budget.used(), 4096);
    }

    #[test]
    fn only_the_process_with_the_lock_counts_and_evicts() {
        let (place, directory, first) = filled(60, 40 * 4096);
        let second = evictor(&place, 20 * 4096);
        let (mut held, mut other) = (None, None);
        assert!(first.work(&mut held) && held.is_some());
        second.budget.used.set(7);
        assert!(second.work(&mut other) && other.is_none());
        assert_eq!((left(&directory, 60).len(), second.budget.used()), (36, 0));
        second.budget.add(1 << 30);
        assert!(
            second.budget.used() == 0 && second.budget.has_room(4096),
            "it counts nothing"
        );
        // As when its process ends.
        drop(held);
        assert!(second.work(&mut other) && other.is_some());
        assert_eq!(
            (left(&directory, 60).len(), second.budget.used()),
            (18, 18 * 4096)
        );
    }

    #[test]
    fn where_nothing_can_be_locked_tiles_are_evicted_all_the_same() {
        let (place, directory, evictor) = filled(60, 40 * 4096);
        fs::create_dir(place.path().join(".voltile-tiles.lock")).unwrap();
        assert!(evictor.work(&mut None));
        assert_eq!(left(&directory, 60).len(), 36);
    }

    #[test]
    fn a_writer_far_beyond_the_budget_waits_for_room() {
        let budget = Budget::new(80 << 10, Gauge::default());
        assert!(
            budget.has_room(80 << 10) && !budget.has_room(81 << 10),
            "nothing larger than the budget"
        );
        budget.state.lock().is_owner = true;
        budget.add(88 << 10);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| budget.has_room(4096));
            assert!(budget.wait(false, MAX_WAIT));
            budget.used.set(0);
            assert!(budget.wait(false, Duration::ZERO) && waiting.join().unwrap());
        });
        budget.add(88 << 10);
        assert!(budget.wait(true, Duration::ZERO));
        assert!(
            !budget.has_room(4096),
            "nobody waits while the eviction is stuck"
        );
        budget.close();
        assert!(!budget.wait(false, MAX_WAIT));
    }
}
