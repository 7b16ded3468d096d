//! Opened files: one handle each, however many datasets and links lead to them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::admission::Admission;
use super::bytes::FileBytes;
use super::identity::FileIdentity;
use super::{OpenError, library};

/// An HDF5 file open for reading, through the library and, for chunks, directly.
#[derive(Debug)]
pub struct StoredFile {
    /// Where it lies, links resolved.
    pub path: PathBuf,
    pub(super) handle: hdf5::File,
    pub(super) admission: Arc<Admission>,
    /// Its bytes, which voltile's own threads read.
    pub(super) bytes: Arc<FileBytes>,
}

impl StoredFile {
    fn open(path: PathBuf, growing: bool) -> Result<Self, OpenError> {
        let unreadable = |problem: String| OpenError::File { path: path.clone(), problem };
        let bytes = FileBytes::open(path.clone(), growing).map_err(|e| unreadable(e.to_string()))?;
        let bytes = Arc::new(bytes);
        let admission = Admission::of(Arc::clone(&bytes));
        let handle = library::open_file(&admission).map_err(|e| unreadable(not_hdf5(&bytes, &e)))?;
        Ok(Self { path, handle, admission, bytes })
    }

    /// What tells this file, as it was when it was opened, from any other and from its later states.
    pub fn identity(&self) -> &FileIdentity {
        self.bytes.identity()
    }

    /// The folder that the file's own links may lead into.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
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
