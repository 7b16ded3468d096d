//! Why files and datasets cannot be opened.

use voltile_base::flow::stalls::Unresponsive;

use crate::store::Location;

/// Why a file or a dataset could not be opened. The text names files: it is for operators.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The file system does not answer.
    #[error(transparent)]
    Unresponsive(#[from] Unresponsive),
    /// The file cannot be opened.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: Location,
        /// The reason, in words.
        problem: String,
    },
    /// An object in the file cannot be opened or used.
    #[error("{object} in {file}: {problem}")]
    Object {
        /// The file.
        file: Location,
        /// The path within it.
        object: String,
        /// The reason, in words.
        problem: String,
    },
    /// A dataset is intact but not a volume: it has too few axes or too many, or elements that are
    /// not numbers.
    #[error("{object} in {file}: {what}")]
    NotAVolume {
        /// The file.
        file: Location,
        /// The path within it.
        object: String,
        /// Why it is no volume, in words.
        what: String,
        /// The number of its elements.
        elements: u64,
        /// Whether it may hold pictures, which a list or a table does not.
        may_be_pictures: bool,
    },
    /// A part of the path does not exist.
    #[error("{object} in {file}: there is no {name:?}")]
    Missing {
        /// The file.
        file: Location,
        /// The path within it.
        object: String,
        /// The missing part of the path, or the missing file that it links to.
        name: String,
    },
    /// The file refers to another one outside its own folder, which is not allowed.
    #[error(
        "{file} refers to {name:?}, which is not below its own folder; if you trust the file, set allow_external = true \
         on the dataset"
    )]
    Refused {
        /// The file.
        file: Location,
        /// The other file, by the name in the file.
        name: String,
    },
}

impl OpenError {
    pub(super) fn missing(file: &Location, object: &str, name: &str) -> Self {
        OpenError::Missing {
            file: file.clone(),
            object: object.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(super) fn file(file: &Location, problem: String) -> Self {
        OpenError::File {
            file: file.clone(),
            problem,
        }
    }

    pub(super) fn object(file: &Location, object: &str, problem: impl Into<String>) -> Self {
        OpenError::Object {
            file: file.clone(),
            object: object.to_owned(),
            problem: problem.into(),
        }
    }
}
