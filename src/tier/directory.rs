//! The directory backend: one file per tile, written to a temporary file and renamed.
//!
//! Renames are atomic, so no process ever sees a partial tile, even if a writer is killed. Nothing
//! is synced: the checksum reveals files torn by a power failure. Reading a tile updates the
//! modification time of its file, at most once a minute: eviction goes by this time.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::entry::{self, TRAILER};
use super::eviction::{Budget, Evictor};
use super::folders::{Folder, Kind};
use super::root::Root;
use super::{TierError, TileTier};
use crate::base::name::Name;
use crate::base::tile::TileKey;
use crate::metrics::Metrics;
use crate::store::dir::{Dir, Entry};

/// The modification time of a tile that is read is updated if it is older than this.
const USED_LATELY: Duration = Duration::from_secs(60);
/// Attempts to write a tile whose folder another process keeps removing.
const MAX_TRIES: usize = 5;

/// Tiles in a directory. It grows without limit unless it is [kept to a
/// budget](Directory::kept_to).
#[derive(Debug)]
pub struct Directory {
    pub(super) root: Arc<Root>,
    pub(super) kind: Kind,
    budget: Option<Arc<Budget>>,
}

impl Directory {
    /// Opens a cache directory; an empty or missing directory becomes one, any other is refused.
    pub fn open(path: &Path) -> Result<Self, TierError> {
        Root::make(path).map(Self::new)
    }

    /// Opens an existing cache directory; `None` if it is empty or missing. Writes nothing.
    pub fn open_existing(path: &Path) -> Result<Option<Self>, TierError> {
        Ok(Root::existing(path)?.map(Self::new))
    }

    /// A directory that cannot be opened, for this reason: it has no tiles and takes none until it
    /// is reopened.
    pub fn unavailable(path: &Path, error: &TierError) -> Self {
        Self::new(Root::unavailable(path, error))
    }

    fn new(root: Root) -> Self {
        Self {
            root: Arc::new(root),
            kind: Kind::Tiles,
            budget: None,
        }
    }

    /// The tiles of the directory once more, without a budget. Reopening one reopens all.
    pub fn tiles(&self) -> Self {
        Self {
            root: Arc::clone(&self.root),
            kind: Kind::Tiles,
            budget: None,
        }
    }

    /// Blocks of objects in the directory, instead of tiles.
    pub fn blocks(&self) -> Self {
        Self {
            root: Arc::clone(&self.root),
            kind: Kind::Blocks,
            budget: None,
        }
    }

    /// Limits the disk space to `limit` bytes: starts a thread that evicts the least recently used
    /// tiles, unless another process does. It first counts the existing ones, which may take a
    /// while.
    pub fn kept_to(mut self, limit: u64, metrics: &Metrics) -> io::Result<Self> {
        let (budget, evictor) = Evictor::new(Arc::clone(&self.root), self.kind, limit, metrics);
        evictor.start()?;
        self.budget = Some(budget);
        Ok(self)
    }

    /// Uses the directory that is at the path now, as [`Directory::open`] does; an error is logged.
    pub fn reopen(&self) {
        self.root.reopen();
    }

    /// Opens the fan-out directory of a tile, and the tile's file; `None` if there is none.
    fn find(&self, folder: &Folder, key: &TileKey) -> Result<Option<(Dir, Entry)>, TierError> {
        let root = self
            .root
            .open()
            .map_err(|error| self.clear_if_gone(error))?;
        let found = folder.fan(&root, key.first()).and_then(|fan| {
            let Some(fan) = fan else { return Ok(None) };
            Ok(fan
                .entry(OsStr::new(&folder.file_name(key)))?
                .map(|entry| (fan, entry)))
        });
        found.map_err(|error| self.failed(folder, key, "opened", &error))
    }

    /// A directory that is not used any more counts as empty.
    fn clear_if_gone(&self, error: TierError) -> TierError {
        self.budget
            .iter()
            .filter(|_| error.is_skipped())
            .for_each(|budget| budget.clear());
        error
    }

    fn failed(
        &self,
        folder: &Folder,
        key: &TileKey,
        doing: &'static str,
        error: &io::Error,
    ) -> TierError {
        TierError::system(folder.path_of_tile(self.root.path(), key), doing, error)
    }
}

impl TileTier for Directory {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        let folder = Folder::new(token, self.kind);
        let Some((fan, entry)) = self.find(&folder, key)? else {
            return Ok(None);
        };
        match read(self.kind, key, &entry)
            .map_err(|error| self.failed(&folder, key, "read", &error))?
        {
            Ok(png) => {
                mark_used(&entry);
                Ok(Some(png))
            }
            // Removed, so that the tile is rendered again.
            Err(problem) => match fan.remove(OsStr::new(&folder.file_name(key))) {
                Ok(_) => {
                    let place = folder
                        .path_of_tile(self.root.path(), key)
                        .display()
                        .to_string();
                    Err(TierError::Corrupt { place, problem })
                }
                Err(error) => {
                    Err(self.failed(&folder, key, "removed, though it is damaged", &error))
                }
            },
        }
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        let length = (png.len() + TRAILER) as u64;
        if length > self.kind.max_length() {
            return Ok(());
        }
        if let Some(budget) = self
            .budget
            .as_ref()
            .filter(|budget| !budget.has_room(length))
        {
            return Err(TierError::Full {
                path: self.root.path().to_owned(),
                budget: budget.limit,
            });
        }
        let folder = Folder::new(token, self.kind);
        let root = self
            .root
            .open_marked()
            .map_err(|error| self.clear_if_gone(error))?;
        let write = |_| {
            let fan = folder.fan_or_new(&root, key.first())?;
            fan.write(
                OsStr::new(&folder.file_name(key)),
                &[png, &entry::trailer(key, png)],
            )
        };
        let is_removed = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        let mut tries = (0..MAX_TRIES).map(write);
        let written = tries.find(|written| !written.as_ref().is_err_and(is_removed));
        let Some(written) = written else {
            // If the whole directory was removed, that error is returned.
            self.root.open()?;
            return Err(self.failed(&folder, key, "written", &ErrorKind::NotFound.into()));
        };
        written.map_err(|error| self.failed(&folder, key, "written", &error))?;
        self.budget.iter().for_each(|budget| budget.add(length));
        Ok(())
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        let Some((_, Entry::File(file, length))) =
            self.find(&Folder::new(token, self.kind), key)?
        else {
            return Ok(false);
        };
        let mut end = [0; TRAILER];
        let read = length
            .checked_sub(TRAILER as u64)
            .map(|start| file.read_exact_at(&mut end, start));
        let is_whole = length <= self.kind.max_length() && matches!(read, Some(Ok(())));
        Ok(is_whole && entry::claims(key, &end, length).is_ok())
    }

    fn takes_writes(&self) -> bool {
        self.root.problem().is_none()
    }

    fn problem(&self) -> Option<String> {
        self.root.problem().map(|error| error.to_string())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.budget.iter().for_each(|budget| budget.close());
    }
}

/// The PNG of a tile in a file, or what is wrong with the file.
pub(super) fn read(
    kind: Kind,
    key: &TileKey,
    entry: &Entry,
) -> io::Result<Result<Bytes, &'static str>> {
    let (file, length) = match entry {
        Entry::Other => return Ok(Err("it is not a regular file")),
        Entry::File(_, length) if *length > kind.max_length() => {
            return Ok(Err("it is longer than a tile can be"));
        }
        Entry::File(file, length) => (file, *length),
    };
    let mut bytes = Vec::with_capacity(length as usize + 1);
    // One byte more, to detect a file that grows while it is read.
    file.take(length + 1).read_to_end(&mut bytes)?;
    Ok(entry::opened(key, bytes))
}

/// Updates the modification time of a file unless it is recent. If that fails, the tile is only
/// evicted earlier.
fn mark_used(entry: &Entry) {
    let Entry::File(file, _) = entry else { return };
    let now = SystemTime::now();
    let Ok(time) = file.metadata().and_then(|about| about.modified()) else {
        return;
    };
    let apart = now
        .duration_since(time)
        .unwrap_or_else(|ahead| ahead.duration());
    if apart > USED_LATELY {
        file.set_modified(now).unwrap_or_else(|error| {
            tracing::trace!("modification time of a tile not set: {error}");
        });
    }
}
