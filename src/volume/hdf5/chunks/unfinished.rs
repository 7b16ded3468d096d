//! Chunks that were prefix-decoded and are still to be finished, which verifies their checksums.
//!
//! The newest chunks are finished first, because the viewer is likely to need more of them soon.
//! The list is bounded. Chunks that are evicted from the list, or can no longer be read, are
//! counted as given up, so that they do not count as verified.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use lru::LruCache;

use crate::flow::lock;
use crate::flow::trace::RequestId;
use crate::volume::hdf5::dataset::StoredDataset;
use crate::volume::hdf5::grid::Position;
use crate::volume::{ChunkId, VoxelType};

/// The maximum number of waiting chunks, about 200 bytes each: enough for a thousand tiles from 64³
/// chunks.
const MAX_WAITING: usize = 1 << 16;

/// A chunk to be finished. It does not keep its file open.
#[derive(Clone)]
pub(super) struct Unfinished {
    pub dataset: Weak<StoredDataset>,
    pub at: Position,
    pub voxel: VoxelType,
    /// The id of the request that began to decode the chunk, for the log.
    pub request: Option<RequestId>,
}

/// The waiting chunks; clones share them.
#[derive(Clone)]
pub(super) struct List(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// The number of chunks that wait or are being finished, readable without the lock.
    count: AtomicUsize,
    given_up: AtomicU64,
}

struct State {
    waiting: LruCache<ChunkId, Unfinished>,
    running: Vec<ChunkId>,
}

impl Default for List {
    fn default() -> Self {
        let state = State {
            waiting: LruCache::unbounded(),
            running: Vec::new(),
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            count: AtomicUsize::new(0),
            given_up: AtomicU64::new(0),
        }))
    }
}

impl List {
    /// Adds a chunk as the next to be finished.
    pub fn add(&self, id: ChunkId, chunk: impl FnOnce() -> Unfinished) {
        let mut state = lock(&self.0.state);
        if state.waiting.get(&id).is_some() || state.running.contains(&id) {
            return;
        }
        state.waiting.put(id, chunk());
        if state.waiting.len() > MAX_WAITING && state.waiting.pop_lru().is_some() {
            self.give_up();
        }
        self.count(&state);
    }

    /// Removes a chunk that has been verified elsewhere.
    pub fn remove(&self, id: &ChunkId) {
        if self.is_empty() {
            return;
        }
        let mut state = lock(&self.0.state);
        state.waiting.pop(id);
        self.count(&state);
    }

    /// Takes the chunk to be finished next. It counts as unverified until the `Work` is dropped.
    pub fn take(&self) -> Option<(Work, Unfinished)> {
        if self.is_empty() {
            return None;
        }
        let mut state = lock(&self.0.state);
        let (id, chunk) = state.waiting.pop_mru()?;
        state.running.push(id);
        self.count(&state);
        Some((
            Work {
                list: self.clone(),
                id,
                is_done: false,
            },
            chunk,
        ))
    }

    /// Whether no chunk waits or is being finished.
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }

    /// Whether a chunk waits, or is being finished.
    pub fn has(&self, id: &ChunkId) -> bool {
        if self.is_empty() {
            return false;
        }
        let state = lock(&self.0.state);
        state.waiting.contains(id) || state.running.contains(id)
    }

    /// The number of chunks given up so far, whose checksums were never verified.
    pub fn given_up(&self) -> u64 {
        self.0.given_up.load(Ordering::Acquire)
    }

    fn give_up(&self) {
        self.0.given_up.fetch_add(1, Ordering::AcqRel);
    }

    fn count(&self, state: &State) {
        self.0
            .count
            .store(state.waiting.len() + state.running.len(), Ordering::Release);
    }
}

/// A chunk that is being finished. The chunk is given up if this value is dropped before
/// [`Work::done`].
pub(super) struct Work {
    list: List,
    pub id: ChunkId,
    is_done: bool,
}

impl Work {
    /// The result is known: the chunk is intact, corrupt or damaged.
    pub fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.is_done {
            self.list.give_up();
        }
        let mut state = lock(&self.list.0.state);
        state.running.retain(|id| *id != self.id);
        self.list.count(&state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::tile::Fingerprint;

    fn id(number: u64) -> ChunkId {
        ChunkId {
            dataset: Fingerprint::digest(&"dataset"),
            number,
        }
    }

    fn add(list: &List, number: u64) {
        let (dataset, at, voxel) = (Weak::new(), [0; 5], VoxelType::U8);
        list.add(id(number), || Unfinished {
            dataset,
            at,
            voxel,
            request: None,
        });
    }

    #[test]
    fn the_newest_comes_first_and_is_unverified_until_it_is_done() {
        let list = List::default();
        assert!(list.is_empty() && list.take().is_none());
        (1..4).for_each(|number| add(&list, number));
        // Requested again, so it moves to the front.
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
        (0..=MAX_WAITING as u64).for_each(|number| add(&list, number));
        assert_eq!(
            (list.given_up(), list.has(&id(0)), list.has(&id(1))),
            (1, false, true)
        );
    }
}
