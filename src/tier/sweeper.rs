//! Counts what a directory holds, and removes what was used least lately where that is too much.
//!
//! On a thread of its own, and without a lock that reading or writing takes. Keys are spread evenly, so that what is
//! oldest of a part is nearly what is oldest of all: parts are swept one after the other, and memory holds the tiles of one
//! of them. A directory of few tiles is one part. Processes that sweep one directory at once choose the same tiles.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::TierError;
use super::dir::Dir;
use super::error_log::ErrorLog;
use super::folders::{self, Folder, Found, StoredTile, file_name};
use super::home::Home;
use super::space::{Space, Woken};
use super::tally::{PARTS, on_disk};
use crate::metrics::Metrics;

/// How many tiles a part should hold at most, where that can be had.
const SWEPT_AT_ONCE: u64 = 1 << 16;
/// How often all is counted anew, because of other processes; and how many times longer than counting that is at least.
const RECOUNT: Duration = Duration::from_secs(600);
const REST: u32 = 20;
/// How long nothing is swept after a sweep that did not help.
const STUCK: Duration = Duration::from_secs(30);
/// How old a file is that nobody can still be writing.
const LEFT_OVER: Duration = Duration::from_secs(3600);

/// Starts to keep a directory to its budget, until the space is stopped.
pub(super) fn start(home: Arc<Home>, space: Arc<Space>, metrics: Metrics) -> io::Result<()> {
    let sweeper = Sweeper { home, space, metrics, log: ErrorLog::default() };
    thread::Builder::new().name("tier-sweeper".to_owned()).spawn(move || sweeper.run()).map(drop)
}

pub(super) struct Sweeper {
    home: Arc<Home>,
    space: Arc<Space>,
    metrics: Metrics,
    log: ErrorLog,
}

/// The cache directory and the folders that it had when a sweep began.
struct Opened {
    root: Dir,
    folders: Vec<Folder>,
}

/// A tile of a part, and in whose folder it is.
struct Candidate {
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
                Woken::Due | Woken::Rung => {}
            }
        }
    }

    /// Counts everything, and removes what killed processes left; answers when to count again.
    fn count(&self) -> Instant {
        let began = Instant::now();
        let Ok(opened) = self.open() else { return next(began) };
        for byte in 0..=u8::MAX {
            if self.space.is_stopped() {
                break;
            }
            self.counted(opened.as_ref(), byte, |_, _| {});
        }
        tracing::debug!(
            "cache.directory holds {} bytes in {} tiles",
            self.space.tally.bytes(),
            self.space.tally.tiles()
        );
        next(began)
    }

    /// Removes the tiles used least lately, until nine tenths of the budget are left; whether all could be removed that
    /// was to be. What is written meanwhile may be too much again.
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

    /// Brings a part to its share; answers how many bytes beyond that could not be removed.
    fn sweep_part(&self, opened: Option<&Opened>, bytes: Range<usize>, share: u64) -> u64 {
        let mut tiles = Vec::new();
        for byte in bytes {
            self.counted(opened, byte as u8, |folder, tile| tiles.push(Candidate { folder, tile }));
        }
        let held: u64 = tiles.iter().map(|candidate| on_disk(candidate.tile.length)).sum();
        let mut excess = held.saturating_sub(share);
        tiles.sort_unstable_by_key(|Candidate { tile, .. }| (tile.modified, tile.key));
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

    /// Removes a tile; whether it is gone.
    fn remove(&self, root: &Dir, folder: &Folder, tile: &StoredTile) -> bool {
        let fan = folder.fan(root, tile.key.first());
        let removed = fan.and_then(|fan| match fan {
            Some(fan) => fan.remove(OsStr::new(&file_name(&tile.key))),
            None => Ok(false),
        });
        match removed {
            Ok(true) => {
                self.metrics.tier_evicted.inc();
            }
            // Another process was quicker.
            Ok(false) => {}
            Err(error) => {
                self.log_error(&folder.path(self.home.path(), &tile.key), "evicted", &error);
                return false;
            }
        }
        self.space.tally.removed(tile.key.first(), tile.length);
        true
    }

    /// Counts a part, and lends every tile of it with the number of its folder. A directory that is away holds nothing.
    fn counted(&self, opened: Option<&Opened>, byte: u8, mut lend: impl FnMut(usize, StoredTile)) {
        let counting = self.space.tally.begin(byte);
        let (mut bytes, mut tiles) = (0, 0);
        for (number, found) in opened.iter().flat_map(|opened| self.found(opened, byte)) {
            bytes += on_disk(found.length);
            tiles += 1;
            lend(number, found);
        }
        self.space.tally.end(counting, bytes, tiles);
    }

    /// The tiles of a part. What killed processes left there is removed.
    fn found(&self, opened: &Opened, byte: u8) -> Vec<(usize, StoredTile)> {
        let mut tiles = Vec::new();
        for (number, folder) in opened.folders.iter().enumerate() {
            let path = || folder.fan_path(self.home.path(), byte);
            let listed = folder.fan(&opened.root, byte).and_then(|fan| {
                let Some(fan) = fan else { return Ok(None) };
                Ok(Some((folders::list(&fan, byte)?, fan)))
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

    /// The directory and its folders; `None` while it is away. An error was logged.
    fn open(&self) -> Result<Option<Opened>, ()> {
        let Some(root) = self.home.reading().map_err(|error| self.log(&error))? else { return Ok(None) };
        match folders::all(&root) {
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
        self.metrics.tier_errors.inc();
        self.log.log(error);
    }
}

/// Removes a file that was being written, unless somebody may still be at it.
fn remove_left_over(fan: &Dir, name: &OsStr, since: SystemTime) -> io::Result<()> {
    match since.elapsed() {
        Ok(age) if age > LEFT_OVER => fan.remove(name).map(drop),
        _ => Ok(()),
    }
}

/// How many parts to sweep one after the other: a power of two.
fn parts(tiles: u64) -> usize {
    (tiles.div_ceil(SWEPT_AT_ONCE) as usize).clamp(1, PARTS).next_power_of_two()
}

/// When to count again after having counted since then.
fn next(began: Instant) -> Instant {
    Instant::now() + RECOUNT.max(began.elapsed() * REST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::tier::{Directory, TileTier};
    use crate::tile::TileKey;
    use bytes::Bytes;
    use std::fs;

    const NOW: Duration = Duration::from_secs(1_000_000_000);

    /// A directory of so many tiles, the first of which were used least lately, and who sweeps it.
    fn filled(tiles: u64, budget: u64) -> (tempfile::TempDir, Directory, Sweeper) {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path()).unwrap();
        for number in 0..tiles {
            let (token, key) = (token(number), TileKey::of(&number));
            directory.put(&token, &key, &Bytes::from(vec![7; 3000])).unwrap();
            set_time(&Folder::of(&token).path(place.path(), &key), NOW + Duration::from_secs(number));
        }
        let (home, metrics) = (Arc::new(Home::make(place.path()).unwrap()), Metrics::default());
        let space = Arc::new(Space::new(budget, metrics.tier_bytes.clone()));
        (place, directory, Sweeper { home, space, metrics, log: ErrorLog::default() })
    }

    fn token(number: u64) -> Name {
        Name::new(["a", "b", "c"][number as usize % 3]).unwrap()
    }

    fn set_time(path: &Path, since: Duration) {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + since).unwrap();
    }

    fn left(directory: &Directory, tiles: u64) -> Vec<u64> {
        let has = |number: &u64| directory.has(&token(*number), &TileKey::of(number)).unwrap();
        (0..tiles).filter(has).collect()
    }

    #[test]
    fn what_was_used_least_lately_goes_until_a_tenth_is_free() {
        let (_place, directory, sweeper) = filled(60, 40 * 4096);
        sweeper.count();
        assert!(sweeper.space.is_over() && sweeper.sweep());
        assert_eq!(left(&directory, 60), (24..60).collect::<Vec<_>>());
        let (metrics, tally) = (&sweeper.metrics, &sweeper.space.tally);
        assert_eq!((tally.tiles(), tally.bytes(), metrics.tier_evicted.get()), (36, 36 * 4096, 24));
        assert_eq!(metrics.tier_bytes.get(), 36 * 4096);
        assert!(sweeper.sweep() && metrics.tier_evicted.get() == 24, "there is nothing more to do");
    }

    #[test]
    fn a_tile_that_is_read_is_kept_longer() {
        let (_place, directory, sweeper) = filled(60, 40 * 4096);
        directory.get(&token(3), &TileKey::of(&3_u64)).unwrap().unwrap();
        sweeper.count();
        sweeper.sweep();
        assert_eq!(left(&directory, 60), [3].into_iter().chain(25..60).collect::<Vec<_>>());
    }

    #[test]
    fn swept_in_parts_what_is_oldest_goes_all_the_same() {
        let (_place, directory, sweeper) = filled(600, 300 * 4096);
        sweeper.count();
        assert!(sweeper.sweep_in(4));
        let left = left(&directory, 600);
        assert!(left.len() <= 270 && left.len() > 200, "{}", left.len());
        assert!(left.iter().all(|number| *number > 250), "{left:?}");
    }

    #[test]
    fn what_killed_processes_left_is_removed_once_it_is_old_and_other_files_stay() {
        let (place, _directory, sweeper) = filled(1, 1 << 20);
        let beside = Folder::of(&token(0)).path(place.path(), &TileKey::of(&0_u64));
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
