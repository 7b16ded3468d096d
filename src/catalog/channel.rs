//! A channel: its stored levels, its window, and its fingerprint.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use voltile_base::axes::AxisName;
use voltile_base::description::{ChannelFacts, ExistingPictures};
use voltile_base::geometry::{Level, LevelView, Region, Scaling, Transforms, Xyz};
use voltile_base::name::Name;
use voltile_base::paint::{Kind, Window, WindowRule};
use voltile_base::tile::Fingerprint;
use voltile_hdf5::store::{Location, Object};
use voltile_hdf5::volume::hdf5::{FileIdentity, OpenFile, View};
use voltile_hdf5::volume::{ComplexPart, Missing, ReadError, VolumeShape, VoxelType};
use voltile_render::survey::{self, Survey};

use super::levels::ChannelLevels;
use super::names::Names;
use super::sidecar;
use super::stored::{StoredLevel, level_view};
use super::watch::FileWatch;
use crate::config::ChannelSettings;
use crate::layout::inventory::{ChannelRecord, range_text};
use crate::layout::{FoundChannel, FoundLevel, Paths, Rank};

/// Voxels have the same size and direction if their edges differ by at most this part of a voxel.
const CLOSE: f64 = 1e-3;
/// Channels that are further apart than this, in voxels, are not taken to share a space.
const FURTHEST: f64 = (1u64 << 32) as f64;

/// A channel of a dataset.
#[derive(Debug)]
pub struct Channel {
    /// The name in URLs.
    pub name: Name,
    /// Its file, with links resolved.
    pub file: Location,
    /// The facts that its file states.
    pub facts: ChannelFacts,
    /// The kind of its values.
    pub kind: Kind,
    /// The type of its voxels.
    pub voxel: VoxelType,
    /// The number of time points, at least 1.
    pub times: u64,
    /// Whether it is a time series, possibly with a single time point.
    pub is_series: bool,
    /// The values that stand for missing data.
    pub missing: Missing,
    /// Whether parts of it are missing: sources of a virtual dataset, or datasets of a stack.
    pub has_gaps: bool,
    /// Sorts channels in lists: by how likely the file was written for the channel, then by its
    /// number of voxels, largest first, then by the part of complex numbers that it shows.
    pub(super) list_order: (Rank, Reverse<u64>, Option<ComplexPart>),
    /// Whether it shows the stored values although the file says how to convert them.
    pub shows_stored_values: bool,
    /// The configured position of its first voxel in the tiles of its dataset.
    pub(super) offset: Option<Xyz<i64>>,
    /// Where its voxels lie in the file's space, in the unit of the voxel size.
    pub(super) transforms: Transforms,
    /// The levels found by the file's layout, finest first; not empty.
    pub(super) levels: Vec<StoredLevel>,
    /// Levels precomputed by `voltile pyramid` from `levels`; none of them is in `levels`, too.
    pub(super) pyramid_levels: Vec<StoredLevel>,
    /// Where its window comes from.
    pub(super) window_source: WindowSource,
    /// The window in force, once known.
    pub(super) window: OnceLock<Window>,
    /// The statistics of its sample, once taken.
    pub(super) surveyed: OnceLock<Arc<Survey>>,
    /// Whether a sample could not be taken.
    pub(super) unsampled: AtomicBool,
    /// Detects changes of its files.
    pub(super) watch: Arc<FileWatch>,
    /// The table with names and properties of its labels.
    pub names: Option<Arc<Names>>,
    /// Identifies its voxels and their meaning.
    pub fingerprint: Fingerprint,
}

/// Where a channel's window comes from. Its hash is part of the versions of datasets:
/// the order of the variants must not change.
#[derive(Debug, Hash)]
pub(super) enum WindowSource {
    /// The settings or the file.
    Known(Window),
    /// The percentiles of a sample.
    Measured,
    /// Bytes: as stored, unless the sample covers little of their range. Then the file's display
    /// range, if it has one, else the percentiles of the sample.
    OfBytes(Option<Window>),
    /// The percentiles of a sample, with the least value white.
    Inverted,
}

/// A channel's stored levels in the form of an explicit configuration.
#[derive(Debug)]
pub struct SpelledOut<'a> {
    /// The path and the downsample factor (x, y, z) of each level, finest first.
    pub levels: Vec<(&'a str, Xyz<u64>)>,
    /// The axes, and the positions along fixed axes.
    pub view: &'a View,
}

impl WindowSource {
    /// The settings, else the file, else a sample; booleans and RGB data are not sampled.
    fn new(given: Option<WindowRule>, found: &FoundChannel, voxel: VoxelType) -> Self {
        match given {
            Some(WindowRule::Fixed(window)) => return Self::Known(window),
            Some(WindowRule::Full) => return Self::Known(voxel.full_window()),
            Some(WindowRule::Auto) => return Self::Measured,
            None => {}
        }
        let is_bytes = voxel == VoxelType::U8;
        match found.kind {
            Kind::Labels => return Self::Known(Window::AsStored),
            Kind::Rgb if is_bytes => return Self::Known(Window::AsStored),
            Kind::Rgb => return Self::Known(voxel.full_window()),
            Kind::Image if voxel == VoxelType::Bool => return Self::Known(voxel.full_window()),
            Kind::Image => {}
        }
        match found.range {
            Some(range) if found.is_inverted => Self::Known(range.inverted()),
            None if found.is_inverted && is_bytes => Self::Known(Window::AsStored.inverted()),
            None if found.is_inverted => Self::Inverted,
            range if is_bytes => Self::OfBytes(range),
            Some(range) => Self::Known(range),
            None => Self::Measured,
        }
    }

    /// The window of a channel with this sample.
    fn window(&self, survey: &Survey) -> Window {
        match *self {
            Self::Known(window) => window,
            Self::Measured => survey.window,
            Self::OfBytes(range) => survey.window_of_bytes(range),
            Self::Inverted => survey.window.inverted(),
        }
    }
}

/// Whether a level is a time series: by a time axis that is not fixed, or by one dataset per time
/// point.
fn is_series(level: &FoundLevel) -> bool {
    matches!(&level.paths, Paths::Times(paths) if paths.len() > 1)
        || level.view.extends_along(AxisName::T)
}

impl Channel {
    /// A channel that a layout has found, with its settings and at least one level. It has not been
    /// sampled yet.
    pub(super) fn new(
        file: &OpenFile,
        found: FoundChannel,
        given: &ChannelSettings,
        levels: ChannelLevels,
        missing: Missing,
        names: Option<Arc<Names>>,
    ) -> Self {
        let stored = levels.stored.iter();
        let fingerprints: Vec<_> = stored.clone().map(|level| level.fingerprint).collect();
        let level_files = stored
            .chain(&levels.pyramid_levels)
            .flat_map(StoredLevel::files);
        let files: BTreeSet<_> = level_files.chain(file.watched()).cloned().collect();
        let VolumeShape { voxel, times, .. } = levels.stored[0].shape;
        let window_source = WindowSource::new(given.window, &found, voxel);
        let window = match window_source {
            WindowSource::Known(window) => OnceLock::from(window),
            _ => OnceLock::new(),
        };
        let list_order = (found.rank, Reverse(found.voxels), found.part());
        let mut facts = found.facts;
        // The reason why a layout took the channel for labels says nothing of a configured kind.
        if given.kind.is_some() {
            facts.labels_because = None;
        }
        Self {
            file: file.location().clone(),
            window_source,
            window,
            voxel,
            times,
            offset: given.offset,
            list_order,
            shows_stored_values: found.shows_stored_values || given.stored_values,
            is_series: found.levels.iter().any(is_series),
            name: found.name,
            facts,
            kind: found.kind,
            transforms: found.transforms,
            fingerprint: Fingerprint::digest(&(found.kind, missing.in_words(), fingerprints)),
            levels: levels.stored,
            pyramid_levels: levels.pyramid_levels,
            missing,
            has_gaps: levels.has_gaps,
            names,
            surveyed: OnceLock::new(),
            unsampled: AtomicBool::new(false),
            watch: Arc::new(FileWatch::over(files)),
        }
    }

    /// The levels found by the file's layout, finest first; without precomputed ones.
    pub fn levels(&self) -> &[StoredLevel] {
        &self.levels
    }

    /// The window in force; `None` until it has been measured.
    pub fn window(&self) -> Option<Window> {
        self.window.get().copied()
    }

    /// Whether the window always comes from the percentiles of a sample.
    pub fn is_measured(&self) -> bool {
        matches!(self.window_source, WindowSource::Measured)
    }

    /// Whether the window comes from a sample.
    pub(super) fn has_sampled_window(&self) -> bool {
        !matches!(self.window_source, WindowSource::Known(_))
    }

    /// The statistics of its sample; `None` until [`Channel::keep`] has set them.
    pub fn surveyed(&self) -> Option<&Arc<Survey>> {
        self.surveyed.get()
    }

    /// Reads a bounded, deterministic sample and computes its statistics, which the caller passes
    /// to [`Channel::keep`].
    pub fn survey(&self) -> Result<Survey, ReadError> {
        survey::survey(&self.coarsest().volumes, self.voxel, &self.missing)
    }

    /// Writes the statistics to the disk for the next start of the server, if the channel lies in a
    /// store.
    pub fn save_survey(&self, survey: &Survey) {
        let text = serde_json::to_string(survey);
        if let (Some(object), Ok(text)) = (self.object(), text) {
            object.note(&self.survey_key(), text);
        }
    }

    /// Sets the statistics that [`Channel::save_survey`] has written before an earlier start, if
    /// there are any.
    pub(super) fn load_survey(&self) {
        let object = self.object();
        if let Some(text) = object.and_then(|object| object.noted(&self.survey_key()))
            && let Ok(survey) = serde_json::from_str(&text)
        {
            self.keep(&Arc::new(survey));
        }
    }

    /// The first of its files that lies in a store.
    fn object(&self) -> Option<&Object> {
        self.watch.files().find_map(FileIdentity::object)
    }

    fn survey_key(&self) -> String {
        format!("sample {} {}", survey::RULES, self.fingerprint)
    }

    /// Sets the statistics, and the window if it comes from them. Later calls have no effect.
    pub fn keep(&self, survey: &Arc<Survey>) {
        let survey = self.surveyed.get_or_init(|| Arc::clone(survey));
        self.window
            .get_or_init(|| self.window_source.window(survey));
    }

    /// Takes over the statistics of `before`, this channel before its files grew: otherwise its
    /// window would change with each slice. New statistics are due when the number of voxels of all
    /// its time points has reached the next power of two, if its kind or type is another, or if a
    /// file was rewritten.
    pub(super) fn reuse_survey(&self, before: &Channel) {
        // Growth does not change these.
        let ids_before = before.watch.files().map(FileIdentity::growth);
        if !self.watch.files().map(FileIdentity::growth).eq(ids_before) {
            return;
        }
        let is_alike = self.kind == before.kind
            && self.voxel == before.voxel
            && self.magnitude() == before.magnitude();
        if is_alike && let Some(survey) = before.surveyed() {
            self.keep(survey);
        }
    }

    /// The number of voxels of all its time points as a power of two, rounded down: 3 for 8 to 15.
    fn magnitude(&self) -> Option<u32> {
        self.size()
            .volume()
            .saturating_mul(self.times)
            .checked_ilog2()
    }

    /// Notes that no sample could be taken. Returns true the first time.
    pub fn note_unsampled(&self) -> bool {
        !self.unsampled.swap(true, Ordering::Relaxed)
    }

    /// Whether its voxels are bytes that are shown as stored unless they cover little of their
    /// range.
    pub fn is_of_bytes(&self) -> bool {
        matches!(self.window_source, WindowSource::OfBytes(_))
    }

    /// Shows bytes as stored although no sample could be taken, so that one damaged place does not
    /// hide the rest. Returns whether the window is known now.
    pub fn show_as_stored(&self) -> bool {
        if self.is_of_bytes() {
            self.window.get_or_init(|| Window::AsStored);
        }
        self.window().is_some()
    }

    /// The stored levels as an explicit configuration.
    ///
    /// `None` if a level is not one complete dataset (separate time points or parts, gaps), or its
    /// voxels are repeated: a configuration cannot express that.
    pub fn spelled_out(&self) -> Option<SpelledOut<'_>> {
        if self.is_repeated() {
            return None;
        }
        let mut levels = Vec::new();
        for level in &self.levels {
            let Paths::One(path) = &level.source.paths else {
                return None;
            };
            let factor = level.level().factor();
            levels.push((
                path.as_str(),
                Xyz::new(factor, factor, level.source.z_factor),
            ));
        }
        let view = &self.finest().source.view;
        Some(SpelledOut { levels, view })
    }

    /// How a level is derived: from a precomputed level if there is one, else as
    /// [`Channel::derived_view`]; `None` if there is no such level.
    pub fn view(&self, level: Level, scaling: Scaling) -> Option<LevelView> {
        let view = self.derived_view(level, scaling)?;
        if view.is_stored() {
            return Some(view);
        }
        let mut precomputed = self.pyramid_levels.iter();
        let index = precomputed.position(|level| level.stands_for(&view));
        // Precomputed levels are numbered after `levels`.
        Some(index.map_or(view, |index| view.stored_as(self.levels.len() + index)))
    }

    /// How a level is derived from the levels found by the file's layout: stored, or from the
    /// nearest finer one.
    pub fn derived_view(&self, level: Level, scaling: Scaling) -> Option<LevelView> {
        level_view(&self.levels, level, scaling)
    }

    /// Why its voxels cannot be decoded; `None` if they can. Chunked formats leave such a channel
    /// out, because their clients would request its chunks again and again.
    pub(super) fn undecodable(&self) -> Option<String> {
        let filter = self
            .levels
            .iter()
            .find_map(|level| level.storage.missing_filters.first())?;
        Some(format!(
            "it is stored with the filter {filter}, which this build cannot decode"
        ))
    }

    /// Whether a level is neither stored nor precomputed in the channel's own file. Sidecars do not
    /// count.
    pub fn lacks(&self, view: &LevelView) -> bool {
        let mut in_file = self
            .pyramid_levels
            .iter()
            .filter(|level| level.sidecar.is_none());
        !view.is_stored() && !in_file.any(|level| level.stands_for(view))
    }

    /// The paths of the files that are checked for changes.
    pub fn files(&self) -> impl Iterator<Item = &Path> + Clone {
        self.watch.files().map(FileIdentity::path)
    }

    /// Whether its files were found to have changed since they were opened.
    pub fn has_changed(&self) -> bool {
        self.watch.has_changed()
    }

    /// Whether a pixel of it may stand for missing data.
    pub(super) fn may_be_missing(&self) -> bool {
        // Floats may be NaN.
        self.has_gaps || !self.missing.is_empty() || !self.voxel.is_integer()
    }

    /// The levels found by the layout, followed by the precomputed ones.
    pub(super) fn all_levels(&self) -> impl Iterator<Item = &StoredLevel> {
        self.levels.iter().chain(&self.pyramid_levels)
    }

    /// The level at full resolution.
    pub(super) fn finest(&self) -> &StoredLevel {
        &self.levels[0]
    }

    /// The coarsest of the levels found by the layout.
    pub(super) fn coarsest(&self) -> &StoredLevel {
        &self.levels[self.levels.len() - 1]
    }

    /// The stored level that a view of this channel reads.
    pub(super) fn source(&self, view: &LevelView) -> &StoredLevel {
        self.pyramid_level(view)
            .unwrap_or_else(|| &self.levels[view.stored])
    }

    /// The precomputed level that a view of this channel reads; `None` if it reads none.
    fn pyramid_level(&self, view: &LevelView) -> Option<&StoredLevel> {
        let index = view.stored.checked_sub(self.levels.len())?;
        self.pyramid_levels.get(index)
    }

    /// The fingerprint of the precomputed level that a view of this channel reads; `None` if it
    /// reads none.
    pub(super) fn pyramid_fingerprint(&self, view: &LevelView) -> Option<Fingerprint> {
        Some(self.pyramid_level(view)?.fingerprint)
    }

    /// Whether a level has data at a time point; a precomputed level has data where its source
    /// level has.
    pub(super) fn is_there(&self, view: &LevelView, scaling: Scaling, time: u64) -> bool {
        let base = match self.pyramid_level(view) {
            Some(_) => self.derived_view(view.level, scaling),
            None => Some(*view),
        };
        base.is_some_and(|view| self.source(&view).shape.has(time))
    }

    /// The channel's record in the inventory of a file written by voltile, without levels.
    pub fn record(&self, scaling: Scaling) -> ChannelRecord {
        ChannelRecord {
            name: self.name.to_string(),
            // Reasons name attributes that only the original file has.
            facts: ChannelFacts {
                labels_because: None,
                voxel_size_from: None,
                ..self.facts.clone()
            },
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
            series: self.is_series,
            times: self.times,
            missing: (0..self.times).filter(|time| !self.has(*time)).collect(),
            scaling: scaling.name().to_owned(),
            origin: sidecar::origin(&self.levels, &self.missing),
            levels: Vec::new(),
        }
    }

    /// Whether its voxels are repeated to fill the voxels of the dataset's first channel.
    fn is_repeated(&self) -> bool {
        self.finest().source.view.repeat != Xyz::all(1)
    }

    /// The distance of its first voxel from that of another channel, in voxels; `None` if the file
    /// does not state both positions, or if the voxels of the two differ in size or direction.
    /// Repeated voxels without a position begin where the other channel does.
    pub(super) fn distance_from(&self, other: &Channel) -> Option<Xyz<i64>> {
        let (Some(own), Some(base)) = (self.transforms.first(), other.transforms.first()) else {
            return self.is_repeated().then(|| Xyz::all(0));
        };
        // From indices of own voxels to indices of the other channel's voxels.
        let between = base.inverse().after(own);
        let voxels = between.translation().map(f64::round);
        let is_alike =
            between.only_moves(Xyz::all(CLOSE)) && self.facts.voxel_unit == other.facts.voxel_unit;
        let is_sound = voxels.map(|count| count.abs() <= FURTHEST).everywhere();
        (is_alike && is_sound).then(|| voxels.map(|count| count as i64))
    }

    /// The first time point that exists; 0 if there is none.
    pub(super) fn first_time(&self) -> u64 {
        self.time_from(0)
    }

    /// The first time point that exists from `wanted` onwards, else the last one before it.
    fn time_from(&self, wanted: u64) -> u64 {
        let mut candidates = (wanted..self.times).chain((0..wanted).rev());
        candidates.find(|time| self.has(*time)).unwrap_or(wanted)
    }

    /// Whether its finest level has a time point.
    fn has(&self, time: u64) -> bool {
        self.finest().shape.has(time)
    }

    /// The first slice that exists from the middle along z onwards, else the last one before it.
    pub(super) fn slice_to_show(&self) -> u64 {
        let size = self.size();
        let middle = size.z / 2;
        if !self.has_gaps {
            return middle;
        }
        let volume = &self.finest().volumes[0];
        let time = self.first_time();
        for z in (middle..size.z).chain((0..middle).rev()) {
            let slice = Region {
                start: Xyz::new(0, 0, z),
                size: Xyz { z: 1, ..size },
            };
            if !volume.gaps(time, &slice).contains(&slice) {
                return z;
            }
        }
        middle
    }

    /// The pictures that exist and can be shown first; `None` if no picture is missing.
    pub(super) fn existing(&self) -> Option<ExistingPictures> {
        let lacks_times = self.finest().shape.present.is_some();
        (lacks_times || self.has_gaps).then(|| ExistingPictures {
            first_time: self.first_time(),
            middle_time: self.time_from((self.times - 1) / 2),
            middle_slice: self.slice_to_show(),
        })
    }

    /// The extent at full resolution.
    pub fn size(&self) -> Xyz<u64> {
        self.finest().shape.size
    }
}
