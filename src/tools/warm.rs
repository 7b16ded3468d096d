//! Warming: rendering every tile of a selection ahead of requests, in an order that decodes each
//! chunk once.
//!
//! A [`Selection`] is matched with what is served, as `/datasets.json` describes it, and becomes a
//! [`Work`]: families of tiles (`family`), put into groups that read the same stored boxes
//! (`group`), and iterated block by block. A work never lists its tiles. [`run()`] has a
//! [`Producer`] produce them one by one: a running [`Server`] is sent requests, or they are drawn
//! [in this process](InProcess) and written straight to a directory or object storage. To resume a
//! killed run, run it again: tiles that are stored are skipped. Several processes can share a work:
//! each does whole blocks that follow one another ([`Work::shard`]).
//!
//! Local files are also seen through the description that a server would give
//! ([`crate::base::description`]). So there is one order, and everything it needs to know about
//! storage is public.
//!
//! # Order
//!
//! Ideally a chunk is decoded once, and all tiles that show any of it are drawn while it is cached.
//! Two things prevent that: the cache of decoded chunks has a budget, and the tiles of different
//! planes, and of levels that are not stored, cut chunks differently. So tiles are drawn in blocks
//! of voxels that contain all tiles of a group and no more chunks than the cache holds: as deep
//! along the slices as a chunk, as long along rows and columns as the coarsest tile. What does not
//! fit into one group takes a separate pass; a tile whose chunks alone exceed the cache decodes
//! them again, and a remark says so and how to fix it.
//!
//! When warming, a chunk is decoded whole at once ([`crate::volume::Decode::Whole`]); otherwise the
//! first tile decodes only the part that it shows.

mod choose;
mod estimate;
mod extent;
mod family;
mod group;
mod in_process;
mod numbers;
mod over_http;
mod run;
mod selection;
#[cfg(test)]
mod tests;
mod work;

pub use estimate::{Estimate, estimate};
pub use extent::Extent;
pub use in_process::InProcess;
pub use numbers::Numbers;
pub use over_http::Server;
pub use run::{Ending, Producer, Report, Stop, run};
pub use selection::{Channels, Selection};
pub use work::Work;
