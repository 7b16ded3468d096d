//! The allow-list of files that the HDF5 library may open on behalf of one file: the file itself,
//! and the files that its datasets refer to and that passed the audit.
//!
//! The library opens the sources of virtual datasets by name when they are first read. Our file
//! driver ([`super::library`]) looks up every name here and opens exactly the file that was
//! audited, or none: a file that replaces it later is not opened.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::bytes::FileBytes;
use super::identity::FileIdentity;

/// The allow-list of one file.
#[derive(Debug)]
pub(super) struct Admission {
    pub number: u64,
    /// The file itself.
    pub own: Arc<FileBytes>,
    /// The other files that may be opened, by the path with which the library opens each.
    others: Mutex<HashMap<PathBuf, FileIdentity>>,
    failures: AtomicU64,
}

/// All admissions by number; the library's property lists contain only the number.
static KNOWN: Mutex<BTreeMap<u64, Weak<Admission>>> = Mutex::new(BTreeMap::new());

impl Admission {
    /// A list that contains only the file itself.
    pub fn new(own: Arc<FileBytes>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let admission = Arc::new(Self {
            number,
            own,
            others: Mutex::default(),
            failures: AtomicU64::new(0),
        });
        KNOWN.lock().insert(number, Arc::downgrade(&admission));
        admission
    }

    /// Looks up an admission; `None` once it has been dropped.
    pub fn numbered(number: u64) -> Option<Arc<Self>> {
        KNOWN.lock().get(&number)?.upgrade()
    }

    /// Admits a file under `name`, the path with which the library will open it.
    pub fn admit(&self, name: PathBuf, identity: FileIdentity) {
        self.others.lock().insert(name, identity);
    }

    /// Opens a file by the name that the library uses; fails if it was not admitted or has changed
    /// since.
    pub fn open(&self, name: &Path) -> io::Result<Arc<FileBytes>> {
        if name == &*self.own.path {
            return Ok(Arc::clone(&self.own));
        }
        let identity = self.others.lock().get(name).cloned();
        let identity = identity.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        // Not as a growing file, because appended data has not been audited.
        let opened = FileBytes::open_as(&identity, false).map(Arc::new);
        if opened.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        opened
    }

    /// How often an admitted file could not be opened. The library then takes the file for missing
    /// and returns the fill value for its voxels.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        KNOWN.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_what_was_admitted_is_opened_and_nothing_in_its_place() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        let path = |name: &str| folder.join(name);
        for name in ["own", "part", "other"] {
            fs::write(path(name), name).unwrap();
        }
        let admission = Admission::new(Arc::new(FileBytes::open(&path("own"), None).unwrap()));
        admission.admit(path("part"), FileIdentity::of_path(&path("part")).unwrap());
        assert!(admission.open(&path("own")).is_ok() && admission.open(&path("./part")).is_ok());
        assert!(admission.open(&path("other")).is_err());
        fs::remove_file(path("part")).unwrap();
        std::os::unix::fs::symlink(path("other"), path("part")).unwrap();
        assert!(admission.open(&path("part")).is_err());
        let number = admission.number;
        assert!(Admission::numbered(number).is_some());
        drop(admission);
        assert!(Admission::numbered(number).is_none());
    }
}
