//! Opens the tiers that the settings name.

use super::blocks;
use super::failure::Failure;
use crate::config::Settings;
use crate::metrics::Metrics;
use crate::store::Store;
use crate::tier::{Backend, Directory, Objects, Redis, Tier, Tiers};

/// Opens the tiers that are configured, and the cache directory, which keeps stored chunks too.
pub(super) fn open(
    settings: &Settings,
    metrics: &Metrics,
    store: &Store,
) -> Result<(Option<Tiers>, Option<Directory>), Failure> {
    let directory = cache_directory(settings, metrics)?;
    let mut tiers = Vec::new();
    if let Some(directory) = &directory {
        if settings.cache.blocks > 0 {
            blocks::keep(directory, settings.cache.blocks, metrics, store)?;
        }
        if settings.cache.disk > 0 {
            tiers.push(directory_tier(directory.tiles(), settings.cache.disk, metrics)?);
        }
    }
    tiers.extend(shared_tiers(settings, metrics, store)?);
    Ok((Tiers::of(tiers), directory))
}

/// The cache directory, if it is needed. A server runs without a directory that cannot be used now.
fn cache_directory(settings: &Settings, metrics: &Metrics) -> Result<Option<Directory>, Failure> {
    let cache = &settings.cache;
    let needed = cache.directory.as_ref().filter(|_| cache.disk > 0 || cache.blocks > 0);
    needed.map_or(Ok(None), |path| match Directory::open(path) {
        Err(error) if error.is_misnamed() => Err(Failure::Usage(format!("cache.directory: {error}"))),
        Err(error) => {
            metrics.tier.errors.inc();
            Ok(Some(Directory::unavailable(path, &error)))
        }
        Ok(directory) => Ok(Some(directory)),
    })
}

pub(super) fn directory_tier(
    directory: Directory,
    budget: usize,
    metrics: &Metrics,
) -> Result<Tier, Failure> {
    let directory = directory.kept_to(budget as u64, metrics)?;
    Ok(Tier::start(Backend::Directory, directory, metrics.tier.clone())?)
}

/// The tiers that are configured to be shared between servers.
pub(super) fn shared_tiers(
    settings: &Settings,
    metrics: &Metrics,
    store: &Store,
) -> Result<impl Iterator<Item = Tier> + use<>, Failure> {
    let (redis, objects) = (redis_tier(settings, metrics)?, objects_tier(settings, metrics, store)?);
    Ok(redis.into_iter().chain(objects))
}

fn redis_tier(settings: &Settings, metrics: &Metrics) -> Result<Option<Tier>, Failure> {
    let Some(address) = &settings.cache.redis else { return Ok(None) };
    let redis = Redis::open(address, settings.cache.redis_expiry, &metrics.redis)?;
    Ok(Some(Tier::start(Backend::Redis, redis, metrics.redis.clone())?))
}

fn objects_tier(settings: &Settings, metrics: &Metrics, store: &Store) -> Result<Option<Tier>, Failure> {
    let Some(address) = &settings.cache.store else { return Ok(None) };
    let objects = Objects::open(store, address, &metrics.tile_store)
        .map_err(|error| Failure::Usage(format!("cache.store: {error}")))?;
    Ok(Some(Tier::start(Backend::Objects, objects, metrics.tile_store.clone())?))
}
