//! JSON descriptions: of the whole site, or of one dataset with statistics of its channels.
//!
//! The site's description never reads a voxel. That of one dataset may: it waits until its channels have been
//! sampled, which happens once.

use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Site, asked, problem, viewers};
use crate::catalog::DatasetDescription;
use crate::config::{Caches, Mount};
use crate::name::Name;

/// Everything that is served: mounts, datasets, caches.
#[derive(Debug, Serialize, ToSchema)]
pub struct SiteDescription {
    /// The version of the server.
    pub version: &'static str,
    /// The paths below which tiles are served.
    pub mounts: Vec<MountDescription>,
    /// All datasets, by token; windows are absent until they have been measured.
    pub datasets: Vec<DatasetDescription>,
    /// The sizes of the caches.
    pub caches: CachesDescription,
    /// The number of render threads.
    pub threads: usize,
    /// When the server was started, in milliseconds since 1970.
    pub started: u64,
}

/// The budgets of caches, in bytes.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct CachesDescription {
    /// Encoded tiles in memory.
    pub tiles: usize,
    /// Decoded chunks in memory.
    pub chunks: usize,
    /// Encoded tiles on disk, which survive a restart; absent if there is no disk cache.
    pub disk: Option<usize>,
}

impl From<&Caches> for CachesDescription {
    fn from(caches: &Caches) -> Self {
        let disk = caches.directory.is_some().then_some(caches.disk).filter(|disk| *disk > 0);
        Self { tiles: caches.tiles, chunks: caches.chunks, disk }
    }
}

/// A path prefix of tiles: `/{tile_service}/tilecache/`.
#[derive(Debug, Serialize, ToSchema)]
pub struct MountDescription {
    /// The first segment of the path.
    pub tile_service: String,
    /// The `Content-Type` of its tiles.
    pub content_type: &'static str,
    /// Whether it accepts `?color=&min=&max=&gamma=`.
    pub adjustable: bool,
}

impl From<&Mount> for MountDescription {
    fn from(mount: &Mount) -> Self {
        Self {
            tile_service: mount.tile_service.to_string(),
            content_type: mount.content_type.name(),
            adjustable: mount.adjustable,
        }
    }
}

/// `/datasets.json`
pub(super) fn all(site: &Site) -> HttpResponse {
    HttpResponse::Ok().json(SiteDescription {
        version: env!("CARGO_PKG_VERSION"),
        mounts: site.mounts.iter().map(MountDescription::from).collect(),
        datasets: site.service.catalog().describe(),
        caches: site.caches,
        threads: site.threads,
        started: site.started,
    })
}

/// `/datasets/TOKEN.json`
pub(super) async fn one(site: &Site, request: &HttpRequest, token: &str) -> HttpResponse {
    let catalog = site.service.catalog();
    let Some(dataset) = Name::new(token).ok().and_then(|token| catalog.dataset(&token)) else {
        return problem::not_found(&viewers::no_dataset(token));
    };
    let demand = asked::demand(request, &site.trusted_proxies);
    match site.service.describe(dataset, demand).await {
        Ok(description) => HttpResponse::Ok().json(description),
        Err(busy) => problem::of(&busy.into()),
    }
}
