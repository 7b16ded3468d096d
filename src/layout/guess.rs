//! What is guessed of a dataset where its marks say nothing: axes by rank and extents as in ilastik, labels by name.

use super::axis_names::MAX_CHANNELS;
use super::contents::Candidate;
use super::found::{FoundChannel, FoundLevel, spatial};
use crate::base::axes::{Axes, AxisName};
use crate::base::name::Name;
use crate::base::paint::Kind;
use crate::geometry::Xyz;
use crate::volume::hdf5::View;

/// A last axis with at most this extent is taken for channels.
const MAX_COMPONENTS: u64 = 4;

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

/// A channel with these levels, described by its finest dataset.
pub(super) fn described(name: Name, finest: &Candidate, levels: Vec<FoundLevel>) -> FoundChannel {
    let marks = finest.marks.clone();
    let transforms = marks.transform().into();
    FoundChannel {
        label: marks.label,
        kind: finest.kind(),
        labels_because: marks.labels_because.or_else(|| finest.names_labels()),
        range: marks.range,
        missing: marks.missing,
        timing: marks.timing,
        transforms,
        remarks: marks.remarks,
        ..FoundChannel::new(name, levels).with_voxel(marks.voxel)
    }
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
        View { means: self.marks.means, values: self.marks.values.clone(), ..View::from_axes(axes) }
    }

    /// Serves stored values as they are if the configuration contradicts what they stand for: scales belong to axes, and
    /// everything else to a kind.
    pub fn forget_values_unless(&mut self, axes: &Axes, kind: Option<Kind>) {
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
    pub fn size(&self) -> Xyz<u64> {
        spatial(&self.shape, &self.axes())
    }

    /// The extent of its channel axis.
    pub fn components(&self) -> u64 {
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
    let few_last = shape.last().is_some_and(|n| *n <= MAX_COMPONENTS);
    match *shape {
        [_, _] => Axes::from_known([Y, X]),
        [y, x, _] if few_last && y.min(x) > MAX_COMPONENTS => Axes::from_known([Y, X, C]),
        [_, _, _] => Axes::from_known([Z, Y, X]),
        [_, _, _, _] if few_last => Axes::from_known([Z, Y, X, C]),
        [first, _, _, _] if first <= MAX_CHANNELS => Axes::from_known([C, Z, Y, X]),
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
