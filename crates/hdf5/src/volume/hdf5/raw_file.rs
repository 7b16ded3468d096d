//! The raw files that hold the data of datasets with external storage.

use super::identity::FileIdentity;

/// A raw file that contains part of a dataset, as it was when the dataset was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawFile {
    /// The file, which may be missing.
    pub identity: FileIdentity,
    /// The file by the name stored in the dataset, if that is a symbolic link.
    pub alias: Option<FileIdentity>,
    /// The byte offset of the part in the raw file.
    pub position: u64,
    /// The length of the part in bytes; `u64::MAX` if unlimited.
    pub length: u64,
}
