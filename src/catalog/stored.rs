//! A level stored in a file: the channel's own file or a sidecar.

use std::collections::BTreeSet;
use std::sync::Arc;

use voltile_base::description::StorageDescription;
use voltile_base::geometry::{Level, LevelView, Scaling, Xyz};
use voltile_base::tile::Fingerprint;
use voltile_hdf5::volume::hdf5::{FileIdentity, View};
use voltile_hdf5::volume::{Volume, VolumeShape};

use crate::layout::Paths;

/// A level stored in a file.
#[derive(Debug)]
pub struct StoredLevel {
    /// The shape of each of its volumes.
    pub shape: VolumeShape,
    /// How its first dataset is stored.
    pub storage: StorageDescription,
    /// The file name of the sidecar that contains it, if it is in one.
    pub sidecar: Option<String>,
    pub(super) source: LevelSource,
    /// All files that its voxels are read from.
    pub(super) files: BTreeSet<FileIdentity>,
    /// Identifies its voxels, in the current generation of its files.
    pub(super) fingerprint: Fingerprint,
    /// One volume, or one for each of red, green and blue; not empty.
    pub volumes: Vec<Arc<dyn Volume>>,
}

/// The datasets of a stored level, its number, and how its datasets are interpreted.
#[derive(Debug, Clone, Hash)]
pub(super) struct LevelSource {
    pub level: Level,
    /// The downsample factor of z relative to level 0.
    pub z_factor: u64,
    pub paths: Paths,
    pub view: View,
}

impl StoredLevel {
    /// The level's number.
    pub fn level(&self) -> Level {
        self.source.level
    }

    /// The path of its first dataset.
    pub fn path(&self) -> &str {
        self.source.paths.first().unwrap_or_default()
    }

    /// All files that its voxels are read from.
    pub fn files(&self) -> impl Iterator<Item = &FileIdentity> {
        self.files.iter()
    }

    /// Whether it can replace the level that `view` derives: number, z factor and size are equal.
    pub(super) fn stands_for(&self, view: &LevelView) -> bool {
        self.level() == view.level
            && self.source.z_factor == view.factor.z
            && self.shape.size == view.size
    }
}

/// How `level` is derived from the stored `levels`, see [`LevelView::choose`]; `None` if there is
/// no such level.
pub(super) fn level_view(
    levels: &[StoredLevel],
    level: Level,
    scaling: Scaling,
) -> Option<LevelView> {
    let candidates: Vec<(Level, u64, Xyz<u64>)> = levels
        .iter()
        .map(|stored| (stored.level(), stored.source.z_factor, stored.shape.size))
        .collect();
    LevelView::choose(level, &candidates, scaling)
}
