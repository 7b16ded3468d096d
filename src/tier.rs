//! The disk cache: encoded tiles that outlive the process and may take more space than memory has.
//!
//! There are two layers. A [`TileTier`] is a backend that stores tiles by token and key; the only one so far is
//! [`Directory`], a directory of files. [`SecondTier`] wraps a backend for the service: it adds a write queue,
//! metrics and a log, so that a failing backend costs extra renders but never fails a request. All calls block: they
//! are made on render threads and a dedicated writer thread, never on an async thread. The key alone determines the
//! pixels; the token is stored so that users can list, copy and clear the tiles of one dataset.
//!
//! # Other writers
//!
//! Anyone with write access to the directory controls what is served from it: checksums detect damage, not forgery,
//! and files of other users are accepted, because servers of several users may share a directory. But they can
//! neither redirect a server out of the directory nor block it: below its top no symbolic link is followed, only
//! regular files are opened, at most the length of the largest tile is read, and files are replaced by rename and
//! never written in place, so that a hard link into the directory is safe too.
//!
//! # Why files instead of a cache or database crate
//!
//! A server, `voltile warm` and `voltile cache` use one directory at the same time, may be killed at any moment, and
//! users want to look into it. `foyer`, the most mature hybrid cache, needs a device for one process alone, does its
//! own recovery, can neither list nor clear the tiles of one token, and brings its own async runtime. `redb` and
//! `fjall` are databases: one writer at a time (or one process), a synced journal, and space reclaimed by compaction,
//! for values of 100 KiB that are written once. `cacache` can be shared, but has neither a budget nor eviction, and
//! stores the index entry of a tile separately. On top of a file system, little is left to do: a name, a checksum, a
//! rename, and a sweep.

mod census;
mod dir;
mod directory;
mod entry;
mod error_log;
mod folders;
mod home;
mod marker;
mod second;
mod space;
mod sweeper;
mod tally;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;

use bytes::Bytes;

pub use census::Holding;
pub use directory::Directory;
pub use second::SecondTier;

use crate::name::Name;
use crate::tile::TileKey;

/// A backend of the disk cache.
///
/// Every method may block. Other threads and processes may use the same storage at the same time: a tile that was
/// there a moment ago may be gone.
pub trait TileTier: Send + Sync {
    /// The PNG of a tile, complete and exactly as stored; `None` if there is none.
    ///
    /// A damaged tile is removed: the first call returns [`TierError::Corrupt`], later ones `None`.
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError>;

    /// Stores the PNG of a tile, replacing an existing one atomically.
    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError>;

    /// Whether a tile exists; its checksum is not verified.
    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError>;
}

/// Why the disk cache cannot be used, or why one operation failed. The text names files: it is for operators.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    /// The directory holds files that are not voltile's.
    #[error(
        "{} is neither empty nor a voltile cache, and was left unchanged. Name an empty or missing directory",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// The cache was written by a version of voltile with another format.
    #[error(
        "{} is a cache of another version of voltile ({found}; this version has format {}). Remove it, or name \
         another directory",
        path.display(),
        marker::FORMAT
    )]
    Format {
        /// The directory.
        path: PathBuf,
        /// The format in its marker.
        found: String,
    },
    /// The path is not a directory.
    #[error("{} is not a directory", path.display())]
    NoDirectory {
        /// The path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{} cannot be {doing}: {problem}", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// What was attempted, as a past participle for the message.
        doing: &'static str,
        /// The system's error message.
        problem: String,
    },
    /// The directory was removed, unmounted, or replaced by another.
    #[error("{} {why}; nothing is written until it is back", path.display())]
    Away {
        /// Its path.
        path: PathBuf,
        /// What happened to it.
        why: &'static str,
    },
    /// The budget is exceeded, and eviction did not make room in time.
    #[error("{} is full: its budget is {budget} bytes, and eviction has not made room yet", path.display())]
    Full {
        /// The directory.
        path: PathBuf,
        /// The budget in bytes.
        budget: u64,
    },
    /// A tile is not as it was stored.
    #[error("{} is damaged and was removed: {problem}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl TierError {
    fn system(path: impl Into<PathBuf>, doing: &'static str, error: &std::io::Error) -> Self {
        TierError::System { path: path.into(), doing, problem: error.to_string() }
    }

    /// Whether the configured path is unusable as a cache directory, rather than temporarily failing.
    pub fn is_misnamed(&self) -> bool {
        matches!(self, TierError::Foreign { .. } | TierError::Format { .. } | TierError::NoDirectory { .. })
    }
}
