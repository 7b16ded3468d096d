//! One channel: its stored levels, its window, and what tells its pixels from those of any other.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::made;
use super::stored::StoredLevel;
use super::survey::{self, Survey};
use super::watch::Watch;
use crate::geometry::{Level, LevelView, Scaling, Xyz};
use crate::layout::Paths;
use crate::layout::inventory::{ChannelRecord, range_text};
use crate::name::Name;
use crate::paint::{Kind, Window};
use crate::tile::Fingerprint;
use crate::volume::hdf5::View;
use crate::volume::{ReadError, Volume, VoxelType};

/// A channel of a dataset.
#[derive(Debug)]
pub struct Channel {
    /// The name in URLs.
    pub name: Name,
    /// The file that it was found in, links resolved.
    pub file: PathBuf,
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
    /// Levels that `voltile pyramid` made of these, for none that is among them.
    pub(super) made: Vec<StoredLevel>,
    pub(super) window: ChannelWindow,
    /// What its sample told, once it has been taken.
    pub(super) surveyed: OnceLock<Arc<Survey>>,
    /// Whether its files are what they were when they were opened.
    pub(super) watch: Watch,
    /// Tells its voxels, and what they mean, from those of any other channel.
    pub fingerprint: Fingerprint,
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
    /// The levels that the file's layout names, finest first; not those that were made of them.
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

    /// What its sample told; `None` until it has been taken, see [`Channel::survey`].
    pub fn surveyed(&self) -> Option<&Arc<Survey>> {
        self.surveyed.get()
    }

    /// Takes a bounded sample, always the same one, and tells what is in it. Nothing is kept: see [`Channel::keep`].
    pub fn survey(&self) -> Result<Survey, ReadError> {
        survey::survey(self.levels.last().map_or(&[], StoredLevel::volumes), self.voxel)
    }

    /// Keeps what the sample told, and the window with it where that is measured. The first that is kept stays.
    pub fn keep(&self, survey: &Arc<Survey>) {
        let survey = self.surveyed.get_or_init(|| Arc::clone(survey));
        if let ChannelWindow::Measured(cell) = &self.window {
            cell.get_or_init(|| survey.window);
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
    ///
    /// What [`Channel::made_from`] says, unless that level was made before and stored.
    pub fn view(&self, level: Level, scaling: Scaling) -> Option<LevelView> {
        let view = self.made_from(level, scaling)?;
        let made = self.made.iter().position(|made| made.stands_for(&view)).filter(|_| !view.is_stored());
        Some(made.map_or(view, |place| view.stored_as(self.levels.len() + place)))
    }

    /// How a level is had from those that the file's layout names: as it is, or made of the nearest finer one.
    pub fn made_from(&self, level: Level, scaling: Scaling) -> Option<LevelView> {
        made::view(&self.levels, level, scaling)
    }

    /// Whether its own file lacks a level, whatever a sidecar has.
    pub fn lacks(&self, view: &LevelView) -> bool {
        let has = |made: &StoredLevel| made.sidecar.is_none() && made.stands_for(view);
        !view.is_stored() && !self.made.iter().any(has)
    }

    /// Whether it is known well enough if its files have changed since they were opened.
    pub fn is_checked(&self) -> bool {
        self.watch.is_fresh()
    }

    /// Finds out whether its files have changed. Asks the file system: never to be called on an async thread.
    pub fn check(&self) {
        self.watch.check();
    }

    /// Notes that one of its files turned out to have changed while it was read.
    pub fn note_change(&self) {
        self.watch.note_change();
    }

    /// Whether its files were found to have changed since they were opened.
    pub fn has_changed(&self) -> bool {
        self.watch.has_changed()
    }

    /// The levels that its file stores, and those that were made of them before.
    pub(super) fn all_levels(&self) -> impl Iterator<Item = &StoredLevel> {
        self.levels.iter().chain(&self.made)
    }

    /// The stored level that a view of this channel reads.
    pub(super) fn source(&self, view: &LevelView) -> Option<&StoredLevel> {
        self.all_levels().nth(view.stored)
    }

    /// The volumes that a view of this channel reads; never none.
    pub(super) fn volumes(&self, view: &LevelView) -> &[Arc<dyn Volume>] {
        self.source(view).map_or(&[], StoredLevel::volumes)
    }

    /// What identifies the made level that a view of this channel reads, where it reads one.
    pub(super) fn made_fingerprint(&self, view: &LevelView) -> Option<Fingerprint> {
        Some(self.made.get(view.stored.checked_sub(self.levels.len())?)?.fingerprint)
    }

    /// Whether there is anything of a level at a time: of what it was made of, where it was made.
    pub(super) fn is_there(&self, view: &LevelView, scaling: Scaling, time: u64) -> bool {
        let is_made = view.stored >= self.levels.len();
        let base = if is_made { self.made_from(view.level, scaling) } else { Some(*view) };
        let base = base.and_then(|view| self.source(&view));
        base.and_then(|base| base.volumes.first()).is_some_and(|volume| volume.has(time))
    }

    /// What a file that voltile writes says of the channel; its levels are left out.
    pub fn record(&self, scaling: Scaling) -> ChannelRecord {
        let has = |time: &u64| {
            self.levels.first().and_then(|l| l.volumes.first()).is_some_and(|volume| volume.has(*time))
        };
        ChannelRecord {
            name: self.name.to_string(),
            label: self.label.clone(),
            colour: self.colour.clone(),
            kind: self.kind.name().to_owned(),
            dtype: self.voxel.name().to_owned(),
            range: self.window().as_ref().and_then(range_text),
            voxel_size: self.voxel_size.map(Xyz::into),
            voxel_unit: self.voxel_unit.clone(),
            series: self.is_series,
            times: self.times,
            missing: (0..self.times).filter(|time| !has(time)).collect(),
            scaling: scaling.name().to_owned(),
            origin: made::origin(&self.levels),
            levels: Vec::new(),
        }
    }

    /// The extent at full resolution.
    pub fn size(&self) -> Xyz<u64> {
        self.levels.first().map_or(Xyz::all(0), |level| level.size)
    }
}
