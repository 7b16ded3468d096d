//! The structure of a cache directory, `tiles/TOKEN/ab/abcd….png` and `blocks/NAME/ab/abcd….bytes`,
//! and the classification of what is found in it.
//!
//! Tokens are chosen by users. Folders are named after them, except that a leading dot is escaped
//! and long tokens are truncated, so that no folder is hidden, leads to a parent, or exceeds the
//! file system's limit.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::{TierError, entry};
use crate::base::name::Name;
use crate::base::tile::{Fingerprint, TileKey};
use crate::store::dir::{Dir, HIDDEN, is};

/// What a cache directory keeps: each kind in a folder of its own, with a budget of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Encoded tiles, by token.
    Tiles,
    /// Stored bytes of objects, by the name of the object.
    Blocks,
}

impl Kind {
    /// The folder that contains one folder per token.
    pub fn folder(self) -> &'static str {
        match self {
            Kind::Tiles => TILES,
            Kind::Blocks => BLOCKS,
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Kind::Tiles => ".png",
            Kind::Blocks => ".bytes",
        }
    }

    /// The maximum length of a file; longer ones are neither written nor read.
    pub fn max_length(self) -> u64 {
        match self {
            Kind::Tiles => entry::LONGEST,
            Kind::Blocks => 64 << 20,
        }
    }
}

const TILES: &str = "tiles";
const BLOCKS: &str = "blocks";
/// The folder with metadata of objects in stores, and the length of a name in it: a digest in
/// hexadecimal.
const OBJECTS: &str = "objects";
const DIGITS: usize = 64;
/// Digests of data files.
const DIGESTS: &str = "digests";
const DIGEST: &str = ".blake3";
/// Replaces a leading dot in a folder name.
const DOT: &str = "%2E";
/// The maximum length of a token used as folder name unchanged, and the length to which longer ones
/// are truncated.
const MAX_TOKEN: usize = 200;
const KEPT: usize = 160;

/// The folder of a token; it need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folder {
    /// The token; truncated if it is long and was derived from the folder name.
    pub token: String,
    name: Box<OsStr>,
    kind: Kind,
}

/// A tile found in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredTile {
    pub key: TileKey,
    /// The length of its file.
    pub length: u64,
    /// When it was written or last read, to within a minute: in seconds since 1970.
    pub modified: u64,
}

/// An entry of a fan-out directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// A regular file with the name of a tile and a possible length.
    Tile(StoredTile),
    /// A temporary file and its modification time in seconds: being written, or left behind by a
    /// killed process.
    Unfinished(Box<OsStr>, u64),
    /// Anything that voltile did not write.
    Foreign,
}

/// The existing folders of tokens, sorted by token.
pub(super) fn all(root: &Dir, kind: Kind) -> io::Result<Vec<Folder>> {
    let Some(tiles) = root.child(OsStr::new(kind.folder()))? else {
        return Ok(Vec::new());
    };
    let mut folders = Vec::new();
    for name in tiles.names()? {
        if tiles
            .stat(&name)?
            .is_some_and(|stat| is(&stat, FileType::Directory))
        {
            let text = name.to_string_lossy();
            let token = text
                .strip_prefix(DOT)
                .map_or_else(|| text.to_string(), |rest| format!(".{rest}"));
            folders.push(Folder { token, name, kind });
        }
    }
    folders.sort_by(|a, b| a.token.cmp(&b.token));
    Ok(folders)
}

impl Folder {
    pub fn new(token: &Name, kind: Kind) -> Self {
        let name = Box::from(OsStr::new(&folder_name(token)));
        Self {
            token: token.as_str().to_owned(),
            name,
            kind,
        }
    }

    /// The name of a tile's file.
    pub fn file_name(&self, key: &TileKey) -> String {
        format!("{key}{}", self.kind.ending())
    }

    /// Opens the fan-out directory of the keys that begin with `byte`; `None` if it does not exist.
    pub fn fan(&self, root: &Dir, byte: u8) -> io::Result<Option<Dir>> {
        let Some(tiles) = root.child(OsStr::new(self.kind.folder()))? else {
            return Ok(None);
        };
        let Some(folder) = tiles.child(&self.name)? else {
            return Ok(None);
        };
        folder.child(OsStr::new(&fan_name(byte)))
    }

    /// Opens a fan-out directory and creates it if it is missing. [`ErrorKind::NotFound`] if it is
    /// removed concurrently.
    pub fn fan_or_new(&self, root: &Dir, byte: u8) -> io::Result<Dir> {
        let folder = root
            .child_or_new(OsStr::new(self.kind.folder()))?
            .child_or_new(&self.name)?;
        folder.child_or_new(OsStr::new(&fan_name(byte)))
    }

    /// Whether both are one folder.
    pub fn is_at(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Removes a tile; returns whether there was one.
    pub fn remove(&self, root: &Dir, key: &TileKey) -> io::Result<bool> {
        let fan = self.fan(root, key.first())?;
        fan.map_or(Ok(false), |fan| {
            fan.remove(OsStr::new(&self.file_name(key)))
        })
    }

    /// Removes its empty fan-out directories, and the folder itself if it is then empty.
    pub fn remove_empty(&self, root: &Dir) -> io::Result<()> {
        let Some(tiles) = root.child(OsStr::new(self.kind.folder()))? else {
            return Ok(());
        };
        if let Some(folder) = tiles.child(&self.name)? {
            (0..=u8::MAX)
                .try_for_each(|byte| unless_full(folder.remove_dir(OsStr::new(&fan_name(byte)))))?;
        }
        unless_full(tiles.remove_dir(&self.name))
    }

    /// The path of the folder, for messages.
    pub fn path(&self, root: &Path) -> PathBuf {
        root.join(self.kind.folder()).join(&*self.name)
    }

    /// The path of a tile's file, for messages.
    pub fn path_of_tile(&self, root: &Path, key: &TileKey) -> PathBuf {
        self.path(root)
            .join(fan_name(key.first()))
            .join(self.file_name(key))
    }

    /// Calls `visit` with every entry of every fan-out directory, or with the error if such a
    /// directory cannot be listed.
    pub fn visit(
        &self,
        root: &Dir,
        path: &Path,
        mut visit: impl FnMut(Result<(&Dir, Found), TierError>) -> Result<(), TierError>,
    ) -> Result<(), TierError> {
        for byte in 0..=u8::MAX {
            let fan = self.fan(root, byte);
            match fan.and_then(|fan| fan.map(|fan| Ok((self.list(&fan, byte)?, fan))).transpose()) {
                Ok(None) => {}
                Ok(Some((found, fan))) => found
                    .into_iter()
                    .try_for_each(|found| visit(Ok((&fan, found))))?,
                Err(error) => {
                    visit(Err(TierError::system(
                        self.path(path).join(fan_name(byte)),
                        "listed",
                        &error,
                    )))?;
                }
            }
        }
        Ok(())
    }

    /// The entries of a fan-out directory. Entries removed in the meantime are skipped.
    fn list(&self, fan: &Dir, byte: u8) -> io::Result<Vec<Found>> {
        let found = |name: Box<OsStr>| {
            Some(
                fan.stat(&name)
                    .transpose()?
                    .map(|stat| self.classify(name, &stat, byte)),
            )
        };
        fan.names()?.into_iter().filter_map(found).collect()
    }

    fn classify(&self, name: Box<OsStr>, stat: &Stat, byte: u8) -> Found {
        let (length, modified) = (
            stat.st_size as u64,
            u64::try_from(stat.st_mtime).unwrap_or_default(),
        );
        let is_file = is(stat, FileType::RegularFile);
        match key_of(&name, self.kind) {
            Some(key) if is_file && key.first() == byte && length <= self.kind.max_length() => {
                Found::Tile(StoredTile {
                    key,
                    length,
                    modified,
                })
            }
            None if is_file && is_hidden(&name) => Found::Unfinished(name, modified),
            _ => Found::Foreign,
        }
    }
}

/// Ignores the error for a directory that is not empty: it holds foreign files, or a tile is being
/// written.
fn unless_full(removed: io::Result<bool>) -> io::Result<()> {
    match removed {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory
            ) =>
        {
            Ok(())
        }
        removed => removed.map(drop),
    }
}

/// The name of the fan-out directory of the keys that begin with `byte`.
fn fan_name(byte: u8) -> String {
    format!("{byte:02x}")
}

fn folder_name(token: &Name) -> String {
    let text = token.as_str();
    match text.strip_prefix('.') {
        _ if text.len() > MAX_TOKEN => {
            let kept = text.get(..KEPT).unwrap_or_default().trim_start_matches('.');
            format!("{kept}~{}", Fingerprint::digest(&text))
        }
        Some(rest) => format!("{DOT}{rest}"),
        None => text.to_owned(),
    }
}

fn key_of(name: &OsStr, kind: Kind) -> Option<TileKey> {
    TileKey::parse(name.to_str()?.strip_suffix(kind.ending())?)
}

fn is_hidden(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with(HIDDEN)
}

/// Whether a top-level entry of a cache directory, and everything in it, was made by voltile,
/// judging by names.
pub(super) fn is_ours(root: &Dir, name: &OsStr) -> io::Result<bool> {
    let kind = if name == BLOCKS {
        Kind::Blocks
    } else {
        Kind::Tiles
    };
    let is_tile = |_: &Dir, name: &OsStr| Ok(key_of(name, kind).is_some() || is_hidden(name));
    let is_fan =
        |folder: &Dir, name: &OsStr| {
            let byte = name
                .to_str()
                .and_then(|text| u8::from_str_radix(text, 16).ok());
            Ok(byte.is_some_and(|byte| *name == *fan_name(byte))
                && holds_only(folder, name, &is_tile)?)
        };
    let is_token = |tiles: &Dir, name: &OsStr| holds_only(tiles, name, &is_fan);
    let is_digest = |_: &Dir, name: &OsStr| Ok(name.to_string_lossy().ends_with(DIGEST));
    match name.to_str() {
        Some(TILES | BLOCKS) => holds_only(root, name, &is_token),
        Some(DIGESTS) => holds_only(root, name, &is_digest),
        Some(OBJECTS) => holds_only(root, name, &|_, name| {
            Ok(name.len() == DIGITS || is_hidden(name))
        }),
        _ => Ok(is_hidden(name)),
    }
}

/// Whether an entry is a directory and all its entries satisfy `is_ours`.
fn holds_only(
    dir: &Dir,
    name: &OsStr,
    is_ours: &dyn Fn(&Dir, &OsStr) -> io::Result<bool>,
) -> io::Result<bool> {
    let child = match dir.child(name) {
        Ok(Some(child)) => child,
        // Removed concurrently.
        Ok(None) => return Ok(true),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(false),
        Err(error) => return Err(error),
    };
    for name in child.names()? {
        if !is_ours(&child, &name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

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
    fn entries_are_classified() {
        let place = tempfile::tempdir().unwrap();
        let root = Dir::open(place.path()).unwrap();
        let (key, token) = (TileKey::digest(&1), name(".h5"));
        let path = Folder::new(&token, Kind::Tiles).path_of_tile(place.path(), &key);
        let tile = |end: char| path.with_file_name(format!("{}{end}.png", &key.to_string()[..31]));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "123").unwrap();
        for other in [".voltile-abc", "notes.txt", "0123.png"] {
            fs::write(path.with_file_name(other), "").unwrap();
        }
        let mut ends = "0123456789abcdef"
            .chars()
            .filter(|end| !key.to_string().ends_with(*end));
        fs::create_dir(tile(ends.next().unwrap())).unwrap();
        symlink("/dev/zero", tile(ends.next().unwrap())).unwrap();
        symlink(&path, path.with_file_name(".voltile-link")).unwrap();
        fs::File::create(tile(ends.next().unwrap()))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        symlink(place.path(), place.path().join("tiles/linked")).unwrap();
        let folders = all(&root, Kind::Tiles).unwrap();
        assert_eq!(
            folders,
            [Folder::new(&token, Kind::Tiles)],
            "a link is not followed"
        );
        let fan = folders[0].fan(&root, key.first()).unwrap().unwrap();
        let found = folders[0].list(&fan, key.first()).unwrap();
        let count = |is: fn(&Found) -> bool| found.iter().filter(|found| is(found)).count();
        assert_eq!(
            count(|found| matches!(found, Found::Tile(tile) if tile.length == 3)),
            1
        );
        assert_eq!(count(|found| matches!(found, Found::Unfinished(..))), 1);
        assert_eq!(
            (count(|found| *found == Found::Foreign), found.len()),
            (6, 8)
        );
        assert!(folders[0].fan(&root, key.first() ^ 1).unwrap().is_none());
    }
}
