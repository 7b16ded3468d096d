//! One opened dataset: its type, shape and storage, and reading boxes of it through the library.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hdf5::plist::dataset_create::Layout;
use hdf5::types::VarLenArray;
use hdf5::{Dataset, ObjectReference1, ReferencedObject};

use super::attributes::{self, Attributes};
use super::bytes::changed;
use super::external::RawFile;
use super::file::StoredFile;
use super::filters::Pipeline;
use super::grid::{Grid, Position, RANK, StoredBox, linear, padded};
use super::identity::FileIdentity;
use super::index::{ChunkIndex, Entry};
use super::library::{self, FilterSpec, StoredType};
use super::links::Audited;
use super::{OpenError, filters};
use crate::description::StorageDescription;
use crate::tile::Fingerprint;
use crate::volume::{ReadError, Samples, VoxelType};

/// How a dataset's data lies in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// In chunks of this shape, in stored order.
    Chunked {
        /// The shape of a chunk.
        chunk: Vec<u64>,
    },
    /// In one piece, from this byte on; nowhere where nothing was ever written.
    Contiguous {
        /// The position in the file.
        address: Option<u64>,
    },
    /// Within the dataset's header.
    Compact,
    /// In raw files beside the file.
    External,
    /// In other datasets.
    Virtual,
}

/// The scale of a dimension: where the positions along it lie.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// What it may be called: the name it gives itself, and that of its dataset.
    pub names: Vec<String>,
    /// Its numbers, as far as there are any.
    pub values: Vec<f64>,
}

/// An opened dataset of 2 to 5 axes whose elements are numbers.
#[derive(Debug)]
pub struct StoredDataset {
    /// The file that holds it, at the end of all links.
    pub file: Arc<StoredFile>,
    /// The path it was asked for by.
    pub path: String,
    /// The extents, slowest first.
    pub shape: Vec<u64>,
    /// The element type.
    pub stored: StoredType,
    /// Where the data is.
    pub storage: Storage,
    /// Every file that reading it opens, this one and those that it names.
    pub files: Vec<FileIdentity>,
    /// The filters its chunks went through, in order.
    pub filters: Vec<FilterSpec>,
    /// The same, where all of them can be undone without the library.
    pub(super) pipeline: Option<Pipeline>,
    /// Tells its chunks from those of other datasets in the cache; the same whenever it is opened.
    pub(super) id: Fingerprint,
    pub(super) edges_are_plain: bool,
    pub(super) grid: Grid,
    /// The raw files that hold its voxels, in order, where they lie in such.
    pub(super) raw: Vec<RawFile>,
    index: ChunkIndex,
    fill: OnceLock<Samples>,
    handle: Dataset,
}

impl StoredDataset {
    pub(super) fn new(
        file: Arc<StoredFile>,
        handle: Dataset,
        path: &str,
        audited: Audited,
    ) -> Result<Self, OpenError> {
        let wrong = |problem: String| OpenError::object(&file, path, problem);
        let library = |e: hdf5::Error| wrong(e.to_string());
        let shape: Vec<u64> = handle.get_shape().map_err(library)?.into_iter().map(|n| n as u64).collect();
        if !(2..=5).contains(&shape.len()) {
            return Err(wrong(format!("its shape is {shape:?}; a volume has 2 to 5 axes")));
        }
        let bytes = shape.iter().try_fold(8u64, |bytes, extent| bytes.checked_mul(*extent));
        if bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return Err(wrong(format!("its shape {shape:?} is absurd; the file may be damaged")));
        }
        let stored = library::stored_type(&handle)
            .map_err(library)?
            .ok_or_else(|| wrong("its elements are no numbers of at most 64 bits".to_owned()))?;
        let storage = storage(&handle).map_err(library)?;
        let chunked = matches!(storage, Storage::Chunked { .. });
        let filters = library::filters(&handle).map_err(library)?;
        let pipeline = Pipeline::new(&filters);
        let edges_are_plain = chunked && library::edge_chunks_are_plain(&handle).map_err(library)?;
        let Audited { files, raw } = audited;
        let id = Fingerprint::of(&(file.identity(), handle.name(), &files));
        let grid = Grid::new(&shape, if let Storage::Chunked { chunk } = &storage { chunk } else { &shape });
        let index = ChunkIndex::new(Arc::clone(&file), handle.clone(), grid);
        let (path, fill) = (path.to_owned(), OnceLock::new());
        Ok(Self {
            file,
            files,
            path,
            shape,
            stored,
            storage,
            filters,
            pipeline,
            id,
            edges_are_plain,
            grid,
            raw,
            index,
            fill,
            handle,
        })
    }

    /// The names of filters that cannot be decoded here: whatever they hold answers with an error.
    pub fn missing_filters(&self) -> Vec<String> {
        if self.is_decoded_directly() {
            return Vec::new();
        }
        self.filters.iter().filter(|filter| !filter.available).map(filters::describe).collect()
    }

    /// How it is stored, for people.
    pub fn describe(&self) -> StorageDescription {
        let (layout, chunk) = match &self.storage {
            Storage::Chunked { chunk } => ("chunked", Some(chunk.clone())),
            Storage::Contiguous { .. } => ("contiguous", None),
            Storage::Compact => ("compact", None),
            Storage::External => ("external", None),
            Storage::Virtual => ("virtual", None),
        };
        StorageDescription {
            layout: layout.to_owned(),
            shape: self.shape.clone(),
            chunk,
            filters: self.filters.iter().map(filters::describe).collect(),
            missing_filters: self.missing_filters(),
            decoded_in_parallel: self.is_decoded_directly(),
            reading: self.reading(),
        }
    }

    /// The file and the dataset, for messages.
    pub fn place(&self) -> String {
        format!("{} in {}", self.path, self.file.path.display())
    }

    pub(super) fn damaged(&self, problem: &str) -> ReadError {
        ReadError::Damaged { place: self.place(), problem: problem.to_owned() }
    }

    /// The box it is best read in, in stored order: a chunk, or a line of contiguous data.
    pub(super) fn chunk_shape(&self) -> Position {
        match &self.storage {
            Storage::Chunked { .. } => *self.grid.chunk(),
            _ => padded(self.shape.last().map_or(&[], std::slice::from_ref), 1),
        }
    }

    /// Where a chunk is stored; `None` where it was never written.
    pub(super) fn entry(&self, at: &Position) -> Result<Option<Entry>, ReadError> {
        self.index.entry(self.grid.number(at)).map_err(|problem| self.without_index(&problem))
    }

    /// Takes the list of all its chunks now, which the first read would do otherwise, but gives up at `until`.
    pub(super) fn rehearse_index(&self, until: Instant) {
        if matches!(self.storage, Storage::Chunked { .. }) {
            // A list that cannot be read is an error of every tile, and told there.
            let _ = self.index.entries_by(Some(until));
        }
    }

    /// Where all its chunks are stored.
    pub(super) fn entries(&self) -> Result<&[Entry], ReadError> {
        self.index.entries().map_err(|problem| self.without_index(&problem))
    }

    /// Why the index of chunks cannot be had: the library does not say whether the file has changed.
    fn without_index(&self, problem: &str) -> ReadError {
        self.file.bytes.ensure_unchanged(&self.place()).err().unwrap_or_else(|| self.damaged(problem))
    }

    /// Reads a box densely in stored order; the samples must have been made ready for it.
    pub(super) fn read_box(&self, stored: &StoredBox, into: &mut Samples) -> Result<(), ReadError> {
        self.ensure_filters()?;
        self.read_unfiltered_box(stored, into)
    }

    /// The same for a box of which nothing went through a filter, or nothing is stored.
    pub(super) fn read_unfiltered_box(
        &self,
        stored: &StoredBox,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        if self.storage == Storage::External {
            return self.read_raw_files(stored, into);
        }
        self.ensure_in_file(stored)?;
        // What was never written and has no fill value the library leaves as it was: another tile's voxels.
        into.bytes_mut().fill(0);
        let own = RANK - self.shape.len().min(RANK)..;
        let (start, count) = (&stored.start[own.clone()], &stored.count[own]);
        // Raw files below a virtual dataset are opened by the library, by name: compared before and after.
        self.ensure_unchanged()?;
        let failures = self.file.admission.failures();
        let read = library::read_box(&self.handle, self.stored.voxel, start, count, into.bytes_mut());
        // The library fails where a file has changed, and does not say so.
        self.ensure_unchanged()?;
        if self.file.admission.failures() != failures {
            let problem = "a file that it names could not be opened, or has changed".to_owned();
            return Err(ReadError::System { place: self.place(), problem });
        }
        read.map_err(|e| self.damaged(&format!("the library cannot read it: {e}")))
    }

    /// Fails where one of the files that it lies in has changed since it was opened. Asks the file system for each.
    fn ensure_unchanged(&self) -> Result<(), ReadError> {
        self.file.bytes.ensure_unchanged(&self.place())?;
        // Virtual datasets lie in others; whoever may be appending to them replaces none of them.
        let others = if self.storage == Storage::Virtual && !self.file.bytes.is_growing() {
            self.files.as_slice()
        } else {
            &[]
        };
        if others.iter().all(FileIdentity::is_current) { Ok(()) } else { Err(changed(&self.place())) }
    }

    /// Elements as they are stored, as voxels.
    pub(super) fn samples(&self, mut bytes: Vec<u8>, voxel: VoxelType) -> Samples {
        if let Some(significant) = self.stored.significant {
            significant.widen(&mut bytes, self.stored_bytes(), self.stored.big_endian);
        }
        Samples::from_stored(voxel, bytes, self.stored.big_endian)
    }

    /// The size of an element in the file, of the plain types that are decoded directly.
    pub(super) fn stored_bytes(&self) -> usize {
        self.stored.voxel.stored_bytes()
    }

    /// Whether the bytes of an element are those of a voxel in memory.
    pub(super) fn is_native(&self) -> bool {
        let one_byte = self.stored_bytes() == 1;
        let in_order = one_byte || self.stored.big_endian == cfg!(target_endian = "big");
        in_order && self.stored.significant.is_none() && self.stored.voxel != VoxelType::F16
    }

    /// The value that stands for voxels never written, of which `at` is one; asked of the library once.
    pub(super) fn fill_value(&self, at: Position, voxel: VoxelType) -> Result<Samples, ReadError> {
        let one = |voxel| {
            let mut samples = Samples::default();
            samples.reset(voxel, 1);
            samples
        };
        let mut fill = one(voxel);
        if let Some(known) = self.fill.get() {
            fill.bytes_mut().copy_from_slice(known.bytes());
            return Ok(fill);
        }
        self.read_unfiltered_box(&StoredBox { start: at, count: [1; RANK] }, &mut fill)?;
        // Another thread may have been first: it asked the same.
        let _ = self.fill.set(fill.clone());
        Ok(fill)
    }

    /// Its attributes.
    pub fn attributes(&self) -> Attributes {
        Attributes::at((**self.handle).clone())
    }

    /// The labels of its dimensions, empty where one has none; `None` where there are no labels.
    pub fn dimension_labels(&self) -> Option<Vec<String>> {
        let labels = attributes::texts(&*self.handle.attr("DIMENSION_LABELS").ok()?)?;
        (labels.len() == self.shape.len()).then_some(labels)
    }

    /// The first scale of each of its dimensions; `None` where there are no scales.
    pub fn scales(&self) -> Option<Vec<Option<Scale>>> {
        let list = self.handle.attr("DIMENSION_LIST").ok()?;
        if list.size() != self.shape.len() {
            return None;
        }
        let references = list.read_raw::<VarLenArray<ObjectReference1>>().ok()?;
        let scale = |references: &VarLenArray<ObjectReference1>| self.scale(references.first()?);
        Some(references.iter().map(scale).collect())
    }

    fn scale(&self, reference: &ObjectReference1) -> Option<Scale> {
        let Ok(ReferencedObject::Dataset(scale)) = self.handle.dereference(reference) else { return None };
        let given = scale.attr("NAME").ok().and_then(|name| attributes::texts(&name));
        let path = scale.name();
        // What other files hold is not read: nobody has asked whether they may be.
        let own = matches!(
            storage(&scale),
            Ok(Storage::Chunked { .. } | Storage::Contiguous { .. } | Storage::Compact)
        );
        let values = own.then(|| attributes::numbers(&scale)).flatten().unwrap_or_default();
        Some(Scale { names: vec![given.unwrap_or_default().concat(), last(&path).to_owned()], values })
    }

    pub(super) fn handle(&self) -> &Dataset {
        &self.handle
    }

    /// Whether the library can undo all its filters.
    pub(super) fn suits_library(&self) -> bool {
        self.filters.iter().all(|filter| filter.available)
    }

    /// Its place in the grid, for messages: as many numbers as the dataset has axes.
    pub(super) fn chunk_name(&self, at: &Position) -> String {
        format!("{:?}", &at[RANK - self.shape.len().min(RANK)..])
    }

    fn ensure_filters(&self) -> Result<(), ReadError> {
        match self.filters.iter().find(|filter| !filter.available) {
            Some(filter) => {
                Err(ReadError::MissingFilter { place: self.place(), filter: filters::describe(filter) })
            }
            None => Ok(()),
        }
    }

    /// Contiguous data must reach as far into the file as the last voxel wanted.
    fn ensure_in_file(&self, stored: &StoredBox) -> Result<(), ReadError> {
        let Storage::Contiguous { address: Some(address) } = self.storage else { return Ok(()) };
        let last = linear(self.grid.shape(), &stored.last());
        let element = self.handle.dtype().map_or(1, |dtype| dtype.size()) as u64;
        let end = last.saturating_add(1).saturating_mul(element).saturating_add(address);
        self.file.bytes.ensure_reaches(end, &self.place())
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn storage(handle: &Dataset) -> hdf5::Result<Storage> {
    Ok(match handle.layout() {
        Layout::Compact => Storage::Compact,
        Layout::Virtual => Storage::Virtual,
        Layout::Chunked => {
            let chunk = handle.chunk().ok_or("its chunks have no shape")?;
            Storage::Chunked { chunk: chunk.into_iter().map(|n| (n as u64).max(1)).collect() }
        }
        Layout::Contiguous if !library::raw_files(handle)?.is_empty() => Storage::External,
        Layout::Contiguous => Storage::Contiguous { address: handle.offset() },
    })
}
