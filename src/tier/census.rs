//! What is in a directory, by token; and clearing it. Both while others use it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::folders::{self, Folder, Found, StoredTile};
use super::tally::on_disk;
use super::{Directory, TierError, entry};
use crate::name::Name;

/// What the directory has of one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The token; of one that is longer than a folder's name can be, its beginning.
    pub token: String,
    /// How many tiles.
    pub tiles: u64,
    /// The bytes that their files take from the disk.
    pub bytes: u64,
    /// The files of tiles that are damaged; none, if it was not asked.
    pub corrupt: Vec<PathBuf>,
    /// Files that were being written, or still are.
    pub unfinished: u64,
    /// What voltile did not put there.
    pub foreign: u64,
}

impl Directory {
    /// What is held of each token; `verify` has every tile read and its checksum compared.
    pub fn holdings(&self, verify: bool) -> Result<Vec<Holding>, TierError> {
        let holding = |folder: &Folder| {
            let mut holding = Holding::none_of(folder);
            each(folder, |found| holding.count(folder, found, verify))?;
            Ok(holding)
        };
        self.folders()?.iter().map(holding).collect()
    }

    /// Removes the tiles of a token, or of all; says what was removed. What voltile did not put there stays.
    pub fn clear(&self, token: Option<&Name>) -> Result<Vec<Holding>, TierError> {
        let folders = self.folders()?;
        let only = token.map(|token| folders::folder(self.path(), token));
        let wanted = folders.iter().filter(|folder| only.as_ref().is_none_or(|only| *only == folder.path));
        wanted.map(cleared).collect()
    }

    fn folders(&self) -> Result<Vec<Folder>, TierError> {
        folders::all(self.path()).map_err(|error| TierError::system(self.path(), "listed", &error))
    }
}

/// Everything below a token's folder.
fn each(folder: &Folder, mut lend: impl FnMut(Found) -> Result<(), TierError>) -> Result<(), TierError> {
    for byte in 0..=u8::MAX {
        let found =
            folder.found(byte).map_err(|error| TierError::system(folder.fan(byte), "listed", &error))?;
        found.into_iter().try_for_each(&mut lend)?;
    }
    Ok(())
}

fn cleared(folder: &Folder) -> Result<Holding, TierError> {
    let mut removed = Holding::none_of(folder);
    each(folder, |found| match &found {
        Found::Tile(StoredTile { key, .. }) => {
            remove(&folder.file(key))?;
            removed.count(folder, found, false)
        }
        Found::Unfinished(path, _) => {
            remove(path)?;
            removed.count(folder, found, false)
        }
        Found::Foreign(_) => removed.count(folder, found, false),
    })?;
    // What is not empty stays: somebody else's, or written this very moment.
    (0..=u8::MAX).for_each(|byte| drop(fs::remove_dir(folder.fan(byte))));
    drop(fs::remove_dir(&folder.path));
    Ok(removed)
}

/// Removes a file that may be gone already.
fn remove(path: &Path) -> Result<(), TierError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(TierError::system(path, "removed", &error)),
        _ => Ok(()),
    }
}

impl Holding {
    fn none_of(folder: &Folder) -> Self {
        let token = folder.token.clone();
        Self { token, tiles: 0, bytes: 0, corrupt: Vec::new(), unfinished: 0, foreign: 0 }
    }

    fn count(&mut self, folder: &Folder, found: Found, verify: bool) -> Result<(), TierError> {
        match found {
            Found::Tile(tile) => {
                self.tiles += 1;
                self.bytes += on_disk(tile.length);
                let path = folder.file(&tile.key);
                if verify
                    && is_corrupt(&path, &tile).map_err(|error| TierError::system(&path, "read", &error))?
                {
                    self.corrupt.push(path);
                }
            }
            Found::Unfinished(..) => self.unfinished += 1,
            Found::Foreign(_) => self.foreign += 1,
        }
        Ok(())
    }
}

/// Whether a tile is damaged; one that is gone by now is not.
fn is_corrupt(path: &Path, tile: &StoredTile) -> io::Result<bool> {
    if tile.length > entry::LONGEST {
        return Ok(true);
    }
    match fs::read(path) {
        Ok(bytes) => Ok(entry::opened(&tile.key, bytes).is_err()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
