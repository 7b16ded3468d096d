//! The identity of the cache directory: detects that it disappeared or was replaced, and that it came back.
//!
//! A removed directory is not recreated, and nothing is written below an unmounted mount point: until the directory
//! is back, tiles are served without it. It is the same directory if device and inode are equal, or if its marker has
//! the same id: after a remount, the device number may differ. If it was emptied, the marker is written again before
//! anything else.
//!
//! It is opened for each operation and not kept open, so that it can be unmounted.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::TierError;
use super::dir::{Dir, Identity};
use super::marker::{self, Found, Id};

const OTHER_CONTENT: &str = "has lost its marker and contains other files";
const GONE: &str = "no longer exists";

/// A path, and the directory expected there.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    state: Mutex<State>,
    /// Incremented when the directory disappears, comes back or is emptied, which invalidates counts.
    changes: AtomicU64,
}

#[derive(Debug, Clone)]
struct State {
    identity: Identity,
    id: Option<Id>,
    is_away: bool,
}

impl Home {
    /// The directory at a path; created if it is missing, and marked as a cache if it is empty.
    pub fn make(path: &Path) -> Result<Self, TierError> {
        let dir = marker::opened_or_made(path)?;
        let id = match marker::look(&dir, path)? {
            Found::Ours(id) => id,
            Found::Unmarked => marker::make(&dir, path, None)?,
        };
        Self::new(path, &dir, id)
    }

    /// The existing cache at a path; `None` if there is none. Writes nothing.
    pub fn existing(path: &Path) -> Result<Option<Self>, TierError> {
        let Some(dir) = marker::opened(path)? else { return Ok(None) };
        match marker::look(&dir, path)? {
            Found::Ours(id) => Self::new(path, &dir, id).map(Some),
            Found::Unmarked => Ok(None),
        }
    }

    fn new(path: &Path, dir: &Dir, id: Option<Id>) -> Result<Self, TierError> {
        let identity = dir.identity().map_err(|error| TierError::system(path, "opened", &error))?;
        let state = Mutex::new(State { identity, id, is_away: false });
        Ok(Self { path: path.to_owned(), state, changes: AtomicU64::new(0) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How often the directory has disappeared, come back or been emptied.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Opens the directory for reading or removing; `None` while it is away.
    pub fn reading(&self) -> Result<Option<Dir>, TierError> {
        match self.open() {
            Err(TierError::Away { .. }) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Opens the directory for writing, with its marker in place.
    pub fn writing(&self) -> Result<Dir, TierError> {
        let dir = self.open()?;
        self.see_to_marker(&dir)?;
        Ok(dir)
    }

    /// Writes the marker again if it is missing and the directory contains nothing foreign.
    pub fn see_to_marker(&self, dir: &Dir) -> Result<(), TierError> {
        let is_there = marker::is_there(dir);
        if is_there.map_err(|error| TierError::system(&self.path, "read", &error))? {
            return Ok(());
        }
        match marker::look(dir, &self.path) {
            Ok(Found::Ours(_)) => Ok(()),
            Ok(Found::Unmarked) => self.mark_again(dir),
            Err(error) if error.is_misnamed() => Err(self.away(OTHER_CONTENT)),
            Err(error) => Err(error),
        }
    }

    fn mark_again(&self, dir: &Dir) -> Result<(), TierError> {
        let id = self.lock().id.clone();
        match marker::make(dir, &self.path, id) {
            Ok(id) => {
                self.lock().id = id;
                self.changes.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("cache.directory: {} was emptied and is used again", self.path.display());
                Ok(())
            }
            // The directory was removed after it was opened.
            Err(_) if Dir::at(&self.path).is_err_and(|error| is_absence(&error)) => Err(self.away(GONE)),
            Err(error) => Err(error),
        }
    }

    fn open(&self) -> Result<Dir, TierError> {
        let dir = match Dir::at(&self.path) {
            Ok(dir) => dir,
            Err(error) if is_absence(&error) => return Err(self.away(GONE)),
            Err(error) => return Err(TierError::system(&self.path, "opened", &error)),
        };
        let identity = dir.identity().map_err(|error| TierError::system(&self.path, "opened", &error))?;
        let (known, is_away) = {
            let state = self.lock();
            (state.identity, state.is_away)
        };
        match identity == known {
            true if !is_away => {}
            true if self.is_usable(&dir) => self.back(identity),
            true => return Err(self.away(OTHER_CONTENT)),
            false if self.has_our_id(&dir) => self.back(identity),
            false => return Err(self.away("is a different directory now")),
        }
        Ok(dir)
    }

    /// Whether the directory, of known identity, is usable: it may be empty, but not contain foreign files.
    fn is_usable(&self, dir: &Dir) -> bool {
        marker::look(dir, &self.path).is_ok()
    }

    /// Whether a directory with another device or inode is the expected one.
    fn has_our_id(&self, dir: &Dir) -> bool {
        let id = self.lock().id.clone();
        id.is_some() && marker::look(dir, &self.path).is_ok_and(|found| found == Found::Ours(id))
    }

    /// Records that the directory is away, and logs it the first time.
    fn away(&self, why: &'static str) -> TierError {
        if !std::mem::replace(&mut self.lock().is_away, true) {
            self.changes.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                "cache.directory: {} {why}. Until it is back, tiles are served without the disk cache; to start a new \
                 cache, restart the server",
                self.path.display()
            );
        }
        TierError::Away { path: self.path.clone(), why }
    }

    /// Records that the directory is back, possibly with another device number.
    fn back(&self, identity: Identity) {
        let was_away = {
            let mut state = self.lock();
            state.identity = identity;
            std::mem::replace(&mut state.is_away, false)
        };
        if was_away {
            self.changes.fetch_add(1, Ordering::Relaxed);
            tracing::info!("cache.directory: {} is back; it is used again", self.path.display());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the error means that the directory does not exist, rather than that it could not be accessed.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::StaleNetworkFileHandle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn home() -> (tempfile::TempDir, PathBuf, Home) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cache");
        let home = Home::make(&path).unwrap();
        (place, path, home)
    }

    fn is_away(home: &Home) -> bool {
        let away = matches!(home.writing(), Err(TierError::Away { .. }));
        assert_eq!(away, home.reading().unwrap().is_none());
        away
    }

    #[test]
    fn a_directory_moved_away_and_back_is_used_again() {
        let (place, path, home) = home();
        assert!(!is_away(&home));
        fs::rename(&path, place.path().join("elsewhere")).unwrap();
        assert!(is_away(&home) && is_away(&home) && !path.exists());
        fs::write(&path, "no directory").unwrap();
        assert!(is_away(&home));
        fs::remove_file(&path).unwrap();
        // What an unmounted file system leaves: an empty directory.
        fs::create_dir(&path).unwrap();
        assert!(is_away(&home));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "nothing was written");
        fs::remove_dir(&path).unwrap();
        fs::rename(place.path().join("elsewhere"), &path).unwrap();
        assert!(!is_away(&home));
        assert_eq!(home.changes(), 2, "it went, and came back");
    }

    #[test]
    fn a_copy_with_the_same_id_is_accepted_and_another_cache_is_not() {
        let (place, path, home) = home();
        fs::rename(&path, place.path().join("elsewhere")).unwrap();
        Home::make(&path).unwrap();
        assert!(is_away(&home));
        fs::copy(place.path().join("elsewhere/CACHEDIR.TAG"), path.join("CACHEDIR.TAG")).unwrap();
        assert!(!is_away(&home));
    }

    #[test]
    fn an_emptied_directory_is_marked_again_unless_it_has_foreign_files() {
        let (_place, path, home) = home();
        let marker = fs::read_to_string(path.join("CACHEDIR.TAG")).unwrap();
        fs::remove_file(path.join("CACHEDIR.TAG")).unwrap();
        assert!(home.reading().unwrap().is_some() && !path.join("CACHEDIR.TAG").exists());
        home.writing().unwrap();
        assert_eq!(fs::read_to_string(path.join("CACHEDIR.TAG")).unwrap(), marker);
        fs::remove_file(path.join("CACHEDIR.TAG")).unwrap();
        fs::write(path.join("thesis.tex"), "words").unwrap();
        let changes = home.changes();
        assert!(matches!(home.writing(), Err(TierError::Away { .. })));
        assert!(is_away(&home) && home.changes() == changes + 1, "it is logged once");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
        fs::remove_file(path.join("thesis.tex")).unwrap();
        home.writing().unwrap();
    }
}
