//! The work folder: stores finished pieces until all are complete.
//!
//! It is next to the output, and named after it. Each file in it is written under a temporary name
//! of its own, synced to disk and then renamed, so that a file with its final name is complete even
//! if the program was killed, and processes that write the same file do not disturb each other.
//! Names begin with a digest of the manifest, a text that says what is being computed from which
//! files: processes with different manifests never read each other's files.
//!
//! Shards use the folder together, on several machines, without any lock. A run of the whole work
//! locks the folder, so that a second run does not do everything twice; the system releases the
//! lock if the run is killed.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::Builder;
use voltile_base::paths::folder_of;

use super::PyramidError;

const LOCK: &str = "lock";
/// Endings of names, each after a dot.
const DRAFT: &str = "draft";
const PIECE: &str = "piece";
const FAILED: &str = "failed";
const SHARDS: &str = "shards";
/// The output file during assembly.
const WHOLE: &str = "whole.h5";
const ENDINGS: [&str; 5] = [DRAFT, PIECE, FAILED, SHARDS, WHOLE];
/// The number of the digest's hexadecimal digits in names.
const DIGITS: usize = 16;
/// A file under assembly that has not changed for this long was left by a killed process.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// A piece: the numbers of its family, and of the piece within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PieceId {
    pub family: usize,
    pub piece: usize,
}

/// The work folder of one output, for the work with one manifest.
#[derive(Debug)]
pub(super) struct WorkFolder {
    path: PathBuf,
    /// The beginning of the names of this work's files.
    prefix: String,
    /// Locks the folder until it is dropped; `None` if the folder is shared.
    _lock: Option<File>,
}

impl WorkFolder {
    /// The path of the folder for `output`.
    fn beside(output: &Path) -> PathBuf {
        let mut name = output.as_os_str().to_owned();
        name.push(".work");
        PathBuf::from(name)
    }

    /// Opens or creates the folder for a run of the whole work; removes the files of other
    /// work.
    pub fn open(output: &Path, manifest: &str) -> Result<Self, PyramidError> {
        let mut folder = Self::create(output, manifest)?;
        let lock = folder.path.join(LOCK);
        let file = File::create(&lock).map_err(|e| PyramidError::file("write", &lock, e))?;
        // Any other error is ignored: some network file systems do not support locks, and a second
        // run is not prevented there.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(PyramidError::AtWork(folder.path));
        }
        folder._lock = Some(file);
        folder.clear(|name| !name.starts_with(&folder.prefix))?;
        folder.sweep_wholes(Duration::ZERO);
        Ok(folder)
    }

    /// Opens or creates the folder for one of several shards.
    pub fn open_shared(
        output: &Path,
        manifest: &str,
        shards: NonZeroU64,
    ) -> Result<Self, PyramidError> {
        let folder = Self::create(output, manifest)?;
        folder.store(&folder.name(&format!("{shards}.{SHARDS}")), b"")?;
        Ok(folder)
    }

    /// The folder as it is, for assembly by one process after the shards.
    pub fn existing(output: &Path, manifest: &str) -> Self {
        let folder = Self::new(output, manifest);
        folder.sweep_wholes(ABANDONED_AFTER);
        folder
    }

    fn new(output: &Path, manifest: &str) -> Self {
        let digest = blake3::hash(manifest.as_bytes()).to_hex();
        let prefix = format!("{}.", digest.get(..DIGITS).unwrap_or_default());
        Self {
            path: Self::beside(output),
            prefix,
            _lock: None,
        }
    }

    fn create(output: &Path, manifest: &str) -> Result<Self, PyramidError> {
        let folder = Self::new(output, manifest);
        let created = fs::create_dir_all(&folder.path);
        created.map_err(|e| PyramidError::file("create the folder", &folder.path, e))?;
        Ok(folder)
    }

    /// Removes the folder left by a finished or outdated run, unless another run is using it.
    pub fn sweep(output: &Path) {
        let path = Self::beside(output);
        let lock = File::open(path.join(LOCK)).ok();
        let is_in_use = lock
            .as_ref()
            .is_some_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
        if !is_in_use && path.exists() {
            Self {
                path,
                prefix: String::new(),
                _lock: lock,
            }
            .remove();
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the folder has files of work with another manifest.
    pub fn has_other_work(&self) -> bool {
        self.names()
            .iter()
            .any(|name| !name.starts_with(&self.prefix))
    }

    pub fn has(&self, id: PieceId) -> bool {
        self.path.join(self.piece_name(id)).exists()
    }

    /// The bytes of a finished piece.
    pub fn read(&self, id: PieceId) -> Result<Vec<u8>, PyramidError> {
        let path = self.path.join(self.piece_name(id));
        fs::read(&path).map_err(|e| PyramidError::file("read", &path, e))
    }

    /// Removes a damaged piece.
    pub fn discard(&self, id: PieceId) {
        let _ = fs::remove_file(self.path.join(self.piece_name(id)));
    }

    /// Stores a piece; once this returns, it is complete and on disk.
    pub fn store_piece(&self, id: PieceId, bytes: &[u8]) -> Result<(), PyramidError> {
        self.store(&self.piece_name(id), bytes)?;
        let _ = fs::remove_file(self.path.join(self.failure_name(id)));
        Ok(())
    }

    /// Records why a piece could not be made; assembly reads it.
    pub fn record_failure(&self, id: PieceId, why: &str) -> Result<(), PyramidError> {
        self.store(&self.failure_name(id), why.as_bytes())
    }

    /// The failures that are recorded, by family.
    pub fn failures(&self) -> Vec<(usize, String)> {
        let mut failures = Vec::new();
        for (middle, name) in self.ending_in(FAILED) {
            // FAMILY-PIECE, as `failure_name` writes it.
            let numbers = middle.split_once('-');
            let family = numbers.and_then(|(family, _)| family.parse().ok());
            let why = fs::read_to_string(self.path.join(name)).ok();
            failures.extend(family.zip(why));
        }
        failures
    }

    /// The numbers of shards into which the work was divided: 2 and 8 after the shards 0/2 and 3/8.
    pub fn divisions(&self) -> Vec<NonZeroU64> {
        let counts = self.ending_in(SHARDS).into_iter();
        counts.filter_map(|(count, _)| count.parse().ok()).collect()
    }

    /// A path at which the output can be assembled; a new one each time.
    pub fn whole(&self) -> PathBuf {
        self.path
            .join(self.name(&format!("{:016x}.{WHOLE}", fastrand::u64(..))))
    }

    /// Moves the complete file into place, and removes the folder.
    pub fn publish(self, whole: &Path, output: &Path) -> Result<(), PyramidError> {
        if output.exists() {
            return Err(PyramidError::Exists(output.to_owned()));
        }
        fs::rename(whole, output).map_err(|e| PyramidError::file("move into place", output, e))?;
        // The rename is durable once the parent folder is synced, which not every system supports.
        let _ = File::open(folder_of(output)).and_then(|folder| folder.sync_all());
        self.remove();
        Ok(())
    }

    /// Removes the folder and all files in it that voltile wrote. Errors are ignored: leftovers are
    /// harmless.
    pub fn remove(self) {
        let _ = self.clear(|_| true);
        let _ = fs::remove_file(self.path.join(LOCK));
        let _ = fs::remove_dir(&self.path);
    }

    /// The name of a file of this work.
    fn name(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    /// The name of a piece's file.
    pub fn piece_name(&self, PieceId { family, piece }: PieceId) -> String {
        self.name(&format!("{family}-{piece}.{PIECE}"))
    }

    fn failure_name(&self, PieceId { family, piece }: PieceId) -> String {
        self.name(&format!("{family}-{piece}.{FAILED}"))
    }

    /// Writes a file of the folder whole or not at all.
    fn store(&self, name: &str, bytes: &[u8]) -> Result<(), PyramidError> {
        let path = self.path.join(name);
        self.write_synced(name, &path, bytes)
            .map_err(|e| PyramidError::file("write", &path, e))
    }

    /// Writes a draft, syncs it to disk and renames it.
    fn write_synced(&self, name: &str, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut draft = Builder::new()
            .prefix(&format!("{name}."))
            .suffix(&format!(".{DRAFT}"))
            .make_in(&self.path, |path| File::create_new(path))?;
        draft.as_file_mut().write_all(bytes)?;
        draft.as_file().sync_all()?;
        draft.persist(path)?;
        Ok(())
    }

    /// The names of all files of voltile; none if the folder cannot be read.
    fn names(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| is_own(name)).collect()
    }

    /// Lists the files of this work with an ending: for each, the part of its name between prefix
    /// and ending (`3-17` for `PREFIX.3-17.piece`), and its name.
    fn ending_in(&self, ending: &str) -> Vec<(String, String)> {
        let names = self.names().into_iter();
        let files = names.filter_map(|name| {
            let middle = name
                .strip_prefix(&self.prefix)?
                .strip_suffix(ending)?
                .strip_suffix('.')?;
            Some((middle.to_owned(), name))
        });
        files.collect()
    }

    /// Removes files under assembly that have not changed for `age`; all of them if it is zero.
    fn sweep_wholes(&self, age: Duration) {
        for name in self.names().iter().filter(|name| name.ends_with(WHOLE)) {
            let path = self.path.join(name);
            let modified = fs::metadata(&path).and_then(|about| about.modified());
            let unchanged_for = modified
                .ok()
                .and_then(|time| SystemTime::now().duration_since(time).ok());
            if age.is_zero() || unchanged_for.is_some_and(|time| time >= age) {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Removes voltile's files whose names are unwanted.
    fn clear(&self, is_unwanted: impl Fn(&str) -> bool) -> Result<(), PyramidError> {
        for name in self.names().iter().filter(|name| is_unwanted(name)) {
            // Another process may have removed the file.
            if let Err(error) = fs::remove_file(self.path.join(name))
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(PyramidError::file("clear the folder", &self.path, error));
            }
        }
        Ok(())
    }
}

/// Whether this is the name of a file that voltile wrote.
fn is_own(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_hexdigit).count();
    digits == DIGITS
        && ENDINGS
            .iter()
            .any(|ending| name[DIGITS..].ends_with(&format!(".{ending}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: PieceId = PieceId {
        family: 0,
        piece: 0,
    };

    #[test]
    fn pieces_of_the_same_work_are_kept_and_others_thrown_away() {
        let place = tempfile::tempdir().unwrap();
        let output = place.path().join("out");
        let folder = WorkFolder::open(&output, "one").unwrap();
        assert!(!folder.has(FIRST));
        folder.store_piece(FIRST, b"abc").unwrap();
        assert!(matches!(
            WorkFolder::open(&output, "one"),
            Err(PyramidError::AtWork(_))
        ));
        drop(folder);
        let folder = WorkFolder::open(&output, "one").unwrap();
        assert_eq!(folder.read(FIRST).unwrap(), b"abc");
        drop(folder);
        let folder = WorkFolder::open(&output, "two").unwrap();
        assert!(!folder.has(FIRST));
        let whole = folder.whole();
        fs::write(&whole, b"whole").unwrap();
        folder.publish(&whole, &output).unwrap();
        assert_eq!(fs::read(&output).unwrap(), b"whole");
        assert!(!WorkFolder::beside(&output).exists());
    }

    #[test]
    fn shards_share_the_folder_and_those_of_other_work_do_not_see_their_pieces() {
        let place = tempfile::tempdir().unwrap();
        let output = place.path().join("out");
        let four = NonZeroU64::new(4).unwrap();
        let (one, other) = (
            WorkFolder::open_shared(&output, "one", four).unwrap(),
            WorkFolder::open_shared(&output, "two", four).unwrap(),
        );
        let again = WorkFolder::open_shared(&output, "one", NonZeroU64::MIN).unwrap();
        one.record_failure(FIRST, "broken").unwrap();
        assert_eq!(again.failures(), [(0, "broken".to_owned())]);
        again.store_piece(FIRST, b"abc").unwrap();
        one.store_piece(FIRST, b"abc").unwrap();
        assert!(one.has(FIRST) && !other.has(FIRST) && one.failures().is_empty());
        let existing = WorkFolder::existing(&output, "one");
        assert_eq!(existing.divisions(), [NonZeroU64::MIN, four]);
        assert!(existing.has_other_work() && existing.read(FIRST).unwrap() == b"abc");
        existing.remove();
        assert!(!WorkFolder::beside(&output).exists());
        assert!(
            one.store_piece(FIRST, b"abc").is_err(),
            "the folder is not created again"
        );
    }
}
