//! How work flows through a busy process: values made once for all who wait, services that fail,
//! bounded queues, what a request did, and when background work may run.

pub mod activity;
pub(crate) mod breaker;
pub(crate) mod cache;
pub(crate) mod queue;
pub mod stalls;
pub mod trace;
