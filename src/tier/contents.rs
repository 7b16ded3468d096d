//! Lists and clears a cache directory by token, while other processes may be using it.

use std::fs::{self, File};
use std::path::PathBuf;

use serde::Serialize;
use voltile_base::name::Name;

use super::directory::read;
use super::eviction::on_disk;
use super::folder::{FolderFile, TokenFolder, unless_missing};
use super::{Directory, TierError};

/// The contents of a cache directory for one token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TokenContents {
    /// The token; truncated if it is longer than a folder name can be.
    pub token: String,
    /// The number of tiles.
    pub tiles: u64,
    /// The disk space of their files in bytes; each file occupies whole blocks of 4 KiB.
    pub bytes: u64,
    /// The number of damaged tiles; `None` unless verification was requested.
    pub corrupt: Option<usize>,
    /// The number of temporary files: being written, or left behind by killed processes.
    pub unfinished: u64,
    /// The files of damaged tiles.
    #[serde(skip)]
    pub damaged: Vec<PathBuf>,
}

impl Directory {
    /// The contents by token; with `verify`, every tile is read and its checksum compared.
    pub fn contents(&self, verify: bool) -> Result<Vec<TokenContents>, TierError> {
        let mut all = Vec::new();
        for folder in self.folders()? {
            let mut contents = TokenContents::of(&folder);
            let visited = folder.visit(|file| {
                contents.add(&file);
                // Temporary files have no key. Another process may have removed the file meanwhile.
                if verify
                    && let Some(key) = &file.key
                    && let Some(opened) = unless_missing(File::open(&file.path))?
                    && read(&opened, self.kind, key)?.is_err()
                {
                    contents.damaged.push(file.path);
                }
                Ok(())
            });
            visited.map_err(|error| TierError::system(folder.path, "read", &error))?;
            contents.corrupt = verify.then_some(contents.damaged.len());
            all.push(contents);
        }
        Ok(all)
    }

    /// Removes the tiles of one token, or of all tokens (`None`); returns the removed contents.
    pub fn clear(&self, token: Option<&Name>) -> Result<Vec<TokenContents>, TierError> {
        let only = token.map(|token| TokenFolder::new(&self.path, self.kind, token).path);
        let mut all = Vec::new();
        for folder in self.folders()? {
            if only.as_ref().is_some_and(|only| *only != folder.path) {
                continue;
            }
            let mut removed = TokenContents::of(&folder);
            folder
                .visit(|file| {
                    unless_missing(fs::remove_file(&file.path))?;
                    removed.add(&file);
                    Ok(())
                })
                .and_then(|()| folder.remove_empty())
                .map_err(|error| TierError::system(&folder.path, "cleared", &error))?;
            all.push(removed);
        }
        Ok(all)
    }

    fn folders(&self) -> Result<Vec<TokenFolder>, TierError> {
        TokenFolder::all(&self.path, self.kind)
            .map_err(|error| TierError::system(&self.path, "listed", &error))
    }
}

impl TokenContents {
    fn of(folder: &TokenFolder) -> Self {
        Self {
            token: folder.token.clone(),
            ..Self::default()
        }
    }

    fn add(&mut self, file: &FolderFile) {
        if file.key.is_some() {
            self.tiles += 1;
            self.bytes += on_disk(file.length);
        } else {
            self.unfinished += 1;
        }
    }
}
