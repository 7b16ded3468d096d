//! Threads that wait for a file system that does not answer.
//!
//! A thread that reads a file cannot be interrupted. So each watched thread says what it reads, and
//! [`Stalls::look`], called at intervals, marks a file as *stuck* while a read of it has not
//! returned for [`PATIENCE`]. Work on a stuck file fails at once ([`ensure_answer`]): only threads
//! that had begun before wait for it. A page fault in a mapped file counts as a read.
//!
//! The file that a thread reads is kept in a thread-local, whichever job the thread runs, so that
//! reads made by libhdf5 are seen too. Threads that are not watched say nothing, and their reads
//! never fail because a file is stuck.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

/// How long a read may take before its file is stuck.
pub const PATIENCE: Duration = Duration::from_secs(2);

thread_local! {
    static THREAD: RefCell<Option<Arc<WatchedThread>>> = const { RefCell::new(None) };
}

/// The file system has not answered for this long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file system has not answered for {} s. Try again later", .0.as_secs())]
pub struct Unresponsive(pub Duration);

/// The watched threads, and the files that are stuck; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Stalls(Arc<WatchedThreads>);

#[derive(Debug, Default)]
struct WatchedThreads {
    threads: Mutex<Vec<Weak<WatchedThread>>>,
    stuck: watch::Sender<StuckFiles>,
}

/// The files that are stuck, and what cannot be done because of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct StuckFiles {
    files: BTreeSet<Arc<Path>>,
    /// Whether a thread that reads one of the files has libhdf5's lock.
    library: bool,
    /// Whether no thread is left to render with.
    everything: bool,
}

impl StuckFiles {
    fn has_any<'a>(&self, files: impl IntoIterator<Item = &'a Path>) -> bool {
        !self.files.is_empty() && files.into_iter().any(|file| self.files.contains(file))
    }
}

/// A watched thread.
#[derive(Debug)]
struct WatchedThread {
    stalls: Arc<WatchedThreads>,
    /// Whether it is one of the render threads.
    renders: bool,
    /// Whether a part of its work was refused.
    was_refused: AtomicBool,
    /// The file that it works on, if any.
    busy: Mutex<Option<FileWork>>,
    /// Whether it waits for a store.
    waits_for_store: AtomicBool,
}

/// The file that a thread works on.
#[derive(Debug, Clone)]
struct FileWork {
    file: Arc<Path>,
    /// When it began to read; `None` while it does something else for which it may have to wait for
    /// other threads.
    reads_since: Option<Instant>,
    /// Whether it has libhdf5's lock.
    in_library: bool,
}

/// The thread is busy with a file until this is dropped; then it is busy as it was before.
#[must_use]
pub struct BusyWith(Option<(Arc<WatchedThread>, Option<FileWork>)>);

impl Drop for BusyWith {
    fn drop(&mut self) {
        if let Some((thread, before)) = self.0.take() {
            *thread.busy.lock() = before;
        }
    }
}

/// Notes that this thread reads a file, and whether it has libhdf5's lock.
pub fn reading(file: &Arc<Path>, in_library: bool) -> BusyWith {
    busy(file, Some(Instant::now()), in_library)
}

/// Notes that this thread works on a file, and may wait for threads that read it.
pub fn working_on(file: &Arc<Path>) -> BusyWith {
    busy(file, None, false)
}

fn busy(file: &Arc<Path>, reads_since: Option<Instant>, in_library: bool) -> BusyWith {
    BusyWith(THREAD.with_borrow(|thread| {
        let thread = thread.as_ref()?;
        let before = thread.busy.lock().replace(FileWork {
            file: Arc::clone(file),
            reads_since,
            in_library,
        });
        Some((Arc::clone(thread), before))
    }))
}

/// Waits for a store, which has time limits of its own. Meanwhile this thread counts as stuck, so
/// that it is replaced, but the file that it works on does not.
pub fn waiting_for_store<T>(wait: impl FnOnce() -> T) -> T {
    let thread = THREAD.with_borrow(Clone::clone);
    let set = |waits| {
        if let Some(thread) = &thread {
            thread.waits_for_store.store(waits, Ordering::Relaxed);
        }
    };
    set(true);
    let result = wait();
    set(false);
    result
}

/// Fails if one of the files is stuck, unless this thread is not watched.
pub fn ensure_answer<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<(), Unresponsive> {
    ensure_not(|stuck| stuck.has_any(files))
}

/// Fails if libhdf5's lock is held by a thread that reads a stuck file, unless this thread is not
/// watched.
pub fn ensure_library_answers() -> Result<(), Unresponsive> {
    ensure_not(|stuck| stuck.library)
}

/// Whether a part of what this thread does was refused because a file is stuck.
pub fn was_refused() -> bool {
    THREAD.with_borrow(|thread| {
        thread
            .as_ref()
            .is_some_and(|watched| watched.was_refused.load(Ordering::Relaxed))
    })
}

fn ensure_not(is_affected: impl FnOnce(&StuckFiles) -> bool) -> Result<(), Unresponsive> {
    THREAD.with_borrow(|thread| {
        let Some(thread) = thread else { return Ok(()) };
        let is_stuck = is_affected(&thread.stalls.stuck.borrow());
        thread.was_refused.fetch_or(is_stuck, Ordering::Relaxed);
        fail_if(is_stuck)
    })
}

/// The error for work that is stuck, or was refused because something that it needs is stuck.
fn fail_if(is_stuck: bool) -> Result<(), Unresponsive> {
    if is_stuck {
        Err(Unresponsive(PATIENCE))
    } else {
        Ok(())
    }
}

/// When dropped, also by a panic, has this thread watched as it was before.
struct RestoredThread(Option<Arc<WatchedThread>>);

impl Drop for RestoredThread {
    fn drop(&mut self) {
        THREAD.set(self.0.take());
    }
}

impl Stalls {
    /// Watches the calling thread from now on. `renders` says whether it is one of the render
    /// threads.
    pub fn watch_thread(&self, renders: bool) {
        let thread = Arc::new(WatchedThread {
            stalls: Arc::clone(&self.0),
            renders,
            was_refused: AtomicBool::default(),
            busy: Mutex::default(),
            waits_for_store: AtomicBool::default(),
        });
        self.0.threads.lock().push(Arc::downgrade(&thread));
        THREAD.set(Some(thread));
    }

    /// Does work on the calling thread, which is watched meanwhile. Fails if a part of the work was
    /// refused because a file is stuck: the result may be made without that part.
    pub fn watched<T>(&self, work: impl FnOnce() -> T) -> Result<T, Unresponsive> {
        let _before = RestoredThread(THREAD.take());
        self.watch_thread(false);
        let result = work();
        fail_if(was_refused()).map(|()| result)
    }

    /// Marks the files as stuck that have overdue reads, and no others. Returns how many of the
    /// `render_threads` render threads wait for these files, or for a store.
    pub fn look(&self, render_threads: usize) -> usize {
        let mut stuck = StuckFiles::default();
        let mut threads = self.0.threads.lock();
        threads.retain(|thread| thread.strong_count() > 0);
        let mut works = Vec::new();
        let mut at_stores = 0;
        for thread in threads.iter().filter_map(Weak::upgrade) {
            let waits_for_store = thread.waits_for_store.load(Ordering::Relaxed);
            at_stores += usize::from(thread.renders && waits_for_store);
            if let Some(work) = thread.busy.lock().clone() {
                works.push((thread.renders, work));
            }
        }
        drop(threads);
        for (_, work) in &works {
            if work.is_overdue() {
                stuck.files.insert(Arc::clone(&work.file));
                stuck.library |= work.in_library;
            }
        }
        let waiting = works
            .iter()
            .filter(|(renders, work)| *renders && stuck.files.contains(&work.file))
            .count();
        stuck.everything = waiting >= render_threads;
        self.0.stuck.send_if_modified(|before| {
            for file in stuck.files.difference(&before.files) {
                let file = file.display();
                let seconds = PATIENCE.as_secs();
                tracing::warn!(
                    "{file}: a read has not returned for {seconds} s; what is not cached is 503 until it does"
                );
            }
            for file in before.files.difference(&stuck.files) {
                tracing::info!("{}: the file system answers again", file.display());
            }
            let is_new = *before != stuck;
            *before = stuck;
            is_new
        });
        waiting + at_stores
    }

    /// Fails if one of the files is stuck.
    pub fn ensure_answer<'a>(
        &self,
        files: impl IntoIterator<Item = &'a Path>,
    ) -> Result<(), Unresponsive> {
        fail_if(self.0.stuck.borrow().has_any(files))
    }

    /// Returns when waiting any longer for something that is made from the files is of no use: not
    /// before [`PATIENCE`] is over, and then as soon as one of the files, or everything, is stuck.
    pub async fn held_up<'a>(&self, files: impl Iterator<Item = &'a Path> + Clone) -> Unresponsive {
        tokio::time::sleep(PATIENCE).await;
        let mut stuck = self.0.stuck.subscribe();
        // An error would mean that the sender is gone, but it is ours. The guard that is returned
        // holds a lock: `is_ok` drops it.
        let _ = stuck
            .wait_for(|stuck| stuck.everything || stuck.has_any(files.clone()))
            .await
            .is_ok();
        Unresponsive(PATIENCE)
    }
}

impl FileWork {
    /// Whether a read of the file has taken at least [`PATIENCE`].
    fn is_overdue(&self) -> bool {
        self.reads_since
            .is_some_and(|since| since.elapsed() >= PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> Arc<Path> {
        Path::new(name).into()
    }

    fn answers(file: &Path) -> bool {
        ensure_answer([file]).is_ok()
    }

    /// Makes this thread's read look as if it had begun long ago.
    fn age() {
        THREAD.with_borrow(|thread| {
            if let Some(busy) = thread.as_ref().unwrap().busy.lock().as_mut() {
                busy.reads_since = busy
                    .reads_since
                    .and_then(|since| since.checked_sub(PATIENCE));
            }
        });
    }

    #[test]
    fn a_file_is_stuck_while_a_read_does_not_return_and_no_longer() {
        let stalls = Stalls::default();
        stalls.watch_thread(true);
        let (slow, other) = (file("/slow"), file("/other"));
        let working = working_on(&slow);
        let read = reading(&slow, true);
        assert!(stalls.look(1) == 0 && answers(&slow));
        age();
        assert_eq!(stalls.look(1), 1);
        assert!(!answers(&slow) && ensure_library_answers().is_err() && answers(&other));
        assert!(stalls.ensure_answer([&*other, &*slow]).is_err());
        drop(read);
        assert!(stalls.look(1) == 0 && answers(&slow) && ensure_library_answers().is_ok());
        drop(working);
        assert!(THREAD.with_borrow(|thread| thread.as_ref().unwrap().busy.lock().is_none()));
    }

    #[test]
    fn a_thread_that_helps_marks_a_file_and_is_not_replaced() {
        let stalls = Stalls::default();
        stalls.watch_thread(false);
        let slow = file("/slow");
        let _reading = reading(&slow, false);
        age();
        assert!(stalls.look(1) == 0 && !answers(&slow));
    }

    #[test]
    fn a_thread_that_is_not_watched_is_never_refused() {
        let slow = file("/slow");
        let _reading = reading(&slow, true);
        assert!(answers(&slow) && ensure_library_answers().is_ok());
    }

    #[test]
    fn work_has_no_result_if_a_part_of_it_was_refused() {
        let stalls = Stalls::default();
        stalls.watch_thread(true);
        let (slow, other) = (file("/slow"), file("/other"));
        let _reading = reading(&slow, false);
        age();
        stalls.look(2);
        assert!(stalls.watched(|| answers(&slow)).is_err());
        assert_eq!(stalls.watched(|| answers(&other)), Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_stuck_file_is_told_in_time() {
        let stalls = Stalls::default();
        stalls.watch_thread(true);
        let slow = file("/slow");
        let _reading = reading(&slow, false);
        let waits_for = |path: &'static str| {
            let stalls = stalls.clone();
            async move {
                let held_up = stalls.held_up([Path::new(path)].into_iter());
                tokio::time::timeout(2 * PATIENCE, held_up).await.is_ok()
            }
        };
        age();
        stalls.look(2);
        assert!(waits_for("/slow").await && !waits_for("/other").await);
        stalls.look(1);
        assert!(waits_for("/other").await);
    }
}
