//! Open files: one descriptor each, shared by all datasets in a file and all links to it.
//!
//! A file is closed when the last dataset in it is closed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use voltile_base::flow::stalls;
use voltile_base::tile::Fingerprint;

use super::admission::Admission;
use super::beginning;
use super::bytes::FileBytes;
use super::digests::Digests;
use super::handles::{LazyHandles, RecentFiles};
use super::identity::FileIdentity;
use super::{OpenError, library_lock};
use crate::store::{Location, Store};

/// An HDF5 file open for reading, through the library and directly.
#[derive(Debug)]
pub struct StoredFile {
    /// Where it is, with symbolic links resolved.
    pub location: Location,
    /// The notice that its end is missing, if it is.
    pub(super) truncation: Option<String>,
    /// The files that the library may open on its behalf.
    pub(super) admission: Arc<Admission>,
    /// Its bytes, for direct reads and for the library's file driver.
    pub(super) bytes: Arc<FileBytes>,
    /// Chunks of a growing file that have been read and that its writer will not write again: the
    /// length and the digest of each, by address. If one of them differs, the file was written
    /// anew.
    landmarks: Mutex<BTreeMap<u64, (u32, Fingerprint)>>,
    /// Dropped last: it has the file closed, and the descriptor with it.
    pub(super) handles: LazyHandles,
}

impl StoredFile {
    /// Opens a file. `before` is the file as it was open until now; if it has only grown since, the
    /// landmarks and the identity continue.
    fn open(
        location: Location,
        growing: Option<bool>,
        before: Option<&Self>,
        files: &Files,
    ) -> Result<Arc<Self>, OpenError> {
        let mut bytes = files
            .identified(&location, growing)
            .map_err(|e| OpenError::file(&location, e.to_string()))?;
        let before = before.filter(|before| bytes.is_growing() && before.has_grown_to(&bytes));
        let landmarks = before.map(Self::first_and_last_landmark);
        bytes.identity = bytes.identity.continuing(before.map(Self::identity));
        let bytes = Arc::new(bytes);
        let admission = Admission::new(Arc::clone(&bytes));
        let handles = LazyHandles::open(&admission, bytes.is_growing(), &files.recent);
        let handles =
            handles.map_err(|e| OpenError::file(&location, why_unreadable(&bytes, &e)))?;
        Ok(Arc::new(Self {
            location,
            truncation: truncation(&bytes),
            handles,
            admission,
            bytes,
            landmarks: Mutex::new(landmarks.unwrap_or_default()),
        }))
    }

    /// Whether `now` is this file and has only grown: it was never shorter, and its first and its
    /// last landmark are there. A file that was written anew may have chunks of the same lengths at
    /// the same addresses, but not the same data.
    pub(super) fn has_grown_to(&self, now: &FileBytes) -> bool {
        if !now.identity.has_grown_from(self.identity()) || self.bytes.ensure_unchanged("").is_err()
        {
            return false;
        }
        let landmarks = self.first_and_last_landmark();
        landmarks
            .iter()
            .all(|(address, (length, digest))| now.digest(*address, *length) == Some(*digest))
    }

    fn first_and_last_landmark(&self) -> BTreeMap<u64, (u32, Fingerprint)> {
        let all = self.landmarks.lock();
        let outer = [all.first_key_value(), all.last_key_value()];
        let outer = outer.into_iter().flatten();
        outer.map(|(address, chunk)| (*address, *chunk)).collect()
    }

    /// Compares a chunk that will not be written again with the landmark at its address, or makes
    /// it one. If they differ, the file was written anew, and counts as changed from now on.
    pub(super) fn compare_landmark(&self, address: u64, length: u32, digest: Fingerprint) {
        let chunk = (length, digest);
        let known = *self.landmarks.lock().entry(address).or_insert(chunk);
        if known != chunk {
            self.bytes.note_rewritten();
        }
    }

    /// Whether it is an object in a store.
    pub fn is_remote(&self) -> bool {
        self.bytes.is_remote()
    }

    /// The identity of the file when it was opened.
    pub fn identity(&self) -> &FileIdentity {
        &self.bytes.identity
    }

    /// The folder that contains a file in the file system; links must stay below it.
    pub fn folder(&self) -> &Path {
        self.location.as_path().parent().unwrap_or(Path::new("/"))
    }
}

/// Why the library could not open a file.
fn why_unreadable(bytes: &FileBytes, error: &hdf5::Error) -> String {
    if let Some(failure) = bytes.failure("its metadata") {
        return failure.to_string();
    }
    let read = |into: &mut [u8], at| bytes.read_at(into, at);
    if let Some(reason) = beginning::why_foreign(&read, bytes.identity.length()) {
        return reason;
    }
    if beginning::is_open_elsewhere(&read) {
        return OPEN_ELSEWHERE.to_owned();
    }
    truncation(bytes).unwrap_or_else(|| format!("it cannot be opened as an HDF5 file ({error})"))
}

/// Why a file that is marked as being written, and not in SWMR mode, cannot be opened.
const OPEN_ELSEWHERE: &str = "it is being written by a program that does not let others read meanwhile; it is served when \
    that program has closed it, or if it writes in SWMR mode. If no program writes it, the last one has crashed: remove the \
    mark with `h5clear -s`";

/// The notice that a file ends before the end that its superblock states; `None` if it does not, or
/// if it is growing.
///
/// The library would refuse to open a file that is too short, but our file driver does not tell it
/// the length ([`super::library`]).
fn truncation(bytes: &FileBytes) -> Option<String> {
    if bytes.is_growing() {
        return None;
    }
    let length = bytes.current_length().ok()?;
    let read = |into: &mut [u8], at| bytes.read_at(into, at);
    let end = beginning::stated_end(&read, length)?;
    if end <= length {
        return None;
    }
    let missing = end - length;
    if beginning::is_of_family(&read) {
        return Some(format!(
            "the file is the first of a family of files that HDF5's family driver wrote, {missing} bytes are in the \
             others: join them with `h5repart -family_to_single FAMILY_%d.h5 ONE.h5`"
        ));
    }
    Some(format!(
        "the file is incomplete, as it ends at byte {length} and not, as its superblock says, at byte {end}: {missing} \
         bytes are missing. It was truncated, or is still being copied or written: copy it again"
    ))
}

/// The resolved location of a file, and whether it is growing, if that is known.
type FileKey = (Location, Option<bool>);

/// The open files, and the files that must not be opened.
#[derive(Debug)]
pub struct Files {
    store: Store,
    open: Mutex<HashMap<FileKey, Arc<FileSlot>>>,
    /// The reasons why files must not be opened, by resolved location.
    refused: Mutex<HashMap<Location, String>>,
    /// The maximum number of open files.
    max_open: usize,
    /// Makes keys from the contents of files; `None`: keys are made from paths and times.
    digests: Option<Digests>,
    recent: Arc<RecentFiles>,
    /// The files that stay open while a catalogue is being opened.
    held: Mutex<Weak<HeldFiles>>,
}

/// Files that stay open as long as this exists, whether or not they are in use.
#[derive(Debug, Default)]
pub struct HeldFiles(Mutex<Vec<Arc<StoredFile>>>);

impl Default for Files {
    fn default() -> Self {
        Self::new(Store::default())
    }
}

impl Files {
    /// No open files; objects will be read from this store.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            open: Mutex::default(),
            refused: Mutex::default(),
            max_open: usize::MAX,
            digests: None,
            recent: Arc::default(),
            held: Mutex::default(),
        }
    }

    /// Saves the metadata that was read from objects in stores, for the next start of the program.
    pub fn save_metadata(&self) {
        let slots: Vec<Arc<FileSlot>> = self.open.lock().values().cloned().collect();
        for file in slots.iter().filter_map(|slot| slot.open_file()) {
            file.bytes.save_metadata();
        }
    }

    /// Adds files that must not be opened.
    pub fn refuse(&self, refused: impl IntoIterator<Item = (Location, String)>) {
        for (file, reason) in refused {
            let resolved = file.resolved().unwrap_or(file);
            self.refused.lock().insert(resolved, reason);
        }
    }

    /// Whether a file must not be opened.
    pub fn is_refused(&self, file: &Location) -> bool {
        file.resolved()
            .is_ok_and(|file| self.refused.lock().contains_key(&file))
    }

    /// Keeps all files open that are opened from now on, until the result is dropped: links may
    /// lead to the same file again and again.
    pub fn keep_open(&self) -> Arc<HeldFiles> {
        let mut held = self.held.lock();
        if let Some(known) = held.upgrade() {
            return known;
        }
        let new = Arc::new(HeldFiles::default());
        *held = Arc::downgrade(&new);
        new
    }

    /// Limits the number of files that are open at once.
    pub fn at_most(self, max_open: usize) -> Self {
        Self { max_open, ..self }
    }

    /// Identifies the contents of files by their digests, so that keys do not depend on paths and
    /// times.
    pub fn identified_by(self, digests: Digests) -> Self {
        Self {
            digests: Some(digests),
            ..self
        }
    }

    /// The store from which objects are read.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Opens a file, and identifies its contents if keys are to be made from them. A growing file
    /// has no digest: all of it would be read again whenever it has grown.
    fn identified(&self, file: &Location, growing: Option<bool>) -> io::Result<FileBytes> {
        let mut bytes = match file {
            Location::Path(path) => FileBytes::open(path, growing)?,
            Location::Object(address) => {
                FileBytes::of_object(self.store.open(address).map_err(io::Error::other)?)
            }
        };
        if let Some(digests) = &self.digests
            && !bytes.is_growing()
        {
            let content = if bytes.is_remote() {
                // The identity of an object has its address, which is the same everywhere, and its
                // version. The version alone is not enough: not every store's tags are unique.
                Fingerprint::digest(&bytes.identity)
            } else {
                digests.identify(&bytes)?
            };
            bytes.identity = bytes.identity.containing(content);
        }
        Ok(bytes)
    }

    /// The identity of a file that the library does not open, at a path without symbolic links.
    pub(super) fn identity(
        &self,
        resolved: &Path,
        growing: Option<bool>,
    ) -> io::Result<FileIdentity> {
        if self.digests.is_none() {
            return FileIdentity::of_path(resolved);
        }
        self.identified(&resolved.into(), growing)
            .map(|bytes| bytes.identity)
    }

    /// The notice that the end of an open file is missing, if it is; `file` is its location without
    /// symbolic links.
    pub fn truncation(&self, file: &Location) -> Option<String> {
        // Not `Some(true)`: nothing is missing from a file that is opened as a growing one.
        [None, Some(false)].into_iter().find_map(|growing| {
            let slot = self.open.lock().get(&(file.clone(), growing)).cloned()?;
            slot.open_file()?.truncation.clone()
        })
    }

    /// Opens a file, unless it is open in its current generation. A `growing` file may be appended
    /// to while it is open; with `None`, a file is growing if it is marked as being written.
    pub fn open(
        &self,
        file: &Location,
        growing: Option<bool>,
    ) -> Result<Arc<StoredFile>, OpenError> {
        let resolved = file.resolved();
        let resolved = resolved.map_err(|e| OpenError::file(file, e.to_string()))?;
        self.open_resolved(resolved, growing)
    }

    /// Forgets these files, changed or not, so that each is opened again when it is next needed,
    /// because files that it refers to may have changed. They are no longer refused.
    pub fn forget<'a>(&self, files: impl IntoIterator<Item = &'a Location>) {
        let files: HashSet<&Location> = files.into_iter().collect();
        self.refused.lock().retain(|file, _| !files.contains(file));
        self.open.lock().retain(|(file, _), slot| {
            if files.contains(file) {
                slot.is_forgotten.store(true, Ordering::Relaxed);
            }
            slot.is_in_use()
        });
    }

    /// Like [`Files::open`], for a location without symbolic links; follows none.
    pub(super) fn open_resolved(
        &self,
        resolved: Location,
        growing: Option<bool>,
    ) -> Result<Arc<StoredFile>, OpenError> {
        if let Some(problem) = self.refused.lock().get(&resolved).cloned() {
            return Err(OpenError::file(&resolved, problem));
        }
        stalls::ensure_answer([resolved.as_path()])?;
        library_lock::ensure_available()?;
        let _working = stalls::working_on(&resolved.as_path().into());
        let slot = self.slot((resolved.clone(), growing))?;
        // Held while the file is opened, which may take long; other files are opened in the
        // meantime.
        let mut file = slot.file.lock();
        let before = file.upgrade();
        let is_forgotten = slot.is_forgotten.swap(false, Ordering::Relaxed);
        if let Some(before) = &before
            && !is_forgotten
            && before.identity().is_current()
        {
            return Ok(Arc::clone(before));
        }
        // If this fails, the file will not be taken for one that has only grown.
        *file = Weak::new();
        let opened = StoredFile::open(resolved, growing, before.as_deref(), self)?;
        *file = Arc::downgrade(&opened);
        if let Some(held) = self.held.lock().upgrade() {
            held.0.lock().push(Arc::clone(&opened));
        }
        Ok(opened)
    }

    /// The slot of a file, perhaps a new one; an error if too many files are open.
    fn slot(&self, key: FileKey) -> Result<Arc<FileSlot>, OpenError> {
        let mut open = self.open.lock();
        if let Some(slot) = open.get(&key) {
            return Ok(Arc::clone(slot));
        }
        if open.len() >= self.max_open {
            open.retain(|_, slot| slot.is_in_use());
        }
        if open.len() >= self.max_open {
            let problem = format!(
                "{} other files are open, which is the limit; raise the limit of open files (`ulimit -n`), or \
                 serve fewer files",
                self.max_open
            );
            return Err(OpenError::file(&key.0, problem));
        }
        Ok(Arc::clone(open.entry(key).or_default()))
    }
}

/// One file of [`Files`], as long as anything uses it.
#[derive(Debug, Default)]
struct FileSlot {
    file: Mutex<Weak<StoredFile>>,
    /// Whether the file is to be opened again when it is next needed.
    is_forgotten: AtomicBool,
}

impl FileSlot {
    /// The file, if it is open. Waits while it is being opened.
    fn open_file(&self) -> Option<Arc<StoredFile>> {
        self.file.lock().upgrade()
    }

    /// Whether the file is being opened, or open.
    fn is_in_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || self.file.lock().strong_count() > 0
    }
}
