//! Which files the HDF5 library may open on behalf of one file: that file itself, and those that its datasets name and
//! that were found allowed.
//!
//! The library opens the sources of virtual datasets by itself, by name, when they are first read. Its file driver
//! ([`super::library`]) asks here for every name, and gets the very file that was audited or none: what an attacker
//! puts in its place later is not opened.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::bytes::FileBytes;
use super::identity::FileIdentity;

/// The files that the library may open for one file.
#[derive(Debug)]
pub(super) struct Admission {
    number: u64,
    own: Arc<FileBytes>,
    others: Mutex<HashMap<PathBuf, FileIdentity>>,
    /// How often a file that was admitted could not be opened.
    failures: AtomicU64,
}

type Known = Mutex<BTreeMap<u64, Weak<Admission>>>;

/// Every admission by its number, which is all that the library's property lists hold of it.
static KNOWN: Known = Mutex::new(BTreeMap::new());

impl Admission {
    /// Admits a file for itself.
    pub fn of(own: Arc<FileBytes>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let admission = Arc::new(Self { number, own, others: Mutex::default(), failures: AtomicU64::new(0) });
        locked(&KNOWN).insert(number, Arc::downgrade(&admission));
        admission
    }

    /// The admission of that number, while there is one.
    pub fn numbered(number: u64) -> Option<Arc<Self>> {
        locked(&KNOWN).get(&number)?.upgrade()
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// The file itself.
    pub fn own(&self) -> &Arc<FileBytes> {
        &self.own
    }

    /// Admits a file under a name: the path that the library will make of what the file says.
    pub fn admit(&self, name: PathBuf, identity: FileIdentity) {
        locked(&self.others).insert(name, identity);
    }

    /// Opens what the library asks for by name; fails for what was not admitted, or is another file by now.
    pub fn open(&self, name: &Path) -> io::Result<Arc<FileBytes>> {
        if name == self.own.identity().path() {
            return Ok(Arc::clone(&self.own));
        }
        let identity = locked(&self.others).get(name).cloned();
        let identity = identity.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        // Never as a growing file: what was appended to it has not been audited.
        let opened = FileBytes::open_as(&identity, false).map(Arc::new);
        if opened.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        opened
    }

    /// How often a file that was admitted could not be opened. The library takes such a file for missing, and shows the
    /// fill value in its place.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        locked(&KNOWN).remove(&self.number);
    }
}

/// A poisoned lock is taken as it is: nothing panics while it is held half-changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let admission = Admission::of(Arc::new(FileBytes::open(path("own"), false).unwrap()));
        admission.admit(path("part"), FileIdentity::of(&path("part")).unwrap());
        assert!(admission.open(&path("own")).is_ok() && admission.open(&path("./part")).is_ok());
        assert!(admission.open(&path("other")).is_err());
        fs::remove_file(path("part")).unwrap();
        std::os::unix::fs::symlink(path("other"), path("part")).unwrap();
        assert!(admission.open(&path("part")).is_err());
        let number = admission.number();
        assert!(Admission::numbered(number).is_some());
        drop(admission);
        assert!(Admission::numbered(number).is_none());
    }
}
