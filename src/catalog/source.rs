//! Describes the stored boxes that a level is read from, so that a client can request all tiles in an order that
//! decodes each box once.

use serde::Serialize;
use utoipa::ToSchema;

use super::StoredLevel;
use crate::axes::AxisName;
use crate::geometry::LevelView;
use crate::layout::Paths;
use crate::tile::Fingerprint;
use crate::volume::Access;

/// The stored level that the tiles of a level are read from, and the boxes in which it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SourceDescription {
    /// Equal for all levels, of any channel, that are read from the same boxes; changes when the file changes.
    pub id: String,
    /// Its extent: x, y, z.
    pub size: [u64; 3],
    /// Its downsample factor relative to level 0: x, y, z.
    pub factor: [u64; 3],
    /// The extent of a box (a chunk, if the dataset is chunked): x, y, z.
    pub chunk: [u64; 3],
    /// The number of time points stored in one box.
    pub times: u64,
    /// The bytes of one box in memory, including all time points and components stored in it.
    pub bytes: u64,
    /// How boxes are read: `copied` (only the voxels needed), `kept` (decoded once and cached), or `anew` (decoded
    /// for every tile).
    pub access: &'static str,
}

impl SourceDescription {
    /// Describes `level` as the source of `view`; `None` if it has no volume.
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
    /// Identifies the boxes that contain its voxels.
    fn boxes_id(&self) -> Fingerprint {
        // A fixed position selects the box that contains it.
        let box_of = |(axis, index): &(AxisName, u64)| (*axis, index / self.chunk_along(*axis));
        let fixed: Vec<(AxisName, u64)> = self.source.view.fixed.iter().map(box_of).collect();
        Fingerprint::of(&(&self.source.paths, &self.files, fixed))
    }

    /// The extent of a chunk along a stored axis; 1 if the dataset is not chunked or has no such axis.
    fn chunk_along(&self, axis: AxisName) -> u64 {
        let place = self.source.view.axes.position(axis);
        let extent = place.and_then(|place| self.storage.chunk.as_ref()?.get(place));
        extent.copied().unwrap_or(1).max(1)
    }

    fn times_are_datasets(&self) -> bool {
        matches!(self.source.paths, Paths::Times(_))
    }
}
