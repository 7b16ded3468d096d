//! The second tier for encoded tiles, behind the memory cache: what was rendered once is there after a restart, and may be
//! larger than memory.
//!
//! There are two layers. A [`TileTier`] is a backend, which keeps tiles by token and key; the disk cache is one, a
//! [`Directory`], and others that several servers share may follow. A [`SecondTier`] is what the service uses: it puts a
//! queue in front of a backend, counts what it does and logs what goes wrong, so that a backend that fails costs renders
//! and never an answer. All of it blocks: it is called on render threads and on a writer thread of its own, never on an
//! async one. A key says which pixels are meant, and not whose they are; the token is there so that a person can see, copy
//! and clear what belongs to one dataset.
//!
//! # Who else may write there
//!
//! Whoever may write to the directory decides what is served from it: checksums find damage, not forgery, and files of
//! other users are taken as they are, because servers of several people may share one. What such a person cannot do is to
//! lead a server out of the directory or to hold it up: below its top no symbolic link is followed, only regular files are
//! opened, none is read beyond the length of the largest tile, and a file is replaced by a rename and never written to, so
//! that a hard link into the directory is safe too.
//!
//! # Why files, and no crate that keeps them
//!
//! A server, `voltile warm` and `voltile cache` use one directory at the same time, may be killed at any moment, and
//! people want to look into it. `foyer`, the best kept cache of memory and disk, gives a device to one process alone,
//! recovers it by itself, and can neither list nor drop the tiles of one token; it brings an async runtime of its own.
//! `redb` and `fjall` are databases: a writer at a time (or one process), a journal that is synced, space that is given
//! back by compaction, for values of 100 KiB that are written once. `cacache` shares well, but has neither a budget nor
//! eviction, and writes each tile's index apart from it. What is left to do over a file system is little: a name, a
//! checksum, a rename, and a sweep.

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

/// Keeps encoded tiles for longer than memory does.
///
/// Every method may block. Others may use the same tier at the same time, from this process or another: what was there
/// a moment ago may be gone.
pub trait TileTier: Send + Sync {
    /// The PNG of a tile, whole and as it was put; `None` where there is none.
    ///
    /// What is found damaged is dropped, and is [`TierError::Corrupt`] once: after that it is absent.
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError>;

    /// Keeps the PNG of a tile, in place of what was kept of it before. Nobody ever sees a part of it.
    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError>;

    /// Whether a tile is there, as far as can be told without reading it.
    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError>;
}

/// Why a tier cannot be used, or failed once. The text names files: it is for operators.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    /// The directory holds something else.
    #[error(
        "{} is not empty, and no cache of voltile: it is left as it is. Name a directory that is empty or not yet there",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// Another voltile wrote it.
    #[error(
        "{} is a cache of another voltile ({found}; this one knows the format {}). Remove it, or name another directory",
        path.display(),
        marker::FORMAT
    )]
    Format {
        /// The directory.
        path: PathBuf,
        /// What it says of itself.
        found: String,
    },
    /// Something else is in the place of the directory.
    #[error("{} is not a directory", path.display())]
    NoDirectory {
        /// What was named.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{} cannot be {doing}: {problem}", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// What was to be done with it.
        doing: &'static str,
        /// What the system said.
        problem: String,
    },
    /// The directory was removed, unmounted, or replaced by another.
    #[error("{} {why}; nothing is written there until it is back", path.display())]
    Away {
        /// Where it was.
        path: PathBuf,
        /// What has become of it.
        why: &'static str,
    },
    /// More is there than may be, and it was not removed in time.
    #[error("{} is full: it may take {budget} bytes, and what is too much has not been removed yet", path.display())]
    Full {
        /// The directory.
        path: PathBuf,
        /// What it may take.
        budget: u64,
    },
    /// What was found is not what was put.
    #[error("{} is damaged and was dropped: {problem}", path.display())]
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

    /// Whether the tier is not one to be used, by what was named rather than by what happened.
    pub fn is_misnamed(&self) -> bool {
        matches!(self, TierError::Foreign { .. } | TierError::Format { .. } | TierError::NoDirectory { .. })
    }
}
