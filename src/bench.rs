//! What a person runs who wants to know how fast their volume can be: tiles drawn here, or had from a running server.
//!
//! [`Local`] makes tiles on threads of its own by the path that a server takes: catalogue, plan, drawing, encoding; no
//! tile is kept. [`Remote`] asks a server, from as many connections as are wanted. Both follow the same `pattern`s over
//! the same `target`s, by a seed, so that two runs ask for the same tiles. What was found is a row for each pattern;
//! `verdict` says in words what limits them.
//!
//! The odd thing: stages are not measured by runs of their own. Clocks stand in the path itself
//! ([`crate::metrics::Clock`]) and run always: what they tell of a row is what that row's tiles took, also where chunks
//! are shared by neighbours or wanted in part, and it adds up to the whole.

mod local;
mod machine;
mod pattern;
mod remote;
mod row;
mod sample;
mod scaling;
mod target;
mod verdict;

pub use local::{Local, NotMeasured};
pub use machine::Machine;
pub use pattern::Pattern;
pub use remote::{Gone, NotReached, Remote, RemoteRow, ServerSeconds, ServerShare, Turn, told};
pub use row::{ChunkUse, Limits, Row, Stages, State, Subject};
pub use sample::Percentiles;
pub use scaling::{Scaling, scaling};
pub use target::{Bounds, Choice, Selection, Target, Unknown};
pub use verdict::{Help, Limit, Verdict, verdicts};
