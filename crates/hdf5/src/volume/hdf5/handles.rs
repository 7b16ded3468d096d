//! Files that are open in libhdf5, and datasets in them.
//!
//! A file that is open in the library takes more than half a MiB, whatever its settings: the hash
//! table of its metadata cache alone has 512 KiB. Once the datasets have been described and their
//! chunk indexes read, hardly any request needs the library. So only the files used last stay open
//! in it; another one is opened again when it is needed, from the descriptor that it was opened
//! from first. A growing file stays open: it is served as of the time when it was opened.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};

use hdf5::sync::sync;
use hdf5::{Dataset, File, Group, Result};
use lru::LruCache;
use parking_lot::Mutex;

use super::admission::Admission;
use super::{filters, library};

/// How many files stay open in the library.
const MAX_FILES: usize = 8;
/// How many datasets of each stay open: 64.
const MAX_DATASETS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// A file that is open in the library.
#[derive(Debug)]
pub(super) struct Handles {
    pub file: File,
    root: Group,
    /// By their paths along hard links.
    datasets: Mutex<LruCache<String, Dataset>>,
}

impl Handles {
    fn open(admission: &Admission) -> Result<Arc<Self>> {
        filters::register()?;
        let file = library::open_file(admission)?;
        let root = file.group("/")?;
        Ok(Arc::new(Self {
            file,
            root,
            datasets: Mutex::new(LruCache::new(MAX_DATASETS)),
        }))
    }

    /// A dataset that stays open; opens it if it is not. The caller holds the library's lock.
    fn dataset(&self, path: &str) -> Result<Dataset> {
        if let Some(known) = self.datasets.lock().get(path) {
            return Ok(known.clone());
        }
        let dataset = library::open_dataset(&self.root, path)?;
        self.keep(path, &dataset);
        Ok(dataset)
    }

    /// The caller holds the library's lock.
    fn keep(&self, path: &str, dataset: &Dataset) {
        // Closed without the lock.
        let _oldest = self.datasets.lock().push(path.to_owned(), dataset.clone());
    }
}

/// The files that were used last; they stay open in the library.
#[derive(Debug, Default)]
pub(super) struct LastUsed(Mutex<VecDeque<Arc<Handles>>>);

impl LastUsed {
    fn note(&self, used: &Arc<Handles>) {
        let mut files = self.0.lock();
        files.retain(|other| !Arc::ptr_eq(other, used));
        files.push_back(Arc::clone(used));
        let oldest = (files.len() > MAX_FILES).then(|| files.pop_front());
        // Closed without the lock.
        drop(files);
        drop(oldest);
    }

    fn forget(&self, handles: &Arc<Handles>) {
        self.0.lock().retain(|other| !Arc::ptr_eq(other, handles));
    }
}

/// The handles of one file, opened when they are needed.
///
/// The library's lock comes before all locks here: some callers hold it already, and even a copy of
/// a handle takes it.
#[derive(Debug)]
pub(super) struct OnDemand {
    admission: Arc<Admission>,
    open: Mutex<Weak<Handles>>,
    last_used: Arc<LastUsed>,
    /// Of a growing file.
    _always: Option<Arc<Handles>>,
}

impl OnDemand {
    /// Opens the file.
    pub fn open(
        admission: &Arc<Admission>,
        growing: bool,
        last_used: &Arc<LastUsed>,
    ) -> Result<Self> {
        let handles = Handles::open(admission)?;
        let open = Mutex::new(Arc::downgrade(&handles));
        last_used.note(&handles);
        let admission = Arc::clone(admission);
        let last_used = Arc::clone(last_used);
        Ok(Self {
            admission,
            open,
            last_used,
            _always: growing.then_some(handles),
        })
    }

    /// The file, which stays open in the library until this is dropped.
    pub fn get(&self) -> Result<Arc<Handles>> {
        sync(|| {
            let mut open = self.open.lock();
            let handles = match open.upgrade() {
                Some(handles) => handles,
                None => Handles::open(&self.admission)?,
            };
            *open = Arc::downgrade(&handles);
            drop(open);
            self.last_used.note(&handles);
            Ok(handles)
        })
    }

    /// The root group.
    pub fn root(&self) -> Result<Group> {
        Ok(self.get()?.root.clone())
    }

    /// A dataset, by its path along hard links.
    pub fn dataset(&self, path: &str) -> Result<Dataset> {
        sync(|| self.get()?.dataset(path))
    }

    /// Keeps a dataset open that will soon be needed.
    pub fn keep(&self, path: &str, dataset: &Dataset) -> Result<()> {
        sync(|| self.get().map(|handles| handles.keep(path, dataset)))
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        if let Some(handles) = self.open.lock().upgrade() {
            self.last_used.forget(&handles);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{self, ScopedJoinHandle};

    use voltile_base::flow::activity::Activity;
    use voltile_base::metrics::Metrics;

    use crate::volume::hdf5::{ChunkStore, Opener, library_lock};

    const ROUNDS: usize = 5000;

    #[test]
    fn nobody_waits_for_the_librarys_lock_with_the_list_of_datasets_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        let file = hdf5::File::create(&path).unwrap();
        file.new_dataset::<u8>()
            .shape((4, 4))
            .create("raw")
            .unwrap();
        file.close().unwrap();
        let chunks = ChunkStore::new(1 << 20, Metrics::default(), Activity::default());
        let opener = Opener::new(chunks);
        let raw = opener.open(&path.into()).unwrap().dataset("raw").unwrap();
        let (handles, handle) = (&raw.file.handles, raw.handle().unwrap());
        let open = handles.get().unwrap();
        thread::scope(|scope| {
            let keep = || (0..ROUNDS).for_each(|_| handles.keep("raw", &handle).unwrap());
            let reopen = || (0..ROUNDS).for_each(|_| drop(handles.dataset("/raw").unwrap()));
            let workers = [scope.spawn(keep), scope.spawn(reopen)];
            while !workers.iter().all(ScopedJoinHandle::is_finished) {
                let _library = library_lock::lock().unwrap();
                // Whoever has the library's lock opens and keeps datasets, too.
                assert!(open.datasets.try_lock().is_some());
            }
        });
    }
}
