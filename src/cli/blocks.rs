//! `cache.blocks`: stored chunks of objects, kept in the cache directory.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::name::Name;
use crate::base::tile::TileKey;
use crate::config::Settings;
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

/// Keeps stored chunks as the settings say. What cannot be kept is only logged: it is fetched again.
pub(super) fn keep(settings: &Settings, metrics: &Metrics, store: &Store) {
    let Some(directory) = settings.cache.directory.as_ref().filter(|_| settings.cache.blocks > 0) else {
        return;
    };
    match opened(directory, settings.cache.blocks as u64, metrics) {
        Ok(directory) => store.keep_chunks_in(Arc::new(directory)),
        Err(error) => tracing::error!("cache.blocks: {error:#}; stored chunks are not kept"),
    }
}

fn opened(directory: &Path, budget: u64, metrics: &Metrics) -> anyhow::Result<Directory> {
    Ok(Directory::open(directory)?.of_blocks().kept_to(budget, metrics)?)
}
