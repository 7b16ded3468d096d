//! stub
use std::path::{Path, PathBuf};
#[derive(Debug, thiserror::Error)]
#[error("stub")]
pub struct DemoError;
pub fn default_path() -> Result<PathBuf, DemoError> {
    Err(DemoError)
}
pub fn ensure(_: &Path) -> Result<(), DemoError> {
    Err(DemoError)
}
