//! voltile serves tiles straight from raw HDF5 volumes: every slice, in three planes, as 512×512
//! PNGs.
//!
//! This page is the map of the code. The program `voltile` is a thin front to this library.
//!
//! # Modules
//!
//! A module names only modules in rows below its own.
//!
//! ```text
//! 11  cli       the commands: serve · inspect · render · pyramid · warm · check · bench · cache · config · man ·
//!               completions; the only module that names `anyhow` and `clap`
//! 10  tools     what the other commands do: warm · pyramid · bench · the demo volume · the functions behind the fuzz targets
//! 9   http      paths in, tiles out: headers, ETag, CORS; one table from kind of error to status · documents, each built once
//!               · the page · boxes of voxels, Neuroglancer precomputed, OME-Zarr · connections: one request at a time on each,
//!               timeouts · TLS, Unix sockets, sockets of the service manager
//! 8   service   TileService: identify, then fetch; the boundary between async code and the render threads · the render queue ·
//!               reloading, reopening changed files, trials of new ones · verifying chunks while idle · prefetching
//! 7   catalog   Token → Dataset → Channel, opened from settings; a request becomes a key and a plan · access: who may see what ·
//!               names of labels
//! 6   layout    the file layouts of programs and instruments: Imaris, BigDataViewer, ilastik, …, and plain files
//! 6   render    plan: what to read and how to paint it · slice → downsample → window → composite → encode
//! 5   volume    trait Volume; hdf5: files, links, chunks, filters; an in-memory volume for tests
//! 5   tier      encoded tiles outside of memory, backends in order: a directory kept to a budget (the disk cache) · Redis ·
//!               object storage
//! 5   confine   the child process that tries files gives up what it does not need; the only module that names `landlock`
//!               and `seccompiler`
//! 4   config    as typed → as meant: settings, or every fault at once
//! 3   store     objects in object storage and on web servers: their addresses, and their bytes by range, of one version; the
//!               only module that names `hyper_util` and `object_store`
//! 2   metrics   what the server counts and measures, in the OpenMetrics text format
//! 1   base      plain values: names, colours, axes, what to paint, addresses of tiles, requests, the JSON of /datasets.json
//! 0   geometry  Plane, Level, Region, Patch: all coordinate arithmetic
//! 0   flow      of work: values made once for all who wait (cache) · services that fail (breaker) · file systems that do not
//!               answer (stalls) · bounded queues (queue) · what a request did (trace) · when background work may run (activity)
//! ```
//!
//! A test (`src/map_tests.rs`) compares these rows with the code.
//!
//! The page's own code is `src/page` (TypeScript), bundled by `build.rs` into what [`http`] serves.
//! `tools::demo` writes its volume with the `hdf5` crate.
//!
//! # Words
//!
//! - *token*: the name of a dataset in URLs. *Channel*: one scalar, label or RGB volume of it.
//!   *Plane*: xy, xz or yz.
//! - *level*: a resolution; level 0 is full. A level is *stored*, or *derived* from the nearest
//!   finer stored one.
//! - *box*: a cuboid of voxels; *patch*: the part of a tile that lies inside the volume.
//! - *chunk*: the unit in which HDF5 stores and compresses. *Prefix decode*: decoding a chunk only
//!   up to the last voxel wanted. *Finishing*: decoding the rest of it later, which verifies its
//!   checksum.
//! - *flight*: the making of a value that others wait for (single-flight); it *lands* when the
//!   value is there.
//! - *live*: of a dataset whose file is being written in SWMR mode. *Final*: of voxels that
//!   appending to it does not change.
//! - *generation*: the state of a file between two changes. *Reopening*: replacing a dataset by its
//!   next generation.
//! - *trial*: opening a file in a child process first. *Tier*: a store of encoded tiles outside of
//!   memory: the *disk cache*, a directory; or a cache that several servers share.
//! - *neighbours*: the slices next to one that was asked for, rendered ahead (prefetched).
//!
//! # One request
//!
//! The page `docs/architecture.md` follows a tile, a chunk and a cache hit by the names of
//! functions. In short: [`http`] parses a path to a [`base::request::TileRequest`];
//! [`service::TileService::identify`] resolves it in the [`catalog`] to channels, levels and a
//! [`geometry::Patch`], and to a [`base::tile::TileKey`], a digest of everything that decides the
//! bytes; [`service::TileService::fetch`] asks the [cache](flow::cache): *ready*, *wait*, or
//! *lead*. What a leader wants is looked for in the tiers ([`tier`]) and fetched from its store
//! ([`store`]); then it enters the render queue, in which clients take turns; then
//! [`render::render`] reads boxes of voxels from volumes ([`volume`]), windows, colours and encodes
//! them; then the flight lands, and the tile is kept in the tiers once all of its chunks are
//! verified. While the render threads are idle, chunks that were decoded in part are finished,
//! which verifies their checksums, and neighbours are rendered. A corrupt chunk evicts its tiles:
//! they are errors until the file is repaired.
//!
//! # Invariants
//!
//! - **No lock is held while chunks are read or decoded**, except libhdf5's own for what only it
//!   can do. (A file is opened, and a dataset's chunk index read, under a lock of their own: once.)
//! - **No async thread reads a file.** Voxels are read on the render threads; checks for changed
//!   files, and lookups in the tiers, run on threads for blocking work. The render queue is
//!   bounded.
//! - **No tile is made from two generations of a file**: every read is followed by a check of
//!   length and modification time (`volume::hdf5::bytes`), also those of libhdf5, which reads
//!   through a file driver of ours. Files that grow are the exception: of these, the chunks that
//!   one state of the chunk index names are read as they are now, unless the file was written anew
//!   (`volume::hdf5::file`). While a dataset is live, what is not complete yet enters no cache
//!   ([`volume::Volume::is_final`]).
//! - **No number from a URL is used as an index** before a [`geometry::Patch`] has clipped it to a
//!   level.
//! - **The renderer knows no names, settings or caches**, and `config` opens no files.
//! - **libhdf5 opens no other file by itself**: paths are followed step by step, and the target of
//!   each link must lie below the file's own folder. Sources of virtual datasets, and links on the
//!   way to them, are audited, and the file driver opens the files that they lead to and no others.
//!   (External raw files of such a source are the exception: libhdf5 opens them by name; they are
//!   audited, and compared before and after each read.)
//! - **No file is opened before a child process has opened it and survived**, unless `files.trial =
//!   "off"`: files exist that crash libhdf5. The command line runs the trials (`cli::probe`,
//!   [`catalog::Trial`]); programs that use this library directly open files without one.
//! - **Errors are not cached**, and a flight that panics frees its key.
//! - **A cache directory may be shared**: several processes use it, people copy and remove what is
//!   in it, and a killed process leaves a tile there whole or not at all. Entries are checked when
//!   they are read. One process evicts.
//!
//! # State
//!
//! State is in values that are made once and passed down. These statics and thread-locals are the
//! exceptions (a test compares them with the code):
//!
//! - `base::simd`: `PATH`, the instructions of this processor, detected once.
//! - `volume::hdf5::library::driver`: `DRIVER`, which libhdf5 registers once for each process.
//!   `volume::hdf5::admission`: `KNOWN` and `NEXT`, because libhdf5's property lists hold only a
//!   number, by which the driver finds the files that it may open.
//! - `volume::hdf5::mapping`: `WATCHED`, `PAGE`, `BEFORE` and `INSTALLED`. The handler of SIGBUS
//!   belongs to the process, and gets no arguments.
//! - `flow::stalls`: `THREAD`, what this thread reads, noted also by libhdf5's driver, whose
//!   functions get no arguments of ours.
//! - Memory that a thread reuses: `service::drawing`: `SCRATCH`; `volume::hdf5::reused_buffer`:
//!   `BUFFER`; `volume::hdf5::bytes::fetched`: `BUFFER`; `volume::hdf5::bytes::cached`: `BUFFERS`;
//!   `volume::hdf5::filters::zstd`: `DECODER`.
//!
//! # Memory
//!
//! Three budgets, `cache.tiles`, `cache.chunks` and `render.boxes` (boxes of voxels being made or
//! sent: each counts three times while it is made; 32 MiB more if its level is derived), divided by
//! `config::memory` where they are not set. For each render thread about 8 MiB, 14 at most (16 for
//! 64-bit floats), twice if it has to be replaced: a block of stored voxels (512 KiB; 2 MiB if it
//! is not cached), sums of one patch (2 MiB; 4 MiB for 64-bit integers, 6 MiB for 64-bit floats)
//! and its voxels (up to 2 MiB), pixels and the encoder's buffers (2 MiB), one stored chunk and one
//! decoded chunk that is not cached (up to 2 MiB each), and chunks that are copied from after the
//! cache has evicted them (2 MiB). While files are stuck there are up to twice as many render
//! threads. As many helpers, which decode chunks for a lone tile, hold a stored and a decoded chunk
//! each. Chunks that would exceed a quarter of the chunk budget at 8 bytes per voxel are read box
//! by box through libhdf5, which holds one of them at a time.
//!
//! For files in stores: 128 MiB of stored chunks that were fetched, up to 4 MiB (or one longer
//! chunk) for each of 64 requests in flight to a server, and up to 128 MiB of metadata of each
//! file.
//!
//! Besides: 24 bytes for each chunk of an index, and up to 16 MiB while the index is checked; up to
//! 2^21 voxels while a channel is sampled (three times as many for RGB); 32 MiB on each render
//! thread that computes the range of what is visible; 32 MiB of tiles that wait to be written to
//! each tier, 32 MiB of tiles whose chunks are not yet verified, and of the list of these chunks;
//! 12 MiB for each eviction from the disk cache; 2,048 log lines; about 3 MiB for each of eight
//! connections to Redis; up to 12 MiB for an overview of a slice; 64 MiB of documents; a quarter of
//! `render.boxes` for tables of names, and as much for one that is being read; less than 1 MiB for
//! each connection besides the tile being sent (pipelined requests stay in the system's buffers),
//! and 128 KiB in the system's buffers for each whose client reads nothing; 20 KiB for each idle
//! dataset of one channel, and half a MiB for each of the 8 files that stay open in libhdf5. Mapped
//! files take addresses, not memory. Making pyramids has limits of its own: see [`tools::pyramid`].
//!
//! # Concurrency
//!
//! A key's state changes under one lock: a flight ends, its value is cached and its waiters are
//! woken in one step. A job that starts checks under the same lock whether anybody still waits, so
//! that nobody can join a flight that has been abandoned. Before each chunk, a running render
//! checks without a lock whether anybody waits. If nobody does, it ends, and the check under the
//! lock decides whether it begins again for a request that has joined since. Waiting for a chunk on
//! a render thread cannot deadlock: the leader of a chunk's flight only reads and decodes, and
//! never waits for another flight. The catalogue in force is replaced as a whole; a request keeps
//! the one that it started with.
//!
//! A thread that waits for a file system that does not answer cannot be interrupted.
//! [`flow::stalls`] tells which files are stuck; reads of them fail at once, requests that wait for
//! them are answered, and [`service::RenderPool`] replaces the threads. Nothing of another file
//! waits for such a thread: jobs and idle work run on threads that take up nothing else meanwhile,
//! together at most as many as are replaced, only one job at a time splits its work over the
//! helpers, and libhdf5's lock is waited for no longer than its holder's file answers. All other
//! threads of a server that may have this lock are watched too: those that reopen files, reload,
//! build documents and read tables of names.
//!
//! A file that shrinks while it is mapped raises SIGBUS in the thread that copies from it;
//! `volume::hdf5::mapping` turns that into an error of one tile. It and `volume::hdf5::library`
//! hold all `unsafe` code, but for the calls in the macro of `simd`, one in `cli`, those in
//! `cli::limits` and one in `http::listen::sockets`.

// These macros panic if writing fails: `cli::output` and `cli::log` print instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]
// This page is for those who read the code: it links to private modules too.
#![allow(rustdoc::private_intra_doc_links)]

pub mod base;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod confine;
pub mod flow;
pub mod geometry;
pub mod http;
pub mod layout;
pub mod metrics;
pub mod render;
pub mod service;
pub mod store;
pub mod tier;
pub mod tools;
pub mod volume;

#[cfg(test)]
mod map_tests;
