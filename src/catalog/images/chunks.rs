//! The chunk shape of each level as an array, and whether stored chunks are passed through.

use voltile_base::geometry::{Axis, LevelView, Xyz};
use voltile_base::units;
use voltile_hdf5::volume::ChunkCoding;

use super::array::ArrayLevel;
use crate::catalog::chunks::{SECTION, default_chunk};
use crate::catalog::{Channel, Dataset, StoredLevel};

/// The minimum size in bytes of stored chunks that are passed through: clients request each chunk
/// by itself.
const MIN_PASSED_BYTES: u64 = 1 << 10;
/// The maximum size in bytes of stored chunks that are passed through: clients hold a whole chunk
/// in memory.
const MAX_PASSED_BYTES: u64 = 64 << 20;

impl Dataset {
    /// The levels of a channel as arrays. A derived level is left out if chunks of every default
    /// shape need more voxels than the limit for boxes allows.
    pub(super) fn array_levels(&self, channel: &Channel) -> Vec<ArrayLevel> {
        let views = self.listed_views(channel);
        let levels = views
            .iter()
            .filter_map(|view| self.array_level(channel, view, view.is_stored()));
        levels.collect()
    }

    /// A level as an array; `None` if its chunks would need more voxels than the limit for boxes
    /// allows. If `may_shrink`, chunks are made smaller until they are within the limit.
    pub(super) fn array_level(
        &self,
        channel: &Channel,
        view: &LevelView,
        may_shrink: bool,
    ) -> Option<ArrayLevel> {
        let affords = |chunk: &Xyz<u64>| self.affords(channel, view, *chunk);
        // The stored level, if a whole chunk of it may be read.
        let stored_level = channel
            .stored_level(view)
            .filter(|level| level.chunk().as_ref().is_some_and(affords));
        let stored = stored_level.and_then(|level| self.passes_to_zarr(channel, level).ok());
        let chunk = match stored_level {
            // Chunks that are passed through keep their shape, whether or not it suits clients.
            Some(level) if stored.is_some() => level.chunk(),
            Some(level) => level.suitable_chunk(channel.voxel).ok(),
            None => None,
        };
        let chunk = chunk.or_else(|| choose_chunk(view.size, affords, may_shrink))?;
        Some(ArrayLevel {
            level: view.level,
            size: view.size,
            factor: view.factor,
            chunk,
            stored,
            fill: channel.source(view).shape.fill.clone(),
        })
    }

    /// The coding of the stored chunks of a level if they are passed through in Zarr v2; otherwise
    /// the reason why they are not. Chunks are stored in full size, even where they reach beyond
    /// the level.
    pub(in crate::catalog) fn passes_to_zarr(
        &self,
        channel: &Channel,
        level: &StoredLevel,
    ) -> Result<ChunkCoding, String> {
        let coding = level.shape.coding.clone()?;
        let chunk = level.chunk().ok_or("it is not stored in chunks")?;
        if level.volumes.len() > 1 {
            return Err("each chunk holds only one of several colours".to_owned());
        }
        let bytes = chunk
            .volume()
            .saturating_mul(channel.voxel.stored_bytes() as u64);
        let is_only_chunk = chunk
            .zip(level.shape.size, |edge, extent| edge >= extent)
            .everywhere();
        if bytes > MAX_PASSED_BYTES
            || chunk.volume() > self.limits.voxels_per_box
            || (bytes < MIN_PASSED_BYTES && !is_only_chunk)
        {
            return Err(format!(
                "its chunks of {chunk} are not between {} and {}, or have more voxels than render.max_voxels_per_box",
                units::bytes(MIN_PASSED_BYTES),
                units::bytes(MAX_PASSED_BYTES)
            ));
        }
        Ok(coding)
    }
}

/// A chunk shape that `affords` allows, clipped to the level; `None` if there is none. If
/// `may_shrink`, a section is halved along its longest edge until it is allowed.
fn choose_chunk(
    size: Xyz<u64>,
    affords: impl Fn(&Xyz<u64>) -> bool,
    may_shrink: bool,
) -> Option<Xyz<u64>> {
    if let Some(chunk) = default_chunk(&affords) {
        return Some(chunk.zip(size, u64::min));
    }
    let mut chunk = SECTION.zip(size, u64::min);
    while !affords(&chunk) {
        if !may_shrink || chunk == Xyz::all(1) {
            return None;
        }
        let longest = [Axis::X, Axis::Y, Axis::Z]
            .into_iter()
            .max_by_key(|axis| chunk[*axis])?;
        chunk[longest] = chunk[longest].div_ceil(2);
    }
    Some(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cubes_sections_or_smaller_and_clipped_to_the_level() {
        let size = Xyz::new(1000, 400, 7);
        let chosen = |most: u64, may_shrink| {
            choose_chunk(
                size,
                |chunk| chunk.zip(size, u64::min).volume() <= most,
                may_shrink,
            )
        };
        assert_eq!(chosen(1 << 26, false), Some(Xyz::new(64, 64, 7)));
        assert_eq!(chosen(1000, false), None);
        let small = chosen(1000, true).unwrap();
        assert!(small.volume() <= 1000 && small.volume() > 250, "{small}");
        assert_eq!(chosen(0, true), None);
        // Each chunk of a section that is in a chunk of its own.
        let thin = choose_chunk(size, |chunk| chunk.z == 1, false);
        assert_eq!(thin, Some(Xyz::new(512, 400, 1)));
    }
}
