//! Lists and clears a cache directory by token, while other processes may be using it.

use std::ffi::OsStr;
use std::path::PathBuf;

use serde::Serialize;

use super::directory::read;
use super::eviction::on_disk;
use super::folders::{self, Folder, Found};
use super::{Directory, TierError};
use crate::base::name::Name;
use crate::store::dir::Dir;

/// The contents of a cache directory for one token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// The token; truncated if it is longer than a folder name can be.
    pub token: String,
    /// The number of tiles.
    pub tiles: u64,
    /// The disk space of their files in bytes, in blocks of 4 KiB.
    pub bytes: u64,
    /// The number of damaged tiles; `None` unless verification was requested.
    pub corrupt: Option<usize>,
    /// The number of temporary files: being written, or left behind by killed processes.
    pub unfinished: u64,
    /// The number of entries that voltile did not write, or that cannot be tiles.
    pub foreign: u64,
    /// The files of damaged tiles.
    #[serde(skip)]
    pub damaged: Vec<PathBuf>,
}

impl Directory {
    /// The contents by token; with `verify`, every tile is read and its checksum compared.
    pub fn contents(&self, verify: bool) -> Result<Vec<Contents>, TierError> {
        let (root, folders) = self.folders()?;
        folders
            .iter()
            .map(|folder| self.contents_of(&root, folder, verify))
            .collect()
    }

    /// Removes the tiles of one token, or of all; returns what was removed. Foreign files stay.
    pub fn clear(&self, token: Option<&Name>) -> Result<Vec<Contents>, TierError> {
        let (root, mut folders) = self.folders()?;
        let only = token.map(|token| Folder::new(token, self.kind));
        folders.retain(|folder| only.as_ref().is_none_or(|only| only.is_at(folder)));
        folders
            .iter()
            .map(|folder| self.cleared(&root, folder))
            .collect()
    }

    fn folders(&self) -> Result<(Dir, Vec<Folder>), TierError> {
        let root = self.root.open()?;
        let folders = folders::all(&root, self.kind)
            .map_err(|error| TierError::system(self.root.path(), "listed", &error))?;
        Ok((root, folders))
    }

    fn contents_of(
        &self,
        root: &Dir,
        folder: &Folder,
        verify: bool,
    ) -> Result<Contents, TierError> {
        let mut contents = Contents {
            token: folder.token.clone(),
            ..Contents::default()
        };
        folder.visit(root, self.root.path(), |found| {
            let (fan, found) = found?;
            if let (true, Found::Tile(tile)) = (verify, &found) {
                let path = folder.path_of_tile(self.root.path(), &tile.key);
                let entry = fan.entry(OsStr::new(&folder.file_name(&tile.key)));
                // It may have been removed in the meantime.
                let read = entry.and_then(|entry| {
                    entry
                        .map(|entry| read(self.kind, &tile.key, &entry))
                        .transpose()
                });
                match read {
                    Ok(Some(Err(_))) => contents.damaged.push(path),
                    Ok(_) => {}
                    Err(error) => return Err(TierError::system(path, "read", &error)),
                }
            }
            contents.add(&found);
            Ok(())
        })?;
        contents.corrupt = verify.then_some(contents.damaged.len());
        Ok(contents)
    }

    /// Removes voltile's files from a token's folder, and the folder if it is then empty.
    fn cleared(&self, root: &Dir, folder: &Folder) -> Result<Contents, TierError> {
        let path = folder.path(self.root.path());
        let mut removed = Contents {
            token: folder.token.clone(),
            ..Contents::default()
        };
        folder.visit(root, self.root.path(), |found| {
            let (fan, found) = found?;
            let gone = match &found {
                Found::Tile(tile) => fan.remove(OsStr::new(&folder.file_name(&tile.key))),
                Found::Unfinished(name, _) => fan.remove(name),
                Found::Foreign => Ok(true),
            };
            gone.map_err(|error| TierError::system(&path, "cleared", &error))?;
            removed.add(&found);
            Ok(())
        })?;
        folder
            .remove_empty(root)
            .map_err(|error| TierError::system(&path, "removed", &error))?;
        Ok(removed)
    }
}

impl Contents {
    fn add(&mut self, found: &Found) {
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
