//! Describes the datasets, channels and levels of a catalogue, for JSON and the command line.

use std::collections::BTreeMap;

use voltile_base::description::{
    ChannelDescription, ChannelFacts, DatasetDescription, LevelDescription, TimedMatrix,
    TransformDescription,
};
use voltile_base::geometry::{Axis, LevelView, Orthogonal, Plane, TILE, Xyz};
use voltile_base::notice::NoticeCount;
use voltile_base::paint::{Kind, Window};
use voltile_base::units;

use super::{Catalog, Channel, Dataset, StoredLevel, names, source};
use crate::config::{DatasetSettings, Fault, NamesSettings};

impl StoredLevel {
    /// The number of stored voxels that a whole tile at the origin of a level reads, in whole
    /// chunks.
    fn voxels_read(&self, view: &LevelView, plane: Plane) -> u64 {
        let wanted = plane
            .place(1, TILE as u64, TILE as u64)
            .zip(view.size, u64::min);
        let stored = wanted
            .zip(view.downsample, u64::saturating_mul)
            .zip(view.stored_size, u64::min);
        let in_chunks = match self.chunk() {
            Some(chunk) => stored.zip(chunk, |end, chunk| end.next_multiple_of(chunk.max(1))),
            None => stored,
        };
        // Each stored voxel is shown `repeat` times, but read once.
        in_chunks
            .zip(self.source.view.repeat, u64::div_ceil)
            .volume()
    }
}

impl Catalog {
    /// Describes all datasets.
    pub fn describe(&self) -> Vec<DatasetDescription> {
        self.datasets()
            .map(|dataset| self.describe_dataset(dataset))
            .collect()
    }

    /// Describes one dataset.
    pub fn describe_dataset(&self, dataset: &Dataset) -> DatasetDescription {
        // Length and modification time of each file, which may have several paths by links.
        let mut files: BTreeMap<_, (u64, i64)> = BTreeMap::new();
        for identity in dataset.identities() {
            if let Some(file) = identity.device_and_inode() {
                files.insert(file, (identity.length(), identity.modified_milliseconds()));
            }
        }
        let colours = dataset.composite_colours();
        let mut channels = Vec::new();
        for channel in dataset.listed() {
            let mut description = dataset.describe_channel(channel);
            let colour = colours.get(&channel.name);
            description.composite_colour = colour.and_then(|(colour, _)| colour.letter());
            channels.push(description);
        }
        DatasetDescription {
            token: dataset.token.to_string(),
            folder: dataset
                .settings
                .found_in
                .as_ref()
                .map(|folder| folder.display().to_string()),
            bytes: files
                .values()
                .map(|(length, _)| *length)
                .reduce(u64::saturating_add),
            modified: files.values().map(|(_, modified)| *modified).max(),
            version: (!dataset.live).then(|| self.version(dataset).to_string()),
            live: dataset.live,
            address: Some(self.address(dataset)),
            layouts: dataset.layouts.clone(),
            scaling: dataset.style.scaling.name().to_owned(),
            offset: dataset.style.offset.into(),
            channels,
            noticed: NoticeCount::of(&dataset.notices),
            notices: None,
        }
    }

    /// Describes one dataset, including the statistics of its channels. `problems` says for each
    /// channel, in the order of the list, why it could not be sampled.
    pub fn describe_sampled(
        &self,
        dataset: &Dataset,
        problems: &[Option<String>],
    ) -> DatasetDescription {
        let mut description = self.describe_dataset(dataset);
        description.notices = Some(dataset.notices.clone());
        let channels = description.channels.iter_mut().zip(dataset.listed());
        for ((description, channel), problem) in channels.zip(problems) {
            add_survey(description, channel);
            let transforms = dataset.transforms(channel);
            if let Some(transform) = &mut description.transform
                && transforms.vary()
            {
                let matrices = transforms.iter().map(|(time, known)| TimedMatrix {
                    time: *time,
                    matrix: known.rows(),
                });
                transform.by_time = matrices.collect();
            }
            description.problem = problem.clone();
        }
        description
    }

    /// Proposes the obvious table of names for a channel of labels; `None` if there is none, or if
    /// the channel has a table. Opens its file.
    pub fn proposed_names(&self, dataset: &Dataset, channel: &Channel) -> Option<NamesSettings> {
        if channel.kind != Kind::Labels || channel.names.is_some() {
            return None;
        }
        let has_other_labels = dataset
            .listed()
            .any(|other| other.kind == Kind::Labels && other.name != channel.name);
        let opener = self.shared.opener(&DatasetSettings::default());
        let file = opener.open(&channel.file).ok()?;
        names::propose(&file, channel.name.as_str(), has_other_labels)
    }

    /// The problems of tables of names. Reads the tables.
    pub fn names_faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for dataset in self.datasets() {
            for channel in dataset.channels.values() {
                if let Some(names) = &channel.names
                    && let Err(problem) = names.read()
                {
                    let key = format!("datasets.{}.channels.{}.names", dataset.token, channel.name);
                    let problem = format!("{}: {problem}", names.place());
                    faults.push(Fault::new(key, problem));
                }
            }
        }
        faults
    }
}

/// Adds the statistics of the channel's sample, if one was taken. Labels get none, because their
/// ids are not quantities.
fn add_survey(description: &mut ChannelDescription, channel: &Channel) {
    let survey = channel.surveyed().filter(|_| channel.kind != Kind::Labels);
    description.percentiles = survey.map(|survey| survey.percentiles.clone());
    description.histogram = survey.and_then(|survey| survey.histogram.clone());
    description.central_histogram = survey.and_then(|survey| survey.central.clone());
}

impl Dataset {
    fn describe_channel(&self, channel: &Channel) -> ChannelDescription {
        let (voxel_size, voxel_unit) = self.voxel_size(channel).unzip();
        let stated = channel.facts.clone();
        let facts = ChannelFacts {
            labels_because: stated
                .labels_because
                .filter(|_| channel.kind == Kind::Labels),
            timing: stated.timing.filter(|_| channel.is_series),
            voxel_size,
            voxel_unit: voxel_unit.flatten(),
            voxel_size_from: match self.style.voxel_size {
                Some(_) => Some("the configuration".to_owned()),
                None => stated.voxel_size_from,
            },
            ..stated
        };
        ChannelDescription {
            name: channel.name.to_string(),
            facts,
            composite_colour: None,
            kind: channel.kind.name().to_owned(),
            dtype: channel.voxel.name().to_owned(),
            window: channel
                .window()
                .filter(|window| *window != Window::AsStored && channel.kind != Kind::Labels)
                .map(|window| window.limits().into()),
            percentiles: None,
            histogram: None,
            central_histogram: None,
            problem: None,
            times: channel.is_series.then_some(channel.times),
            transform: self.describe_transform(channel),
            orthogonal: match self.orthogonal(channel) {
                Orthogonal::Isotropic(_) => "isotropic",
                Orthogonal::Stored => "stored",
            }
            .to_owned(),
            left_out: self.left_out(channel),
            names: channel.names.is_some(),
            offset: self.known_grid_offset(channel).map(Xyz::into),
            missing: channel
                .missing
                .declared()
                .map(|number| number.to_string())
                .collect(),
            gaps: channel.has_gaps,
            existing: channel.existing(),
            levels: self.describe_levels(channel),
        }
    }

    /// The formats in which a channel is not served, each with the reason.
    fn left_out(&self, channel: &Channel) -> BTreeMap<String, String> {
        let names_problem = channel
            .names
            .as_ref()
            .and_then(|names| names.known()?.left_out());
        let formats = [
            ("neuroglancer", self.precomputed(channel).err().cloned()),
            ("segment_properties", names_problem),
            ("zarr", channel.undecodable()),
        ];
        formats
            .into_iter()
            .filter_map(|(format, reason)| Some((format.to_owned(), reason?)))
            .collect()
    }

    fn describe_levels(&self, channel: &Channel) -> Vec<LevelDescription> {
        let mut levels = Vec::new();
        for view in self.views(channel) {
            levels.push(self.describe_level(channel, &view));
            if view.end_fits_one_tile(self.grid_offset(channel)) {
                break;
            }
        }
        levels
    }

    /// Describes one level.
    pub(super) fn describe_level(&self, channel: &Channel, view: &LevelView) -> LevelDescription {
        let stored = channel.source(view);
        let offered = Plane::ALL.into_iter().filter(|plane| {
            view.is_stored() || view.voxels_per_tile(*plane) <= self.limits.voxels_per_tile
        });
        LevelDescription {
            level: view.level.number(),
            size: view.size.into(),
            factor: view.factor.into(),
            drawn: Plane::ALL.map(|plane| {
                view.drawn(plane, self.grid_offset(channel), self.orthogonal(channel))
                    .into()
            }),
            path: view.is_stored().then(|| stored.path().to_owned()),
            sidecar: stored.sidecar.clone().filter(|_| view.is_stored()),
            storage: view.is_stored().then(|| stored.storage.clone()),
            voxels_read: Plane::ALL.map(|plane| stored.voxels_read(view, plane)),
            planes: offered.map(|plane| plane.name().to_owned()).collect(),
            slab: Some(Plane::ALL.map(|plane| self.most_slices(view, plane))),
            source: source::describe(stored, view),
        }
    }

    /// The number of a channel's middle slice in URLs of tiles at full resolution. If that slice
    /// does not exist, the number of another one that does.
    pub fn middle_slice(&self, channel: &Channel, plane: Plane) -> u64 {
        let axis = plane.slice_axis();
        let middle = if axis == Axis::Z {
            channel.slice_to_show()
        } else {
            channel.size()[axis] / 2
        };
        middle.saturating_add_signed(self.position(channel)[axis])
    }

    fn describe_transform(&self, channel: &Channel) -> Option<TransformDescription> {
        let transforms = self.transforms(channel);
        let unit = channel.facts.voxel_unit.as_deref();
        Some(TransformDescription {
            matrix: transforms.first()?.rows(),
            in_words: transforms.in_words(
                channel.facts.voxel_size,
                unit.unwrap_or("of an unknown unit"),
            ),
            nanometres: units::nanometres(unit),
            by_time: Vec::new(),
        })
    }

    /// The URL path, relative to a mount, of a tile in the middle slice of a channel. `address` is
    /// the token, perhaps with the version.
    pub fn sample_path(&self, address: &str, channel: &Channel, plane: Plane) -> String {
        let middle = self.middle_slice(channel, plane);
        let time = if channel.is_series {
            format!("{}/", channel.first_time())
        } else {
            String::new()
        };
        format!(
            "{address}/{}/{plane}/{time}{middle}/0_0_0.png",
            channel.name
        )
    }
}
