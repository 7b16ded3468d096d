//! One channel: its stored levels, its window, and what tells its pixels from those of any other.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::survey;
use crate::geometry::{Level, LevelView, Scaling, Xyz};
use crate::layout::Paths;
use crate::name::Name;
use crate::paint::{Kind, Window};
use crate::volume::hdf5::{FileIdentity, StorageDescription, View};
use crate::volume::{ReadError, Volume, VoxelType};

/// A channel of a dataset.
#[derive(Debug)]
pub struct Channel {
    /// The name in URLs.
    pub name: Name,
    /// What its file calls it.
    pub label: Option<String>,
    /// What its numbers mean.
    pub kind: Kind,
    /// The type of its voxels.
    pub voxel: VoxelType,
    /// The number of time points, at least 1.
    pub times: u64,
    /// Whether it is a time series, however short.
    pub is_series: bool,
    /// The size of a voxel as its file has it, in whatever unit.
    pub voxel_size: Option<Xyz<f64>>,
    pub(super) levels: Vec<StoredLevel>,
    pub(super) window: ChannelWindow,
    pub(super) identity: ChannelIdentity,
}

/// A level that lies in a file.
#[derive(Debug)]
pub struct StoredLevel {
    /// Which level it is.
    pub level: Level,
    /// By how much z is reduced against level 0.
    pub z_factor: u64,
    /// Its extent.
    pub size: Xyz<u64>,
    /// The path of its dataset, of the first time point if there are several.
    pub path: String,
    /// How that dataset is stored.
    pub storage: StorageDescription,
    /// One volume, or one for each of red, green and blue.
    pub(super) volumes: Vec<Arc<dyn Volume>>,
}

/// Everything about a channel that decides its pixels.
#[derive(Debug, Clone, Hash)]
pub(super) struct ChannelIdentity {
    pub kind: Kind,
    pub levels: Vec<LevelIdentity>,
}

/// Everything about a stored level that decides its voxels.
#[derive(Debug, Clone, Hash)]
pub(super) struct LevelIdentity {
    pub level: Level,
    pub z_factor: u64,
    pub file: FileIdentity,
    pub paths: Paths,
    pub view: View,
}

/// A window that is known, or one that is found out from the data when it is first needed.
#[derive(Debug)]
pub(super) enum ChannelWindow {
    Known(Window),
    Measured(OnceCell<Window>),
}

/// What a configuration would say to name a channel's stored levels one by one.
#[derive(Debug)]
pub struct SpelledOut<'a> {
    /// The path and the factor (x, y, z) of each level, finest first.
    pub levels: Vec<(&'a str, Xyz<u64>)>,
    /// The axes and what is held still.
    pub view: &'a View,
}

impl Channel {
    /// The stored levels, finest first.
    pub fn levels(&self) -> &[StoredLevel] {
        &self.levels
    }

    /// The window in force; `None` until it has been measured.
    pub fn window(&self) -> Option<Window> {
        match &self.window {
            ChannelWindow::Known(window) => Some(*window),
            ChannelWindow::Measured(cell) => cell.get().copied(),
        }
    }

    /// Where the measured window is kept; `None` where it was known from the start.
    pub fn measured_window(&self) -> Option<&OnceCell<Window>> {
        match &self.window {
            ChannelWindow::Known(_) => None,
            ChannelWindow::Measured(cell) => Some(cell),
        }
    }

    /// Measures the window: reads a bounded sample, always the same one.
    pub fn survey(&self) -> Result<Window, ReadError> {
        survey::window(self)
    }

    /// The settings that would name the stored levels one by one.
    ///
    /// `None` where time points are datasets of their own, which only their layout can find.
    pub fn spelled_out(&self) -> Option<SpelledOut<'_>> {
        let view = self.identity.levels.first().map(|level| &level.view)?;
        let level = |level: &'_ LevelIdentity| match &level.paths {
            Paths::One(_) => Some(Xyz::new(level.level.factor(), level.level.factor(), level.z_factor)),
            Paths::Times(_) => None,
        };
        let factors = self.identity.levels.iter().map(level).collect::<Option<Vec<_>>>()?;
        let paths = self.levels.iter().map(|level| level.path.as_str());
        Some(SpelledOut { levels: paths.zip(factors).collect(), view })
    }

    /// How a level of it is had; `None` where there is no such level.
    pub fn view(&self, level: Level, scaling: Scaling) -> Option<LevelView> {
        let stored: Vec<_> = self.levels.iter().map(|l| (l.level, l.z_factor, l.size)).collect();
        LevelView::choose(level, &stored, scaling)
    }

    /// The extent at full resolution.
    pub fn size(&self) -> Xyz<u64> {
        self.levels.first().map_or(Xyz::all(0), |level| level.size)
    }
}
