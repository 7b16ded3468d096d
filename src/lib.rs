//! voltile serves tiles straight from raw HDF5 volumes: every slice, in three planes, as 512×512
//! PNGs.
//!
//! This page is the map of the code. The program `voltile` is a thin front to this library.
//!
//! # Crates
//!
//! A crate names only crates above it in this list; each one's first page says what it is for.
//!
//! - [`voltile_base`] (`crates/base`): geometry, plain values, single-flight caches, metrics.
//! - [`voltile_hdf5`] (`crates/hdf5`): boxes of voxels from HDF5 files, and the object stores that
//!   hold HDF5 files; the only crate that names `object_store`.
//! - [`voltile_render`] (`crates/render`): turns plans into PNGs; knows volumes, no files, no
//!   settings.
//! - `voltile_demo` (`crates/demo`): draws the demo volume, and writes it with the `hdf5` crate.
//! - `voltile`, this one: the program.
//!
//! # Modules
//!
//! A module of this crate names only modules in rows below its own.
//!
//! ```text
//! 7  cli       the commands: serve · inspect · render · pyramid · warm · check · bench · cache · config · man ·
//!              completions; the only module that names `anyhow` and `clap`
//! 6  tools     the work of the larger commands: warm · pyramid · bench · the functions behind the fuzz targets
//! 5  http      paths in, tiles out: headers, ETag, CORS; the status of each kind of error, in one table · documents, each
//!              built once · the page · boxes of voxels, Neuroglancer precomputed, OME-Zarr · connections: one request at a time
//!              on each, timeouts · TLS, Unix sockets, sockets of the service manager
//! 4  service   TileService: plan, then fetch; the boundary between async code and the render threads · the render queue ·
//!              the reconciler: opens, reopens and closes datasets until they are what the settings ask for · verifying chunks
//!              while idle · prefetching
//! 3  catalog   Token → Dataset → Channel, opened from settings; a request becomes a key and a plan · access: who may see what ·
//!              names of labels
//! 2  layout    the file layouts of programs and instruments: Imaris, BigDataViewer, ilastik, …, and plain files
//! 2  tier      encoded tiles outside of memory, backends in order: a directory kept to a budget (the disk cache) · Redis ·
//!              object storage
//! 2  confine   takes from the child process that tries files the rights that it does not need; the only module that names
//!              `landlock` and `seccompiler`
//! 1  config    reads and checks the configuration: settings, or every fault at once
//! ```
//!
//! A test (`tests/stories/house.rs`) compares these rows with the code.
//!
//! The page's own code is `src/page` (TypeScript), bundled by `build.rs` into what [`http`] serves.
//!
//! # Words
//!
//! - *token*: the name of a dataset in URLs. *Channel*: one scalar, label or RGB volume of it.
//!   *Plane*: xy, xz or yz.
//! - *level*: a resolution; level 0 is full. A level is *stored*, or *derived* from the nearest
//!   finer stored one.
//! - *box*: a cuboid of voxels; *patch*: the part of a tile that lies inside the volume.
//! - *chunk*: the unit in which HDF5 stores and compresses. *Prefix decode*: decoding a chunk only
//!   up to the last voxel wanted. *Finishing*: decoding the rest of the chunk later, which verifies
//!   its checksum.
//! - *flight*: the making of a value, once for all requests that wait for it (single-flight); it
//!   *lands* when the value is there.
//! - *live*: of a dataset whose file is being written in SWMR mode. *Final*: of voxels that will not
//!   change when more is appended to their file.
//! - *generation*: the state of a file between two changes. *Reopening*: replacing a dataset by its
//!   next generation.
//! - *trial*: opening a file in a child process before the server opens it. *Tier*: a store of
//!   encoded tiles outside of memory: the *disk cache*, a directory; or a cache that several servers
//!   share.
//! - *neighbours*: the slices next to one that was asked for, rendered ahead (prefetched).
//!
//! # One request
//!
//! The page `docs/architecture.md` follows a tile, a chunk and a cache hit by the names of
//! functions. In short: [`http`] parses a path to a [`voltile_base::request::TileRequest`];
//! [`service::TileService::plan`] resolves it in the [`catalog`] to a [`catalog::RequestPlan`]:
//! channels, levels, a [`voltile_base::geometry::Patch`], and a [`voltile_base::tile::TileKey`], a
//! digest of everything that decides the bytes; [`service::TileService::fetch`] looks the key up in
//! the [cache](voltile_base::flow::cache), which answers *ready*, *wait* (another request makes the
//! tile), or *lead* (this request makes it). The leader looks for the tile in the tiers ([`tier`]).
//! If they lack it, its chunks are fetched ([`voltile_hdf5::store`]), and it enters the render
//! queue, in which clients take turns; then [`voltile_render::render`] reads boxes of voxels from
//! volumes ([`voltile_hdf5::volume`]), windows, colours and encodes them; then the flight lands, and
//! the tile is written to the tiers once all of its chunks are verified. While the render threads
//! are idle, chunks that were decoded in part are finished, which verifies their checksums, and
//! neighbours are rendered. A corrupt chunk evicts its tiles: they are errors until the file is
//! repaired.
//!
//! # Invariants
//!
//! - **No async thread waits for a file.** Voxels are read on the render threads; checks for changed
//!   files, and lookups in the tiers, run on threads for blocking work. One exception: a stored
//!   chunk that can be sent undecoded is read on an async thread if it is in the page cache. The
//!   render queue is bounded.
//! - **No tile is made from two generations of a file**, see [`voltile_hdf5`]. While a dataset is
//!   live, voxels that are not final enter no cache ([`voltile_hdf5::volume::Volume::is_final`]).
//! - **No number from a URL is used as an index** before a [`voltile_base::geometry::Patch`] has
//!   clipped it to a level.
//! - **The renderer knows no names, settings or caches**, and `config` opens no files.
//! - **No file is opened before a child process has opened it and survived**, unless `files.trial =
//!   "off"`: files exist that crash libhdf5. [`catalog::Catalog::open_each`] waits for the trials,
//!   which the command line runs (`cli::probe`, [`catalog::Trial`]); programs that use this library
//!   directly open files without one.
//! - **Errors are not cached**, and a flight that panics frees its key.
//! - **A cache directory may be shared**: several processes use it, people copy and remove what is
//!   in it, and a killed process leaves a tile there whole or not at all. Entries are checked when
//!   they are read. One process evicts.
//!
//! # State
//!
//! State is in values that are made once and passed down. Each crate's first page lists the
//! exceptions (a test compares the lists with the code); of this one:
//!
//! - `service::work`: `SCRATCH`, memory that a render thread reuses.
//!
//! # Memory
//!
//! `docs/sizing.md` says how the memory is divided, and what is not counted; `config::memory`
//! divides it.
//!
//! # Concurrency
//!
//! A key's state changes under one lock: a flight ends, its value is cached and its waiters are
//! removed in one step. When the last waiter has left, a check under the same lock decides whether
//! the flight ends, so that nobody can join a flight that has been abandoned; then its work is
//! dropped. Dropping its future is how work is given up: that takes a queued job out of the queue,
//! and before each chunk a running render checks without a lock whether its future is still there.
//! Waiting for a chunk on a render thread cannot deadlock: the leader of a chunk's flight reads and
//! decodes, and waits at most for the stored bytes of the chunk, which the threads of the store
//! fetch. The catalogue in force is replaced as a whole; a request keeps the one that it started
//! with.
//!
//! The locks of [`service`] and [`voltile_base::flow`], and what is taken under them (besides
//! tokio's own locks):
//!
//! ```text
//! flow::stalls      the list of watched threads    each thread's file
//! flow::activity    the helpers                    all locks that decoding takes; it is only tried, never waited for
//! service::boxes    a client's turn                the memory for boxes
//! ```
//!
//! No lock is taken under the other locks, which guard a cache's keys, a bounded queue, a breaker,
//! the queues of turns, the chunks to verify, the neighbours and the neighbours being fetched, the
//! problems of parts, and the report of openings. No job and no future of a job is dropped under a
//! lock.
//!
//! A thread that waits for a file system that does not answer cannot be interrupted.
//! [`voltile_base::flow::stalls`] tells which files are stuck; reads of them fail at once, requests
//! that wait for them are answered, and [`service::RenderPool`] replaces the threads. Work on other
//! files never waits for such a thread:
//!
//! - The thread of a job or of idle work does nothing else meanwhile, and there are at most as many
//!   of these threads as can be replaced.
//! - Only one job at a time shares its work with the helpers.
//! - Waiting for libhdf5's lock ends when the file of the lock's holder is found to be stuck. All
//!   other threads of a server that may hold this lock are watched too: they reopen files, reload,
//!   build documents and read tables of names.
//!
//! A thread that waits for a store is replaced as well.
//!
//! `unsafe` code is only in `voltile_hdf5`, in the macro of `voltile_base::simd`, in `cli`,
//! `cli::limits` and `http::listen::sockets`.

// These macros panic if writing fails: `cli::output` and `cli::log` print instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]
// This page is for readers of the code: it links to private modules too.
#![allow(rustdoc::private_intra_doc_links)]

pub mod catalog;
pub mod cli;
pub mod config;
pub mod confine;
pub mod http;
pub mod layout;
pub mod service;
pub mod tier;
pub mod tools;
