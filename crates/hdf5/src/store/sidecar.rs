//! Keeps the metadata of objects, and notes, in the cache directory, so that opening an object
//! after a restart takes one request.
//!
//! Each address has one file, which begins with a digest of all that follows: a line of JSON, and
//! the pages that the line lists, one after another. A file that is damaged, too long, or of
//! another version of the object is not used, and is replaced.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::blocks::{MAX_BYTES, MetadataBlocks, PAGE, SavedMetadata};
use super::version::Version;
use super::whole_file;

/// The length of a digest in bytes.
const DIGEST: usize = blake3::OUT_LEN;
/// The folder of metadata files within the cache directory.
const FOLDER: &str = "objects";
/// The maximum length of the line of JSON, in bytes.
const MAX_HEAD: usize = 16 << 20;
/// Longer files are not read.
const MAX_LENGTH: u64 = MAX_BYTES + MAX_HEAD as u64;

#[derive(Debug, Serialize, Deserialize)]
struct SidecarHead {
    address: String,
    version: Version,
    /// The length of a page.
    page: u64,
    /// The number and the length of each page.
    pages: Vec<(u64, usize)>,
    #[serde(default)]
    notes: BTreeMap<String, String>,
}

fn file_path(cache: &Path, address: &str) -> PathBuf {
    let name = blake3::hash(address.as_bytes()).to_hex();
    cache.join(FOLDER).join(name.as_str())
}

/// Adds the saved pages and notes of this version of an object.
pub(super) fn load(cache: &Path, address: &str, version: &Version, blocks: &MetadataBlocks) {
    let path = file_path(cache, address);
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => return tracing::warn!("{} cannot be read: {error}", path.display()),
    };
    match parse(&bytes) {
        Some((head, pages)) if head.address == address && head.version.matches(version) => {
            for (start, page) in pages {
                blocks.add(start, &page);
            }
            for (key, text) in head.notes {
                blocks.note(&key, text);
            }
            blocks.mark_saved();
        }
        Some(_) => {}
        None => tracing::warn!("{} is damaged and is not used", path.display()),
    }
}

fn read(path: &Path) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(MAX_LENGTH + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_LENGTH {
        return Err(io::Error::other("it is too long, and is replaced"));
    }
    Ok(bytes.into())
}

/// The head of a file, and its pages by their positions in the object.
fn parse(bytes: &Bytes) -> Option<(SidecarHead, Vec<(u64, Bytes)>)> {
    let digest = bytes.get(..DIGEST)?;
    let rest = bytes.slice(DIGEST..);
    if blake3::hash(&rest).as_bytes() != digest {
        return None;
    }
    let head_end = memchr::memchr(b'\n', &rest[..rest.len().min(MAX_HEAD)])?;
    let head: SidecarHead = serde_json::from_slice(&rest[..head_end]).ok()?;
    if head.page != PAGE {
        return None;
    }
    let mut at = head_end + 1;
    let mut pages = Vec::with_capacity(head.pages.len());
    for (number, length) in &head.pages {
        let end = at.checked_add(*length)?;
        if end > rest.len() || *length as u64 > PAGE {
            return None;
        }
        pages.push((number.checked_mul(PAGE)?, rest.slice(at..end)));
        at = end;
    }
    Some((head, pages))
}

/// Keeps the pages and notes of an object.
pub(super) fn save(cache: &Path, address: &str, version: &Version, (pages, notes): SavedMetadata) {
    let page_lengths = pages.iter().map(|(number, page)| (*number, page.len()));
    let head = SidecarHead {
        address: address.to_owned(),
        version: version.clone(),
        page: PAGE,
        pages: page_lengths.collect(),
        notes,
    };
    if let Err(error) = write(cache, &head, &pages) {
        let path = file_path(cache, &head.address);
        tracing::warn!(
            "{} cannot be written, so that the next start takes longer: {error}",
            path.display()
        );
    }
}

fn write(cache: &Path, head: &SidecarHead, pages: &[(u64, Bytes)]) -> io::Result<()> {
    let path = file_path(cache, &head.address);
    let mut head = serde_json::to_vec(head)?;
    head.push(b'\n');
    let mut parts: Vec<&[u8]> = vec![&head];
    parts.extend(pages.iter().map(|(_, page)| &page[..]));
    let mut digest = blake3::Hasher::new();
    for part in &parts {
        digest.update(part);
    }
    let digest = digest.finalize();
    parts.insert(0, digest.as_bytes());
    fs::create_dir_all(cache.join(FOLDER))?;
    whole_file::write(&path, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_notes_are_found_again_and_damage_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let path = file_path(place.path(), "s3://lab/a.h5");
        let version = Version::new(9000, Some("\"a\"".to_owned()), None);
        let pages = [
            (0, Bytes::from(vec![7; PAGE as usize])),
            (2, Bytes::from_static(b"end")),
        ];
        let notes = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        save(
            place.path(),
            "s3://lab/a.h5",
            &version,
            (pages.to_vec(), notes.clone()),
        );
        let mut kept = fs::read(&path).unwrap();
        let (head, found) = parse(&Bytes::from(kept.clone())).unwrap();
        let starts = [0, 2 * PAGE].into_iter().zip(pages.map(|(_, page)| page));
        assert!(
            head.version.matches(&version)
                && found == starts.collect::<Vec<_>>()
                && head.notes == notes
        );
        for at in [0, DIGEST + 3, kept.len() - 1] {
            kept[at] ^= 1;
            assert!(parse(&Bytes::from(kept.clone())).is_none());
            kept[at] ^= 1;
        }
        kept.truncate(50);
        assert!(parse(&Bytes::from(kept)).is_none());
    }
}
