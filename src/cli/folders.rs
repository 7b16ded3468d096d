//! The HDF5 files in folders that are served.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::catalog::sidecar_path;

/// The first bytes of an HDF5 file, or of its superblock behind a user block (HDF5 file format, section II.A).
const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
/// Where the superblock is looked for. It may be at any further power of two, which only few files need.
const PLACES: [u64; 5] = [0, 512, 1024, 2048, 4096];

/// The state of a file when it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

/// The folders to serve, and the files in them that could not be opened.
#[derive(Debug, Default)]
pub(super) struct Folders {
    folders: Vec<PathBuf>,
    /// Files that are not tried again until they change, with the reason.
    broken: BTreeMap<PathBuf, (Stamp, String)>,
}

impl Folders {
    /// Takes the folders out of a list of files and folders.
    pub fn among(paths: &mut Vec<PathBuf>) -> Self {
        let folders = paths.extract_if(.., |path| path.is_dir()).collect();
        Self { folders, broken: BTreeMap::new() }
    }

    pub fn paths(&self) -> &[PathBuf] {
        &self.folders
    }

    pub fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// The HDF5 files directly in the folders, sorted by name, except those known to be broken. Hidden files, and levels
    /// made by `voltile pyramid`, are left out.
    pub fn files(&mut self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for folder in &self.folders {
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
            let entries =
                fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(named)?;
            let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
            paths.sort();
            files.extend(paths.iter().filter(|path| !is_ours(path, &paths) && is_hdf5(path)).cloned());
        }
        let broken = &mut self.broken;
        broken.retain(|path, (stamp, _)| files.contains(path) && stamp_of(path) == Some(*stamp));
        files.retain(|path| !broken.contains_key(path));
        Ok(files)
    }

    /// Notes that a file could not be opened. It is tried again when it has changed.
    pub fn note_broken(&mut self, path: &Path, problem: String) {
        if let Some(stamp) = stamp_of(path) {
            self.broken.insert(path.to_owned(), (stamp, problem));
        }
    }

    /// Lets broken files be tried again.
    pub fn forget_broken(&mut self) {
        self.broken.clear();
    }

    /// Why files are left out.
    pub fn problems(&self) -> Vec<String> {
        self.broken.values().map(|(_, problem)| problem.clone()).collect()
    }
}

/// Whether the file is hidden, or holds the levels of another of these.
fn is_ours(path: &Path, all: &[PathBuf]) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let is_sidecar = path.extension().is_some_and(|ending| ending == "pyramid")
        && all.iter().any(|other| sidecar_path(other) == path);
    is_hidden || is_sidecar
}

/// Whether a regular file begins like an HDF5 file. One that cannot be read does not.
fn is_hdf5(path: &Path) -> bool {
    // Opening a FIFO would block.
    if !path.is_file() {
        return false;
    }
    let Ok(file) = File::open(path) else { return false };
    let mut found = [0; SIGNATURE.len()];
    PLACES.iter().any(|place| file.read_exact_at(&mut found, *place).is_ok() && found == SIGNATURE)
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    let about = path.metadata().ok()?;
    Some(Stamp { length: about.len(), modified: about.modified().ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hdf5_files_are_found_by_their_signature() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).unwrap();
        let behind_user_block = [vec![0; 512], SIGNATURE.to_vec()].concat();
        write("b.ims", &SIGNATURE);
        write("a.mat", &behind_user_block);
        write("a.mat.pyramid", &SIGNATURE);
        write("lone.pyramid", &SIGNATURE);
        write(".hidden.h5", &SIGNATURE);
        write("text.h5", b"not HDF5");
        write("empty.h5", b"");
        fs::create_dir(place.path().join("folder.h5")).unwrap();
        let mut paths = vec![place.path().join("b.ims"), place.path().to_owned()];
        let mut folders = Folders::among(&mut paths);
        assert_eq!(paths, [place.path().join("b.ims")]);
        let mut found = || -> Vec<String> {
            let files = folders.files().unwrap();
            files.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(found(), ["a.mat", "b.ims", "lone.pyramid"]);
        folders.note_broken(&place.path().join("b.ims"), "b is broken".to_owned());
        assert_eq!(folders.files().unwrap().len(), 2);
        assert_eq!(folders.problems(), ["b is broken"]);
        write("b.ims", &behind_user_block);
        assert_eq!(folders.files().unwrap().len(), 3);
        assert!(folders.problems().is_empty());
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_named() {
        let place = tempfile::tempdir().unwrap();
        let gone = place.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let mut folders = Folders::among(&mut vec![gone.clone()]);
        fs::remove_dir(&gone).unwrap();
        assert!(folders.files().unwrap_err().to_string().contains("gone"));
    }
}
