//! Stamps: recognise a file after it was moved or copied, and detect edits.
//!
//! A file matches its stamp if length, samples of its bytes and modification time are equal. If
//! only the time differs, it may be a copy: then all bytes are compared. That is slow, so it is
//! done only for files up to [`MAX_WHOLE`]; a longer copy must keep the time of its original, as
//! with `cp -p`. Edits are detected because they change the modification time.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::store::Version;

/// Files up to this length are compared in full, by a digest of all bytes: 4 GiB.
const MAX_WHOLE: u64 = 4 << 30;
/// The number of samples of a file, evenly spread.
const SAMPLES: u64 = 16;
/// The length of a sample in bytes.
const SAMPLE_BYTES: u64 = 4096;

/// Identifying properties of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The file's path relative to the folder of the main file that refers to it; empty for the
    /// main file itself.
    pub name: String,
    length: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// The digest of its samples.
    sample: String,
    /// The digest of all its bytes, unless the file is too long or it was not requested.
    whole: Option<String>,
}

impl Stamp {
    /// The stamp of an object in a store: its entity tag, or else the text of its modification
    /// time, takes the place of the samples.
    pub fn of_object(version: &Version, name: String) -> Self {
        let tag = version.etag.clone().or_else(|| version.modified.clone());
        Self {
            name,
            length: version.length,
            modified: (0, 0),
            sample: tag.unwrap_or_default(),
            whole: None,
        }
    }

    /// The stamp of the file at a path in its current state, without the digest of all its bytes.
    pub fn read(path: &Path, name: String) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        Ok(Self {
            name,
            length: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            sample: digest_of_samples(&file, about.len())?,
            whole: None,
        })
    }

    /// Adds the digest of all bytes if the file is not too long; reads the whole file.
    pub fn with_whole(mut self, path: &Path) -> io::Result<Self> {
        if self.length <= MAX_WHOLE {
            self.whole = Some(digest_of_all(path)?);
        }
        Ok(self)
    }

    /// The path of the stamped file; `main` is the path of the main file.
    pub fn path(&self, main: &Path) -> PathBuf {
        if self.name.is_empty() {
            return main.to_owned();
        }
        main.parent().unwrap_or(Path::new("/")).join(&self.name)
    }

    /// Checks that the file at a path is the stamped one; the error says why not. Reads the whole
    /// file if only its modification time differs.
    pub fn check(&self, path: &Path) -> Result<(), String> {
        let shown = path.display();
        let now = Self::read(path, String::new()).map_err(|e| format!("{shown}: {e}"))?;
        if now.length != self.length || now.sample != self.sample {
            return Err(format!("{shown} is another file, or has been changed"));
        }
        if now.modified == self.modified {
            return Ok(());
        }
        let Some(known) = &self.whole else {
            let (seconds, nanoseconds) = self.modified;
            return Err(format!(
                "{shown} has been changed, or is a copy; if it is an unmodified copy, give it the time of its \
                 original: touch -d @{seconds}.{nanoseconds:09} {shown}"
            ));
        };
        tracing::debug!("the modification time of {shown} differs; comparing all bytes");
        let whole = digest_of_all(path).map_err(|e| format!("{shown}: {e}"))?;
        if whole != *known {
            return Err(format!("{shown} has been changed"));
        }
        Ok(())
    }
}

fn digest_of_samples(file: &File, length: u64) -> io::Result<String> {
    let mut digest = blake3::Hasher::new();
    let mut bytes = vec![0; SAMPLE_BYTES as usize];
    for number in 0..SAMPLES {
        // The first sample begins the file, and the last one ends it.
        let last = u128::from(length.saturating_sub(SAMPLE_BYTES));
        let at = (last * u128::from(number) / u128::from(SAMPLES - 1)) as u64;
        let count = SAMPLE_BYTES.min(length - at) as usize;
        file.read_exact_at(&mut bytes[..count], at)?;
        digest.update(&bytes[..count]);
        if length <= SAMPLE_BYTES {
            break;
        }
    }
    Ok(digest.finalize().to_hex().to_string())
}

fn digest_of_all(path: &Path) -> io::Result<String> {
    let mut digest = blake3::Hasher::new();
    digest.update_reader(File::open(path)?)?;
    Ok(digest.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_copy_is_the_same_and_an_edited_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let mut bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        fs::write(&one, &bytes).unwrap();
        let stamp = Stamp::read(&one, String::new())
            .unwrap()
            .with_whole(&one)
            .unwrap();
        assert_eq!(stamp.check(&one), Ok(()));
        fs::copy(&one, &two).unwrap();
        assert_eq!(stamp.check(&two), Ok(()));
        // Between two samples.
        bytes[70_000] ^= 1;
        fs::write(&two, &bytes).unwrap();
        assert!(stamp.check(&two).is_err());
        fs::write(&two, &bytes[1..]).unwrap();
        assert!(stamp.check(&two).is_err());
    }

    #[test]
    fn a_long_copy_needs_the_time_of_its_original() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, b"abc").unwrap();
        let stamp = Stamp::read(&one, String::new()).unwrap();
        fs::write(&two, b"abc").unwrap();
        let time = fs::metadata(&one).unwrap().modified().unwrap();
        let file = fs::OpenOptions::new().write(true).open(&two).unwrap();
        file.set_modified(time + std::time::Duration::from_secs(5))
            .unwrap();
        assert!(stamp.check(&two).unwrap_err().contains("touch -d @"));
        file.set_modified(time).unwrap();
        assert_eq!(stamp.check(&two), Ok(()));
    }

    #[test]
    fn stamps_are_told_in_the_folder_of_the_file_that_they_belong_to() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        fs::write(&own, b"").unwrap();
        let named = |name: &str| Stamp::read(&own, name.to_owned()).unwrap().path(&own);
        assert_eq!(
            (named(""), named("sub/part")),
            (own.clone(), folder.path().join("sub/part"))
        );
    }
}
