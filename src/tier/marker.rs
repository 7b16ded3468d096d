//! The marker of a cache directory: a `CACHEDIR.TAG`, which backup programs recognise too, with additional lines.
//!
//! A directory without a marker becomes a cache only if it is empty or contains only files named like voltile's.
//! Nothing is ever written to, or removed from, any other directory. The marker contains a random id, by which a
//! server recognises its directory after the file system was remounted.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::TierError;
use super::dir::{Dir, Entry, UNFINISHED};
use super::entry::FORMAT;
use super::folders;

const NAME: &str = "CACHEDIR.TAG";
/// From the Cache Directory Tagging Specification.
const SIGNATURE: &str = "Signature: 8a477f597d28d172789f06886806bc55";
const OURS: &str = "# voltile tiles, format ";
const ID: &str = "# id ";
/// Only this much of a marker is read.
const LONGEST: u64 = 4096;

/// The random id in a marker. Markers of earlier versions have none.
pub(super) type Id = String;

/// What was found in a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A cache with the current format.
    Ours(Option<Id>),
    /// No marker; empty, or only files named like voltile's.
    Unmarked,
}

fn text(id: &str) -> String {
    format!(
        "{SIGNATURE}\n{OURS}{FORMAT}\n{ID}{id}\n\
         # Tiles rendered by voltile. Everything here may be removed at any time.\n\
         # `voltile cache stats` lists the contents, `voltile cache clear` removes them.\n"
    )
}

/// Opens the directory at a path; `None` if there is none.
pub(super) fn opened(path: &Path) -> Result<Option<Dir>, TierError> {
    match Dir::at(path) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(TierError::NoDirectory { path: path.to_owned() })
        }
        Err(error) => Err(TierError::system(path, "opened", &error)),
    }
}

/// Opens the directory at a path and creates it if it is missing.
pub(super) fn opened_or_made(path: &Path) -> Result<Dir, TierError> {
    if let Some(dir) = opened(path)? {
        return Ok(dir);
    }
    fs::create_dir_all(path).map_err(|error| TierError::system(path, MAKING, &error))?;
    opened(path)?.ok_or_else(|| TierError::system(path, MAKING, &ErrorKind::NotFound.into()))
}

const MAKING: &str = "made a cache";

/// Examines a directory without changing it. [`TierError::Foreign`] or [`TierError::Format`] if it is not usable;
/// `path` is for error messages.
pub(super) fn look(dir: &Dir, path: &Path) -> Result<Found, TierError> {
    if let Some(text) = read(dir, path)? {
        return ours(path, &text);
    }
    let failed = |error: io::Error| TierError::system(path, "read", &error);
    if only_tiles(dir).map_err(failed)? {
        return Ok(Found::Unmarked);
    }
    // Another process may have written a marker since the first check, and further files.
    match read(dir, path)? {
        Some(text) => ours(path, &text),
        None => Err(TierError::Foreign { path: path.to_owned() }),
    }
}

/// Whether there is a marker, regardless of its contents.
pub(super) fn is_there(dir: &Dir) -> io::Result<bool> {
    dir.about(OsStr::new(NAME)).map(|about| about.is_some())
}

/// The marker's text; empty if it is not a regular file or not UTF-8, `None` if there is no marker.
fn read(dir: &Dir, path: &Path) -> Result<Option<String>, TierError> {
    let failed = |error: io::Error| TierError::system(path.join(NAME), "read", &error);
    match dir.open(OsStr::new(NAME)).map_err(failed)? {
        None => Ok(None),
        Some(Entry::Other) => Ok(Some(String::new())),
        Some(Entry::File(file, _)) => {
            let mut bytes = Vec::new();
            file.take(LONGEST).read_to_end(&mut bytes).map_err(failed)?;
            Ok(Some(String::from_utf8(bytes).unwrap_or_default()))
        }
    }
}

fn ours(path: &Path, text: &str) -> Result<Found, TierError> {
    let line = |beginning: &str| text.lines().find_map(|line| line.strip_prefix(beginning)).map(str::trim);
    match line(OURS) {
        Some(format) if text.starts_with(SIGNATURE) => match format == FORMAT.to_string() {
            true => Ok(Found::Ours(line(ID).filter(|id| !id.is_empty()).map(str::to_owned))),
            false => Err(TierError::Format { path: path.to_owned(), found: format!("format {format}") }),
        },
        _ => Err(TierError::Foreign { path: path.to_owned() }),
    }
}

/// Whether a directory contains only files named like voltile's: an interrupted `rm -r` may have removed the marker.
fn only_tiles(dir: &Dir) -> io::Result<bool> {
    for name in dir.names()? {
        // Another process may be writing the marker.
        let is_unfinished = name.to_string_lossy().starts_with(UNFINISHED);
        if !is_unfinished && !folders::is_ours(dir, &name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the marker, with `id` or a new random id, unless another process has just done so; returns the id in force.
pub(super) fn make(dir: &Dir, path: &Path, id: Option<Id>) -> Result<Option<Id>, TierError> {
    let id = id.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)));
    let written = dir.unfinished().and_then(|mut file| {
        file.write_all(text(&id).as_bytes())?;
        file.persist_new(OsStr::new(NAME))
    });
    match written {
        Ok(()) => Ok(Some(id)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match look(dir, path)? {
            Found::Ours(id) => Ok(id),
            Found::Unmarked => Err(TierError::Foreign { path: path.to_owned() }),
        },
        Err(error) => Err(TierError::system(path, MAKING, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(path: &Path) -> Option<Id> {
        let dir = opened_or_made(path).unwrap();
        match look(&dir, path).unwrap() {
            Found::Ours(id) => id,
            Found::Unmarked => make(&dir, path, None).unwrap(),
        }
    }

    fn looked(path: &Path) -> Result<Found, TierError> {
        look(&opened(path)?.expect("it is there"), path)
    }

    #[test]
    fn an_empty_directory_becomes_ours_and_keeps_its_id() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/b");
        assert!(opened(&path).unwrap().is_none());
        let id = made(&path);
        assert!(id.is_some());
        assert_eq!(make(&Dir::at(&path).unwrap(), &path, None).unwrap(), id, "it is ours already");
        assert_eq!(looked(&path), Ok(Found::Ours(id)));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    }

    #[test]
    fn a_marker_without_an_id_is_accepted() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(NAME), format!("{SIGNATURE}\n{OURS}{FORMAT}\n# text\n")).unwrap();
        assert_eq!(looked(place.path()), Ok(Found::Ours(None)));
    }

    #[test]
    fn foreign_directories_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let with = |name: &str, text: &[u8]| {
            let path = place.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join(NAME), text).unwrap();
            looked(&path).unwrap_err()
        };
        let foreign = |name: &str| TierError::Foreign { path: place.path().join(name) };
        assert_eq!(with("cargo", format!("{SIGNATURE}\n# cargo\n").as_bytes()), foreign("cargo"));
        assert_eq!(with("bytes", &[0xff, 0xfe]), foreign("bytes"));
        assert_eq!(with("empty", b""), foreign("empty"));
        let newer = with("newer", text("1").replace("format 1", "format 2").as_bytes());
        assert!(newer.is_misnamed() && newer.to_string().contains("format 2"), "{newer}");
        let full = place.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("thesis.tex"), "").unwrap();
        assert_eq!(looked(&full), Err(foreign("full")));
        let file = full.join("thesis.tex");
        assert_eq!(opened(&file).err(), Some(TierError::NoDirectory { path: file.clone() }));
        let linked = place.path().join("linked");
        fs::create_dir(&linked).unwrap();
        made(&place.path().join("ours"));
        std::os::unix::fs::symlink(place.path().join("ours").join(NAME), linked.join(NAME)).unwrap();
        assert_eq!(looked(&linked), Err(foreign("linked")), "a link is no marker");
    }

    #[test]
    fn a_cache_that_lost_its_marker_is_accepted_only_without_foreign_files() {
        let place = tempfile::tempdir().unwrap();
        let fan = place.path().join("tiles/token/ab");
        fs::create_dir_all(&fan).unwrap();
        fs::create_dir(place.path().join("digests")).unwrap();
        fs::write(place.path().join("digests/0.blake3"), "").unwrap();
        fs::write(fan.join(format!("ab{}.png", "0".repeat(30))), "").unwrap();
        fs::write(fan.join(".voltile-0"), "").unwrap();
        assert_eq!(looked(place.path()), Ok(Found::Unmarked));
        for foreign in ["tiles/token/ab/photo.png", "tiles/token/readme", "tiles/readme", "digests/notes"] {
            fs::write(place.path().join(foreign), "").unwrap();
            assert!(matches!(looked(place.path()), Err(TierError::Foreign { .. })), "{foreign}");
            fs::remove_file(place.path().join(foreign)).unwrap();
        }
        assert_eq!(looked(place.path()), Ok(Found::Unmarked));
    }

    #[test]
    fn concurrent_makers_agree_on_one_id() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new");
        std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8).map(|_| scope.spawn(|| made(&path))).collect();
            let mut ids: Vec<_> = makers.into_iter().map(|maker| maker.join().unwrap()).collect();
            ids.dedup();
            assert!(matches!(ids.as_slice(), [Some(_)]), "{ids:?}");
        });
    }
}
