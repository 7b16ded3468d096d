//! What can go wrong while levels are made, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use crate::volume::ReadError;
use crate::volume::hdf5::{PackError, WriteError};

/// Why levels could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PyramidError {
    /// Voxels of the original could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file system refused.
    #[error("cannot {what} {}: {source}{}", path.display(), advice(source))]
    File {
        /// What was tried, such as "write".
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The HDF5 library refused.
    #[error("{0} What is finished is kept: the same command goes on from there")]
    Write(#[from] WriteError),
    /// Voxels could not be packed.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// There is something of that name.
    #[error("{} is there already and is not overwritten; to make it anew, remove it or move it away", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another run is making it.
    #[error("another voltile pyramid is at work in {}; wait until it has ended", folder.display())]
    AtWork {
        /// Its work folder.
        folder: PathBuf,
    },
    /// A piece is not as it was written.
    #[error("the finished piece {name} is damaged and was thrown away; the same command makes it again")]
    Piece {
        /// Its name.
        name: String,
    },
    /// The original is no longer what it was.
    #[error("{reason}, while its levels were made; they were thrown away: run the same command again")]
    Changed {
        /// Which file, and how it is known.
        reason: String,
    },
    /// There are no threads to be had.
    #[error("no threads can be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

impl PyramidError {
    pub(super) fn file(what: &'static str, path: &Path, source: io::Error) -> Self {
        PyramidError::File { what, path: path.to_owned(), source }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space: what is finished is kept, and the same command goes on from there"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; name a place that can be written to with --output"
        }
        _ => "",
    }
}
