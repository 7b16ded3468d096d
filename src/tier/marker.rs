//! How a cache directory is known: by a `CACHEDIR.TAG`, which backup programs know as well, with lines of our own.
//!
//! A directory without one becomes a cache only while it is empty, or holds nothing but what voltile keeps in one. Nothing
//! is ever written into, or removed from, any other. The marker has a random name of its own in it, by which a server
//! knows its directory again after the file system was mounted anew.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::TierError;
use super::dir::{Dir, Entry, UNFINISHED};
use super::folders;

/// The format of the whole directory and of what is in it. Raised when either changes; what pixels a key means is no
/// part of it: that is the key's own business.
pub(super) const FORMAT: u32 = 1;

const NAME: &str = "CACHEDIR.TAG";
/// As the Cache Directory Tagging Specification has it.
const SIGNATURE: &str = "Signature: 8a477f597d28d172789f06886806bc55";
const OURS: &str = "# voltile tiles, format ";
const ID: &str = "# id ";
/// No marker is longer.
const LONGEST: u64 = 4096;

/// The random name in a marker. Those that earlier versions made have none.
pub(super) type Id = String;

/// What a directory is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A cache of this format.
    Ours(Option<Id>),
    /// Nothing, or nothing but what voltile keeps, without a marker.
    Unmarked,
}

fn text(id: &str) -> String {
    format!(
        "{SIGNATURE}\n{OURS}{FORMAT}\n{ID}{id}\n\
         # Encoded tiles, kept by voltile so that they need not be rendered again. All of it may be removed at any time.\n\
         # `voltile cache stats` tells what is here, `voltile cache clear` removes it.\n"
    )
}

/// Opens the directory at a path; `None` where there is none.
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

/// Opens the directory at a path, which is made first where it is missing.
pub(super) fn opened_or_made(path: &Path) -> Result<Dir, TierError> {
    if let Some(dir) = opened(path)? {
        return Ok(dir);
    }
    fs::create_dir_all(path).map_err(|error| TierError::system(path, MAKING, &error))?;
    opened(path)?.ok_or_else(|| TierError::system(path, MAKING, &ErrorKind::NotFound.into()))
}

const MAKING: &str = "made a cache";

/// Finds out what a directory is, and changes nothing. What is neither ours nor unmarked is an error, which names `path`.
pub(super) fn look(dir: &Dir, path: &Path) -> Result<Found, TierError> {
    if let Some(text) = read(dir, path)? {
        return ours(path, &text);
    }
    let failed = |error: io::Error| TierError::system(path, "read", &error);
    if only_tiles(dir).map_err(failed)? {
        return Ok(Found::Unmarked);
    }
    // Another process may have made it one meanwhile, and gone on to write.
    match read(dir, path)? {
        Some(text) => ours(path, &text),
        None => Err(TierError::Foreign { path: path.to_owned() }),
    }
}

/// Whether there is a marker, whatever it says.
pub(super) fn is_there(dir: &Dir) -> io::Result<bool> {
    dir.about(OsStr::new(NAME)).map(|about| about.is_some())
}

/// The marker's text; of one that is no file or is too long to be ours, nothing.
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

/// Whether a directory holds nothing but what voltile keeps in a cache: `rm -r` may have been stopped after the marker.
fn only_tiles(dir: &Dir) -> io::Result<bool> {
    for name in dir.names()? {
        // Another process may be about to make it one.
        let is_unfinished = name.to_string_lossy().starts_with(UNFINISHED);
        if !is_unfinished && !folders::is_ours(dir, &name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes a directory ours, under that id, unless another process just has; answers what id it has then.
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
    fn a_marker_of_a_version_that_gave_no_ids_is_known() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(NAME), format!("{SIGNATURE}\n{OURS}{FORMAT}\n# text\n")).unwrap();
        assert_eq!(looked(place.path()), Ok(Found::Ours(None)));
    }

    #[test]
    fn what_others_put_there_is_refused() {
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
    fn what_is_left_of_a_cache_without_its_marker_is_taken_back_and_anything_else_is_not() {
        let place = tempfile::tempdir().unwrap();
        let fan = place.path().join("tiles/token/ab");
        fs::create_dir_all(&fan).unwrap();
        fs::create_dir(place.path().join("warm")).unwrap();
        fs::write(place.path().join("warm/0.journal"), "").unwrap();
        fs::write(fan.join(format!("ab{}.png", "0".repeat(30))), "").unwrap();
        fs::write(fan.join(".voltile-0"), "").unwrap();
        assert_eq!(looked(place.path()), Ok(Found::Unmarked));
        for foreign in ["tiles/token/ab/photo.png", "tiles/token/readme", "tiles/readme", "warm/notes"] {
            fs::write(place.path().join(foreign), "").unwrap();
            assert!(matches!(looked(place.path()), Err(TierError::Foreign { .. })), "{foreign}");
            fs::remove_file(place.path().join(foreign)).unwrap();
        }
        assert_eq!(looked(place.path()), Ok(Found::Unmarked));
    }

    #[test]
    fn many_may_make_one_at_the_same_time() {
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
