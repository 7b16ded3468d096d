//! Benchmarks: how fast tiles of a volume are drawn in this process, or served by a running server.
//!
//! [`Local`] draws tiles on its own threads along a server's path: catalogue, plan, drawing,
//! encoding; no tile is kept. [`Remote`] requests tiles from a server over any number of
//! connections. Both follow the same `pattern`s over the same `target`s, seeded, so that two runs
//! request the same tiles. Each pattern yields one row; `verdict` and `explain` state in words what
//! the bottleneck is.
//!
//! Stages are not measured in runs of their own: the clocks ([`crate::metrics::Clock`]) are part of
//! the path and always run. So the stages of a row are what that row's tiles took, even where
//! neighbours share chunks or chunks are decoded in part, and they add up to the whole.

mod explain;
mod local;
mod machine;
mod pattern;
mod remote;
mod row;
mod sample;
mod scaling;
mod server_work;
mod target;
mod team;
mod verdict;

pub use explain::explain;
pub use local::Local;
pub use machine::Machine;
pub use pattern::{Course, Pattern};
pub use remote::{NotReached, Remote};
pub use row::{ChunkUse, Limits, RemoteRow, Row, Stages, State, Subject, Turn};
pub use sample::Percentiles;
pub use scaling::{Scaling, scaling};
pub use server_work::{ReadTimes, ServerWork};
pub use target::{Bounds, Choice, Target};
pub use verdict::{Help, Limit, Verdict, verdicts};

pub use crate::tools::warm::{Numbers, Selection};
