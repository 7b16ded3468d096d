//! Opened files: one handle each, however many datasets and links lead to them.

use std::collections::HashMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
}

/// A file at one moment: if any of this changes, its pixels may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
    length: u64,
    modified_seconds: i64,
    modified_nanoseconds: i64,
}

impl FileIdentity {
    /// The file at a path, of whatever kind, as it is now.
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        let resolved = path.canonicalize()?;
        let about = resolved.metadata()?;
        Ok(Self::new(resolved, &about))
    }

    fn new(path: PathBuf, about: &std::fs::Metadata) -> Self {
        Self {
            path,
            device: about.dev(),
            inode: about.ino(),
            length: about.len(),
            modified_seconds: about.mtime(),
            modified_nanoseconds: about.mtime_nsec(),
        }
    }
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
        Ok(Self { path, identity, handle, raw })
    }

    /// The folder that the file's own links may lead into.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Reads `length` bytes at a position of the file; `place` is for the error.
    pub(super) fn read_at(&self, address: u64, length: usize, place: &str) -> Result<Vec<u8>, ReadError> {
        self.ensure_reaches(address.saturating_add(length as u64), place)?;
        let mut bytes = vec![0; length];
        self.raw.read_exact_at(&mut bytes, address).map_err(|e| system(place, &e))?;
        Ok(bytes)
    }

    /// Fails where the file, as it is now, ends before `needed`: the library would hand out zeros.
    pub(super) fn ensure_reaches(&self, needed: u64, place: &str) -> Result<(), ReadError> {
        let length = self.raw.metadata().map_err(|e| system(place, &e))?.len();
        if needed <= length {
            Ok(())
        } else {
            Err(ReadError::Truncated { place: place.to_owned(), length, needed })
        }
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

/// Every file that is open, by its resolved path.
#[derive(Debug, Default)]
pub struct Files {
    open: Mutex<HashMap<PathBuf, Arc<StoredFile>>>,
}

impl Files {
    /// Opens a file, or finds it open.
    pub fn open(&self, path: &Path) -> Result<Arc<StoredFile>, OpenError> {
        let resolved = path
            .canonicalize()
            .map_err(|e| OpenError::File { path: path.to_owned(), problem: e.to_string() })?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&resolved) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(StoredFile::open(resolved.clone())?);
        open.insert(resolved, Arc::clone(&file));
        Ok(file)
    }
}
