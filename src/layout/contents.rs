//! The type of layouts, and the contents of a file, read once for all layouts.
//!
//! The walk over all datasets is deferred until a layout needs it: files recognised by paths alone
//! can hold hundreds of thousands. Thumbnails and other datasets that are never channels are set
//! aside here; [`super::rank`] decides how likely each other dataset is to be the data.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use voltile_base::axes::{Axes, AxisName};
use voltile_base::name::natural;
use voltile_base::notice::Notice;
use voltile_hdf5::volume::VoxelType;
use voltile_hdf5::volume::hdf5::{
    Attributes, ElementMeaning, Listing, OpenError, OpenFile, Storage, StoredDataset,
    UnfollowedLink,
};

use super::channel::{FoundChannel, Rank, group_of, last_of};
use super::marks::Marks;
use super::{LAYOUTS, NEXUS};

/// Maximum number of datasets that are inspected.
const MAX_LOOKED_AT: usize = 10_000;
/// Maximum number of soft links to one dataset whose groups are read for marks of the dataset.
const MAX_ALIASES: usize = 16;

/// A way of arranging volumes in an HDF5 file, or of describing them.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Its name as it is shown to users.
    pub name: &'static str,
    /// The marks that this layout reads from a dataset's attributes and path; `None` if there are
    /// none.
    pub marks: fn(&About<'_>) -> Option<Marks>,
    /// Says why a file is of this layout, if it is. Without this function, a file is of the layout
    /// if the layout's marks of one of its volumes give a reason (`because`).
    pub recognise: Option<fn(&Contents<'_>) -> Option<String>>,
    pub channels: ChannelSource,
}

/// Where the channels of a file come from.
#[derive(Clone, Copy)]
pub(super) enum ChannelSource {
    /// All datasets that look like volumes are channels.
    Volumes,
    /// Volumes for which the layout's marks give a reason (`because`) are channels; other volumes
    /// lie beside the data.
    MarkedVolumes,
    /// A function of the layout finds the channels.
    Own(fn(&Contents<'_>) -> Result<Vec<FoundChannel>, OpenError>),
}

/// A file, and what is known about it so far.
pub(super) struct Contents<'a> {
    pub file: &'a OpenFile,
    root: OnceCell<Vec<String>>,
    search: OnceCell<Result<Search, OpenError>>,
    notices: RefCell<Vec<Notice>>,
}

/// The result of the walk over all datasets.
pub(super) struct Search {
    /// The datasets that look like volumes: shallow ones first, then by path, with numbers in
    /// paths ordered by value. The contents of MATLAB's cells come last.
    pub volumes: Vec<Candidate>,
    /// The objects that could not be opened or listed, each with the reason.
    pub unopened: Vec<String>,
    pub unlisted: Vec<UnlistedDataset>,
    /// The links to other files that could not be followed.
    pub unfollowed: Vec<UnfollowedLink>,
    /// Each soft link to a dataset, and the path by which the dataset was found.
    aliases: Vec<(String, String)>,
}

/// A dataset that is never a channel.
#[derive(Debug)]
pub(super) struct UnlistedDataset {
    /// Whether it may hold pictures, which lists and tables do not.
    pub may_be_pictures: bool,
    /// The number of its elements.
    pub elements: u64,
    pub path: String,
    /// Why it is no channel, as in "it is a list".
    pub why: String,
}

/// A dataset and its surroundings in the file, from which layouts read their marks.
pub(super) struct About<'a> {
    pub file: &'a OpenFile,
    /// The path of the dataset, or of a soft link to it.
    pub path: &'a str,
    pub dataset: &'a StoredDataset,
    /// The dataset's own attributes.
    pub attributes: Attributes,
    /// Read once for all layouts.
    group_attributes: OnceCell<Attributes>,
}

/// A dataset that may be a volume.
#[derive(Debug)]
pub(super) struct Candidate {
    pub path: String,
    pub shape: Vec<u64>,
    pub voxel: VoxelType,
    /// The meaning that the numbers of one element have together, for example a colour.
    pub meaning: ElementMeaning,
    pub marks: Marks,
    /// Whether its voxels are in other datasets.
    pub is_virtual: bool,
    /// The layouts whose marks it has, and why.
    marked_by: Vec<(&'static str, String)>,
}

impl Layout {
    /// A layout whose marks may be on any volume.
    pub const fn of_marks(name: &'static str, marks: fn(&About<'_>) -> Option<Marks>) -> Self {
        Self {
            name,
            marks,
            recognise: None,
            channels: ChannelSource::Volumes,
        }
    }

    /// A layout that marks all data of its files: volumes without its marks lie beside the data.
    pub const fn exclusive(name: &'static str, marks: fn(&About<'_>) -> Option<Marks>) -> Self {
        Self {
            channels: ChannelSource::MarkedVolumes,
            ..Self::of_marks(name, marks)
        }
    }

    /// A layout with functions of its own that recognise a file and find its channels. It marks
    /// nothing.
    pub const fn of_paths(
        name: &'static str,
        recognise: fn(&Contents<'_>) -> Option<String>,
        channels: fn(&Contents<'_>) -> Result<Vec<FoundChannel>, OpenError>,
    ) -> Self {
        Self {
            recognise: Some(recognise),
            channels: ChannelSource::Own(channels),
            ..Self::of_marks(name, |_| None)
        }
    }

    /// Why the file is of this layout, if it is.
    pub fn recognises(&self, contents: &Contents<'_>) -> Option<String> {
        match self.recognise {
            Some(recognise) => recognise(contents),
            None => contents.marked_by(self.name),
        }
    }
}

impl<'a> Contents<'a> {
    pub fn new(file: &'a OpenFile) -> Self {
        Self {
            file,
            root: OnceCell::new(),
            search: OnceCell::new(),
            notices: RefCell::default(),
        }
    }

    /// Records a notice about the file, or about a path in it. Notices about a channel are kept
    /// with the channel.
    pub fn note(&self, notice: Notice) {
        self.notices.borrow_mut().push(notice);
    }

    /// Everything that was recorded.
    pub fn into_notices(self) -> Vec<Notice> {
        self.notices.into_inner()
    }

    /// The names in the root group, sorted.
    pub fn root(&self) -> &[String] {
        self.root.get_or_init(|| self.file.names_in("/"))
    }

    /// The result of the walk over all datasets, which begins with the first call.
    pub fn search(&self) -> Result<&Search, OpenError> {
        let search = self.search.get_or_init(|| Search::new(self));
        search.as_ref().map_err(OpenError::clone)
    }

    /// The result of the walk; `None` if it has failed, or if no layout has needed it yet.
    pub fn searched(&self) -> Option<&Search> {
        self.search.get()?.as_ref().ok()
    }

    /// The path under which the search found the dataset that the soft link at `path` leads to;
    /// `path` itself if there is no such link, or if there was no search.
    pub fn target_of<'p>(&'p self, path: &'p str) -> &'p str {
        let aliases = self.searched().map_or(&[][..], |search| &search.aliases);
        match aliases.iter().find(|(alias, _)| alias == path) {
            Some((_, target)) => target,
            None => path,
        }
    }

    /// The dataset at a path, with its marks.
    pub fn candidate(&self, path: &str) -> Result<Candidate, OpenError> {
        let dataset = self.file.dataset(path)?;
        let about = About::new(self.file, path, &dataset);
        let mut candidate = Candidate {
            meaning: dataset.stored.meaning,
            is_virtual: dataset.storage == Storage::Virtual,
            ..Candidate::new(path, &dataset.shape, dataset.stored.voxel)
        };
        if about.is_bool_of_pytables() {
            candidate.marks.reinterpret_as = Some(VoxelType::Bool);
        }
        for layout in LAYOUTS {
            candidate.add_marks(layout, &about);
        }
        candidate.note_labels(self.file);
        Ok(candidate)
    }

    /// Why one of the volumes is of the layout of this name.
    pub fn marked_by(&self, layout: &str) -> Option<String> {
        let mut volumes = self.search().ok()?.volumes.iter();
        volumes
            .find_map(|volume| volume.marked_by(layout))
            .map(str::to_owned)
    }
}

impl<'a> About<'a> {
    fn new(file: &'a OpenFile, path: &'a str, dataset: &'a StoredDataset) -> Self {
        Self {
            file,
            path,
            dataset,
            attributes: dataset.attributes(),
            group_attributes: OnceCell::new(),
        }
    }

    /// The attributes of the dataset's group; none if it cannot be opened.
    pub fn group_attributes(&self) -> &Attributes {
        self.group_attributes
            .get_or_init(|| self.file.attributes(self.group()))
    }

    /// The path of the dataset's group, without the last slash.
    pub fn group(&self) -> &str {
        group_of(self.path)
    }

    /// The last component of the dataset's path.
    pub fn last(&self) -> &str {
        last_of(self.path)
    }

    /// The path of another object in the dataset's group.
    pub fn beside(&self, name: &str) -> String {
        format!("{}/{name}", self.group())
    }

    /// The number of axes, without the axes of colours or lists in its elements.
    pub fn rank(&self) -> usize {
        self.dataset.own_rank()
    }

    pub fn is_integer(&self) -> bool {
        self.dataset.stored.voxel.is_integer()
    }

    /// Whether its last axis can hold red, green, blue and perhaps opacity as bytes.
    pub fn is_colour(&self) -> bool {
        self.dataset.stored.voxel == VoxelType::U8
            && matches!(self.dataset.shape.last(), Some(3 | 4))
    }

    /// Whether it holds booleans of PyTables, which writes them as bitfields of eight bits, and
    /// nothing else as bitfields.
    fn is_bool_of_pytables(&self) -> bool {
        let class = self.attributes.text("CLASS").unwrap_or_default();
        let stored = &self.dataset.stored;
        class.ends_with("ARRAY")
            && self.attributes.has("VERSION")
            && stored.meaning == ElementMeaning::Bits
            && stored.voxel == VoxelType::U8
    }
}

impl Candidate {
    /// A dataset of voxels without marks.
    pub fn new(path: &str, shape: &[u64], voxel: VoxelType) -> Self {
        Self {
            path: path.to_owned(),
            shape: shape.to_vec(),
            voxel,
            meaning: ElementMeaning::Voxels,
            marks: Marks::default(),
            is_virtual: false,
            marked_by: Vec::new(),
        }
    }

    /// Adds the marks of one layout; marks of layouts before it take precedence.
    fn add_marks(&mut self, layout: &Layout, about: &About<'_>) {
        let Some(mut marks) = (layout.marks)(about) else {
            return;
        };
        if let Some(because) = marks.because.take() {
            self.marked_by.push((layout.name, because));
        }
        marks.voxel = marks.voxel.map(|voxel| {
            voxel.found_in(format!("{}, as {} describes it", about.path, layout.name))
        });
        // An element may be a colour or a list of numbers, which is one more axis of the dataset.
        // Layouts do not name it: their zyx becomes zyxc.
        let full_rank = about.dataset.shape.len();
        if let Some(axes) = &marks.axes
            && axes.rank() == about.rank()
            && axes.rank() + 1 == full_rank
        {
            marks.axes = Axes::new(&format!("{axes}c")).ok();
        }
        // If an earlier layout has named the axes otherwise, its names are kept: the voxel size of
        // this layout is renamed accordingly, and its origin and directions are dropped.
        if let (Some(kept), Some(dropped)) = (&self.marks.axes, &marks.axes)
            && kept != dropped
        {
            marks.voxel = marks.voxel.and_then(|voxel| voxel.with_axes(kept, dropped));
            marks.origin = None;
            marks.directions = None;
        }
        marks.axes = marks
            .axes
            .filter(|axes| axes.rank() == full_rank && has_plane(axes));
        // Without its axes, it is not known which axis holds the spectrum.
        marks.is_spectrum &= marks.axes.is_some();
        marks.label = marks.label.filter(|label| !label.trim().is_empty());
        self.marks = std::mem::take(&mut self.marks).or(marks);
    }

    /// Adds the NeXus marks by the group of a soft link to the dataset: in NeXus, the group that
    /// describes data often holds only a link to them.
    fn add_marks_of_link(&mut self, file: &OpenFile, link: &str) {
        if let Ok(dataset) = file.dataset(link) {
            self.add_marks(&NEXUS, &About::new(file, link, &dataset));
        }
    }

    /// Why it is of the layout of this name.
    pub fn marked_by(&self, layout: &str) -> Option<&str> {
        self.marked_by
            .iter()
            .find(|(name, _)| *name == layout)
            .map(|(_, because)| because.as_str())
    }

    /// Describes a dataset that is never a channel, such as "a list"; `None` if it may be one.
    fn unlisted_as(&self) -> Option<&'static str> {
        if self.marks.unlisted_as.is_some() {
            return self.marks.unlisted_as;
        }
        if self.shape.contains(&0) {
            return Some("an array without elements");
        }
        let size = self.size();
        if size.x == 1 && size.y == 1 {
            return Some("an array whose pictures would have a single voxel");
        }
        if self.shape.iter().filter(|extent| **extent > 1).count() < 2 {
            return Some("a list");
        }
        if self.marks.rank != Some(Rank::Declared) && is_thumbnail(&self.path) {
            return Some("a thumbnail, by its name");
        }
        None
    }
}

impl Search {
    fn new(contents: &Contents<'_>) -> Result<Self, OpenError> {
        let Listing {
            mut datasets,
            unfollowed,
            left_out,
            aliases,
        } = contents.file.datasets()?;
        let mut links_to: HashMap<&str, Vec<&str>> = HashMap::new();
        for (link, path) in &aliases {
            links_to.entry(path).or_default().push(link);
        }
        datasets.retain(|path| !is_internal(path));
        // A stable sort: datasets of one depth stay in the order of their paths.
        datasets.sort_by(|a, b| natural(a, b));
        datasets.sort_by_key(|path| (is_in_a_cell(path), depth(path)));
        let count = datasets.len();
        let mut search = Self {
            volumes: Vec::new(),
            unopened: left_out,
            unlisted: Vec::new(),
            unfollowed,
            aliases: Vec::new(),
        };
        for (place, path) in datasets.iter().enumerate() {
            let first = search.volumes.first();
            let has_volumes_outside = first.is_some_and(|first| !is_in_a_cell(&first.path));
            if has_volumes_outside && is_in_a_cell(path) {
                let left = count - place;
                contents.note(Notice::info(format!(
                    "{left} datasets in its cell arrays and structures (#refs#) are not listed"
                )));
                break;
            }
            if place >= MAX_LOOKED_AT {
                contents.note(Notice::warning(format!(
                    "only the first {MAX_LOOKED_AT} of its {count} datasets are looked at, up to {}; \
                     `path` shows others",
                    datasets[place - 1]
                )));
                break;
            }
            let links = links_to.get(path.as_str()).map_or(&[][..], Vec::as_slice);
            search.add(contents, path, links);
        }
        // Not moved earlier, because `links_to` borrows them.
        search.aliases = aliases;
        Ok(search)
    }

    /// Adds a dataset; `links` are soft links that lead to it. It is no error if the dataset is not
    /// a volume or cannot be opened: files also hold data for other programs.
    fn add(&mut self, contents: &Contents<'_>, path: &str, links: &[&str]) {
        match contents.candidate(path) {
            Ok(mut candidate) => {
                for link in links.iter().take(MAX_ALIASES) {
                    candidate.add_marks_of_link(contents.file, link);
                }
                match candidate.unlisted_as() {
                    None => self.volumes.push(candidate),
                    Some(what) => self.unlisted.push(UnlistedDataset {
                        may_be_pictures: false,
                        elements: candidate.shape.iter().product(),
                        path: path.to_owned(),
                        why: format!("it is {what}"),
                    }),
                }
            }
            Err(OpenError::NotAVolume {
                elements,
                object: path,
                what: why,
                may_be_pictures,
                ..
            }) => self.unlisted.push(UnlistedDataset {
                may_be_pictures,
                elements,
                path,
                why,
            }),
            Err(reason) => {
                tracing::debug!("skipped: {reason}");
                self.unopened.push(reason.to_string());
            }
        }
    }
}

/// Whether at least two of x, y and z are among the axes, so that there are pictures to show.
fn has_plane(axes: &Axes) -> bool {
    [AxisName::X, AxisName::Y, AxisName::Z]
        .iter()
        .filter(|axis| axes.position(**axis).is_some())
        .count()
        >= 2
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// Whether a path leads to data that a library keeps for itself, for example to an index of
/// PyTables.
fn is_internal(path: &str) -> bool {
    path.split('/').any(|part| {
        matches!(part, "__DATA_TYPES__" | "#subsystem#")
            || part.starts_with("_i_")
            || part.starts_with("_p_")
    })
}

/// Whether a path lies in `#refs#`, where MATLAB keeps the contents of cell arrays. There may be
/// any number of them, and they are channels only if there is no other volume.
fn is_in_a_cell(path: &str) -> bool {
    path.starts_with("/#refs#/")
}

fn is_thumbnail(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let mut parts = path.split('/');
    parts.any(|part| matches!(part, "thumbnail" | "thumbnails"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thumbnails_and_single_pixels_are_no_channels_unless_they_are_declared() {
        let aside = |path: &str, shape: &[u64], rank: Option<Rank>| {
            let mut candidate = Candidate::new(path, shape, VoxelType::U8);
            candidate.marks.rank = rank;
            candidate.unlisted_as().is_some()
        };
        assert!(aside("/Thumbnail/Data", &[256, 256], None));
        assert!(!aside("/Thumbnail/Data", &[256, 256], Some(Rank::Declared)));
        assert!(!aside("/Histogram1/data", &[148, 750], None));
        assert!(aside("/spectrum", &[2048, 1, 1], None));
        assert!(aside("/empty", &[0, 20, 30], None));
        assert!(aside("/list", &[1, 300, 1], None));
    }
}
