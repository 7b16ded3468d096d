//! Open files: one descriptor each, shared by all datasets in a file and all links to it.
//!
//! A file is closed with the last dataset in it.

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
use super::handles::{LastUsed, OnDemand};
use super::identity::{ContentId, FileIdentity};
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
    /// Of a growing file, the chunks that are not written again and have been used: lengths and
    /// digests, by address.
    pub(super) landmarks: Mutex<BTreeMap<u64, (u32, Fingerprint)>>,
    /// Dropped last: it has the file closed, and the descriptor with it.
    pub(super) handles: OnDemand,
}

impl StoredFile {
    fn open(
        location: Location,
        growing: Option<bool>,
        before: Option<&Self>,
        files: &Files,
    ) -> Result<Self, OpenError> {
        let bytes = files.identified(&location, growing);
        let bytes = bytes.map_err(|e| OpenError::file(&location, e.to_string()))?;
        let before = before.filter(|before| bytes.is_growing() && before.has_grown_to(&bytes));
        let landmarks = Mutex::new(before.map(Self::outer_landmarks).unwrap_or_default());
        let bytes = Arc::new(bytes.continuing(before.map(Self::identity)));
        let admission = Admission::new(Arc::clone(&bytes));
        let handles = OnDemand::open(&admission, bytes.is_growing(), &files.last_used);
        let handles = handles.map_err(|e| OpenError::file(&location, not_hdf5(&bytes, &e)))?;
        Ok(Self {
            location,
            truncation: truncation(&bytes),
            handles,
            admission,
            bytes,
            landmarks,
        })
    }

    /// Whether `now` is this file and has only grown: it was never shorter, and its first and its
    /// last landmark are there. A file that was written anew may have chunks of the same lengths at
    /// the same addresses, but not the same data.
    pub(super) fn has_grown_to(&self, now: &FileBytes) -> bool {
        let mut landmarks = self.outer_landmarks().into_iter();
        now.identity().has_grown_from(self.identity())
            && self.bytes.ensure_unchanged("").is_ok()
            && landmarks
                .all(|(address, (length, digest))| now.digest(address, length) == Some(digest))
    }

    fn outer_landmarks(&self) -> BTreeMap<u64, (u32, Fingerprint)> {
        let landmarks = self.landmarks.lock();
        let outer = [landmarks.first_key_value(), landmarks.last_key_value()];
        outer
            .into_iter()
            .flatten()
            .map(|(address, chunk)| (*address, *chunk))
            .collect()
    }

    /// Whether it is an object in a store.
    pub fn is_remote(&self) -> bool {
        self.bytes.is_remote()
    }

    /// Identifies the file and its generation, as it was when it was opened.
    pub fn identity(&self) -> &FileIdentity {
        self.bytes.identity()
    }

    /// The folder that contains a file in the file system; links must stay below it.
    pub fn folder(&self) -> &Path {
        self.location.as_path().parent().unwrap_or(Path::new("/"))
    }
}

fn not_hdf5(bytes: &FileBytes, error: &hdf5::Error) -> String {
    if let Some(failure) = bytes.failure("its metadata") {
        return failure.to_string();
    }
    let read = |into: &mut [u8], at| bytes.read_at(into, at);
    let foreign = beginning::why_foreign(&read, bytes.identity().length());
    foreign
        .or_else(|| beginning::is_open_elsewhere(&read).then(|| OPEN_ELSEWHERE.to_owned()))
        .or_else(|| truncation(bytes))
        .unwrap_or_else(|| format!("it cannot be opened as an HDF5 file ({error})"))
}

/// Why a file cannot be opened that is marked as being written, and not in SWMR mode.
const OPEN_ELSEWHERE: &str = "it is being written by a program that does not let others read meanwhile; it is served when \
    that program has closed it, or if it writes in SWMR mode. If no program writes it, the last one has crashed: remove the \
    mark with `h5clear -s`";

/// The notice that a file ends before its superblock says. Nothing is missing while it grows.
///
/// The library would refuse the file, but our file driver does not tell it the length
/// ([`super::library`]).
fn truncation(bytes: &FileBytes) -> Option<String> {
    let length = bytes
        .current_length()
        .ok()
        .filter(|_| !bytes.is_growing())?;
    let end = beginning::stated_end(&|into, at| bytes.read_at(into, at), length)?;
    let missing = end.checked_sub(length).filter(|missing| *missing > 0)?;
    if beginning::is_of_family(&|into, at| bytes.read_at(into, at)) {
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

/// The open files, and the files that must not be opened.
#[derive(Debug)]
pub struct Files {
    store: Store,
    /// By resolved location, and whether the file is growing, if that is known.
    open: Mutex<HashMap<(Location, Option<bool>), FileSlot>>,
    /// By resolved location, with the reason.
    refused: Mutex<HashMap<Location, String>>,
    most: usize,
    /// If keys are to be made from the contents of files.
    digests: Option<Digests>,
    last_used: Arc<LastUsed>,
    /// While a catalogue is being opened.
    kept: Mutex<Weak<Kept>>,
}

/// Files that stay open as long as this exists, whether or not they are in use.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Vec<Arc<StoredFile>>>);

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
            most: usize::MAX,
            digests: None,
            last_used: Arc::default(),
            kept: Mutex::default(),
        }
    }

    /// Keeps the metadata of objects in stores, as far as it was read, for the next start.
    pub fn save_metadata(&self) {
        let slots: Vec<FileSlot> = self.open.lock().values().cloned().collect();
        let files = slots.iter().filter_map(|slot| slot.0.file.lock().upgrade());
        files.for_each(|file| file.bytes.save_metadata());
    }

    /// Adds files that must not be opened.
    pub fn refuse(&self, refused: impl IntoIterator<Item = (Location, String)>) {
        let refused = refused
            .into_iter()
            .map(|(file, why)| (file.resolved().unwrap_or(file), why));
        self.refused.lock().extend(refused);
    }

    /// Whether a file must not be opened.
    pub fn is_refused(&self, file: &Location) -> bool {
        file.resolved()
            .is_ok_and(|file| self.refused.lock().contains_key(&file))
    }

    /// Keeps all files open that are opened from now on, until the result is dropped: links may
    /// lead to the same file again and again.
    pub fn keep_open(&self) -> Arc<Kept> {
        let mut kept = self.kept.lock();
        kept.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Kept::default());
            *kept = Arc::downgrade(&new);
            new
        })
    }

    /// Limits the number of files that are open at once.
    pub fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Identifies the contents of files by their digests, so that keys do not depend on paths and
    /// times.
    pub fn identified_by(self, digests: Digests) -> Self {
        Self {
            digests: Some(digests),
            ..self
        }
    }

    /// The store of the objects among them.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Opens a file, and identifies its contents if keys are to be made from them. A growing file
    /// has no digest: all of it would be read again whenever it has grown.
    fn identified(&self, file: &Location, growing: Option<bool>) -> io::Result<FileBytes> {
        let bytes = match file {
            Location::Path(path) => FileBytes::open(path, growing)?,
            Location::Object(address) => {
                FileBytes::of_object(self.store.open(address).map_err(io::Error::other)?)
            }
        };
        match self.digests.as_ref().filter(|_| !bytes.is_growing()) {
            // A store tells its version, and the address is the same everywhere. Not every store's
            // tags tell one object from another.
            Some(_) if bytes.is_remote() => {
                let version = ContentId::digest(bytes.identity());
                Ok(bytes.containing(version))
            }
            Some(digests) => {
                let content = digests.identify(&bytes)?;
                Ok(bytes.containing(content))
            }
            None => Ok(bytes),
        }
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
            .map(|bytes| bytes.identity().clone())
    }

    /// The notice that the end of an open file is missing, if it is; `file` is its location without
    /// symbolic links.
    pub fn truncation(&self, file: &Location) -> Option<String> {
        let open = self.open.lock();
        let slots = [None, Some(false)].map(|growing| open.get(&(file.clone(), growing)).cloned());
        drop(open);
        slots
            .into_iter()
            .flatten()
            .find_map(|slot| slot.0.file.lock().upgrade()?.truncation.clone())
    }

    /// Opens a file, unless it is open in its current generation. It is `growing` if it may be
    /// appended to while it is open; `None`: if it is marked so.
    pub fn open(
        &self,
        file: &Location,
        growing: Option<bool>,
    ) -> Result<Arc<StoredFile>, OpenError> {
        let resolved = file.resolved();
        let resolved = resolved.map_err(|e| OpenError::file(file, e.to_string()))?;
        self.open_resolved(resolved, growing)
    }

    /// Removes these files, changed or not, so that they are opened again when next needed: files
    /// that they refer to may have changed. They are no longer refused.
    pub fn forget<'a>(&self, files: impl IntoIterator<Item = &'a Location>) {
        let files: HashSet<&Location> = files.into_iter().collect();
        self.refused.lock().retain(|file, _| !files.contains(file));
        self.open.lock().retain(|(file, _), slot| {
            slot.0
                .is_forgotten
                .fetch_or(files.contains(file), Ordering::Relaxed);
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
        stalls::ensure_answer([resolved.as_path()]).map_err(OpenError::Unresponsive)?;
        drop(library_lock::lock().map_err(OpenError::Unresponsive)?);
        let _working = stalls::working_on(&resolved.as_path().into());
        let slot = self.slot((resolved.clone(), growing))?;
        // Held while the file is opened, which may take long; other files are opened in the
        // meantime.
        let mut file = slot.0.file.lock();
        let before = file.upgrade();
        let is_forgotten = slot.0.is_forgotten.swap(false, Ordering::Relaxed);
        if let Some(same) = before
            .as_ref()
            .filter(|file| !is_forgotten && file.identity().is_current())
        {
            return Ok(Arc::clone(same));
        }
        let opened = StoredFile::open(resolved, growing, before.as_deref(), self);
        // A file that could not be opened meanwhile has not only grown.
        let opened = Arc::new(opened.inspect_err(|_| *file = Weak::new())?);
        *file = Arc::downgrade(&opened);
        if let Some(kept) = self.kept.lock().upgrade() {
            kept.0.lock().push(Arc::clone(&opened));
        }
        Ok(opened)
    }

    /// The slot of a file, perhaps a new one; an error if too many files are open.
    fn slot(&self, key: (Location, Option<bool>)) -> Result<FileSlot, OpenError> {
        let mut open = self.open.lock();
        if let Some(slot) = open.get(&key) {
            return Ok(slot.clone());
        }
        if open.len() >= self.most {
            open.retain(|_, slot| slot.is_in_use());
        }
        if open.len() >= self.most {
            let most = self.most;
            let problem = format!(
                "{most} other files are open, which is the limit; raise the limit of open files (`ulimit -n`), or \
                 serve fewer files"
            );
            return Err(OpenError::file(&key.0, problem));
        }
        Ok(open.entry(key).or_default().clone())
    }
}

/// One file of [`Files`], as long as anything uses it.
#[derive(Debug, Clone, Default)]
struct FileSlot(Arc<InSlot>);

#[derive(Debug, Default)]
struct InSlot {
    file: Mutex<Weak<StoredFile>>,
    /// Whether the file is to be opened again when it is next needed.
    is_forgotten: AtomicBool,
}

impl FileSlot {
    /// Whether the file is being opened, or open.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.0) > 1 || self.0.file.lock().strong_count() > 0
    }
}
