//! Errors of tile requests, and their kinds.

use voltile_base::flow::cache::Abandoned;
use voltile_base::flow::stalls::Unresponsive;
use voltile_base::name::Name;
use voltile_base::request::Malformed;
use voltile_hdf5::volume::{CHANGED, ReadError};
use voltile_render::RenderError;

use super::queue::Busy;
use crate::catalog::{NoNames, NotFound};
use crate::tier::TierError;

/// Why a request has no tile.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TileError {
    /// The path or query is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The request names something unknown.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// Reading or rendering failed.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The queue for rendering, or for fetching, is full.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The work was abandoned, or panicked.
    #[error(transparent)]
    Abandoned(#[from] Abandoned),
    /// The tile could not be stored in the disk cache, when warming.
    #[error(transparent)]
    Tier(#[from] TierError),
    /// A box of voxels, a table or a document is too large.
    #[error("{0}")]
    TooLarge(String),
    /// There is no table of names.
    #[error(transparent)]
    Names(#[from] NoNames),
    /// The files of the dataset could not be checked for changes, or read, in time.
    #[error(transparent)]
    Unresponsive(#[from] Unresponsive),
    /// A document could not be written.
    #[error("{0}")]
    Document(String),
    /// A file has changed since it was opened.
    #[error("a file of the dataset {token} has changed since it was opened")]
    Changed {
        /// The token.
        token: Name,
    },
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The tile does not exist: a retry will not help.
    NotFound,
    /// More is requested than is allowed.
    TooLarge,
    /// The data or the program is at fault.
    Failed,
    /// Overloaded, or the file system or the store does not answer, or the work was abandoned: a
    /// later retry may help.
    Busy,
}

impl TileError {
    /// The kind, which decides the HTTP status.
    pub fn kind(&self) -> ErrorKind {
        match self {
            TileError::NotFound(NotFound::Unreachable(_) | NotFound::Waiting(_))
            | TileError::Busy(_)
            | TileError::Unresponsive(_)
            | TileError::Abandoned(_)
            | TileError::Names(NoNames::Abandoned(_))
            | TileError::Render(RenderError::Read(
                ReadError::Unavailable { .. }
                | ReadError::Unresponsive(_)
                | ReadError::Abandoned(_),
            )) => ErrorKind::Busy,
            TileError::NotFound(NotFound::TooLarge(_))
            | TileError::TooLarge(_)
            | TileError::Names(NoNames::TooLarge(_)) => ErrorKind::TooLarge,
            TileError::Malformed(_) | TileError::NotFound(_) => ErrorKind::NotFound,
            TileError::Render(_)
            | TileError::Tier(_)
            | TileError::Document(_)
            | TileError::Names(_)
            | TileError::Changed { .. } => ErrorKind::Failed,
        }
    }

    /// Whether a render was stopped because nobody waited for it.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(
            self,
            TileError::Render(RenderError::Read(ReadError::Abandoned(_)))
        )
    }

    /// The message for clients, without file paths.
    pub fn public(&self) -> String {
        match self {
            TileError::Render(RenderError::Read(error)) => error.public(),
            TileError::Changed { .. } => CHANGED.to_owned(),
            other => other.to_string(),
        }
    }
}

impl From<ReadError> for TileError {
    fn from(error: ReadError) -> Self {
        TileError::Render(error.into())
    }
}
