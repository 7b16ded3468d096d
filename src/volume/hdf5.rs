//! Volumes in HDF5 files: the only place that names the `hdf5` crate.
//!
//! The library opens files, follows hard links, tells types and layouts, and lists where chunks lie. Chunks are then
//! read and decoded by our own threads, outside the library's one lock, where their filters are ones we decode;
//! everything else is read through the library, slower but right. Decoded chunks are kept in a cache that all volumes
//! share. Contiguous, compact, virtual and external data is always read through the library.
//!
//! The library hands out zeros behind a file's end: whatever is read through it is checked against the length first.

mod attributes;
mod chunks;
mod dataset;
mod file;
mod filters;
mod library;
mod links;
mod listing;
mod significant;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use attributes::Attributes;
pub use chunks::ChunkStore;
pub use dataset::{Scale, Storage, StorageDescription, StoredDataset};
pub use file::{FileIdentity, Files, StoredFile};
pub use library::{FilterSpec, look_beside_files};
pub use links::LinkPolicy;
pub use significant::SignificantBits;

use rayon::prelude::*;

use self::chunks::Chunk;
use self::dataset::{Part, StoredBox};
use self::links::{Follower, Found, Node};
use super::scatter::{Lattice, copy_box, fill_box};
use super::{ReadError, Samples, Volume, VolumeShape, VoxelType};
use crate::axes::{Axes, AxisName};
use crate::geometry::{Axis, Region, Xyz};

/// Why a file or a dataset could not be opened. The text names files: it is for operators.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The file itself.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Something in it.
    #[error("{} in {}: {problem}", object, path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// The path within it.
        object: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is nothing of that name.
    #[error("{} in {}: there is no {name:?}", object, path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The path within it.
        object: String,
        /// The part of the path, or the file it leads to, that is not there.
        name: String,
    },
    /// The file names another one that it may not.
    #[error("{} refers to {name:?}, {why}; if you trust the file, set allow_external = true on the dataset", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The other file, as it is named.
        name: String,
        /// Why that is not allowed.
        why: &'static str,
    },
}

impl OpenError {
    fn missing(file: &StoredFile, object: &str, name: &str) -> Self {
        OpenError::Missing { path: file.path.clone(), object: object.to_owned(), name: name.to_owned() }
    }

    fn object(file: &StoredFile, object: &str, problem: String) -> Self {
        OpenError::Object { path: file.path.clone(), object: object.to_owned(), problem }
    }
}

/// What opening files takes: those that are open, the chunk cache, and what links are allowed.
#[derive(Debug, Clone)]
pub struct Opener {
    /// Every file that is open.
    pub files: Arc<Files>,
    /// Decoded chunks of all volumes.
    pub chunks: ChunkStore,
    /// Where links may lead.
    pub policy: LinkPolicy,
}

impl Opener {
    /// Opens a file.
    pub fn open(&self, path: &Path) -> Result<OpenFile, OpenError> {
        Ok(OpenFile { file: self.files.open(path)?, opener: self.clone() })
    }
}

/// A file, and all that following its paths takes.
#[derive(Debug, Clone)]
pub struct OpenFile {
    file: Arc<StoredFile>,
    opener: Opener,
}

impl OpenFile {
    /// Where the file lies.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// The dataset that `path` leads to.
    pub fn dataset(&self, path: &str) -> Result<StoredDataset, OpenError> {
        let (found, files) = self.follower().dataset(&self.file, path)?;
        StoredDataset::new(found.file, found.object, path, files)
    }

    /// The file that holds what `path` leads to, at the end of all links.
    pub fn file_of(&self, path: &str) -> Result<FileIdentity, OpenError> {
        self.follower().file_of(&self.file, path)
    }

    /// Whether `path` leads to a group or a dataset.
    pub fn has(&self, path: &str) -> bool {
        self.follower().file_of(&self.file, path).is_ok()
    }

    /// The paths of all datasets that hard links lead to, each once, shallow ones first.
    pub fn datasets(&self) -> Result<Vec<String>, OpenError> {
        listing::datasets(&self.file)
    }

    /// The names in the group at `path`, sorted; none where there is no group.
    pub fn names_in(&self, path: &str) -> Vec<String> {
        match self.follower().node(&self.file, path) {
            Ok(Found { object: Node::Group(group), .. }) => listing::names(&group),
            _ => Vec::new(),
        }
    }

    /// The attributes of the object at `path`, where there is one.
    pub fn attributes(&self, path: &str) -> Option<Attributes> {
        let found = self.follower().node(&self.file, path).ok()?;
        Some(Attributes::of(&found.object))
    }

    /// The text of the small dataset at `path`, where there is one.
    pub fn text(&self, path: &str) -> Option<String> {
        let (found, _) = self.follower().dataset(&self.file, path).ok()?;
        attributes::texts(&found.object).map(|texts| texts.concat())
    }

    /// The numbers of the small dataset at `path`, of any shape, where there is one.
    pub fn numbers(&self, path: &str) -> Option<Vec<f64>> {
        let (found, _) = self.follower().dataset(&self.file, path).ok()?;
        attributes::numbers(&found.object)
    }

    /// A dataset as a volume.
    pub fn volume(&self, path: &str, view: &View) -> Result<Hdf5Volume, OpenError> {
        Hdf5Volume::new(Arc::new(self.dataset(path)?), view, self.opener.chunks.clone())
    }

    fn follower(&self) -> Follower<'_> {
        Follower { files: &self.opener.files, policy: self.opener.policy }
    }
}

/// How a dataset is to be seen as a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    /// The meaning of its axes.
    pub axes: Axes,
    /// Axes that are held still, and where.
    pub fixed: Vec<(AxisName, u64)>,
    /// What the voxels are, where their stored type is another one of the same bits.
    pub means: Option<VoxelType>,
    /// The extent in which there is data, where the dataset is padded beyond it.
    pub size: Option<Xyz<u64>>,
}

/// What a stored axis is to a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Space(Axis),
    Time,
    Fixed(u64),
}

/// One dataset, seen as a volume of scalar voxels over time.
#[derive(Debug)]
pub struct Hdf5Volume {
    dataset: Arc<StoredDataset>,
    roles: Vec<Role>,
    shape: VolumeShape,
    chunks: ChunkStore,
}

impl Hdf5Volume {
    fn new(dataset: Arc<StoredDataset>, view: &View, chunks: ChunkStore) -> Result<Self, OpenError> {
        let wrong = |problem: String| OpenError::object(&dataset.file, &dataset.path, problem);
        if view.axes.rank() != dataset.shape.len() {
            let (axes, shape) = (&view.axes, &dataset.shape);
            return Err(wrong(format!("its shape {shape:?} has another rank than the axes \"{axes}\"")));
        }
        let roles: Vec<Role> = view.axes.iter().map(|axis| role(axis, &view.fixed)).collect();
        for ((axis, role), extent) in view.axes.iter().zip(&roles).zip(&dataset.shape) {
            if let Role::Fixed(index) = role
                && index >= extent
            {
                return Err(wrong(format!("the axis {axis} has {extent} positions; there is no {index}")));
            }
        }
        let shape = volume_shape(&dataset, &roles, view);
        if shape.size.volume() == 0 || shape.times == 0 {
            return Err(wrong(format!("its shape {:?} holds no voxels", dataset.shape)));
        }
        Ok(Self { dataset, roles, shape, chunks })
    }

    /// The dataset it reads.
    pub fn dataset(&self) -> &Arc<StoredDataset> {
        &self.dataset
    }

    /// The box of the dataset that a region at a time is.
    fn stored_box(&self, time: u64, region: &Region) -> StoredBox {
        let along = |role: &Role| match *role {
            Role::Space(axis) => (region.start[axis], region.size[axis]),
            Role::Time => (time, 1),
            Role::Fixed(index) => (index, 1),
        };
        let (start, count) = self.roles.iter().map(along).unzip();
        StoredBox { start, count }
    }

    /// Where a box at `start` of a dense buffer with stored-order `dims` lies: as a lattice along x, y and z.
    fn lattice(&self, dims: &[u64], start: &[u64]) -> Lattice {
        let mut lattice = Lattice { start: 0, step: Xyz::all(0) };
        let mut stride = 1;
        for ((role, extent), at) in self.roles.iter().zip(dims).zip(start).rev() {
            lattice.start += *at as usize * stride;
            if let Role::Space(axis) = role {
                lattice.step[*axis] = stride;
            }
            stride *= *extent as usize;
        }
        lattice
    }

    /// The region's box in x, y and z, from one in stored order; axes that are not stored are 1 long.
    fn spatial(&self, stored: &[u64], missing: u64) -> Xyz<u64> {
        let mut xyz = Xyz::all(missing);
        for (role, value) in self.roles.iter().zip(stored) {
            if let Role::Space(axis) = role {
                xyz[*axis] = *value;
            }
        }
        xyz
    }

    /// Reads a box chunk by chunk; side by side on all render threads where only this box is asked for.
    fn read_chunked(&self, stored: &StoredBox, region: &Region, into: &mut Samples) -> Result<(), ReadError> {
        let chunk = |at: &Vec<u64>| self.chunks.get(&self.dataset, at, stored, self.shape.voxel);
        // Few enough are held at once that they count for little beside the cache.
        let together = if self.chunks.crew().is_idle() { 2 * rayon::current_num_threads() } else { 1 };
        for group in self.dataset.chunks_of(stored).chunks(together) {
            let chunks: Vec<Arc<Chunk>> = match group {
                [only] => vec![chunk(only)?],
                several => several.par_iter().map(chunk).collect::<Result<_, _>>()?,
            };
            for (coordinates, chunk) in group.iter().zip(chunks) {
                self.place(&chunk, &self.dataset.part_of(coordinates, stored), region, into)?;
            }
        }
        Ok(())
    }

    /// Copies the part of a chunk that lies in the region to its place.
    fn place(
        &self,
        chunk: &Chunk,
        part: &Part,
        region: &Region,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        let mut from = self.lattice(&chunk.dims, &part.within);
        from.start -= chunk.first.min(from.start);
        let at = self.spatial(&part.start, 0).zip(region.start, u64::saturating_sub);
        let (target, size) = (Lattice::dense(region.size, at), self.spatial(&part.count, 1));
        let fits = if chunk.constant {
            fill_box(&chunk.samples, into, target, size)
        } else {
            copy_box(&chunk.samples, from, into, target, size)
        };
        if fits {
            Ok(())
        } else {
            Err(self.dataset.damaged("a chunk came out as another type than its dataset"))
        }
    }

    /// Reads a box through the library, which hands out zeros for chunks that lie behind the end of the file.
    fn read_through_library(
        &self,
        stored: &StoredBox,
        region: &Region,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        self.dataset.ensure_chunks_in_file(stored)?;
        if self.is_stored_in_order() {
            return self.dataset.read_box(stored, into);
        }
        let mut unordered = Samples::default();
        unordered.reset(self.shape.voxel, into.len());
        self.dataset.read_box(stored, &mut unordered)?;
        let from = self.lattice(&stored.count, &vec![0; stored.count.len()]);
        let target = Lattice::dense(region.size, Xyz::all(0));
        if copy_box(&unordered, from, into, target, region.size) {
            Ok(())
        } else {
            Err(self.dataset.damaged("its voxels came out as another type"))
        }
    }

    /// Whether z, y and x follow each other in the file as they do in memory.
    fn is_stored_in_order(&self) -> bool {
        let spatial = self.roles.iter().filter_map(|role| match role {
            Role::Space(Axis::Z) => Some(0),
            Role::Space(Axis::Y) => Some(1),
            Role::Space(Axis::X) => Some(2),
            _ => None,
        });
        spatial.is_sorted()
    }
}

impl Volume for Hdf5Volume {
    fn shape(&self) -> VolumeShape {
        self.shape
    }

    fn read(&self, time: u64, region: &Region, into: &mut Samples) -> Result<(), ReadError> {
        into.reset(self.shape.voxel, region.voxels() as usize);
        let stored = self.stored_box(time, region);
        if self.chunks.serves(&self.dataset) {
            self.read_chunked(&stored, region, into)
        } else {
            self.read_through_library(&stored, region, into)
        }
    }
}

fn role(axis: AxisName, fixed: &[(AxisName, u64)]) -> Role {
    if let Some((_, index)) = fixed.iter().find(|(name, _)| *name == axis) {
        return Role::Fixed(*index);
    }
    match axis {
        AxisName::T => Role::Time,
        // A channel axis that nobody chose from shows its first channel.
        AxisName::C => Role::Fixed(0),
        AxisName::Z => Role::Space(Axis::Z),
        AxisName::Y => Role::Space(Axis::Y),
        AxisName::X => Role::Space(Axis::X),
    }
}

fn volume_shape(dataset: &StoredDataset, roles: &[Role], view: &View) -> VolumeShape {
    let (mut size, mut grain, mut times) = (Xyz::all(1), Xyz::all(1), 1);
    for ((role, extent), natural) in roles.iter().zip(&dataset.shape).zip(dataset.grain()) {
        match *role {
            Role::Space(axis) => (size[axis], grain[axis]) = (*extent, natural),
            Role::Time => times = *extent,
            Role::Fixed(_) => {}
        }
    }
    if let Some(cut) = view.size {
        size = size.zip(cut, u64::min);
    }
    let stored = dataset.stored.voxel;
    let voxel = match (stored, view.means) {
        (VoxelType::I16, Some(VoxelType::U16)) => VoxelType::U16,
        (VoxelType::U8, Some(VoxelType::Bool)) => VoxelType::Bool,
        _ => stored,
    };
    VolumeShape { voxel, size, times, grain }
}
