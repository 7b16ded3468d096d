//! Channels as images of chunked formats: which levels they have, in which chunks, and which
//! channels form one image.
//!
//! The images follow from metadata alone. They are determined once for each generation of a dataset
//! and its limits.

mod array;
mod chunks;
mod multiscale;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use array::ArrayLevel;
pub(super) use array::Images;
pub use multiscale::{ImageAxes, Multiscale};
use voltile_base::axes::AxisName;
use voltile_base::name::Name;
use voltile_base::notice::{Notice, Severity};
use voltile_base::paint::Kind;
use voltile_base::request::{VersionedToken, ZarrChunk, ZarrRequest, ZarrVersion};
use voltile_render::plan::BoxEncoding;

use super::resolve::name_list;
use super::{Catalog, Channel, Dataset, NotFound, RequestPlan};

/// An image: one channel, or all channels of a dataset that can share an array, with the dataset's
/// labels.
#[derive(Debug, Clone)]
pub struct ZarrImage {
    dataset: Arc<Dataset>,
    /// The only channel; `None` for the image of the dataset.
    channel: Option<Name>,
}

impl Catalog {
    /// Resolves the image of a channel, or of a dataset. Reads no data.
    pub fn image(
        &self,
        token: &VersionedToken,
        channel: Option<&Name>,
    ) -> Result<ZarrImage, NotFound> {
        let dataset = self.requested_dataset(token)?;
        if let Some(channel) = channel {
            dataset.channel_at(channel, 0)?;
        }
        let image = ZarrImage {
            dataset: Arc::clone(dataset),
            channel: channel.cloned(),
        };
        if image.levels().is_empty() {
            let mut candidates = dataset
                .channels
                .values()
                .filter(|other| channel.is_none_or(|name| other.name == *name));
            return Err(match candidates.find_map(|other| other.undecodable()) {
                Some(reason) => NotFound::Other(format!(
                    "{} is not served as OME-Zarr: {reason}",
                    image.name()
                )),
                None => NotFound::Other(format!(
                    "no chunk of the dataset {} would be smaller than render.max_voxels_per_box, which is {}; raise it",
                    token.token, self.limits.voxels_per_box
                )),
            });
        }
        Ok(image)
    }

    /// Plans a request for a chunk of an image.
    pub fn plan_chunk(
        &self,
        request: &ZarrRequest,
        chunk: &ZarrChunk,
    ) -> Result<RequestPlan, NotFound> {
        let image = self.image(&request.token, request.channel.as_ref())?;
        let arrays = image.arrays(chunk.label.as_ref())?;
        let level = arrays.level(chunk.level)?;
        let format = match request.version {
            ZarrVersion::V04 => level.as_stored(arrays.voxel()),
            ZarrVersion::V05 => level.in_zstd(arrays.voxel()),
        };
        let (channel, time, region) = arrays.chunk(level, &chunk.place)?;
        let dataset = &image.dataset;
        let cutout = dataset.cut(channel, time, chunk.level, region)?;
        Ok(dataset.plan_cutout(cutout, BoxEncoding::WrittenChunk(format)))
    }
}

impl ZarrImage {
    /// The dataset.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// The name of the channel if it is the image of one channel, else the name of the dataset.
    pub fn name(&self) -> &Name {
        self.channel.as_ref().unwrap_or(&self.dataset.token)
    }

    /// The notices about data of its dataset that cannot be shown.
    pub fn errors(&self) -> impl Iterator<Item = &Notice> {
        self.dataset
            .notices
            .iter()
            .filter(|notice| notice.severity == Severity::Error)
    }

    /// The image itself.
    pub fn multiscale(&self) -> Multiscale<'_> {
        let channels = self
            .members()
            .iter()
            .map(|name| &self.dataset.channels[name]);
        Multiscale::new(&self.dataset, channels.collect(), self.levels())
    }

    /// The names of the channels that form the image itself; not empty if it has levels.
    fn members(&self) -> &[Name] {
        match &self.channel {
            Some(name) => std::slice::from_ref(name),
            None => &self.images().members,
        }
    }

    /// The levels of the image itself; none if its channels cannot be decoded.
    fn levels(&self) -> &[ArrayLevel] {
        let first = self.members().first();
        let levels = first.and_then(|name| self.images().channels.get(name));
        levels.map_or(&[], Vec::as_slice)
    }

    /// The arrays of one of its label images, or its own.
    pub fn arrays(&self, label: Option<&Name>) -> Result<Multiscale<'_>, NotFound> {
        match label {
            Some(name) => self.label(name),
            None => Ok(self.multiscale()),
        }
    }

    /// The names of its label images.
    pub fn labels(&self) -> impl Iterator<Item = &Name> {
        self.label_levels().into_iter().flat_map(BTreeMap::keys)
    }

    /// One of its label images. It has the axes of the image, of extent 1 where labels do not vary.
    pub fn label(&self, name: &Name) -> Result<Multiscale<'_>, NotFound> {
        let levels = self.label_levels().and_then(|labels| labels.get(name));
        let Some((levels, channel)) = levels.zip(self.dataset.channels.get(name)) else {
            let labels: Vec<&Name> = self.labels().collect();
            let existing = name_list("label images", labels.into_iter());
            let problem = format!("the image has no labels {name}; {existing}");
            return Err(NotFound::Other(problem));
        };
        let axes = self.multiscale().axes;
        Ok(Multiscale::new(&self.dataset, vec![channel], levels).along(axes))
    }

    fn label_levels(&self) -> Option<&BTreeMap<Name, Vec<ArrayLevel>>> {
        self.channel.is_none().then(|| &self.images().labels)
    }

    fn images(&self) -> &Images {
        self.dataset
            .derived
            .images
            .get_or_init(|| form_images(&self.dataset))
    }
}

/// The images that the channels of a dataset form.
fn form_images(dataset: &Dataset) -> Images {
    let mut channels = BTreeMap::new();
    for (name, channel) in &dataset.channels {
        if channel.undecodable().is_none() {
            channels.insert(name.clone(), dataset.array_levels(channel));
        }
    }
    let members = choose_members(dataset, &channels);
    let mut labels = BTreeMap::new();
    if let Some(first) = members.first()
        && let Some(image) = dataset.channels.get(first)
        && let Some(levels) = channels.get(first)
    {
        for (name, channel) in &dataset.channels {
            if let Some(matching) = matching_levels(dataset, channel, image, levels) {
                labels.insert(name.clone(), matching);
            }
        }
    }
    Images {
        channels,
        members,
        labels,
    }
}

/// The channels that form the dataset's image: all channels like its first intensity channel, or
/// else only its first RGB channel, or else only its first channel.
fn choose_members(dataset: &Dataset, levels: &BTreeMap<Name, Vec<ArrayLevel>>) -> Vec<Name> {
    let usable: Vec<(&Channel, &[ArrayLevel])> = dataset
        .listed()
        .filter_map(|channel| Some((&**channel, levels.get(&channel.name)?.as_slice())))
        .collect();
    let first = [Kind::Image, Kind::Rgb, Kind::Labels]
        .into_iter()
        .find_map(|kind| usable.iter().find(|(channel, _)| channel.kind == kind));
    let Some((first, first_levels)) = first else {
        return Vec::new();
    };
    if first.kind != Kind::Image {
        return vec![first.name.clone()];
    }
    let mut members = Vec::new();
    for (other, levels) in &usable {
        if first.is_like(other)
            && dataset.grid_offset(first) == dataset.grid_offset(other)
            && dataset.transforms(first) == dataset.transforms(other)
            && first_levels.len() == levels.len()
            && first_levels
                .iter()
                .zip(*levels)
                .all(|(first_level, level)| first_level.is_like(level))
        {
            members.push(other.name.clone());
        }
    }
    members
}

impl Channel {
    /// Whether it can share an array with another channel, apart from the levels of both.
    fn is_like(&self, other: &Channel) -> bool {
        self.kind == other.kind
            && self.voxel == other.voxel
            && self.is_series == other.is_series
            && self.times == other.times
            && self.has_sections() == other.has_sections()
            && self.facts.voxel_size == other.facts.voxel_size
            && self.facts.voxel_unit == other.facts.voxel_unit
    }

    /// Whether it has an axis z, even of extent 1.
    pub(super) fn has_sections(&self) -> bool {
        self.size().z > 1 || self.finest().source.view.extends_along(AxisName::Z)
    }
}

/// The levels of the channel `label` that correspond to the levels of an image; `None` if the
/// channel holds no labels, its extents, time points or position differ from the image's, or a
/// level cannot be derived.
fn matching_levels(
    dataset: &Dataset,
    label: &Channel,
    image: &Channel,
    levels: &[ArrayLevel],
) -> Option<Vec<ArrayLevel>> {
    let is_label =
        label.kind == Kind::Labels && image.kind != Kind::Labels && label.undecodable().is_none();
    let is_in_step = !label.is_series || (image.is_series && label.times == image.times);
    let is_in_place =
        label.size() == image.size() && dataset.grid_offset(label) == dataset.grid_offset(image);
    if !is_label || !is_in_step || !is_in_place {
        return None;
    }
    let mut matching = Vec::new();
    for image_level in levels {
        let view = label.view(image_level.level, dataset.style.scaling)?;
        let may_shrink = true;
        matching.push(dataset.array_level(label, &view, may_shrink)?);
    }
    Some(matching)
}
