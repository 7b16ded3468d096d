//! Detectors: stacks of frames in numbered parts, mostly in linked files.
//!
//! The master file of a detector links to its data files: `/entry/data/data_000001`, `data_000002`,
//! … (DECTRIS, "EIGER HDF5 File Format (NeXus)"; the same names occur in other NeXus files). The
//! parts follow each other along their first axis; the last one may be shorter. A part that is
//! missing is a gap as long as a full part: `data_000001` and `data_000003` of 100 frames each are
//! a stack of 300. The other datasets of the master, such as the flat field and the pixel mask, are
//! further channels; the mask has a label for each kind of bad pixel. A virtual dataset over the same frames is left out, or shown instead if parts are missing.
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
    FoundChannel, FoundLevel, Layout, MAX_NUMBERED, Part, Paths, Rank, group_of, guess, last_of,
    number_after,
};

/// The least number of digits in the name of a part.
const LEAST_DIGITS: usize = 6;
/// Maximum length of a stack in parts, missing ones included, for each part that exists.
const MAX_SPREAD: u64 = 16;
/// DECTRIS: the value of bad pixels in 32-bit data.
const BAD_PIXEL: i128 = u32::MAX as i128;

pub(super) struct Detector;

impl Layout for Detector {
    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        if about.is_integer() && about.last().starts_with("pixel_mask") {
            return Some(Marks::labels("it is the mask of a detector's pixels"));
        }
        let is_counts =
            about.group() == "/entry/data" && about.dataset.stored.voxel == VoxelType::U32;
        is_counts.then(|| Marks {
            missing: vec![Number::Whole(BAD_PIXEL)],
            ..Marks::default()
        })
    }

    fn recognise(&self, _name: &str, contents: &Contents<'_>) -> Option<String> {
        let volumes: Vec<&Candidate> = contents.volumes().ok()?.iter().collect();
        let DetectorStacks { stacks, .. } = stacks(contents, &volumes);
        let stack = stacks.first()?;
        Some(format!(
            "{} is in numbered parts, the first of which is {}",
            stack.named_by, stack.first.path
        ))
    }
}

/// The stacks among the volumes of a file.
#[derive(Default)]
pub(super) struct DetectorStacks<'a> {
    pub stacks: Vec<Stack<'a>>,
    /// The paths of the volumes that are not channels of their own: parts, and virtual datasets
    /// over all parts of a stack.
    pub taken: HashSet<&'a str>,
}

/// The parts of one detector, in the order of their numbers.
pub(super) struct Stack<'a> {
    /// The first part that exists.
    first: &'a Candidate,
    parts: Vec<Part>,
    /// Whether none of them is missing or unreadable.
    is_complete: bool,
    /// The path without the number.
    pub named_by: String,
    notices: Vec<Notice>,
}

impl Stack<'_> {
    fn voxels(&self) -> u64 {
        let frame = self.first.shape.iter().skip(1).product::<u64>();
        self.parts.iter().map(|part| part.depth).sum::<u64>() * frame
    }

    /// The channel that shows it.
    pub fn channel(self, name: Name) -> FoundChannel {
        let voxels = self.voxels();
        let paths = Paths::Parts(self.parts);
        let view = self.first.view(View::zyx().axes);
        let level = FoundLevel {
            factor: None,
            paths,
            view,
        };
        let mut channel = guess::described(name, self.first, vec![level]);
        if self.first.voxel == VoxelType::U32 && channel.missing.is_empty() {
            channel.missing.push(Number::Whole(BAD_PIXEL));
        }
        channel.rank = Rank::Declared;
        channel.voxels = voxels;
        channel.notices.extend(self.notices);
        channel
    }
}

/// Joins the numbered parts of detectors.
pub(super) fn stacks<'a>(
    contents: &'a Contents<'_>,
    volumes: &[&'a Candidate],
) -> DetectorStacks<'a> {
    let mut found = DetectorStacks::default();
    for ((group, prefix), run) in runs(volumes, contents.unfollowed()) {
        let Some((stack, own)) = stack(&format!("{group}/{prefix}"), &run) else {
            continue;
        };
        if !holds_detector_data(contents.file, group) {
            continue;
        }
        found.taken.extend(own);
        if let Some(whole) = volumes.iter().find(|volume| shows_all_of(&stack, volume)) {
            if !stack.is_complete {
                // The virtual dataset is shown instead of the stack.
                continue;
            }
            // The stack is shown instead of the virtual dataset: parts are decoded in parallel, and
            // without libhdf5, which may lack their filter.
            found.taken.insert(&whole.path);
        }
        found.stacks.push(stack);
    }
    found
}

/// A numbered dataset, or a link to one that could not be followed.
#[derive(Clone, Copy)]
enum Numbered<'a> {
    Dataset(&'a Candidate),
    Missing(&'a UnfollowedLink),
}

/// Numbered datasets and links, by their group and the name before the number.
type NumberedRuns<'a> = BTreeMap<(&'a str, &'a str), BTreeMap<u64, Numbered<'a>>>;

fn runs<'a>(volumes: &[&'a Candidate], missing: &'a [UnfollowedLink]) -> NumberedRuns<'a> {
    let mut runs = NumberedRuns::new();
    let datasets = volumes
        .iter()
        .map(|volume| (volume.path.as_str(), Numbered::Dataset(volume)));
    let links = missing
        .iter()
        .map(|link| (link.path.as_str(), Numbered::Missing(link)));
    // Where several names have the same number, the first dataset has it.
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
    if group == "/entry/data" {
        return true;
    }
    let class = file
        .attributes(group)
        .and_then(|group| group.text("NX_class"));
    class.is_some_and(|class| class == "NXdetector")
}

/// The stack of the parts whose frames have the format of most parts, and the paths of these parts;
/// `None` if there are none.
fn stack<'a>(path: &str, run: &BTreeMap<u64, Numbered<'a>>) -> Option<(Stack<'a>, Vec<&'a str>)> {
    let typical = typical_format(run.values())?;
    let mut full = 0;
    let mut start = None;
    for (number, numbered) in run {
        match numbered {
            Numbered::Dataset(volume) if frame_format(volume) == Some(typical) => {
                full = full.max(volume.shape[0]);
            }
            Numbered::Dataset(_) => continue,
            Numbered::Missing(_) => {}
        }
        start.get_or_insert(*number);
    }
    let start = start?;
    // A dataset with a far larger number than the rest is not a part.
    let furthest = MAX_NUMBERED.min(MAX_SPREAD * run.len() as u64);
    let mut builder = StackBuilder::new(full, start);
    let mut own = Vec::new();
    let mut others = Vec::new();
    for (number, numbered) in run {
        let is_near = number
            .checked_sub(start)
            .is_some_and(|distance| distance < furthest);
        match numbered {
            Numbered::Missing(link) if is_near => builder.add_missing(*number, link),
            Numbered::Missing(_) => {}
            Numbered::Dataset(volume) if is_near && frame_format(volume) == Some(typical) => {
                builder.add(*number, volume);
                own.push(volume.path.as_str());
            }
            Numbered::Dataset(volume) => others.push(last_of(&volume.path).to_owned()),
        }
    }
    let notices = builder.notices(path, others);
    let stack = Stack {
        first: builder.first?,
        parts: builder.parts,
        is_complete: builder.is_complete,
        named_by: path.to_owned(),
        notices,
    };
    is_possible(&stack).then_some((stack, own))
}

/// The type and the size of a detector's frames.
#[derive(Clone, Copy, PartialEq)]
struct FrameFormat {
    voxel: VoxelType,
    rows: u64,
    columns: u64,
}

/// The format of the frames of a dataset; `None` if it holds no frames.
fn frame_format(volume: &Candidate) -> Option<FrameFormat> {
    let [_, rows, columns] = *volume.shape else {
        return None;
    };
    let axes = volume.marks.axes.as_ref();
    let may_begin_with_z = axes.is_none_or(|axes| axes.position(AxisName::Z) == Some(0));
    may_begin_with_z.then_some(FrameFormat {
        voxel: volume.voxel,
        rows,
        columns,
    })
}

/// The format of the frames of most parts; if two are equally frequent, the one of the part with
/// the smallest number.
fn typical_format<'a>(run: impl Iterator<Item = &'a Numbered<'a>>) -> Option<FrameFormat> {
    let mut counts: Vec<(FrameFormat, usize)> = Vec::new();
    for numbered in run {
        let Numbered::Dataset(volume) = numbered else {
            continue;
        };
        let Some(found) = frame_format(volume) else {
            continue;
        };
        match counts.iter_mut().find(|(format, _)| *format == found) {
            Some((_, count)) => *count += 1,
            None => counts.push((found, 1)),
        }
    }
    // Reversed, because the last of several maxima is taken.
    let (format, _) = counts.into_iter().rev().max_by_key(|(_, count)| *count)?;
    Some(format)
}

/// Whether a stack has less than 2^63 bytes, as every dataset must.
fn is_possible(stack: &Stack<'_>) -> bool {
    let frame = stack.first.shape.iter().skip(1);
    let frames = stack.parts.iter();
    // Saturating: no longer possible then.
    let frame_bytes = frame.fold(8u64, |bytes, extent| bytes.saturating_mul(*extent));
    let frames = frames.fold(0u64, |frames, part| frames.saturating_add(part.depth));
    frame_bytes.saturating_mul(frames) <= i64::MAX as u64
}

/// Whether a virtual dataset in the same group has all the frames of a stack.
fn shows_all_of(stack: &Stack<'_>, volume: &Candidate) -> bool {
    let frames: u64 = stack.parts.iter().map(|part| part.depth).sum();
    volume.is_virtual
        && group_of(&volume.path) == group_of(&stack.named_by)
        && volume.voxel == stack.first.voxel
        && volume.shape.first() == Some(&frames)
        && volume.shape.get(1..) == stack.first.shape.get(1..)
}

/// A stack while its parts are joined, in the order of their numbers.
struct StackBuilder<'a> {
    /// The number of frames of a full part.
    full: u64,
    /// The number that comes next.
    next: u64,
    parts: Vec<Part>,
    first: Option<&'a Candidate>,
    is_complete: bool,
    /// The first and the last number of each run of missing parts.
    gaps: Vec<(u64, u64)>,
}

impl<'a> StackBuilder<'a> {
    fn new(full: u64, next: u64) -> Self {
        Self {
            full,
            next,
            parts: Vec::new(),
            first: None,
            is_complete: true,
            gaps: Vec::new(),
        }
    }

    fn add(&mut self, number: u64, volume: &'a Candidate) {
        self.skip_to(number);
        let depth = volume.shape.first().copied().unwrap_or(1);
        self.parts.push(Part {
            path: Some(volume.path.clone()),
            depth,
        });
        self.first.get_or_insert(volume);
        self.next = number.saturating_add(1);
    }

    /// Adds a part whose link was not followed. If the link must not be followed, the part is a gap
    /// without a path. Otherwise its path is kept, so that the file is noticed when it appears;
    /// until then the part is a gap, or, if the file exists and cannot be opened, reading it is an
    /// error.
    fn add_missing(&mut self, number: u64, link: &UnfollowedLink) {
        self.is_complete = false;
        self.skip_to(number);
        if link.is_refused() {
            return self.skip_to(number.saturating_add(1));
        }
        if link.is_missing() {
            self.note_gap(number, number);
        }
        self.parts.push(Part {
            path: Some(link.path.clone()),
            depth: self.full,
        });
        self.next = number.saturating_add(1);
    }

    /// Fills the numbers before this one with a gap.
    fn skip_to(&mut self, number: u64) {
        let count = number.saturating_sub(self.next);
        if count > 0 {
            self.is_complete = false;
            self.note_gap(self.next, number - 1);
            self.parts.push(Part {
                path: None,
                depth: self.full.saturating_mul(count),
            });
            self.next = number;
        }
    }

    /// Records that parts are missing, in ascending order.
    fn note_gap(&mut self, first: u64, last: u64) {
        match self.gaps.last_mut() {
            Some((_, end)) if *end + 1 == first => *end = last,
            _ => self.gaps.push((first, last)),
        }
    }

    /// The notices about the stack of this path; `others` are the names of parts that are not in
    /// it.
    fn notices(&self, path: &str, others: Vec<String>) -> Vec<Notice> {
        let mut notices = Vec::new();
        if !self.gaps.is_empty() {
            let gaps = self.gaps.iter().map(|(first, last)| match first == last {
                true => first.to_string(),
                false => format!("{first} to {last}"),
            });
            notices.push(Notice::warning(format!(
                "parts of {path} are missing ({}); in place of each there are {} frames without data",
                first_of(gaps),
                self.full
            )));
        }
        if !others.is_empty() {
            notices.push(Notice::warning(format!(
                "{}: not part of {path}, because of another shape or type or a far larger number; shown by itself",
                first_of(others)
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
        Candidate::unmarked(&format!("/entry/data/{name}"), shape, VoxelType::U16)
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
        let (stack, own) = stack(&format!("{group}/{prefix}"), &run)?;
        assert!(own.len() <= volumes.len());
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
        let bytes = Candidate::unmarked("/entry/data/data_000004", &FRAMES, VoxelType::U8);
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
