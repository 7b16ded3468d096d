//! The chunk shapes of chunked formats: the stored one where it suits clients, because it costs the
//! least.

use std::ops::RangeInclusive;

use voltile_base::geometry::{LevelView, Xyz};
use voltile_base::units;
use voltile_hdf5::volume::VoxelType;

use super::{Channel, Dataset, StoredLevel};

/// The shape of chunks where the stored one does not suit clients.
const CUBE: Xyz<u64> = Xyz::new(64, 64, 64);
/// The shape of chunks where a cube would touch too many stored chunks: the same number of voxels,
/// all in one section.
pub(super) const SECTION: Xyz<u64> = Xyz::new(512, 512, 1);
/// The extents of suitable chunks along each axis. A thinner level may have chunks of its extent.
const EDGES: RangeInclusive<u64> = 16..=256;
/// The size of the largest suitable chunk in bytes.
const MAX_BYTES: u64 = 4 << 20;

impl Channel {
    /// The stored level that a view shows without downsampling; `None` for a derived one.
    pub(super) fn stored_level(&self, view: &LevelView) -> Option<&StoredLevel> {
        view.is_stored().then(|| self.source(view))
    }
}

impl Dataset {
    /// The levels that chunked formats list: none is finer than the one before it along any axis,
    /// as clients expect. Derived levels that stand in the way of a stored one are left out.
    pub(super) fn listed_views(&self, channel: &Channel) -> Vec<LevelView> {
        let all = self.served_views(channel);
        let mut listed: Vec<LevelView> = Vec::new();
        for (index, view) in all.iter().enumerate() {
            let mut stored = all.iter().skip(index + 1).filter(|later| later.is_stored());
            let is_in_the_way = !view.is_stored() && stored.any(|later| !is_ordered(view, later));
            if !is_in_the_way && listed.last().is_none_or(|last| is_ordered(last, view)) {
                listed.push(*view);
            }
        }
        listed
    }
}

/// Whether the factors of a level do not exceed those of the next level along any axis.
fn is_ordered(finer: &LevelView, coarser: &LevelView) -> bool {
    let is_finer = finer
        .factor
        .zip(coarser.factor, |finer, coarser| finer <= coarser);
    is_finer.everywhere()
}

impl StoredLevel {
    /// The chunk shape, if it is stored in chunks.
    pub(super) fn chunk(&self) -> Option<Xyz<u64>> {
        self.storage.chunk.as_ref()?;
        Some(self.shape.chunk)
    }

    /// The chunk shape, clipped to the level, if it suits clients to which the voxels are sent as
    /// this type; otherwise the reason why it does not.
    pub(super) fn suitable_chunk(&self, voxel: VoxelType) -> Result<Xyz<u64>, String> {
        let voxel_bytes = (voxel.stored_bytes() * self.volumes.len()) as u64;
        let chunk = self.chunk().ok_or("it is not stored in chunks")?;
        suitable(chunk, self.shape.size, voxel_bytes).ok_or_else(|| {
            format!(
                "its chunks of {chunk} are not between {} and {} voxels along each axis and at most {}",
                EDGES.start(),
                EDGES.end(),
                units::bytes(MAX_BYTES)
            )
        })
    }
}

/// The shape of chunks where the stored one does not suit clients; `None` if each would need more
/// voxels than `affords` allows.
pub(super) fn default_chunk(affords: impl Fn(&Xyz<u64>) -> bool) -> Option<Xyz<u64>> {
    [CUBE, SECTION].into_iter().find(affords)
}

/// The chunk shape, clipped to a level of this size, if it is neither too thin nor too large.
fn suitable(chunk: Xyz<u64>, size: Xyz<u64>, voxel_bytes: u64) -> Option<Xyz<u64>> {
    let clipped = chunk.zip(size, u64::min);
    let is_good_edge = clipped.zip(size, |edge, extent| {
        EDGES.contains(&edge) || (edge == extent && extent < *EDGES.start())
    });
    let is_small = clipped.volume().saturating_mul(voxel_bytes) <= MAX_BYTES;
    (is_good_edge.everywhere() && is_small).then_some(clipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_suit_clients_if_they_are_neither_thin_nor_large() {
        let suitable = |x, y, z, bytes| suitable(Xyz::new(x, y, z), Xyz::new(1000, 1000, 7), bytes);
        assert_eq!(suitable(256, 256, 7, 8), Some(Xyz::new(256, 256, 7)));
        assert_eq!(suitable(16, 16, 64, 1), Some(Xyz::new(16, 16, 7)));
        for (x, y, z, bytes) in [
            (257, 64, 7, 1),
            (15, 64, 7, 1),
            (64, 64, 1, 1),
            (256, 256, 7, 16),
        ] {
            assert_eq!(suitable(x, y, z, bytes), None);
        }
    }
}
