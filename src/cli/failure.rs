//! The failure of a command.

use std::fmt;

/// Why a command failed; decides the exit status.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command is valid, but its work failed.
    Work(anyhow::Error),
    /// The command or its configuration is invalid.
    Usage(String),
    /// The reader of standard output has closed it: not an error.
    NobodyReads,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Work(error) => write!(f, "{error:#}"),
            Failure::Usage(text) => f.write_str(text),
            Failure::NobodyReads => f.write_str("standard output was closed"),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Work(error.into())
    }
}
