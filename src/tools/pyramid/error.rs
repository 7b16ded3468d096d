//! Errors while computing levels, and what to do about them.

use std::io;
use std::path::{Path, PathBuf};

use voltile_hdf5::volume::ReadError;
use voltile_hdf5::volume::hdf5::{PackError, WriteError};

/// Why levels could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum PyramidError {
    /// Voxels of the original could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file system reported an error.
    #[error("cannot {what} {}: {source}{}", path.display(), advice(source))]
    File {
        /// The operation: "write", for example.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The HDF5 library reported an error.
    #[error("{0} Finished parts are kept: the same command resumes from there")]
    Write(#[from] WriteError),
    /// Voxels could not be compressed.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The output exists.
    #[error("{} is there already and is not overwritten; to recreate it, remove it or move it away", .0.display())]
    Exists(PathBuf),
    /// Another run is working in this folder to write the same output.
    #[error("another voltile pyramid is working in {}; wait until it has finished", .0.display())]
    AtWork(PathBuf),
    /// The piece of this name was damaged, and has been removed.
    #[error(
        "the finished piece {0} is damaged and was removed; run voltile pyramid, or its shards, again to recreate it"
    )]
    Piece(String),
    /// Pieces have not been made.
    #[error("{missing} of {all} pieces are missing in {}. {advice}", folder.display())]
    Missing {
        /// The work folder.
        folder: PathBuf,
        /// The number of missing pieces.
        missing: usize,
        /// The number of all pieces.
        all: usize,
        /// The shards to run.
        advice: String,
    },
    /// The original has changed: the file, and the property that changed.
    #[error(
        "{0} while its levels were being computed; they were discarded: run the same command again"
    )]
    Changed(String),
    /// Threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

impl PyramidError {
    pub(super) fn file(what: &'static str, path: &Path, source: io::Error) -> Self {
        PyramidError::File {
            what,
            path: path.to_owned(),
            source,
        }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space: finished parts are kept, and the same command resumes from there"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; name a writable path with --output"
        }
        _ => "",
    }
}
