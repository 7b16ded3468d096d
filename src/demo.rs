//! The demo volume: a small synthetic tissue, for people who have no volume at hand.
//!
//! [`ensure`] writes one HDF5 file with five datasets: `/em` (electron micrograph, u8), `/nuclei` and `/actin` (two
//! stains of the same tissue, u16) and `/segmentation` (its cells, u32), all z y x with flat voxels, and `/time` (a time
//! series of dividing nuclei, u16, t z y x). It is written under another name and then renamed, so it is never incomplete.

mod film;
mod noise;
mod rods;
mod scene;
mod tissue;
mod write;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tempfile::TempPath;
use write::{FULL, Shapes, VERSION_ATTRIBUTE};

/// Version of the voxels; a file of another version is replaced. The file's name, which links contain, stays the same.
const VERSION: u32 = 2;

/// Why there is no demo volume.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Neither environment variable that leads to the cache folder is set.
    #[error("no place for the demo volume: set XDG_CACHE_HOME or HOME to an absolute path")]
    NoCacheFolder,
    /// The path holds something else, which is left alone.
    #[error("{} is not a demo volume, or a damaged one; delete it or move it away", .0.display())]
    Foreign(PathBuf),
    /// The file or its folder cannot be written.
    #[error("cannot write the demo volume to {}: {}; is the disk full or not writable?", .0.display(), .1)]
    Write(PathBuf, #[source] io::Error),
}

/// Where the demo volume is kept: in `voltile` below the user's cache folder (`$XDG_CACHE_HOME`, else `~/.cache`).
///
/// # Errors
/// [`DemoError::NoCacheFolder`] if neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
pub fn default_path() -> Result<PathBuf, DemoError> {
    path_below(env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"))
}

fn path_below(cache: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, DemoError> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let folder = cache.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")));
    Ok(folder.ok_or(DemoError::NoCacheFolder)?.join("voltile/demo-v1.h5"))
}

/// Writes the demo volume (50 MB, some seconds) to `path` unless it is there. An older one is replaced.
///
/// # Errors
/// [`DemoError::Foreign`] if `path` holds anything else or a damaged one, [`DemoError::Write`] if it cannot be written.
pub fn ensure(path: &Path) -> Result<(), DemoError> {
    ensure_sized(path, FULL)
}

fn ensure_sized(path: &Path, shapes: Shapes) -> Result<(), DemoError> {
    match version_at(path) {
        Ok(Some(VERSION)) => Ok(()),
        Ok(_) => replace(path, shapes).map_err(|error| DemoError::Write(path.into(), error)),
        Err(_) => Err(DemoError::Foreign(path.into())),
    }
}

fn version_at(path: &Path) -> hdf5::Result<Option<u32>> {
    path.exists().then(|| hdf5::File::open(path)?.attr(VERSION_ATTRIBUTE)?.read_scalar()).transpose()
}

fn replace(path: &Path, shapes: Shapes) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    // Of several runs at the same time the first one writes, and the others wait for it.
    let lock = fs::File::create(path.with_extension("lock"))?;
    lock.lock()?;
    if version_at(path).is_ok_and(|version| version == Some(VERSION)) {
        return Ok(());
    }
    let draft = TempPath::try_from_path(path.with_extension("draft"))?; // deleted on failure
    write::write(&draft, shapes, VERSION).map_err(io::Error::other)?;
    fs::File::open(&draft)?.sync_all()?;
    Ok(draft.persist(path)?)
}
