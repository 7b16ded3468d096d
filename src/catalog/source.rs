//! Describes the stored boxes that a level is read from, so that a client can request all tiles in
//! an order in which boxes are stored.

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
    let times = match level.source.paths {
        Paths::Times(_) => 1,
        _ => level.chunk_along(AxisName::T),
    };
    let factor = view.factor.zip(view.downsample, |factor, downsample| {
        (factor / downsample.max(1)).max(1)
    });
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
        let fixed = view.fixed.iter();
        let fixed: Vec<(AxisName, u64)> = fixed
            .map(|(axis, index)| (*axis, index / self.chunk_along(*axis)))
            .collect();
        let files = KeyOf::files(&self.files, None);
        Fingerprint::digest(&(&self.source.paths, files, fixed, view.repeat))
    }

    /// The extent of a chunk along a stored axis; 1 if the dataset is not chunked or has no such
    /// axis.
    pub(super) fn chunk_along(&self, axis: AxisName) -> u64 {
        let place = self.source.view.axes.position(axis);
        let extent = place.and_then(|place| self.storage.chunk.as_ref()?.get(place));
        extent.copied().unwrap_or(1).max(1)
    }
}
