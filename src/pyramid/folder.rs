//! The work folder: stores finished pieces until all are complete.
//!
//! It is next to the output, and named after it. Each file in it is written under a temporary name, synced to disk and
//! then renamed, so that a file with its final name is complete even if the program was killed. The manifest records
//! what is being computed from which files; pieces with another manifest are removed. One run at a time holds the
//! folder's lock, which the system releases if that run is killed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::PyramidError;

const MANIFEST: &str = "manifest.json";
const LOCK: &str = "lock";
const DRAFT: &str = "draft";
/// The extension of pieces.
pub(super) const PIECE: &str = "piece";
/// The output file during assembly.
const WHOLE: &str = "whole.h5";

/// The work folder of one output, locked.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// The path of the folder for `output`.
    pub fn of(output: &Path) -> PathBuf {
        let mut name = output.as_os_str().to_owned();
        name.push(".work");
        PathBuf::from(name)
    }

    /// Opens or creates the folder. Also returns whether it contains pieces to resume from.
    pub fn open(output: &Path, manifest: &str) -> Result<(Self, bool), PyramidError> {
        let path = Self::of(output);
        fs::create_dir_all(&path).map_err(|e| PyramidError::file("create the folder", &path, e))?;
        let lock = path.join(LOCK);
        let file = File::create(&lock).map_err(|e| PyramidError::file("write", &lock, e))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(PyramidError::AtWork { folder: path }),
            // Some network file systems do not support locks: a second run is not prevented there.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let folder = Self { path, _lock: file };
        let resumes = fs::read_to_string(folder.path.join(MANIFEST)).is_ok_and(|known| known == manifest);
        if !resumes {
            folder.clear()?;
            folder.keep(MANIFEST, manifest.as_bytes())?;
        }
        Ok((folder, resumes))
    }

    /// Removes the folder left by a finished or outdated run, unless another run is using it.
    pub fn sweep(output: &Path) {
        let path = Self::of(output);
        let lock = File::open(path.join(LOCK));
        if let Ok(lock) = lock
            && lock.try_lock().is_ok()
        {
            Self { path, _lock: lock }.remove();
        }
    }

    pub fn has(&self, piece: &str) -> bool {
        self.path.join(piece).exists()
    }

    /// The bytes of a finished piece.
    pub fn read(&self, piece: &str) -> Result<Vec<u8>, PyramidError> {
        let path = self.path.join(piece);
        fs::read(&path).map_err(|e| PyramidError::file("read", &path, e))
    }

    pub fn discard(&self, piece: &str) {
        let _ = fs::remove_file(self.path.join(piece));
    }

    /// Stores a file; once this returns, it is complete and on disk.
    pub fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), PyramidError> {
        let (path, draft) = (self.path.join(name), self.path.join(format!("{name}.{DRAFT}")));
        let write = || -> io::Result<()> {
            let mut file = File::create(&draft)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        write().map_err(|e| PyramidError::file("write", &path, e))
    }

    /// The path at which the output is assembled.
    pub fn whole(&self) -> PathBuf {
        self.path.join(WHOLE)
    }

    /// Moves the complete file into place, and removes the folder.
    pub fn publish(self, output: &Path) -> Result<(), PyramidError> {
        if output.exists() {
            return Err(PyramidError::Exists { path: output.to_owned() });
        }
        fs::rename(self.whole(), output).map_err(|e| PyramidError::file("move into place", output, e))?;
        // The rename is durable once the parent folder is synced, which not every system supports.
        let around = output.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _ = File::open(around).and_then(|folder| folder.sync_all());
        self.remove();
        Ok(())
    }

    /// Removes the folder and all files in it that voltile wrote. Errors are ignored: leftovers are harmless.
    pub fn remove(self) {
        let cleared = self.clear().is_ok() && fs::remove_file(self.path.join(LOCK)).is_ok();
        let _ = cleared && fs::remove_dir(&self.path).is_ok();
    }

    fn clear(&self) -> Result<(), PyramidError> {
        let failed = |e| PyramidError::file("clear the folder", &self.path, e);
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let is_own = path.file_name().is_some_and(|name| name == MANIFEST || name == WHOLE)
                || path.extension().is_some_and(|ending| ending == DRAFT || ending == PIECE);
            if is_own {
                fs::remove_file(path).map_err(failed)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_the_same_work_are_kept_and_others_thrown_away() {
        let place = tempfile::tempdir().unwrap();
        let output = place.path().join("out");
        let (folder, resumes) = Folder::open(&output, "one").unwrap();
        assert!(!resumes && !folder.has("a.piece"));
        folder.keep("a.piece", b"abc").unwrap();
        assert!(matches!(Folder::open(&output, "one"), Err(PyramidError::AtWork { .. })));
        drop(folder);
        let (folder, resumes) = Folder::open(&output, "one").unwrap();
        assert!(resumes && folder.read("a.piece").unwrap() == b"abc");
        drop(folder);
        let (folder, resumes) = Folder::open(&output, "two").unwrap();
        assert!(!resumes && !folder.has("a.piece"));
        fs::write(folder.whole(), b"whole").unwrap();
        folder.publish(&output).unwrap();
        assert_eq!(fs::read(&output).unwrap(), b"whole");
        assert!(!Folder::of(&output).exists());
    }
}
