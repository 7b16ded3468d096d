//! Detectors: stacks of frames in numbered parts, mostly in linked files.
//!
//! The master file of a detector links to its data files: `/entry/data/data_000001`, `data_000002`,
//! … (DECTRIS, "EIGER HDF5 File Format (NeXus)"; the same names occur in other NeXus files). The
//! parts follow each other along their first axis; the last one may be shorter. A part that is
//! missing is a gap as long as a full part: `data_000001` and `data_000003` of 100 frames each are
//! a stack of 300. The other datasets of the master, such as the flat field and the pixel mask, are
//! further channels; the mask has a label for each kind of bad pixel. A virtual dataset over the
//! same frames is left out, unless parts are missing: then it is shown instead of the stack.
//!
//! In other files a dataset with a number is a volume by itself, so parts are joined only in groups
//! that NeXus or DECTRIS define for detector data.

use std::collections::{BTreeMap, HashSet};

use voltile_base::axes::AxisName;
use voltile_base::name::Name;
use voltile_base::notice::Notice;
use voltile_base::paint::Number;
use voltile_hdf5::volume::VoxelType;
use voltile_hdf5::volume::hdf5::{OpenFile, UnfollowedLink, View};

use super::contents::{About, Candidate, Contents};
use super::marks::Marks;
use super::omissions::first_of;
use super::{
    FoundChannel, FoundLevel, MAX_NUMBERED, Part, Paths, Rank, group_of, guess, last_of,
    number_after,
};

/// The least number of digits in the name of a part: `data_000001`.
const LEAST_DIGITS: usize = 6;
/// A stack has at most this many parts, missing ones included, for each numbered name in its group:
/// a number far beyond all others is not that of a part.
const MAX_SPREAD: u64 = 16;
/// DECTRIS: the value of bad pixels in 32-bit data.
const BAD_PIXEL: i128 = u32::MAX as i128;

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    if about.is_integer() && about.last().starts_with("pixel_mask") {
        return Some(Marks::labels("it is the mask of a detector's pixels"));
    }
    let is_counts = about.group() == "/entry/data" && about.dataset.stored.voxel == VoxelType::U32;
    is_counts.then(|| Marks {
        missing: vec![Number::Whole(BAD_PIXEL)],
        ..Marks::default()
    })
}

pub(super) fn recognise(contents: &Contents<'_>) -> Option<String> {
    let search = contents.search().ok()?;
    let volumes: Vec<&Candidate> = search.volumes.iter().collect();
    let detector_stacks = stacks(contents.file, &volumes, &search.unfollowed);
    let stack = detector_stacks.stacks.first()?;
    Some(format!(
        "{} is in numbered parts, the first of which is {}",
        stack.named_by, stack.first.path
    ))
}

/// The stacks among the volumes of a file.
pub(super) struct DetectorStacks<'a> {
    pub stacks: Vec<Stack<'a>>,
    /// The paths of the volumes that are not channels of their own: parts, and virtual datasets
    /// over all parts of a stack.
    pub taken: HashSet<String>,
}

/// Joins the numbered parts of detectors. `unfollowed` are links that may lead to further parts.
pub(super) fn stacks<'a>(
    file: &OpenFile,
    volumes: &[&'a Candidate],
    unfollowed: &'a [UnfollowedLink],
) -> DetectorStacks<'a> {
    let mut stacks = Vec::new();
    let mut taken = HashSet::new();
    for ((group, prefix), run) in runs(volumes, unfollowed) {
        let Some(stack) = Stack::new(format!("{group}/{prefix}"), &run) else {
            continue;
        };
        if !holds_detector_data(file, group) {
            continue;
        }
        taken.extend(stack.parts.iter().filter_map(|part| part.path.clone()));
        if let Some(whole) = volumes.iter().find(|volume| stack.is_shown_by(volume)) {
            if !stack.is_complete {
                // The virtual dataset is shown instead of the stack.
                continue;
            }
            // The stack is shown instead of the virtual dataset: parts are decoded in parallel, and
            // without libhdf5, which may lack their filter.
            taken.insert(whole.path.clone());
        }
        stacks.push(stack);
    }
    DetectorStacks { stacks, taken }
}

/// A numbered dataset, or a link to one that could not be followed.
type Numbered<'a> = Result<&'a Candidate, &'a UnfollowedLink>;

/// Numbered datasets and links, by their group and the name before the number.
type NumberedRuns<'a> = BTreeMap<(&'a str, &'a str), BTreeMap<u64, Numbered<'a>>>;

fn runs<'a>(volumes: &[&'a Candidate], unfollowed: &'a [UnfollowedLink]) -> NumberedRuns<'a> {
    let mut runs = NumberedRuns::new();
    let datasets = volumes
        .iter()
        .map(|volume| (volume.path.as_str(), Ok(*volume)));
    let links = unfollowed.iter().map(|link| (&*link.path, Err(link)));
    // If several names have the same number (`data_000001`, `data_0000001`), the first is taken.
    for (path, numbered) in datasets.chain(links) {
        if let Some((prefix, number)) = name_and_number(last_of(path)) {
            runs.entry((group_of(path), prefix))
                .or_default()
                .entry(number)
                .or_insert(numbered);
        }
    }
    runs
}

/// Splits a name: `data_000001` is `data` and 1.
fn name_and_number(name: &str) -> Option<(&str, u64)> {
    let (prefix, digits) = name
        .rsplit_once('_')
        .filter(|(_, digits)| digits.len() >= LEAST_DIGITS)?;
    Some((prefix, number_after(digits, "")?))
}

/// Whether a group holds the data of a detector: by its path, as in files of DECTRIS, or by its
/// NeXus class.
fn holds_detector_data(file: &OpenFile, group: &str) -> bool {
    group == "/entry/data"
        || file.attributes(group).text("NX_class").as_deref() == Some("NXdetector")
}

/// The type of a detector's voxels, and the extents of its frames: rows and columns.
type FrameFormat<'a> = (VoxelType, &'a [u64]);

/// The format of the frames of a dataset; `None` if it holds no frames.
fn frame_format(volume: &Candidate) -> Option<FrameFormat<'_>> {
    let [_, frame @ ..] = &volume.shape[..] else {
        return None;
    };
    let axes = volume.marks.axes.as_ref();
    let may_begin_with_z = axes.is_none_or(|axes| axes.position(AxisName::Z) == Some(0));
    (frame.len() == 2 && may_begin_with_z).then_some((volume.voxel, frame))
}

/// The format of the frames of most parts; if two are equally frequent, the one of the part with
/// the smallest number.
fn typical_format<'a>(run: impl Iterator<Item = &'a Numbered<'a>>) -> Option<FrameFormat<'a>> {
    let mut counts: Vec<(FrameFormat<'_>, usize)> = Vec::new();
    for format in run.flatten().filter_map(|part| frame_format(part)) {
        match counts.iter_mut().find(|(counted, _)| *counted == format) {
            Some((_, count)) => *count += 1,
            None => counts.push((format, 1)),
        }
    }
    // Reversed, because the last of several maxima is taken.
    let (format, _) = counts.into_iter().rev().max_by_key(|(_, count)| *count)?;
    Some(format)
}

/// The parts of one detector, in the order of their numbers.
pub(super) struct Stack<'a> {
    /// The path without the number.
    pub named_by: String,
    /// The first part that exists.
    first: &'a Candidate,
    /// The number of frames of a full part.
    full_depth: u64,
    parts: Vec<Part>,
    /// The number that comes after the last part.
    next_number: u64,
    /// Whether no part is missing or unreadable.
    is_complete: bool,
    /// The first and the last number of each run of missing parts.
    gaps: Vec<(u64, u64)>,
    /// The names of numbered datasets that are not parts.
    unsuitable: Vec<String>,
}

impl<'a> Stack<'a> {
    /// The stack of the parts whose frames have the format of most parts; `None` if there are none.
    fn new(named_by: String, run: &BTreeMap<u64, Numbered<'a>>) -> Option<Self> {
        let typical = typical_format(run.values())?;
        // A link that could not be followed may lead to a part.
        let may_be_part = |numbered: &Numbered<'_>| {
            numbered
                .ok()
                .is_none_or(|volume| frame_format(volume) == Some(typical))
        };
        let possible = run.iter().filter(|(_, numbered)| may_be_part(numbered));
        let (start, _) = possible.clone().next()?;
        let depths = possible.filter_map(|(_, numbered)| Some(numbered.ok()?.shape[0]));
        let full_depth = depths.max()?;
        let max_count = MAX_NUMBERED.min(MAX_SPREAD * run.len() as u64);
        let near = *start..start.saturating_add(max_count);
        let (parts, unsuitable): (Vec<_>, Vec<_>) = run
            .iter()
            .partition(|(number, numbered)| near.contains(number) && may_be_part(numbered));
        let unsuitable_names = unsuitable
            .iter()
            .filter_map(|(_, numbered)| Some(last_of(&numbered.ok()?.path).to_owned()));
        let mut stack = Self {
            named_by,
            first: parts.iter().find_map(|(_, numbered)| numbered.ok())?,
            full_depth,
            parts: Vec::new(),
            next_number: *start,
            is_complete: true,
            gaps: Vec::new(),
            unsuitable: unsuitable_names.collect(),
        };
        for (number, numbered) in parts {
            stack.add(*number, numbered);
        }
        stack.is_possible().then_some(stack)
    }

    /// Adds a part. A link that must not be followed becomes a gap without a path. A link that
    /// cannot be followed keeps its path, so that the linked file is noticed when it appears; until
    /// then the part is a gap, or, if the file exists and cannot be opened, reading it is an error.
    fn add(&mut self, number: u64, part: &Numbered<'_>) {
        self.skip_to(number);
        if let Err(link) = part {
            self.is_complete = false;
            if link.is_refused() {
                self.skip_to(number.saturating_add(1));
                return;
            }
            if link.is_missing() {
                self.note_gap(number, number);
            }
        }
        let (path, depth) = match part {
            Ok(volume) => (&volume.path, volume.shape[0]),
            Err(link) => (&link.path, self.full_depth),
        };
        self.parts.push(Part {
            path: Some(path.clone()),
            depth,
        });
        self.next_number = number.saturating_add(1);
    }

    /// Adds a gap for the missing numbers before this one.
    fn skip_to(&mut self, number: u64) {
        let count = number.saturating_sub(self.next_number);
        if count > 0 {
            self.is_complete = false;
            self.note_gap(self.next_number, number - 1);
            self.parts.push(Part {
                path: None,
                depth: self.full_depth.saturating_mul(count),
            });
            self.next_number = number;
        }
    }

    /// Records that the parts from `first` to `last` are missing, which follow all earlier ones.
    fn note_gap(&mut self, first: u64, last: u64) {
        match self.gaps.last_mut() {
            Some((_, end)) if *end + 1 == first => *end = last,
            _ => self.gaps.push((first, last)),
        }
    }

    /// The number of its frames, missing ones included.
    fn frames(&self) -> u64 {
        let depths = self.parts.iter().map(|part| part.depth);
        depths.fold(0, u64::saturating_add)
    }

    /// The extents of a frame.
    fn frame(&self) -> &[u64] {
        &self.first.shape[1..]
    }

    /// Whether it has less than 2^63 bytes, as every dataset must, even with voxels of 8 bytes.
    fn is_possible(&self) -> bool {
        // A product that saturates is too large.
        let frame_bytes = self.frame().iter().copied().fold(8, u64::saturating_mul);
        frame_bytes.saturating_mul(self.frames()) <= i64::MAX as u64
    }

    /// Whether `volume` is a virtual dataset in the same group that has all frames of this stack.
    fn is_shown_by(&self, volume: &Candidate) -> bool {
        volume.is_virtual
            && group_of(&volume.path) == group_of(&self.named_by)
            && volume.voxel == self.first.voxel
            && volume.shape.first() == Some(&self.frames())
            && volume.shape.get(1..) == Some(self.frame())
    }

    /// The channel that shows it.
    pub fn channel(self, name: Name) -> FoundChannel {
        let voxels = self.frames() * self.frame().iter().product::<u64>();
        let notices = self.notices();
        let level = FoundLevel {
            factor: None,
            paths: Paths::Parts(self.parts),
            view: self.first.view(View::zyx().axes),
        };
        let mut channel = guess::describe(name, self.first, vec![level]);
        if self.first.voxel == VoxelType::U32 && channel.missing.is_empty() {
            channel.missing.push(Number::Whole(BAD_PIXEL));
        }
        channel.rank = Rank::Declared;
        channel.voxels = voxels;
        channel.notices.extend(notices);
        channel
    }

    fn notices(&self) -> Vec<Notice> {
        let path = &self.named_by;
        let mut notices = Vec::new();
        if !self.gaps.is_empty() {
            let gaps = self.gaps.iter().map(|(first, last)| match last - first {
                0 => first.to_string(),
                _ => format!("{first} to {last}"),
            });
            notices.push(Notice::warning(format!(
                "parts of {path} are missing ({}); in place of each there are {} frames without data",
                first_of(gaps),
                self.full_depth
            )));
        }
        if !self.unsuitable.is_empty() {
            notices.push(Notice::warning(format!(
                "{}: not part of {path}, because of another shape or type or a far larger number; shown by itself",
                first_of(self.unsuitable.iter().cloned())
            )));
        }
        notices
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use voltile_hdf5::volume::hdf5::OpenError;

    use super::*;

    fn part(name: &str, shape: &[u64]) -> Candidate {
        Candidate::new(&format!("/entry/data/{name}"), shape, VoxelType::U16)
    }

    fn missing(name: &str) -> UnfollowedLink {
        let (file, object) = (Path::new("/m.h5").into(), format!("/entry/data/{name}"));
        let reason = OpenError::Missing {
            file,
            object: object.clone(),
            name: "gone.h5".to_owned(),
        };
        UnfollowedLink {
            path: object,
            target: "gone.h5".to_owned(),
            reason,
        }
    }

    /// The name and the depth of each part of the only run.
    fn stacked(volumes: &[Candidate], missing: &[UnfollowedLink]) -> Option<Vec<(String, u64)>> {
        let volumes: Vec<&Candidate> = volumes.iter().collect();
        let ((group, prefix), run) = runs(&volumes, missing).pop_first()?;
        let stack = Stack::new(format!("{group}/{prefix}"), &run)?;
        let name = |part: &Part| part.path.as_deref().map_or("-", last_of).to_owned();
        Some(
            stack
                .parts
                .iter()
                .map(|part| (name(part), part.depth))
                .collect(),
        )
    }

    fn parts(expected: &[(&str, u64)]) -> Option<Vec<(String, u64)>> {
        Some(
            expected
                .iter()
                .map(|(name, depth)| ((*name).to_owned(), *depth))
                .collect(),
        )
    }

    const FRAMES: [u64; 3] = [10, 40, 50];

    #[test]
    fn parts_are_in_the_order_of_their_numbers_and_the_last_is_shorter() {
        let volumes = [
            part("data_1000000", &[3, 40, 50]),
            part("data_999998", &FRAMES),
            part("data_999999", &FRAMES),
        ];
        let expected = [
            ("data_999998", 10),
            ("data_999999", 10),
            ("data_1000000", 3),
        ];
        assert_eq!(stacked(&volumes, &[]), parts(&expected));
    }

    #[test]
    fn absent_numbers_and_missing_files_are_gaps_of_full_length() {
        let volumes = [
            part("data_000002", &FRAMES),
            part("data_000005", &[3, 40, 50]),
        ];
        let expected = [
            ("data_000001", 10),
            ("data_000002", 10),
            ("-", 20),
            ("data_000005", 3),
            ("data_000006", 10),
        ];
        let links = [missing("data_000001"), missing("data_000006")];
        assert_eq!(stacked(&volumes, &links), parts(&expected));
        assert_eq!(stacked(&[], &links), None);
    }

    #[test]
    fn parts_of_another_shape_or_type_or_with_absurd_numbers_are_not_joined() {
        let wide = part("data_000002", &[10, 40, 60]);
        let flat = part("data_000003", &[40, 50]);
        let far = part("data_1000000000000", &FRAMES);
        let bytes = Candidate::new("/entry/data/data_000004", &FRAMES, VoxelType::U8);
        let volumes = [
            part("data_000001", &FRAMES),
            wide,
            flat,
            bytes,
            part("data_000005", &FRAMES),
            far,
        ];
        let expected = [("data_000001", 10), ("-", 30), ("data_000005", 10)];
        assert_eq!(stacked(&volumes, &[]), parts(&expected));
        let vast = [
            part("data_000001", &[1 << 62, 1 << 10, 8]),
            part("data_000009", &[1, 1 << 10, 8]),
        ];
        assert_eq!(stacked(&vast, &[]), None);
    }

    #[test]
    fn only_names_with_a_number_of_six_digits_are_parts() {
        assert_eq!(
            name_and_number("threshold_1_data_000012"),
            Some(("threshold_1_data", 12))
        );
        for other in [
            "data_1",
            "data",
            "data_00000x",
            "000001",
            "data_99999999999999999999999",
        ] {
            assert_eq!(name_and_number(other), None, "{other}");
        }
    }
}
