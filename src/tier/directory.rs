//! A directory of tiles on a disk: a file for each, written beside its place and renamed into it.
//!
//! A rename is all or nothing, so that no process ever sees a part of a tile, whoever is killed meanwhile. Nothing is
//! synced: what a power failure tears is found by its checksum. Nothing is remembered that another process could make
//! untrue, but for the count of bytes, which is taken anew now and then. A read sets the file's time, though not more
//! often than once a minute: by that eviction knows what is used.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::entry::{self, TRAILER};
use super::space::Space;
use super::{TierError, TileTier, folders, marker, sweeper};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::tile::TileKey;

/// How old the time of a tile that is read may be.
const USED_LATELY: Duration = Duration::from_secs(60);
/// How often a directory is made for a tile before it is given up: somebody may be clearing it away.
const MOST_TRIES: usize = 4;

/// Tiles in a directory. It grows without bounds unless it is [kept to a budget](Directory::kept_to).
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
    space: Option<Arc<Space>>,
}

impl Directory {
    /// Opens a cache directory, or makes one of an empty or missing directory. Any other is refused.
    pub fn open(root: &Path) -> Result<Self, TierError> {
        if marker::look(root)? == marker::Found::Empty {
            marker::make(root)?;
        }
        Ok(Self { root: root.to_owned(), space: None })
    }

    /// Opens a cache directory that is there; `None` where it is empty or missing. Nothing is written.
    pub fn open_existing(root: &Path) -> Result<Option<Self>, TierError> {
        let found = marker::look(root)?;
        Ok((found == marker::Found::Ours).then(|| Self { root: root.to_owned(), space: None }))
    }

    /// The same, kept to so many bytes of the disk by a thread that removes what was used least lately. It counts first
    /// what is there, which may take a while.
    pub fn kept_to(self, budget: u64, metrics: &Metrics) -> io::Result<Self> {
        let space = Arc::new(Space::new(budget, metrics.tier_bytes.clone()));
        sweeper::start(self.root.clone(), Arc::clone(&space), metrics.clone())?;
        Ok(Self { root: self.root.clone(), space: Some(space) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Whatever is wrong with an entry: it goes, so that the tile is made again.
    fn drop_entry(&self, path: PathBuf, key: &TileKey, length: u64, problem: &'static str) -> TierError {
        let removed = fs::remove_file(&path).or_else(|error| match error.kind() {
            ErrorKind::IsADirectory => fs::remove_dir(&path),
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
        match removed {
            Ok(()) => {
                if let Some(space) = &self.space {
                    space.tally.removed(key.first(), length);
                }
                TierError::Corrupt { path, problem }
            }
            Err(error) => TierError::system(path, "removed, though it is damaged", &error),
        }
    }
}

impl TileTier for Directory {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        let path = folders::file(&self.root, token, key);
        let Some((mut file, length)) = opened(&path)? else { return Ok(None) };
        if length > entry::LONGEST {
            return Err(self.drop_entry(path, key, length, "it is longer than a tile can be"));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        match file.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::IsADirectory => {
                return Err(self.drop_entry(path, key, 0, "it is a directory"));
            }
            Err(error) => return Err(TierError::system(path, "read", &error)),
        }
        match entry::opened(key, bytes) {
            Ok(png) => {
                mark_used(&file);
                Ok(Some(png))
            }
            Err(problem) => Err(self.drop_entry(path, key, length, problem)),
        }
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        let path = folders::file(&self.root, token, key);
        let length = (png.len() + TRAILER) as u64;
        if let Some(space) = self.space.as_ref().filter(|space| !space.has_room(length)) {
            return Err(TierError::Full { path: self.root.clone(), budget: space.budget });
        }
        let before = fs::symlink_metadata(&path).ok().map(|about| about.len());
        let mut written = write(&path, key, png);
        for _ in 0..MOST_TRIES {
            if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                let made = path.parent().map_or(Ok(()), fs::create_dir_all);
                written = made.and_then(|()| write(&path, key, png));
            }
        }
        written.map_err(|error| TierError::system(&path, "written", &error))?;
        if let Some(space) = &self.space {
            space.put(key.first(), length, before);
        }
        Ok(())
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        let path = folders::file(&self.root, token, key);
        let Some((file, length)) = opened(&path)? else { return Ok(false) };
        let mut end = [0; TRAILER];
        let read = length.checked_sub(TRAILER as u64).map(|start| file.read_exact_at(&mut end, start));
        Ok(matches!(read, Some(Ok(()))) && entry::claims(key, &end, length).is_ok())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(space) = &self.space {
            space.stop();
        }
    }
}

/// The file of a tile and its length; `None` where there is none.
fn opened(path: &Path) -> Result<Option<(File, u64)>, TierError> {
    // What is no file at all must not keep us waiting.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    match file.and_then(|file| file.metadata().map(|about| (file, about.len()))) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(TierError::system(path, "opened", &error)),
    }
}

fn write(path: &Path, key: &TileKey, png: &[u8]) -> io::Result<()> {
    let mut file = folders::unfinished(path.parent().unwrap_or(path))?;
    file.write_all(png)?;
    file.write_all(&entry::trailer(key, png))?;
    file.persist(path)?;
    Ok(())
}

/// Sets the time of a file, unless it is of this minute. That it cannot be set only has the tile evicted sooner.
fn mark_used(file: &File) {
    let now = SystemTime::now();
    let Ok(time) = file.metadata().and_then(|about| about.modified()) else { return };
    let apart = now.duration_since(time).unwrap_or_else(|ahead| ahead.duration());
    if apart > USED_LATELY {
        file.set_modified(now).unwrap_or_else(|error| tracing::trace!("a tile's time stays: {error}"));
    }
}
