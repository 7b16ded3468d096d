//! Provides tiles: the boundary between async code and the render threads.
//!
//! A request is first planned, which reads no pixels and yields the ETag; then fetched: from the
//! cache, by joining a *flight* (the making of a tile for all requests that wait for it), or by
//! leading one. Everything is made in one way ([`maker`]): it is looked for in the tiers (a disk
//! cache, a shared cache), fetched from a store, rendered ([`pool`]) and kept in the tiers
//! ([`tier_writer`]). For each of the first three steps it waits for its turn in a queue that
//! clients share ([`turns`]).
//!
//! A flight goes on if the client that leads it disconnects and other clients wait. When nobody
//! waits for it any more, its future is dropped: that is how a fetch is given up, how a job leaves
//! the queue, and how a render is told to end before its next chunk.

mod boxes;
mod client;
mod error;
mod fetch;
mod health;
mod idle;
mod live;
mod maker;
mod neighbours;
mod planning;
mod pool;
mod queue;
mod reconciler;
mod samples;
mod tier_writer;
mod tile_service;
mod turns;
mod work;

pub use boxes::{BoxMemory, HeldMemory};
pub use client::{Client, Demand, Urgency};
pub use error::{ErrorKind, TileError};
pub use fetch::WarmOutcome;
pub use health::{Health, ServicePart};
pub(crate) use live::LiveState;
pub use pool::RenderPool;
pub use queue::Busy;
pub use reconciler::Reloaded;
pub use tile_service::TileService;
