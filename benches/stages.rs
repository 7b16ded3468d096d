//! Each stage by itself, and whole tiles of each layout, on generated files. `voltile bench`
//! measures the same on a user's file.
//!
//! Groups: parse a path, resolve the request, get a tile from the cache (`request`); decode a
//! chunk, each filter compared with its limit (`chunk`, `unshuffle`); draw voxels in memory
//! (`draw`); draw and encode tiles from files of each layout (`tile cold`, `tile kept`). Encoders
//! are in `encode`, slices in `slicing`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark is read, not called, and may panic with a message"
)]

#[path = "stages/chunks.rs"]
mod chunks;
#[path = "common/mod.rs"]
mod common;
#[path = "stages/drawing.rs"]
mod drawing;
#[path = "stages/layouts.rs"]
mod layouts;
#[path = "stages/requests.rs"]
mod requests;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    requests::requests,
    chunks::filters,
    chunks::unshuffling,
    drawing::drawing,
    layouts::tiles
);
criterion_main!(benches);
