//! Where things lie in a cache directory: `tiles/TOKEN/ab/abcd….png`, and what may be found there besides.
//!
//! Tokens come from users. As folders they are themselves, but for a dot at the beginning and for what is too long, so
//! that none is hidden, climbs, or is refused by the file system.

use std::fs::{self, DirEntry, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirEntryExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::NamedTempFile;

use crate::name::Name;
use crate::tile::{Fingerprint, TileKey};

/// What files begin with that are being written, at the top and beside tiles.
pub(super) const UNFINISHED: &str = ".voltile-";
/// The folder that holds those of the tokens.
const TILES: &str = "tiles";
/// What stands for a dot that a folder would begin with.
const DOT: &str = "%2E";
/// The longest name of a folder that is made of a token alone, and how much of longer ones is kept.
const LONGEST: usize = 200;
const KEPT: usize = 160;
const ENDING: &str = ".png";

/// The folder of a token.
pub(super) fn folder(root: &Path, token: &Name) -> PathBuf {
    root.join(TILES).join(folder_name(token))
}

/// The file of a tile.
pub(super) fn file(root: &Path, token: &Name, key: &TileKey) -> PathBuf {
    in_folder(&folder(root, token), key)
}

fn in_folder(folder: &Path, key: &TileKey) -> PathBuf {
    folder.join(fan(key.first())).join(format!("{key}{ENDING}"))
}

fn fan(byte: u8) -> String {
    format!("{byte:02x}")
}

fn folder_name(token: &Name) -> String {
    let text = token.as_str();
    match text.strip_prefix('.') {
        _ if text.len() > LONGEST => {
            let kept = text.get(..KEPT).unwrap_or_default().trim_start_matches('.');
            format!("{kept}~{}", Fingerprint::of(&text))
        }
        Some(rest) => format!("{DOT}{rest}"),
        None => text.to_owned(),
    }
}

/// A new file beside those that are finished, to be put in the place of one; it is gone when it is dropped.
pub(super) fn unfinished(folder: &Path) -> io::Result<NamedTempFile> {
    // As any other file: readable for whom the umask lets, so that servers of several people can share.
    let permissions = Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(UNFINISHED).permissions(permissions).tempfile_in(folder)
}

/// The folder of a token that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folder {
    /// The token; of one that is very long, its beginning.
    pub token: String,
    pub path: PathBuf,
}

/// A tile that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredTile {
    pub key: TileKey,
    /// The length of its file.
    pub length: u64,
    /// When it was written, or read last as far as that is kept.
    pub modified: SystemTime,
}

/// What was found in a fan-out directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Tile(StoredTile),
    /// A file that was being written, or still is.
    Unfinished(PathBuf, SystemTime),
    /// What voltile did not put there.
    Foreign(PathBuf),
}

/// The folders of all tokens, sorted.
pub(super) fn all(root: &Path) -> io::Result<Vec<Folder>> {
    let mut folders = Vec::new();
    for entry in listed(&root.join(TILES))? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let token = name.strip_prefix(DOT).map_or_else(|| name.clone(), |rest| format!(".{rest}"));
        if entry.path().is_dir() {
            folders.push(Folder { token, path: entry.path() });
        }
    }
    folders.sort_by(|a, b| a.token.cmp(&b.token));
    Ok(folders)
}

impl Folder {
    /// The file of a tile in it.
    pub fn file(&self, key: &TileKey) -> PathBuf {
        in_folder(&self.path, key)
    }

    /// The directory of the tiles whose keys begin with a byte.
    pub fn fan(&self, byte: u8) -> PathBuf {
        self.path.join(fan(byte))
    }

    /// What is in the directory of the tiles whose keys begin with that byte.
    pub fn found(&self, byte: u8) -> io::Result<Vec<Found>> {
        let entries = listed(&self.fan(byte))?;
        Ok(entries.iter().filter_map(|entry| found(entry, byte)).collect())
    }
}

/// What an entry is; nothing where it is gone by now.
fn found(entry: &DirEntry, byte: u8) -> Option<Found> {
    let (name, about) = (entry.file_name(), entry.metadata().ok()?);
    let (name, modified) = (name.to_string_lossy(), about.modified().ok()?);
    let key = name.strip_suffix(ENDING).and_then(TileKey::parse).filter(|key| key.first() == byte);
    Some(match key {
        Some(key) if about.is_file() => Found::Tile(StoredTile { key, length: about.len(), modified }),
        None if name.starts_with(UNFINISHED) => Found::Unfinished(entry.path(), modified),
        _ => Found::Foreign(entry.path()),
    })
}

/// The entries of a directory, in the order in which file systems keep what is asked of them next; none where it is not
/// there.
fn listed(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries: Vec<DirEntry> = match fs::read_dir(path) {
        Ok(entries) => entries.collect::<Result<_, _>>()?,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    entries.sort_unstable_by_key(DirEntry::ino);
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn no_token_climbs_or_hides_and_each_has_a_folder_of_its_own() {
        let long = "a".repeat(300);
        let tokens =
            ["a", "a.b", ".", "..", ".h5", "-", "%2E", &long, &format!("{long}a"), &format!(".{long}")];
        let folders: Vec<String> = tokens
            .iter()
            .filter_map(|token| Name::new(token).ok())
            .map(|token| folder_name(&token))
            .collect();
        assert_eq!(folders.len(), tokens.len() - 1, "a percent sign is no part of a name");
        for (at, folder) in folders.iter().enumerate() {
            assert!(!folder.starts_with('.') && !folder.contains('/') && folder.len() <= 255, "{folder}");
            assert!(!folders[..at].contains(folder), "{folder}");
        }
    }

    #[test]
    fn what_lies_there_is_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let key = TileKey::of(&1);
        let path = file(root.path(), &name(".h5"), &key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "123").unwrap();
        for other in [".voltile-abc", "notes.txt", "0123.png"] {
            fs::write(path.with_file_name(other), "").unwrap();
        }
        let folders = all(root.path()).unwrap();
        assert_eq!(folders.iter().map(|folder| folder.token.as_str()).collect::<Vec<_>>(), [".h5"]);
        assert_eq!(folders[0].file(&key), path);
        let found = folders[0].found(key.first()).unwrap();
        let count = |is: fn(&Found) -> bool| found.iter().filter(|found| is(found)).count();
        assert_eq!(count(|found| matches!(found, Found::Tile(tile) if tile.length == 3)), 1);
        assert_eq!(count(|found| matches!(found, Found::Unfinished(..))), 1);
        assert_eq!(count(|found| matches!(found, Found::Foreign(..))), 2);
        assert!(folders[0].found(key.first() ^ 1).unwrap().is_empty());
    }
}
