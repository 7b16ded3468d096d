//! A work: all selected tiles, slab by slab.
//!
//! A slab is as thick as a stored chunk, along the axis of slices, and as wide as the volume. Its
//! tiles are rendered at all levels that are read from its chunks: row by row and column by column,
//! and at each place slice by slice. So a chunk is decoded once for each level and plane, and only
//! once for all levels if the cache of decoded chunks holds a slab. (When warming, a chunk is
//! decoded whole at once; otherwise the first tile decodes only the part that it shows.)

use std::ops::Range;

use voltile_base::description::DatasetDescription;
use voltile_base::request::TileRequest;
use voltile_base::shard::Shard;

use super::choose::choose;
use super::pass::{LevelSlices, Pass, Slab};
use super::selection::Selection;

/// Tiles, and the order in which they are rendered.
#[derive(Debug, Clone)]
pub struct WarmWork {
    passes: Vec<Pass>,
    /// The range of its slabs among the slabs of all passes.
    part: Range<usize>,
    total: u64,
}

impl WarmWork {
    /// The selected tiles of the datasets; only one shard of them, if it is given.
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
            part: 0..usize::MAX,
            total: 0,
        };
        let counts: Vec<u64> = work.slabs().map(Slab::count).collect();
        if let [pass, ..] = &*work.passes
            && counts.iter().all(|count| *count == 0)
        {
            let known: Vec<String> = pass.levels.iter().map(LevelSlices::known).collect();
            return Err(format!(
                "the selected slices do not exist: in {} there are {}",
                pass.plane,
                known.join(", ")
            ));
        }
        work.part = shard.map_or(0..counts.len(), |shard| shard.part(&counts));
        for count in &counts[work.part.clone()] {
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

    fn slabs(&self) -> impl Iterator<Item = Slab<'_>> {
        let all = self.passes.iter().flat_map(Pass::slabs);
        all.skip(self.part.start).take(self.part.len())
    }
}
