//! The reasons why bytes of an object cannot be read.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use voltile_base::flow::cache::Abandoned;

use super::transport::RETRY_PAUSE;

/// Why an object cannot be opened or read. The text names no address: the caller adds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum StoreError {
    /// The store has no object of this name.
    #[error("there is no such object")]
    Missing,
    /// The store refuses access. Holds the store's answer, and the cure.
    #[error("the store refuses access: {0}")]
    Denied(String),
    /// The object is not the one that was opened.
    #[error("it has changed since it was opened")]
    Changed,
    /// The server sends whole objects only.
    #[error(
        "the server ignores range requests and would send the whole object; serve it from a server that answers \
         \"Range: bytes=…\" with 206, or download it"
    )]
    NoRanges,
    /// The answer is not what was asked for. Holds the fault of the answer.
    #[error("the store's answer cannot be used: {0}")]
    Invalid(String),
    /// The store cannot be reached, or fails.
    #[error("the store is unavailable: {problem}")]
    Unavailable {
        /// The last failure.
        problem: String,
        /// The time after which it is worth trying again.
        retry_after: Duration,
    },
    /// The settings for the store are wrong. Holds the problem, and how to mend it.
    #[error("{0}")]
    Settings(String),
    /// The read was abandoned.
    #[error(transparent)]
    Abandoned(#[from] Abandoned),
}

impl StoreError {
    pub(super) fn invalid(problem: impl Into<String>) -> Self {
        StoreError::Invalid(problem.into())
    }

    pub(super) fn unavailable(problem: impl Into<String>) -> Self {
        StoreError::Unavailable {
            problem: problem.into(),
            retry_after: RETRY_PAUSE,
        }
    }

    /// Whether the same request may succeed in a moment.
    pub(super) fn is_transient(&self) -> bool {
        matches!(
            self,
            StoreError::Unavailable { .. } | StoreError::Invalid(_)
        )
    }
}
