//! What the voxels of a level are read from: for whoever wants to read everything in an order that decodes it once.

use serde::Serialize;
use utoipa::ToSchema;

use super::StoredLevel;
use crate::axes::AxisName;
use crate::geometry::LevelView;
use crate::layout::Paths;
use crate::tile::Fingerprint;
use crate::volume::Access;

/// The stored level that the tiles of a level are drawn from, and the boxes that it is stored in.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SourceDescription {
    /// The same for all levels, also of other channels, that are read from the same boxes; another once the file has
    /// changed.
    pub id: String,
    /// Its extent: x, y, z.
    pub size: [u64; 3],
    /// By how much it is reduced against level 0: x, y, z.
    pub factor: [u64; 3],
    /// The box that is stored together: x, y, z.
    pub chunk: [u64; 3],
    /// How many time points are stored together in one box.
    pub times: u64,
    /// The bytes that one box takes in memory, with all that is stored together with it.
    pub bytes: u64,
    /// How boxes are had: `copied` (only what is wanted), `kept` (decoded once, and kept for a while), or `anew`
    /// (decoded for every tile).
    pub access: &'static str,
}

impl SourceDescription {
    /// What a level's view of this stored level reads.
    pub(super) fn of(level: &StoredLevel, view: &LevelView) -> Option<Self> {
        let shape = level.volumes.first()?.shape();
        let voxel_bytes = shape.voxel.samples().voxel_bytes() as u64;
        let times = if level.times_are_datasets() { 1 } else { level.chunk_along(AxisName::T) };
        let together = match &level.storage.chunk {
            Some(chunk) => chunk.iter().fold(1, |voxels: u64, extent| voxels.saturating_mul(*extent)),
            None => shape.chunk.volume(),
        };
        let components = if level.shares_chunks() { 1 } else { level.volumes.len() as u64 };
        let factor =
            view.factor.zip(view.downsample, |factor, downsample| (factor / downsample.max(1)).max(1));
        Some(Self {
            id: level.boxes_id().to_string(),
            size: level.size.into(),
            factor: factor.into(),
            chunk: shape.chunk.into(),
            times,
            bytes: together.saturating_mul(voxel_bytes).saturating_mul(components),
            access: match shape.access {
                Access::Copied => "copied",
                Access::Kept => "kept",
                Access::Anew => "anew",
            },
        })
    }
}

impl StoredLevel {
    /// Tells the boxes that its voxels are in from all others.
    fn boxes_id(&self) -> Fingerprint {
        // What is held still chooses a box by where it lies in the grid of boxes.
        let held = |(axis, index): &(AxisName, u64)| (*axis, index / self.chunk_along(*axis));
        let held: Vec<(AxisName, u64)> = self.source.view.fixed.iter().map(held).collect();
        Fingerprint::of(&(&self.source.paths, &self.files, held))
    }

    /// The extent of a chunk along a stored axis; 1 where there are no chunks, or no such axis.
    fn chunk_along(&self, axis: AxisName) -> u64 {
        let place = self.source.view.axes.position(axis);
        let extent = place.and_then(|place| self.storage.chunk.as_ref()?.get(place));
        extent.copied().unwrap_or(1).max(1)
    }

    fn times_are_datasets(&self) -> bool {
        matches!(self.source.paths, Paths::Times(_))
    }
}
