//! One level that lies in a file: of a channel's own file, or of a sidecar.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::geometry::{Level, LevelView, Xyz};
use crate::layout::Paths;
use crate::tile::Fingerprint;
use crate::volume::Volume;
use crate::volume::hdf5::{FileIdentity, StorageDescription, View};

/// A level that lies in a file.
#[derive(Debug)]
pub struct StoredLevel {
    /// Its extent.
    pub size: Xyz<u64>,
    /// How its dataset, the first of several, is stored.
    pub storage: StorageDescription,
    /// The name of the sidecar that it lies in, where it lies in one.
    pub sidecar: Option<String>,
    pub(super) source: LevelSource,
    pub(super) files: BTreeSet<FileIdentity>,
    /// Tells its voxels from those of any other level, and from what they were before its files changed.
    pub(super) fingerprint: Fingerprint,
    /// One volume, or one for each of red, green and blue; never none.
    pub(super) volumes: Vec<Arc<dyn Volume>>,
}

/// Where a stored level comes from, and what it is among the others.
#[derive(Debug, Clone, Hash)]
pub(super) struct LevelSource {
    pub level: Level,
    /// By how much z is reduced against level 0.
    pub z_factor: u64,
    pub paths: Paths,
    pub view: View,
}

impl StoredLevel {
    /// Which level it is.
    pub fn level(&self) -> Level {
        self.source.level
    }

    /// The path of its dataset, of the first time point if there are several.
    pub fn path(&self) -> &str {
        self.source.paths.first().unwrap_or_default()
    }

    /// One volume, or one for each of red, green and blue.
    pub fn volumes(&self) -> &[Arc<dyn Volume>] {
        &self.volumes
    }

    /// Every file that its voxels come from.
    pub fn files(&self) -> impl Iterator<Item = &FileIdentity> {
        self.files.iter()
    }

    /// Whether it is the level that the view is of.
    pub(super) fn stands_for(&self, view: &LevelView) -> bool {
        (self.level(), self.source.z_factor, self.size) == (view.level, view.factor.z, view.size)
    }
}
