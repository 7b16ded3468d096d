//! An open dataset: its type, shape and storage, and reading boxes of it through the library.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hdf5::plist::DatasetCreate;
use hdf5::plist::dataset_create::Layout;
use hdf5::types::VarLenArray;
use hdf5::{Dataset, ObjectReference1, ReferencedObject};
use parking_lot::Mutex;
use voltile_base::description::StorageDescription;
use voltile_base::flow::stalls::{self, BusyWith, Unresponsive};
use voltile_base::tile::Fingerprint;

use super::attributes::{self, Attributes};
use super::bytes::changed;
use super::external::RawFile;
use super::file::StoredFile;
use super::filters::Pipeline;
use super::grid::{Grid, Position, RANK, StoredBox, Stripes, linear, padded, product};
use super::identity::{FileIdentity, KeyOf};
use super::index::{ChunkIndex, Entry, IndexError};
use super::library::{self, ElementMeaning, FilterSpec, StoredType};
use super::library_lock;
use super::links::{Audited, MissingFiles};
use super::{OpenError, filters, pieces};
use crate::store::Location;
use crate::volume::{ReadError, Samples, VoxelType};

/// The layout of a dataset's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// In chunks of equal shape.
    Chunked {
        /// The chunk shape, slowest axis first.
        chunk: Vec<u64>,
    },
    /// In one contiguous block.
    Contiguous {
        /// The byte offset in the file; `None` if nothing was ever written.
        address: Option<u64>,
    },
    /// In the dataset's object header.
    Compact,
    /// In external raw files.
    External,
    /// In other datasets.
    Virtual,
}

/// The scale of a dimension: the coordinates of the positions along it (HDF5 Dimension Scales).
#[derive(Debug)]
pub struct Scale {
    /// Possible names: its NAME attribute, and the name of its dataset.
    pub names: Vec<String>,
    /// The coordinates; may be empty.
    pub values: Vec<f64>,
    /// Its attributes: netCDF describes an axis there.
    pub attributes: Attributes,
}

/// The maximum number of ids in a table of ids that is read.
pub const MAX_IDS: usize = 1 << 27;
/// The maximum number of rows of a table of bytes that is read: texts in JSON are shorter.
const MAX_ROWS: u64 = 1 << 22;
/// The number of bytes of an unfiltered chunk that are compared to see whether it has changed.
const COMPARED_BYTES: u32 = 1 << 16;
/// The maximum number of missing parts listed for a box; voxels in further ones are drawn as if
/// they were not missing.
const MAX_GAPS: usize = 1 << 16;
/// The NAME attribute of a netCDF dimension without coordinates begins with this.
const NO_COORDINATES: &str = "This is a netCDF dimension but not a netCDF variable";

/// An open dataset of 2 to 5 axes whose elements are numbers.
#[derive(Debug)]
pub struct StoredDataset {
    /// The file that contains it, after all links.
    pub file: Arc<StoredFile>,
    /// The path by which it was opened.
    pub path: String,
    /// The extents, slowest axis first. If its elements are arrays or colours, their extents come
    /// last; the two parts of complex numbers do not count as an axis.
    pub shape: Vec<u64>,
    /// The element type.
    pub stored: StoredType,
    /// The layout.
    pub storage: Storage,
    /// All files that reading it opens: its own, and the files that it refers to.
    pub files: Vec<FileIdentity>,
    /// The files, and the sources within files, that do not exist.
    pub missing: MissingFiles,
    /// The parts of it whose sources do not exist; each part is the intersection of its stripes
    /// along all axes.
    gaps: Vec<[Stripes; RANK]>,
    /// The filters of its chunks, in the order in which they were applied.
    pub filters: Vec<FilterSpec>,
    /// The decoder of these filters; `None` if only the library supports all of them.
    pub(super) pipeline: Option<Pipeline>,
    /// Identifies its chunks in the cache; the same whenever this generation of its file is opened.
    pub(super) id: Fingerprint,
    /// Identifies it and its coding in all generations of a growing file; `None` if its file does
    /// not grow.
    lasting_id: Option<Fingerprint>,
    /// Whether it grows along each axis if its file grows.
    grows: [bool; RANK],
    /// Whether chunks at the edge of the dataset are unfiltered.
    pub(super) edges_are_plain: bool,
    pub(super) grid: Grid,
    /// The byte offset of contiguous data of an object in a store, which is read in pieces
    /// ([`super::pieces`]); `None` for other data.
    pub(super) pieces_at: Option<u64>,
    /// The external raw files, in order; empty for other layouts.
    pub(super) raw: Vec<RawFile>,
    index: ChunkIndex,
    /// The numbers of the chunks whose checksums are wrong.
    corrupt: Mutex<HashSet<u64>>,
    fill: OnceLock<Samples>,
    /// The fill value that it declares, as one voxel of its stored type in native byte order; zero
    /// if it declares none, `None` if it cannot be read.
    pub(super) declared_fill: Option<Vec<u8>>,
    /// The path in its file, along hard links.
    object: Arc<str>,
    /// The size of a number in the file, in bytes; an element may hold several numbers.
    pub(super) element_bytes: u64,
}

/// The extents of a dataset, and the type of its elements.
struct ElementLayout {
    /// The extents that the library knows.
    own_shape: Vec<u64>,
    /// These extents, followed by the extents of the numbers in an element.
    full_shape: Vec<u64>,
    /// [`StoredDataset::shape`].
    shape: Vec<u64>,
    stored: StoredType,
}

impl ElementLayout {
    /// Fails unless the elements are numbers along 2 to 5 axes.
    fn new(file: &Location, handle: &Dataset, path: &str) -> Result<Self, OpenError> {
        let wrong = |problem: String| OpenError::object(file, path, problem);
        let extents = handle.get_shape().map_err(|e| wrong(e.to_string()))?;
        let own_shape: Vec<u64> = extents.into_iter().map(|n| n as u64).collect();
        let stored = library::stored_type(handle).map_err(|e| wrong(e.to_string()))?;
        let mut full_shape = own_shape.clone();
        let mut is_complex = false;
        if let Ok(stored) = &stored {
            full_shape.extend(&stored.extents);
            is_complex = stored.meaning == ElementMeaning::Complex;
        }
        let shape = if is_complex {
            own_shape.clone()
        } else {
            full_shape.clone()
        };
        let has_rows = own_shape.iter().filter(|extent| **extent > 1).count() > 1;
        let may_be_pictures = match &stored {
            Ok(_) => full_shape.len() > RANK,
            Err(other) => other.may_hold_pictures || (has_rows && !other.is_text),
        };
        let not_a_volume = |what: String| OpenError::NotAVolume {
            file: file.clone(),
            object: path.to_owned(),
            what,
            elements: product(&shape),
            may_be_pictures,
        };
        if may_be_pictures && let Err(other) = &stored {
            return Err(not_a_volume(format!("the elements are {}", other.what)));
        }
        if !(2..=RANK).contains(&shape.len()) || full_shape.len() > RANK {
            let complex = if is_complex {
                "; one of complex numbers at most 4"
            } else {
                ""
            };
            let what = format!("its shape is {shape:?}; a volume has 2 to {RANK} axes{complex}");
            return Err(not_a_volume(what));
        }
        // A number takes at most 8 bytes in memory, and lengths in memory fit an `i64`.
        let bytes = full_shape
            .iter()
            .try_fold(8u64, |bytes, extent| bytes.checked_mul(*extent));
        if bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return Err(wrong(format!(
                "its shape {shape:?} is impossibly large; the file may be damaged"
            )));
        }
        let stored =
            stored.map_err(|other| not_a_volume(format!("the elements are {}", other.what)))?;
        Ok(Self {
            own_shape,
            full_shape,
            shape,
            stored,
        })
    }

    /// The grid of chunks or pieces along the axes that the library knows, and the grid that also
    /// has the axes of the numbers in an element.
    fn grids(&self, storage: &Storage, is_in_pieces: bool) -> (Grid, Grid) {
        let own_shape = &self.own_shape;
        let full_shape = &self.full_shape;
        match storage {
            Storage::Chunked { chunk } => {
                let full_chunk = [&chunk[..], &self.stored.extents].concat();
                (
                    Grid::new(own_shape, chunk),
                    Grid::new(full_shape, &full_chunk),
                )
            }
            _ if is_in_pieces => {
                let pieces = pieces::grid(full_shape, self.stored.voxel.stored_bytes() as u64);
                (pieces, pieces)
            }
            // The whole dataset counts as one chunk.
            _ => (
                Grid::new(own_shape, own_shape),
                Grid::new(full_shape, full_shape),
            ),
        }
    }
}

impl StoredDataset {
    /// The dataset that is open as `handle`; `audited` is what it refers to in other files.
    pub(super) fn new(
        file: &Arc<StoredFile>,
        handle: &Dataset,
        path: &str,
        audited: Audited,
        access: Option<Fingerprint>,
    ) -> Result<Self, OpenError> {
        let elements = ElementLayout::new(&file.location, handle, path)?;
        Self::with_elements(Arc::clone(file), handle, path, elements, audited, access)
            .map_err(|e| OpenError::object(&file.location, path, e.to_string()))
    }

    fn with_elements(
        file: Arc<StoredFile>,
        handle: &Dataset,
        path: &str,
        elements: ElementLayout,
        audited: Audited,
        access: Option<Fingerprint>,
    ) -> hdf5::Result<Self> {
        let creation = handle.dcpl()?;
        let storage = storage(handle, &creation)?;
        let filters = library::filters(&creation)?;
        let edges_are_plain = matches!(storage, Storage::Chunked { .. })
            && library::edge_chunks_are_plain(&creation)?;
        let object: Arc<str> = library::path_of(handle)?.into();
        let files_key = KeyOf::files(&audited.files, access);
        let id = Fingerprint::digest(&(file.identity(), &*object, files_key));
        let element_rank = elements.stored.extents.len();
        let gaps = audited.gaps.iter();
        let gaps = gaps.map(|gap| padded_around(gap, element_rank, Stripes::WHOLE));
        let max_extents = handle.space()?.maxdims();
        let grows = growing_axes(&elements.own_shape, &max_extents, element_rank);
        let numbers_in_element = elements.stored.extents.iter().product::<u64>().max(1);
        let element_bytes = handle.dtype()?.size() as u64 / numbers_in_element;
        file.handles.keep(&object, handle)?;
        let pieces_at = address_of_pieces(&file, &storage, &elements.stored);
        let (own_grid, grid) = elements.grids(&storage, pieces_at.is_some());
        let ElementLayout { shape, stored, .. } = elements;
        let coding = (&filters, stored.voxel, stored.big_endian, grid.chunk());
        let growth = file.identity().growth();
        let lasting_id =
            growth.map(|growth| Fingerprint::digest(&(growth, &*object, access, coding)));
        let index = ChunkIndex::new(Arc::clone(&file), Arc::clone(&object), own_grid);
        let declared_fill = library::fill_value(&creation, stored.voxel).ok();
        Ok(Self {
            file,
            files: audited.files.into_iter().collect(),
            missing: audited.missing,
            gaps: gaps.collect(),
            path: path.to_owned(),
            shape,
            stored,
            storage,
            pipeline: own_pipeline(&filters),
            filters,
            id,
            lasting_id,
            grows,
            edges_are_plain,
            grid,
            pieces_at,
            raw: audited.raw,
            index,
            corrupt: Mutex::default(),
            fill: OnceLock::new(),
            declared_fill,
            object,
            element_bytes,
        })
    }

    /// The missing parts of a box, at most the first [`MAX_GAPS`].
    pub(super) fn gaps_in(&self, stored: &StoredBox) -> Vec<StoredBox> {
        let mut missing = Vec::new();
        for gap in &self.gaps {
            let room = MAX_GAPS - missing.len();
            if room == 0 {
                break;
            }
            let mut parts = vec![*stored];
            // Along one axis after the other, each part is cut to the runs of that axis.
            for (axis, stripes) in gap.iter().enumerate() {
                let runs = stripes.within(stored.start[axis], stored.count[axis], room);
                let mut cut = Vec::new();
                for whole in &parts {
                    for (start, count) in runs.iter().take(room - cut.len()) {
                        let mut part = *whole;
                        part.start[axis] = *start;
                        part.count[axis] = *count;
                        cut.push(part);
                    }
                }
                parts = cut;
            }
            missing.extend(parts);
        }
        missing
    }

    /// The names of the filters that are missing here: chunks that went through them cannot be
    /// read. Decodes a chunk if the list of filters alone does not tell.
    fn missing_filters(&self) -> Vec<String> {
        let Some(pipeline) = self.direct_pipeline() else {
            return self.unavailable_filters();
        };
        match self.probe_chunk(pipeline) {
            Err(ReadError::MissingFilter { filter, .. }) => vec![filter],
            Err(_) if !pipeline.is_complete() => self.unavailable_filters(),
            // Other errors are reported when voxels are read.
            Ok(()) | Err(_) => Vec::new(),
        }
    }

    /// The names of the filters that neither voltile nor libhdf5 has.
    pub(super) fn unavailable_filters(&self) -> Vec<String> {
        let filters = self.filters.iter();
        let unavailable = filters.filter(|filter| !filter.available);
        unavailable.map(filters::describe).collect()
    }

    /// Describes its storage, for people. May decode a chunk.
    pub fn describe(&self) -> StorageDescription {
        let missing_filters = self.missing_filters();
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
            decoded_in_parallel: missing_filters.is_empty() && self.is_decoded_directly(),
            reading: match missing_filters.first() {
                Some(filter) => format!("nowhere: this build cannot decode {filter}"),
                None => self.reading(),
            },
            missing_filters,
        }
    }

    /// Begins work on its files; fails if one of them is stuck.
    pub(super) fn begin_work(&self) -> Result<BusyWith, Unresponsive> {
        stalls::ensure_answer(self.files.iter().map(FileIdentity::path))?;
        Ok(stalls::working_on(&self.file.bytes.path))
    }

    /// The file and the dataset, for messages.
    pub fn place(&self) -> String {
        format!("{} in {}", self.path, self.file.location)
    }

    pub(super) fn damaged(&self, problem: &str) -> ReadError {
        ReadError::damaged(self.place(), problem)
    }

    /// Fails unless `is_copied`: voxels are not copied between types.
    pub(super) fn ensure_types_match(&self, is_copied: bool) -> Result<(), ReadError> {
        let Self { path, file, .. } = self;
        ReadError::ensure_copied(is_copied, format_args!("{path} in {}", file.location))
    }

    /// The shape, in stored order, of the boxes that are most efficient to read: chunks, or single
    /// rows of data that is not chunked. Contiguous data in a store has rows too, not pieces:
    /// samples, and thus windows, must be the same as for the file on disk.
    pub(super) fn chunk_shape(&self) -> Position {
        match &self.storage {
            Storage::Chunked { .. } => *self.grid.chunk(),
            // The last axis that the library knows, and the axes of the numbers in an element.
            _ => padded(&self.grid.shape()[RANK - 1 - self.element_rank()..], 1),
        }
    }

    /// The number of axes of the numbers in an element.
    fn element_rank(&self) -> usize {
        self.stored.extents.len()
    }

    /// The number of axes that the library knows.
    pub fn own_rank(&self) -> usize {
        self.own_axes().len()
    }

    /// The index of the dataset's first axis in a [`Position`].
    fn first_axis(&self) -> usize {
        // The axis of the two parts of complex numbers comes last, and is not in `shape`.
        let part_axes = usize::from(self.stored.meaning == ElementMeaning::Complex);
        (RANK - part_axes).saturating_sub(self.shape.len())
    }

    /// The indexes in a [`Position`] of the axes that the library knows.
    fn own_axes(&self) -> Range<usize> {
        self.first_axis()..RANK - self.element_rank()
    }

    /// Whether it is read in chunks, or in pieces as if they were chunks.
    pub(super) fn is_in_chunks(&self) -> bool {
        matches!(self.storage, Storage::Chunked { .. }) || self.pieces_at.is_some()
    }

    /// The index entry of a chunk; `None` if it was never written.
    pub(super) fn entry(&self, at: &Position) -> Result<Option<Entry>, ReadError> {
        if let Some(begin) = self.pieces_at {
            let voxel_bytes = self.stored_bytes() as u64;
            return Ok(Some(pieces::entry(&self.grid, begin, voxel_bytes, at)));
        }
        self.index
            .entry(self.grid.number(at))
            .map_err(|error| self.index_error(error))
    }

    /// The index entry of a chunk that was written, if the index has been read.
    pub(super) fn known_entry(&self, at: &Position) -> Option<Entry> {
        self.index.known_entry(self.grid.number(at))
    }

    /// Identifies the contents of a chunk, together with the chunk's number. For a chunk of a
    /// growing file that is not written again, it is the same in all generations: it is made from
    /// the stored bytes, which are read now. If they differ from those read before, the file counts
    /// as changed from now on.
    pub(super) fn content_id(&self, at: &Position) -> Fingerprint {
        self.lasting_chunk_id(at).unwrap_or(self.id)
    }

    /// Identifies the contents of a chunk of a growing file; `None` if the chunk may be written
    /// again, or cannot be read.
    fn lasting_chunk_id(&self, at: &Position) -> Option<Fingerprint> {
        let lasting_id = self.lasting_id?;
        let entry = self.final_entry(at)?;
        if !self.is_readable(at, entry) {
            return None;
        }
        // Unfiltered chunks are in no cache, and may be long.
        let length = if self.is_unfiltered() {
            entry.length.min(COMPARED_BYTES)
        } else {
            entry.length
        };
        let digest = self.file.bytes.digest(entry.address, length)?;
        self.file.compare_landmark(entry.address, length, digest);
        Some(Fingerprint::digest(&(lasting_id, entry.mask, digest)))
    }

    /// Whether the checksum of a chunk is known to be wrong.
    pub(super) fn is_corrupt(&self, at: &Position) -> bool {
        self.corrupt.lock().contains(&self.grid.number(at))
    }

    /// Notes that the checksum of a chunk is wrong; false if that is known.
    pub(super) fn note_corrupt(&self, at: &Position) -> bool {
        self.corrupt.lock().insert(self.grid.number(at))
    }

    /// Fails if its growing file was written anew while voxels were read; the chunk `at` is the
    /// first that was read.
    pub(super) fn ensure_only_grown(&self, at: &Position) -> Result<(), ReadError> {
        if self.lasting_id.is_none() {
            return Ok(());
        }
        // Notes that the file was written anew if the chunk has changed.
        self.lasting_chunk_id(at);
        self.file.bytes.ensure_unchanged(&self.place())
    }

    /// The index entry of a chunk that is not written again, if the index has been read. The last
    /// chunks along an axis along which the dataset grows may be written again.
    fn final_entry(&self, at: &Position) -> Option<Entry> {
        let mut furthest = *self.index.furthest()?;
        // The index has no axes for the numbers in an element, which come last here: with one such
        // axis, its [0, 0, z, y, x] becomes [0, z, y, x, 0].
        furthest.rotate_left(self.element_rank());
        if (0..RANK).any(|axis| self.grows[axis] && at[axis] >= furthest[axis]) {
            return None;
        }
        self.known_entry(at)
    }

    /// Whether a chunk may be written again, as far as is known.
    pub(super) fn may_change(&self, at: &Position) -> bool {
        self.lasting_id.is_some() && self.final_entry(at).is_none()
    }

    /// Whether no voxel of a box can change while the file goes on growing; false if that is not
    /// known. Does not block.
    pub(super) fn is_final(&self, stored: &StoredBox) -> bool {
        if self.lasting_id.is_none() {
            return true;
        }
        matches!(self.storage, Storage::Chunked { .. })
            && !self.grid.chunks_of(stored).any(|at| self.may_change(&at))
    }

    /// Reads the chunk index now instead of at the first read; gives up at `until`.
    pub(super) fn rehearse_index(&self, until: Instant) {
        if matches!(self.storage, Storage::Chunked { .. }) {
            // Errors are reported when tiles are read.
            let _ = self.index.entries(Some(until));
        }
    }

    /// The index entries of all written chunks; an error if they are not read by `until`.
    pub(super) fn entries(&self, until: Option<Instant>) -> Result<&[Entry], ReadError> {
        self.index
            .entries(until)
            .map_err(|error| self.index_error(error))
    }

    /// The error if the chunk index cannot be read.
    fn index_error(&self, error: IndexError) -> ReadError {
        let problem = match error {
            IndexError::Read(error) => return error,
            IndexError::Wrong(problem) => problem,
        };
        // The library does not report that the file has changed, or that a store does not answer.
        let place = self.place();
        if let Err(changed) = self.file.bytes.ensure_unchanged(&place) {
            return changed;
        }
        let failure = self.file.bytes.failure(&place);
        failure.unwrap_or_else(|| self.damaged(&problem))
    }

    /// Reads a box in stored order into `into`, which already has the box's type and length.
    pub(super) fn read_box(&self, stored: &StoredBox, into: &mut Samples) -> Result<(), ReadError> {
        self.ensure_filters()?;
        self.read_unfiltered_box(stored, into)
    }

    /// Like [`StoredDataset::read_box`], for a box that needs no filter because it is unfiltered or
    /// was never written.
    pub(super) fn read_unfiltered_box(
        &self,
        stored: &StoredBox,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        if self.storage == Storage::External {
            return self.read_raw_files(stored, into);
        }
        let _library = library_lock::lock()?;
        self.ensure_in_file(stored)?;
        // The library does not touch voxels that were never written and have no fill value; the
        // buffer may still contain another tile's voxels.
        into.bytes_mut().fill(0);
        let axes = self.first_axis()..;
        let start = &stored.start[axes.clone()];
        let count = &stored.count[axes];
        // The library opens the raw files of virtual sources by name: they are compared before and
        // after the read.
        self.ensure_unchanged()?;
        let failures = self.file.admission.failures();
        let read = self.handle().and_then(|handle| {
            library::read_box(&handle, &self.stored, start, count, into.bytes_mut())
        });
        // Checked before the library's error, which does not say that a file has changed.
        self.ensure_unchanged()?;
        if self.file.admission.failures() != failures {
            let problem = "a file that it refers to could not be opened, or has changed".to_owned();
            return Err(ReadError::System {
                place: self.place(),
                problem,
            });
        }
        read.map_err(|e| self.unreadable(&e))
    }

    /// The error if the library cannot read a box. It does not report that a raw file of a virtual
    /// source is missing.
    fn unreadable(&self, error: &hdf5::Error) -> ReadError {
        if let Some(failure) = self.file.bytes.failure(&self.place()) {
            return failure;
        }
        match self.missing.raw.first() {
            Some(raw) => ReadError::Missing {
                place: self.place(),
                missing: format!("the raw file {}", raw.display()),
            },
            None => self.damaged(&format!("the library cannot read it: {error}")),
        }
    }

    /// Fails if one of its files has changed since it was opened. Takes a system call for each
    /// file.
    fn ensure_unchanged(&self) -> Result<(), ReadError> {
        self.file.bytes.ensure_unchanged(&self.place())?;
        // The data of virtual datasets is in other files. Growing files are not checked: appending
        // changes their modification times.
        let is_in_other_files = self.storage == Storage::Virtual && !self.file.bytes.is_growing();
        if is_in_other_files && !self.files.iter().all(FileIdentity::is_current) {
            return Err(changed(&self.place()));
        }
        Ok(())
    }

    /// Converts the bytes of stored numbers to voxels.
    pub(super) fn samples(&self, mut bytes: Vec<u8>, voxel: VoxelType) -> Samples {
        if let Some(significant) = self.stored.significant {
            significant.widen(&mut bytes, self.stored_bytes(), self.stored.big_endian);
        }
        Samples::from_stored(voxel, bytes, self.stored.big_endian)
    }

    /// The size in the file of a number, in bytes; only for types that are decoded directly.
    pub(super) fn stored_bytes(&self) -> usize {
        self.stored.voxel.stored_bytes()
    }

    /// Whether stored numbers of several bytes are big-endian.
    pub(super) fn is_big_endian(&self) -> bool {
        self.stored.big_endian && self.stored_bytes() > 1
    }

    /// Whether stored numbers have the same bytes as voxels in memory. Half floats have not: they
    /// become floats.
    pub(super) fn is_native(&self) -> bool {
        let one_byte = self.stored_bytes() == 1;
        let in_order = one_byte || self.stored.big_endian == cfg!(target_endian = "big");
        in_order && self.stored.significant.is_none() && self.stored.voxel != VoxelType::F16
    }

    /// The value of voxels that were never written; `at` is one of them. Read through the library
    /// once.
    pub(super) fn fill_value(&self, at: Position, voxel: VoxelType) -> Result<Samples, ReadError> {
        // If an element holds several numbers, each has a fill value of its own.
        if self.stored.extents.is_empty()
            && let Some(known) = self.fill.get()
        {
            return Ok(Samples::from_native(voxel, known.bytes()));
        }
        let mut fill = Samples::default();
        fill.reset(voxel, 1);
        let one_voxel = StoredBox {
            start: at,
            count: [1; RANK],
        };
        self.read_unfiltered_box(&one_voxel, &mut fill)?;
        // Another thread may have been first, with the same value.
        let _ = self.fill.set(fill.clone());
        Ok(fill)
    }

    /// Whether any element of a box is allocated in the file; if none is, all have the fill value.
    pub(super) fn is_written(&self, stored: &StoredBox) -> Result<bool, ReadError> {
        if !matches!(self.storage, Storage::Chunked { .. }) {
            return Ok(self.storage != Storage::Contiguous { address: None });
        }
        for at in self.grid.chunks_of(stored) {
            if self.entry(&at)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The attributes of the dataset.
    pub fn attributes(&self) -> Attributes {
        let handle = self.handle();
        let attributes = handle.map(|handle| Attributes::from_location((**handle).clone()));
        attributes.unwrap_or_default()
    }

    /// The DIMENSION_LABELS, one for each axis, empty if an axis has none; `None` if there are no
    /// labels.
    pub fn dimension_labels(&self) -> Option<Vec<String>> {
        let attribute = self.handle().ok()?.attr("DIMENSION_LABELS").ok()?;
        let labels = attributes::texts(&attribute)?;
        (labels.len() == self.shape.len()).then_some(labels)
    }

    /// The first scale of each axis; `None` if there are no scales.
    pub fn scales(&self) -> Option<Vec<Option<Scale>>> {
        let handle = self.handle().ok()?;
        let list = handle.attr("DIMENSION_LIST").ok()?;
        if list.size() != self.shape.len() {
            return None;
        }
        let references = list.read_raw::<VarLenArray<ObjectReference1>>().ok()?;
        let scales = references
            .iter()
            .map(|references| scale(&handle, references.first()?));
        Some(scales.collect())
    }

    /// The path of the dataset that an attribute refers to by an object reference, the first if
    /// there are several.
    pub fn referenced(&self, attribute: &str) -> Option<String> {
        let handle = self.handle().ok()?;
        let attribute = handle.attr(attribute).ok()?;
        let references = attribute.read_raw::<ObjectReference1>().ok()?;
        match handle.dereference(references.first()?) {
            Ok(ReferencedObject::Dataset(dataset)) => library::path_of(&dataset).ok(),
            _ => None,
        }
    }

    /// All its integers in storage order, as 64-bit ids (signed ones sign-extended); `None` if it
    /// has other elements, is too long, or keeps its data in other files.
    pub fn ids(&self) -> Option<Vec<u64>> {
        let handle = self.handle().ok()?;
        if !self.stored.voxel.is_integer() || handle.size() > MAX_IDS || !is_own(&handle) {
            return None;
        }
        if self.stored.voxel == VoxelType::U64 {
            return handle.read_raw::<u64>().ok();
        }
        let ids = handle.read_raw::<i64>().ok()?;
        Some(ids.into_iter().map(i64::cast_unsigned).collect())
    }

    /// The first column of a table of bytes; `None` if it is no such table, or has too many rows.
    pub fn first_column(&self) -> Option<Vec<u8>> {
        let [rows, _] = *self.shape else { return None };
        if self.stored.voxel != VoxelType::U8 || rows > MAX_ROWS {
            return None;
        }
        let column = StoredBox {
            start: padded(&[0, 0], 0),
            count: padded(&[rows, 1], 1),
        };
        let mut bytes = Samples::default();
        bytes.reset(VoxelType::U8, rows as usize);
        self.read_box(&column, &mut bytes).ok()?;
        Some(bytes.bytes().to_vec())
    }

    /// The dataset, open in the library.
    pub(super) fn handle(&self) -> hdf5::Result<Dataset> {
        self.file.handles.dataset(&self.object)
    }

    /// A chunk's position in the grid, for messages: one number for each axis that the library
    /// knows.
    pub(super) fn chunk_name(&self, at: &Position) -> String {
        format!("{:?}", &at[self.own_axes()])
    }

    fn ensure_filters(&self) -> Result<(), ReadError> {
        match self.unavailable_filters().into_iter().next() {
            Some(filter) => Err(ReadError::MissingFilter {
                place: self.place(),
                filter,
            }),
            None => Ok(()),
        }
    }

    /// Fails if the last voxel of a box of contiguous data lies beyond the end of the file.
    fn ensure_in_file(&self, stored: &StoredBox) -> Result<(), ReadError> {
        let Storage::Contiguous {
            address: Some(address),
        } = self.storage
        else {
            return Ok(());
        };
        let last = linear(self.grid.shape(), &stored.last());
        let end = last
            .saturating_add(1)
            .saturating_mul(self.element_bytes)
            .saturating_add(address);
        self.file.bytes.ensure_reaches(end, &self.place())
    }
}

/// Whether a dataset of this shape grows along each axis: along the axes whose extents are less
/// than their `maxima` (`None`: unlimited), or along the slowest one if it was created in its full
/// shape; not along the `element_rank` axes of the numbers in an element.
fn growing_axes(shape: &[u64], maxima: &[Option<usize>], element_rank: usize) -> [bool; RANK] {
    let mut axes = Vec::new();
    for (extent, maximum) in shape.iter().zip(maxima) {
        axes.push(maximum.is_none_or(|maximum| maximum as u64 > *extent));
    }
    if !axes.contains(&true)
        && let Some(slowest) = axes.first_mut()
    {
        *slowest = true;
    }
    padded_around(&axes, element_rank, false)
}

/// Voltile's decoder of these filters; `None` if it lacks one of them while the library, with its
/// plugins, has them all.
fn own_pipeline(filters: &[FilterSpec]) -> Option<Pipeline> {
    let pipeline = Pipeline::new(filters);
    let library_is_complete = filters.iter().all(|filter| filter.available);
    (pipeline.is_complete() || !library_is_complete).then_some(pipeline)
}

/// The scale that a dataset refers to.
fn scale(handle: &Dataset, reference: &ObjectReference1) -> Option<Scale> {
    let Ok(ReferencedObject::Dataset(scale)) = handle.dereference(reference) else {
        return None;
    };
    let attributes = Attributes::from_location((**scale).clone());
    let name = attributes.text("NAME").unwrap_or_default();
    let has_values = is_own(&scale) && !name.starts_with(NO_COORDINATES);
    let values = if has_values {
        attributes::numbers(&scale, attributes::MAX_VALUES).unwrap_or_default()
    } else {
        Vec::new()
    };
    let path = library::path_of(&scale).ok()?;
    let own_name = path.rsplit('/').next().unwrap_or_default();
    Some(Scale {
        names: vec![name, own_name.to_owned()],
        values,
        attributes,
    })
}

/// Whether a dataset's data is in its own file. Data in other files is not read to describe it:
/// those files have not been audited.
pub(super) fn is_own(dataset: &Dataset) -> bool {
    let storage = dataset
        .dcpl()
        .and_then(|creation| storage(dataset, &creation));
    matches!(
        storage,
        Ok(Storage::Chunked { .. } | Storage::Contiguous { .. } | Storage::Compact)
    )
}

/// Where the contiguous voxels of a dataset in a store begin, if they can be read in pieces.
fn address_of_pieces(file: &StoredFile, storage: &Storage, stored: &StoredType) -> Option<u64> {
    match storage {
        Storage::Contiguous { address } if file.is_remote() && stored.plain => *address,
        _ => None,
    }
}

fn storage(handle: &Dataset, creation: &DatasetCreate) -> hdf5::Result<Storage> {
    Ok(match creation.layout() {
        Layout::Compact => Storage::Compact,
        Layout::Virtual => Storage::Virtual,
        Layout::Chunked => {
            let chunk = creation.chunk().ok_or("its chunks have no shape")?;
            Storage::Chunked {
                chunk: chunk.into_iter().map(|n| (n as u64).max(1)).collect(),
            }
        }
        Layout::Contiguous if !library::raw_files(creation)?.is_empty() => Storage::External,
        Layout::Contiguous => Storage::Contiguous {
            address: handle.offset(),
        },
    })
}

/// One value for each axis of a [`Position`]: `own` for the axes that the library knows, `other`
/// for the axes before them and for the `element_rank` axes of the numbers in an element.
fn padded_around<T: Copy>(own: &[T], element_rank: usize, other: T) -> [T; RANK] {
    let mut axes = own.to_vec();
    axes.resize(own.len() + element_rank, other);
    padded(&axes, other)
}
