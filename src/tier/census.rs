//! Lists and clears a cache directory by token, while other processes may be using it.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::dir::{Dir, Entry};
use super::folders::{self, Folder, Found, StoredTile};
use super::tally::on_disk;
use super::{Directory, TierError, entry};
use crate::base::name::Name;
use crate::base::tile::TileKey;

/// The contents of a cache directory for one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The token; truncated if it is longer than a folder name can be.
    pub token: String,
    /// The number of tiles.
    pub tiles: u64,
    /// The disk space of their files in bytes, in blocks of 4 KiB.
    pub bytes: u64,
    /// The files of damaged tiles; empty unless verification was requested.
    pub corrupt: Vec<PathBuf>,
    /// The number of temporary files: being written, or left behind by killed processes.
    pub unfinished: u64,
    /// The number of entries that voltile did not write, or that cannot be tiles.
    pub foreign: u64,
}

/// A token's folder in an open cache directory.
struct Place<'a> {
    root: &'a Dir,
    path: &'a Path,
    folder: &'a Folder,
}

impl Directory {
    /// The contents by token; with `verify`, every tile is read and its checksum compared.
    pub fn holdings(&self, verify: bool) -> Result<Vec<Holding>, TierError> {
        self.by_folder(|_| true, |place| place.holding(verify))
    }

    /// Removes the tiles of one token, or of all; returns what was removed. Foreign files stay.
    pub fn clear(&self, token: Option<&Name>) -> Result<Vec<Holding>, TierError> {
        let only = token.map(|token| Folder::of(token, self.kind()));
        self.by_folder(|folder| only.as_ref().is_none_or(|only| only.is_at(folder)), cleared)
    }

    fn by_folder(
        &self,
        is_wanted: impl Fn(&Folder) -> bool,
        holding: impl Fn(&Place<'_>) -> Result<Holding, TierError>,
    ) -> Result<Vec<Holding>, TierError> {
        let Some(root) = self.reading()? else { return Ok(Vec::new()) };
        let path = self.path();
        let folders =
            folders::all(&root, self.kind()).map_err(|error| TierError::system(path, "listed", &error))?;
        let wanted = folders.iter().filter(|folder| is_wanted(folder));
        wanted.map(|folder| holding(&Place { root: &root, path, folder })).collect()
    }
}

impl Place<'_> {
    fn holding(&self, verify: bool) -> Result<Holding, TierError> {
        let mut holding = Holding::none_of(self.folder);
        self.each(|fan, found| {
            if let (true, Found::Tile(tile)) = (verify, &found)
                && is_corrupt(self.folder, fan, tile)
                    .map_err(|error| self.failed(&tile.key, "read", &error))?
            {
                holding.corrupt.push(self.folder.path(self.path, &tile.key));
            }
            holding.count(&found);
            Ok(())
        })?;
        Ok(holding)
    }

    /// Calls `visit` with every entry of the folder and its fan-out directory.
    fn each(&self, mut visit: impl FnMut(&Dir, Found) -> Result<(), TierError>) -> Result<(), TierError> {
        for byte in 0..=u8::MAX {
            let failed =
                |error: io::Error| TierError::system(self.folder.fan_path(self.path, byte), "listed", &error);
            let Some(fan) = self.folder.fan(self.root, byte).map_err(failed)? else { continue };
            let found = self.folder.list(&fan, byte).map_err(failed)?;
            found.into_iter().try_for_each(|found| visit(&fan, found))?;
        }
        Ok(())
    }

    fn failed(&self, key: &TileKey, doing: &'static str, error: &io::Error) -> TierError {
        TierError::system(self.folder.path(self.path, key), doing, error)
    }
}

/// Removes voltile's files from a token's folder, and the folder if it is then empty.
fn cleared(place: &Place<'_>) -> Result<Holding, TierError> {
    let mut removed = Holding::none_of(place.folder);
    place.each(|fan, found| {
        let path = || match &found {
            Found::Tile(tile) => place.folder.path(place.path, &tile.key),
            _ => place.folder.path_of_folder(place.path),
        };
        let gone = match &found {
            Found::Tile(tile) => fan.remove(OsStr::new(&place.folder.file_name(&tile.key))),
            Found::Unfinished(name, _) => fan.remove(name),
            Found::Foreign => Ok(true),
        };
        gone.map_err(|error| TierError::system(path(), "removed", &error))?;
        removed.count(&found);
        Ok(())
    })?;
    let emptied = place.folder.remove_empty(place.root);
    emptied.map_err(|error| TierError::system(place.folder.path_of_folder(place.path), "removed", &error))?;
    Ok(removed)
}

impl Holding {
    fn none_of(folder: &Folder) -> Self {
        let token = folder.token.clone();
        Self { token, tiles: 0, bytes: 0, corrupt: Vec::new(), unfinished: 0, foreign: 0 }
    }

    fn count(&mut self, found: &Found) {
        match found {
            Found::Tile(tile) => {
                self.tiles += 1;
                self.bytes += on_disk(tile.length);
            }
            Found::Unfinished(..) => self.unfinished += 1,
            Found::Foreign => self.foreign += 1,
        }
    }
}

/// Whether a tile is damaged; false if it was removed in the meantime.
fn is_corrupt(folder: &Folder, fan: &Dir, tile: &StoredTile) -> io::Result<bool> {
    match fan.open(OsStr::new(&folder.file_name(&tile.key)))? {
        None => Ok(false),
        Some(Entry::Other) => Ok(true),
        Some(Entry::File(file, _)) => {
            let mut bytes = Vec::new();
            file.take(folder.kind().longest() + 1).read_to_end(&mut bytes)?;
            Ok(entry::opened(&tile.key, bytes).is_err())
        }
    }
}
