//! What a layout is, and the contents of a file, read once for all layouts.
//!
//! The walk over all datasets is deferred until a layout needs it: files recognised by paths alone can hold hundreds
//! of thousands. Thumbnails, histograms and tables are distinguished from volumes here.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::found::{FoundChannel, group_of, last_of};
use super::marks::Marks;
use crate::base::axes::Axes;
use crate::base::name::natural;
use crate::volume::VoxelType;
use crate::volume::hdf5::{Attributes, Listing, OpenError, OpenFile, Storage, StoredDataset, UnfollowedLink};

/// At most this many datasets are inspected.
const MAX_LOOKED_AT: usize = 10_000;
/// At most this many soft links to a dataset are followed to what describes it there.
const MAX_ALIASES: usize = 16;
/// Images have more rows and columns than this; two-dimensional datasets with fewer are tables.
const MAX_COLUMNS: u64 = 16;
/// Datasets whose extents except one are at most this are lists of small items, such as matrices.
const MAX_COMPONENTS: u64 = 4;

/// A way of arranging volumes in an HDF5 file, or of describing them.
pub(super) trait Layout: Sync {
    /// The name shown to users.
    fn name(&self) -> &'static str;

    /// What a dataset's attributes and path say about it; `None` if they are not of this layout.
    fn marks(&self, _about: &About<'_>) -> Option<Marks> {
        None
    }

    /// Why the file is of this layout, if it is; by default, that a volume has its marks.
    fn recognise(&self, contents: &Contents<'_>) -> Option<String> {
        contents.marked_by(self.name())
    }

    /// Whether only datasets with its marks are channels of its files, rather than all that look like volumes.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Whether the group of a soft link to a dataset may have its marks, too.
    fn marks_links(&self) -> bool {
        false
    }

    /// The file's channels; `None` for those that are found by searching all datasets.
    fn channels(&self, _contents: &Contents<'_>) -> Result<Option<Vec<FoundChannel>>, OpenError> {
        Ok(None)
    }
}

/// All layouts, most specific first.
type Layouts = &'static [&'static dyn Layout];

/// A file, and what is known about it so far.
pub(super) struct Contents<'a> {
    pub file: &'a OpenFile,
    layouts: Layouts,
    root: OnceCell<Vec<String>>,
    search: OnceCell<Result<Search, OpenError>>,
}

/// The result of the walk over all datasets.
struct Search {
    volumes: Vec<Candidate>,
    unopened: Vec<OpenError>,
    unfollowed: Vec<UnfollowedLink>,
    aliases: Vec<(String, String)>,
}

/// A dataset as layouts see it.
pub(super) struct About<'a> {
    pub file: &'a OpenFile,
    pub path: &'a str,
    pub dataset: &'a StoredDataset,
    pub attributes: Attributes,
}

/// A dataset that may be a volume.
#[derive(Debug)]
pub(super) struct Candidate {
    pub path: String,
    pub shape: Vec<u64>,
    pub voxel: VoxelType,
    pub marks: Marks,
    /// Whether its voxels are in other datasets.
    pub is_virtual: bool,
    /// The layouts whose marks it has, and why.
    marked_by: Vec<(&'static str, String)>,
}

impl<'a> Contents<'a> {
    pub fn new(file: &'a OpenFile, layouts: Layouts) -> Self {
        Self { file, layouts, root: OnceCell::new(), search: OnceCell::new() }
    }

    /// The names in the root group, sorted.
    pub fn root(&self) -> &[String] {
        self.root.get_or_init(|| self.file.names_in("/"))
    }

    /// All datasets that look like volumes, shallow ones first, then by path; numbers in paths by value.
    pub fn volumes(&self) -> Result<&[Candidate], OpenError> {
        self.search().map(|search| search.volumes.as_slice()).map_err(OpenError::clone)
    }

    /// The links to other files that the search for volumes could not follow; none if there was no search.
    pub fn unfollowed(&self) -> &[UnfollowedLink] {
        self.search.get().and_then(|search| search.as_ref().ok()).map_or(&[], |search| &search.unfollowed)
    }

    /// Why datasets could not be opened; nothing if there was no search.
    pub fn unopened(&self) -> &[OpenError] {
        self.search.get().and_then(|search| search.as_ref().ok()).map_or(&[], |search| &search.unopened)
    }

    /// The path by which a dataset was found, to which a soft link leads; the path itself if it is none, or if there was no
    /// search.
    pub fn found_at<'p>(&'p self, path: &'p str) -> &'p str {
        let search = self.search.get().and_then(|search| search.as_ref().ok());
        let alias = search.and_then(|search| search.aliases.iter().find(|(alias, _)| alias == path));
        alias.map_or(path, |(_, target)| target)
    }

    fn search(&self) -> Result<&Search, &OpenError> {
        self.search.get_or_init(|| Search::new(self)).as_ref()
    }

    /// The dataset at a path, with its marks.
    pub fn candidate(&self, path: &str) -> Result<Candidate, OpenError> {
        let dataset = self.file.dataset(path)?;
        let about = About { file: self.file, path, dataset: &dataset, attributes: dataset.attributes() };
        let (shape, voxel) = (dataset.shape.clone(), dataset.stored.voxel);
        let is_virtual = dataset.storage == Storage::Virtual;
        let (marks, marked_by) = Default::default();
        let mut candidate = Candidate { path: path.to_owned(), shape, voxel, marks, is_virtual, marked_by };
        self.layouts.iter().for_each(|layout| candidate.add_marks(*layout, &about));
        Ok(candidate)
    }

    /// Why one of the volumes is of the layout of that name.
    pub fn marked_by(&self, layout: &str) -> Option<String> {
        self.volumes().ok()?.iter().find_map(|volume| volume.marked_by(layout)).map(str::to_owned)
    }
}

impl About<'_> {
    /// The path of the dataset's group, without the last slash.
    pub fn group(&self) -> &str {
        group_of(self.path)
    }

    /// The last component of the dataset's path.
    pub fn last(&self) -> &str {
        last_of(self.path)
    }

    pub fn rank(&self) -> usize {
        self.dataset.shape.len()
    }

    pub fn is_integer(&self) -> bool {
        self.dataset.stored.voxel.is_integer()
    }
}

impl Candidate {
    fn add_marks(&mut self, layout: &dyn Layout, about: &About<'_>) {
        let Some(mut found) = layout.marks(about) else { return };
        self.marked_by.extend(found.because.take().map(|because| (layout.name(), because)));
        let place = || format!("{}, as {} describes it", about.path, layout.name());
        found.voxel = found.voxel.map(|voxel| voxel.found_in(place));
        found.axes = found.axes.filter(|axes: &Axes| axes.rank() == about.rank());
        self.marks = std::mem::take(&mut self.marks).or(found);
    }

    /// Adds what the group of a soft link to it says: the data of NeXus is often only linked to where it is described.
    fn add_marks_of_link(&mut self, &Contents { file, layouts, .. }: &Contents<'_>, link: &str) {
        if let Ok(dataset) = file.dataset(link) {
            let about = About { file, path: link, dataset: &dataset, attributes: dataset.attributes() };
            let layouts = layouts.iter().filter(|layout| layout.marks_links());
            layouts.for_each(|layout| self.add_marks(*layout, &about));
        }
    }

    /// Why it is of the layout of that name.
    pub fn marked_by(&self, layout: &str) -> Option<&str> {
        self.marked_by.iter().find(|(name, _)| *name == layout).map(|(_, because)| because.as_str())
    }

    fn has_voxels(&self) -> bool {
        !self.marks.is_aside && self.shape.iter().all(|extent| *extent > 0)
    }

    /// Whether it has rows and columns, unlike tables and lists.
    pub fn looks_like_a_volume(&self) -> bool {
        let mut extents = self.shape.clone();
        extents.sort_unstable();
        let second = extents.len().checked_sub(2).and_then(|place| extents.get(place)).copied().unwrap_or(0);
        second > if self.shape.len() == 2 { MAX_COLUMNS } else { MAX_COMPONENTS }
    }
}

impl Search {
    fn new(contents: &Contents<'_>) -> Result<Self, OpenError> {
        let Listing { mut datasets, unfollowed, aliases } = contents.file.datasets()?;
        let mut links: HashMap<&str, Vec<&str>> = HashMap::new();
        aliases.iter().for_each(|(link, path)| links.entry(path).or_default().push(link));
        datasets.sort_by(|a, b| depth(a).cmp(&depth(b)).then_with(|| natural(a, b)));
        let (mut volumes, mut unopened) = (Vec::new(), Vec::new());
        for path in datasets.iter().filter(|path| !lies_aside(path)).take(MAX_LOOKED_AT) {
            // Datasets that are not volumes, or cannot be opened, are other programs' data.
            match contents.candidate(path) {
                Ok(mut candidate) if candidate.has_voxels() => {
                    let links = links.get(path.as_str()).into_iter().flatten().take(MAX_ALIASES);
                    links.for_each(|link| candidate.add_marks_of_link(contents, link));
                    volumes.push(candidate);
                }
                Ok(_) => {}
                Err(reason) => {
                    tracing::debug!("skipped: {reason}");
                    unopened.push(reason);
                }
            }
        }
        Ok(Self { volumes, unopened, unfollowed, aliases })
    }
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// Whether a path leads to data that programs store next to volumes.
fn lies_aside(path: &str) -> bool {
    path.split('/').any(|part| {
        let part = part.to_ascii_lowercase();
        part.starts_with("histogram")
            || matches!(
                part.as_str(),
                "thumbnail" | "thumbnails" | "__data_types__" | "#refs#" | "#subsystem#"
            )
    })
}

#[cfg(test)]
impl Candidate {
    /// A dataset without marks.
    pub fn unmarked(path: &str, shape: &[u64], voxel: VoxelType) -> Self {
        let (path, shape) = (path.to_owned(), shape.to_vec());
        Self { path, shape, voxel, marks: Marks::default(), is_virtual: false, marked_by: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(shape: &[u64]) -> Candidate {
        Candidate::unmarked("/a", shape, VoxelType::U8)
    }

    #[test]
    fn tables_and_lists_are_distinguished_from_volumes() {
        for volume in [&[100, 200][..], &[1, 100, 200], &[2, 9, 100, 200], &[5, 5, 5], &[100, 200, 3]] {
            assert!(candidate(volume).looks_like_a_volume(), "{volume:?}");
        }
        for other in [&[21_317, 2][..], &[2, 21_317], &[400, 12], &[1000, 3, 3], &[1, 1, 500]] {
            assert!(!candidate(other).looks_like_a_volume(), "{other:?}");
        }
    }

    #[test]
    fn thumbnails_and_histograms_are_excluded_by_name() {
        for aside in ["/Thumbnail/Data", "/a/Histogram1024", "/#refs#/b"] {
            assert!(lies_aside(aside), "{aside}");
        }
        assert!(!lies_aside("/a/raw"));
    }
}
