//! Rendering: turns a plan into the bytes of a PNG, in pure steps.
//!
//! slice → downsample → project → window → colour → encode. The steps work on buffers and numbers;
//! they know no cache, settings or names. Voxels come from the plan's volumes. Buffers are in a
//! [`Scratch`], which is reused for every tile: page faults on fresh memory cost more than most of
//! the steps. A channel's automatic window is that of a sample of its voxels: [`survey`].
//!
//! # Example
//!
//! ```no_run
#![doc = include_str!("../examples/tile.rs")]
//! ```
//!
//! # Invariants and limits
//!
//! - The pixels depend on the plan and the voxels, on nothing else: not on the instructions that
//!   the processor has, nor on earlier tiles of the same [`Scratch`].
//! - A tile is 512 × 512 pixels. A thread needs about 8 MiB for one, 16 MiB at most, and 8 MiB more
//!   for a slab of slices.

mod composite;
mod cutout;
mod downsample;
mod drawing;
mod encode;
mod mask;
mod overview;
pub mod plan;
mod slab;
mod slice;
pub mod survey;
mod visible;
mod window;

pub use cutout::{cached as cached_box, cutout, imagej_has};
pub use drawing::{RenderError, Scratch, black, draw, render};
pub use encode::{EncodeBuffers, EncodeError, PngEncoder, encode};
pub use overview::overview;
pub use visible::visible;

#[cfg(test)]
extern crate self as voltile_render;

#[cfg(test)]
#[path = "../examples/tile.rs"]
mod example;

#[cfg(test)]
mod tests {
    use super::example;

    #[test]
    fn the_example_on_the_first_page_draws_a_tile() {
        let png = example::tile().unwrap();
        let tile = image::load_from_memory(&png).unwrap().into_luma8();
        assert_eq!(tile.dimensions(), (512, 512));
        // The pixel in column x and row z shows the voxel x, 3, z; beyond the volume it is black.
        assert_eq!(tile.get_pixel(20, 10).0, [20 + 3 + 10]);
        assert_eq!(tile.get_pixel(100, 10).0, [0]);
    }
}
