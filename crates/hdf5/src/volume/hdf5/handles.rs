//! Files that are open in libhdf5, and datasets in them.
//!
//! A file that is open in the library takes more than half a MiB, whatever its settings: the hash
//! table of its metadata cache alone has 512 KiB. Once the datasets have been described and their
//! chunk indexes read, hardly any request needs the library. So only the files used last stay open
//! in it. Any other file is opened again when the library needs it, from the same descriptor as the
//! first time. A growing file always stays open, because it is served as it was when it was opened.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};

use hdf5::{Dataset, File, Group, Result};
use lru::LruCache;
use parking_lot::Mutex;
use voltile_base::flow::start_thread;

use super::admission::Admission;
use super::library_lock::{self, InnerLock, LibraryHeld};
use super::{filters, library};

/// How many files stay open in the library.
const MAX_FILES: usize = 8;
/// How many datasets of each file stay open: 64.
const MAX_DATASETS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// A file that is open in the library.
#[derive(Debug)]
pub(super) struct Handles {
    pub file: File,
    root: Group,
    /// The datasets used last, by their paths along hard links.
    datasets: InnerLock<LruCache<String, Dataset>>,
}

impl Handles {
    fn open(admission: &Admission) -> Result<Arc<Self>> {
        filters::register()?;
        let file = library::open_file(admission)?;
        let root = file.group("/")?;
        Ok(Arc::new(Self {
            file,
            root,
            datasets: InnerLock::new(LruCache::new(MAX_DATASETS)),
        }))
    }

    /// A dataset that stays open; opens it if it is not.
    fn dataset(&self, path: &str, held: &LibraryHeld) -> Result<Dataset> {
        if let Some(known) = self.datasets.lock(held).get(path) {
            return Ok(known.clone());
        }
        let dataset = library::open_dataset(&self.root, path)?;
        self.keep(path, &dataset, held);
        Ok(dataset)
    }

    fn keep(&self, path: &str, dataset: &Dataset, held: &LibraryHeld) {
        let mut datasets = self.datasets.lock(held);
        datasets.push(path.to_owned(), dataset.clone());
    }
}

/// The files that were used last; they stay open in the library.
#[derive(Debug, Default)]
pub(super) struct RecentFiles {
    files: InnerLock<VecDeque<Arc<Handles>>>,
    /// Files that a thread will close once it has the library's lock. They are few, because no file
    /// can be opened while that lock is not free.
    closing: Mutex<Vec<ClosingFile>>,
}

/// The handles of a file, if it is open in the library, and its descriptor, which is closed after
/// them: the fields of a tuple are dropped in order.
type ClosingFile = (Option<Arc<Handles>>, Arc<Admission>);

impl RecentFiles {
    fn note(&self, used: &Arc<Handles>, held: &LibraryHeld) {
        let mut files = self.files.lock(held);
        files.retain(|other| !Arc::ptr_eq(other, used));
        files.push_back(Arc::clone(used));
        if files.len() > MAX_FILES {
            files.pop_front();
        }
    }

    /// Has a file closed by a thread of its own: the library, or the file's file system, may not
    /// answer, and the caller may be an async thread.
    fn close(self: &Arc<Self>, file: ClosingFile) {
        let mut closing = self.closing.lock();
        closing.push(file);
        if closing.len() > 1 {
            // The thread that was started for the first of these files will close this one, too.
            return;
        }
        drop(closing);
        let recent = Arc::clone(self);
        if let Err(error) = start_thread("close", move || recent.close_all()) {
            tracing::warn!("no thread can be started that closes a file: {error}");
            self.close_all();
        }
    }

    /// Closes all files that are to be closed, and removes them from the files used last.
    fn close_all(&self) {
        let closed = library_lock::with(|held| {
            let closing = std::mem::take(&mut *self.closing.lock());
            let mut files = self.files.lock(held);
            files.retain(|file| {
                let mut handles = closing.iter().filter_map(|(handles, _)| handles.as_ref());
                !handles.any(|closed| Arc::ptr_eq(closed, file))
            });
            closing
        });
        // The handles are dropped only now that the locks of this module are free again.
        drop(closed);
    }
}

/// The handles of one file, opened when they are needed.
///
/// The library's lock comes before all locks here: some callers hold it already, and even a copy of
/// a handle takes it.
#[derive(Debug)]
pub(super) struct LazyHandles {
    admission: Arc<Admission>,
    open: InnerLock<Weak<Handles>>,
    recent: Arc<RecentFiles>,
    /// The handles of a growing file, which stays open; `None` for other files.
    always: Option<Arc<Handles>>,
}

impl LazyHandles {
    /// Opens the file.
    pub fn open(
        admission: &Arc<Admission>,
        growing: bool,
        recent: &Arc<RecentFiles>,
    ) -> Result<Self> {
        let handles = Handles::open(admission)?;
        let open = InnerLock::new(Arc::downgrade(&handles));
        library_lock::with(|held| recent.note(&handles, held));
        Ok(Self {
            admission: Arc::clone(admission),
            open,
            recent: Arc::clone(recent),
            always: growing.then_some(handles),
        })
    }

    /// The file, which stays open in the library until this is dropped.
    pub fn get(&self) -> Result<Arc<Handles>> {
        library_lock::with(|held| self.get_in(held))
    }

    fn get_in(&self, held: &LibraryHeld) -> Result<Arc<Handles>> {
        let mut open = self.open.lock(held);
        let handles = match open.upgrade() {
            Some(handles) => handles,
            None => Handles::open(&self.admission)?,
        };
        *open = Arc::downgrade(&handles);
        drop(open);
        self.recent.note(&handles, held);
        Ok(handles)
    }

    /// The root group.
    pub fn root(&self) -> Result<Group> {
        Ok(self.get()?.root.clone())
    }

    /// A dataset, by its path along hard links.
    pub fn dataset(&self, path: &str) -> Result<Dataset> {
        library_lock::with(|held| self.get_in(held)?.dataset(path, held))
    }

    /// Keeps a dataset open that will soon be needed.
    pub fn keep(&self, path: &str, dataset: &Dataset) -> Result<()> {
        library_lock::with(|held| {
            let handles = self.get_in(held)?;
            handles.keep(path, dataset, held);
            Ok(())
        })
    }
}

impl Drop for LazyHandles {
    fn drop(&mut self) {
        let handles = self.open.get_mut().upgrade();
        drop(self.always.take());
        self.recent.close((handles, Arc::clone(&self.admission)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use crate::volume::hdf5::Files;

    /// Longer than a busy machine takes for anything here.
    const BOUND: Duration = Duration::from_secs(30);

    #[test]
    fn whoever_drops_a_file_last_does_not_wait_for_the_library() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        hdf5::File::create(&path).unwrap().close().unwrap();
        for growing in [None, Some(true)] {
            let file = Files::default().open(&path.as_path().into(), growing);
            let file = file.unwrap();
            let handles = std::sync::Arc::downgrade(&file.handles.get().unwrap());
            let (sender, dropped) = channel();
            let held = hdf5_sys::LOCK.lock();
            std::thread::spawn(move || {
                drop(file);
                sender.send(()).unwrap();
            });
            assert_eq!(dropped.recv_timeout(BOUND), Ok(()));
            assert!(handles.upgrade().is_some());
            drop(held);
            let began = std::time::Instant::now();
            while handles.strong_count() > 0 {
                assert!(began.elapsed() < BOUND, "the file is closed later");
                std::thread::yield_now();
            }
        }
    }
}
