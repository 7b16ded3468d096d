//! Boxes of voxels from HDF5 files, read and decoded by many threads at once.
//!
//! libhdf5 does one thing at a time for a whole process. Here it only opens files, follows links,
//! reads types and lists the addresses of chunks; chunks are read and decoded outside of its lock,
//! each once for all reads that want it, and cached. Files may lie in object storage.
//!
//! - [`volume`]: the trait [`volume::Volume`], from which boxes are read; stacks, series and
//!   further volumes made of volumes.
//! - [`volume::hdf5`]: the datasets of HDF5 files.
//! - [`store`]: ranges of bytes of objects in object storage and on web servers, all of the same
//!   version of the object.
//!
//! # Example
//!
//! ```no_run
#![doc = include_str!("../examples/read_box.rs")]
//! ```
//!
//! # Invariants
//!
//! - **No lock is held while chunks are read or decoded**, except libhdf5's own for work that only
//!   it can do. (Opening a file, and reading a dataset's chunk index, happens once, under a lock of
//!   the file or of the index.)
//! - **No box is made from two generations of a file**: every read is followed by a check of length
//!   and modification time (`volume::hdf5::bytes`), also the reads of libhdf5, which uses a file
//!   driver of ours. Files that grow are the exception: more may be appended between the moment at
//!   which the addresses of chunks are listed and the moment at which the chunks are read. But a
//!   growing file that was written anew counts as changed (`volume::hdf5::file`).
//! - **libhdf5 opens no other file by itself**: paths are followed step by step, and the target of
//!   each link must lie below the file's own folder. Sources of virtual datasets, and links on the
//!   way to them, are audited, and the file driver opens only the files that they lead to.
//!   (External raw files of such a source are the exception: libhdf5 opens them by name; they are
//!   audited, and their lengths and modification times are compared before and after each read.)
//! - Waiting for a chunk cannot deadlock: the leader of a chunk's flight reads and decodes, and
//!   waits at most for the chunk's stored bytes, which the threads of the store fetch.
//! - A file that shrinks while it is mapped raises SIGBUS in the thread that copies from it;
//!   `volume::hdf5::mapping` turns that into an error of one read. It and `volume::hdf5::library`
//!   hold all `unsafe` code.
//!
//! # Locks
//!
//! A thread that holds a lock of this list takes only locks after it:
//!
//! 1. The slot of a file, while the file is opened (`volume::hdf5::file`). A thread that holds it
//!    may take the lock under which whole files are read in turn (`volume::hdf5::digests`); it
//!    stops waiting for its turn if the file that is being read does not answer.
//! 2. The chunk index of a dataset, while it is read (`volume::hdf5::index`); and the datasets that
//!    an open file keeps, while one is added (`volume::hdf5`).
//! 3. libhdf5's own lock (`volume::hdf5::library_lock`). Copying or dropping a handle takes it,
//!    too. libhdf5's file driver reads files and objects under it, and waits for the answers of
//!    stores, whose threads take only locks of the last kind.
//! 4. The locks of the files and datasets that are open in libhdf5 (`volume::hdf5::handles`). Their
//!    type allows them to be taken only under libhdf5's lock: a thread that waited for libhdf5's
//!    lock while it held one of these could deadlock.
//! 5. All others. They are held only to read or change a value, and nothing else is locked
//!    meanwhile, with these exceptions. The list of open files is held while slots are locked that
//!    no other thread uses. The list of objects known to a store (`store`) is held while the states
//!    of servers and objects are locked. The list of buckets (`store::connections`), and the lock
//!    under which the credentials of a bucket are renewed (`store::bucket`), are held while clients
//!    are made.
//!
//! # Limits
//!
//! - A volume has at most the axes t, c, z, y and x; one time point and channel are read at a time.
//! - Chunks that would exceed a quarter of the cache at 8 bytes per voxel are read box by box
//!   through libhdf5.
//! - Files exist that crash libhdf5, which is C. The program voltile opens each file in a child
//!   process first; this crate does not.
//!
//! # State
//!
//! These statics and thread-locals are the exceptions to the rule that state is passed down:
//!
//! - `volume::hdf5::library::driver`: `DRIVER`, which libhdf5 registers once for each process.
//!   `volume::hdf5::admission`: `KNOWN` and `NEXT`, because libhdf5's property lists hold only a
//!   number, by which the driver finds the files that it may open.
//! - `volume::hdf5::mapping`: `WATCHED`, `PAGE`, `BEFORE` and `INSTALLED`. The handler of SIGBUS
//!   belongs to the process, and gets no arguments.
//! - Memory that a thread reuses: `volume::hdf5::reused_buffer`: `BUFFER`;
//!   `volume::hdf5::bytes::read_buffer`: `BUFFERS`; `volume::hdf5::filters::zstd`: `DECODER`.

// This page is for readers of the code: it links to private modules too.
#![allow(rustdoc::private_intra_doc_links)]

pub mod store;
pub mod volume;

#[cfg(test)]
extern crate self as voltile_hdf5;

#[cfg(test)]
#[path = "../examples/read_box.rs"]
mod example;

#[cfg(test)]
mod tests {
    use super::example;

    #[test]
    fn the_example_on_the_first_page_reads_a_slice() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/levels.h5");
        let rows = example::first_slice(file, "/s0").unwrap();
        assert_eq!((rows.len(), rows[0].len()), (24, 40));
        let error = example::first_slice(file, "/s9").unwrap_err();
        assert_eq!(error.to_string(), "there is no dataset /s9");
    }
}
