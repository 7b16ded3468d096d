//! How work flows through a busy process: values made once for all who wait, services that fail, what a request did, and
//! when background work may run.

pub mod activity;
pub(crate) mod breaker;
pub(crate) mod cache;
pub mod stalls;
pub mod trace;
