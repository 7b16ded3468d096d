//! Open files: one handle each, shared by all datasets in a file and all links to it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::admission::Admission;
use super::bytes::FileBytes;
use super::identity::FileIdentity;
use super::{OpenError, library};

/// An HDF5 file open for reading, through the library and directly.
#[derive(Debug)]
pub struct StoredFile {
    /// Its path, with symbolic links resolved.
    pub path: PathBuf,
    pub(super) handle: hdf5::File,
    /// The files that the library may open on its behalf.
    pub(super) admission: Arc<Admission>,
    /// Its bytes, for direct reads and for the library's file driver.
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

    /// Identifies the file and its generation, as it was when it was opened.
    pub fn identity(&self) -> &FileIdentity {
        self.bytes.identity()
    }

    /// The folder that contains the file; links must stay below it.
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

/// The open files, and those that must not be opened.
#[derive(Debug)]
pub struct Files {
    /// By resolved path, and whether the file may be growing.
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
    /// No open files. `refused` lists files that must not be opened, each with the reason for the error.
    pub fn refusing(refused: impl IntoIterator<Item = (PathBuf, String)>) -> Self {
        let resolved = |(path, why): (PathBuf, String)| (path.canonicalize().unwrap_or(path), why);
        Self { refused: refused.into_iter().map(resolved).collect(), ..Self::default() }
    }

    /// Limits the number of files that are open at once.
    pub fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Opens a file, unless it is open in its current generation. `growing` if it may be appended to while it is open.
    pub fn open(&self, path: &Path, growing: bool) -> Result<Arc<StoredFile>, OpenError> {
        let resolved = path
            .canonicalize()
            .map_err(|e| OpenError::File { path: path.to_owned(), problem: e.to_string() })?;
        self.open_resolved(resolved, growing)
    }

    /// Removes these files, changed or not, so that they are opened again when next needed: files that they refer to may
    /// have changed.
    pub fn forget<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) {
        let paths: HashSet<&Path> = paths.into_iter().collect();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(path, _), _| !paths.contains(path.as_path()));
    }

    /// Like [`Files::open`], for a path without symbolic links; follows none.
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
            // Files without users, such as those of time points not shown recently, can be opened again.
            open.retain(|_, file| Arc::strong_count(file) > 1);
        }
        if open.len() >= self.most {
            let most = self.most;
            let problem = format!(
                "{most} other files are open, which is the limit; raise the limit of open files (`ulimit -n`), or serve \
                 fewer files"
            );
            return Err(OpenError::File { path: key.0, problem });
        }
        let file = Arc::new(StoredFile::open(key.0.clone(), growing)?);
        open.insert(key, Arc::clone(&file));
        Ok(file)
    }
}
