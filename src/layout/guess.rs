//! Guesses about a dataset where its marks say nothing: axes by rank and extents as in ilastik,
//! labels and colour by name.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::{Region, Xyz};
use voltile_base::name::Name;
use voltile_base::notice::Notice;
use voltile_base::paint::Kind;
use voltile_hdf5::volume::hdf5::{ElementMeaning, OpenFile, View};
use voltile_hdf5::volume::{ComplexPart, ReadRequest, Samples, Volume, VoxelType, with_samples};

use super::axis_names::MAX_CHANNELS;
use super::channel::{FoundChannel, FoundLevel, along, last_of, spatial, usual_axes};
use super::contents::Candidate;
use super::words::{has_word, words};

/// A last axis with at most this extent is taken for channels.
const MAX_COMPONENTS: u64 = 4;
/// An axis with more positions than this does not hold channels, but a spectrum.
const MAX_CHANNELS_SHOWN: u64 = 64;
/// Images in colour have at least this many rows and columns.
pub(super) const MIN_COLOURED: u64 = 16;
/// The edge of the square in which voxels are compared with their neighbours.
const COMPARED: u64 = 256;

/// Words in a path that mark integer data as labels.
const LABEL_WORDS: [&str; 17] = [
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
    "supervoxels",
    "superpixels",
    "watershed",
];
/// Words in the last component of a path that mark images, whatever the enclosing groups are
/// called.
const IMAGE_WORDS: [&str; 4] = ["raw", "image", "images", "em"];

/// Words in the last component of a path that mark integer data as labels if most voxels equal
/// their neighbours: images have some of these names, too. Unlike for [`LABEL_WORDS`], a capital
/// begins a word: `FeatureIds` has the word `ids`.
const LIKELY_LABEL_WORDS: [&str; 10] = [
    "label",
    "labels",
    "seg",
    "segmentation",
    "ids",
    "instances",
    "fragments",
    "bodies",
    "neurons",
    "classes",
];
/// Words in the last component of a path that mark bytes with three or four components as colour.
const COLOUR_WORDS: [&str; 8] = [
    "color", "colors", "colour", "colours", "rgb", "rgba", "image", "images",
];

/// Makes a channel of these levels, described by its finest dataset.
pub(super) fn describe(name: Name, finest: &Candidate, levels: Vec<FoundLevel>) -> FoundChannel {
    let marks = finest.marks.clone();
    let mut channel = FoundChannel::new(name, levels);
    channel.transforms = marks.transform().into();
    channel.facts.label = marks.label;
    channel.facts.labels_because = marks.labels_because.or_else(|| finest.labels_by_name());
    channel.facts.timing = marks.timing;
    channel.kind = finest.kind();
    channel.rank = finest.rank();
    channel.has_pictures = finest.looks_like_a_volume();
    channel.voxels = finest.shape.iter().product();
    channel.range = marks.range;
    channel.is_inverted = marks.is_inverted;
    channel.missing = marks.missing;
    channel.notices = marks.notices;
    if channel.kind == Kind::Rgb && finest.extent(AxisName::C) == 4 {
        let notice = Notice::warning("its opacity is not drawn");
        channel.notices.push(notice);
    }
    channel.with_voxel(marks.voxel)
}

impl Candidate {
    /// Its marked axes, else axes guessed from its shape. If it has no sections, the positions of a
    /// spectrum are its sections: the axes y, x, c of a spectrum become y, x, z.
    pub fn axes(&self) -> Axes {
        let axes = self.stored_axes();
        let is_flat = along(&self.shape, &axes, AxisName::Z) == 1;
        if is_flat && self.is_spectrum() {
            axes.exchanged(AxisName::C, AxisName::Z)
        } else {
            axes
        }
    }

    /// Its axes as stored; [`Self::axes`] exchanges c and z of a flat spectrum.
    fn stored_axes(&self) -> Axes {
        self.marks
            .axes
            .clone()
            .or_else(|| self.axes_of_colours())
            .unwrap_or_else(|| guessed(&self.shape))
    }

    /// The axes if each element is a colour.
    fn axes_of_colours(&self) -> Option<Axes> {
        if self.meaning != ElementMeaning::Colour {
            return None;
        }
        let axes = usual_axes(self.shape.len().checked_sub(1)?)?;
        Axes::new(&format!("{axes}c")).ok()
    }

    /// Whether its axis c holds a spectrum, not channels.
    fn is_spectrum(&self) -> bool {
        let max_channels = if self.marks.is_spectrum {
            1
        } else {
            MAX_CHANNELS_SHOWN
        };
        along(&self.shape, &self.stored_axes(), AxisName::C) > max_channels
    }

    /// Its marked kind, else the one suggested by its name.
    pub fn kind(&self) -> Kind {
        if let Some(kind) = self.marks.kind {
            return kind;
        }
        let is_bytes = self.voxel == VoxelType::U8;
        if self.meaning == ElementMeaning::Colour {
            return if is_bytes { Kind::Rgb } else { Kind::Image };
        }
        if self.voxel.is_integer() && names_labels(&self.path) {
            return Kind::Labels;
        }
        if is_bytes && self.is_named_colour() {
            return Kind::Rgb;
        }
        Kind::Image
    }

    /// Whether it has the name and the shape of an image in colour.
    fn is_named_colour(&self) -> bool {
        let size = self.size();
        self.axes().last() == Some(AxisName::C)
            && matches!(self.shape.last(), Some(3 | 4))
            && size.x.min(size.y) >= MIN_COLOURED
            && has_word(&words(last_of(&self.path)), &COLOUR_WORDS)
    }

    /// Marks integers as labels if a word of the name suggests it and most voxels are like their
    /// neighbours. For these names a square of voxels is read; if it cannot be read, the kind stays
    /// as it is.
    pub fn note_labels(&mut self, file: &OpenFile) {
        let may_be_labels =
            self.voxel.is_integer() && self.marks.kind.is_none() && self.kind() == Kind::Image;
        if may_be_labels
            && has_word(&words(last_of(&self.path)), &LIKELY_LABEL_WORDS)
            && self.is_patchy(file).unwrap_or(false)
        {
            self.marks.kind = Some(Kind::Labels);
            self.marks.labels_because = Some(format!(
                "a word of its path {} names labels, and most voxels are like their neighbours",
                self.path
            ));
        }
    }

    /// Whether at least half of the voxels in the middle of the volume are equal to their
    /// neighbours along x; `None` if they cannot be read.
    fn is_patchy(&self, file: &OpenFile) -> Option<bool> {
        let volume = file.volume(&self.path, &self.view(self.axes())).ok()?;
        let whole = volume.shape().size;
        let size = Xyz {
            z: 1,
            ..whole.map(|extent| extent.min(COMPARED))
        };
        let start = whole.zip(size, |extent, size| (extent - size) / 2);
        let mut square = Samples::default();
        volume
            .read(&ReadRequest::new(0, Region { start, size }), &mut square)
            .ok()?;
        let equal_pairs = with_samples!(&square, voxels => {
            let rows = voxels.chunks_exact(size.x as usize);
            let pairs = rows.flat_map(|row| row.windows(2));
            pairs.filter(|pair| pair[0] == pair[1]).count() as u64
        });
        let all_pairs = (size.x - 1) * size.y;
        Some(all_pairs > 0 && 2 * equal_pairs >= all_pairs)
    }

    /// How its dataset is interpreted.
    pub fn view(&self, axes: Axes) -> View {
        let is_complex = self.meaning == ElementMeaning::Complex;
        let part = is_complex.then_some(ComplexPart::Magnitude);
        View {
            reinterpret_as: self.marks.reinterpret_as,
            values: self.marks.values.clone(),
            part,
            ..View::from_axes(axes)
        }
    }

    /// Forgets which values the stored values stand for if this depends on something that the
    /// configuration changes: the kind, or, of an image, the axes along which its scales lie.
    pub fn forget_values_if_changed(&mut self, axes: &Axes, kind: Option<Kind>) {
        let keeps_kind = kind.is_none_or(|kind| kind == self.kind());
        let keeps_axes = self.kind() != Kind::Image || *axes == self.axes();
        if !keeps_kind || !keeps_axes {
            self.marks.values = None;
        }
    }

    /// Why it holds labels, if only its name says so.
    fn labels_by_name(&self) -> Option<String> {
        let is_named = self.marks.kind.is_none() && self.kind() == Kind::Labels;
        is_named.then(|| format!("a word of its path {} names labels", self.path))
    }

    /// The extents along x, y and z.
    pub fn size(&self) -> Xyz<u64> {
        spatial(&self.shape, &self.axes())
    }

    /// The extent along an axis.
    fn extent(&self, axis: AxisName) -> u64 {
        along(&self.shape, &self.axes(), axis)
    }

    /// The number of channels that it is shown as.
    pub fn components(&self) -> u64 {
        if self.is_spectrum() {
            1
        } else {
            self.extent(AxisName::C)
        }
    }

    /// The notice about the positions of a spectrum that are not shown because they are not
    /// sections.
    pub fn hidden_spectrum(&self) -> Option<Notice> {
        let positions = self.extent(AxisName::C);
        if !self.is_spectrum() || positions <= 1 {
            return None;
        }
        Some(Notice::warning(format!(
            "its axis c has {positions} positions, the first of which is shown; `path` with `index = {{ c = … }}` shows \
             another"
        )))
    }
}

/// Whether a path names labels: in its last component, or in a group unless the last component
/// names an image.
fn names_labels(path: &str) -> bool {
    let (groups, last) = path.rsplit_once('/').unwrap_or(("", path));
    contains_word(last, &LABEL_WORDS)
        || (contains_word(groups, &LABEL_WORDS) && !contains_word(last, &IMAGE_WORDS))
}

/// Whether a text contains one of these words. Unlike in [`words`], a capital does not begin a
/// word: `FeatureIds` does not contain `ids`.
fn contains_word(text: &str, known: &[&str]) -> bool {
    text.split(|c: char| !c.is_ascii_alphabetic())
        .any(|word| known.contains(&word.to_ascii_lowercase().as_str()))
}

/// Axes guessed by ilastik's rule (`lazyflow`, `OpStreamingH5N5Reader`), or the most common ones if
/// this rule does not cover the shape. 30 × 100 × 200 is zyx, 100 × 200 × 3 is yxc, and 2 × 9 × 100
/// × 200 is czyx.
fn guessed(shape: &[u64]) -> Axes {
    use AxisName::{C, T, X, Y, Z};
    let few_last = shape.last().is_some_and(|last| *last <= MAX_COMPONENTS);
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
        for labels in [
            "/label",
            "/volumes/labels/neuron_ids",
            "/a/Segmentation",
            "/seg_2",
            "/labels/data",
        ] {
            assert!(names_labels(labels), "{labels}");
        }
        for image in [
            "/raw",
            "/labels/raw",
            "/segment",
            "/segmentation/image",
            "/unlabelled",
        ] {
            assert!(!names_labels(image), "{image}");
        }
    }
}
