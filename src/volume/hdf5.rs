//! Volumes in HDF5 files: the only place that names the `hdf5` crate.
//!
//! The library opens files, follows hard links, tells types and layouts, and lists where chunks lie. Chunks are then
//! read and decoded by our own threads, outside the library's one lock, where their filters are ones we decode;
//! everything else is read through the library, slower but right. Decoded chunks are kept in a cache that all volumes
//! share. Unfiltered data, contiguous or in chunks, is copied from the file as it is mapped into memory. Compact and
//! virtual data is always read through the library; raw files are read here.
//!
//! All bytes come through `bytes::FileBytes`, also those that the library reads: they are used only if the file is what it
//! was when it was opened. `admission` says which files the library may open.

mod admission;
mod attributes;
mod bytes;
mod chunks;
mod dataset;
mod external;
mod file;
mod filters;
mod grid;
mod identity;
mod index;
mod library;
mod links;
mod listing;
mod mapping;
mod significant;
mod spare;
mod stored_chunk;
mod tally;
mod unfiltered;
mod volume;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use attributes::Attributes;
pub use chunks::{ChunkStore, Standing};
pub use dataset::{Scale, Storage, StorageDescription, StoredDataset};
pub use file::{Files, StoredFile};
pub use filters::decode_chunk;
pub use identity::FileIdentity;
pub use library::{FilterSpec, look_beside_files};
pub use links::LinkPolicy;
pub use significant::SignificantBits;
pub use volume::{Hdf5Volume, View};
pub use writer::{PackError, WriteError, Writer, pack};

use self::links::{Follower, Found, Node};

/// Why a file or a dataset could not be opened. The text names files: it is for operators.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The file itself.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Something in it.
    #[error("{} in {}: {problem}", object, path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// The path within it.
        object: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is nothing of that name.
    #[error("{} in {}: there is no {name:?}", object, path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The path within it.
        object: String,
        /// The part of the path, or the file it leads to, that is not there.
        name: String,
    },
    /// The file names another one that it may not.
    #[error("{} refers to {name:?}, {why}; if you trust the file, set allow_external = true on the dataset", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The other file, as it is named.
        name: String,
        /// Why that is not allowed.
        why: &'static str,
    },
}

impl OpenError {
    fn missing(file: &StoredFile, object: &str, name: &str) -> Self {
        OpenError::Missing { path: file.path.clone(), object: object.to_owned(), name: name.to_owned() }
    }

    fn object(file: &StoredFile, object: &str, problem: String) -> Self {
        OpenError::Object { path: file.path.clone(), object: object.to_owned(), problem }
    }
}

/// What opening files takes: those that are open, the chunk cache, and what links are allowed.
#[derive(Debug, Clone)]
pub struct Opener {
    /// Every file that is open.
    pub files: Arc<Files>,
    /// Decoded chunks of all volumes.
    pub chunks: ChunkStore,
    /// Where links may lead.
    pub policy: LinkPolicy,
    /// Whether somebody may be appending to the files while they are open.
    pub growing: bool,
}

impl Opener {
    /// Opens a file.
    pub fn open(&self, path: &Path) -> Result<OpenFile, OpenError> {
        let file = self.files.open(path, self.growing)?;
        let alias = (path != file.path).then(|| FileIdentity::at(path));
        Ok(OpenFile { file, alias, opener: self.clone() })
    }
}

/// A file, and all that following its paths takes.
#[derive(Debug, Clone)]
pub struct OpenFile {
    file: Arc<StoredFile>,
    /// The same by the name that it was asked for by, where that has symbolic links or is relative.
    alias: Option<FileIdentity>,
    opener: Opener,
}

impl OpenFile {
    /// Where the file lies.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Another file, opened in the same way.
    pub fn other(&self, path: &Path) -> Result<OpenFile, OpenError> {
        self.opener.open(path)
    }

    /// What must stay as it is for the file to be the one that was asked for.
    pub fn watched(&self) -> impl Iterator<Item = &FileIdentity> {
        std::iter::once(self.file.identity()).chain(&self.alias)
    }

    /// What tells the file, as it is now, from any other.
    pub fn identity(&self) -> &FileIdentity {
        self.file.identity()
    }

    /// The dataset that `path` leads to.
    pub fn dataset(&self, path: &str) -> Result<StoredDataset, OpenError> {
        let (found, files) = self.follower().dataset(&self.file, path)?;
        StoredDataset::new(found.file, found.object, path, files)
    }

    /// The file that holds what `path` leads to, at the end of all links.
    pub fn file_of(&self, path: &str) -> Result<FileIdentity, OpenError> {
        self.follower().file_of(&self.file, path)
    }

    /// Whether `path` leads to a group or a dataset.
    ///
    /// It does also where it leads to a file that is there and cannot be opened: what lies in that is not missing, and
    /// to read it is an error rather than a gap.
    pub fn has(&self, path: &str) -> bool {
        matches!(self.follower().file_of(&self.file, path), Ok(_) | Err(OpenError::File { .. }))
    }

    /// The first of these datasets that can be opened, and its path; where none can, what is wrong with the first.
    pub fn first_dataset<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p str>,
    ) -> Result<(&'p str, StoredDataset), OpenError> {
        let mut wrong = None;
        for path in paths {
            match self.dataset(path) {
                Ok(dataset) => return Ok((path, dataset)),
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        Err(wrong.unwrap_or_else(|| OpenError::missing(&self.file, "/", "dataset")))
    }

    /// The paths of all datasets that hard links lead to, each once, shallow ones first.
    pub fn datasets(&self) -> Result<Vec<String>, OpenError> {
        listing::datasets(&self.file)
    }

    /// The names in the group at `path`, sorted; none if there is no group. A group that cannot be opened, or is listed
    /// only in part, is reported in the log.
    pub fn names_in(&self, path: &str) -> Vec<String> {
        match self.follower().node(&self.file, path) {
            Ok(Found { object: Node::Group(group), .. }) => listing::names(&group),
            Ok(_) | Err(OpenError::Missing { .. }) => Vec::new(),
            Err(error) => {
                tracing::warn!("a group cannot be listed, and what it holds is left out: {error}");
                Vec::new()
            }
        }
    }

    /// The attributes of the object at `path`, where there is one.
    pub fn attributes(&self, path: &str) -> Option<Attributes> {
        let found = self.follower().node(&self.file, path).ok()?;
        Some(Attributes::of(&found.object))
    }

    /// The text of the small dataset at `path`, where there is one.
    pub fn text(&self, path: &str) -> Option<String> {
        let (found, _) = self.follower().dataset(&self.file, path).ok()?;
        attributes::texts(&found.object).map(|texts| texts.concat())
    }

    /// The numbers of the small dataset at `path`, of any shape, where there is one.
    pub fn numbers(&self, path: &str) -> Option<Vec<f64>> {
        let (found, _) = self.follower().dataset(&self.file, path).ok()?;
        attributes::numbers(&found.object)
    }

    /// A dataset as a volume.
    pub fn volume(&self, path: &str, view: &View) -> Result<Hdf5Volume, OpenError> {
        Hdf5Volume::new(Arc::new(self.dataset(path)?), view, self.opener.chunks.clone())
    }

    fn follower(&self) -> Follower<'_> {
        let Opener { files, policy, growing, .. } = &self.opener;
        Follower { files, policy: *policy, growing: *growing }
    }
}
