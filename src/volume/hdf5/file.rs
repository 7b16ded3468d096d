//! Opened files: one handle each, however many datasets and links lead to them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    open: Mutex<HashMap<(PathBuf, bool), Slot>>,
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
        let slot = self.slot((resolved.clone(), growing))?;
        // Held while the file is opened, which may take long; other files are opened in the meantime.
        let mut file = slot.lock();
        if let Some(file) = file.as_ref().filter(|file| file.identity().is_current()) {
            return Ok(Arc::clone(file));
        }
        *file = None;
        let opened = Arc::new(StoredFile::open(resolved, growing)?);
        *file = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The place of a file among those that are open; an error if too many are.
    fn slot(&self, key: (PathBuf, bool)) -> Result<Slot, OpenError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = open.get(&key) {
            return Ok(slot.clone());
        }
        if open.len() >= self.most {
            // Files that no volume uses, such as those of time points that were read long ago, can be opened again.
            open.retain(|_, slot| slot.is_in_use());
        }
        if open.len() >= self.most {
            let most = self.most;
            let problem = format!(
                "{most} other files are open, more than which the system does not allow; raise its limit (`ulimit -n`), or \
                 serve fewer files"
            );
            return Err(OpenError::File { path: key.0, problem });
        }
        Ok(open.entry(key).or_default().clone())
    }
}

/// The place of one file among those that are open: empty until it has been opened.
#[derive(Debug, Clone, Default)]
struct Slot(Arc<Mutex<Option<Arc<StoredFile>>>>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<StoredFile>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the file is being opened, or a volume reads it.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.0) > 1 || self.lock().as_ref().is_some_and(|file| Arc::strong_count(file) > 1)
    }
}
