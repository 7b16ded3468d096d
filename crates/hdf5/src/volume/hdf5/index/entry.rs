//! The entries of a chunk index, and why it cannot be read.

use std::time::Instant;

use crate::volume::ReadError;

/// Where one chunk is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Entry {
    /// The chunk's number in stored order
    /// ([`Grid::number`](crate::volume::hdf5::grid::Grid::number)).
    pub number: u64,
    /// The byte offset in the file.
    pub address: u64,
    /// The stored length in bytes.
    pub length: u32,
    /// A set bit means that the filter at that position was skipped.
    pub mask: u32,
}

impl Entry {
    /// The byte offset just after the chunk; saturates.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(u64::from(self.length))
    }
}

/// Why an index cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub(in super::super) enum IndexError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The contents of the index are wrong.
    #[error("{0}")]
    Wrong(String),
}

impl From<String> for IndexError {
    fn from(problem: String) -> Self {
        IndexError::Wrong(problem)
    }
}

/// The maximum number of stored chunks per dataset; their index takes 384 MiB.
pub(super) const MAX_CHUNKS: usize = 1 << 24;

/// Fails if a dataset has too many chunks.
pub(super) fn ensure_few(chunks: usize) -> Result<(), IndexError> {
    if chunks <= MAX_CHUNKS {
        return Ok(());
    }
    Err(format!("it has more than {MAX_CHUNKS} chunks; store it in larger chunks").into())
}

pub(super) fn is_late(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() > until)
}

pub(super) fn ensure_in_time(until: Option<Instant>) -> Result<(), IndexError> {
    if !is_late(until) {
        return Ok(());
    }
    let problem = "the list of its chunks could not be read within the time limit";
    Err(problem.to_owned().into())
}
