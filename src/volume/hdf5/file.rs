//! Opened files: one handle each, however many datasets and links lead to them.

use std::cell::Cell;
use std::collections::HashMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::mapping::{Gone, Mapping};
use super::{OpenError, library};
use crate::volume::ReadError;

/// An HDF5 file open for reading, through the library and, for chunks, directly.
#[derive(Debug)]
pub struct StoredFile {
    /// Where it lies, links resolved.
    pub path: PathBuf,
    /// What tells this file, as it is now, from any other and from its later selves.
    pub identity: FileIdentity,
    pub(super) handle: hdf5::File,
    raw: std::fs::File,
    mapping: Mutex<Option<Arc<Mapping>>>,
    mappable: OnceLock<bool>,
}

/// The most that a thread's buffer for stored chunks keeps from one chunk to the next.
const MOST_KEPT: usize = 2 << 20;

/// A file at one moment: if any of this changes, its pixels may have.
///
/// The number of its device is left out. It tells nothing that path and inode do not, and it may be another one after the
/// machine was started again, or on another machine that mounts the same disk: tiles that were kept would be lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    path: PathBuf,
    inode: u64,
    length: u64,
    modified_seconds: i64,
    modified_nanoseconds: i64,
}

impl FileIdentity {
    /// The file at a path, of whatever kind, as it is now.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let resolved = path.canonicalize()?;
        let about = resolved.metadata()?;
        Ok(Self::new(resolved, &about))
    }

    /// Where the file lies, links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file that lies there is still this one.
    pub fn is_current(&self) -> bool {
        self.path.metadata().is_ok_and(|about| Self::new(self.path.clone(), &about) == *self)
    }

    /// Has the system forget what it keeps of the file in memory: all but what is mapped.
    pub(super) fn forget_pages(&self) -> std::io::Result<()> {
        let file = std::fs::File::open(&self.path)?;
        // Pages that have yet to be written stay; where nothing can be written there are none.
        let _ = file.sync_data();
        forget(&file)
    }

    fn new(path: PathBuf, about: &std::fs::Metadata) -> Self {
        Self {
            path,
            inode: about.ino(),
            length: about.len(),
            modified_seconds: about.mtime(),
            modified_nanoseconds: about.mtime_nsec(),
        }
    }
}

#[cfg(target_os = "linux")]
fn forget(file: &std::fs::File) -> std::io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

#[cfg(not(target_os = "linux"))]
fn forget(_file: &std::fs::File) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

impl StoredFile {
    fn open(path: PathBuf) -> Result<Self, OpenError> {
        let unreadable = |problem: String| OpenError::File { path: path.clone(), problem };
        let about = path.metadata().map_err(|e| unreadable(e.to_string()))?;
        // Asked before it is opened: a pipe would keep us waiting.
        if !about.is_file() {
            return Err(unreadable("it is not a regular file".to_owned()));
        }
        let handle = library::open_file(&path).map_err(|e| unreadable(not_hdf5(&about, &e)))?;
        let raw = std::fs::File::open(&path).map_err(|e| unreadable(e.to_string()))?;
        let identity = FileIdentity::new(path.clone(), &about);
        let (mapping, mappable) = (Mutex::default(), OnceLock::new());
        Ok(Self { path, identity, handle, raw, mapping, mappable })
    }

    /// The folder that the file's own links may lead into.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Reads `length` bytes at a position of the file into the thread's buffer, and lends them to `work`; `place` is for
    /// the error.
    pub(super) fn read_at<T>(
        &self,
        address: u64,
        length: usize,
        place: &str,
        work: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, ReadError> {
        thread_local! {
            // Kept: memory that is touched for the first time costs more than the read.
            static STORED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        self.ensure_reaches(address.saturating_add(length as u64), place)?;
        let mut stored = STORED.take();
        if stored.len() < length {
            stored.resize(length, 0);
        }
        let read = self.raw.read_exact_at(&mut stored[..length], address).map_err(|e| system(place, &e));
        let result = read.map(|()| work(&stored[..length]));
        // A chunk of unusual size does not stay.
        stored.truncate(MOST_KEPT);
        stored.shrink_to(MOST_KEPT);
        STORED.set(stored);
        result
    }

    /// Whether its bytes can be had as memory; not so on some odd file systems.
    pub(super) fn can_be_mapped(&self) -> bool {
        *self.mappable.get_or_init(|| self.mapped(0).is_ok())
    }

    /// The file's bytes as they are now, to copy from; `place` is for errors.
    ///
    /// The file is asked for its length now and at the end, not for every piece: a tile may be made of 64.
    pub(super) fn borrow(&self, place: String) -> Result<Loan<'_>, ReadError> {
        let length = self.length(&place)?;
        Ok(Loan { file: self, length, reached: Cell::new(0), place })
    }

    /// Gives the mapping up; the next one who needs it makes a new one.
    pub(super) fn unmap(&self) {
        *self.mapping.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The file as memory, at least up to `end`.
    fn mapped(&self, end: u64) -> std::io::Result<Arc<Mapping>> {
        let mut mapping = self.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapping) = mapping.as_ref().filter(|mapping| mapping.length() >= end) {
            return Ok(Arc::clone(mapping));
        }
        let fresh = Arc::new(Mapping::new(&self.raw, self.raw.metadata()?.len())?);
        *mapping = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// The length of the file as it is now.
    fn length(&self, place: &str) -> Result<u64, ReadError> {
        Ok(self.raw.metadata().map_err(|e| system(place, &e))?.len())
    }

    /// Fails where the file, as it is now, ends before `needed`: the library would hand out zeros.
    pub(super) fn ensure_reaches(&self, needed: u64, place: &str) -> Result<(), ReadError> {
        reaches(needed, self.length(place)?, place)
    }
}

/// The bytes of a file, from which pieces are copied one after the other.
pub(super) struct Loan<'a> {
    file: &'a StoredFile,
    /// The length of the file before.
    length: u64,
    /// Where the furthest piece ends.
    reached: Cell<u64>,
    place: String,
}

impl Loan<'_> {
    /// More bytes than the system brings by itself where one of them is touched.
    const ANNOUNCED: usize = 64 << 10;

    /// Lends `length` bytes at a position of the file to `work`, which copies what it wants of them; `whole` says that
    /// this is most of them. What it returned is thrown away where bytes turn out to be missing.
    pub fn lend<T>(
        &self,
        address: u64,
        length: usize,
        whole: bool,
        work: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, ReadError> {
        let end = address.saturating_add(length as u64);
        reaches(end, self.length, &self.place)?;
        self.reached.set(self.reached.get().max(end));
        let mapping = self.file.mapped(end).map_err(|e| system(&self.place, &e))?;
        let range = address as usize..end as usize;
        if whole && length > Self::ANNOUNCED {
            mapping.announce(&range);
        }
        mapping.lend(range, work).map_err(|Gone| {
            // The next one gets a mapping of the file as it is then.
            self.file.unmap();
            let shorter = self.ensure_still_there().err();
            shorter.unwrap_or_else(|| ReadError::System {
                place: self.place.clone(),
                problem: "its bytes could not be read from the disk".to_owned(),
            })
        })
    }

    /// Fails where the file ends before what was copied. To be asked at last: the rest of the last page of a file that was
    /// cut off meanwhile reads as zeros, without any signal.
    pub fn ensure_still_there(&self) -> Result<(), ReadError> {
        self.file.ensure_reaches(self.reached.get(), &self.place)
    }
}

fn reaches(needed: u64, length: u64, place: &str) -> Result<(), ReadError> {
    if needed <= length {
        Ok(())
    } else {
        Err(ReadError::Truncated { place: place.to_owned(), length, needed })
    }
}

fn system(place: &str, error: &std::io::Error) -> ReadError {
    ReadError::System { place: place.to_owned(), problem: error.to_string() }
}

fn not_hdf5(about: &std::fs::Metadata, error: &hdf5::Error) -> String {
    if about.len() == 0 {
        return "it is empty; an HDF5 file is expected".to_owned();
    }
    format!("it cannot be opened as an HDF5 file ({error})")
}

/// Every file that is open, by its resolved path, and those that must not be.
#[derive(Debug)]
pub struct Files {
    open: Mutex<HashMap<PathBuf, Arc<StoredFile>>>,
    refused: HashMap<PathBuf, String>,
    most: usize,
}

impl Default for Files {
    fn default() -> Self {
        Self { open: Mutex::default(), refused: HashMap::new(), most: usize::MAX }
    }
}

impl Files {
    /// No file is open yet; those named here are never opened, for the reason that stands beside them.
    pub fn refusing(refused: impl IntoIterator<Item = (PathBuf, String)>) -> Self {
        let resolved = |(path, why): (PathBuf, String)| (path.canonicalize().unwrap_or(path), why);
        Self { refused: refused.into_iter().map(resolved).collect(), ..Self::default() }
    }

    /// The same, of which at most so many are open at once. Each takes two of the process's descriptors.
    pub fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Opens a file, or finds it open.
    pub fn open(&self, path: &Path) -> Result<Arc<StoredFile>, OpenError> {
        let resolved = path
            .canonicalize()
            .map_err(|e| OpenError::File { path: path.to_owned(), problem: e.to_string() })?;
        if let Some(why) = self.refused.get(&resolved) {
            return Err(OpenError::File { path: resolved, problem: why.clone() });
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&resolved) {
            return Ok(Arc::clone(file));
        }
        if open.len() >= self.most {
            // Time points that nobody looks at can be opened again.
            open.retain(|_, file| Arc::strong_count(file) > 1);
        }
        if open.len() >= self.most {
            let most = self.most;
            let problem = format!(
                "{most} other files are open, more than which the system does not allow; raise its limit (`ulimit -n`), or \
                 serve fewer files"
            );
            return Err(OpenError::File { path: resolved, problem });
        }
        let file = Arc::new(StoredFile::open(resolved.clone())?);
        open.insert(resolved, Arc::clone(&file));
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, SystemTime};

    fn touch(path: &Path, seconds: u64) {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn a_file_that_is_left_alone_stays_itself_and_one_that_is_edited_or_replaced_does_not() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("a.h5"), place.path().join("b.h5"));
        fs::write(&path, "one").unwrap();
        touch(&path, 1000);
        let identity = FileIdentity::of(&path).unwrap();
        assert!(identity.is_current());
        assert_eq!(
            FileIdentity::of(&place.path().join("../").join(place.path()).join("a.h5")).unwrap(),
            identity
        );
        // Edited in place; put back as it was.
        fs::write(&path, "two").unwrap();
        assert!(!identity.is_current());
        touch(&path, 1000);
        assert!(identity.is_current(), "by its time alone an edit is known");
        // Replaced by a file of the same length and time.
        fs::write(&other, "ten").unwrap();
        touch(&other, 1000);
        fs::rename(&other, &path).unwrap();
        assert!(!identity.is_current());
        fs::remove_file(&path).unwrap();
        assert!(!identity.is_current());
    }
}
