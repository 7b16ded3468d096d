//! Tiers: stores of encoded tiles outside of this process, which are larger than its memory and
//! outlive it.
//!
//! There are two layers. The lower one is a [`Backend`], which stores tiles by token and key. There
//! are three: [`Directory`] (the disk cache), [`Redis`], and a
//! [folder](voltile_hdf5::store::Folder) of object storage; replicas share the latter two. The
//! upper layer is [`Tiers`], the ordered list of backends that the service uses. It adds write
//! queues, metrics and a log, so that a failing backend costs extra renders but never fails a
//! request. All calls block: they are made on threads for blocking work, idle render threads and
//! dedicated writer threads, never on an async thread. The key alone determines the pixels; the
//! token is stored so that users can list, copy and clear the tiles of one dataset.
//!
//! # Other writers
//!
//! Checksums detect damage, not forgery: anyone who can write to a tier controls what is served
//! from it. So a cache directory must belong to the user who runs the program.
//!
//! # Why files instead of a cache or database crate
//!
//! A server, `voltile warm` and `voltile cache` use one directory at the same time, may be killed
//! at any moment, and users want to look into it. `foyer`, the most mature hybrid cache, does not
//! let several processes share its storage, does its own recovery, can neither list nor clear the
//! tiles of one token, and brings its own async runtime. `redb` and `fjall` are databases: they
//! allow one writer (or one process), sync a journal and compact, which is of no use for values of
//! 100 KiB that are written once. `cacache` can be shared, but has neither a budget nor eviction,
//! and stores the index entry of a tile separately. On top of a file system, little is left to do:
//! a name, a checksum, a rename, and eviction.

mod backend;
mod contents;
mod directory;
mod entry;
mod error;
mod error_log;
mod eviction;
mod folder;
mod marker;
mod objects;
mod redis;
#[cfg(test)]
mod tests;
mod tiers;
mod writer;

pub use self::redis::Redis;
pub use backend::{Backend, TierKind};
pub use contents::TokenContents;
pub use directory::Directory;
pub use error::TierError;
pub use tiers::Tiers;
pub use writer::Tier;
