//! Each stage separately, and whole tiles of each layout: what `voltile bench` reports for a file, for
//! generated ones.
//!
//! A path is parsed to a request, a request resolved to a plan (`request`); a chunk is decoded, each filter
//! compared with its limit (`chunk`, `unshuffle`); voxels in memory are drawn (`draw`); a tile is found in
//! the cache, or drawn and encoded from files of each layout (`tile cold`, `tile kept`), or from named files
//! (`file cold`, `file kept`). Encoders are in `encode`, slices in `slicing`.

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
#[path = "stages/files.rs"]
mod files;
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
    layouts::tiles,
    files::files
);
criterion_main!(benches);
