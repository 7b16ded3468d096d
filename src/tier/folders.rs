//! Where things lie in a cache directory: `tiles/TOKEN/ab/abcd….png`, and what may be found there besides.
//!
//! Tokens come from users. As folders they are themselves, but for a dot at the beginning and for what is too long, so
//! that none is hidden, climbs, or is refused by the file system.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::FileType;

use super::dir::{About, Dir, UNFINISHED};
use super::entry;
use crate::name::Name;
use crate::tile::{Fingerprint, TileKey};

/// The folder that holds those of the tokens.
const TILES: &str = "tiles";
/// The folder of the journals that `voltile warm` keeps, and what their names end with.
const WARM: &str = "warm";
const JOURNAL: &str = ".journal";
/// What stands for a dot that a folder would begin with.
const DOT: &str = "%2E";
/// The longest name of a folder that is made of a token alone, and how much of longer ones is kept.
const LONGEST: usize = 200;
const KEPT: usize = 160;
const ENDING: &str = ".png";

/// The folder of a token: its place, whether it is there or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folder {
    /// The token; of one that is very long and was found, its beginning.
    pub token: String,
    name: Box<OsStr>,
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
    /// A regular file of a tile's name and of a length that a tile can have.
    Tile(StoredTile),
    /// A file that was being written, or still is.
    Unfinished(Box<OsStr>, SystemTime),
    /// What voltile did not put there.
    Foreign,
}

/// The name of a tile's file.
pub(super) fn file_name(key: &TileKey) -> String {
    format!("{key}{ENDING}")
}

/// The folders of all tokens that are there, sorted.
pub(super) fn all(root: &Dir) -> io::Result<Vec<Folder>> {
    let Some(tiles) = root.child(OsStr::new(TILES))? else { return Ok(Vec::new()) };
    let mut folders = Vec::new();
    for name in tiles.names()? {
        if tiles.about(&name)?.is_some_and(|about| about.kind == FileType::Directory) {
            folders.push(Folder::found(name));
        }
    }
    folders.sort_by(|a, b| a.token.cmp(&b.token));
    Ok(folders)
}

impl Folder {
    /// The folder of a token.
    pub fn of(token: &Name) -> Self {
        let name = Box::from(OsStr::new(&folder_name(token)));
        Self { token: token.as_str().to_owned(), name }
    }

    fn found(name: Box<OsStr>) -> Self {
        let text = name.to_string_lossy();
        let token = text.strip_prefix(DOT).map_or_else(|| text.to_string(), |rest| format!(".{rest}"));
        Self { token, name }
    }

    /// The directory of the tiles whose keys begin with a byte; `None` where it is not there.
    pub fn fan(&self, root: &Dir, byte: u8) -> io::Result<Option<Dir>> {
        let Some(tiles) = root.child(OsStr::new(TILES))? else { return Ok(None) };
        let Some(folder) = tiles.child(&self.name)? else { return Ok(None) };
        folder.child(OsStr::new(&fan(byte)))
    }

    /// The same, made where it is missing. Fails with [`ErrorKind::NotFound`] where it is removed meanwhile.
    pub fn fan_made(&self, root: &Dir, byte: u8) -> io::Result<Dir> {
        let folder = root.child_made(OsStr::new(TILES))?.child_made(&self.name)?;
        folder.child_made(OsStr::new(&fan(byte)))
    }

    /// Whether both are the folder of one token.
    pub fn is_at(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Removes what is empty of it.
    pub fn remove_empty(&self, root: &Dir) -> io::Result<()> {
        let Some(tiles) = root.child(OsStr::new(TILES))? else { return Ok(()) };
        if let Some(folder) = tiles.child(&self.name)? {
            (0..=u8::MAX).try_for_each(|byte| unless_full(folder.remove_dir(OsStr::new(&fan(byte)))))?;
        }
        unless_full(tiles.remove_dir(&self.name))
    }

    /// Where the file of a tile is, for messages.
    pub fn path(&self, root: &Path, key: &TileKey) -> PathBuf {
        self.fan_path(root, key.first()).join(file_name(key))
    }

    /// The same of a fan-out directory.
    pub fn fan_path(&self, root: &Path, byte: u8) -> PathBuf {
        self.path_of_folder(root).join(fan(byte))
    }

    /// The same of the folder itself.
    pub fn path_of_folder(&self, root: &Path) -> PathBuf {
        root.join(TILES).join(&*self.name)
    }
}

/// What is in the directory of the tiles whose keys begin with that byte.
pub(super) fn list(fan: &Dir, byte: u8) -> io::Result<Vec<Found>> {
    // What is gone by now is left out.
    let about = |name: Box<OsStr>| Some(fan.about(&name).transpose()?.map(|about| found(name, about, byte)));
    fan.names()?.into_iter().filter_map(about).collect()
}

/// What is not empty stays: somebody else's, or written this very moment.
fn unless_full(removed: io::Result<bool>) -> io::Result<()> {
    match removed {
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory) => {
            Ok(())
        }
        removed => removed.map(drop),
    }
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

fn found(name: Box<OsStr>, about: About, byte: u8) -> Found {
    let About { kind, length, modified } = about;
    let is_file = kind == FileType::RegularFile;
    match key_of(&name) {
        Some(key) if is_file && key.first() == byte && length <= entry::LONGEST => {
            Found::Tile(StoredTile { key, length, modified })
        }
        None if is_file && is_unfinished(&name) => Found::Unfinished(name, modified),
        _ => Found::Foreign,
    }
}

fn key_of(name: &OsStr) -> Option<TileKey> {
    TileKey::parse(name.to_str()?.strip_suffix(ENDING)?)
}

fn is_unfinished(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with(UNFINISHED)
}

/// Whether voltile has made what stands under a name at the top of a cache directory, and all that is in it, as far as
/// names tell.
pub(super) fn is_ours(root: &Dir, name: &OsStr) -> io::Result<bool> {
    let is_tile = |_: &Dir, name: &OsStr| Ok(key_of(name).is_some() || is_unfinished(name));
    let is_fan = |folder: &Dir, name: &OsStr| {
        let byte = name.to_str().and_then(|text| u8::from_str_radix(text, 16).ok());
        Ok(byte.is_some_and(|byte| *name == *fan(byte)) && holds_only(folder, name, &is_tile)?)
    };
    let is_token = |tiles: &Dir, name: &OsStr| holds_only(tiles, name, &is_fan);
    let is_journal = |_: &Dir, name: &OsStr| Ok(name.to_string_lossy().ends_with(JOURNAL));
    match name.to_str() {
        Some(TILES) => holds_only(root, name, &is_token),
        Some(WARM) => holds_only(root, name, &is_journal),
        _ => Ok(false),
    }
}

/// Whether something is a directory of nothing but such names.
fn holds_only(
    dir: &Dir,
    name: &OsStr,
    is_ours: &dyn Fn(&Dir, &OsStr) -> io::Result<bool>,
) -> io::Result<bool> {
    let child = match dir.child(name) {
        Ok(Some(child)) => child,
        // Somebody is removing it.
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
        let place = tempfile::tempdir().unwrap();
        let root = Dir::at(place.path()).unwrap();
        let (key, token) = (TileKey::of(&1), name(".h5"));
        let path = Folder::of(&token).path(place.path(), &key);
        let tile = |end: char| path.with_file_name(format!("{}{end}.png", &key.to_string()[..31]));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "123").unwrap();
        for other in [".voltile-abc", "notes.txt", "0123.png"] {
            fs::write(path.with_file_name(other), "").unwrap();
        }
        let mut ends = "0123456789abcdef".chars().filter(|end| !key.to_string().ends_with(*end));
        fs::create_dir(tile(ends.next().unwrap())).unwrap();
        symlink("/dev/zero", tile(ends.next().unwrap())).unwrap();
        symlink(&path, path.with_file_name(".voltile-link")).unwrap();
        fs::File::create(tile(ends.next().unwrap())).unwrap().set_len(1 << 40).unwrap();
        symlink(place.path(), place.path().join("tiles/linked")).unwrap();
        let folders = all(&root).unwrap();
        assert_eq!(folders, [Folder::of(&token)], "a link is not followed");
        let found = list(&folders[0].fan(&root, key.first()).unwrap().unwrap(), key.first()).unwrap();
        let count = |is: fn(&Found) -> bool| found.iter().filter(|found| is(found)).count();
        assert_eq!(count(|found| matches!(found, Found::Tile(tile) if tile.length == 3)), 1);
        assert_eq!(count(|found| matches!(found, Found::Unfinished(..))), 1);
        assert_eq!((count(|found| *found == Found::Foreign), found.len()), (6, 8));
        assert!(folders[0].fan(&root, key.first() ^ 1).unwrap().is_none());
    }
}
