//! Geometry, plain values, the flow of work, and metrics: all that the other crates of voltile
//! speak of.
//!
//! - [`geometry`]: planes, levels, regions, and the patch of a volume that a tile shows.
//! - Values: names, colours, axes, units, what to paint, addresses of tiles and boxes, the JSON of
//!   descriptions. They check themselves, and none of them opens a file or starts a thread.
//! - [`flow`]: values made once for all who wait (single-flight), services that fail, file systems
//!   that do not answer, bounded queues, what a request did, when background work may run.
//! - [`metrics`]: counters and histograms in the OpenMetrics text format.
//!
//! # Example
//!
//! ```no_run
#![doc = include_str!("../examples/shown_voxels.rs")]
//! ```
//!
//! # Invariants and limits
//!
//! - All coordinate arithmetic is in [`geometry`], in `u64` voxels; an overflow clips a patch, and
//!   never makes a wrong index.
//! - A key's state changes under one lock: a flight ends, its value is cached and its waiters are
//!   woken in one step ([`flow::cache`]). Errors are not cached, and a flight that panics frees its
//!   key.
//!
//! # State
//!
//! These statics and thread-locals are the exceptions to the rule that state is passed down:
//!
//! - `simd`: `PATH`, the instructions of this processor, detected once.
//! - `flow::stalls`: `THREAD`, what this thread reads, noted also by libhdf5's driver, whose
//!   functions get no arguments of ours.

pub mod axes;
pub mod color;
pub mod description;
pub mod flow;
pub mod geometry;
pub mod metrics;
pub mod name;
pub mod notice;
pub mod paint;
pub mod paths;
pub mod request;
pub mod shard;
pub mod simd;
pub mod text;
pub mod tile;
pub mod timing;
pub mod units;

#[cfg(test)]
extern crate self as voltile_base;

#[cfg(test)]
#[path = "../examples/shown_voxels.rs"]
mod example;

#[cfg(test)]
mod tests {
    use super::example;
    use super::geometry::{Region, Xyz};

    #[test]
    fn the_example_on_the_first_page_is_right() {
        let shown = Region {
            start: Xyz::new(512, 0, 7),
            size: Xyz::new(188, 300, 1),
        };
        assert_eq!(example::shown_voxels(Xyz::new(700, 300, 20)), Some(shown));
        assert_eq!(example::shown_voxels(Xyz::new(512, 300, 20)), None);
    }
}
