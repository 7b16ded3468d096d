//! Chunks whose checksum is wrong.
//!
//! They are identified by chunk number and by the fingerprint of their dataset as it was opened.
//! Their voxels are shown only after the whole chunk has been decoded, which fails until the file
//! is repaired. Cached tiles of these chunks are not used, even after that, because they may have
//! been made from wrong voxels.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::base::tile::Fingerprint;
use crate::volume::ChunkId;
use crate::volume::hdf5::grid::{Grid, StoredBox};

/// The maximum number of chunks stored, about 16 bytes each. When it is reached, all chunks of all
/// datasets are refused.
const MAX_REFUSED: usize = 1 << 16;

/// The refused chunks; clones share them.
#[derive(Clone, Default)]
pub(super) struct Refused(Arc<Shared>);

#[derive(Default)]
struct Shared {
    chunks: RwLock<HashMap<Fingerprint, HashSet<u64>>>,
    /// The number of chunks, readable without the lock.
    count: AtomicUsize,
}

impl Refused {
    /// Adds a chunk; false if it is already refused.
    pub fn add(&self, id: ChunkId) -> bool {
        let mut chunks = self
            .0
            .chunks
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_full() || !chunks.entry(id.dataset).or_default().insert(id.number) {
            return false;
        }
        self.0.count.fetch_add(1, Ordering::AcqRel);
        true
    }

    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 0
    }

    pub fn has(&self, id: &ChunkId) -> bool {
        !self.is_empty()
            && (self.is_full() || self.with(id.dataset, |numbers| numbers.contains(&id.number)))
    }

    /// Whether a box intersects a refused chunk.
    pub fn touches(&self, dataset: Fingerprint, grid: &Grid, stored: &StoredBox) -> bool {
        if self.is_empty() {
            return false;
        }
        self.is_full()
            || self.with(dataset, |numbers| {
                // The shorter list: a box may have millions of chunks.
                if grid.chunk_count_of(stored) > numbers.len() as u64 {
                    numbers
                        .iter()
                        .any(|number| grid.touches(stored, &grid.numbered(*number)))
                } else {
                    grid.chunks_of(stored)
                        .any(|at| numbers.contains(&grid.number(&at)))
                }
            })
    }

    fn is_full(&self) -> bool {
        self.0.count.load(Ordering::Acquire) >= MAX_REFUSED
    }

    fn with(&self, dataset: Fingerprint, is_so: impl FnOnce(&HashSet<u64>) -> bool) -> bool {
        let chunks = self.0.chunks.read().unwrap_or_else(PoisonError::into_inner);
        chunks.get(&dataset).is_some_and(is_so)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::hdf5::grid::padded;

    #[test]
    fn a_box_touches_a_refused_chunk_or_does_not() {
        let (one, other) = (Fingerprint::digest(&1), Fingerprint::digest(&2));
        let grid = Grid::new(&[4, 4], &[2, 2]);
        let stored = |start: [u64; 2]| StoredBox {
            start: padded(&start, 0),
            count: [1; 5],
        };
        let refused = Refused::default();
        assert!(refused.is_empty() && !refused.touches(one, &grid, &stored([3, 3])));
        assert!(refused.add(ChunkId {
            dataset: one,
            number: 3
        }));
        assert!(
            !refused.add(ChunkId {
                dataset: one,
                number: 3
            }),
            "known already"
        );
        assert!(refused.has(&ChunkId {
            dataset: one,
            number: 3
        }));
        assert!(!refused.has(&ChunkId {
            dataset: other,
            number: 3
        }));
        assert!(
            refused.touches(one, &grid, &stored([2, 3]))
                && !refused.touches(one, &grid, &stored([2, 1]))
        );
        assert!(!refused.touches(other, &grid, &stored([2, 3])));
    }

    #[test]
    fn beyond_the_bound_everything_is_refused() {
        let refused = Refused::default();
        let dataset = Fingerprint::digest(&1);
        (0..MAX_REFUSED as u64)
            .for_each(|number| assert!(refused.add(ChunkId { dataset, number })));
        assert!(!refused.add(ChunkId {
            dataset,
            number: u64::MAX
        }));
        assert!(refused.has(&ChunkId {
            dataset: Fingerprint::digest(&2),
            number: 7
        }));
    }
}
