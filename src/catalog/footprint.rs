//! The stored voxels that an answer or a sample is made from: they are fetched from a store ahead
//! of reading, and must be final for the answer to be kept.

use std::sync::Arc;

use voltile_hdf5::store::Gathering;
use voltile_hdf5::volume::{ReadError, VolumePart};
use voltile_render::plan::{Cutout, Plan};
use voltile_render::survey;

use super::Channel;

/// Boxes of stored voxels.
#[derive(Debug, Clone, Default)]
pub struct Footprint(Vec<VolumePart>);

impl Footprint {
    /// The boxes of stored voxels that tiles are rendered from.
    pub(super) fn of_tiles(plans: &[Plan]) -> Self {
        let mut all = Vec::new();
        for source in plans.iter().flat_map(|plan| plan.picture.sources()) {
            all.extend(source.regions().map(|region| VolumePart {
                volume: Arc::clone(&source.volume),
                time: source.time,
                region,
            }));
        }
        Self(all)
    }

    /// The boxes of stored voxels that a requested box is made from.
    pub(super) fn of_box(cutout: &Cutout) -> Self {
        let mut all = Vec::new();
        for part in cutout.parts().filter(|part| part.is_there) {
            let region = part.view.stored_region(&part.region);
            all.extend(part.components.iter().map(|volume| VolumePart {
                volume: Arc::clone(volume),
                time: part.time,
                region,
            }));
        }
        Self(all)
    }

    /// The boxes that a channel's sample is taken from.
    pub fn of_sample(channel: &Channel) -> Self {
        Self(survey::sampled(&channel.coarsest().volumes))
    }

    /// Whether any of its bytes come from a store.
    pub fn is_remote(&self) -> bool {
        self.0.iter().any(|part| part.volume.shape().is_remote)
    }

    /// Starts to fetch the bytes that are not cached; may block while a chunk index is read.
    pub fn gather(&self) -> Result<Gathering, ReadError> {
        let mut all = Gathering::default();
        for part in &self.0 {
            all.extend(part.volume.gather(part.time, &part.region)?);
        }
        Ok(all)
    }

    /// Whether appending to its files will change none of its voxels.
    pub fn is_final(&self) -> bool {
        self.0
            .iter()
            .all(|part| part.volume.is_final(part.time, &part.region))
    }
}
