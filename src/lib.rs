//! voltile serves tiles straight from raw HDF5 volumes: every slice, in three planes, as 512×512 PNGs.
//!
//! This page is the map of the house. The program `voltile` is a thin front to this library.
//!
//! # The rooms
//!
//! A module names only modules in rows below its own.
//!
//! ```text
//! 8  cli       serve · inspect · render · pyramid · warm · check · verify · bench · cache · config: what a person types; the
//!              only room that knows `anyhow`
//! 7  http      paths in, tiles out: headers, ETag, CORS; one table from kind of error to status · the page · connections:
//!              one request at a time of each, time limits, and how many there may be
//! 7  warm      every tile of a selection, in an order that decodes each chunk once; asked of a server, or drawn here
//! 6  service   TileService: identify, then fetch; the seam between the async side and the render threads
//! 6  bench     tiles drawn here or had from a server, by the clock: stages, percentiles, what limits
//! 6  pyramid   levels that a file lacks, made once and stored: in pieces that outlive a kill, then in one HDF5 file
//! 5  catalog   Token → Dataset → Channel; opened once from settings; a request becomes a key and a plan
//! 4  render    slice → downsample → window → composite → encode: pure steps over buffers
//! 4  layout    what the makers of a file meant: Imaris, BigDataViewer, ilastik, …; plain takes the rest · inventory:
//!              what files that voltile wrote say of themselves
//! 3  plan      what to read and how to paint it: the renderer's only input
//! 2  request   a well-formed request, not yet known to exist: all three URL forms end here
//! 2  volume    trait Volume; hdf5 (the only place that names the crate): links, chunks, filters; an in-memory twin
//! 2  tier      encoded tiles for longer than memory: trait TileTier; a directory of files, kept to a budget
//! 1  cache     absent | in flight | ready in one structure; least recently used by bytes
//! 1  config    as typed → as meant: settings, or every fault at once          1  tile   TileKey, Tile
//! 1  verify    what viewers do, played from outside against a running server
//! 0  geometry  Plane, Level, Region, Patch: all coordinate arithmetic
//! 0  color · paint · name · axes · units · metrics · crew        demo: a volume to look at, made at first use
//! 0  connection: requests over one kept connection, for who asks so often that asking must cost little
//! ```
//!
//! (What the page does in a browser is not Rust: `src/page`, bundled by `build.rs` into what [`http`] serves.)
//! (`config` refuses tokens that the URL grammar keeps for itself, whose names it takes from `request`.)
//!
//! # One request
//!
//! `GET /ndtilecache/tilecache/kasthuri11/image/xy/5/1_2_0.png`
//!
//! 1. [`http`] hands the raw path to [`request::TilePath`], which splits it and reads a [`request::TileRequest`]:
//!    names, numbers and a [`geometry::TileAddress`]. What is malformed is a 404 with a reason.
//! 2. [`service::TileService::identify`] has the [`catalog`] resolve it. Unknown names are 404s. Each channel's level is
//!    had from a stored one ([`geometry::LevelView`]), and the part of the tile that lies inside is its
//!    [`geometry::Patch`]. A tile without any is one of two shared black images.
//! 3. The [`tile::TileKey`] is a digest of everything that decides the bytes; it is the ETag. A client that names it
//!    gets 304, and nothing was read.
//! 4. [`service::TileService::fetch`] asks the [`cache`]: *ready*, *wait*, or *lead*. A leader has its [`plan::Plan`]
//!    put into the render queue, in which clients take turns. Where there is a second [`tier`] the job looks there first, and lands with what it finds. Else
//!    [`render::render`] asks each volume for boxes of voxels.
//! 5. An HDF5 volume copies voxels without filters from the file as it is mapped into memory. Other chunks come from the
//!    chunk store: decoded before, being decoded by another thread, or read at their position in the file and decoded
//!    now, as far as they are wanted; whole for who is going to want everything ([`warm`]), or if `render.verify` is
//!    "always". What we do not decode goes through the library.
//! 6. Voxels are averaged where the level is not stored, windowed, coloured, encoded. The flight lands: the tile is in
//!    the cache and all who waited have it. A thread of the second tier writes it to the disk behind them.
//! 7. While the render threads are idle, chunks that were decoded in part are decoded whole, which compares their
//!    checksums. Then the slices beside this one are rendered ahead, each on one thread. Both give way between two chunks
//!    as soon as anything is asked for. A tile goes to the second tier only once all of its chunks are verified. A chunk
//!    that is found corrupt takes its tiles out of every cache: they are errors until the file is mended.
//!
//! # What is deliberately absent
//!
//! - **No lock is held while chunks are read or decoded**, except the HDF5 library's own for what only it can do. (A file
//!   is opened, and the list of a dataset's chunks taken, under a lock of theirs: once.)
//! - **No async thread ever reads a file.** All reading happens on the pool; the queue before it is bounded.
//! - **No number from a URL is used as an index** before a [`geometry::Patch`] has put it within a level.
//! - **The renderer knows no names, settings or caches**, and `config` opens no files.
//! - **A voxel's type is matched on in `volume::samples`**, and where it meets the types of the HDF5 library; everything
//!   else is generic over [`volume::Voxel`].
//! - **A link out of a file is not followed by the library**: we follow paths step by step, and ask each time whether
//!   the target lies below the file's own folder. What virtual datasets open by themselves is audited before they are
//!   read, and refused where the audit is in doubt.
//! - **No file is opened before a child process has opened it and survived**, unless `files.trial = "off"` says so: files
//!   exist that crash the HDF5 library. The command line runs the trials (`cli::probe`, [`catalog::Trial`]); programs that
//!   use this library directly open files without one.
//! - **Errors are not cached**, and a flight that panics frees its key.
//! - **Nothing relies on a cache directory being ours alone**: several processes use it, people copy and remove what is in
//!   it, and whoever is killed leaves a tile there whole or not at all. What is read is checked first.
//!
//! # Memory
//!
//! The two cache budgets (`cache.tiles`, `cache.chunks`), and for each render thread some 8 MiB, 14 at most: a block of
//! stored voxels (512 KiB, 2 MiB where it is decoded anew), sums of one patch (2 MiB, 4 MiB for 64-bit voxels) and its
//! voxels (up to 2 MiB), pixels and the encoder's buffers (2 MiB), one chunk as it is stored and one that is not kept
//! any more (up to 2 MiB of each); and chunks that are copied from while the cache lets them go (2 MiB). Chunks larger
//! than a quarter of the chunk budget are read box by box through the library, which holds one such chunk meanwhile. A
//! chunk index takes 24 bytes a chunk, and up to 16 MiB while it is checked. Up to 65,536 chunks wait to be finished, some
//! 200 bytes each. Mapped files take addresses, not memory: their pages are the system's cache. Taking a channel's sample
//! holds up to 2^21 voxels once (three times as many for RGB). Tiles that wait to be written to the disk cache take at most
//! 32 MiB, those whose chunks have yet to be verified as much again, and its sweep a few MiB for ten million tiles. Log
//! lines that wait to be written take 1 MiB. The picture of a whole slice takes up to 12 MiB more while it is put
//! together. A connection takes less than 1 MiB besides the tile that is being sent to it: requests that a client has
//! pipelined stay in the system's buffers until the one before has been answered.
//!
//! Making pyramids is not bounded by the render threads' share: see [`pyramid`].
//!
//! # Races, and why they are none
//!
//! A key's state changes under one lock: a flight ends, its value is kept and its waiters are told in one step. A job
//! that begins asks under the same lock whether anybody still waits, so that nobody can join a flight that has been
//! given up. Waiting for a chunk on a render thread cannot deadlock: whoever leads a chunk's flight only reads and
//! decodes, and never waits for another flight.
//!
//! A file that shrinks while it is mapped raises a signal in whoever copies from it; `volume::hdf5::mapping` says how
//! that becomes an error of one tile. It and `volume::hdf5::library` hold all `unsafe` code, but for one call in
//! `cli::limits`.

// They panic where it cannot be written: `cli::output` and `cli::log` print instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod axes;
pub mod bench;
pub mod cache;
pub mod catalog;
pub mod cli;
pub mod color;
pub mod config;
pub mod connection;
pub mod crew;
pub mod demo;
pub mod geometry;
pub mod http;
pub mod layout;
pub mod metrics;
pub mod name;
pub mod paint;
pub mod plan;
pub mod pyramid;
pub mod render;
pub mod request;
pub mod service;
pub mod tier;
pub mod tile;
pub mod units;
pub mod verify;
pub mod volume;
pub mod warm;
