//! The demo volume: a small made-up tissue for whoever has no volume at hand.
//!
//! [`ensure`] makes one HDF5 file with five datasets: `/em` (electron micrograph, u8), `/nuclei` and `/actin` (two
//! stains of the same tissue, u16), `/segmentation` (its cells, u32), all z y x with flat voxels, and `/time` (a short
//! film of dividing nuclei, u16, t z y x). What the voxels hold and how they are written is left to the modules below;
//! here is when a file is made and where it is kept. The odd thing: a file is made beside its place and then renamed,
//! so an interrupted run leaves no half volume, and two runs at once merely do the work twice.

mod cell;
mod fluorescence;
mod ground;
mod growth;
mod micrograph;
mod nearest;
mod noise;
mod survey;
mod timelapse;
mod tissue;
mod vector;
mod write;

#[cfg(test)]
mod tests;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use write::{Extents, VERSION_ATTRIBUTE};

/// Version of the demo volume; a file of another version is made anew.
pub const VERSION: u32 = 1;

/// Why there is no demo volume.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Neither environment variable that leads to the cache folder is set.
    #[error(
        "no place for the demo volume: neither XDG_CACHE_HOME nor HOME is set to an absolute path; set one of them"
    )]
    NoCacheFolder,
    /// The path holds something else, which is left alone.
    #[error("{} is not a demo volume and was left as it is; move it away or name another path", path.display())]
    Foreign {
        /// What was asked for.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried, such as "make the folder".
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// libhdf5 refused.
    #[error("cannot write the demo volume to {}: {source}; is the disk full?", path.display())]
    Write {
        /// The file in the making.
        path: PathBuf,
        /// What libhdf5 says.
        source: hdf5::Error,
    },
}

/// Where the demo volume is kept: in `voltile` below the user's cache folder (`$XDG_CACHE_HOME`, else `~/.cache`).
///
/// # Errors
/// [`DemoError::NoCacheFolder`] where neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
pub fn default_path() -> Result<PathBuf, DemoError> {
    path_below(env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"))
}

fn path_below(cache: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, DemoError> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let folder = cache.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")));
    let folder = folder.ok_or(DemoError::NoCacheFolder)?;
    Ok(folder.join("voltile").join(format!("demo-v{VERSION}.h5")))
}

/// Sees to it that `path` holds the finished demo volume of this [`VERSION`]: makes it where it is missing, older, or
/// damaged. This takes some seconds and some tens of megabytes; folders are made as needed.
///
/// # Errors
/// [`DemoError::Foreign`] where `path` holds something that voltile has not made; it stays as it is. The other kinds
/// where the file cannot be written; then nothing new is left behind.
pub fn ensure(path: &Path) -> Result<(), DemoError> {
    ensure_sized(path, &Extents::FULL)
}

fn ensure_sized(path: &Path, extents: &Extents) -> Result<(), DemoError> {
    match found_at(path) {
        Found::Finished => Ok(()),
        Found::Foreign => Err(DemoError::Foreign { path: path.to_owned() }),
        Found::Nothing | Found::Outdated => make(path, extents),
    }
}

/// What a path holds.
#[derive(Debug, PartialEq)]
enum Found {
    Nothing,
    /// The demo volume of this version.
    Finished,
    /// The demo volume of another version, or what is left of a damaged one.
    Outdated,
    /// Anything else.
    Foreign,
}

fn found_at(path: &Path) -> Found {
    if !path.exists() {
        return Found::Nothing;
    }
    let version = |file: hdf5::File| file.attr(VERSION_ATTRIBUTE)?.read_scalar::<u32>();
    match hdf5::File::open(path).map(version) {
        Ok(Ok(VERSION)) => Found::Finished,
        Ok(Ok(_)) => Found::Outdated,
        Err(_) if is_wreck(path) => Found::Outdated,
        Ok(Err(_)) | Err(_) => Found::Foreign,
    }
}

/// Whether a file that libhdf5 cannot open is empty or once was an HDF5 file: a demo volume that the disk has lost.
fn is_wreck(path: &Path) -> bool {
    const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
    let mut start = Vec::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(SIGNATURE.len() as u64).read_to_end(&mut start));
    read.is_ok() && (start.is_empty() || start == SIGNATURE)
}

/// Makes the volume beside `path`, then puts it there.
fn make(path: &Path, extents: &Extents) -> Result<(), DemoError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|source| DemoError::Io {
        what: "make the folder",
        path: folder.into(),
        source,
    })?;
    sweep(folder);
    let draft = Draft::beside(path);
    write::write(&draft.path, extents, VERSION)
        .map_err(|source| DemoError::Write { path: draft.path.clone(), source })?;
    draft.publish(path).map_err(|source| DemoError::Io { what: "put in place", path: path.into(), source })
}

const DRAFT_ENDING: &str = "voltile-draft";

/// A file in the making; it is deleted unless it is published.
struct Draft {
    path: PathBuf,
}

impl Draft {
    /// A name that no other run, nor another thread of this one, uses.
    fn beside(path: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { path: path.with_extension(format!("{}-{number}.{DRAFT_ENDING}", process::id())) }
    }

    /// Gives the file its name, once it is safely on disk.
    fn publish(self, path: &Path) -> io::Result<()> {
        fs::File::open(&self.path)?.sync_all()?;
        fs::rename(&self.path, path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After publishing there is nothing to delete, and a draft that cannot be deleted harms nobody.
        let _ = fs::remove_file(&self.path);
    }
}

/// Deletes the drafts of runs that were killed: those not touched for an hour.
fn sweep(folder: &Path) {
    let abandoned = |path: &Path| {
        let age = fs::metadata(path)
            .and_then(|it| it.modified())
            .map(|time| SystemTime::now().duration_since(time));
        let old = age.is_ok_and(|age| age.is_ok_and(|age| age > Duration::from_secs(3600)));
        old && path.extension().is_some_and(|ending| ending == DRAFT_ENDING)
    };
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| abandoned(path)) {
        let _ = fs::remove_file(path);
    }
}
