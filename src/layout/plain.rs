//! Plain files: every dataset that looks like a volume is a channel, or a level of one.
//!
//! What datasets tell of themselves is believed (see [`super::marks`]); the rest is guessed here: axes by rank and
//! extents in ilastik's way, labels by their names, and a voxel size that only one of several volumes of the same
//! extents has is that of all of them. Layouts that only mark datasets find their channels through here.

use std::collections::HashMap;

use super::contents::{Candidate, Contents};
use super::names::names;
use super::pyramid::{Pyramid, pyramids};
use super::{FoundChannel, FoundLevel, Layout, Paths, VoxelSize, spatial};
use crate::axes::{Axes, AxisName};
use crate::geometry::Xyz;
use crate::name::Name;
use crate::paint::Kind;
use crate::volume::hdf5::{OpenError, OpenFile, View};

/// The most positions along a last axis that are taken for channels.
const MOST_COMPONENTS: u64 = 4;
/// The most positions along a first axis of four that are taken for channels rather than times.
pub(super) const MOST_CHANNELS: u64 = 8;
/// A channel axis is made into at most this many channels.
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
/// Words in the last component of a path that mark images, whatever the groups around them are called.
const IMAGE_WORDS: [&str; 4] = ["raw", "image", "images", "em"];

/// The layout.
pub(super) struct Plain;

impl Layout for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn recognise(&self, _contents: &Contents<'_>) -> Option<String> {
        Some("it is an HDF5 file of no layout that is known".to_owned())
    }
}

/// The channels of all volumes that are wanted; datasets that are levels of one volume make one channel.
pub(super) fn channels(
    contents: &Contents<'_>,
    wanted: impl Fn(&Candidate) -> bool,
) -> Result<Vec<FoundChannel>, OpenError> {
    let volumes: Vec<&Candidate> = contents.volumes()?.iter().filter(|volume| wanted(volume)).collect();
    let mut pyramids = pyramids(&volumes);
    // Where nothing else is there, small things are what the file was written for.
    if pyramids.iter().any(|pyramid| pyramid.finest().looks_like_a_volume()) {
        pyramids.retain(|pyramid| pyramid.finest().looks_like_a_volume());
    }
    let paths: Vec<&str> = pyramids.iter().map(Pyramid::named_by).collect();
    let shared = shared_voxels(&pyramids);
    let channels = pyramids.iter().zip(names(&paths)).flat_map(|(pyramid, name)| {
        let finest = pyramid.finest();
        let mut channel = channel(pyramid, name);
        if let (None, Some(Some(voxel))) = (channel.voxel_size, shared.get(&finest.size())) {
            channel = channel.with_voxel(Some(voxel.clone()));
        }
        one_for_each_component(channel, finest.components())
    });
    Ok(channels.collect())
}

/// The voxel size of volumes of the same extents: they show the same space. `None` where they contradict each other.
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

/// The channel of a volume, with its channel axis if it has one.
fn channel(pyramid: &Pyramid<'_>, name: Name) -> FoundChannel {
    let finest = pyramid.finest();
    let view = View { means: finest.marks.means, ..View::of(finest.axes()) };
    let level = |(volume, factor): (&Candidate, Option<Xyz<u64>>)| FoundLevel {
        factor,
        paths: Paths::One(volume.path.clone()),
        view: view.clone(),
    };
    described(name, finest, pyramid.levels().map(level).collect())
}

/// A channel of these levels, with everything else that its finest dataset tells.
pub(super) fn described(name: Name, finest: &Candidate, levels: Vec<FoundLevel>) -> FoundChannel {
    let marks = finest.marks.clone();
    FoundChannel {
        label: marks.label,
        kind: finest.kind(),
        range: marks.range,
        remarks: marks.remarks,
        ..FoundChannel::new(name, levels).with_voxel(marks.voxel)
    }
}

/// A channel axis makes a channel of each of its positions: `name_0`, `name_1`, …
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

/// What a configuration says of a channel; the rest is found out.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The axes.
    pub axes: Option<Axes>,
    /// Axes held still.
    pub fixed: Vec<(AxisName, u64)>,
    /// The kind.
    pub kind: Option<Kind>,
    /// The stored levels; empty for the dataset alone.
    pub levels: Vec<(String, Option<Xyz<u64>>)>,
}

/// The channel that the dataset at `path` is, as far as `given` does not say otherwise.
pub fn channel_at(file: &OpenFile, path: &str, name: Name, given: &Given) -> Result<FoundChannel, OpenError> {
    let volume = Candidate::at(file, path)?;
    let axes = given.axes.clone().unwrap_or_else(|| volume.axes());
    let view = View { fixed: given.fixed.clone(), means: volume.marks.means, ..View::of(axes) };
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
    /// The axes that it tells, else those that its shape suggests.
    pub fn axes(&self) -> Axes {
        self.marks.axes.clone().unwrap_or_else(|| guessed(&self.shape))
    }

    /// What it tells of its numbers, else what its name says.
    pub fn kind(&self) -> Kind {
        let named =
            || if self.voxel.is_integer() && names_labels(&self.path) { Kind::Labels } else { Kind::Image };
        self.marks.kind.unwrap_or_else(named)
    }

    /// The extents along x, y and z.
    fn size(&self) -> Xyz<u64> {
        spatial(&self.shape, &self.axes())
    }

    /// The positions along its channel axis.
    fn components(&self) -> u64 {
        self.axes().position(AxisName::C).and_then(|position| self.shape.get(position)).copied().unwrap_or(1)
    }
}

/// Whether a path has a word for labels in it: in its last component, or in a group if that one names no image.
fn names_labels(path: &str) -> bool {
    let has = |part: &str, known: &[&str]| {
        let mut words = part.split(|c: char| !c.is_ascii_alphabetic());
        words.any(|word| known.contains(&word.to_ascii_lowercase().as_str()))
    };
    let (groups, last) = path.rsplit_once('/').unwrap_or(("", path));
    has(last, &LABEL_WORDS) || (has(groups, &LABEL_WORDS) && !has(last, &IMAGE_WORDS))
}

/// ilastik's rule (`lazyflow`, `OpStreamingH5N5Reader`), and where it has none, the commonest case.
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
