//! Warming: every tile of a selection is made before anybody asks for it, in an order that decodes everything once.
//!
//! A [`Selection`] is held against what is there, as `/datasets.json` describes it, and becomes a [`Work`]: families of
//! tiles (`family`), put into groups that read the same stored boxes (`group`), and walked through block by block
//! (`order`). A work never lists its tiles. [`run()`] has a [`Hand`] fill one after the other: a [`Server`] that runs is
//! asked for them, or they are drawn [in this process](InProcess) and go straight into a directory. A [`Journal`] keeps how far that is, so that a work
//! that is killed goes on there.
//!
//! The odd thing: what is at hand is looked at through its own description, as a server's would be. So there is one order,
//! and what it needs to know of storage is told to everybody.
//!
//! # Order
//!
//! A chunk should be decoded once, and all tiles that show any of it be drawn while it is kept. Two things stand against
//! that: the cache of decoded chunks has a budget, and tiles of the planes, and of levels made on the fly, cut chunks
//! differently. So tiles are drawn in blocks of voxels, each with no more chunks than are kept at once, that all tiles
//! of a group lie within: along the slices as deep as a chunk, along rows and columns as long as the coarsest tile. What
//! cannot be in one group takes a pass of its own; a tile whose chunks alone are too many decodes them anew, and a remark
//! says so, and what mends it. [`Forecast`] counts all of this before anything is read.
//!
//! A chunk is decoded whole at once for who warms (`crew::thoroughly`): elsewhere the first tile has no more of it decoded
//! than it shows.

mod choose;
mod estimate;
mod extent;
mod family;
mod forecast;
mod group;
mod in_process;
mod journal;
mod numbers;
mod order;
mod over_http;
mod report;
mod run;
mod selection;
mod served;
#[cfg(test)]
mod tests;
mod work;

pub use choose::ChoiceError;
pub use estimate::{Drawn, Estimate, Probe, estimate};
pub use extent::{Extent, NotAnExtent, UnknownSize};
pub use forecast::{Boxes, Forecast};
pub use in_process::InProcess;
pub use journal::{Failure, Found, Journal, JournalError, Position, Title};
pub use numbers::{NotNumbers, Numbers, Runs};
pub use over_http::{DRAWN, EVICTED, INFLATED, Server};
pub use report::{Counted, Report};
pub use run::{Ending, Filled, Hand, Outcome, Pace, Progress, Stop, run};
pub use selection::{Channels, Selection};
pub use served::{Caches, Dataset, Served, described};
pub use work::{Sample, Work};
