//! The files of a cache directory: `tiles/TOKEN/ab/abcd….png` and `blocks/NAME/ab/abcd….bytes`.
//! Here `abcd…` is the key, and `ab`, its first byte, names the *fan* folder, which keeps folders
//! short.
//!
//! Tokens are chosen by users. Folders are named after them, except that a leading dot is escaped
//! and long tokens are truncated, so that no folder is hidden, leads to a parent, or exceeds the
//! file system's limit.

use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use voltile_base::name::Name;
use voltile_base::tile::{Fingerprint, TileKey};
use voltile_hdf5::store::whole_file::TEMPORARY;

use super::entry;

/// The kinds of entries of a cache directory; each has a folder and a budget of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// Encoded tiles, by token.
    Tile,
    /// Stored bytes of objects, by the name of the object.
    Block,
}

impl EntryKind {
    pub const ALL: [EntryKind; 2] = [EntryKind::Tile, EntryKind::Block];

    /// The folder that contains one folder per token.
    pub fn folder(self) -> &'static str {
        match self {
            EntryKind::Tile => "tiles",
            EntryKind::Block => "blocks",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            EntryKind::Tile => ".png",
            EntryKind::Block => ".bytes",
        }
    }

    /// The maximum length of a file in bytes; longer files are neither written nor read.
    pub fn max_length(self) -> u64 {
        match self {
            EntryKind::Tile => entry::MAX_LENGTH,
            EntryKind::Block => 64 << 20,
        }
    }
}

/// Replaces a leading dot in a folder name.
const DOT: &str = "%2E";
/// The maximum length of a token that is not truncated in a folder name: file systems allow names
/// of 255 bytes.
const MAX_TOKEN: usize = 200;
/// The length to which a longer token is truncated.
const TRUNCATED_TOKEN: usize = 160;

/// The folder of a token; it need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenFolder {
    /// The token; truncated if it is long and was derived from the folder name.
    pub token: String,
    pub path: PathBuf,
    kind: EntryKind,
}

/// A file in the folder of a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FolderFile {
    pub path: PathBuf,
    /// `None` for a temporary file: it is being written, or was left behind by a killed process.
    pub key: Option<TileKey>,
    pub length: u64,
    /// When it was written or last read, to within a minute.
    pub modified: SystemTime,
}

impl TokenFolder {
    pub fn new(root: &Path, kind: EntryKind, token: &Name) -> Self {
        Self {
            token: token.as_str().to_owned(),
            path: root.join(kind.folder()).join(folder_name(token)),
            kind,
        }
    }

    /// The existing folders of tokens, sorted by token.
    pub fn all(root: &Path, kind: EntryKind) -> io::Result<Vec<Self>> {
        let mut folders = Vec::new();
        for entry in entries(&root.join(kind.folder()))? {
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let token = match name.strip_prefix(DOT) {
                Some(rest) => format!(".{rest}"),
                None => name,
            };
            let path = entry.path();
            folders.push(Self { token, path, kind });
        }
        folders.sort_by(|a, b| a.token.cmp(&b.token));
        Ok(folders)
    }

    /// The path of a tile's file.
    pub fn file(&self, key: &TileKey) -> PathBuf {
        let name = format!("{key}{}", self.kind.ending());
        self.path.join(fan_name(key)).join(name)
    }

    /// Creates the folder that a tile's file lies in. The cache directory itself is not created:
    /// the error is [`ErrorKind::NotFound`] if it was removed.
    pub fn make(&self, key: &TileKey) -> io::Result<()> {
        let fan = self.path.join(fan_name(key));
        let folders = [self.path.parent(), Some(&*self.path), Some(&*fan)];
        for folder in folders.into_iter().flatten() {
            if let Err(error) = fs::create_dir(folder)
                && error.kind() != ErrorKind::AlreadyExists
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Calls `visit` with every entry and temporary file. Files that are not voltile's, and files
    /// that are removed meanwhile, are left out.
    pub fn visit(&self, mut visit: impl FnMut(FolderFile) -> io::Result<()>) -> io::Result<()> {
        for fan in entries(&self.path)? {
            for entry in entries(&fan.path())? {
                let Some(about) = unless_missing(entry.metadata())? else {
                    continue;
                };
                let name = entry.file_name().to_string_lossy().into_owned();
                let stem = name.strip_suffix(self.kind.ending());
                let key = stem.and_then(TileKey::parse);
                if about.is_file() && (key.is_some() || name.starts_with(TEMPORARY)) {
                    visit(FolderFile {
                        path: entry.path(),
                        key,
                        length: about.len(),
                        modified: about.modified()?,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Removes the token's empty fan folders, and then the token's folder if it is empty.
    pub fn remove_empty(&self) -> io::Result<()> {
        let fans = entries(&self.path)?;
        let folders = fans.iter().map(DirEntry::path).chain([self.path.clone()]);
        for folder in folders {
            if let Err(error) = fs::remove_dir(folder) {
                match error.kind() {
                    ErrorKind::NotFound
                    | ErrorKind::DirectoryNotEmpty
                    | ErrorKind::NotADirectory => {}
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// Turns the error that a file does not exist into `None`.
pub(super) fn unless_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The entries of a folder by inode number: file systems read inodes fastest in that order. Empty
/// if the folder does not exist, or is a file.
fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    let listed = match fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => return Ok(Vec::new()),
            _ => return Err(error),
        },
    };
    let mut entries = listed.collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable_by_key(DirEntryExt::ino);
    Ok(entries)
}

/// The name of the fan folder, which holds the keys that begin with the same byte.
fn fan_name(key: &TileKey) -> String {
    format!("{:02x}", key.first())
}

fn folder_name(token: &Name) -> String {
    let text = token.as_str();
    if text.len() > MAX_TOKEN {
        let start = text.get(..TRUNCATED_TOKEN).unwrap_or_default();
        let start = start.trim_start_matches('.');
        return format!("{start}~{}", Fingerprint::digest(&text));
    }
    match text.strip_prefix('.') {
        Some(rest) => format!("{DOT}{rest}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_has_a_safe_folder_of_its_own() {
        let long = "a".repeat(300);
        let tokens = [
            "a",
            "a.b",
            ".",
            "..",
            ".h5",
            "-",
            "%2E",
            &long,
            &format!("{long}a"),
            &format!(".{long}"),
        ];
        let folders: Vec<String> = tokens
            .iter()
            .filter_map(|token| Name::new(token).ok())
            .map(|token| folder_name(&token))
            .collect();
        assert_eq!(
            folders.len(),
            tokens.len() - 1,
            "names cannot contain a percent sign"
        );
        for (at, folder) in folders.iter().enumerate() {
            assert!(
                !folder.starts_with('.') && !folder.contains('/') && folder.len() <= 255,
                "{folder}"
            );
            assert!(!folders[..at].contains(folder), "{folder}");
        }
    }

    #[test]
    fn tiles_and_temporary_files_are_found_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let (key, token) = (TileKey::digest(&1), Name::new(".h5").unwrap());
        let folder = TokenFolder::new(place.path(), EntryKind::Tile, &token);
        folder.make(&key).unwrap();
        fs::write(folder.file(&key), "123").unwrap();
        for other in [".voltile-abc", "notes.txt", "0123.png"] {
            fs::write(folder.file(&key).with_file_name(other), "").unwrap();
        }
        fs::write(place.path().join("tiles/notes.txt"), "").unwrap();
        assert_eq!(
            TokenFolder::all(place.path(), EntryKind::Tile).unwrap(),
            std::slice::from_ref(&folder)
        );
        let mut found = Vec::new();
        folder
            .visit(|file| {
                found.push((file.key, file.length));
                Ok(())
            })
            .unwrap();
        found.sort_by_key(|(_, length)| *length);
        assert_eq!(found, [(None, 0), (Some(key), 3)]);
        let gone = TokenFolder::new(&place.path().join("gone"), EntryKind::Tile, &token);
        assert_eq!(gone.make(&key).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
