//! Warming: every tile of a selection is rendered ahead of requests, in the order in which chunks
//! are stored.
//!
//! A [`Selection`] is matched with what is served, as `/datasets.json` describes it, and becomes a
//! [`WarmWork`], which yields the tiles in order without holding a list of them. [`run()`] has a
//! [`Producer`] produce the tiles: a running [`RemoteServer`] is sent requests, or tiles are
//! rendered [in this process](InProcess) and written straight to a directory or object storage. To
//! resume a killed run, run it again: tiles that are stored are skipped. Several processes can
//! share the work: each produces the tiles of some of the slabs.

mod choose;
mod in_process;
mod numbers;
mod pass;
mod run;
mod selection;
mod server;
#[cfg(test)]
mod tests;
mod work;

pub use in_process::InProcess;
pub use numbers::Numbers;
pub use run::{Ending, Producer, WarmReport, run};
pub use selection::{Channels, Selection};
pub use server::{RemoteServer, is_server};
pub use work::WarmWork;
