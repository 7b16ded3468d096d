//! The directory backend: one file per tile, written to a temporary file and renamed.
//!
//! Renames are atomic, so no process ever sees a partial tile, even if a writer is killed. Nothing
//! is synced: the checksum reveals files torn by a power failure. Reading a tile updates the
//! modification time of its file, at most once a minute: eviction goes by this time.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_base::tile::TileKey;
use voltile_hdf5::store::whole_file;

use super::entry::{self, TRAILER};
use super::eviction::{Budget, Evictor};
use super::folder::{EntryKind, TokenFolder, unless_missing};
use super::{Backend, TierError, marker};

/// When a tile is read, the modification time of its file is updated if it is older than this.
const UPDATE_AFTER: Duration = Duration::from_secs(60);
/// The maximum number of attempts to write a tile whose folder another process keeps removing.
const MAX_TRIES: usize = 5;

/// Tiles in a directory. It grows without limit unless it is [kept to a
/// budget](Directory::with_budget).
#[derive(Debug)]
pub struct Directory {
    pub(super) path: PathBuf,
    pub(super) kind: EntryKind,
    budget: Option<Arc<Budget>>,
}

impl Directory {
    /// Makes a directory a cache: an empty or missing directory becomes one, any other is refused.
    pub fn make(path: &Path) -> Result<(), TierError> {
        marker::make(path)
    }

    /// The tiles in a directory. While the directory is not a cache, no tile is found or written.
    pub fn tiles(path: &Path) -> Self {
        Self::of(EntryKind::Tile, path)
    }

    /// The blocks of objects in a directory.
    pub fn blocks(path: &Path) -> Self {
        Self::of(EntryKind::Block, path)
    }

    fn of(kind: EntryKind, path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            budget: None,
        }
    }

    /// The tiles in a directory, which is [made](Directory::make) a cache.
    pub fn open(path: &Path) -> Result<Self, TierError> {
        Self::make(path)?;
        Ok(Self::tiles(path))
    }

    /// The tiles in an existing cache directory; none if it is empty or missing. Writes nothing.
    pub fn open_existing(path: &Path) -> Result<Self, TierError> {
        marker::is_cache(path)?;
        Ok(Self::tiles(path))
    }

    /// Limits the disk space to `limit` bytes: starts a thread that evicts the least recently used
    /// tiles, unless another process does. The thread first counts the existing tiles, which may
    /// take a while.
    pub fn with_budget(mut self, limit: u64, metrics: &Metrics) -> io::Result<Self> {
        let evictor = Evictor::new(self.path.clone(), self.kind, limit, metrics);
        self.budget = Some(evictor.start()?);
        Ok(self)
    }

    fn file_of(&self, token: &Name, key: &TileKey) -> PathBuf {
        TokenFolder::new(&self.path, self.kind, token).file(key)
    }

    /// Removes a damaged entry, unless it is gone already.
    pub fn remove(&self, token: &Name, key: &TileKey) -> Result<(), TierError> {
        let path = self.file_of(token, key);
        unless_missing(fs::remove_file(&path))
            .map_err(|error| TierError::system(&path, "removed, though it is damaged", &error))?;
        Ok(())
    }
}

impl Backend for Directory {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        let path = self.file_of(token, key);
        let unreadable = |error| TierError::system(&path, "read", &error);
        let Some(file) = unless_missing(File::open(&path)).map_err(unreadable)? else {
            return Ok(None);
        };
        match read(&file, self.kind, key).map_err(unreadable)? {
            Ok(png) => {
                mark_used(&file);
                Ok(Some(png))
            }
            Err(problem) => {
                // So that the tile is rendered again.
                self.remove(token, key)?;
                let place = path.display().to_string();
                Err(TierError::corrupt(place, problem, Ok(())))
            }
        }
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        let length = (png.len() + TRAILER) as u64;
        if length > self.kind.max_length() {
            return Ok(());
        }
        marker::ensure(&self.path)?;
        if let Some(budget) = &self.budget
            && !budget.has_room(length)
        {
            return Err(TierError::Full {
                path: self.path.clone(),
                budget: budget.limit,
            });
        }
        let folder = TokenFolder::new(&self.path, self.kind, token);
        let path = folder.file(key);
        let parts = [png.as_ref(), &entry::trailer(key, png)];
        let mut written = Ok(());
        for _ in 0..MAX_TRIES {
            written = folder
                .make(key)
                .and_then(|()| whole_file::write(&path, &parts));
            // If another process has removed the folder just now, it is made again.
            if !matches!(&written, Err(error) if error.kind() == ErrorKind::NotFound) {
                break;
            }
        }
        written.map_err(|error| TierError::system(&path, "written", &error))?;
        if let Some(budget) = &self.budget {
            budget.add(length);
        }
        Ok(())
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        let path = self.file_of(token, key);
        let about = unless_missing(fs::metadata(&path))
            .map_err(|error| TierError::system(&path, "read", &error))?;
        Ok(about.is_some_and(|about| about.len() > TRAILER as u64))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.close();
        }
    }
}

/// The PNG of a tile in a file, or the reason why the file is damaged.
pub(super) fn read(
    file: &File,
    kind: EntryKind,
    key: &TileKey,
) -> io::Result<Result<Bytes, &'static str>> {
    let length = file.metadata()?.len();
    if length > kind.max_length() {
        return Ok(Err("it is longer than a tile can be"));
    }
    let mut bytes = Vec::with_capacity(length as usize + 1);
    // One byte more, to detect a file that grows while it is read.
    file.take(length + 1).read_to_end(&mut bytes)?;
    Ok(entry::verify(key, bytes))
}

/// Updates the modification time of a file unless it is recent. If that fails, the tile is evicted
/// too early, which does no harm.
fn mark_used(file: &File) {
    let now = SystemTime::now();
    let Ok(time) = file.metadata().and_then(|about| about.modified()) else {
        return;
    };
    // In either direction: the time may lie in the future.
    let difference = now
        .duration_since(time)
        .unwrap_or_else(|ahead| ahead.duration());
    if difference > UPDATE_AFTER
        && let Err(error) = file.set_modified(now)
    {
        tracing::trace!("modification time of a tile not set: {error}");
    }
}
