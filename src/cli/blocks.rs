//! `cache.blocks`: stored chunks of objects, kept in the cache directory.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::config::Settings;
use crate::metrics::{Metrics, StoreMetrics};
use crate::name::Name;
use crate::store::{self, Keeps};
use crate::tier::{Directory, TileTier};
use crate::tile::TileKey;

/// A directory, with its errors counted and logged.
struct Blocks(Directory);

impl Keeps for Blocks {
    fn get(&self, name: &str, key: &TileKey) -> Option<Bytes> {
        let found = self.0.get(&Name::nearest(name), key);
        found.inspect_err(|error| count(&error.to_string())).ok().flatten()
    }

    fn put(&self, name: &str, key: &TileKey, bytes: &Bytes) {
        if let Err(error) = self.0.put(&Name::nearest(name), key, bytes) {
            count(&error.to_string());
        }
    }
}

fn count(error: &str) {
    StoreMetrics::of_process().block_errors.inc();
    tracing::debug!("cache.blocks: {error}");
}

/// Keeps stored chunks as the settings say. What cannot be kept is only logged: it is fetched again.
pub(super) fn keep(settings: &Settings, metrics: &Metrics) {
    let Some(directory) = settings.cache.directory.as_ref().filter(|_| settings.cache.blocks > 0) else {
        return;
    };
    match opened(directory, settings.cache.blocks as u64, metrics) {
        Ok(directory) => store::keep_chunks_in(Arc::new(Blocks(directory))),
        Err(error) => tracing::error!("cache.blocks: {error:#}; stored chunks are not kept"),
    }
}

fn opened(directory: &Path, budget: u64, metrics: &Metrics) -> anyhow::Result<Directory> {
    Ok(Directory::open(directory)?.of_blocks().kept_to(budget, metrics)?)
}
