//! What can go wrong on the way to a tile, and by whose fault.

use super::Busy;
use crate::cache::Lost;
use crate::catalog::NotFound;
use crate::name::Name;
use crate::render::RenderError;
use crate::request::Malformed;
use crate::tier::TierError;
use crate::volume::{CHANGED, ReadError};

/// Why there is no tile.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TileError {
    /// The path asks for none.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Nothing has that name or number.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// It could not be made.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Too much is waiting already.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The render was given up.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// It could not be kept, which was all that was wanted.
    #[error(transparent)]
    Tier(#[from] TierError),
    /// A file is not what it was when it was opened.
    #[error("a file of the dataset {token} has changed since it was opened")]
    Changed {
        /// The dataset.
        token: Name,
    },
}

/// What kind of failure it is, for whoever has to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Asking again will not help: there is no such tile.
    NotFound,
    /// The data or the program is at fault.
    Failed,
    /// Asking again later will help.
    Busy,
}

impl TileError {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            TileError::Malformed(_) | TileError::NotFound(_) => ErrorKind::NotFound,
            TileError::Render(_) | TileError::Lost(_) | TileError::Tier(_) | TileError::Changed { .. } => {
                ErrorKind::Failed
            }
            TileError::Busy(_) => ErrorKind::Busy,
        }
    }

    /// What a client may know: like the message, without the paths of files.
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
