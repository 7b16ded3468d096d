//! Opened files: one handle each, however many datasets and links lead to them.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::admission::Admission;
use super::bytes::{FileBytes, system, truncated};
use super::identity::FileIdentity;
use super::mapping::{Gone, Mapping};
use super::{OpenError, library};
use crate::volume::ReadError;

/// An HDF5 file open for reading, through the library and, for chunks, directly.
#[derive(Debug)]
pub struct StoredFile {
    /// Where it lies, links resolved.
    pub path: PathBuf,
    pub(super) handle: hdf5::File,
    pub(super) admission: Arc<Admission>,
    bytes: Arc<FileBytes>,
    mapping: Mutex<Option<Arc<Mapping>>>,
    mappable: OnceLock<bool>,
}

/// The most that a thread's buffer for stored chunks keeps from one chunk to the next.
const MOST_KEPT: usize = 2 << 20;

impl StoredFile {
    fn open(path: PathBuf, growing: bool) -> Result<Self, OpenError> {
        let unreadable = |problem: String| OpenError::File { path: path.clone(), problem };
        let bytes = FileBytes::open(path.clone(), growing).map_err(|e| unreadable(e.to_string()))?;
        let bytes = Arc::new(bytes);
        let admission = Admission::of(Arc::clone(&bytes));
        let handle = library::open_file(&admission).map_err(|e| unreadable(not_hdf5(&bytes, &e)))?;
        let (mapping, mappable) = (Mutex::default(), OnceLock::new());
        Ok(Self { path, handle, admission, bytes, mapping, mappable })
    }

    /// What tells this file, as it was when it was opened, from any other and from its later states.
    pub fn identity(&self) -> &FileIdentity {
        self.bytes.identity()
    }

    /// Whether somebody may be appending to it.
    pub(super) fn is_growing(&self) -> bool {
        self.bytes.is_growing()
    }

    /// Fails where the file has changed since it was opened; `place` is for the error.
    pub(super) fn ensure_unchanged(&self, place: &str) -> Result<(), ReadError> {
        self.bytes.ensure_unchanged(place)
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
        let mut stored = STORED.take();
        if stored.len() < length {
            stored.resize(length, 0);
        }
        let read = self.bytes.read_exact_at(&mut stored[..length], address, place);
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
        let length = self.bytes.length(&place)?;
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
        let file = self.bytes.file();
        let fresh = Arc::new(Mapping::new(file, file.metadata()?.len())?);
        *mapping = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// Fails where the file has changed, or ends before `needed`.
    pub(super) fn ensure_reaches(&self, needed: u64, place: &str) -> Result<(), ReadError> {
        self.bytes.ensure_reaches(needed, place)
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
        if end > self.length {
            return Err(truncated(&self.place, self.length, end));
        }
        self.reached.set(self.reached.get().max(end));
        let mapping = self.file.mapped(end).map_err(|e| system(&self.place, &e))?;
        let range = address as usize..end as usize;
        if whole && length > Self::ANNOUNCED {
            mapping.announce(&range);
        }
        mapping.lend(range, work).map_err(|Gone| {
            // The next one gets a mapping of the file as it is then.
            self.file.unmap();
            let changed = self.ensure_still_there().err();
            changed.unwrap_or_else(|| ReadError::System {
                place: self.place.clone(),
                problem: "its bytes could not be read from the disk".to_owned(),
            })
        })
    }

    /// Fails where the file has changed, or ends before what was copied. To be asked last: the rest of the last page of a
    /// file that was truncated meanwhile reads as zeros, without any signal.
    pub fn ensure_still_there(&self) -> Result<(), ReadError> {
        self.file.ensure_reaches(self.reached.get(), &self.place)
    }
}

fn not_hdf5(bytes: &FileBytes, error: &hdf5::Error) -> String {
    if bytes.identity().length() == 0 {
        return "it is empty; an HDF5 file is expected".to_owned();
    }
    format!("it cannot be opened as an HDF5 file ({error})")
}

/// Every file that is open, by its resolved path, and those that must not be.
#[derive(Debug)]
pub struct Files {
    open: Mutex<HashMap<(PathBuf, bool), Arc<StoredFile>>>,
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

    /// The same, of which at most so many are open at once. Each takes one of the process's descriptors.
    pub fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Opens a file, or finds it open in its current state. `growing` says that somebody may be appending to it.
    pub fn open(&self, path: &Path, growing: bool) -> Result<Arc<StoredFile>, OpenError> {
        let resolved = path
            .canonicalize()
            .map_err(|e| OpenError::File { path: path.to_owned(), problem: e.to_string() })?;
        self.open_resolved(resolved, growing)
    }

    /// Has these files opened anew when they are asked for next, also those that have not changed: what they name may have.
    pub fn forget<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) {
        let paths: HashSet<&Path> = paths.into_iter().collect();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(path, _), _| !paths.contains(path.as_path()));
    }

    /// The same for a path without symbolic links, of which none is followed.
    pub(super) fn open_resolved(
        &self,
        resolved: PathBuf,
        growing: bool,
    ) -> Result<Arc<StoredFile>, OpenError> {
        if let Some(why) = self.refused.get(&resolved) {
            return Err(OpenError::File { path: resolved, problem: why.clone() });
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (resolved, growing);
        if let Some(file) = open.get(&key) {
            if file.identity().is_current() {
                return Ok(Arc::clone(file));
            }
            open.remove(&key);
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
            return Err(OpenError::File { path: key.0, problem });
        }
        let file = Arc::new(StoredFile::open(key.0.clone(), growing)?);
        open.insert(key, Arc::clone(&file));
        Ok(file)
    }
}
