//! The catalogue: the datasets and channels served, by token, and the resolution of requests
//! against them.
//!
//! A catalogue also knows who may see which of its datasets; requests are resolved in the part that
//! is visible to them ([`Catalog::visible_to`]).
//!
//! It is built from settings: files are opened, layouts recognised and levels determined at that
//! time; a window may be measured later. Otherwise it is immutable: if a file changes, its dataset
//! is reopened and put into a new catalogue ([`Catalog::with`]). All faults are collected, each
//! with the key of its setting. Planning a request reads no data: a [`RequestPlan`] says from which
//! voxels the answer is made, and under which key caches hold it.

pub(crate) mod access;
pub(crate) mod advice;
mod attributes;
mod boxes;
mod channel;
mod chunks;
mod colours;
mod cost;
mod describe;
mod footprint;
mod images;
mod levels;
mod names;
mod open;
mod origin;
mod overview;
mod precomputed;
mod probe;
mod request_plan;
mod resolve;
mod sidecar;
mod source;
mod stored;
mod version;
mod visible;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use voltile_base::description::Recognised;
use voltile_base::geometry::{Affine, Level, LevelView, Transforms, Xyz};
use voltile_base::metrics::DatasetCounters;
use voltile_base::name::Name;
use voltile_base::notice::Notice;
use voltile_base::paint::{DatasetStyle, Kind, Style};
use voltile_hdf5::store::{Location, Store};
use voltile_hdf5::volume::hdf5::{ChunkStore, FileIdentity, Files, LinkPolicy, OpenFile, Opener};

use crate::catalog::access::{AccessRules, Grants};
use crate::config::{self, DatasetSettings};

pub use attributes::FileAttributes;
pub use channel::{Channel, SpelledOut};
pub use cost::{Inspection, LevelCost, PassThrough, TileCost};
pub use footprint::Footprint;
pub use images::{ArrayLevel, ImageAxes, Multiscale, ZarrImage};
pub use names::{Column, Labels, Names, NoNames};
pub(crate) use open::accept_all;
pub use open::{OpenedCatalog, OpenedDataset, OpeningOutcome, RunTrials, Verdict, tell};
pub use origin::Origin;
pub use precomputed::{Precomputed, PrecomputedEncoding, PrecomputedScale};
pub use probe::Trial;
pub use request_plan::{CachePolicy, RequestPlan, Subject, black_key};
pub use resolve::NotFound;
pub use sidecar::sidecar_path;
pub use stored::StoredLevel;

/// All datasets served.
#[derive(Debug)]
pub struct Catalog {
    datasets: BTreeMap<Name, Arc<Dataset>>,
    closed: BTreeMap<Name, Closed>,
    limits: CatalogLimits,
    style: Style,
    shared: SharedResources,
    access: AccessRules,
    /// Whether addresses of datasets in documents contain the version.
    documents_name_versions: bool,
    /// How many catalogues were served before this one.
    generation: u64,
    /// The parts of this catalogue that requests with these grants may see.
    visible_parts: Mutex<BTreeMap<Grants, Arc<Catalog>>>,
}

/// Why a dataset that is served is not open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// It is in a folder with many files, and is opened after the server has started.
    Waiting,
    /// Its store does not answer; the text says what happened.
    Unreachable(String),
}

/// Shared by all datasets: the open files, the cache of decoded chunks, and the tables of names in
/// memory.
#[derive(Debug, Clone)]
struct SharedResources {
    files: Arc<Files>,
    chunks: ChunkStore,
    tables: names::Tables,
}

impl SharedResources {
    /// An opener that opens files as these settings say.
    fn opener(&self, settings: &DatasetSettings) -> Opener {
        Opener {
            files: Arc::clone(&self.files),
            chunks: self.chunks.clone(),
            policy: if settings.allow_external {
                LinkPolicy::Anywhere
            } else {
                LinkPolicy::BelowTheFile
            },
            growing: settings.growing,
            access: settings.access,
        }
    }
}

/// The maximum number of visible parts of a catalogue that are kept: requests rarely present more
/// than one secret.
const MAX_VISIBLE_PARTS: usize = 64;

/// The limits on the voxels of a tile and of a box. They decide which levels and chunk shapes are
/// served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CatalogLimits {
    voxels_per_tile: u64,
    voxels_per_box: u64,
}

impl From<&config::Render> for CatalogLimits {
    fn from(render: &config::Render) -> Self {
        Self {
            voxels_per_tile: render.max_voxels_per_tile,
            voxels_per_box: render.max_voxels_per_box,
        }
    }
}

/// A dataset: the channels served under one token, within the limits of its catalogue.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The token.
    pub token: Name,
    /// The settings that it was opened with.
    pub settings: Arc<DatasetSettings>,
    /// The part of the settings that decides about pixels.
    pub style: DatasetStyle,
    /// Whether one of its files may grow. Requests see the file as it was when it was last opened.
    pub growing: bool,
    /// Whether one of its files is being written now: the file is marked as being written and has
    /// changed within [`LIVE`], or the settings say so.
    pub live: bool,
    /// The folder of its file, or of its first channel's file, without symbolic links.
    folder: PathBuf,
    /// Its file; `None` if each channel has its own.
    file: Option<OpenFile>,
    /// The layouts recognised in its files.
    pub layouts: Vec<Recognised>,
    /// The notices about its data, the worst first.
    pub notices: Vec<Notice>,
    /// The channels by name.
    pub channels: BTreeMap<Name, Arc<Channel>>,
    /// The name of [`Dataset::first_channel`].
    first: Option<Name>,
    /// Its counters; kept when it is reopened.
    pub counters: Arc<DatasetCounters>,
    limits: CatalogLimits,
    derived: DerivedFacts,
}

/// Facts that follow from a dataset and its limits; each is determined when it is first needed.
#[derive(Debug, Clone, Default)]
struct DerivedFacts {
    /// Its version.
    version: OnceLock<Name>,
    /// The images that its channels form in chunked formats.
    images: OnceLock<images::Images>,
    /// Its channels in Neuroglancer's format, or why they have none.
    precomputed: OnceLock<BTreeMap<Name, Result<Precomputed, String>>>,
    /// See [`Dataset::is_registered`].
    registered: OnceLock<bool>,
}

/// How long after its last change a file that is marked as being written counts as live.
const LIVE: Duration = Duration::from_secs(60);

impl Dataset {
    /// This dataset with other limits, and without the facts derived from the previous ones.
    fn with_limits(&self, limits: CatalogLimits) -> Self {
        Self {
            limits,
            derived: DerivedFacts::default(),
            ..self.clone()
        }
    }

    /// Checks whether a file of its channels has changed since it was opened. Accesses the file
    /// system for every file.
    pub fn find_change(&self) -> bool {
        for channel in self.channels.values() {
            channel.watch.check();
        }
        self.channels.values().any(|channel| channel.has_changed())
    }

    /// The paths of the files of its channels.
    pub fn files(&self) -> impl Iterator<Item = &Path> + Clone {
        self.channels.values().flat_map(|channel| channel.files())
    }

    /// The files that its channels are read from, as they were when they were opened.
    fn identities(&self) -> impl Iterator<Item = &FileIdentity> {
        let channels = self.channels.values();
        channels.flat_map(|channel| channel.watch.files())
    }

    /// Whether a file is marked as being written.
    fn has_growing_files(&self) -> bool {
        self.identities().any(FileIdentity::is_growing)
    }

    /// Whether a file that is marked as being written has changed within [`LIVE`].
    pub fn is_being_written(&self) -> bool {
        self.identities()
            .any(|file| file.is_growing() && file.was_modified_within(LIVE))
    }

    /// A number that tells whether documents are outdated: those built at a lower number are. It
    /// counts the known windows and statistics of its channels, and the reads of its tables of
    /// names. It never falls, because channels are sampled once.
    pub fn measured(&self) -> usize {
        let mut count = 0;
        for channel in self.channels.values() {
            count += usize::from(channel.window().is_some());
            count += usize::from(channel.surveyed().is_some());
            count += channel.names.as_ref().map_or(0, |names| names.reads());
        }
        count
    }

    /// The path of one of its files below the folder of the configuration, or below the served
    /// folder in which the dataset was found. `None` if the file does not lie in or below the
    /// dataset's own folder.
    pub fn public_path(&self, file: &Location) -> Option<PathBuf> {
        let settings = &self.settings;
        let path = settings.found_in.as_ref().unwrap_or(&settings.below);
        Some(path.join(file.named().strip_prefix(&self.folder).ok()?))
    }

    /// Whether a channel of it lies in a store, so that each read is a request.
    pub fn is_remote(&self) -> bool {
        self.channels
            .values()
            .any(|channel| channel.file.is_remote())
    }

    /// The channels in the order in which they are listed: first the channel that the file says is
    /// to be shown first, then the channels that its format declares as data, then the largest.
    /// Ties are in the order of their names, and so are channels that are configured by path,
    /// because their size is not known.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<Channel>> {
        let mut listed: Vec<_> = self.channels.values().collect();
        listed.sort_by_key(|channel| channel.list_order);
        listed.into_iter()
    }

    /// The channel whose tile grid all channels share: the first channel in the list that is not of
    /// labels, else the first of all.
    pub fn first_channel(&self) -> Option<&Arc<Channel>> {
        self.channels.get(self.first.as_ref()?)
    }

    /// The position of a channel's first voxel in the tiles of the dataset, in voxels of level 0:
    /// as configured, else for labels by the distance from the first channel in the file's space;
    /// `None` if neither is known. The first channel is at 0 unless its position is configured.
    pub fn known_grid_offset(&self, channel: &Channel) -> Option<Xyz<i64>> {
        let first = self.first_channel()?;
        if channel.offset.is_some() {
            return channel.offset;
        }
        // Other images in a file need not show the same thing, even if their positions are given.
        if channel.kind == Kind::Labels
            && let Some(distance) = channel.distance_from(first)
        {
            return Some(distance);
        }
        (first.name == channel.name).then(|| Xyz::all(0))
    }

    /// The position of a channel's first voxel in the tiles of the dataset, in voxels of level 0; 0
    /// if it is unknown.
    pub fn grid_offset(&self, channel: &Channel) -> Xyz<i64> {
        self.known_grid_offset(channel).unwrap_or_default()
    }

    /// The position of a channel's first voxel in voxels of level 0: its position in the tiles,
    /// moved by the configured offset of the dataset.
    pub fn position(&self, channel: &Channel) -> Xyz<i64> {
        self.style
            .offset
            .zip(self.grid_offset(channel), i64::saturating_add)
    }

    /// The size of a channel's voxels, as configured or as the file says, and its unit.
    pub(crate) fn voxel_size(&self, channel: &Channel) -> Option<(Xyz<f64>, Option<String>)> {
        match self.style.voxel_size {
            Some(configured) => Some((configured, Some("nm".to_owned()))),
            None => Some((channel.facts.voxel_size?, channel.facts.voxel_unit.clone())),
        }
    }

    /// Whether its files say more about where voxels lie in space than the size of voxels. A
    /// configured size replaces everything that the files say.
    fn is_registered(&self) -> bool {
        *self.derived.registered.get_or_init(|| {
            if self.style.voxel_size.is_some() {
                return false;
            }
            self.channels.values().any(|channel| {
                // There are no words for a transform that only scales by the voxel size.
                let words = channel.transforms.in_words(channel.facts.voxel_size, "");
                channel.offset.is_none() && words.is_some()
            })
        })
    }

    /// Where a channel's voxels lie in space, in the unit of their size; unknown for every channel
    /// unless the dataset [is registered](Self::is_registered). A configured position in the tiles
    /// overrides the position that the file states, except for the first channel: the positions of
    /// the other channels are relative to it.
    pub(crate) fn transforms(&self, channel: &Channel) -> Transforms {
        let Some(first) = self.first_channel().filter(|_| self.is_registered()) else {
            return Transforms::default();
        };
        let is_first = first.name == channel.name;
        if (channel.offset.is_none() || is_first) && channel.transforms.first().is_some() {
            return channel.transforms.clone();
        }
        // Otherwise its position is its distance from the first channel. Its axes are those of the
        // first channel if it is placed relative to that and has voxels of the same size; else they
        // are only scaled by its voxel size.
        let is_placed = channel.offset.is_some() || channel.kind == Kind::Labels;
        let has_same_voxels = first.facts.voxel_size == channel.facts.voxel_size
            && first.facts.voxel_unit == channel.facts.voxel_unit;
        let unmoved = if is_placed && !is_first && has_same_voxels {
            first.transforms.clone()
        } else {
            let voxel_size = channel.facts.voxel_size.unwrap_or(Xyz::all(1.0));
            Transforms::from(Some(Affine::scaling(voxel_size)))
        };
        let distance = self
            .grid_offset(channel)
            .zip(self.grid_offset(first), i64::saturating_sub)
            .map(|voxels| voxels as f64);
        unmoved.map(|transform| transform.beginning_at(distance))
    }

    /// How each level of a channel is derived, finest first.
    pub(crate) fn views(&self, channel: &Channel) -> impl Iterator<Item = LevelView> + Clone {
        Level::all().map_while(|level| channel.view(level, self.style.scaling))
    }

    /// The levels up to the first that fits one tile or the last that is stored, whichever is
    /// coarser.
    pub(crate) fn served_views(&self, channel: &Channel) -> Vec<LevelView> {
        let all: Vec<LevelView> = self.views(channel).collect();
        let grid = self.grid_offset(channel);
        let first_fitting = all
            .iter()
            .position(|view| view.end_fits_one_tile(grid))
            .unwrap_or(all.len());
        let last_stored = all.iter().rposition(LevelView::is_stored).unwrap_or(0);
        let count = first_fitting.max(last_stored) + 1;
        all.into_iter().take(count).collect()
    }
}

impl Catalog {
    /// Every dataset, sorted by token.
    pub fn datasets(&self) -> impl Iterator<Item = &Arc<Dataset>> {
        self.datasets.values()
    }

    /// The dataset of a token.
    pub fn dataset(&self, token: &Name) -> Option<&Arc<Dataset>> {
        self.datasets.get(token)
    }

    /// The datasets that are served but not open, each with the reason.
    pub fn closed(&self) -> &BTreeMap<Name, Closed> {
        &self.closed
    }

    /// Whether a dataset waits for its turn to be opened.
    pub fn is_waiting(&self, token: &Name) -> bool {
        self.closed.get(token) == Some(&Closed::Waiting)
    }

    /// A copy of the catalogue, updated by the outcome of opening each of these datasets.
    pub fn with<'a>(&self, all_opened: impl IntoIterator<Item = &'a OpenedDataset>) -> Self {
        let mut datasets = self.datasets.clone();
        let mut closed = self.closed.clone();
        for opened in all_opened {
            let token = &opened.dataset.token;
            match opened.outcome {
                OpeningOutcome::Open => {
                    let dataset = if opened.dataset.limits == self.limits {
                        Arc::clone(&opened.dataset)
                    } else {
                        Arc::new(opened.dataset.with_limits(self.limits))
                    };
                    closed.remove(token);
                    datasets.insert(token.clone(), dataset);
                }
                OpeningOutcome::Unreachable => {
                    let fault = opened.faults.first();
                    let problem = fault.map_or(String::new(), |fault| fault.problem.clone());
                    datasets.remove(token);
                    closed.insert(token.clone(), Closed::Unreachable(problem));
                }
                OpeningOutcome::LeftOut => {
                    datasets.remove(token);
                    closed.remove(token);
                }
                OpeningOutcome::Kept | OpeningOutcome::Faulty => {}
            }
        }
        Self {
            datasets,
            closed,
            shared: self.shared.clone(),
            access: self.access.clone(),
            visible_parts: Mutex::default(),
            ..*self
        }
    }

    /// Leaves out the datasets that are not `wanted`.
    fn retain(&mut self, wanted: impl Fn(&Name) -> bool) {
        self.datasets.retain(|token, _| wanted(token));
        self.closed.retain(|token, _| wanted(token));
    }

    /// How many catalogues were served before this one; its visible parts have the same number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// This catalogue, with the generation that follows the one of `before`.
    pub fn after(self, before: &Self) -> Self {
        Self {
            generation: before.generation + 1,
            ..self
        }
    }

    /// The rules by which datasets are protected.
    pub fn access(&self) -> &AccessRules {
        &self.access
    }

    /// The catalogue of the datasets that requests with these grants may see.
    pub fn visible_to(self: &Arc<Self>, grants: &Grants) -> Arc<Self> {
        if self.access.is_open() {
            return Arc::clone(self);
        }
        let mut parts = self.visible_parts.lock();
        if let Some(part) = parts.get(grants) {
            return Arc::clone(part);
        }
        let mut part = self.with(&[]);
        part.retain(|token| self.access.shows(token, grants));
        let part = Arc::new(part);
        if parts.len() == MAX_VISIBLE_PARTS {
            parts.clear();
        }
        parts.insert(grants.clone(), Arc::clone(&part));
        part
    }

    /// The store through which files that are objects are read.
    pub fn store(&self) -> &Store {
        self.shared.files.store()
    }

    /// The cache of decoded chunks, shared by all volumes.
    pub fn chunks(&self) -> &ChunkStore {
        &self.shared.chunks
    }

    /// The settings of the server that decide about pixels.
    pub fn style(&self) -> Style {
        self.style
    }
}
