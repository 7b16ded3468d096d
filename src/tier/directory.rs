//! The directory backend: one file per tile, written to a temporary file and renamed.
//!
//! Renames are atomic, so no process ever sees a partial tile, even if a writer is killed. Nothing is synced: the
//! checksum reveals files torn by a power failure. No state is kept that another process could invalidate, except the
//! identity of the directory ([`super::home`]) and the byte count, which is refreshed periodically. Reading a tile
//! updates the modification time of its file, at most once a minute: eviction goes by this time.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::FileType;

use super::dir::{Dir, Entry};
use super::entry::{self, TRAILER};
use super::folders::{Folder, Kind};
use super::home::Home;
use super::space::Space;
use super::sweeper::{self, Counts};
use super::{TierError, TileTier};
use crate::base::name::Name;
use crate::base::tile::TileKey;
use crate::metrics::Metrics;

/// The modification time of a tile that is read is updated if it is older than this.
const USED_LATELY: Duration = Duration::from_secs(60);
/// Attempts to write a tile whose folder another process keeps removing.
const MAX_TRIES: usize = 5;

/// Tiles in a directory. It grows without limit unless it is [kept to a budget](Directory::kept_to).
#[derive(Debug)]
pub struct Directory {
    home: Arc<Home>,
    kind: Kind,
    space: Option<Arc<Space>>,
    /// The value of [`Home::changes`] when a recount was last requested.
    changes: AtomicU64,
}

impl Directory {
    /// Opens a cache directory; an empty or missing directory becomes one, any other is refused.
    pub fn open(root: &Path) -> Result<Self, TierError> {
        Home::make(root).map(Self::new)
    }

    /// Opens an existing cache directory; `None` if it is empty or missing. Writes nothing.
    pub fn open_existing(root: &Path) -> Result<Option<Self>, TierError> {
        Ok(Home::existing(root)?.map(Self::new))
    }

    fn new(home: Home) -> Self {
        Self { home: Arc::new(home), kind: Kind::Tiles, space: None, changes: AtomicU64::new(0) }
    }

    /// Limits the disk space to `budget` bytes: starts a thread that evicts the least recently used tiles. It first
    /// counts the existing ones, which may take a while.
    pub fn kept_to(self, budget: u64, metrics: &Metrics) -> io::Result<Self> {
        let counts = Counts::of(self.kind, metrics);
        let space = Arc::new(Space::new(budget, counts.bytes.clone()));
        sweeper::start(Arc::clone(&self.home), self.kind, Arc::clone(&space), counts)?;
        let (home, kind) = (Arc::clone(&self.home), self.kind);
        Ok(Self { home, kind, space: Some(space), changes: AtomicU64::new(0) })
    }

    /// The same directory, for blocks of objects instead of tiles.
    pub fn of_blocks(self) -> Self {
        Self { home: Arc::clone(&self.home), kind: Kind::Blocks, space: None, changes: AtomicU64::new(0) }
    }

    /// What it keeps.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The configured path.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// Opens the directory for reading; `None` while it is away.
    pub(super) fn reading(&self) -> Result<Option<Dir>, TierError> {
        let opened = self.home.reading();
        self.note_changes();
        opened
    }

    fn writing(&self) -> Result<Dir, TierError> {
        let opened = self.home.writing();
        self.note_changes();
        opened
    }

    /// Requests a recount if the directory disappeared, came back, or was emptied.
    fn note_changes(&self) {
        let changes = self.home.changes();
        if self.changes.swap(changes, Ordering::Relaxed) != changes
            && let Some(space) = &self.space
        {
            space.recount();
        }
    }

    /// Opens a tile's file; `None` if there is none.
    fn found<'a>(&'a self, token: &Name, key: &'a TileKey) -> Result<Option<Stored<'a>>, TierError> {
        let folder = Folder::of(token, self.kind);
        let failed = |error: io::Error| TierError::system(folder.path(self.path(), key), "opened", &error);
        let Some(root) = self.reading()? else { return Ok(None) };
        let Some(fan) = folder.fan(&root, key.first()).map_err(failed)? else { return Ok(None) };
        let name = folder.file_name(key);
        let Some(entry) = fan.open(OsStr::new(&name)).map_err(failed)? else { return Ok(None) };
        Ok(Some(Stored { directory: self, key, folder, fan, entry }))
    }

    /// Writes a tile's file; returns the length of the file that it replaced.
    fn write(&self, folder: &Folder, key: &TileKey, png: &[u8]) -> Result<Option<u64>, TierError> {
        let failed = |error: io::Error| TierError::system(folder.path(self.path(), key), "written", &error);
        let root = self.writing()?;
        let mut written = write_below(&root, folder, key, png);
        for _ in 1..MAX_TRIES {
            if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                written = write_below(&root, folder, key, png);
            }
        }
        if let Err(error) = &written
            && error.kind() == ErrorKind::NotFound
        {
            // If the whole directory was removed, return that error instead.
            self.writing()?;
        }
        let before = written.map_err(failed)?;
        // The directory may have been emptied just before: a tile without a marker would make it a foreign directory.
        self.home.see_to_marker(&root)?;
        Ok(before)
    }
}

impl TileTier for Directory {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        self.found(token, key)?.map(Stored::read).transpose()
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        let length = (png.len() + TRAILER) as u64;
        if length > self.kind.longest() {
            return Ok(());
        }
        if let Some(space) = self.space.as_ref().filter(|space| !space.has_room(length)) {
            return Err(TierError::Full { path: self.path().to_owned(), budget: space.budget });
        }
        let before = self.write(&Folder::of(token, self.kind), key, png)?;
        if let Some(space) = &self.space {
            space.put(key.first(), length, before);
        }
        Ok(())
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        let Some(Stored { entry: Entry::File(file, length), .. }) = self.found(token, key)? else {
            return Ok(false);
        };
        let mut end = [0; TRAILER];
        let read = length.checked_sub(TRAILER as u64).map(|start| file.read_exact_at(&mut end, start));
        let is_whole = length <= self.kind.longest() && matches!(read, Some(Ok(())));
        Ok(is_whole && entry::claims(key, &end, length).is_ok())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(space) = &self.space {
            space.stop();
        }
    }
}

/// The directory entry of a tile.
struct Stored<'a> {
    directory: &'a Directory,
    key: &'a TileKey,
    folder: Folder,
    fan: Dir,
    entry: Entry,
}

impl Stored<'_> {
    fn read(self) -> Result<Bytes, TierError> {
        let (file, length) = match &self.entry {
            Entry::Other => return Err(self.dropped(None, "it is not a regular file")),
            Entry::File(_, length) if *length > self.directory.kind.longest() => {
                return Err(self.dropped(None, "it is longer than a tile can be"));
            }
            Entry::File(file, length) => (file, *length),
        };
        let mut bytes = Vec::with_capacity(length as usize + 1);
        // One byte more, to detect a file that grows while it is read.
        file.take(length + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| TierError::system(self.path(), "read", &error))?;
        match entry::opened(self.key, bytes) {
            Ok(png) => {
                mark_used(file);
                Ok(png)
            }
            Err(problem) => Err(self.dropped(Some(length), problem)),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path(self.directory.path(), self.key)
    }

    /// Removes a damaged entry, so that the tile is rendered again. `counted` is the length with which it was
    /// counted, if it was.
    fn dropped(&self, counted: Option<u64>, problem: &'static str) -> TierError {
        let path = self.path();
        if let Err(error) = self.fan.remove(OsStr::new(&self.folder.file_name(self.key))) {
            return TierError::system(path, "removed, though it is damaged", &error);
        }
        if let (Some(space), Some(length)) = (&self.directory.space, counted) {
            space.tally.removed(self.key.first(), length);
        }
        TierError::Corrupt { place: path.display().to_string(), problem }
    }
}

/// Writes a tile's file, creating missing folders; returns the length of the file that it replaced.
fn write_below(root: &Dir, folder: &Folder, key: &TileKey, png: &[u8]) -> io::Result<Option<u64>> {
    let fan = folder.fan_made(root, key.first())?;
    let name = folder.file_name(key);
    let before = fan.about(OsStr::new(&name))?;
    let mut file = fan.unfinished()?;
    file.write_all(png)?;
    file.write_all(&entry::trailer(key, png))?;
    file.persist(OsStr::new(&name))?;
    let was_counted =
        before.filter(|it| it.kind == FileType::RegularFile && it.length <= folder.kind().longest());
    Ok(was_counted.map(|about| about.length))
}

/// Updates the modification time of a file unless it is recent. If that fails, the tile is only evicted earlier.
fn mark_used(file: &File) {
    let now = SystemTime::now();
    let Ok(time) = file.metadata().and_then(|about| about.modified()) else { return };
    let apart = now.duration_since(time).unwrap_or_else(|ahead| ahead.duration());
    if apart > USED_LATELY {
        file.set_modified(now)
            .unwrap_or_else(|error| tracing::trace!("modification time of a tile not set: {error}"));
    }
}
