//! The bytes of one open file, readable only while the file is unchanged since it was opened.
//!
//! All reads go through here: voltile's threads fetch ranges ([`FileBytes::fetch`]) or copy from a
//! mapping ([`FileBytes::borrow`]), and the HDF5 library reads through a file driver
//! ([`super::library`]). The bytes belong to a local file, or to an object in a store
//! ([`crate::store`]), which is read by range and cannot be mapped.

mod loan;
mod mapping_slot;
mod page_cache;
mod read_buffer;

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;
use voltile_base::flow::stalls::{self, BusyWith};
use voltile_base::tile::Fingerprint;

pub(super) use self::loan::Borrowed;
use self::mapping_slot::MappingSlot;
pub(super) use self::read_buffer::ReadBuffer;
use super::beginning;
use super::identity::FileIdentity;
use super::library_lock;
use crate::store::{Object, StoreError};
use crate::volume::ReadError;

/// The minimum age of the last change of a file that is opened: two writes within one tick of the
/// kernel's clock leave the same modification time. Twice the longest tick of Linux.
const CLOCK_TICK: Duration = Duration::from_millis(20);
/// The same for file systems that store whole seconds, or every other second (FAT).
const COARSE_TICK: Duration = Duration::from_secs(2);
/// The maximum number of ticks to wait for a file that goes on changing.
const MAX_WAITS: usize = 5;

/// The maximum number of bytes that [`FileBytes::read_exact_at`] reads by one system call.
const MAX_PER_CALL: usize = 8 << 20;

/// A regular file or an object that is open for reading, and its identity when it was opened.
#[derive(Debug)]
pub(super) struct FileBytes {
    source: ByteSource,
    /// The path of the file, or the public address of the object.
    pub path: Arc<Path>,
    pub identity: FileIdentity,
    /// The greatest length of a growing file so far. `u64::MAX`, which no file reaches, once it has
    /// become shorter or was written anew: from then on it counts as changed.
    greatest_length: AtomicU64,
}

#[derive(Debug)]
enum ByteSource {
    File {
        file: File,
        mapping_slot: MappingSlot,
    },
    Object {
        object: Arc<Object>,
        /// Why the last read of metadata failed. The library reports only that it failed.
        failure: Mutex<Option<StoreError>>,
    },
}

impl FileBytes {
    /// Opens the file at `resolved`, a path without symbolic links. A `growing` file may become
    /// longer and its modification time newer without counting as changed; with `None`, a file is
    /// growing if it is marked as being written in SWMR mode.
    ///
    /// Fails if the path is not, or no longer, that of the opened file, for example because it was
    /// replaced by a symbolic link.
    pub fn open(resolved: &Path, growing: Option<bool>) -> io::Result<Self> {
        let path: Arc<Path> = resolved.into();
        let reading = || stalls::reading(&path, library_lock::is_held_here());
        let mut busy = reading();
        // Checked before it is opened: opening a FIFO or a device can block or have side effects.
        ensure_regular(&resolved.symlink_metadata()?, resolved)?;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(resolved)?;
        let mut metadata = file.metadata()?;
        ensure_regular(&metadata, resolved)?;
        let given_or_marked = || match growing {
            Some(growing) => Ok(growing),
            None => beginning::is_marked_as_written(&|into, at| file.read_at(into, at)),
        };
        let mut is_growing = given_or_marked()?;
        // A file that is known to grow is not waited for. Nor does a thread sleep while it holds
        // the library's lock, which other threads want: it need not, because it then opens only
        // files whose identity was taken before ([`FileBytes::open_as`]).
        let may_sleep = growing != Some(true) && !library_lock::is_held_here();
        let waits = if may_sleep { MAX_WAITS } else { 0 };
        for _ in 0..waits {
            let Some(rest) = rest_of_tick(&metadata) else {
                break;
            };
            // A file that is being written will soon change again, however long it is waited for.
            let longest = if is_growing { CLOCK_TICK } else { COARSE_TICK };
            drop(busy);
            std::thread::sleep(rest.min(longest));
            busy = reading();
            metadata = file.metadata()?;
            // Read after the metadata: a writer that closes the file from now on changes them.
            is_growing = given_or_marked()?;
        }
        let identity = FileIdentity::new(resolved, &metadata).growing_if(is_growing);
        ensure_is_there(&identity)?;
        drop(busy);
        let greatest_length = identity.length().into();
        Ok(Self {
            source: ByteSource::File {
                file,
                mapping_slot: MappingSlot::default(),
            },
            path,
            identity,
            greatest_length,
        })
    }

    /// The bytes of an object.
    pub fn of_object(object: Arc<Object>) -> Self {
        let identity = FileIdentity::of_object(Arc::clone(&object));
        Self {
            path: identity.path().into(),
            identity,
            source: ByteSource::Object {
                object,
                failure: Mutex::default(),
            },
            greatest_length: AtomicU64::default(),
        }
    }

    /// Opens the file with this identity; fails if its path leads to another file, or if it has
    /// changed.
    pub fn open_as(identity: &FileIdentity, growing: bool) -> io::Result<Self> {
        let opened = Self::open(identity.path(), Some(growing))?;
        let identity = identity.clone().growing_if(growing);
        let bytes = Self {
            greatest_length: identity.length().into(),
            identity,
            ..opened
        };
        if bytes.unchanged_length()?.is_none() {
            return Err(changed_error());
        }
        Ok(bytes)
    }

    /// Notes that a growing file was written anew: from now on, it counts as changed.
    pub fn note_rewritten(&self) {
        self.greatest_length.store(u64::MAX, Ordering::SeqCst);
    }

    /// A digest of a range of bytes; `None` if they cannot be read.
    pub fn digest(&self, address: u64, length: u32) -> Option<Fingerprint> {
        let bytes = self.fetch(address, length as usize, "").ok()?;
        Some(Fingerprint::digest(blake3::hash(&bytes).as_bytes()))
    }

    /// The current length of the file, whether or not it has changed.
    pub fn current_length(&self) -> io::Result<u64> {
        match &self.source {
            ByteSource::File { file, .. } => Ok(file.metadata()?.len()),
            ByteSource::Object { object, .. } => Ok(object.length()),
        }
    }

    pub fn is_growing(&self) -> bool {
        self.identity.is_growing()
    }

    /// The current length of the file; fails if it has changed since it was opened. `place` is for
    /// errors.
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
        if needed <= length {
            Ok(())
        } else {
            Err(truncated(place, length, needed))
        }
    }

    /// Fills `into` from a position in the file; `place` is for errors.
    pub fn read_exact_at(
        &self,
        into: &mut [u8],
        position: u64,
        place: &str,
    ) -> Result<(), ReadError> {
        stalls::ensure_answer([&*self.path])?;
        self.ensure_reaches(position.saturating_add(into.len() as u64), place)?;
        let read = match &self.source {
            ByteSource::File { file, .. } => self
                .read_in_pieces(file, into, position)
                .map_err(|e| system(place, &e)),
            ByteSource::Object { object, .. } => {
                let range = position..position + into.len() as u64;
                let fetched = object
                    .fetch(&range)
                    .map_err(|e| ReadError::of_store(place, e));
                fetched.map(|bytes| into.copy_from_slice(&bytes))
            }
        };
        // Checked last: the bytes are valid only if the file did not change during the read.
        self.ensure_unchanged(place)?;
        read
    }

    /// Fills `into` by several system calls, so that a long read from a slow disk does not count as
    /// one that does not return.
    fn read_in_pieces(&self, file: &File, into: &mut [u8], position: u64) -> io::Result<()> {
        for (number, piece) in into.chunks_mut(MAX_PER_CALL).enumerate() {
            let _reading = self.reading();
            file.read_exact_at(piece, position + (number * MAX_PER_CALL) as u64)?;
        }
        Ok(())
    }

    /// Fills `into` from a position in the file, up to the end of the file, and returns the number
    /// of bytes read. Fails if the file has changed since it was opened.
    ///
    /// This is how the library reads. The bytes that it reads of an object are cached, because it
    /// reads the same metadata often.
    pub fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<usize> {
        let file = match &self.source {
            ByteSource::File { file, .. } => file,
            ByteSource::Object { object, failure } => {
                return object.read_metadata(into, position).map_err(|error| {
                    let text = error.to_string();
                    *failure.lock() = Some(error);
                    io::Error::other(text)
                });
            }
        };
        let mut done = 0;
        while done < into.len() {
            let _reading = self.reading();
            match file.read_at(&mut into[done..], position + done as u64) {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.unchanged_length()?.is_none() {
            return Err(changed_error());
        }
        Ok(done)
    }

    /// The object in a store that the bytes come from; `None` for a local file.
    pub fn object(&self) -> Option<&Arc<Object>> {
        match &self.source {
            ByteSource::File { .. } => None,
            ByteSource::Object { object, .. } => Some(object),
        }
    }

    /// Whether the bytes come from a store, so that each read is a request.
    pub fn is_remote(&self) -> bool {
        self.object().is_some()
    }

    /// Why the last read by the library failed, if the store is the reason; `place` is for errors.
    pub fn failure(&self, place: &str) -> Option<ReadError> {
        let ByteSource::Object { failure, .. } = &self.source else {
            return None;
        };
        let failure = failure.lock().take()?;
        Some(ReadError::of_store(place, failure))
    }

    /// Reads ranges of metadata, and returns the bytes of each. The ranges of an object in a store
    /// are fetched together. `place` is for errors.
    pub fn read_many(&self, ranges: &[Range<u64>], place: &str) -> Result<Vec<Bytes>, ReadError> {
        if let Some(object) = self.object() {
            object
                .gather_metadata(ranges)
                .map_err(|e| ReadError::of_store(place, e))?;
        }
        let mut contents = Vec::with_capacity(ranges.len());
        for range in ranges {
            self.ensure_reaches(range.end, place)?;
            let length = range.end.saturating_sub(range.start);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            let read = self
                .read_at(&mut bytes, range.start)
                .map_err(|e| self.failure(place).unwrap_or_else(|| system(place, &e)))?;
            if read < bytes.len() {
                return Err(truncated(place, range.start + read as u64, range.end));
            }
            contents.push(Bytes::from(bytes));
        }
        Ok(contents)
    }

    /// Saves the metadata of an object for the next start of the program.
    pub fn save_metadata(&self) {
        if let Some(object) = self.object() {
            object.save_metadata();
        }
    }

    /// Notes that this thread reads the file.
    fn reading(&self) -> BusyWith {
        stalls::reading(&self.path, library_lock::is_held_here())
    }

    /// The current length; `None` if the file has changed.
    fn unchanged_length(&self) -> io::Result<Option<u64>> {
        let file = match &self.source {
            ByteSource::File { file, .. } => file,
            ByteSource::Object { object, .. } => {
                return Ok(object.is_current().then(|| object.length()));
            }
        };
        let _reading = self.reading();
        // Loaded before the length is taken, which may grow at any time.
        let greatest_before = self.greatest_length.load(Ordering::SeqCst);
        let metadata = file.metadata()?;
        if !self.is_growing() {
            return Ok(self.identity.is_of(&metadata).then_some(metadata.len()));
        }
        let is_same = metadata.len() >= greatest_before && self.identity.is_of_grown(&metadata);
        let unchanged_length = is_same.then_some(metadata.len());
        let greatest_length = unchanged_length.unwrap_or(u64::MAX);
        self.greatest_length
            .fetch_max(greatest_length, Ordering::SeqCst);
        Ok(unchanged_length)
    }
}

/// Fails unless the path still leads to the file of this identity.
fn ensure_is_there(identity: &FileIdentity) -> io::Result<()> {
    let path = identity.path();
    let lies_there = path.canonicalize()? == path;
    let is_same = if identity.is_growing() {
        let there = path.symlink_metadata();
        there.is_ok_and(|there| identity.is_of_grown(&there))
    } else {
        identity.is_current()
    };
    if lies_there && is_same {
        Ok(())
    } else {
        Err(io::Error::other(
            "it changed while it was being opened; try again",
        ))
    }
}

fn ensure_regular(metadata: &std::fs::Metadata, path: &Path) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let other = if metadata.is_dir() {
        beginning::tree_at(path).unwrap_or("a folder")
    } else {
        "a device or pipe"
    };
    Err(io::Error::other(format!(
        "it is not a regular file but {other}; an HDF5 file is expected"
    )))
}

/// The remaining time in which another write would leave the modification time as it is; `None` if
/// that time is over.
fn rest_of_tick(metadata: &std::fs::Metadata) -> Option<Duration> {
    let tick = if metadata.mtime_nsec() == 0 {
        COARSE_TICK
    } else {
        CLOCK_TICK
    };
    // A modification time in the future does not count as recent.
    let age = SystemTime::now()
        .duration_since(metadata.modified().ok()?)
        .ok()?;
    tick.checked_sub(age)
}

fn changed_error() -> io::Error {
    io::Error::other("it has changed since it was opened")
}

/// The error that the file has changed; `place` is the file and the dataset.
pub(super) fn changed(place: &str) -> ReadError {
    ReadError::Changed {
        place: place.to_owned(),
    }
}

/// The error that the file ends at byte `length`, but the wanted data ends at byte `needed`.
pub(super) fn truncated(place: &str, length: u64, needed: u64) -> ReadError {
    ReadError::Truncated {
        place: place.to_owned(),
        length,
        needed,
    }
}

/// The error of a system call.
pub(super) fn system(place: &str, error: &io::Error) -> ReadError {
    ReadError::System {
        place: place.to_owned(),
        problem: error.to_string(),
    }
}

/// Whether a path leads to a regular file, through symbolic links; nothing else must be opened.
pub(super) fn is_regular(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::thread;

    fn opened(bytes: &[u8]) -> (tempfile::TempDir, PathBuf, FileBytes) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap().join("a");
        fs::write(&path, bytes).unwrap();
        let file = FileBytes::open(&path, Some(false)).unwrap();
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
            Err(ReadError::Truncated {
                length: 10,
                needed: 11,
                ..
            })
        ));
        assert_eq!(file.read_at(&mut into, 8).unwrap(), 2);
    }

    #[test]
    fn a_write_right_after_opening_is_seen() {
        for _ in 0..20 {
            let (_place, path, file) = opened(b"0123456789");
            fs::write(&path, b"9876543210").unwrap();
            assert!(matches!(
                file.read_exact_at(&mut [0; 4], 0, "here"),
                Err(ReadError::Changed { .. })
            ));
            assert!(file.read_at(&mut [0; 4], 0).is_err());
        }
    }

    #[test]
    fn a_file_that_is_closed_while_it_is_opened_is_not_taken_for_one_that_is_written() {
        let place = tempfile::tempdir().unwrap();
        for number in 0..40 {
            let path = place
                .path()
                .canonicalize()
                .unwrap()
                .join(number.to_string());
            let superblock = |marks| {
                [
                    b"\x89HDF\r\n\x1a\n\x03\x08\x08".as_slice(),
                    &[marks],
                    &[0; 40],
                ]
                .concat()
            };
            fs::write(&path, superblock(5)).unwrap();
            let closing = thread::spawn({
                let path = path.clone();
                move || {
                    thread::sleep(Duration::from_micros(250 * number));
                    fs::OpenOptions::new()
                        .write(true)
                        .open(path)
                        .unwrap()
                        .write_at(&superblock(0), 0)
                        .unwrap();
                }
            });
            let opened = FileBytes::open(&path, None);
            closing.join().unwrap();
            // It is noticed that it has changed, if it was not closed when it was opened.
            assert!(
                opened.is_err()
                    || opened.is_ok_and(|file| !(file.is_growing() && file.identity.is_current()))
            );
        }
    }

    #[test]
    fn links_and_what_is_no_regular_file_are_not_opened() {
        let (place, path, _) = opened(b"0123456789");
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(FileBytes::open(&link, None).is_err());
        assert!(FileBytes::open(Path::new("/dev/zero"), None).is_err());
        let fifo = place.path().join("fifo");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .unwrap()
                .success()
        );
        assert!(FileBytes::open(&fifo, None).is_err());
    }

    #[test]
    fn the_librarys_lock_is_not_held_while_a_file_that_has_just_changed_is_waited_for() {
        let (_place, path, file) = opened(b"0123456789");
        let identity = file.identity.clone();
        // On a busy machine this thread may be slow, but not each time.
        let is_fast = (0..10).any(|_| {
            let now = SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap();
            let whole = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs());
            fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(whole)
                .unwrap();
            let _library = library_lock::lock().unwrap();
            let began = std::time::Instant::now();
            assert!(
                FileBytes::open_as(&identity, false).is_err(),
                "it has changed"
            );
            began.elapsed() < Duration::from_millis(500)
        });
        assert!(is_fast);
    }

    #[test]
    fn another_file_of_the_same_name_is_not_the_one_that_was_meant() {
        let (place, path, file) = opened(b"0123456789");
        let identity = file.identity.clone();
        assert!(FileBytes::open_as(&identity, false).is_ok());
        fs::write(place.path().join("b"), b"abcdefghij").unwrap();
        fs::rename(place.path().join("b"), &path).unwrap();
        assert!(FileBytes::open_as(&identity, false).is_err());
    }
}
