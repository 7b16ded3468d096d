//! voltile
pub mod axes;
pub mod cache;
pub mod color;
pub mod geometry;
pub mod metrics;
pub mod name;
pub mod paint;
pub mod plan;
pub mod render;
pub mod request;
pub mod tile;
pub mod volume;
