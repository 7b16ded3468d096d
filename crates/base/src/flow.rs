//! How work flows through a busy process: values made once for all who wait, services that fail,
//! bounded queues, what a request did, and when background work may run.

pub mod activity;
pub mod breaker;
pub mod cache;
pub mod interest;
pub mod queue;
pub mod stalls;
pub mod trace;
