//! Volumes: something from which boxes of voxels can be read, over time.
//!
//! The renderer knows the [`Volume`] trait alone. Where voxels come from (an HDF5 dataset, a series of them, memory)
//! is decided when a catalogue is opened. Every box is handed over densely in z, y, x order with x fastest,
//! whatever the order in the file; a box that is one voxel thick along the slice axis is therefore already the
//! slice, row by row, in all three planes.

mod cost;
pub mod hdf5;
mod memory;
mod samples;
mod scatter;
mod series;
mod stack;
mod stamp;

use std::fmt;
use std::time::Instant;

pub use cost::{Positions, ReadCost, Tally};
pub use memory::MemoryVolume;
pub(crate) use samples::with_samples;
pub use samples::{Samples, Voxel, VoxelType};
pub use series::Series;
pub use stack::Stack;
pub use stamp::Stamp;

use crate::cache::Lost;
use crate::geometry::{Region, Xyz};
use crate::tile::Fingerprint;

/// What is known of a volume before anything is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeShape {
    /// The type of its voxels.
    pub voxel: VoxelType,
    /// Its extent in voxels.
    pub size: Xyz<u64>,
    /// The number of time points, at least 1.
    pub times: u64,
    /// The box in which it is stored: reading along its borders wastes least.
    pub chunk: Xyz<u64>,
    /// What reading a part of such a box takes.
    pub access: Access,
}

/// How boxes of voxels are had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only what is wanted is copied.
    Copied,
    /// What is stored together is decoded once, and kept for a while.
    Kept,
    /// What is stored together is decoded anew for every box.
    Anew,
}

/// A stored chunk: its dataset in its file as it was opened, and its number in the dataset's grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId {
    /// The dataset.
    pub dataset: Fingerprint,
    /// The number of the chunk.
    pub number: u64,
}

/// The most bytes of stored voxels that are held at once to make fewer of them.
pub(crate) const BLOCK_BYTES: u64 = 2 << 20;

/// What to read of a volume, and how. All fields decide what a read does; nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// The time point.
    pub time: u64,
    /// The box, which must lie within the volume.
    pub region: Region,
    /// Every `step`-th voxel of the box is read along each axis, starting with its first.
    pub step: Xyz<u64>,
    /// How much is decoded, and whether the read yields.
    pub policy: ReadPolicy,
}

/// How much of each chunk a read decodes, and whether it yields to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadPolicy {
    /// How much of a chunk is decoded.
    pub decode: Decode,
    /// When the read ends early.
    pub yields: Yields,
}

/// How much of a chunk is decoded to read some of its voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decode {
    /// The least that contains the wanted voxels; more if the chunk store expects that to be wanted next.
    #[default]
    AsNeeded,
    /// All of it: its other voxels will be read soon.
    Whole,
}

/// When a read ends early, with [`ReadError::Lost`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Yields {
    /// Never.
    #[default]
    Never,
    /// As soon as a request waits for a render thread: this read is a prefetch.
    ToRequests,
}

impl ReadRequest {
    /// All voxels of a box, decoding no more than needed.
    pub fn new(time: u64, region: Region) -> Self {
        Self { time, region, step: Xyz::all(1), policy: ReadPolicy::default() }
    }

    /// The same box, thinned by `step` along each axis.
    #[must_use]
    pub fn every(self, step: Xyz<u64>) -> Self {
        Self { step, ..self }
    }

    /// The same, read by another policy.
    #[must_use]
    pub fn with(self, policy: ReadPolicy) -> Self {
        Self { policy, ..self }
    }

    /// How many voxels it yields along each axis.
    pub fn size(&self) -> Xyz<u64> {
        self.region.size.zip(self.step, u64::div_ceil)
    }
}

/// One scalar value for each (time, z, y, x): what tiles are made from.
pub trait Volume: Send + Sync + fmt::Debug {
    /// Type, extents and storage.
    fn shape(&self) -> VolumeShape;

    /// Whether there is anything at this time point; a volume may have gaps, which are shown as outside.
    fn has(&self, time: u64) -> bool {
        time < self.shape().times
    }

    /// Reads the requested voxels into `into`, contiguously in z, y, x order.
    ///
    /// `into` is given the right type and length here; its memory is reused.
    fn read(&self, request: &ReadRequest, into: &mut Samples) -> Result<(), ReadError>;

    /// The chunks in a box that were decoded in part and have yet to be verified, or turned out to be wrong; `None` if
    /// that is not known.
    fn unverified(&self, _time: u64, _region: &Region) -> Option<Vec<ChunkId>> {
        Some(Vec::new())
    }

    /// Whether a chunk in a box was found to have a wrong checksum; also true if that is not known. Reads nothing.
    fn may_be_refused(&self, _time: u64, _region: &Region) -> bool {
        false
    }

    /// How it is stored, for programs that inspect, measure or try out files.
    fn storage(&self) -> &dyn VolumeStorage {
        &InMemory
    }
}

/// How a volume is stored: what `inspect`, `bench` and the trial of a file need, and tiles do not.
pub trait VolumeStorage {
    /// Does now what reading would do for the first time, until `until`: called in the trial process, where a crash does
    /// no harm. The results are discarded.
    fn rehearse(&self, _until: Instant) {}

    /// Removes its decoded chunks from the cache, and those of all volumes that share the cache: for measuring.
    fn forget_chunks(&self) {}

    /// Drops its files from the system's page cache, as far as a user may: for measuring.
    fn forget_pages(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// What of it is stored, summed over its first `most` datasets; fails if none of them can be inspected.
    fn tally(&self, _most: usize) -> Result<Tally, ReadError> {
        Ok(Tally::default())
    }

    /// The cost of reading all voxels at these positions, by its tally; `None` if that is unknown.
    fn cost(&self, _wanted: &Positions, _tally: &Tally) -> Option<ReadCost> {
        None
    }
}

/// The storage of a volume in memory: nothing to tell.
struct InMemory;

impl VolumeStorage for InMemory {}

/// What a client is told of a file that is not what it was when it was opened.
pub(crate) const CHANGED: &str =
    "the file has changed since it was opened; it is served again as soon as it can be opened anew";

/// Why voxels could not be read. The text is for the log: it names files. [`ReadError::public`] does not.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// Bytes that should be in the file are not.
    #[error(
        "{place}: the file ends at byte {length}, but data up to byte {needed} is wanted; it was truncated or is still being copied"
    )]
    Truncated {
        /// File and dataset.
        place: String,
        /// The file's length.
        length: u64,
        /// Where the wanted data ends.
        needed: u64,
    },
    /// A file is not what it was when it was opened.
    #[error("{place}: a file has changed since it was opened; what is read of it now may be anything")]
    Changed {
        /// File and dataset.
        place: String,
    },
    /// Stored bytes make no sense.
    #[error("{place}: {problem}")]
    Damaged {
        /// File and dataset, and where in it.
        place: String,
        /// What was found.
        problem: String,
    },
    /// A chunk can be decoded, but not to what was stored: nothing of it can be trusted.
    #[error("{place}: {problem}")]
    Corrupt {
        /// File and dataset, and where in it.
        place: String,
        /// What was found.
        problem: String,
    },
    /// The data is compressed with something that cannot be decoded here.
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
        /// The system's words.
        problem: String,
    },
    /// Another thread was to bring the data and did not.
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl ReadError {
    /// What a client may know.
    pub fn public(&self) -> String {
        match self {
            ReadError::Truncated { .. } => "the file ends before the data of this tile".to_owned(),
            ReadError::Changed { .. } => CHANGED.to_owned(),
            ReadError::Damaged { .. } | ReadError::Corrupt { .. } => {
                "the stored data of this tile is damaged".to_owned()
            }
            ReadError::MissingFilter { filter, .. } => {
                format!("the data is stored with the filter {filter}, which this server cannot decode")
            }
            ReadError::System { .. } => "the data of this tile could not be read".to_owned(),
            ReadError::Lost(lost) => lost.to_string(),
        }
    }
}
