//! Why a tier cannot be used, or one operation failed.

use std::path::PathBuf;

/// Why a tier cannot be used, or why one operation failed. The text names files and hosts: it is
/// for operators.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    /// The configured path is unusable as a cache directory: it is no directory, belongs to another
    /// user, or holds foreign files or the files of a version with another format.
    #[error("{problem}")]
    Unsuitable {
        /// The fault and its cure.
        problem: String,
    },
    /// A system call failed.
    #[error("{} cannot be {doing}: {problem}", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// The attempted operation as a past participle, such as "written".
        doing: &'static str,
        /// The system's error message.
        problem: String,
    },
    /// The directory is not a cache any more.
    #[error(
        "{} was removed, unmounted or emptied: it has no CACHEDIR.TAG. Tiles are served without it until it is back; to \
         make what is there now a cache, reload the configuration",
        path.display()
    )]
    Unmarked {
        /// The directory.
        path: PathBuf,
    },
    /// The budget is exceeded, and eviction did not make room in time.
    #[error("{} is full: its budget is {budget} bytes, and eviction has not made room yet", path.display())]
    Full {
        /// The directory.
        path: PathBuf,
        /// The budget in bytes.
        budget: u64,
    },
    /// A tile is not as it was stored.
    #[error("{place} is damaged and {fate}: {problem}")]
    Corrupt {
        /// The file, or the server and the key.
        place: String,
        /// Whether it was removed, in words.
        fate: String,
        /// The kind of damage.
        problem: &'static str,
    },
    /// A server could not be reached, or did not answer in time.
    #[error("{server} could not be reached: {problem}")]
    Unreachable {
        /// Its address, without credentials.
        server: String,
        /// The error message of the connection.
        problem: String,
    },
    /// A server answered with an error.
    #[error("{server} answered with an error: {problem}")]
    Refused {
        /// Its address, without credentials.
        server: String,
        /// Its message.
        problem: String,
    },
    /// The circuit breaker is open: the server was not asked.
    #[error("the server is not asked until it can be reached again")]
    Resting,
}

impl TierError {
    pub(super) fn system(
        path: impl Into<PathBuf>,
        doing: &'static str,
        error: &std::io::Error,
    ) -> Self {
        TierError::System {
            path: path.into(),
            doing,
            problem: error.to_string(),
        }
    }

    /// The error for a damaged tile, after the attempt to remove it.
    pub(super) fn corrupt(place: String, problem: &'static str, removed: Result<(), Self>) -> Self {
        let fate = match removed {
            Ok(()) => "was removed".to_owned(),
            Err(error) => format!("cannot be removed ({error})"),
        };
        TierError::Corrupt {
            place,
            fate,
            problem,
        }
    }

    /// Whether the error says nothing about the next operation: a damaged tile is removed, and
    /// [`Backend::problem`](super::Backend::problem) says whether a server can be reached.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            TierError::Corrupt { .. } | TierError::Unreachable { .. } | TierError::Resting
        )
    }

    /// Whether the operation was not tried, because the server cannot be reached. Such operations
    /// are not logged: the failure before them was.
    pub(super) fn is_skipped(&self) -> bool {
        matches!(self, TierError::Resting)
    }

    /// Whether the configured path is unusable as a cache directory, rather than temporarily
    /// failing.
    pub fn is_unsuitable(&self) -> bool {
        matches!(self, TierError::Unsuitable { .. })
    }
}
