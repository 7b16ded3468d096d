//! Provides tiles: the boundary between async code and the render threads.
//!
//! A request is first identified, which reads no pixels and yields the ETag; then fetched: from the
//! cache, by joining a flight, or by leading one. Whatever is made goes one way ([`work`]): it is
//! looked for in the tiers (a disk cache, a shared cache) and fetched from a store, both before the
//! render queue ([`prepare`]); then it is rendered by a job on the pool, whose queue is shared
//! among clients; then it is kept in the tiers ([`tier_writer`]).
//!
//! The job leads the flight, not the client: it goes on if that client disconnects and other
//! clients wait. A job that nobody waits for any more is dropped from the queue, or stopped before
//! its next chunk.

mod boxes;
mod client;
mod drawing;
mod error;
mod fetch;
mod footprint;
mod health;
mod identified;
mod identify;
mod idle;
mod job;
mod live;
mod neighbours;
mod pool;
mod prepare;
mod queue;
mod reload;
mod reopen;
mod samples;
mod tier_writer;
mod tile_service;
mod trials;
mod work;

pub use boxes::{BoxMemory, HeldMemory};
pub use client::{Client, Demand, Urgency};
pub use error::{ErrorKind, TileError};
pub use fetch::WarmOutcome;
pub use health::{Health, ServicePart};
pub use identified::{CachePolicy, Identified};
pub use live::Changes;
pub use pool::RenderPool;
pub use queue::Busy;
pub use reload::Reloaded;
pub use tile_service::TileService;
pub use trials::RunTrials;
