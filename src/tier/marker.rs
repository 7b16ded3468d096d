//! The marker of a cache directory, which tells it from a directory that holds other things.
//!
//! The marker is a `CACHEDIR.TAG`, which backup programs recognise too, with additional lines. A
//! directory becomes a cache only if it belongs to this user and has nothing else in it. Tiles are
//! written only while the marker is there: nothing is written below an empty mount point, nor to a
//! directory that has taken the place of the cache.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;
use voltile_hdf5::store::whole_file::{self, TEMPORARY};

use super::TierError;
use super::entry::FORMAT;
use super::folder::EntryKind;

const MARKER: &str = "CACHEDIR.TAG";
/// From the Cache Directory Tagging Specification.
const SIGNATURE: &str = "Signature: 8a477f597d28d172789f06886806bc55";
/// The beginning of the marker's line that tells voltile's caches from other programs' caches.
const OURS: &str = "# voltile tiles, format ";
/// Folders that may be in the directory before it has its marker: they are made while files are
/// opened.
const EARLY: [&str; 2] = ["objects", "digests"];

/// Makes the directory at a path a cache, unless it is one already; creates it if it is missing.
pub(super) fn make(path: &Path) -> Result<(), TierError> {
    if is_cache(path)? {
        return Ok(());
    }
    let text = format!(
        "{SIGNATURE}\n{OURS}{FORMAT}\n\
         # Tiles rendered by voltile. Everything here may be removed at any time.\n\
         # `voltile cache stats` lists the contents, `voltile cache clear` removes them.\n"
    );
    fs::create_dir_all(path)
        .and_then(|()| whole_file::write(&path.join(MARKER), &[text.as_bytes()]))
        .map_err(|error| TierError::system(path, "made a cache", &error))
}

/// Fails if the marker is not there, as in a directory that was removed, emptied or unmounted.
pub(super) fn ensure(path: &Path) -> Result<(), TierError> {
    match path.join(MARKER).try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(TierError::Unmarked {
            path: path.to_owned(),
        }),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Whether the directory at a path is a cache. False if it is missing, or may become a cache; the
/// error [`TierError::Unsuitable`] if it must not be used.
pub(super) fn is_cache(path: &Path) -> Result<bool, TierError> {
    let shown = path.display();
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(unreadable(path, &error)),
    };
    if !about.is_dir() {
        return unsuitable(format!("{shown} is not a directory"));
    }
    let user = geteuid().as_raw();
    if about.uid() != user {
        return unsuitable(format!(
            "{shown} belongs to another user (uid {}, and this program runs as uid {user}), who could change what is \
             served from it. Name a directory of your own, which is created if it is missing, or run voltile as that user",
            about.uid()
        ));
    }
    // Listed before the marker is read: in the other order, a marker and folders that another process
    // makes in between would be in the list, and look foreign.
    let names = names_in(path).map_err(|error| unreadable(path, &error))?;
    let foreign = format!(
        "{shown} is neither empty nor a voltile cache, and was left unchanged. Name an empty or missing directory"
    );
    let text = match fs::read(path.join(MARKER)) {
        Ok(bytes) => String::from_utf8(bytes).unwrap_or_default(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let is_early = |name: &OsString| name.to_str().is_some_and(may_be_early);
            if names.iter().all(is_early) {
                return Ok(false);
            }
            return unsuitable(foreign);
        }
        Err(error) => return Err(unreadable(path, &error)),
    };
    let Some(format) = format_in(&text) else {
        return unsuitable(foreign);
    };
    if format == FORMAT.to_string() {
        return Ok(true);
    }
    unsuitable(format!(
        "{shown} is a cache of another version of voltile (format {format}; this version has format {FORMAT}). Remove it, \
         or name another directory"
    ))
}

/// The names of the entries of a directory.
fn names_in(path: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(path)?
        .map(|entry| Ok(entry?.file_name()))
        .collect()
}

/// The format in the text of a marker; `None` if it is another program's.
fn format_in(text: &str) -> Option<&str> {
    if !text.starts_with(SIGNATURE) {
        return None;
    }
    let format = text.lines().find_map(|line| line.strip_prefix(OURS))?;
    Some(format.trim())
}

fn unreadable(path: &Path, error: &io::Error) -> TierError {
    TierError::system(path, "read", error)
}

fn unsuitable(problem: String) -> Result<bool, TierError> {
    Err(TierError::Unsuitable { problem })
}

/// Whether an entry of this name may be in a directory that is not a cache yet.
fn may_be_early(name: &str) -> bool {
    let is_of_kind = EntryKind::ALL.iter().any(|kind| kind.folder() == name);
    is_of_kind || EARLY.contains(&name) || name.starts_with(TEMPORARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_cache_may_become_one_or_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let with = |name: &str, file: &str, text: &str| {
            let path = place.path().join(name).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            is_cache(&place.path().join(name)).map_err(|error| {
                assert!(error.is_unsuitable(), "{error}");
                error.to_string()
            })
        };
        let is_foreign = |result: Result<bool, String>| {
            result.is_err_and(|problem| problem.contains("neither empty nor"))
        };
        assert_eq!(is_cache(&place.path().join("missing")), Ok(false));
        for early in ["objects/1", "digests/1", "tiles/a/ab/1.png", ".voltile-1"] {
            assert_eq!(with("early", early, ""), Ok(false), "{early}");
        }
        assert!(is_foreign(with("early", "photo.png", "")));
        let cargo = format!("{SIGNATURE}\n# cargo\n");
        assert!(is_foreign(with("cargo", MARKER, &cargo)));
        assert!(is_foreign(with("empty", MARKER, "")));
        let ours = format!("{SIGNATURE}\n{OURS}{FORMAT}\n# id 7\n");
        assert_eq!(with("ours", MARKER, &ours), Ok(true));
        assert_eq!(with("ours", "notes.txt", ""), Ok(true));
        let newer = with("newer", MARKER, &format!("{SIGNATURE}\n{OURS}2\n")).unwrap_err();
        assert!(newer.contains("format 2"), "{newer}");
        let file = is_cache(&place.path().join("newer").join(MARKER)).unwrap_err();
        assert!(file.to_string().ends_with("is not a directory"), "{file}");
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let place = tempfile::tempdir().unwrap();
        // Fails unless this user may give directories away.
        if std::os::unix::fs::chown(place.path(), Some(65_534), None).is_ok() {
            let error = make(place.path()).unwrap_err();
            assert!(
                error.to_string().contains("another user (uid 65534"),
                "{error}"
            );
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn several_processes_may_make_one_directory_a_cache() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| make(&path).unwrap());
            }
        });
        assert_eq!(is_cache(&path), Ok(true));
    }
}
