//! Eviction: counts the disk space of a directory, and removes the least recently used tiles if it exceeds the
//! budget.
//!
//! It runs on its own thread and holds no lock during I/O. To bound memory, a large directory is swept in parts, each a
//! range of first key bytes, one after another. Keys are uniformly distributed, so LRU within a part is close to global
//! LRU. A small directory is a single part. Processes that sweep one directory concurrently choose the same tiles.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::dir::Dir;
use super::error_log::ErrorLog;
use super::folders::{self, Folder, Found, Kind, StoredTile};
use super::home::Home;
use super::space::{Space, Woken};
use super::tally::{PARTS, on_disk};
use super::{Backend, TierError};
use crate::metrics::{Metrics, StoreMetrics};

/// The maximum average number of tiles in a part; exceeded only if [`PARTS`] parts are too few.
const SWEPT_AT_ONCE: u64 = 1 << 16;
/// The interval between recounts, which are needed because of other processes.
const RECOUNT: Duration = Duration::from_secs(600);
/// The pause after a count is at least this many times its duration.
const PAUSE_FACTOR: u32 = 20;
/// The pause after a sweep that could not remove enough.
const STUCK: Duration = Duration::from_secs(30);
/// Temporary files older than this are left over from killed processes.
const LEFT_OVER: Duration = Duration::from_secs(3600);
/// The clocks of machines that share a directory may differ by this much; a date further ahead is wrong.
const AHEAD: Duration = Duration::from_secs(3600);

/// Starts the sweeper thread, which runs until [`Space::stop`].
pub(super) fn start(home: Arc<Home>, kind: Kind, space: Arc<Space>, counts: Counts) -> io::Result<()> {
    let sweeper = Sweeper { home, kind, space, counts, log: ErrorLog::of(Backend::Directory) };
    thread::Builder::new().name("tier-sweeper".to_owned()).spawn(move || sweeper.run()).map(drop)
}

pub(super) struct Sweeper {
    home: Arc<Home>,
    kind: Kind,
    space: Arc<Space>,
    counts: Counts,
    log: ErrorLog,
}

/// What is counted of one kind.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    /// The bytes on disk.
    pub bytes: Gauge,
    evicted: Counter,
    errors: Counter,
}

impl Counts {
    pub fn of(kind: Kind, metrics: &Metrics) -> Self {
        match kind {
            Kind::Tiles => Self {
                bytes: metrics.tier_bytes.clone(),
                evicted: metrics.tier_evicted.clone(),
                errors: metrics.tier.errors.clone(),
            },
            Kind::Blocks => {
                let StoreMetrics { block_bytes, blocks_evicted, block_errors, .. } = metrics.stores.clone();
                Self { bytes: block_bytes, evicted: blocks_evicted, errors: block_errors }
            }
        }
    }
}

/// The cache directory and its folders when a sweep or a count began.
struct Opened {
    root: Dir,
    folders: Vec<Folder>,
}

/// A tile that may be evicted.
struct Candidate {
    /// Index into [`Opened::folders`].
    folder: usize,
    tile: StoredTile,
}

impl Sweeper {
    fn run(&self) {
        let (mut due, mut stuck) = (self.count(), None);
        loop {
            let is_resting = stuck.is_some_and(|since: Instant| since.elapsed() < STUCK);
            if self.space.is_over() && !is_resting {
                let began = Instant::now();
                stuck = (!self.sweep()).then(Instant::now);
                due = next(began);
            }
            let until = stuck.map_or(due, |since| due.min(since + STUCK));
            match self.space.wait(until) {
                Woken::Stopped => return,
                Woken::Recount => due = self.count(),
                Woken::Due if Instant::now() >= due => due = self.count(),
                Woken::Due | Woken::Sweep => {}
            }
        }
    }

    /// Counts everything and removes leftover temporary files; returns when to count again.
    fn count(&self) -> Instant {
        let began = Instant::now();
        let Ok(opened) = self.open() else { return next(began) };
        for byte in 0..=u8::MAX {
            if self.space.is_stopped() {
                break;
            }
            self.count_part(opened.as_ref(), byte, |_, _| {});
        }
        tracing::debug!(
            "cache.directory holds {} bytes in {} tiles",
            self.space.tally.bytes(),
            self.space.tally.tiles()
        );
        next(began)
    }

    /// Removes the least recently used tiles until nine tenths of the budget are in use; false if some could not be
    /// removed.
    fn sweep(&self) -> bool {
        self.sweep_in(parts(self.space.tally.tiles()))
    }

    fn sweep_in(&self, parts: usize) -> bool {
        let (share, width) = (self.space.budget / 10 * 9 / parts as u64, PARTS / parts);
        let Ok(opened) = self.open() else {
            self.space.swept(true);
            return false;
        };
        let mut left = 0;
        for part in 0..parts {
            if self.space.is_stopped() {
                break;
            }
            left += self.sweep_part(opened.as_ref(), part * width..(part + 1) * width, share);
            self.space.swept(left > 0);
        }
        left == 0
    }

    /// Reduces a part to its share of the budget; returns the bytes in excess that could not be removed.
    fn sweep_part(&self, opened: Option<&Opened>, bytes: Range<usize>, share: u64) -> u64 {
        let mut tiles = Vec::new();
        for byte in bytes {
            self.count_part(opened, byte as u8, |folder, tile| tiles.push(Candidate { folder, tile }));
        }
        let held: u64 = tiles.iter().map(|candidate| on_disk(candidate.tile.length)).sum();
        let mut excess = held.saturating_sub(share);
        let latest = SystemTime::now() + AHEAD;
        tiles.sort_unstable_by_key(|Candidate { tile, .. }| (last_used(tile.modified, latest), tile.key));
        for Candidate { folder, tile } in tiles {
            if excess == 0 {
                break;
            }
            let Some(opened) = opened else { break };
            let Some(folder) = opened.folders.get(folder) else { continue };
            if self.remove(&opened.root, folder, &tile) {
                excess = excess.saturating_sub(on_disk(tile.length));
            }
        }
        excess
    }

    /// Removes a tile; returns whether it is gone.
    fn remove(&self, root: &Dir, folder: &Folder, tile: &StoredTile) -> bool {
        let fan = folder.fan(root, tile.key.first());
        let removed = fan.and_then(|fan| match fan {
            Some(fan) => fan.remove(OsStr::new(&folder.file_name(&tile.key))),
            None => Ok(false),
        });
        match removed {
            Ok(true) => {
                self.counts.evicted.inc();
            }
            // Another process has removed it.
            Ok(false) => {}
            Err(error) => {
                self.log_error(&folder.path(self.home.path(), &tile.key), "evicted", &error);
                return false;
            }
        }
        self.space.tally.removed(tile.key.first(), tile.length);
        true
    }

    /// Counts the tiles whose keys begin with `byte`, and calls `visit` with each and the index of its folder. A
    /// directory that is away counts as empty.
    fn count_part(&self, opened: Option<&Opened>, byte: u8, mut visit: impl FnMut(usize, StoredTile)) {
        let counting = self.space.tally.begin(byte);
        let (mut bytes, mut tiles) = (0, 0);
        for (number, found) in opened.iter().flat_map(|opened| self.tiles_in(opened, byte)) {
            bytes += on_disk(found.length);
            tiles += 1;
            visit(number, found);
        }
        self.space.tally.end(counting, bytes, tiles);
    }

    /// The tiles whose keys begin with `byte`, with the index of their folder. Removes leftover temporary files.
    fn tiles_in(&self, opened: &Opened, byte: u8) -> Vec<(usize, StoredTile)> {
        let mut tiles = Vec::new();
        for (number, folder) in opened.folders.iter().enumerate() {
            let path = || folder.fan_path(self.home.path(), byte);
            let listed = folder.fan(&opened.root, byte).and_then(|fan| {
                let Some(fan) = fan else { return Ok(None) };
                Ok(Some((folder.list(&fan, byte)?, fan)))
            });
            let (found, fan) = match listed {
                Ok(Some(listed)) => listed,
                Ok(None) => continue,
                Err(error) => {
                    self.log_error(&path(), "listed", &error);
                    continue;
                }
            };
            for found in found {
                match found {
                    Found::Tile(tile) => tiles.push((number, tile)),
                    Found::Unfinished(name, since) => {
                        if let Err(error) = remove_left_over(&fan, &name, since) {
                            self.log_error(&path().join(&*name), "removed", &error);
                        }
                    }
                    Found::Foreign => {}
                }
            }
        }
        tiles
    }

    /// The directory and its folders; `None` while it is away. Errors are logged here.
    fn open(&self) -> Result<Option<Opened>, ()> {
        let Some(root) = self.home.reading().map_err(|error| self.log(&error))? else { return Ok(None) };
        match folders::all(&root, self.kind) {
            Ok(folders) => Ok(Some(Opened { root, folders })),
            Err(error) => {
                self.log_error(self.home.path(), "listed", &error);
                Err(())
            }
        }
    }

    fn log_error(&self, path: &Path, doing: &'static str, error: &io::Error) {
        self.log(&TierError::system(path, doing, error));
    }

    fn log(&self, error: &TierError) {
        self.counts.errors.inc();
        self.log.log(error);
    }
}

/// When a tile was last used; long ago if its date lies in the future, as reading it would have corrected that.
fn last_used(modified: SystemTime, latest: SystemTime) -> SystemTime {
    if modified > latest { SystemTime::UNIX_EPOCH } else { modified }
}

/// Removes a temporary file unless it is recent enough that it may still be in use.
fn remove_left_over(fan: &Dir, name: &OsStr, since: SystemTime) -> io::Result<()> {
    match since.elapsed() {
        Ok(age) if age > LEFT_OVER => fan.remove(name).map(drop),
        Err(ahead) if ahead.duration() > AHEAD => fan.remove(name).map(drop),
        _ => Ok(()),
    }
}

/// The number of parts to sweep one after another, for a number of tiles: a power of two.
fn parts(tiles: u64) -> usize {
    (tiles.div_ceil(SWEPT_AT_ONCE) as usize).clamp(1, PARTS).next_power_of_two()
}

/// When to count again after a count that began at `began`.
fn next(began: Instant) -> Instant {
    Instant::now() + RECOUNT.max(began.elapsed() * PAUSE_FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::name::Name;
    use crate::base::tile::TileKey;
    use crate::tier::{Directory, TileTier};
    use bytes::Bytes;
    use std::fs;

    const NOW: Duration = Duration::from_secs(1_000_000_000);

    /// A directory of `tiles` tiles, in order of their modification times, and its sweeper.
    fn filled(tiles: u64, budget: u64) -> (tempfile::TempDir, Directory, Sweeper) {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path()).unwrap();
        for number in 0..tiles {
            let (token, key) = (token(number), TileKey::digest(&number));
            directory.put(&token, &key, &Bytes::from(vec![7; 3000])).unwrap();
            set_time(
                &Folder::of(&token, Kind::Tiles).path(place.path(), &key),
                NOW + Duration::from_secs(number),
            );
        }
        let (home, metrics) = (Arc::new(Home::make(place.path()).unwrap()), Metrics::default());
        let space = Arc::new(Space::new(budget, metrics.tier_bytes.clone()));
        let counts = Counts::of(Kind::Tiles, &metrics);
        let log = ErrorLog::of(Backend::Directory);
        (place, directory, Sweeper { home, kind: Kind::Tiles, space, counts, log })
    }

    fn token(number: u64) -> Name {
        Name::new(["a", "b", "c"][number as usize % 3]).unwrap()
    }

    fn set_time(path: &Path, since: Duration) {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + since).unwrap();
    }

    fn left(directory: &Directory, tiles: u64) -> Vec<u64> {
        let has = |number: &u64| directory.has(&token(*number), &TileKey::digest(number)).unwrap();
        (0..tiles).filter(has).collect()
    }

    #[test]
    fn least_recently_used_tiles_are_evicted_until_a_tenth_is_free() {
        let (_place, directory, sweeper) = filled(60, 40 * 4096);
        sweeper.count();
        assert!(sweeper.space.is_over() && sweeper.sweep());
        assert_eq!(left(&directory, 60), (24..60).collect::<Vec<_>>());
        let (counts, tally) = (&sweeper.counts, &sweeper.space.tally);
        assert_eq!((tally.tiles(), tally.bytes(), counts.evicted.get()), (36, 36 * 4096, 24));
        assert_eq!(counts.bytes.get(), 36 * 4096);
        assert!(sweeper.sweep() && counts.evicted.get() == 24, "there is nothing more to do");
    }

    #[test]
    fn a_tile_that_is_read_is_kept_longer() {
        let (_place, directory, sweeper) = filled(60, 40 * 4096);
        directory.get(&token(3), &TileKey::digest(&3_u64)).unwrap().unwrap();
        sweeper.count();
        sweeper.sweep();
        assert_eq!(left(&directory, 60), [3].into_iter().chain(25..60).collect::<Vec<_>>());
    }

    #[test]
    fn tiles_dated_in_the_future_are_evicted_first_and_kept_longer_once_they_are_read() {
        let (place, directory, sweeper) = filled(60, 40 * 4096);
        let future = SystemTime::now() + 24 * AHEAD;
        let since = future.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let path =
            |number| Folder::of(&token(number), Kind::Tiles).path(place.path(), &TileKey::digest(&number));
        (40..60).for_each(|number| set_time(&path(number), since));
        let unfinished = path(50).with_file_name(".voltile-unfinished");
        fs::write(&unfinished, "x").unwrap();
        set_time(&unfinished, since);
        directory.get(&token(45), &TileKey::digest(&45_u64)).unwrap().unwrap();
        sweeper.count();
        sweeper.sweep();
        assert_eq!(left(&directory, 60), (5..40).chain([45]).collect::<Vec<_>>());
        assert!(!unfinished.exists());
    }

    #[test]
    fn sweeping_in_parts_evicts_the_oldest_too() {
        let (_place, directory, sweeper) = filled(600, 300 * 4096);
        sweeper.count();
        assert!(sweeper.sweep_in(4));
        let left = left(&directory, 600);
        assert!(left.len() <= 270 && left.len() > 200, "{}", left.len());
        assert!(left.iter().all(|number| *number > 250), "{left:?}");
    }

    #[test]
    fn old_temporary_files_are_removed_and_other_files_stay() {
        let (place, _directory, sweeper) = filled(1, 1 << 20);
        let beside = Folder::of(&token(0), Kind::Tiles).path(place.path(), &TileKey::digest(&0_u64));
        let [old, young, foreign] = [".voltile-old", ".voltile-young", "notes.txt"].map(|name| {
            fs::write(beside.with_file_name(name), "x").unwrap();
            beside.with_file_name(name)
        });
        set_time(&old, NOW);
        set_time(&foreign, NOW);
        sweeper.count();
        assert_eq!([&old, &young, &foreign, &beside].map(|path| path.exists()), [false, true, true, true]);
        assert_eq!(sweeper.space.tally.tiles(), 1);
    }

    #[test]
    fn few_tiles_are_swept_at_once_and_many_in_parts() {
        let cases = [(0, 1), (65_536, 1), (65_537, 2), (200_000, 4), (10_000_000, 256), (u64::MAX, 256)];
        for (tiles, expected) in cases {
            assert_eq!(parts(tiles), expected, "{tiles}");
            assert_eq!(PARTS % parts(tiles), 0);
        }
    }
}
