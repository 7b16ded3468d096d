//! The bytes of one open file, readable only while the file is unchanged since it was opened.
//!
//! All reads go through here: voltile's threads fetch ranges ([`FileBytes::fetch`]) or copy from a mapping
//! ([`FileBytes::borrow`]), and the HDF5 library reads through a file driver ([`super::library`]). To read from
//! anything but a local file, only this module would have to change.

mod cached;
mod fetched;
mod loan;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub(super) use self::fetched::Fetched;
pub(super) use self::loan::Loan;
use self::loan::Mapped;
use super::identity::{ContentId, FileIdentity};
use crate::volume::ReadError;

/// Two writes within one tick of the kernel's clock leave the same modification time, so a file is opened only when
/// its last change is older than a tick; the longest tick of Linux is 10 ms.
const CLOCK_TICK: Duration = Duration::from_millis(20);
/// The same for file systems that store whole seconds, or every other second (FAT).
const COARSE_TICK: Duration = Duration::from_secs(2);

/// A regular file that is open for reading, and its identity when it was opened.
#[derive(Debug)]
pub(super) struct FileBytes {
    file: File,
    identity: FileIdentity,
    growing: bool,
    mapped: Mapped,
}

impl FileBytes {
    /// Opens the file at `resolved`, a path without symbolic links. If `growing`, the file may become longer and its
    /// modification time newer without counting as changed.
    ///
    /// Fails if the path is not, or no longer, that of the opened file, for example because it was replaced by a
    /// symbolic link.
    pub fn open(resolved: PathBuf, growing: bool) -> io::Result<Self> {
        // Checked before it is opened: opening a FIFO or a device can block or have side effects.
        ensure_regular(&resolved.symlink_metadata()?)?;
        let file =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(&resolved)?;
        let mut metadata = file.metadata()?;
        ensure_regular(&metadata)?;
        if !growing && let Some(rest) = rest_of_tick(&metadata) {
            std::thread::sleep(rest);
            metadata = file.metadata()?;
        }
        let identity = FileIdentity::new(resolved, &metadata);
        let lies_there = identity.path().canonicalize()? == identity.path();
        let is_same = if growing {
            identity.path().symlink_metadata().is_ok_and(|there| identity.is_of_grown(&there))
        } else {
            identity.is_current()
        };
        if !(lies_there && is_same) {
            return Err(io::Error::other("it changed while it was being opened; try again"));
        }
        Ok(Self { file, identity, growing, mapped: Mapped::default() })
    }

    /// Opens the file with this identity; fails if there is another one at its path.
    pub fn open_as(identity: &FileIdentity, growing: bool) -> io::Result<Self> {
        let opened = Self::open(identity.path().to_owned(), growing)?;
        let bytes = Self { identity: identity.clone(), ..opened };
        bytes.unchanged_length()?.map(|_| bytes).ok_or_else(changed_error)
    }

    /// The same, with its contents identified.
    pub fn containing(self, content: ContentId) -> Self {
        Self { identity: self.identity.containing(content), ..self }
    }

    pub fn identity(&self) -> &FileIdentity {
        &self.identity
    }

    /// The current length of the file, whether or not it has changed.
    pub fn current_length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub fn is_growing(&self) -> bool {
        self.growing
    }

    /// The current length of the file; fails if it has changed since it was opened. `place` is for errors.
    pub fn length(&self, place: &str) -> Result<u64, ReadError> {
        match self.unchanged_length() {
            Ok(Some(length)) => Ok(length),
            Ok(None) => Err(changed(place)),
            Err(error) => Err(system(place, &error)),
        }
    }

    /// Fails if the file has changed since it was opened.
    pub fn ensure_unchanged(&self, place: &str) -> Result<(), ReadError> {
        self.length(place).map(|_| ())
    }

    /// Fails if the file has changed, or is shorter than `needed` bytes.
    pub fn ensure_reaches(&self, needed: u64, place: &str) -> Result<(), ReadError> {
        let length = self.length(place)?;
        if needed <= length { Ok(()) } else { Err(truncated(place, length, needed)) }
    }

    /// Fills `into` from a position in the file; `place` is for errors.
    pub fn read_exact_at(&self, into: &mut [u8], position: u64, place: &str) -> Result<(), ReadError> {
        self.ensure_reaches(position.saturating_add(into.len() as u64), place)?;
        let read = self.file.read_exact_at(into, position).map_err(|e| system(place, &e));
        // Checked last: the bytes are valid only if the file did not change during the read.
        self.ensure_unchanged(place)?;
        read
    }

    /// Fills `into` from a position in the file, up to the end of the file, and returns the number of bytes read.
    /// Fails if the file has changed since it was opened.
    pub fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.file.read_at(&mut into[done..], position + done as u64) {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.unchanged_length()?.map(|_| done).ok_or_else(changed_error)
    }

    /// The current length; `None` if the file has changed.
    fn unchanged_length(&self) -> io::Result<Option<u64>> {
        let metadata = self.file.metadata()?;
        let is_same =
            if self.growing { self.identity.is_of_grown(&metadata) } else { self.identity.is_of(&metadata) };
        Ok(is_same.then_some(metadata.len()))
    }
}

fn ensure_regular(metadata: &std::fs::Metadata) -> io::Result<()> {
    if metadata.is_file() { Ok(()) } else { Err(io::Error::other("it is not a regular file")) }
}

/// How long another write could leave the same modification time; `None` if it cannot any more.
fn rest_of_tick(metadata: &std::fs::Metadata) -> Option<Duration> {
    let tick = if metadata.mtime_nsec() == 0 { COARSE_TICK } else { CLOCK_TICK };
    // A modification time in the future does not count as recent.
    let age = SystemTime::now().duration_since(metadata.modified().ok()?).ok()?;
    tick.checked_sub(age)
}

fn changed_error() -> io::Error {
    io::Error::other("it has changed since it was opened")
}

pub(super) fn changed(place: &str) -> ReadError {
    ReadError::Changed { place: place.to_owned() }
}

pub(super) fn truncated(place: &str, length: u64, needed: u64) -> ReadError {
    ReadError::Truncated { place: place.to_owned(), length, needed }
}

pub(super) fn system(place: &str, error: &io::Error) -> ReadError {
    ReadError::System { place: place.to_owned(), problem: error.to_string() }
}

/// Whether there is a regular file at a path, after symbolic links; nothing else must be opened.
pub(super) fn is_regular(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn opened(bytes: &[u8]) -> (tempfile::TempDir, PathBuf, FileBytes) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap().join("a");
        fs::write(&path, bytes).unwrap();
        let file = FileBytes::open(path.clone(), false).unwrap();
        (place, path, file)
    }

    #[test]
    fn bytes_of_an_unchanged_file_are_read_and_none_beyond_its_end() {
        let (_place, _, file) = opened(b"0123456789");
        let mut into = [0; 4];
        file.read_exact_at(&mut into, 6, "here").unwrap();
        assert_eq!(&into, b"6789");
        assert!(matches!(
            file.read_exact_at(&mut into, 7, "here"),
            Err(ReadError::Truncated { length: 10, needed: 11, .. })
        ));
        assert_eq!(file.read_at(&mut into, 8).unwrap(), 2);
    }

    #[test]
    fn a_write_right_after_opening_is_seen() {
        for _ in 0..20 {
            let (_place, path, file) = opened(b"0123456789");
            fs::write(&path, b"9876543210").unwrap();
            assert!(matches!(file.read_exact_at(&mut [0; 4], 0, "here"), Err(ReadError::Changed { .. })));
            assert!(file.read_at(&mut [0; 4], 0).is_err());
        }
    }

    #[test]
    fn links_and_what_is_no_regular_file_are_not_opened() {
        let (place, path, _) = opened(b"0123456789");
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(FileBytes::open(link, false).is_err());
        assert!(FileBytes::open(PathBuf::from("/dev/zero"), false).is_err());
        let fifo = place.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(FileBytes::open(fifo, false).is_err());
    }

    #[test]
    fn another_file_of_the_same_name_is_not_the_one_that_was_meant() {
        let (place, path, file) = opened(b"0123456789");
        let identity = file.identity().clone();
        assert!(FileBytes::open_as(&identity, false).is_ok());
        fs::write(place.path().join("b"), b"abcdefghij").unwrap();
        fs::rename(place.path().join("b"), &path).unwrap();
        assert!(FileBytes::open_as(&identity, false).is_err());
    }
}
