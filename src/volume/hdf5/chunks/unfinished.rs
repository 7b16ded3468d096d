//! Chunks that were decoded in part and have yet to be decoded whole, which compares their checksums.
//!
//! The newest are finished first: whoever looks at them will want more of them. The list is bounded; what is pushed out
//! of it, or cannot be read any more, is counted as given up, so that nobody takes it for verified.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lru::LruCache;

use crate::volume::hdf5::dataset::StoredDataset;
use crate::volume::hdf5::grid::Position;
use crate::volume::{ChunkId, VoxelType};

/// The most chunks that wait, some 200 bytes each: those of a thousand tiles in cubes of 64 voxels.
const MOST: usize = 1 << 16;

/// A chunk to be finished. It does not keep its file open.
#[derive(Clone)]
pub(super) struct Unfinished {
    pub dataset: Weak<StoredDataset>,
    pub at: Position,
    pub voxel: VoxelType,
}

/// The chunks that wait; clones share them.
#[derive(Clone)]
pub(super) struct List(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// How many wait or are being finished, to be read without the lock.
    count: AtomicUsize,
    given_up: AtomicU64,
}

struct State {
    waiting: LruCache<ChunkId, Unfinished>,
    running: Vec<ChunkId>,
}

impl Default for List {
    fn default() -> Self {
        let state = State { waiting: LruCache::unbounded(), running: Vec::new() };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            count: AtomicUsize::new(0),
            given_up: AtomicU64::new(0),
        }))
    }
}

impl List {
    /// Puts a chunk in front of all others.
    pub fn add(&self, id: ChunkId, chunk: impl FnOnce() -> Unfinished) {
        let mut state = self.lock();
        if state.waiting.get(&id).is_some() || state.running.contains(&id) {
            return;
        }
        state.waiting.put(id, chunk());
        if state.waiting.len() > MOST && state.waiting.pop_lru().is_some() {
            self.give_up();
        }
        self.count(&state);
    }

    /// Takes a chunk off that was verified otherwise.
    pub fn remove(&self, id: &ChunkId) {
        if self.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.waiting.pop(id);
        self.count(&state);
    }

    /// The chunk to be finished next. Until the work is dropped it counts as one that is not verified yet.
    pub fn take(&self) -> Option<(Work, Unfinished)> {
        if self.is_empty() {
            return None;
        }
        let mut state = self.lock();
        let (id, chunk) = state.waiting.pop_mru()?;
        state.running.push(id);
        self.count(&state);
        Some((Work { list: self.clone(), id, is_done: false }, chunk))
    }

    /// Whether nothing waits, and nothing is being finished.
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }

    /// Whether a chunk waits, or is being finished.
    pub fn has(&self, id: &ChunkId) -> bool {
        if self.is_empty() {
            return false;
        }
        let state = self.lock();
        state.waiting.contains(id) || state.running.contains(id)
    }

    /// How many chunks were given up so far: nobody knows whether they are sound.
    pub fn given_up(&self) -> u64 {
        self.0.given_up.load(Ordering::Acquire)
    }

    fn give_up(&self) {
        self.0.given_up.fetch_add(1, Ordering::AcqRel);
    }

    fn count(&self, state: &State) {
        self.0.count.store(state.waiting.len() + state.running.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A chunk that is being finished; dropped before it is done, it is given up.
pub(super) struct Work {
    list: List,
    pub id: ChunkId,
    is_done: bool,
}

impl Work {
    /// It is known now what the chunk is worth.
    pub fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.is_done {
            self.list.give_up();
        }
        let mut state = self.list.lock();
        state.running.retain(|id| *id != self.id);
        self.list.count(&state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::Fingerprint;

    fn id(number: u64) -> ChunkId {
        ChunkId { dataset: Fingerprint::of(&"dataset"), number }
    }

    fn add(list: &List, number: u64) {
        list.add(id(number), || Unfinished { dataset: Weak::new(), at: [0; 5], voxel: VoxelType::U8 });
    }

    #[test]
    fn the_newest_comes_first_and_is_unverified_until_it_is_done() {
        let list = List::default();
        assert!(list.is_empty() && list.take().is_none());
        (1..4).for_each(|number| add(&list, number));
        // Wanted again.
        add(&list, 2);
        let (work, _) = list.take().unwrap();
        assert_eq!(work.id, id(2));
        assert!(list.has(&id(2)) && list.has(&id(1)));
        work.done();
        assert!(!list.has(&id(2)));
        list.remove(&id(3));
        let (work, _) = list.take().unwrap();
        assert_eq!((work.id, list.given_up()), (id(1), 0));
        drop(work);
        assert!(list.is_empty() && list.given_up() == 1, "not done");
    }

    #[test]
    fn the_oldest_is_given_up_where_there_are_too_many() {
        let list = List::default();
        (0..=MOST as u64).for_each(|number| add(&list, number));
        assert_eq!((list.given_up(), list.has(&id(0)), list.has(&id(1))), (1, false, true));
    }
}
