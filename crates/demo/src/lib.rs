//! The demo volume: a small synthetic tissue, for people who have no volume at hand.
//!
//! [`ensure`] writes one HDF5 file with five datasets. Four show the same tissue, with the axes z y
//! x and voxels that are longest along z: `/em` (electron micrograph, u8), `/nuclei` and `/actin`
//! (two stains, u16) and `/segmentation` (the cells, u32). `/time` is a time series of dividing
//! nuclei (u16, t z y x). The file is written under another name and then renamed, so it is never
//! incomplete.

mod film;
mod noise;
mod rods;
mod scene;
#[cfg(test)]
mod tests;
mod tissue;
mod write;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use write::{FULL, Shapes, VERSION_ATTRIBUTE};

/// The version of the voxels; a file of another version is replaced. The file keeps the name
/// `demo-v1.h5`, because links contain it.
const VERSION: u32 = 2;
/// Stands for the version of a damaged file.
const DAMAGED: u32 = 0;

/// Why there is no demo volume.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// No environment variable names a folder for it.
    #[error("no place for the demo volume: set XDG_CACHE_HOME or HOME to an absolute path")]
    NoCacheFolder,
    /// The file at this path was not written as a demo volume.
    #[error("{} does not look like a demo volume and was left as it is; delete it or move it away", .0.display())]
    Foreign(PathBuf),
    /// The demo volume cannot be written to this path.
    #[error("cannot write the demo volume to {}: {}; is the disk full or not writable?", .0.display(), .1)]
    Write(PathBuf, #[source] io::Error),
}

/// The path of the demo volume: in `voltile` below the user's cache folder (`$XDG_CACHE_HOME`,
/// else `~/.cache`).
pub fn default_path(
    variable: impl Fn(&'static str) -> Option<OsString>,
) -> Result<PathBuf, DemoError> {
    let absolute_path = |name| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    let cache = absolute_path("XDG_CACHE_HOME");
    let cache = cache.or_else(|| Some(absolute_path("HOME")?.join(".cache")));
    let folder = cache.ok_or(DemoError::NoCacheFolder)?;
    Ok(folder.join("voltile/demo-v1.h5"))
}

/// Writes the demo volume (50 MB, up to two minutes on two cores) to `path` unless it is there. An
/// older or damaged volume is replaced.
pub fn ensure(path: &Path) -> Result<(), DemoError> {
    ensure_sized(path, FULL)
}

fn ensure_sized(path: &Path, shapes: Shapes) -> Result<(), DemoError> {
    let path = &fs::canonicalize(path).unwrap_or(path.into()); // a link to the volume stays a link
    if version_at(path)? == Some(VERSION) {
        return Ok(());
    }
    // The first of several simultaneous runs writes, and the other runs wait for it.
    let _lock = lock_beside(path).map_err(|error| DemoError::Write(path.into(), error))?;
    match version_at(path)? {
        Some(VERSION) => return Ok(()),
        Some(DAMAGED) => tracing::warn!("the demo volume is damaged and is written again"),
        Some(other) => {
            tracing::info!("version {other} of the demo volume is replaced by version {VERSION}");
        }
        None => tracing::info!("the demo volume is written, which takes up to two minutes"),
    }
    replace(path, shapes).map_err(|error| DemoError::Write(path.into(), error))
}

fn lock_beside(path: &Path) -> io::Result<fs::File> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let file = fs::File::options()
        .append(true)
        .create(true)
        .open(path.with_extension("lock"))?;
    file.lock()?;
    Ok(file)
}

/// The version of the demo volume at `path`, or [`DAMAGED`]; `None` if nothing is there.
fn version_at(path: &Path) -> Result<Option<u32>, DemoError> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let version = write::without_locks()
        .open(path)
        .and_then(|file| file.attr(VERSION_ATTRIBUTE)?.read_scalar());
    if let Ok(version) = version {
        return Ok(Some(version));
    }
    // A file that libhdf5 cannot read is a damaged demo volume if the name of the attribute is
    // still near its start.
    let mut start = [0; 4096];
    let is_read = fs::File::open(path).is_ok_and(|mut file| file.read(&mut start).is_ok());
    if is_read && memchr::memmem::find(&start, VERSION_ATTRIBUTE.as_bytes()).is_some() {
        return Ok(Some(DAMAGED));
    }
    Err(DemoError::Foreign(path.into()))
}

fn replace(path: &Path, shapes: Shapes) -> io::Result<()> {
    let draft = tempfile::TempPath::try_from_path(path.with_extension("voltile-draft"))?; // deleted on failure
    write::write(&draft, shapes, VERSION).map_err(io::Error::other)?;
    fs::File::open(&draft)?.sync_all()?;
    Ok(draft.persist(path)?)
}
