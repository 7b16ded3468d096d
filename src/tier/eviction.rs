//! Eviction: counts the disk space of a directory, and removes the least recently used files if it
//! exceeds the budget.
//!
//! Any process may add and read files. Only the process that holds the lease counts and evicts, on
//! a thread of its own and without a lock during I/O; the other processes try to get the lease once
//! a minute.
//!
//! A writer that exceeds the budget requests an eviction and continues; only if the budget is
//! exceeded by more than an eighth does it wait for the eviction. It can afford to: no request
//! waits for it.

use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::error_log::ErrorLog;
use super::folders::{self, Folder, Found, Kind};
use super::root::Root;
use super::{Backend, TierError};
use crate::base::tile::TileKey;
use crate::flow::lock;
use crate::metrics::{Metrics, StoreMetrics};
use crate::store::dir::{Dir, HIDDEN};

/// The block size of nearly all file systems.
const BLOCK: u64 = 4096;
/// The maximum number of files that one walk through the directory evicts: it bounds memory.
const MAX_EVICTED: usize = 1 << 18;
/// The interval between counts, which are needed because of other processes.
const RECOUNT: Duration = Duration::from_secs(60);
/// The pause after a count is at least this many times its duration.
const PAUSE_FACTOR: u32 = 20;
/// The pause after an eviction that could not remove enough.
const STUCK: Duration = Duration::from_secs(30);
/// The longest time that a writer waits for an eviction.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Temporary files older than this are left over from killed processes. In seconds.
const LEFT_OVER: u64 = 3600;
/// The clocks of machines that share a directory may differ by so many seconds; a date further
/// ahead is wrong.
const AHEAD: u64 = 3600;

/// The disk space of a file of that length, in bytes.
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
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether this process holds the lease.
    is_owner: bool,
    /// A count was requested, and an eviction if the budget is exceeded.
    is_requested: bool,
    /// The last eviction could not remove enough.
    is_stuck: bool,
    is_closed: bool,
}

impl Budget {
    pub fn new(limit: u64, used: Gauge) -> Self {
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

    /// Whether there is room for a file of that length; may wait for an eviction.
    pub fn has_room(&self, length: u64) -> bool {
        let fits = || self.used() + on_disk(length) <= self.limit + self.limit / 8;
        if on_disk(length) > self.limit || fits() {
            return on_disk(length) <= self.limit;
        }
        self.request();
        let is_waiting = |state: &mut State| !fits() && !state.is_stuck && !state.is_closed;
        drop(
            self.changed
                .wait_timeout_while(lock(&self.state), MAX_WAIT, is_waiting),
        );
        fits()
    }

    /// Counts a file that was written; requests an eviction if the budget is exceeded.
    pub fn add(&self, length: u64) {
        if lock(&self.state).is_owner {
            self.used.inc_by(on_disk(length) as i64);
            if self.used() > self.limit {
                self.request();
            }
        }
    }

    /// Counts nothing as in use.
    pub fn clear(&self) {
        self.used.set(0);
    }

    /// Requests a count, and an eviction if the budget is exceeded.
    fn request(&self) {
        lock(&self.state).is_requested = true;
        self.changed.notify_all();
    }

    /// Ends the thread that evicts.
    pub fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }

    /// Wakes the writers that wait, and waits for a request: until the pause is over at most, and
    /// until then if the eviction is stuck. Returns whether the thread is to go on.
    fn wait(&self, is_stuck: bool, pause: Duration) -> bool {
        let mut state = lock(&self.state);
        state.is_stuck = is_stuck;
        state.is_requested = self.used() > self.limit;
        self.changed.notify_all();
        let is_idle = |state: &mut State| !state.is_closed && (is_stuck || !state.is_requested);
        let woken = self.changed.wait_timeout_while(state, pause, is_idle);
        !woken.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }
}

/// Held by the process that counts and evicts, for one kind of files: a lock (`flock`) on a file in
/// the directory.
///
/// The system frees the lock when its process ends, however it ends, also on another machine that
/// shares the directory by NFS. A file with a time in it would have to be renewed, and to be judged
/// by the clocks of several machines. It does no harm if two processes hold the lease, because any
/// process may remove any file at any time: both would choose the files used least recently. So
/// where files cannot be locked, or only among the processes of one machine, as on some Lustre file
/// systems, more processes than one evict: better than none.
struct Lease {
    _locked: Option<File>,
}

impl Lease {
    /// Takes the lease; `None` if another process holds it.
    fn take(root: &Dir, kind: Kind) -> Option<Self> {
        let name = format!("{HIDDEN}{}.lease", kind.folder());
        let file = root.lock_file(OsStr::new(&name));
        match file.and_then(|file| file.try_lock().map(|()| file).map_err(io::Error::from)) {
            Ok(file) => Some(Self {
                _locked: Some(file),
            }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => {
                tracing::debug!("cache.directory: {name} cannot be locked: {error}");
                Some(Self { _locked: None })
            }
        }
    }
}

/// The thread that counts and evicts.
pub(super) struct Evictor {
    root: Arc<Root>,
    kind: Kind,
    budget: Arc<Budget>,
    evicted: Counter,
    errors: Counter,
    log: ErrorLog,
}

/// A file that may be evicted; those used longest ago are the smallest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// In seconds since 1970.
    last_used: u64,
    key: TileKey,
    /// Index among the folders.
    folder: usize,
    length: u64,
}

impl Evictor {
    pub fn new(root: Arc<Root>, kind: Kind, limit: u64, metrics: &Metrics) -> (Arc<Budget>, Self) {
        let (used, evicted, errors) = match kind {
            Kind::Tiles => (
                &metrics.tier_bytes,
                &metrics.tier_evicted,
                &metrics.tier.errors,
            ),
            Kind::Blocks => {
                let StoreMetrics {
                    block_bytes,
                    blocks_evicted,
                    block_errors,
                    ..
                } = &metrics.stores;
                (block_bytes, blocks_evicted, block_errors)
            }
        };
        let budget = Arc::new(Budget::new(limit, used.clone()));
        let (evicted, errors, log) = (
            evicted.clone(),
            errors.clone(),
            ErrorLog::new(Backend::Directory),
        );
        (
            Arc::clone(&budget),
            Self {
                root,
                kind,
                budget,
                evicted,
                errors,
                log,
            },
        )
    }

    /// Starts the thread, which runs until the budget is closed.
    pub fn start(self) -> io::Result<()> {
        let work = move || {
            let mut lease = None;
            loop {
                let began = Instant::now();
                let is_done = self.work(&mut lease);
                let pause = if is_done {
                    RECOUNT.max(began.elapsed() * PAUSE_FACTOR)
                } else {
                    STUCK
                };
                if !self.budget.wait(!is_done, pause) {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("evictor".to_owned())
            .spawn(work)
            .map(drop)
    }

    /// Counts, and evicts if the budget is exceeded, if this process gets the lease; returns
    /// whether it did what was to do.
    fn work(&self, lease: &mut Option<Lease>) -> bool {
        // Taken again each time, from the directory that is there now: its file may have been
        // removed.
        *lease = None;
        let root = self.root.open();
        *lease = root
            .as_ref()
            .ok()
            .and_then(|root| Lease::take(root, self.kind));
        lock(&self.budget.state).is_owner = lease.is_some();
        match root {
            Ok(root) if lease.is_some() => self.keep_to_budget(&root),
            Ok(_) | Err(TierError::Unavailable { .. }) => {
                self.budget.clear();
                true
            }
            Err(error) => {
                self.note(&error);
                true
            }
        }
    }

    /// Counts, and removes the files used least recently until nine tenths of the budget are in
    /// use, if it is exceeded. Returns false if some could not be removed.
    fn keep_to_budget(&self, root: &Dir) -> bool {
        loop {
            let folders = match folders::all(root, self.kind) {
                Ok(folders) => folders,
                Err(error) => {
                    self.note(&TierError::system(self.root.path(), "listed", &error));
                    return false;
                }
            };
            let oldest = self.count(root, &folders);
            if self.budget.used() <= self.budget.limit {
                return true;
            }
            let mut removed = 0;
            for Candidate {
                folder,
                key,
                length,
                ..
            } in oldest.into_sorted_vec()
            {
                if self.budget.used() <= self.budget.limit / 10 * 9 {
                    return true;
                }
                if self.remove(root, &folders[folder], &key) {
                    self.budget.used.dec_by(on_disk(length) as i64);
                    removed += 1;
                }
            }
            if removed == 0 {
                return false;
            }
        }
    }

    /// Counts all files, and removes temporary files that are left over. Returns the files used
    /// longest ago.
    fn count(&self, root: &Dir, folders: &[Folder]) -> BinaryHeap<Candidate> {
        let before = self.budget.used.get();
        let now = SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_secs();
        let (mut used, mut oldest) = (0, BinaryHeap::new());
        for (number, folder) in folders.iter().enumerate() {
            let visited = folder.visit(root, self.root.path(), |found| {
                match found {
                    Ok((_, Found::Tile(tile))) => {
                        used += on_disk(tile.length);
                        // Reading a file would have corrected a date in the future.
                        let last_used = if tile.modified > now + AHEAD {
                            0
                        } else {
                            tile.modified
                        };
                        let (key, length) = (tile.key, tile.length);
                        oldest.push(Candidate {
                            last_used,
                            key,
                            folder: number,
                            length,
                        });
                        if oldest.len() > MAX_EVICTED {
                            oldest.pop();
                        }
                    }
                    Ok((fan, Found::Unfinished(name, since))) => {
                        if (since + LEFT_OVER < now || since > now + AHEAD)
                            && let Err(error) = fan.remove(&name)
                        {
                            self.note_failed(
                                &folder.path(self.root.path()).join(&*name),
                                "removed",
                                &error,
                            );
                        }
                    }
                    Ok((_, Found::Foreign)) => {}
                    Err(error) => self.note(&error),
                }
                Ok(())
            });
            visited.unwrap_or_else(|error| self.note(&error));
        }
        // What was written meanwhile is added; if it was also found, it counts twice until the next
        // count.
        self.budget.used.inc_by(used as i64 - before);
        oldest
    }

    /// Removes a file; returns whether it is gone.
    fn remove(&self, root: &Dir, folder: &Folder, key: &TileKey) -> bool {
        match folder.remove(root, key) {
            Ok(was_there) => {
                self.evicted.inc_by(u64::from(was_there));
                true
            }
            Err(error) => {
                self.note_failed(
                    &folder.path_of_tile(self.root.path(), key),
                    "evicted",
                    &error,
                );
                false
            }
        }
    }

    fn note_failed(&self, path: &Path, doing: &'static str, error: &io::Error) {
        self.note(&TierError::system(path, doing, error));
    }

    fn note(&self, error: &TierError) {
        self.errors.inc();
        self.log.log(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::name::Name;
    use crate::tier::{Directory, TileTier};
    use bytes::Bytes;
    use std::fs;
    use std::path::PathBuf;

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
        let root = Arc::new(Root::make(place.path()).unwrap());
        Evictor::new(root, Kind::Tiles, limit, &Metrics::default()).1
    }

    fn token(number: u64) -> Name {
        Name::new(["a", "b", "c"][number as usize % 3]).unwrap()
    }

    fn path(place: &tempfile::TempDir, number: u64) -> PathBuf {
        Folder::new(&token(number), Kind::Tiles)
            .path_of_tile(place.path(), &TileKey::digest(&number))
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
        let future = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 24 * AHEAD;
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
    fn only_the_process_with_the_lease_counts_and_evicts() {
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
    fn where_the_lease_cannot_be_locked_tiles_are_evicted_all_the_same() {
        let (place, directory, evictor) = filled(60, 40 * 4096);
        fs::create_dir(place.path().join(".voltile-tiles.lease")).unwrap();
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
        lock(&budget.state).is_owner = true;
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
