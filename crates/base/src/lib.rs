//! Plain values that every layer speaks of: names, colours, axes, what to paint, addresses of
//! tiles, descriptions.
//!
//! Nothing here opens a file, keeps state or starts a thread.

pub mod axes;
pub mod color;
pub(crate) mod description;
pub mod name;
pub mod notice;
pub mod paint;
pub mod request;
pub(crate) mod shard;
pub mod simd;
pub(crate) mod tile;
pub mod timing;
pub(crate) mod units;
