//! Tiers: stores of encoded tiles outside of this process's memory, which they outlive and exceed.
//!
//! There are two layers. A [`TileTier`] is a backend that stores tiles by token and key: [`Directory`], a directory of
//! files (the disk cache), and [`Redis`] and [`Objects`], which replicas share. [`Tiers`] are backends in order, as the
//! service uses them: it adds write queues, metrics and a log, so that a failing backend costs extra renders but never
//! fails a request. All calls block: they are made on render threads and dedicated writer threads, never on an async
//! thread. The key alone determines the pixels; the token is stored so that users can list, copy and clear the tiles of
//! one dataset.
//!
//! # Other writers
//!
//! Anyone with write access to the directory controls what is served from it: checksums detect damage, not forgery,
//! and files of other users are accepted, because servers of several users may share a directory. But they can
//! neither redirect a server out of the directory nor block it: below its top no symbolic link is followed, only
//! regular files are opened, at most the length of the largest tile is read, and files are replaced by rename and
//! never written in place, so that a hard link into the directory is safe too.
//!
//! The same holds for Redis and object storage: whoever can write to them controls what is served from them.
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
mod objects;
mod redis;
mod space;
mod sweeper;
mod tally;
#[cfg(test)]
mod tests;
mod tiers;
mod writer;

use std::path::PathBuf;

use bytes::Bytes;

pub use self::redis::Redis;
pub use census::Holding;
pub use directory::Directory;
pub use objects::Objects;
pub use tiers::{Found, Tier, Tiers};

use crate::name::Name;
use crate::tile::TileKey;

/// The kinds of backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// The disk cache.
    Directory,
    /// Redis.
    Redis,
    /// Object storage.
    Objects,
}

impl Backend {
    /// The key of the configuration that names it.
    pub fn key(self) -> &'static str {
        match self {
            Backend::Directory => "cache.directory",
            Backend::Redis => "cache.redis",
            Backend::Objects => "cache.store",
        }
    }

    /// Whether tiles written there are meant to stay until they are evicted, so that they can be rendered ahead.
    pub fn is_lasting(self) -> bool {
        match self {
            Backend::Directory | Backend::Objects => true,
            Backend::Redis => false,
        }
    }
}

/// A backend.
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

    /// Whether a write may succeed now: not while a circuit breaker is open. Does not block.
    fn takes_writes(&self) -> bool {
        true
    }

    /// Why the backend as a whole cannot be used at present.
    fn problem(&self) -> Option<String> {
        None
    }
}

/// Why a tier cannot be used, or why one operation failed. The text names files and hosts: it is for operators.
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
    #[error("{place} is damaged and was removed: {problem}")]
    Corrupt {
        /// The file, or the server and the key.
        place: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A server could not be reached, or did not answer in time.
    #[error("{server} could not be reached: {problem}")]
    Unreachable {
        /// Its address, without credentials.
        server: String,
        /// What happened.
        problem: String,
    },
    /// A server answered with an error.
    #[error("{server} answered with an error: {problem}")]
    Refused {
        /// Its address, without credentials.
        server: String,
        /// Its message.
        problem: String,
    },
    /// The circuit breaker is open: the server was not asked.
    #[error("the server is not asked until it can be reached again")]
    Resting,
}

impl TierError {
    fn system(path: impl Into<PathBuf>, doing: &'static str, error: &std::io::Error) -> Self {
        TierError::System { path: path.into(), doing, problem: error.to_string() }
    }

    /// Whether it says nothing about the next operation: a damaged tile is removed, and whether a server can be reached is
    /// up to its circuit breaker, see [`TileTier::problem`].
    pub fn is_transient(&self) -> bool {
        matches!(self, TierError::Corrupt { .. } | TierError::Unreachable { .. } | TierError::Resting)
    }

    /// Whether the configured path is unusable as a cache directory, rather than temporarily failing.
    pub fn is_misnamed(&self) -> bool {
        matches!(self, TierError::Foreign { .. } | TierError::Format { .. } | TierError::NoDirectory { .. })
    }
}
