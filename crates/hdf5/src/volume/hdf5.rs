//! Volumes in HDF5 files. In this crate, only this module and those below it name the `hdf5` crate.
//!
//! The library opens files, follows hard links, reads types and layouts, and lists the addresses of
//! chunks. Chunks are then read and decoded by voltile's own threads, outside the library's global
//! lock, if voltile supports their filters; other filtered data is read through the library, which
//! is slower. Decoded chunks are cached; all volumes share the cache. Unfiltered data, contiguous
//! or chunked, is copied from the memory-mapped file, and external raw files are read directly.
//! Compact and virtual data is always read through the library.
//!
//! All bytes come through `bytes::FileBytes`, also the bytes that the library reads. They are used
//! only if the file is unchanged since it was opened. `admission` lists the files that the library
//! may open.

mod admission;
mod attributes;
mod beginning;
mod bytes;
mod chunks;
mod dataset;
mod digests;
mod error;
mod external;
mod file;
mod filters;
mod grid;
mod handles;
mod identity;
mod index;
mod library;
mod library_lock;
mod links;
mod listing;
mod mapping;
mod pieces;
mod references;
mod reused_buffer;
mod significant;
mod stored_chunk;
mod table;
mod tally;
mod unfiltered;
mod view;
mod volume;
mod writer;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use voltile_base::flow::stalls;
use voltile_base::tile::Fingerprint;

pub use attributes::Attributes;
pub use beginning::{is_hdf5, tree_at};
pub use chunks::{ChunkStore, UnfinishedChunk, Verify};
pub use dataset::{MAX_IDS, Scale, Storage, StoredDataset};
pub use digests::Digests;
pub use error::OpenError;
pub use file::{Files, HeldFiles, StoredFile};
pub use filters::decode_chunk;
#[cfg(any(test, feature = "testing"))]
pub use filters::fuzzing as decoders;
pub use identity::{FileIdentity, KeyOf};
pub use library::{ElementMeaning, FilterSpec, look_beside_files};
pub use links::{LinkPolicy, MissingFiles};
pub use listing::{Listing, UnfollowedLink};
pub use significant::SignificantBits;
pub use table::{StoredColumn, TakeCell};
pub use view::View;
pub use volume::Hdf5Volume;
pub use writer::{PackError, WriteError, Writer, pack};

use self::links::{Follower, Node};
use crate::store::{Location, Store};

/// Opens files with the same options; they share its caches.
#[derive(Debug, Clone)]
pub struct Opener {
    /// All open files.
    pub files: Arc<Files>,
    /// The cache of decoded chunks, shared by all volumes.
    pub chunks: ChunkStore,
    /// Which other files a file may refer to.
    pub policy: LinkPolicy,
    /// Whether the files may be appended to while they are open; `None`: only files that are marked
    /// as being written.
    pub growing: Option<bool>,
    /// Identifies the rules of access that protect the opened files; `None`: they are public.
    /// Cached values are not shared between different rules.
    pub access: Option<Fingerprint>,
}

impl Opener {
    /// Opens public files and follows links to files below the folder of each. Files that are
    /// marked as being written may grow.
    pub fn new(chunks: ChunkStore) -> Self {
        Self {
            files: Arc::default(),
            chunks,
            policy: LinkPolicy::BelowTheFile,
            growing: None,
            access: None,
        }
    }

    /// Opens a file, or finds it open. The location must be free of symbolic links.
    fn open_resolved(&self, location: Location) -> Result<Arc<StoredFile>, OpenError> {
        self.files.open_resolved(location, self.growing)
    }

    /// Opens a file, or finds it open.
    pub fn open(&self, location: &Location) -> Result<OpenFile, OpenError> {
        let file = self.files.open(location, self.growing)?;
        let alias = match location.path() {
            Some(path) if *location != file.location => Some(FileIdentity::of_unresolved(path)),
            _ => None,
        };
        Ok(OpenFile {
            file,
            alias,
            opener: self.clone(),
            datasets: Arc::default(),
        })
    }
}

type DatasetsByPath = HashMap<String, Arc<StoredDataset>>;

/// An open file, and the opener for the files that it refers to.
#[derive(Debug, Clone)]
pub struct OpenFile {
    file: Arc<StoredFile>,
    /// The identity under the given path, if that is relative or contains symbolic links.
    alias: Option<FileIdentity>,
    opener: Opener,
    /// The datasets that stay open, by path; `None` if datasets are not kept open.
    datasets: Arc<Mutex<Option<DatasetsByPath>>>,
}

/// The datasets of a file stay open until this is dropped.
#[must_use]
pub struct KeptDatasets(Arc<Mutex<Option<DatasetsByPath>>>);

impl Drop for KeptDatasets {
    fn drop(&mut self) {
        let datasets = self.0.lock().take();
        // Not under the lock: this may close files.
        drop(datasets);
    }
}

impl OpenFile {
    /// Where the file is, with symbolic links resolved.
    pub fn location(&self) -> &Location {
        &self.file.location
    }

    /// The store from which this file and others are read if they are objects.
    pub fn store(&self) -> &Store {
        self.opener.files.store()
    }

    /// The part of a cache key that stands for `files`, which are read under this file's rules of
    /// access.
    pub fn key_of<'a>(&self, files: impl IntoIterator<Item = &'a FileIdentity>) -> KeyOf<'a> {
        KeyOf::files(files, self.opener.access)
    }

    /// Opens another file with the same options.
    pub fn open_other(&self, location: &Location) -> Result<OpenFile, OpenError> {
        self.opener.open(location)
    }

    /// The identities that must not change while the file is in use.
    pub fn watched(&self) -> impl Iterator<Item = &FileIdentity> {
        std::iter::once(self.file.identity()).chain(&self.alias)
    }

    /// The notice that the end of the file is missing, if it is.
    pub fn truncation(&self) -> Option<&str> {
        self.file.truncation.as_deref()
    }

    /// The identity of the file when it was opened.
    pub fn identity(&self) -> &FileIdentity {
        self.file.identity()
    }

    /// Until the result is dropped, every dataset that this `OpenFile` or a clone opens stays open,
    /// so that opening it again costs nothing.
    pub fn keep_datasets(&self) -> KeptDatasets {
        self.datasets.lock().get_or_insert_default();
        KeptDatasets(Arc::clone(&self.datasets))
    }

    /// The dataset at `path`; opens it unless it was kept open.
    pub fn dataset(&self, path: &str) -> Result<Arc<StoredDataset>, OpenError> {
        if let Some(kept) = &*self.datasets.lock()
            && let Some(dataset) = kept.get(path)
        {
            return Ok(Arc::clone(dataset));
        }
        let (found, files) = self.follower().dataset(&self.file, path)?;
        let access = self.opener.access;
        let dataset = StoredDataset::new(&found.file, &found.object, path, files, access)?;
        let dataset = Arc::new(dataset);
        if let Some(kept) = &mut *self.datasets.lock() {
            kept.insert(path.to_owned(), Arc::clone(&dataset));
        }
        Ok(dataset)
    }

    /// The file that contains the object at `path`, after all links.
    pub fn file_of(&self, path: &str) -> Result<FileIdentity, OpenError> {
        self.follower().file_of(&self.file, path)
    }

    /// Whether there is a group or a dataset at `path`.
    ///
    /// Also true if the path links to a file that exists but cannot be opened: that must be
    /// reported as an error on reading, not be shown as a gap.
    pub fn has(&self, path: &str) -> bool {
        matches!(
            self.follower().file_of(&self.file, path),
            Ok(_) | Err(OpenError::File { .. })
        )
    }

    /// The first of these datasets that can be opened, and its path; if none can, the error of the
    /// first.
    pub fn first_dataset<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p str>,
    ) -> Result<(&'p str, Arc<StoredDataset>), OpenError> {
        let mut first_error = None;
        for path in paths {
            match self.dataset(path) {
                Ok(dataset) => return Ok((path, dataset)),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or_else(|| OpenError::missing(&self.file.location, "/", "dataset")))
    }

    /// All datasets that can be reached by hard links and by external links that may be followed.
    pub fn datasets(&self) -> Result<Listing, OpenError> {
        listing::list(&self.quiet_follower(), &self.file)
    }

    /// The files that the external link at `path` could lead to, in their current state, whether or
    /// not they exist; none if there is no external link.
    pub fn awaited(&self, path: &str) -> Vec<FileIdentity> {
        self.follower().awaited(&self.file, path)
    }

    /// The names in the group at `path`, sorted; empty if there is no group. A group that
    /// cannot be opened, or is listed only in part, is logged.
    pub fn names_in(&self, path: &str) -> Vec<String> {
        let found = self.follower().node(&self.file, path);
        match found.map(|found| found.object) {
            Ok(Node::Group(group)) => listing::names(&group),
            Ok(Node::Dataset(_)) | Err(OpenError::Missing { .. }) => Vec::new(),
            Err(error) => {
                tracing::warn!("a group cannot be listed, and its contents are left out: {error}");
                Vec::new()
            }
        }
    }

    /// The attributes of the object at `path`; none if it cannot be opened.
    pub fn attributes(&self, path: &str) -> Attributes {
        match self.follower().node(&self.file, path) {
            Ok(found) => Attributes::from_node(&found.object),
            Err(_) => Attributes::default(),
        }
    }

    /// The attributes of the object at `path`, and the names of the hard links in it if it is a
    /// group; `None`, without a message in the log, if there is no object or it cannot be opened.
    pub fn object(&self, path: &str) -> Option<(Attributes, Vec<String>)> {
        stalls::ensure_answer([&*self.file.bytes.path]).ok()?;
        library_lock::ensure_available().ok()?;
        let found = self.quiet_follower().node(&self.file, path).ok()?.object;
        let members = if let Node::Group(group) = &found {
            listing::members(group)
        } else {
            Vec::new()
        };
        Some((Attributes::from_node(&found), members))
    }

    /// The text of the small dataset at `path`, if it exists; several strings are concatenated.
    pub fn text(&self, path: &str) -> Option<String> {
        let (found, _) = self.follower().dataset(&self.file, path).ok()?;
        attributes::texts(&found.object).map(|texts| texts.concat())
    }

    /// The numbers of the small dataset at `path`, of any shape, if it exists.
    pub fn numbers(&self, path: &str) -> Option<Vec<f64>> {
        let (found, _) = self.follower().dataset(&self.file, path).ok()?;
        attributes::numbers(&found.object, attributes::MAX_VALUES)
    }

    /// Like [`OpenFile::numbers`], for datasets that may have one number for each slice of a long
    /// series.
    pub fn table(&self, path: &str) -> Option<Vec<f64>> {
        let (found, _) = self.follower().dataset(&self.file, path).ok()?;
        attributes::numbers(&found.object, attributes::MAX_IN_TABLE)
    }

    /// The columns of numbers or strings of the table at `path`: a compound dataset, or a group of
    /// datasets.
    pub fn columns(&self, path: &str) -> Result<Vec<StoredColumn>, OpenError> {
        table::columns(&self.follower(), &self.file, path)
    }

    /// Opens the dataset at `path` as a volume.
    pub fn volume(&self, path: &str, view: &View) -> Result<Hdf5Volume, OpenError> {
        Hdf5Volume::new(self.dataset(path)?, view, self.opener.chunks.clone())
    }

    fn follower(&self) -> Follower<'_> {
        Follower {
            opener: &self.opener,
            logs_refusals: true,
        }
    }

    fn quiet_follower(&self) -> Follower<'_> {
        Follower {
            logs_refusals: false,
            ..self.follower()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use voltile_base::flow::activity::Activity;
    use voltile_base::metrics::Metrics;

    use super::*;

    fn open(path: &Path) -> OpenFile {
        let chunks = ChunkStore::new(1 << 20, Metrics::default(), Activity::default());
        Opener::new(chunks).open(&path.into()).unwrap()
    }

    #[test]
    fn a_dataset_is_opened_once_while_datasets_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        let file = hdf5::File::create(&path).unwrap();
        let raw = file.new_dataset::<u8>().shape((4, 4)).create("raw");
        drop(raw.unwrap());
        file.close().unwrap();
        let file = open(&path);
        let is_kept = || {
            let copy = file.clone();
            Arc::ptr_eq(
                &file.dataset("/raw").unwrap(),
                &copy.dataset("/raw").unwrap(),
            )
        };
        assert!(!is_kept());
        let kept = file.keep_datasets();
        assert!(is_kept());
        drop(kept);
        assert!(!is_kept());
    }

    #[test]
    fn a_missing_filter_is_reported_even_if_chunks_are_too_large_to_decode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        let shape = (1 << 12, (1 << 11) + 1);
        // In an old format, which names every filter and has no checksums.
        let mut old = hdf5::File::with_options();
        old.with_fapl(|access| access.libver_earliest());
        let file = old.create(&path).unwrap();
        let raw = file.new_dataset::<u8>().shape(shape).chunk(shape);
        let raw = raw.deflate(1).create("raw").unwrap();
        raw.write_raw(&vec![1u8; shape.0 * shape.1]).unwrap();
        drop(raw);
        file.close().unwrap();
        let missing = || {
            open(&path)
                .dataset("/raw")
                .unwrap()
                .describe()
                .missing_filters
        };
        assert_eq!(missing(), [""; 0]);
        // The number of the filter precedes its name and three fields of two bytes.
        let mut bytes = std::fs::read(&path).unwrap();
        let name = bytes.windows(8).position(|name| name == b"deflate\0");
        let number = name.unwrap() - 8;
        bytes[number..][..2].copy_from_slice(&32016u16.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let missing = missing();
        assert!(
            missing.len() == 1 && missing[0].contains("32016"),
            "{missing:?}"
        );
    }
}
