//! Object storage as a cache of encoded tiles that several servers share. Tiles are never evicted
//! from it.
//!
//! Each tile is one object, in the same format as a file of the disk cache; its checksum is
//! verified. A lookup is one request with a timeout. While a store keeps failing, a circuit breaker
//! lets only occasional requests through.

use bytes::Bytes;
use voltile_base::name::Name;
use voltile_base::tile::TileKey;
use voltile_hdf5::store::{Folder, FolderError, StoreError};

use super::entry::{self, FORMAT};
use super::{Backend, TierError};

impl Backend for Folder {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        let name = name_of(token, key);
        let stored = self.read(&name, entry::MAX_LENGTH);
        let Some(stored) = stored.map_err(|error| tier_error(self, error))? else {
            return Ok(None);
        };
        let png = entry::verify(key, stored.into());
        png.map(Some).map_err(|problem| {
            let removed = self.remove(&name).map_err(|error| tier_error(self, error));
            TierError::corrupt(format!("{}/{name}", self.public()), problem, removed)
        })
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        let object = Bytes::from([png, &entry::trailer(key, png)[..]].concat());
        let written = self.write(&name_of(token, key), object);
        written.map_err(|error| tier_error(self, error))
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        let found = self.contains(&name_of(token, key));
        found.map_err(|error| tier_error(self, error))
    }

    fn takes_writes(&self) -> bool {
        self.is_writable()
    }

    fn problem(&self) -> Option<String> {
        self.fault()
    }
}

fn tier_error(folder: &Folder, error: FolderError) -> TierError {
    let server = folder.public().to_owned();
    match error {
        FolderError::Resting => TierError::Resting,
        FolderError::Failed(StoreError::Unavailable { problem, .. }) => {
            TierError::Unreachable { server, problem }
        }
        FolderError::Failed(error) => TierError::Refused {
            server,
            problem: error.to_string(),
        },
    }
}

/// The name of a tile's object below the folder, such as `1/brain/8d3f….png`.
fn name_of(token: &Name, key: &TileKey) -> String {
    format!("{FORMAT}/{token}/{key}.png")
}
