//! Opens the tiers that the settings name, and the cache of objects' stored chunks
//! (`cache.blocks`).

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_base::tile::TileKey;
use voltile_hdf5::store::{ChunkCache, Store};

use super::failure::Failure;
use crate::config::Settings;
use crate::tier::{Backend, Directory, Redis, Tier, TierError, TierKind, Tiers};

/// Opens the tiers that are configured. Fails if the cache directory must not be used. Any other
/// error of the directory may pass, so it is only logged.
pub(super) fn open(
    settings: &Settings,
    metrics: &Metrics,
    store: &Store,
) -> Result<Tiers, Failure> {
    let cache = &settings.cache;
    let mut tiers = Vec::new();
    if let Some(path) = cache_directory(settings) {
        match Directory::make(path) {
            Err(error) if error.is_unsuitable() => {
                return Err(Failure::Usage(format!("cache.directory: {error}")));
            }
            Err(error) => {
                metrics.tier.errors.inc();
                tracing::error!("cache.directory: {error}");
            }
            Ok(()) => {}
        }
        if cache.blocks > 0 {
            let blocks = Directory::blocks(path).with_budget(cache.blocks as u64, metrics)?;
            store.keep_chunks_in(Arc::new(blocks));
        }
        if cache.disk > 0 {
            tiers.push(directory_tier(Directory::tiles(path), cache.disk, metrics)?);
        }
    }
    tiers.extend(shared_tiers(settings, metrics, store)?);
    Ok(Tiers::new(tiers))
}

/// The cache directory, if anything is kept in it.
pub(super) fn cache_directory(settings: &Settings) -> Option<&Path> {
    let cache = &settings.cache;
    let path = cache.directory.as_deref();
    path.filter(|_| cache.disk > 0 || cache.blocks > 0)
}

/// The failure of a command that cannot work without the cache directory.
pub(super) fn unusable(error: TierError) -> Failure {
    if error.is_unsuitable() {
        Failure::Usage(error.to_string())
    } else {
        Failure::Work(error.into())
    }
}

pub(super) fn directory_tier(
    directory: Directory,
    budget: usize,
    metrics: &Metrics,
) -> Result<Tier, Failure> {
    let directory = directory.with_budget(budget as u64, metrics)?;
    Ok(Tier::start(
        TierKind::Directory,
        directory,
        metrics.tier.clone(),
    )?)
}

/// The tiers that are configured to be shared between servers.
pub(super) fn shared_tiers(
    settings: &Settings,
    metrics: &Metrics,
    store: &Store,
) -> Result<Vec<Tier>, Failure> {
    let cache = &settings.cache;
    let mut tiers = Vec::new();
    if let Some(address) = &cache.redis {
        let redis = Redis::open(address, cache.redis_expiry, &metrics.redis)?;
        tiers.push(Tier::start(TierKind::Redis, redis, metrics.redis.clone())?);
    }
    if let Some(address) = &cache.store {
        let folder = store
            .folder(address, metrics.tile_store.open.clone())
            .map_err(|error| Failure::Usage(format!("cache.store: {error}")))?;
        tiers.push(Tier::start(
            TierKind::Objects,
            folder,
            metrics.tile_store.clone(),
        )?);
    }
    Ok(tiers)
}

impl ChunkCache for Directory {
    fn get(&self, name: &str, key: &TileKey) -> Result<Option<Bytes>, String> {
        Backend::get(self, &Name::nearest(name), key).map_err(|error| error.to_string())
    }

    fn put(&self, name: &str, key: &TileKey, bytes: &Bytes) -> Result<(), String> {
        Backend::put(self, &Name::nearest(name), key, bytes).map_err(|error| error.to_string())
    }

    fn remove(&self, name: &str, key: &TileKey) -> Result<(), String> {
        Directory::remove(self, &Name::nearest(name), key).map_err(|error| error.to_string())
    }
}
