//! `cache.blocks`: stored chunks of objects, kept in the cache directory.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::name::Name;
use crate::base::tile::TileKey;
use crate::metrics::Metrics;
use crate::store::{Keeps, Store};
use crate::tier::{Directory, TileTier};

impl Keeps for Directory {
    fn get(&self, name: &str, key: &TileKey) -> Result<Option<Bytes>, String> {
        TileTier::get(self, &Name::nearest(name), key).map_err(|error| error.to_string())
    }

    fn put(&self, name: &str, key: &TileKey, bytes: &Bytes) -> Result<(), String> {
        TileTier::put(self, &Name::nearest(name), key, bytes).map_err(|error| error.to_string())
    }
}

/// Keeps stored chunks in a directory, up to `limit` bytes.
pub(super) fn keep(
    directory: &Directory,
    limit: usize,
    metrics: &Metrics,
    store: &Store,
) -> std::io::Result<()> {
    store.keep_chunks_in(Arc::new(directory.blocks().kept_to(limit as u64, metrics)?));
    Ok(())
}
