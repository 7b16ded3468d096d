//! The order in which all selected tiles are warmed: slab by slab.
//!
//! A slab is a layer of the volume that is as thick as a stored chunk along the axis of slices. Its
//! tiles are rendered at all levels that are read from its chunks. At each level, the tiles are
//! rendered row by row and column by column, and at each place slice by slice. So a chunk is
//! decoded once for each level and plane, and only once for all levels if the cache of decoded
//! chunks holds a slab. (Warming decodes a whole chunk for its first tile. Other requests decode
//! only the part of a chunk that their tile shows.)

use std::ops::Range;

use voltile_base::description::DatasetDescription;
use voltile_base::request::TileRequest;
use voltile_base::shard::Shard;
use voltile_base::text::joined;

use super::choose::choose;
use super::pass::{LevelSlices, Pass, Slab};
use super::selection::Selection;

/// The tiles to render, in order.
#[derive(Debug, Clone)]
pub struct WarmWork {
    passes: Vec<Pass>,
    /// The slabs of this shard, by their indices among the slabs of all passes.
    slab_range: Range<usize>,
    /// The number of tiles.
    total: u64,
}

impl WarmWork {
    /// The selected tiles of the datasets; if a shard is given, only the tiles of this shard.
    ///
    /// # Errors
    /// Nothing is selected, or a selected name exists nowhere; the error lists what exists.
    pub fn new(
        selection: &Selection,
        datasets: &[DatasetDescription],
        shard: Option<&Shard>,
    ) -> Result<Self, String> {
        let mut work = Self {
            passes: choose(selection, datasets)?,
            // All slabs, until the slabs of the shard are known.
            slab_range: 0..usize::MAX,
            total: 0,
        };
        let counts: Vec<u64> = work.slabs().map(Slab::count).collect();
        if let [pass, ..] = &*work.passes
            && counts.iter().all(|count| *count == 0)
        {
            return Err(format!(
                "the selected slices do not exist: in {} there are {}",
                pass.plane,
                joined(pass.levels.iter().map(LevelSlices::in_words))
            ));
        }
        work.slab_range = shard.map_or(0..counts.len(), |shard| shard.part(&counts));
        for count in &counts[work.slab_range.clone()] {
            work.total = work.total.saturating_add(*count);
        }
        Ok(work)
    }

    /// The number of tiles; saturates.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// All tiles in order.
    pub fn tiles(&self) -> impl Iterator<Item = TileRequest> {
        self.slabs().flat_map(Slab::tiles)
    }

    /// The slabs of this shard.
    fn slabs(&self) -> impl Iterator<Item = Slab<'_>> {
        let all = self.passes.iter().flat_map(Pass::slabs);
        all.skip(self.slab_range.start).take(self.slab_range.len())
    }
}
