//! Volumes, from which boxes of voxels are read.
//!
//! The renderer knows only the [`Volume`] trait. Where the voxels come from (an HDF5 dataset, a
//! series of datasets, memory) is decided when a catalogue is opened. A box is an `ndarray` view
//! with axes z, y, x, whatever the order in the file. In a buffer of its own it is contiguous (x
//! fastest): a box that is one voxel thick is therefore already the slice, row by row, in all three
//! planes.

mod complex;
#[cfg(test)]
mod contract_tests;
mod cost;
pub mod hdf5;
mod memory;
mod missing;
mod references;
mod repeated;
mod samples;
mod scatter;
mod series;
mod stamp;
mod values;

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ndarray::ShapeError;
use parking_lot::Mutex;
use voltile_base::flow::cache::Abandoned;
use voltile_base::flow::interest::Interest;
use voltile_base::flow::stalls::Unresponsive;
use voltile_base::flow::trace::Trace;
use voltile_base::geometry::{Region, Xyz};

pub use complex::{ComplexPart, Polar};
pub use cost::{Positions, ReadCost, Tally};
pub use hdf5::UnfinishedChunk;
pub use memory::MemoryVolume;
pub use missing::Missing;
pub use references::{StoredArray, StoredChunk, StoredPart, Tzyx};
pub use repeated::Repeated;
pub use samples::{BoxMut, Samples, Voxel, VoxelType};
pub use samples::{with_samples, with_variant};
pub use series::Series;
pub use stamp::Stamp;
pub use values::{Mapped, Scaling, Values};

use crate::store::{Gathering, Object, StoreError};

/// The type, extents and storage of a volume, known before any voxel is read.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeShape {
    /// The type of its voxels.
    pub voxel: VoxelType,
    /// Its extent in voxels.
    pub size: Xyz<u64>,
    /// The number of time points, at least 1.
    pub times: u64,
    /// Whether each time point exists; `None` if all do. A missing time point is shown like the
    /// outside of the volume.
    pub present: Option<Arc<[bool]>>,
    /// The chunk shape: reads aligned to it decode the fewest unwanted voxels.
    pub chunk: Xyz<u64>,
    /// The cost of reading part of a chunk.
    pub access: Access,
    /// Whether its bytes come from a store, so that each read is a request.
    pub is_remote: bool,
    /// The coding of its chunks if programs that know nothing of HDF5 can decode their stored
    /// bytes, or the reason why they cannot.
    pub coding: Result<ChunkCoding, String>,
    /// The value of voxels that were never written, as one voxel; `None` if it is unknown.
    pub fill: Option<Samples>,
}

impl VolumeShape {
    /// Whether this time point exists.
    pub fn has(&self, time: u64) -> bool {
        let is_present = match &self.present {
            Some(present) => present.get(time as usize) == Some(&true),
            None => true,
        };
        time < self.times && is_present
    }
}

/// The cost of reading part of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only the wanted voxels are copied.
    Direct,
    /// Chunks are decoded once and cached.
    Cached,
    /// Chunks are decoded again for every box.
    Uncached,
}

/// The coding of stored chunks whose voxels are in C order z, y, x.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkCoding {
    /// Whether they are zlib streams (HDF5's deflate filter); otherwise they are unfiltered.
    pub is_zlib: bool,
    /// The type of their voxels.
    pub voxel: VoxelType,
    /// Whether voxels of several bytes are big-endian.
    pub is_big_endian: bool,
}

/// The maximum size in bytes of a block of stored voxels that is read to be downsampled.
pub const BLOCK_BYTES: u64 = 2 << 20;

/// A box to read of a volume, and how to read it. A read depends on nothing but these fields.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// The time point.
    pub time: u64,
    /// The box, which must lie within the volume.
    pub region: Region,
    /// Every `step`-th voxel of the box is read along each axis, starting with the first.
    pub step: Xyz<u64>,
    /// How much of each chunk is decoded, and when the read ends early.
    pub policy: ReadPolicy,
}

/// How a read takes account of other reads and requests, and where it records what it did.
#[derive(Debug, Clone, Default)]
pub struct ReadPolicy {
    /// How much of each chunk is decoded.
    pub decode: Decode,
    /// When the read ends early.
    pub yields: Yields,
    /// The trace of the request that the read is for.
    pub trace: Option<Arc<Trace>>,
    /// The list to which the read adds the chunks that it decodes only in part.
    pub unfinished: Option<UnfinishedChunks>,
}

/// The maximum number of chunks listed for a read. A listed chunk takes about 200 bytes.
const MAX_UNFINISHED: usize = 1 << 14;

/// The chunks that a read has decoded in part; clones share the list.
#[derive(Debug, Clone, Default)]
pub struct UnfinishedChunks(Arc<Mutex<Vec<UnfinishedChunk>>>);

impl UnfinishedChunks {
    /// Lists a chunk, unless there are too many.
    pub fn add(&self, chunk: UnfinishedChunk) {
        let mut chunks = self.0.lock();
        // One more than the maximum is listed, by which `take` sees that there were too many.
        if chunks.len() <= MAX_UNFINISHED {
            chunks.push(chunk);
        }
    }

    /// The chunks so far, which are removed from the list; `None` if there were too many.
    pub fn take(&self) -> Option<Vec<UnfinishedChunk>> {
        let chunks = std::mem::take(&mut *self.0.lock());
        (chunks.len() <= MAX_UNFINISHED).then_some(chunks)
    }
}

/// How much of a chunk is decoded to read some of its voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decode {
    /// The shortest prefix that contains the wanted voxels; more if the chunk store expects the
    /// rest to be wanted next.
    #[default]
    AsNeeded,
    /// All of it: its other voxels will be read soon.
    Whole,
}

/// When a read ends early, before its next chunk, with [`ReadError::Abandoned`].
#[derive(Debug, Clone, Default)]
pub enum Yields {
    /// Never.
    #[default]
    Never,
    /// As soon as a request waits for a render thread: this read is a prefetch.
    ToRequests,
    /// As soon as nobody waits for the result any more.
    Unwanted(Interest),
}

impl ReadRequest {
    /// All voxels of a box, under the default policy.
    pub fn new(time: u64, region: Region) -> Self {
        Self {
            time,
            region,
            step: Xyz::all(1),
            policy: ReadPolicy::default(),
        }
    }

    /// This request for every `step`-th voxel along each axis.
    #[must_use]
    pub fn every(self, step: Xyz<u64>) -> Self {
        Self { step, ..self }
    }

    /// This request with another policy.
    #[must_use]
    pub fn with(self, policy: &ReadPolicy) -> Self {
        Self {
            policy: policy.clone(),
            ..self
        }
    }

    /// The number of voxels read along each axis.
    pub fn size(&self) -> Xyz<u64> {
        self.region.size.zip(self.step, u64::div_ceil)
    }
}

/// A box of a volume at a time point.
#[derive(Debug, Clone)]
pub struct VolumePart {
    /// The volume.
    pub volume: Arc<dyn Volume>,
    /// The time point.
    pub time: u64,
    /// The box.
    pub region: Region,
}

/// Where stored chunks lie in an object of a store.
#[derive(Debug)]
pub struct StoredRanges {
    /// The byte range of each chunk.
    pub ranges: Vec<Range<u64>>,
    object: Arc<Object>,
    /// File and dataset, for errors.
    place: String,
}

impl StoredRanges {
    /// Starts to fetch the chunks.
    fn gather(&self) -> Result<Gathering, ReadError> {
        let gathering = self.object.gather(&self.ranges);
        gathering.map_err(|error| ReadError::of_store(&self.place, error))
    }

    /// Blocks until the chunks have arrived, or nobody waits for the result any more.
    fn wait(&self, gathering: Gathering, yields: &Yields) -> Result<(), ReadError> {
        let interest = match yields {
            Yields::Unwanted(interest) => Some(interest.clone()),
            Yields::Never | Yields::ToRequests => None,
        };
        let arrived = self.object.wait(gathering, interest);
        arrived.map_err(|error| ReadError::of_store(&self.place, error))
    }
}

/// Volumes, each opened when the iterator reaches it.
pub type Members<'a> = Box<dyn Iterator<Item = Result<Arc<dyn Volume>, ReadError>> + 'a>;

/// One scalar value for each (time, z, y, x).
///
/// A volume that shows the voxels of other volumes implements [`Volume::source`], or
/// [`Volume::members`], [`Volume::parts`] and [`Volume::gaps`]. Most of the other methods have
/// defaults that ask these volumes.
pub trait Volume: Send + Sync + fmt::Debug {
    /// Type, extents and storage.
    fn shape(&self) -> &VolumeShape;

    /// Reads the requested voxels into a box of the size [`ReadRequest::size`] and of the type
    /// [`VolumeShape::voxel`].
    fn read_box(&self, request: &ReadRequest, into: BoxMut<'_>) -> Result<(), ReadError>;

    /// Reads the requested voxels into `into`, contiguously in z, y, x order.
    ///
    /// Sets the type and length of `into`, reusing its memory.
    fn read(&self, request: &ReadRequest, into: &mut Samples) -> Result<(), ReadError> {
        let size = request.size();
        into.reset(self.shape().voxel, size.volume() as usize);
        self.read_box(request, into.as_box(size)?)
    }

    /// The one volume whose voxels this volume shows; `None` if it has its own voxels, or shows the
    /// voxels of several volumes.
    fn source(&self) -> Option<&Arc<dyn Volume>> {
        None
    }

    /// The volumes whose voxels this volume shows; none if it has its own voxels.
    fn members(&self) -> Members<'_> {
        Box::new(self.source().cloned().map(Ok).into_iter())
    }

    /// The parts of its members that a box shows: by default, the same box of its source.
    fn parts(&self, time: u64, region: &Region) -> Result<Vec<VolumePart>, ReadError> {
        let parts = self.source().cloned().map(|volume| VolumePart {
            volume,
            time,
            region: *region,
        });
        Ok(parts.into_iter().collect())
    }

    /// The parts of a box that are missing: gaps in a stack, which are read as 0, and parts of a
    /// virtual dataset whose sources do not exist, which are read as the fill value. May open a
    /// member.
    fn gaps(&self, time: u64, region: &Region) -> Vec<Region> {
        self.source()
            .map_or_else(Vec::new, |source| source.gaps(time, region))
    }

    /// Whether no voxel of a box can change while a program goes on appending to its file; false
    /// if that is not known. Reads nothing.
    fn is_final(&self, time: u64, region: &Region) -> bool {
        self.parts(time, region).is_ok_and(|parts| {
            parts
                .iter()
                .all(|part| part.volume.is_final(part.time, &part.region))
        })
    }

    /// The byte ranges of the stored chunks that a box lies in. If `only_missing`, cached chunks
    /// are left out, and the list ends once it has as many bytes as are fetched at once. Empty for
    /// local files, and for data whose bytes are not located before they are read. May block while
    /// chunk indexes are read.
    fn ranges(
        &self,
        time: u64,
        region: &Region,
        only_missing: bool,
    ) -> Result<Vec<StoredRanges>, ReadError> {
        let mut all = Vec::new();
        for part in self.parts(time, region)? {
            all.extend(part.volume.ranges(part.time, &part.region, only_missing)?);
        }
        Ok(all)
    }

    /// Starts to fetch the stored bytes that a box needs and that are not cached; nothing if they
    /// lie in a local file. May block while the chunk index is read, but not for the bytes.
    fn gather(&self, time: u64, region: &Region) -> Result<Gathering, ReadError> {
        let mut all = Gathering::default();
        for stored in self.ranges(time, region, true)? {
            all.extend(stored.gather()?);
        }
        Ok(all)
    }

    /// The bytes of a stored chunk as they are in the file: the chunk at `place` in the grid of
    /// [`VolumeShape::chunk`]. `None` if it was never written, or was not written with the coding
    /// of all chunks ([`VolumeShape::coding`]), or is known to be corrupt (the error is reported
    /// when the chunk is decoded). Its checksum is not verified.
    ///
    /// A chunk that reaches beyond the end of the volume has the full size too, with arbitrary
    /// voxels beyond the end.
    fn stored_chunk(
        &self,
        _time: u64,
        _place: Xyz<u64>,
        _trace: Option<&Trace>,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(None)
    }

    /// The bytes of [`Volume::stored_chunk`], if they can be had without waiting for a disk or a
    /// lock: never blocks.
    fn cached_stored_chunk(&self, _time: u64, _place: Xyz<u64>) -> Option<Bytes> {
        None
    }

    /// Whether any voxel of a box was ever written. If none was, all have the fill value
    /// ([`VolumeShape::fill`]); if the fill value is unknown, every box counts as written.
    fn is_written(&self, time: u64, region: &Region) -> Result<bool, ReadError> {
        let fill = self.shape().fill.as_ref().map(Samples::bytes);
        if fill.is_none() {
            return Ok(true);
        }
        for part in self.parts(time, region)? {
            // Members may have different fill values.
            let own_fill = part.volume.shape().fill.as_ref().map(Samples::bytes);
            if own_fill != fill || part.volume.is_written(part.time, &part.region)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Hands the places and the coding of the stored chunks of all time points to `take`, for
    /// programs that read them without HDF5. Reads chunk indexes and no voxels. `path` is the path
    /// of the volume's first dataset, for errors.
    fn references(&self, path: &str, _take: &mut TakePart<'_>) -> Result<(), NoReferences> {
        let problem = match &self.shape().coding {
            Err(problem) => problem.as_str(),
            Ok(_) => "it is not stored",
        };
        Err(NoReferences::unmapped(path, problem))
    }

    /// Does everything that happens on a first read: reads the index and one voxel, and discards
    /// them. Starts nothing new after `until`. Called in the trial process, where a crash does no
    /// harm.
    fn rehearse(&self, until: Instant) {
        let mut members = self.members();
        while Instant::now() <= until
            && let Some(member) = members.next()
        {
            // Errors are reported when voxels are read for a tile.
            if let Ok(volume) = member {
                volume.rehearse(until);
            }
        }
    }

    /// The stored size of its first `max_datasets` datasets. Datasets that cannot be inspected are
    /// left out and counted as [`Tally::unreadable`]. Fails if none can be inspected.
    fn tally(&self, max_datasets: usize) -> Result<Tally, ReadError> {
        let mut sum = Tally::default();
        let mut first_error = None;
        for member in self.members().take(max_datasets) {
            match member.and_then(|volume| volume.tally(max_datasets)) {
                Ok(tally) => sum += tally,
                Err(error) => {
                    sum.unreadable += 1;
                    first_error.get_or_insert(error);
                }
            }
        }
        if let Some(error) = first_error {
            if sum.datasets == 0 {
                return Err(error);
            }
            tracing::warn!(
                "{} datasets are missing from the statistics of a channel; the first: {error}",
                sum.unreadable
            );
        }
        Ok(sum)
    }

    /// The cost of reading all voxels at these positions, estimated from the volume's tally; `None`
    /// if unknown.
    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        self.members().find_map(Result::ok)?.cost(wanted, tally)
    }
}

/// Takes the chunks of a volume, part by part.
pub type TakePart<'t> = dyn FnMut(StoredPart<'_>) -> Result<(), NoReferences> + 't;

/// Why the stored chunks of a volume cannot be referred to.
#[derive(Debug, thiserror::Error)]
pub enum NoReferences {
    /// The stored chunks cannot be located.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The references cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// Programs that know nothing of HDF5 cannot read the stored chunks.
    #[error(
        "the dataset {dataset} cannot be read without HDF5: {problem}; `voltile pyramid FILE --rechunk OUT.h5` writes a copy that can"
    )]
    Unmapped {
        /// The path of the dataset.
        dataset: String,
        /// Why not; "it" is the dataset.
        problem: String,
    },
}

impl NoReferences {
    /// Programs that know nothing of HDF5 cannot read the chunks of a dataset.
    pub fn unmapped(dataset: &str, problem: impl Into<String>) -> Self {
        NoReferences::Unmapped {
            dataset: dataset.to_owned(),
            problem: problem.into(),
        }
    }
}

/// The message to clients if a file has changed since it was opened.
pub const CHANGED: &str =
    "the file has changed since it was opened; it is served again once it has been reopened";

/// Why voxels could not be read. The text names files and is for the log; [`ReadError::public`] is
/// for clients.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The file ends before the wanted data.
    #[error(
        "{place}: the file ends at byte {length}, but data up to byte {needed} is needed; it was truncated or is still being copied"
    )]
    Truncated {
        /// File and dataset.
        place: String,
        /// The file's length.
        length: u64,
        /// The end of the wanted data.
        needed: u64,
    },
    /// A file has changed since it was opened.
    #[error("{place}: a file has changed since it was opened; its data cannot be trusted")]
    Changed {
        /// File and dataset.
        place: String,
    },
    /// Stored bytes are invalid.
    #[error("{place}: {problem}")]
    Damaged {
        /// File and dataset.
        place: String,
        /// The damage, in words.
        problem: String,
    },
    /// A chunk was decoded, but its checksum or length is wrong: no part of it can be trusted.
    #[error("{place}: {problem}")]
    Corrupt {
        /// File and dataset.
        place: String,
        /// The damage, in words.
        problem: String,
    },
    /// A file that holds the data does not exist.
    #[error("{place}: {missing} is missing")]
    Missing {
        /// File and dataset.
        place: String,
        /// The file, or the part of a path in it.
        missing: String,
    },
    /// The data is stored with a filter that cannot be decoded here.
    #[error("{place}: stored with the filter {filter}, which this build cannot decode")]
    MissingFilter {
        /// File and dataset.
        place: String,
        /// Name and number of the filter.
        filter: String,
    },
    /// The operating system failed to read.
    #[error("{place}: {problem}")]
    System {
        /// File and dataset.
        place: String,
        /// The system's error message.
        problem: String,
    },
    /// A buffer has another number of voxels than the box that is read.
    #[error("a box of voxels does not fit its buffer: {0}")]
    Shape(#[from] ShapeError),
    /// The store that holds the data does not answer.
    #[error("{place}: the store is unavailable: {problem}")]
    Unavailable {
        /// Object and dataset.
        place: String,
        /// The last failure, in words.
        problem: String,
        /// The time after which it is worth trying again.
        retry_after: Duration,
    },
    /// The file system does not answer.
    #[error(transparent)]
    Unresponsive(#[from] Unresponsive),
    /// The job that was reading the data was abandoned, or panicked.
    #[error(transparent)]
    Abandoned(#[from] Abandoned),
}

impl ReadError {
    /// The error for a failure of a store; `place` is the object and the dataset.
    pub fn of_store(place: &str, error: StoreError) -> Self {
        let place = place.to_owned();
        match error {
            StoreError::Changed | StoreError::Missing => ReadError::Changed { place },
            StoreError::Unavailable {
                problem,
                retry_after,
            } => ReadError::Unavailable {
                place,
                problem,
                retry_after,
            },
            // Repeating the request at once did not help. A later one may succeed, once the store,
            // a proxy before it, or the credentials have been mended.
            error @ (StoreError::Invalid(_) | StoreError::Denied(_)) => ReadError::Unavailable {
                place,
                problem: error.to_string(),
                retry_after: Duration::from_secs(1),
            },
            StoreError::Abandoned(lost) => lost.into(),
            other => ReadError::System {
                place,
                problem: other.to_string(),
            },
        }
    }

    /// Stored bytes are invalid.
    pub(crate) fn damaged(place: impl Into<String>, problem: impl Into<String>) -> Self {
        ReadError::Damaged {
            place: place.into(),
            problem: problem.into(),
        }
    }

    /// Fails if no voxels were copied, because their types differ. `place` names the volume for the
    /// error.
    fn ensure_copied(is_copied: bool, place: impl fmt::Display) -> Result<(), Self> {
        if is_copied {
            return Ok(());
        }
        Err(Self::damaged(
            place.to_string(),
            "its voxels are of another type than expected",
        ))
    }

    /// Whether a later read of the same data is expected to fail in the same way.
    pub fn is_of_the_data(&self) -> bool {
        let may_be_read_later = matches!(
            self,
            ReadError::Changed { .. }
                | ReadError::Unavailable { .. }
                | ReadError::Unresponsive(_)
                | ReadError::Abandoned(_)
        );
        !may_be_read_later
    }

    /// The message for clients, which names no files.
    pub fn public(&self) -> String {
        match self {
            ReadError::Truncated { .. } => "the file ends before the data of this tile".to_owned(),
            ReadError::Changed { .. } => CHANGED.to_owned(),
            ReadError::Damaged { .. } | ReadError::Corrupt { .. } => {
                "the stored data of this tile is damaged".to_owned()
            }
            ReadError::Missing { .. } => {
                "a file that holds the data of this tile is missing".to_owned()
            }
            ReadError::MissingFilter { filter, .. } => {
                format!(
                    "the data is stored with the filter {filter}, which this server cannot decode"
                )
            }
            ReadError::System { .. } | ReadError::Shape(_) => {
                "the data of this tile could not be read".to_owned()
            }
            ReadError::Unavailable { .. } => {
                "the store that holds the data of this tile does not answer; ask again in a moment"
                    .to_owned()
            }
            ReadError::Unresponsive(error) => error.to_string(),
            ReadError::Abandoned(lost) => lost.to_string(),
        }
    }
}
