//! Object storage as a cache of encoded tiles that several servers share: for tiles that are
//! rendered once and kept.
//!
//! Each tile is one object, in the same format as a file of the disk cache; its checksum is
//! verified. A lookup is one request with a timeout. While a store keeps failing, a circuit breaker
//! lets only occasional requests through.

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;
use voltile_base::metrics::TierCounters;
use voltile_base::name::Name;
use voltile_base::tile::TileKey;
use voltile_hdf5::store::address::Address;
use voltile_hdf5::store::{Folder, FolderError, Store, StoreError};

use super::entry::{self, FORMAT};
use super::{Backend, TierError};

/// Tiles in object storage.
pub struct Objects {
    pub(super) folder: Folder,
    pub(super) is_resting: Gauge,
}

impl Objects {
    /// Opens the folder at an address, which must not be a web server's. Makes no request: a store
    /// that is down now is used once it is up.
    ///
    /// # Errors
    ///
    /// The settings for the store in the environment are wrong.
    pub fn open(
        store: &Store,
        address: &Address,
        counters: &TierCounters,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            folder: store.folder(address)?,
            is_resting: counters.open.clone(),
        })
    }

    /// Notes whether the store is left alone, and converts the error.
    fn noted<T>(&self, result: Result<T, FolderError>) -> Result<T, TierError> {
        self.is_resting.set(i64::from(self.folder.is_resting()));
        result.map_err(|error| {
            let server = self.folder.public().to_owned();
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
        })
    }
}

impl Backend for Objects {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        let name = name_of(token, key);
        let Some(stored) = self.noted(self.folder.get(&name, entry::MAX_LENGTH))? else {
            return Ok(None);
        };
        entry::verified(key, stored.into())
            .map(Some)
            .map_err(|problem| {
                let place = format!("{}/{name}", self.folder.public());
                if let Err(error) = self.noted(self.folder.remove(&name)) {
                    tracing::debug!(
                        "{place} is damaged and cannot be removed; it is replaced instead: {error}"
                    );
                }
                TierError::Corrupt { place, problem }
            })
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        let object = Bytes::from([png, &entry::trailer(key, png)[..]].concat());
        self.noted(self.folder.put(&name_of(token, key), object))
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        self.noted(self.folder.has(&name_of(token, key)))
    }

    fn takes_writes(&self) -> bool {
        self.folder.takes_writes()
    }

    fn problem(&self) -> Option<String> {
        self.folder.problem()
    }
}

/// The name of a tile's object below the folder, such as `1/brain/8d3f….png`.
fn name_of(token: &Name, key: &TileKey) -> String {
    format!("{FORMAT}/{token}/{key}.png")
}
