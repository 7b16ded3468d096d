//! By what a cache directory is known: a `CACHEDIR.TAG`, which backup programs know as well, with a line of our own.
//!
//! A directory that has none is made one only while it is empty; nothing is ever written into, or removed from, any other.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use super::TierError;
use super::folders::{self, UNFINISHED};

/// The format of the whole directory and of what is in it. Raised when either changes; what pixels a key means is no
/// part of it: that is the key's own business.
pub(super) const FORMAT: u32 = 1;

const NAME: &str = "CACHEDIR.TAG";
/// As the Cache Directory Tagging Specification has it.
const SIGNATURE: &str = "Signature: 8a477f597d28d172789f06886806bc55";
const OURS: &str = "# voltile tiles, format ";

fn text() -> String {
    format!(
        "{SIGNATURE}\n{OURS}{FORMAT}\n\
         # Encoded tiles, kept by voltile so that they need not be drawn again. All of it may be removed at any time.\n\
         # `voltile cache stats` tells what is here, `voltile cache clear` removes it.\n"
    )
}

/// What a directory is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A cache of this format.
    Ours,
    /// Nothing, or nothing yet.
    Empty,
}

/// Finds out what is at a path, and changes nothing. What is neither ours nor empty is an error.
pub(super) fn look(path: &Path) -> Result<Found, TierError> {
    match fs::read_to_string(path.join(NAME)) {
        Ok(text) => ours(path, &text),
        Err(error) if error.kind() == ErrorKind::NotFound => unmarked(path),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(TierError::NoDirectory { path: path.to_owned() })
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(TierError::Foreign { path: path.to_owned() })
        }
        Err(error) => Err(TierError::system(path.join(NAME), "read", &error)),
    }
}

fn ours(path: &Path, text: &str) -> Result<Found, TierError> {
    let format = text.lines().find_map(|line| line.strip_prefix(OURS));
    match format {
        _ if !text.starts_with(SIGNATURE) => Err(TierError::Foreign { path: path.to_owned() }),
        None => Err(TierError::Foreign { path: path.to_owned() }),
        Some(format) if format.trim() == FORMAT.to_string() => Ok(Found::Ours),
        Some(format) => {
            Err(TierError::Format { path: path.to_owned(), found: format!("format {}", format.trim()) })
        }
    }
}

fn unmarked(path: &Path) -> Result<Found, TierError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Empty),
        Err(error) => return Err(TierError::system(path, "read", &error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| TierError::system(path, "read", &error))?;
        // Another process may be about to make it one.
        if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            // It may have ended meanwhile.
            let again = fs::read_to_string(path.join(NAME));
            return again
                .map_or_else(|_| Err(TierError::Foreign { path: path.to_owned() }), |t| ours(path, &t));
        }
    }
    Ok(Found::Empty)
}

/// Makes a directory ours, unless another process just has.
pub(super) fn make(path: &Path) -> Result<(), TierError> {
    let failed = |error: io::Error| TierError::system(path, "made a cache", &error);
    fs::create_dir_all(path).map_err(failed)?;
    let mut file = folders::unfinished(path).map_err(failed)?;
    file.write_all(text().as_bytes()).map_err(failed)?;
    match file.persist_noclobber(path.join(NAME)) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => match look(path)? {
            Found::Ours => Ok(()),
            Found::Empty => Err(TierError::Foreign { path: path.to_owned() }),
        },
        Err(error) => Err(failed(error.error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_directory_becomes_ours_and_stays_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/b");
        assert_eq!(look(&path), Ok(Found::Empty));
        make(&path).unwrap();
        make(&path).unwrap();
        assert_eq!(look(&path), Ok(Found::Ours));
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    }

    #[test]
    fn what_others_put_there_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let with = |name: &str, text: &[u8]| {
            let path = place.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join(NAME), text).unwrap();
            look(&path).unwrap_err()
        };
        let foreign = |name: &str| TierError::Foreign { path: place.path().join(name) };
        assert_eq!(with("cargo", format!("{SIGNATURE}\n# cargo\n").as_bytes()), foreign("cargo"));
        assert_eq!(with("bytes", &[0xff, 0xfe]), foreign("bytes"));
        let newer = with("newer", text().replace("format 1", "format 2").as_bytes());
        assert!(newer.is_misnamed() && newer.to_string().contains("format 2"), "{newer}");
        let full = place.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("thesis.tex"), "").unwrap();
        assert_eq!(look(&full), Err(foreign("full")));
        let file = full.join("thesis.tex");
        assert_eq!(look(&file), Err(TierError::NoDirectory { path: file.clone() }));
    }

    #[test]
    fn many_may_make_one_at_the_same_time() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new");
        std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| match look(&path).unwrap() {
                        Found::Ours => Ok(()),
                        Found::Empty => make(&path),
                    })
                })
                .collect();
            makers.into_iter().for_each(|maker| maker.join().unwrap().unwrap());
        });
        assert_eq!(look(&path), Ok(Found::Ours));
    }
}
