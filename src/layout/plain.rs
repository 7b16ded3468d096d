//! Plain files: every dataset that looks like a volume is a channel, or a level of one.
//!
//! Marks of datasets are used first (see [`super::marks`]). The rest is guessed here: axes by rank and
//! extents as in ilastik, labels by name, and a voxel size known for only one of several volumes with the
//! same extents applies to all. Layouts that only mark datasets find their channels through this module.

use std::collections::HashMap;

use super::contents::{Candidate, Contents};
use super::detector::{self, Joined};
use super::names::names;
use super::pyramid::{Pyramid, pyramids};
use super::{FoundChannel, FoundLevel, Layout, Paths, VoxelSize, spatial};
use crate::axes::{Axes, AxisName};
use crate::geometry::Xyz;
use crate::name::Name;
use crate::paint::Kind;
use crate::volume::hdf5::{OpenError, OpenFile, View};

/// A last axis with at most this extent is taken for channels.
const MOST_COMPONENTS: u64 = 4;
/// The first of four axes is taken for channels, not time, if its extent is at most this.
pub(super) const MOST_CHANNELS: u64 = 8;
/// A channel axis yields at most this many channels.
const MOST_SERVED: u64 = 1000;

/// Words in a path that mark integer data as labels.
const LABEL_WORDS: [&str; 22] = [
    "label",
    "labels",
    "ids",
    "clefts",
    "segmentation",
    "segmentations",
    "seg",
    "segments",
    "annotation",
    "annotations",
    "groundtruth",
    "gt",
    "mask",
    "masks",
    "instances",
    "supervoxels",
    "superpixels",
    "watershed",
    "fragments",
    "bodies",
    "neurons",
    "classes",
];
/// Words in the last component of a path that mark images, whatever the enclosing groups are called.
const IMAGE_WORDS: [&str; 4] = ["raw", "image", "images", "em"];

pub(super) struct Plain;

impl Layout for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn recognise(&self, _contents: &Contents<'_>) -> Option<String> {
        Some("it is an HDF5 file of no known layout".to_owned())
    }
}

/// The channels of all volumes that satisfy `wanted`; datasets that are levels of one volume form one
/// channel, and so do the parts of one detector.
pub(super) fn channels(
    contents: &Contents<'_>,
    wanted: impl Fn(&Candidate) -> bool,
) -> Result<Vec<FoundChannel>, OpenError> {
    let mut volumes: Vec<&Candidate> = contents.volumes()?.iter().filter(|volume| wanted(volume)).collect();
    let Joined { stacks, taken } = detector::joined(contents, &volumes);
    volumes.retain(|volume| !taken.contains(volume.path.as_str()));
    let mut pyramids = pyramids(&volumes);
    // If there is nothing larger, small datasets are what the file was written for.
    if !stacks.is_empty() || pyramids.iter().any(|pyramid| pyramid.finest().looks_like_a_volume()) {
        pyramids.retain(|pyramid| pyramid.finest().looks_like_a_volume());
    }
    let stacked = stacks.iter().map(|stack| stack.named_by.as_str());
    let paths: Vec<&str> = stacked.chain(pyramids.iter().map(Pyramid::named_by)).collect();
    let shared = shared_voxels(&pyramids);
    let mut names = names(&paths);
    let others = names.split_off(stacks.len());
    let stacked = stacks.into_iter().zip(names).map(|(stack, name)| stack.channel(name));
    let others = pyramids.iter().zip(others).flat_map(|(pyramid, name)| {
        let finest = pyramid.finest();
        let mut channel = channel(pyramid, name);
        if let (None, Some(Some(voxel))) = (channel.voxel_size, shared.get(&finest.size())) {
            channel = channel.with_voxel(Some(voxel.clone()));
        }
        one_for_each_component(channel, finest.components())
    });
    Ok(stacked.chain(others).collect())
}

/// Voxel sizes by extents: volumes with equal extents show the same space. `None` for contradictory sizes.
fn shared_voxels(pyramids: &[Pyramid<'_>]) -> HashMap<Xyz<u64>, Option<VoxelSize>> {
    let mut shared: HashMap<Xyz<u64>, Option<VoxelSize>> = HashMap::new();
    for finest in pyramids.iter().map(Pyramid::finest) {
        if let Some(voxel) = &finest.marks.voxel {
            let known = shared.entry(finest.size()).or_insert_with(|| Some(voxel.clone()));
            if known.as_ref().is_some_and(|known| known.size != voxel.size) {
                *known = None;
            }
        }
    }
    shared
}

/// The channel of a volume, including its channel axis if it has one.
fn channel(pyramid: &Pyramid<'_>, name: Name) -> FoundChannel {
    let finest = pyramid.finest();
    let view = finest.view(finest.axes());
    let level = |(volume, factor): (&Candidate, Option<Xyz<u64>>)| FoundLevel {
        factor,
        paths: Paths::One(volume.path.clone()),
        view: view.clone(),
    };
    described(name, finest, pyramid.levels().map(level).collect())
}

/// A channel with these levels, described by its finest dataset.
pub(super) fn described(name: Name, finest: &Candidate, levels: Vec<FoundLevel>) -> FoundChannel {
    let marks = finest.marks.clone();
    FoundChannel {
        label: marks.label,
        kind: finest.kind(),
        labels_because: marks.labels_because.or_else(|| finest.names_labels()),
        range: marks.range,
        missing: marks.missing,
        origin: marks.origin,
        remarks: marks.remarks,
        ..FoundChannel::new(name, levels).with_voxel(marks.voxel)
    }
}

/// Splits a channel axis into one channel per position: `name_0`, `name_1`, …
fn one_for_each_component(channel: FoundChannel, count: u64) -> Vec<FoundChannel> {
    if count <= 1 || channel.kind == Kind::Rgb {
        return vec![channel];
    }
    let component = |index: u64| {
        let mut channel = channel.clone();
        channel.name = Name::nearest(&format!("{}_{index}", channel.name));
        channel.levels.iter_mut().for_each(|level| level.view.fixed.push((AxisName::C, index)));
        channel
    };
    (0..count.min(MOST_SERVED)).map(component).collect()
}

/// What the configuration says about a channel; the rest is detected.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The axes.
    pub axes: Option<Axes>,
    /// Axes fixed at a position.
    pub fixed: Vec<(AxisName, u64)>,
    /// The kind.
    pub kind: Option<Kind>,
    /// The stored levels; empty for the dataset alone.
    pub levels: Vec<(String, Option<Xyz<u64>>)>,
    /// Whether stored values are served although they stand for others.
    pub stored_values: bool,
}

/// The channel of the dataset at `path`; `given` overrides what is detected.
pub fn channel_at(file: &OpenFile, path: &str, name: Name, given: &Given) -> Result<FoundChannel, OpenError> {
    let mut volume = Candidate::at(file, path)?;
    let axes = given.axes.clone().unwrap_or_else(|| volume.axes());
    volume.forget_values_unless(&axes, given.kind);
    if given.stored_values {
        volume.marks.values = None;
    }
    let view = View { fixed: given.fixed.clone(), ..volume.view(axes) };
    let one = [(path.to_owned(), Some(Xyz::all(1)))];
    let levels = if given.levels.is_empty() { &one[..] } else { &given.levels };
    let level = |(path, factor): &(String, Option<Xyz<u64>>)| FoundLevel {
        factor: *factor,
        paths: Paths::One(path.clone()),
        view: view.clone(),
    };
    let found = described(name, &volume, levels.iter().map(level).collect());
    let one_component = given.fixed.iter().any(|(axis, _)| *axis == AxisName::C);
    let kind = if found.kind == Kind::Rgb && one_component { Kind::Image } else { found.kind };
    Ok(FoundChannel { kind: given.kind.unwrap_or(kind), ..found })
}

impl Candidate {
    /// Its marked axes, else those guessed from its shape.
    pub fn axes(&self) -> Axes {
        self.marks.axes.clone().unwrap_or_else(|| guessed(&self.shape))
    }

    /// Its marked kind, else the one suggested by its name.
    pub fn kind(&self) -> Kind {
        let named =
            || if self.voxel.is_integer() && names_labels(&self.path) { Kind::Labels } else { Kind::Image };
        self.marks.kind.unwrap_or_else(named)
    }

    /// How its dataset is interpreted.
    pub fn view(&self, axes: Axes) -> View {
        View { means: self.marks.means, values: self.marks.values.clone(), ..View::of(axes) }
    }

    /// Serves stored values as they are if the configuration contradicts what they stand for: scales belong to axes, and
    /// everything else to a kind.
    fn forget_values_unless(&mut self, axes: &Axes, kind: Option<Kind>) {
        let is_image = self.kind() == Kind::Image;
        let contradicts = kind.is_some_and(|kind| kind != self.kind()) || (is_image && *axes != self.axes());
        if contradicts {
            self.marks.values = None;
        }
    }

    /// Why it holds labels by its name.
    fn names_labels(&self) -> Option<String> {
        let is_named = self.marks.kind.is_none() && self.kind() == Kind::Labels;
        is_named.then(|| format!("a word of its path {} names labels", self.path))
    }

    /// The extents along x, y and z.
    fn size(&self) -> Xyz<u64> {
        spatial(&self.shape, &self.axes())
    }

    /// The extent of its channel axis.
    fn components(&self) -> u64 {
        self.axes().position(AxisName::C).and_then(|position| self.shape.get(position)).copied().unwrap_or(1)
    }
}

/// Whether a path names labels: in its last component, or in a group unless the last component names an
/// image.
fn names_labels(path: &str) -> bool {
    let has = |part: &str, known: &[&str]| {
        let mut words = part.split(|c: char| !c.is_ascii_alphabetic());
        words.any(|word| known.contains(&word.to_ascii_lowercase().as_str()))
    };
    let (groups, last) = path.rsplit_once('/').unwrap_or(("", path));
    has(last, &LABEL_WORDS) || (has(groups, &LABEL_WORDS) && !has(last, &IMAGE_WORDS))
}

/// Axes guessed by ilastik's rule (`lazyflow`, `OpStreamingH5N5Reader`); the most common ones for shapes it does not
/// cover.
fn guessed(shape: &[u64]) -> Axes {
    use AxisName::{C, T, X, Y, Z};
    let few_last = shape.last().is_some_and(|n| *n <= MOST_COMPONENTS);
    match *shape {
        [_, _] => Axes::from_known([Y, X]),
        [y, x, _] if few_last && y.min(x) > MOST_COMPONENTS => Axes::from_known([Y, X, C]),
        [_, _, _] => Axes::from_known([Z, Y, X]),
        [_, _, _, _] if few_last => Axes::from_known([Z, Y, X, C]),
        [first, _, _, _] if first <= MOST_CHANNELS => Axes::from_known([C, Z, Y, X]),
        [_, _, _, _] => Axes::from_known([T, Z, Y, X]),
        _ if few_last => Axes::from_known([T, Z, Y, X, C]),
        _ => Axes::from_known([T, C, Z, Y, X]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_guessed_by_rank_and_extent() {
        let guess = |shape: &[u64]| guessed(shape).to_string();
        assert_eq!(guess(&[100, 200]), "yx");
        assert_eq!(guess(&[30, 100, 200]), "zyx");
        assert_eq!(guess(&[100, 200, 3]), "yxc");
        assert_eq!(guess(&[3, 3, 3]), "zyx");
        assert_eq!(guess(&[9, 100, 200, 2]), "zyxc");
        assert_eq!(guess(&[2, 9, 100, 200]), "czyx");
        assert_eq!(guess(&[20, 9, 100, 200]), "tzyx");
        assert_eq!(guess(&[5, 9, 100, 200, 2]), "tzyxc");
        assert_eq!(guess(&[5, 2, 9, 100, 200]), "tczyx");
    }

    #[test]
    fn labels_are_recognised_by_a_word_of_their_path() {
        for labels in ["/label", "/volumes/labels/neuron_ids", "/a/Segmentation", "/seg_2", "/labels/data"] {
            assert!(names_labels(labels), "{labels}");
        }
        for image in ["/raw", "/labels/raw", "/segment", "/segmentation/image", "/unlabelled"] {
            assert!(!names_labels(image), "{image}");
        }
    }
}
