//! The one directory that a cache uses: noticed when it is gone or another one stands at its path, and used again once it
//! is back.
//!
//! A directory that was removed is not made anew, and one below a mount point that was unmounted is not written to: tiles
//! are served without it until it is back. It is the same one if its device and inode are, or if its marker has the same
//! id: a file system that is mounted again may come with another device number. One that was emptied gets its marker
//! again before anything else is written.
//!
//! It is opened for each use and not kept open: whoever unmounts it must not be told that it is busy.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::TierError;
use super::dir::{Dir, Identity};
use super::marker::{self, Found, Id};

const OTHER_CONTENT: &str = "has lost its marker, and holds other files";
const GONE: &str = "is not there any more";

/// A path, and which directory is meant by it.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    state: Mutex<State>,
    /// Raised when the directory goes, comes back or is emptied: what was counted in it is not so any more.
    changes: AtomicU64,
}

#[derive(Debug, Clone)]
struct State {
    identity: Identity,
    id: Option<Id>,
    is_away: bool,
}

impl Home {
    /// The directory at a path, which is made where it is missing, and made a cache where it is empty.
    pub fn make(path: &Path) -> Result<Self, TierError> {
        let dir = marker::opened_or_made(path)?;
        let id = match marker::look(&dir, path)? {
            Found::Ours(id) => id,
            Found::Unmarked => marker::make(&dir, path, None)?,
        };
        Self::new(path, &dir, id)
    }

    /// The cache at a path; `None` where there is none yet. Nothing is written.
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

    /// How often the directory has gone, come back or been emptied so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// The directory, to read from it or to remove from it; `None` while it is away.
    pub fn reading(&self) -> Result<Option<Dir>, TierError> {
        match self.open() {
            Err(TierError::Away { .. }) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// The directory, to write to it. It has its marker.
    pub fn writing(&self) -> Result<Dir, TierError> {
        let dir = self.open()?;
        self.see_to_marker(&dir)?;
        Ok(dir)
    }

    /// Has the marker be there, if this is a directory to which it may be given.
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
                tracing::warn!("cache.directory: {} was emptied; it is used again", self.path.display());
                Ok(())
            }
            // It was removed as a whole, a moment after it was opened.
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
            false => return Err(self.away("is another directory than it was")),
        }
        Ok(dir)
    }

    /// Whether the directory that is meant can be used: it may have been emptied, but not filled with something else.
    fn is_usable(&self, dir: &Dir) -> bool {
        marker::look(dir, &self.path).is_ok()
    }

    /// Whether a directory that is another one for the system is the one that is meant.
    fn has_our_id(&self, dir: &Dir) -> bool {
        let id = self.lock().id.clone();
        id.is_some() && marker::look(dir, &self.path).is_ok_and(|found| found == Found::Ours(id))
    }

    /// Notes that the directory is away, which is said once.
    fn away(&self, why: &'static str) -> TierError {
        if !std::mem::replace(&mut self.lock().is_away, true) {
            self.changes.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                "cache.directory: {} {why}. Nothing is written there, and tiles are served without it, until it is \
                 back; to begin with another one, restart the server",
                self.path.display()
            );
        }
        TierError::Away { path: self.path.clone(), why }
    }

    /// Notes that the directory is there again, perhaps on another device.
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

/// Whether it means that there is no directory, rather than that the system refused or failed.
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
    fn moved_away_and_back_it_is_used_again() {
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
    fn a_copy_of_it_is_taken_for_it_and_another_cache_is_not() {
        let (place, path, home) = home();
        fs::rename(&path, place.path().join("elsewhere")).unwrap();
        Home::make(&path).unwrap();
        assert!(is_away(&home));
        fs::copy(place.path().join("elsewhere/CACHEDIR.TAG"), path.join("CACHEDIR.TAG")).unwrap();
        assert!(!is_away(&home));
    }

    #[test]
    fn emptied_it_gets_its_marker_again_and_filled_by_others_it_does_not() {
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
        assert!(is_away(&home) && home.changes() == changes + 1, "it is said once");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
        fs::remove_file(path.join("thesis.tex")).unwrap();
        home.writing().unwrap();
    }
}
