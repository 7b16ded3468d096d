//! One channel: its stored levels, its window, and what tells its pixels from those of any other.

use std::sync::{Arc, OnceLock};

use super::survey;
use crate::geometry::{Level, LevelView, Scaling, Xyz};
use crate::layout::Paths;
use crate::name::Name;
use crate::paint::{Kind, Window};
use crate::tile::Fingerprint;
use crate::volume::hdf5::{StorageDescription, View};
use crate::volume::{ReadError, Volume, VoxelType};

/// A channel of a dataset.
#[derive(Debug)]
pub struct Channel {
    /// The name in URLs.
    pub name: Name,
    /// What its file calls it.
    pub label: Option<String>,
    /// The colour that its file gives it, as `#rrggbb`.
    pub colour: Option<String>,
    /// What its numbers mean.
    pub kind: Kind,
    /// The type of its voxels.
    pub voxel: VoxelType,
    /// The number of time points, at least 1.
    pub times: u64,
    /// Whether it is a time series, however short.
    pub is_series: bool,
    /// The size of a voxel as its file has it.
    pub voxel_size: Option<Xyz<f64>>,
    /// The unit of these numbers, where the file tells.
    pub voxel_unit: Option<String>,
    pub(super) levels: Vec<StoredLevel>,
    pub(super) window: ChannelWindow,
    /// Tells its voxels, and what they mean, from those of any other channel.
    pub fingerprint: Fingerprint,
}

/// A level that lies in a file.
#[derive(Debug)]
pub struct StoredLevel {
    /// Its extent.
    pub size: Xyz<u64>,
    /// How its dataset, the first of several, is stored.
    pub storage: StorageDescription,
    pub(super) source: LevelSource,
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
}

/// A window that is known, or one that is found out from the data when it is first needed.
#[derive(Debug)]
pub(super) enum ChannelWindow {
    Known(Window),
    Measured(OnceLock<Window>),
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

    /// Whether the window is found out from the data.
    pub fn is_measured(&self) -> bool {
        matches!(self.window, ChannelWindow::Measured(_))
    }

    /// Measures the window, and keeps it: reads a bounded sample, always the same one.
    pub fn survey(&self) -> Result<Window, ReadError> {
        match &self.window {
            ChannelWindow::Known(window) => Ok(*window),
            ChannelWindow::Measured(cell) => {
                let window = survey::window(self)?;
                Ok(*cell.get_or_init(|| window))
            }
        }
    }

    /// The settings that would name the stored levels one by one.
    ///
    /// `None` where time points are datasets of their own, which only their layout can find.
    pub fn spelled_out(&self) -> Option<SpelledOut<'_>> {
        let view = &self.levels.first()?.source.view;
        let named = |level: &'_ StoredLevel| matches!(level.source.paths, Paths::One(_));
        let factor = |level: &StoredLevel| {
            Xyz::new(level.level().factor(), level.level().factor(), level.source.z_factor)
        };
        let levels = self.levels.iter().map(|level| (level.path(), factor(level))).collect();
        self.levels.iter().all(named).then_some(SpelledOut { levels, view })
    }

    /// How a level of it is had; `None` where there is no such level.
    pub fn view(&self, level: Level, scaling: Scaling) -> Option<LevelView> {
        let stored: Vec<_> = self.levels.iter().map(|l| (l.level(), l.source.z_factor, l.size)).collect();
        LevelView::choose(level, &stored, scaling)
    }

    /// The extent at full resolution.
    pub fn size(&self) -> Xyz<u64> {
        self.levels.first().map_or(Xyz::all(0), |level| level.size)
    }
}
