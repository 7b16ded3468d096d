//! Stories: tests of the whole program, against the real binary and real files. Each module tells
//! of one part of it.
//!
//! All of them are one binary, so that libhdf5 is linked once. `cargo test --test stories tier::`
//! runs one module.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step fails the story"
)]

mod common;

mod access;
mod adjust;
mod answers;
mod bad_files;
mod bench;
mod cache_directory;
mod checksums;
mod configuration;
mod confinement;
mod connections;
mod damage;
mod descriptions;
mod discovery;
mod events;
mod fairness;
mod faults;
mod fixtures;
mod formats;
mod forms;
mod generations;
mod headers;
mod hosts;
mod house;
mod http;
mod indexes;
mod inspect;
mod jpegs;
mod labels;
mod layouts;
mod layouts_genuine;
mod layouts_more;
mod links;
mod listening;
mod live;
mod load;
mod makers;
mod manual;
mod memory;
mod notices;
mod observing;
mod openapi;
mod packages;
mod page;
mod paths;
mod placement;
mod precomputed;
mod process;
mod pyramid;
mod reach;
mod references;
mod registered;
mod reload;
mod remote;
mod replicas;
mod scrolling;
mod shards;
mod simd;
mod slabs;
mod spread;
mod stalls;
mod tier;
mod turnover;
mod view;
mod viewers;
mod visible;
mod voxels;
mod warm;
mod zarr;
