//! Describes the stored boxes (chunks) that a level is read from. A client that needs all tiles can
//! then request the tiles of one box together.

use voltile_base::axes::AxisName;
use voltile_base::description::SourceDescription;
use voltile_base::geometry::{LevelView, Xyz};
use voltile_base::tile::Fingerprint;
use voltile_hdf5::volume::Access;
use voltile_hdf5::volume::hdf5::KeyOf;

use super::StoredLevel;
use crate::layout::Paths;

/// Describes `level` as the source of `view`.
pub(super) fn describe(level: &StoredLevel, view: &LevelView) -> SourceDescription {
    let shape = &level.shape;
    // With a dataset for each time point, no box has several time points.
    let times = match level.source.paths {
        Paths::Times(_) => 1,
        _ => level.chunk_along(AxisName::T),
    };
    // The factor of the stored level relative to level 0.
    let factor = view.factor.zip(view.downsample, |factor, downsample| {
        (factor / downsample.max(1)).max(1)
    });
    // The chunk in the shape of contiguous data is not stored: it only says how to read the data.
    let is_plain = shape.access == Access::Direct && level.storage.chunk.is_none();
    let chunk = if is_plain { Xyz::all(1) } else { shape.chunk };
    SourceDescription {
        id: level.boxes_id().to_string(),
        factor: factor.into(),
        chunk: chunk.into(),
        times,
    }
}

impl StoredLevel {
    /// Identifies the boxes that contain its voxels.
    fn boxes_id(&self) -> Fingerprint {
        // A fixed position selects the box that contains it.
        let view = &self.source.view;
        let mut fixed_boxes: Vec<(AxisName, u64)> = Vec::new();
        for (axis, index) in &view.fixed {
            fixed_boxes.push((*axis, index / self.chunk_along(*axis)));
        }
        let files = KeyOf::files(&self.files, None);
        Fingerprint::digest(&(&self.source.paths, files, fixed_boxes, view.repeat))
    }

    /// The extent of a chunk along a stored axis; 1 if the dataset is not chunked or has no such
    /// axis.
    pub(super) fn chunk_along(&self, axis: AxisName) -> u64 {
        let position = self.source.view.axes.position(axis);
        let extent = position.and_then(|position| self.storage.chunk.as_ref()?.get(position));
        extent.copied().unwrap_or(1).max(1)
    }
}
