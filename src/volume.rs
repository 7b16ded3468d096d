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

/// One scalar value for each (time, z, y, x).
pub trait Volume: Send + Sync + fmt::Debug {
    /// Type, extents and storage.
    fn shape(&self) -> VolumeShape;

    /// Whether there is anything at this time point; a volume may have gaps, which are shown as outside.
    fn has(&self, time: u64) -> bool {
        time < self.shape().times
    }

    /// Reads a box within the volume into `into`, densely in z, y, x order.
    ///
    /// `into` is given the right type and length here; its memory is reused.
    fn read(&self, time: u64, region: &Region, into: &mut Samples) -> Result<(), ReadError>;

    /// Reads every so-many-th voxel of a box along each axis, from its first on, as densely.
    fn read_every(
        &self,
        step: Xyz<u64>,
        time: u64,
        region: &Region,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        scatter::thinned(self.shape(), step, region, into, |part, into| self.read(time, part, into))
    }

    /// The chunks in a box that were decoded in part and have yet to be verified, or turned out to be wrong; `None` where
    /// that is not known.
    fn unverified(&self, _time: u64, _region: &Region) -> Option<Vec<ChunkId>> {
        Some(Vec::new())
    }

    /// Whether a chunk in a box was found to have a wrong checksum; also true where that is not known. Reads nothing.
    fn may_be_refused(&self, _time: u64, _region: &Region) -> bool {
        false
    }

    /// Does beforehand what reading will do for the first time, as far as there is time for it: to be called where a
    /// file that makes it go wrong does no harm. What it brings is thrown away.
    fn rehearse(&self, _until: Instant) {}

    /// Forgets the chunks that are kept decoded, also those of other volumes that share the cache: for measuring.
    fn forget_chunks(&self) {}

    /// Has the system forget what it keeps of the files in memory, as far as it lets a user: for measuring.
    fn forget_pages(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// What of it is stored; of one that is made up of datasets, of the first so many of them that can be opened.
    fn tally(&self, _most: usize) -> Result<Tally, ReadError> {
        Ok(Tally::default())
    }

    /// What reading all voxels at these positions takes, by its own tally; `None` where that cannot be told.
    fn cost(&self, _wanted: &Positions, _tally: &Tally) -> Option<ReadCost> {
        None
    }
}

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
