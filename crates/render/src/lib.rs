//! Rendering: turns a plan into the bytes of a PNG, in pure steps.
//!
//! slice → downsample → window → colour → encode. The steps work on buffers and numbers; they know
//! no cache, settings or names. Voxels come from the plan's volumes. Buffers are in a [`Scratch`],
//! which is reused for every tile: page faults on fresh memory cost more than most of the steps.

mod composite;
mod cutout;
mod downsample;
mod drawing;
mod encode;
mod mask;
mod overview;
pub mod plan;
mod slice;
mod visible;
mod window;

pub use cutout::{cached as cached_box, cutout, imagej_has};
pub use drawing::{RenderError, Scratch, black, draw, render};
pub use encode::{EncodeBuffers, EncodeError, PngEncoder, encode};
pub use overview::overview;
pub use visible::visible;
