//! The cache directory itself: which directory it is, and its marker.
//!
//! The marker is a `CACHEDIR.TAG`, which backup programs recognise too, with additional lines. A
//! directory without a marker becomes a cache only if it is empty or contains only files named like
//! voltile's. Nothing is ever written to, or removed from, any other directory.
//!
//! A directory that was removed, unmounted or replaced is not used any more until it is
//! [reopened](Root::reopen): nothing is written below an empty mount point. The directory is opened
//! for each operation, and its device and inode are compared with the expected values.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::entry::FORMAT;
use super::{TierError, folders};
use crate::flow::lock;
use crate::store::dir::{Dir, Entry, Identity};

const MARKER: &str = "CACHEDIR.TAG";
/// From the Cache Directory Tagging Specification.
const SIGNATURE: &str = "Signature: 8a477f597d28d172789f06886806bc55";
/// How the line of the marker begins that tells voltile's caches from those of other programs.
const OURS: &str = "# voltile tiles, format ";
/// The maximum number of bytes of a marker that are read.
const MAX_MARKER: u64 = 4096;

/// A path, and the directory expected there.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    /// The directory in use, or why there is none.
    state: Mutex<Result<Identity, TierError>>,
}

impl Root {
    /// The directory at a path; created if it is missing, and marked as a cache if it has no marker
    /// yet.
    pub fn make(path: &Path) -> Result<Self, TierError> {
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(Ok(make(path)?)),
        })
    }

    /// The existing cache at a path; `None` if there is none. Writes nothing.
    pub fn existing(path: &Path) -> Result<Option<Self>, TierError> {
        let Some(dir) = opened(path)? else {
            return Ok(None);
        };
        let root = Self {
            path: path.to_owned(),
            state: Mutex::new(Ok(identity(&dir, path)?)),
        };
        Ok(is_marked(&dir, path)?.then_some(root))
    }

    /// A directory that cannot be used until it is reopened, because of this error, which is
    /// logged.
    pub fn unavailable(path: &Path, error: &TierError) -> Self {
        let error = TierError::Unavailable {
            problem: error.to_string(),
        };
        tracing::error!("cache.directory: {error}");
        Self {
            path: path.to_owned(),
            state: Mutex::new(Err(error)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why the directory is not used.
    pub fn problem(&self) -> Option<TierError> {
        lock(&self.state).as_ref().err().cloned()
    }

    /// Uses the directory that is at the path now, if it can be used. Logs an error, and the end of
    /// an error.
    pub fn reopen(&self) {
        let state = make(&self.path).map_err(|error| TierError::Unavailable {
            problem: error.to_string(),
        });
        let before = std::mem::replace(&mut *lock(&self.state), state.clone());
        match (before, state) {
            (_, Err(error)) => tracing::error!("cache.directory: {error}"),
            (Err(_), Ok(_)) => {
                tracing::info!("cache.directory: {} is used again", self.path.display());
            }
            (Ok(_), Ok(_)) => {}
        }
    }

    /// Opens the directory. [`TierError::Unavailable`] once it is gone, until it is
    /// [reopened](Root::reopen).
    pub fn open(&self) -> Result<Dir, TierError> {
        let expected = lock(&self.state).clone()?;
        let dir = match Dir::open(&self.path) {
            Ok(dir) => dir,
            Err(error) if is_absence(&error) => return Err(self.lose("no longer exists")),
            Err(error) => return Err(TierError::system(&self.path, "opened", &error)),
        };
        if identity(&dir, &self.path)? != expected {
            return Err(self.lose("is a different directory now"));
        }
        Ok(dir)
    }

    /// Opens the directory to write to it. If it was emptied, it gets its marker first.
    pub fn open_marked(&self) -> Result<Dir, TierError> {
        let dir = self.open()?;
        let marker = dir.stat(OsStr::new(MARKER));
        if marker
            .map_err(|error| TierError::system(&self.path, "read", &error))?
            .is_some()
        {
            return Ok(dir);
        }
        match mark(&dir, &self.path) {
            Ok(()) => {
                tracing::warn!(
                    "cache.directory: {} was emptied and is used again",
                    self.path.display()
                );
            }
            Err(error) if error.is_misnamed() => {
                return Err(self.lose("has lost its marker and contains other files"));
            }
            Err(error) => return Err(error),
        }
        Ok(dir)
    }

    /// Stops the use of the directory, and logs why.
    fn lose(&self, why: &str) -> TierError {
        let error = TierError::Unavailable {
            problem: format!("{} {why}", self.path.display()),
        };
        let mut state = lock(&self.state);
        if state.is_ok() {
            tracing::error!("cache.directory: {error}");
            *state = Err(error.clone());
        }
        error
    }
}

/// Whether the error means that the directory does not exist, rather than that it could not be
/// accessed.
fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::StaleNetworkFileHandle
    )
}

fn identity(dir: &Dir, path: &Path) -> Result<Identity, TierError> {
    dir.identity()
        .map_err(|error| TierError::system(path, "opened", &error))
}

/// Opens the directory at a path; `None` if there is none.
fn opened(path: &Path) -> Result<Option<Dir>, TierError> {
    match Dir::open(path) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Err(TierError::Misnamed {
            problem: format!("{} is not a directory", path.display()),
        }),
        Err(error) => Err(TierError::system(path, "opened", &error)),
    }
}

/// Makes the directory at a path a cache, unless it is a cache already.
fn make(path: &Path) -> Result<Identity, TierError> {
    let failed = |error| TierError::system(path, "made a cache", &error);
    let dir = match opened(path)? {
        Some(dir) => dir,
        None => fs::create_dir_all(path)
            .and_then(|()| Dir::open(path))
            .map_err(failed)?,
    };
    mark(&dir, path)?;
    identity(&dir, path)
}

/// Writes the marker, unless the directory has it already.
fn mark(dir: &Dir, path: &Path) -> Result<(), TierError> {
    if is_marked(dir, path)? {
        return Ok(());
    }
    let text = format!(
        "{SIGNATURE}\n{OURS}{FORMAT}\n\
         # Tiles rendered by voltile. Everything here may be removed at any time.\n\
         # `voltile cache stats` lists the contents, `voltile cache clear` removes them.\n"
    );
    let written = dir.write(OsStr::new(MARKER), &[text.as_bytes()]);
    written.map_err(|error| TierError::system(path, "made a cache", &error))
}

/// Whether a directory is marked as a cache; if not, it may become a cache. [`TierError::Misnamed`]
/// if it must not be used.
fn is_marked(dir: &Dir, path: &Path) -> Result<bool, TierError> {
    let failed = |error| TierError::system(path, "read", &error);
    let shown = path.display();
    let misnamed = |problem: String| Err(TierError::Misnamed { problem });
    let foreign = || {
        misnamed(format!(
            "{shown} is neither empty nor a voltile cache, and was left unchanged. Name an empty or missing directory"
        ))
    };
    // Listed before the marker is read: another process writes the marker first, and then further
    // files.
    let names = dir.names().map_err(failed)?;
    let text = match dir.entry(OsStr::new(MARKER)).map_err(failed)? {
        None => {
            for name in names {
                if !folders::is_ours(dir, &name).map_err(failed)? {
                    return foreign();
                }
            }
            return Ok(false);
        }
        Some(Entry::Other) => String::new(),
        Some(Entry::File(file, _)) => {
            let mut bytes = Vec::new();
            file.take(MAX_MARKER)
                .read_to_end(&mut bytes)
                .map_err(failed)?;
            String::from_utf8(bytes).unwrap_or_default()
        }
    };
    let format = text
        .lines()
        .find_map(|line| line.strip_prefix(OURS))
        .map(str::trim);
    match format.filter(|_| text.starts_with(SIGNATURE)) {
        None => foreign(),
        Some(format) if format == FORMAT.to_string() => Ok(true),
        Some(format) => misnamed(format!(
            "{shown} is a cache of another version of voltile (format {format}; this version has format {FORMAT}). Remove \
             it, or name another directory"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, PathBuf, Root) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/cache");
        let root = Root::make(&path).unwrap();
        (place, path, root)
    }

    fn is_unavailable(root: &Root) -> bool {
        let results = [root.open(), root.open_marked()];
        let unavailable =
            results.map(|result| matches!(result, Err(TierError::Unavailable { .. })));
        assert_eq!(unavailable, [root.problem().is_some(); 2]);
        unavailable[0]
    }

    fn looked(path: &Path) -> Result<bool, TierError> {
        Root::existing(path).map(|root| root.is_some())
    }

    #[test]
    fn a_directory_that_was_away_is_used_again_once_it_is_reopened() {
        let (place, path, root) = root();
        let elsewhere = place.path().join("elsewhere");
        assert!(!is_unavailable(&root));
        fs::rename(&path, &elsewhere).unwrap();
        assert!(is_unavailable(&root));
        fs::rename(&elsewhere, &path).unwrap();
        assert!(is_unavailable(&root));
        root.reopen();
        assert!(!is_unavailable(&root));
    }

    #[test]
    fn nothing_is_written_to_another_directory_until_it_is_reopened() {
        let (place, path, root) = root();
        fs::rename(&path, place.path().join("elsewhere")).unwrap();
        // What an unmounted file system leaves: an empty directory.
        fs::create_dir(&path).unwrap();
        assert!(is_unavailable(&root));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        fs::write(path.join("thesis.tex"), "words").unwrap();
        root.reopen();
        assert!(is_unavailable(&root) && fs::read_dir(&path).unwrap().count() == 1);
        fs::remove_file(path.join("thesis.tex")).unwrap();
        root.reopen();
        assert!(!is_unavailable(&root) && path.join(MARKER).exists());
    }

    #[test]
    fn an_emptied_directory_is_marked_again_unless_it_has_foreign_files() {
        let (_place, path, root) = root();
        let marker = fs::read_to_string(path.join(MARKER)).unwrap();
        fs::remove_file(path.join(MARKER)).unwrap();
        assert!(root.open().is_ok() && !path.join(MARKER).exists());
        root.open_marked().unwrap();
        assert_eq!(fs::read_to_string(path.join(MARKER)).unwrap(), marker);
        fs::remove_file(path.join(MARKER)).unwrap();
        fs::write(path.join("thesis.tex"), "words").unwrap();
        assert!(root.open_marked().is_err() && is_unavailable(&root));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    }

    #[test]
    fn foreign_directories_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let with = |name: &str, text: &[u8]| {
            let path = place.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join(MARKER), text).unwrap();
            looked(&path)
        };
        let is_foreign = |result: Result<bool, TierError>| {
            result.is_err_and(|error| {
                error.is_misnamed() && error.to_string().contains("neither empty nor")
            })
        };
        assert!(is_foreign(with(
            "cargo",
            format!("{SIGNATURE}\n# cargo\n").as_bytes()
        )));
        assert!(is_foreign(with("bytes", &[0xff, 0xfe])));
        assert!(is_foreign(with("empty", b"")));
        assert_eq!(
            with(
                "older",
                format!("{SIGNATURE}\n{OURS}{FORMAT}\n# id 7\n").as_bytes()
            ),
            Ok(true)
        );
        let newer = with("newer", format!("{SIGNATURE}\n{OURS}2\n").as_bytes()).unwrap_err();
        assert!(
            newer.is_misnamed() && newer.to_string().contains("format 2"),
            "{newer}"
        );
        let full = place.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("thesis.tex"), "").unwrap();
        assert!(is_foreign(looked(&full)));
        let file = full.join("thesis.tex");
        assert!(
            looked(&file)
                .unwrap_err()
                .to_string()
                .ends_with("thesis.tex is not a directory")
        );
        let linked = place.path().join("linked");
        fs::create_dir(&linked).unwrap();
        std::os::unix::fs::symlink(place.path().join("older").join(MARKER), linked.join(MARKER))
            .unwrap();
        assert!(is_foreign(looked(&linked)), "a link is no marker");
        assert_eq!(looked(&place.path().join("missing")), Ok(false));
    }

    #[test]
    fn a_cache_that_lost_its_marker_is_accepted_only_without_foreign_files() {
        let place = tempfile::tempdir().unwrap();
        let fan = place.path().join("tiles/token/ab");
        fs::create_dir_all(&fan).unwrap();
        fs::create_dir(place.path().join("digests")).unwrap();
        for ours in [
            "digests/0.blake3",
            ".voltile-tiles.lease",
            "tiles/token/ab/.voltile-0",
        ] {
            fs::write(place.path().join(ours), "").unwrap();
        }
        fs::write(fan.join(format!("ab{}.png", "0".repeat(30))), "").unwrap();
        assert_eq!(looked(place.path()), Ok(false));
        for foreign in [
            "tiles/token/ab/photo.png",
            "tiles/token/readme",
            "tiles/readme",
            "digests/notes",
        ] {
            fs::write(place.path().join(foreign), "").unwrap();
            assert!(
                looked(place.path()).is_err_and(|error| error.is_misnamed()),
                "{foreign}"
            );
            fs::remove_file(place.path().join(foreign)).unwrap();
        }
        Root::make(place.path()).unwrap();
        assert_eq!(looked(place.path()), Ok(true));
    }

    #[test]
    fn several_processes_may_make_one_directory_a_cache() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new");
        std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Root::make(&path).unwrap()))
                .collect();
            let roots = makers.into_iter().map(|maker| maker.join().unwrap());
            roots.for_each(|root| assert!(!is_unavailable(&root)));
        });
    }
}
