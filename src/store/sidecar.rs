//! Metadata of objects, and notes, kept in the cache directory, so that a second start needs one request.
//!
//! One file for each address: a line of JSON, the pages that it lists one after another, and before both a digest of all
//! that follows. A file that is damaged, or of another version of the object, is not used; the next one replaces it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::blocks::{Blocks, PAGE, Saved};
use super::version::Version;

const DIGEST: usize = blake3::OUT_LEN;

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    address: String,
    version: Version,
    page: u64,
    /// The number of each page, and its length.
    pages: Vec<(u64, usize)>,
    #[serde(default)]
    notes: BTreeMap<String, String>,
}

fn path(folder: &Path, address: &str) -> PathBuf {
    folder.join(blake3::hash(address.as_bytes()).to_hex().as_str())
}

/// Adds the pages and notes that were kept of this version of an object.
pub(super) fn load(folder: &Path, address: &str, version: &Version, blocks: &Blocks) {
    let path = path(folder, address);
    let kept = match std::fs::read(&path) {
        Ok(kept) => Bytes::from(kept),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => return tracing::warn!("{} cannot be read: {error}", path.display()),
    };
    match parsed(&kept) {
        Some((head, pages)) if head.address == address && head.version.is_of(version) => {
            for (number, page) in pages {
                blocks.add(number * PAGE, &page);
            }
            head.notes.into_iter().for_each(|(key, text)| blocks.note(&key, text));
            blocks.are_saved();
        }
        Some(_) => {}
        None => tracing::warn!("{} is damaged and is not used", path.display()),
    }
}

fn parsed(kept: &Bytes) -> Option<(Head, Vec<(u64, Bytes)>)> {
    let (digest, rest) = (kept.get(..DIGEST)?, kept.slice(DIGEST..));
    if blake3::hash(&rest).as_bytes() != digest {
        return None;
    }
    let end = memchr::memchr(b'\n', &rest)?;
    let head: Head = serde_json::from_slice(&rest[..end]).ok().filter(|head: &Head| head.page == PAGE)?;
    let mut at = end + 1;
    let mut pages = Vec::with_capacity(head.pages.len());
    for (number, length) in &head.pages {
        let page = (at..at + length).end.le(&rest.len()).then(|| rest.slice(at..at + length))?;
        pages.push((*number, page));
        at += length;
    }
    Some((head, pages))
}

/// Keeps the pages and notes of an object.
pub(super) fn save(folder: &Path, address: &str, version: &Version, (pages, notes): Saved) {
    let listed = pages.iter().map(|(number, page)| (*number, page.len())).collect();
    let (address, version) = (address.to_owned(), version.clone());
    let head = Head { address, version, page: PAGE, pages: listed, notes };
    if let Err(error) = written(folder, &head, &pages) {
        let path = path(folder, &head.address);
        tracing::warn!("{} cannot be written, so that the next start takes longer: {error}", path.display());
    }
}

fn written(folder: &Path, head: &Head, pages: &[(u64, Bytes)]) -> std::io::Result<()> {
    let path = path(folder, &head.address);
    let mut head = serde_json::to_vec(head)?;
    head.push(b'\n');
    let mut digest = blake3::Hasher::new();
    digest.update(&head);
    pages.iter().for_each(|(_, page)| {
        digest.update(page);
    });
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".voltile-").tempfile_in(folder)?;
    file.write_all(digest.finalize().as_bytes())?;
    file.write_all(&head)?;
    pages.iter().try_for_each(|(_, page)| file.write_all(page))?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_notes_are_found_again_and_damage_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let path = path(place.path(), "s3://lab/a.h5");
        let version = Version::new(9000, Some("\"a\"".to_owned()), None);
        let pages = [(0, Bytes::from(vec![7; PAGE as usize])), (2, Bytes::from_static(b"end"))];
        let notes = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        save(place.path(), "s3://lab/a.h5", &version, (pages.to_vec(), notes.clone()));
        let mut kept = std::fs::read(&path).unwrap();
        let (head, found) = parsed(&Bytes::from(kept.clone())).unwrap();
        assert!(head.version.is_of(&version) && found == pages && head.notes == notes);
        for at in [0, DIGEST + 3, kept.len() - 1] {
            kept[at] ^= 1;
            assert!(parsed(&Bytes::from(kept.clone())).is_none());
            kept[at] ^= 1;
        }
        kept.truncate(50);
        assert!(parsed(&Bytes::from(kept)).is_none());
    }
}
