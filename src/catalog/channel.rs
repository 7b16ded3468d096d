//! A channel: its stored levels, its window, and its fingerprint.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use voltile_base::description::ExistingPictures;
use voltile_base::flow::stalls::Unresponsive;
use voltile_base::geometry::{Level, LevelView, Region, Scaling, Transforms, Xyz};
use voltile_base::name::Name;
use voltile_base::paint::{Kind, Window};
use voltile_base::tile::Fingerprint;
use voltile_base::timing::Timing;
use voltile_hdf5::store::{Location, Object};
use voltile_hdf5::volume::hdf5::{FileIdentity, View};
use voltile_hdf5::volume::{ComplexPart, Missing, Part, ReadError, Volume, VolumeShape, VoxelType};

use super::made;
use super::names::Names;
use super::stored::StoredLevel;
use super::survey::{self, Survey};
use super::watch::Watch;
use crate::layout::inventory::{ChannelRecord, range_text};
use crate::layout::{Paths, Rank};

/// Voxels that differ by less than this part are equal.
const CLOSE: f64 = 1e-3;
/// Channels that are further apart than this, in voxels, are not in one space.
const FURTHEST: f64 = (1u64 << 32) as f64;

/// A channel of a dataset.
#[derive(Debug)]
pub struct Channel {
    /// The name in URLs.
    pub name: Name,
    /// Its file, with links resolved.
    pub file: Location,
    /// Its name in the file, if that is more informative.
    pub label: Option<String>,
    /// The colour given in the file, as `#rrggbb`.
    pub colour: Option<String>,
    /// What its values mean.
    pub kind: Kind,
    /// The type of its voxels.
    pub voxel: VoxelType,
    /// The number of time points, at least 1.
    pub times: u64,
    /// Whether it is a time series, possibly with a single time point.
    pub is_series: bool,
    /// When its time points were recorded, if the file says it.
    pub timing: Option<Timing>,
    /// The voxel size given in the file.
    pub voxel_size: Option<Xyz<f64>>,
    /// The unit of the voxel size, if the file states it.
    pub voxel_unit: Option<String>,
    /// Where the voxel size was found in the file.
    pub voxel_size_from: Option<String>,
    /// Why it holds labels, if something in the file says so.
    pub labels_because: Option<String>,
    /// The values that stand for missing data.
    pub missing: Missing,
    /// Whether parts of it are missing: sources of a virtual dataset, or datasets of a stack.
    pub has_gaps: bool,
    /// Its place in the list of channels: how likely it is what its file was written for, its
    /// number of voxels, and which part of complex numbers it shows.
    pub(super) place: (Rank, Reverse<u64>, Option<ComplexPart>),
    /// Whether it shows stored values that stand for others.
    pub shows_stored_values: bool,
    /// The configured position of its first voxel in the tiles of its dataset.
    pub(super) offset: Option<Xyz<i64>>,
    /// Where its voxels lie in the file's space, in the unit of the voxel size.
    pub(super) transforms: Transforms,
    pub(super) levels: Vec<StoredLevel>,
    /// Levels precomputed by `voltile pyramid` from `levels`; none that `levels` has already.
    pub(super) made: Vec<StoredLevel>,
    pub(super) window: ChannelWindow,
    /// The statistics of its sample, once taken.
    pub(super) surveyed: OnceLock<Arc<Survey>>,
    /// Detects changes of its files.
    pub(super) watch: Arc<Watch>,
    /// The table with names and properties of its labels.
    pub names: Option<Arc<Names>>,
    /// Identifies its voxels and their meaning.
    pub fingerprint: Fingerprint,
}

/// A window that is known, or one that is measured from a sample when it is first needed.
#[derive(Debug)]
pub(super) enum ChannelWindow {
    Known(Window),
    Measured(OnceLock<Window>),
    /// As measured, with the least value white.
    Inverted(OnceLock<Window>),
    /// Bytes: as stored, unless the sample covers little of their range. Then the file's display
    /// range, if it has one.
    OfBytes {
        cell: OnceLock<Window>,
        range: Option<Window>,
    },
}

/// A channel's stored levels in the form of an explicit configuration.
#[derive(Debug)]
pub struct SpelledOut<'a> {
    /// The path and the downsample factor (x, y, z) of each level, finest first.
    pub levels: Vec<(&'a str, Xyz<u64>)>,
    /// The axes, and the positions along those that are fixed.
    pub view: &'a View,
}

impl Channel {
    /// The levels found by the file's layout, finest first; without precomputed ones.
    pub fn levels(&self) -> &[StoredLevel] {
        &self.levels
    }

    /// The window in force; `None` until it has been measured.
    pub fn window(&self) -> Option<Window> {
        match &self.window {
            ChannelWindow::Known(window) => Some(*window),
            ChannelWindow::Measured(cell)
            | ChannelWindow::Inverted(cell)
            | ChannelWindow::OfBytes { cell, .. } => cell.get().copied(),
        }
    }

    /// Whether the window is always that of the percentiles of a sample.
    pub fn is_measured(&self) -> bool {
        matches!(self.window, ChannelWindow::Measured(_))
    }

    /// The statistics of its sample; `None` until [`Channel::keep`].
    pub fn surveyed(&self) -> Option<&Arc<Survey>> {
        self.surveyed.get()
    }

    /// Reads a bounded, deterministic sample and computes its statistics. Does not store them: see
    /// [`Channel::keep`].
    pub fn survey(&self) -> Result<Survey, ReadError> {
        survey::survey(
            self.levels.last().map_or(&[], StoredLevel::volumes),
            self.voxel,
            &self.missing,
        )
    }

    /// The boxes that the sample is taken from.
    pub fn sampled(&self) -> Vec<Part> {
        survey::sampled(self.levels.last().map_or(&[], StoredLevel::volumes))
    }

    /// Keeps statistics of a channel in a store for the next start. Writes a file.
    pub fn note(&self, survey: &Survey) {
        let text = serde_json::to_string(survey);
        if let (Some(object), Ok(text)) = (self.object(), text) {
            object.note(&self.note_key(), text);
        }
    }

    /// Stores the statistics that an earlier start has kept, if there are any.
    pub(super) fn recall(&self) {
        let noted = self
            .object()
            .and_then(|object| object.noted(&self.note_key()));
        let survey = noted.and_then(|text| serde_json::from_str(&text).ok());
        survey
            .into_iter()
            .for_each(|survey| self.keep(&Arc::new(survey)));
    }

    /// The first of its files that lies in a store.
    fn object(&self) -> Option<&Object> {
        self.watch.files().find_map(FileIdentity::object)
    }

    fn note_key(&self) -> String {
        format!("sample {} {}", survey::RULES, self.fingerprint)
    }

    /// Stores the statistics, and the window if it is to be measured. Later calls have no effect.
    pub fn keep(&self, survey: &Arc<Survey>) {
        let survey = self.surveyed.get_or_init(|| Arc::clone(survey));
        match &self.window {
            ChannelWindow::Known(_) => {}
            ChannelWindow::Measured(cell) => {
                cell.get_or_init(|| survey.window);
            }
            ChannelWindow::Inverted(cell) => {
                cell.get_or_init(|| survey.window.inverted());
            }
            ChannelWindow::OfBytes { cell, range } => {
                cell.get_or_init(|| survey.window_of_bytes(*range));
            }
        }
    }

    /// Takes the sample of the channel as it was before it grew, until it has grown to twice the
    /// size: otherwise its window would change with each slice. Nothing is taken of a file that was
    /// written anew.
    pub(super) fn sample_like(&self, before: &Channel) {
        let growths = before.watch.files().map(FileIdentity::growth);
        if !self.watch.files().map(FileIdentity::growth).eq(growths) {
            return;
        }
        let size = |channel: &Channel| (channel.size().volume() * channel.times).checked_ilog2();
        let is_alike =
            (self.kind, self.voxel, size(self)) == (before.kind, before.voxel, size(before));
        before
            .surveyed()
            .filter(|_| is_alike)
            .inspect(|survey| self.keep(survey));
    }

    /// Whether its voxels are bytes that are shown as stored unless they cover little of their
    /// range.
    pub fn is_of_bytes(&self) -> bool {
        matches!(self.window, ChannelWindow::OfBytes { .. })
    }

    /// Shows bytes as stored although no sample could be taken, so that one damaged place does not
    /// hide the rest. Returns whether the window is known now.
    pub fn show_as_stored(&self) -> bool {
        if let ChannelWindow::OfBytes { cell, .. } = &self.window {
            cell.get_or_init(|| Window::AsStored);
        }
        self.window().is_some()
    }

    /// The stored levels as an explicit configuration.
    ///
    /// `None` if a level is not one complete dataset (separate time points or parts, gaps), or its
    /// voxels are repeated: a configuration cannot express that.
    pub fn spelled_out(&self) -> Option<SpelledOut<'_>> {
        let view = &self.levels.first()?.source.view;
        let named = |level: &'_ StoredLevel| matches!(level.source.paths, Paths::One(_));
        let factor = |level: &StoredLevel| {
            Xyz::new(
                level.level().factor(),
                level.level().factor(),
                level.source.z_factor,
            )
        };
        let levels = self
            .levels
            .iter()
            .map(|level| (level.path(), factor(level)))
            .collect();
        let is_complete = self.levels.iter().all(named) && !self.is_repeated();
        is_complete.then_some(SpelledOut { levels, view })
    }

    /// How a level is derived: from a precomputed level if there is one, else as
    /// [`Channel::made_from`]; `None` if there is no such level.
    pub fn view(&self, level: Level, scaling: Scaling) -> Option<LevelView> {
        let view = self.made_from(level, scaling)?;
        let made = self
            .made
            .iter()
            .position(|made| made.stands_for(&view))
            .filter(|_| !view.is_stored());
        Some(made.map_or(view, |place| view.stored_as(self.levels.len() + place)))
    }

    /// How a level is derived from the levels found by the file's layout: stored, or from the
    /// nearest finer one.
    pub fn made_from(&self, level: Level, scaling: Scaling) -> Option<LevelView> {
        made::view(&self.levels, level, scaling)
    }

    /// Why its voxels cannot be served in documents of chunks, which clients would request for
    /// ever: they cannot be decoded.
    pub(super) fn undecodable(&self) -> Option<String> {
        let filter = self
            .levels
            .iter()
            .find_map(|level| level.storage.missing_filters.first())?;
        Some(format!(
            "it is stored with the filter {filter}, which this build cannot decode"
        ))
    }

    /// Whether its own file lacks a level; sidecars are not considered.
    pub fn lacks(&self, view: &LevelView) -> bool {
        let has = |made: &StoredLevel| made.sidecar.is_none() && made.stands_for(view);
        !view.is_stored() && !self.made.iter().any(has)
    }

    /// The paths of the files that are checked for changes.
    pub fn files(&self) -> impl Iterator<Item = &Path> + Clone {
        self.identities().map(FileIdentity::path)
    }

    /// The states of these files when they were opened.
    pub(super) fn identities(&self) -> impl Iterator<Item = &FileIdentity> + Clone {
        self.watch.files()
    }

    /// Has its files checked for changes, unless that was done recently. Does not block; see
    /// [`Channel::has_changed`].
    pub async fn check_soon(&self) -> Result<(), Unresponsive> {
        self.watch.check_soon().await
    }

    /// Checks whether its files have changed. Accesses the file system: must not be called on an
    /// async thread.
    pub fn check(&self) {
        self.watch.check();
    }

    /// Records that a read found one of its files changed.
    pub fn note_change(&self) {
        self.watch.note_change();
    }

    /// Whether its files were found to have changed since they were opened.
    pub fn has_changed(&self) -> bool {
        self.watch.has_changed()
    }

    /// Whether a pixel of it may stand for missing data.
    pub(super) fn may_be_missing(&self) -> bool {
        self.has_gaps || !self.missing.is_empty() || !self.voxel.is_integer()
    }

    /// The levels found by the layout, followed by the precomputed ones.
    pub(super) fn all_levels(&self) -> impl Iterator<Item = &StoredLevel> {
        self.levels.iter().chain(&self.made)
    }

    /// The stored level that a view of this channel reads.
    pub(super) fn source(&self, view: &LevelView) -> Option<&StoredLevel> {
        self.all_levels().nth(view.stored)
    }

    /// The volumes that a view of this channel reads; not empty.
    pub(super) fn volumes(&self, view: &LevelView) -> &[Arc<dyn Volume>] {
        self.source(view).map_or(&[], StoredLevel::volumes)
    }

    /// The fingerprint of the precomputed level that a view of this channel reads; `None` if it
    /// reads none.
    pub(super) fn made_fingerprint(&self, view: &LevelView) -> Option<Fingerprint> {
        Some(
            self.made
                .get(view.stored.checked_sub(self.levels.len())?)?
                .fingerprint,
        )
    }

    /// Whether a level has data at a time point; a precomputed level has data where its source
    /// level has.
    pub(super) fn is_there(&self, view: &LevelView, scaling: Scaling, time: u64) -> bool {
        let is_made = view.stored >= self.levels.len();
        let base = if is_made {
            self.made_from(view.level, scaling)
        } else {
            Some(*view)
        };
        let base = base.and_then(|view| self.source(&view));
        base.and_then(|base| base.volumes.first())
            .is_some_and(|volume| volume.shape().has(time))
    }

    /// The channel's record in the inventory of a file written by voltile, without levels.
    pub fn record(&self, scaling: Scaling) -> ChannelRecord {
        let has = |time: &u64| {
            self.levels
                .first()
                .and_then(|l| l.volumes.first())
                .is_some_and(|volume| volume.shape().has(*time))
        };
        ChannelRecord {
            name: self.name.to_string(),
            label: self.label.clone(),
            colour: self.colour.clone(),
            kind: self.kind.name().to_owned(),
            missing_values: self
                .missing
                .declared()
                .map(|number| number.to_string())
                .collect(),
            transforms: self
                .transforms
                .iter()
                .map(|(time, known)| (*time, known.rows()))
                .collect(),
            dtype: self.voxel.name().to_owned(),
            range: self.window().as_ref().and_then(range_text),
            voxel_size: self.voxel_size.map(Xyz::into),
            voxel_unit: self.voxel_unit.clone(),
            series: self.is_series,
            times: self.times,
            timing: self.timing.clone(),
            missing: (0..self.times).filter(|time| !has(time)).collect(),
            scaling: scaling.name().to_owned(),
            origin: made::origin(&self.levels, &self.missing),
            levels: Vec::new(),
        }
    }

    /// Whether its voxels are repeated to fill those of the dataset's first channel.
    fn is_repeated(&self) -> bool {
        self.levels
            .first()
            .is_some_and(|level| level.source.view.repeat != Xyz::all(1))
    }

    /// The distance of its first voxel from that of another channel, in voxels; `None` if the file
    /// does not say it, or if their voxels differ in size or direction. Repeated voxels without a
    /// position begin where the other channel does.
    pub(super) fn distance_from(&self, other: &Channel) -> Option<Xyz<i64>> {
        let (Some(own), Some(others)) = (self.transforms.first(), other.transforms.first()) else {
            return self.is_repeated().then(|| Xyz::all(0));
        };
        let between = others.inverse().after(own);
        let voxels = between.translation().map(f64::round);
        let alike = between.only_moves(Xyz::all(CLOSE)) && self.voxel_unit == other.voxel_unit;
        let is_sound = voxels.map(|count| count.abs() <= FURTHEST) == Xyz::all(true);
        (alike && is_sound).then(|| voxels.map(|count| count as i64))
    }

    /// The first time point that exists; 0 if there is none.
    pub(super) fn first_time(&self) -> u64 {
        self.time_from(0)
    }

    /// The nearest time point that exists: the first from this one on, else the last before it.
    fn time_from(&self, wanted: u64) -> u64 {
        let has = |time: &u64| self.shape().is_some_and(|shape| shape.has(*time));
        let after = (wanted..self.times).find(has);
        after
            .or_else(|| (0..wanted).rev().find(has))
            .unwrap_or(wanted)
    }

    /// The slice in the middle along z, or the nearest that exists: the first from there on, else
    /// the last before it.
    pub(super) fn slice_to_show(&self) -> u64 {
        let (size, middle) = (self.size(), self.size().z / 2);
        let finest = self.levels.first().and_then(|level| level.volumes.first());
        let Some(volume) = finest.filter(|_| self.has_gaps) else {
            return middle;
        };
        let time = self.first_time();
        let is_there = |z: &u64| {
            let slice = Region {
                start: Xyz::new(0, 0, *z),
                size: Xyz { z: 1, ..size },
            };
            !volume.gaps(time, &slice).contains(&slice)
        };
        let after = (middle..size.z).find(is_there);
        after
            .or_else(|| (0..middle).rev().find(is_there))
            .unwrap_or(middle)
    }

    /// The first pictures that exist; `None` if none is missing.
    pub(super) fn existing(&self) -> Option<ExistingPictures> {
        let lacks_times = self.shape().is_some_and(|shape| shape.present.is_some());
        (lacks_times || self.has_gaps).then(|| ExistingPictures {
            first_time: self.first_time(),
            middle_time: self.time_from((self.times - 1) / 2),
            middle_slice: self.slice_to_show(),
        })
    }

    /// What its finest level is.
    fn shape(&self) -> Option<&VolumeShape> {
        Some(self.levels.first()?.volumes.first()?.shape())
    }

    /// The extent at full resolution.
    pub fn size(&self) -> Xyz<u64> {
        self.levels
            .first()
            .map_or(Xyz::all(0), |level| level.shape.size)
    }
}
