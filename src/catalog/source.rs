//! Describes the stored boxes that a level is read from, so that a client can request all tiles in
//! an order that decodes each box once.

use super::StoredLevel;
use crate::base::axes::AxisName;
use crate::base::description::SourceDescription;
use crate::base::tile::Fingerprint;
use crate::geometry::LevelView;
use crate::layout::Paths;
use crate::volume::hdf5::KeyOf;

/// Describes `level` as the source of `view`; `None` if it has no volume.
pub(super) fn describe(level: &StoredLevel, view: &LevelView) -> Option<SourceDescription> {
    let shape = level.volumes.first()?.shape();
    let voxel_bytes = shape.voxel.samples().voxel_bytes() as u64;
    let times = if level.times_are_datasets() {
        1
    } else {
        level.chunk_along(AxisName::T)
    };
    let together = match &level.storage.chunk {
        Some(chunk) => chunk
            .iter()
            .fold(1, |voxels: u64, extent| voxels.saturating_mul(*extent)),
        None => shape.chunk.volume(),
    };
    let components = if level.shares_chunks() {
        1
    } else {
        level.volumes.len() as u64
    };
    let factor = view.factor.zip(view.downsample, |factor, downsample| {
        (factor / downsample.max(1)).max(1)
    });
    Some(SourceDescription {
        id: level.boxes_id().to_string(),
        size: level.shape.size.into(),
        factor: factor.into(),
        chunk: shape.chunk.into(),
        times,
        bytes: together
            .saturating_mul(voxel_bytes)
            .saturating_mul(components),
        access: shape.access.name().to_owned(),
    })
}

impl StoredLevel {
    /// Identifies the boxes that contain its voxels.
    fn boxes_id(&self) -> Fingerprint {
        // A fixed position selects the box that contains it.
        let box_of = |(axis, index): &(AxisName, u64)| (*axis, index / self.chunk_along(*axis));
        let fixed: Vec<(AxisName, u64)> = self.source.view.fixed.iter().map(box_of).collect();
        let files = KeyOf::files(&self.files, None);
        Fingerprint::digest(&(&self.source.paths, files, fixed, self.source.view.repeat))
    }

    /// The extent of a chunk along a stored axis; 1 if the dataset is not chunked or has no such
    /// axis.
    fn chunk_along(&self, axis: AxisName) -> u64 {
        let place = self.source.view.axes.position(axis);
        let extent = place.and_then(|place| self.storage.chunk.as_ref()?.get(place));
        extent.copied().unwrap_or(1).max(1)
    }

    fn times_are_datasets(&self) -> bool {
        matches!(self.source.paths, Paths::Times(_))
    }
}
