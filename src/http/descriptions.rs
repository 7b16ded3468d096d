//! JSON descriptions: of the whole site, or of one dataset with statistics of its channels.
//!
//! The site's description never reads a voxel. That of one dataset may: it waits until its channels have been
//! sampled, which happens once.

use actix_web::{HttpRequest, HttpResponse};

use super::{Site, asked, problem, viewers};
use crate::config::{Caches, Mount};
use crate::description::{CachesDescription, MountDescription, SiteDescription};
use crate::name::Name;

impl From<&Caches> for CachesDescription {
    fn from(caches: &Caches) -> Self {
        let disk = caches.directory.is_some().then_some(caches.disk).filter(|disk| *disk > 0);
        Self { tiles: caches.tiles, chunks: caches.chunks, disk }
    }
}

impl From<&Mount> for MountDescription {
    fn from(mount: &Mount) -> Self {
        Self {
            tile_service: mount.tile_service.to_string(),
            content_type: mount.content_type.name().to_owned(),
            adjustable: mount.adjustable,
        }
    }
}

/// `/datasets.json`
pub(super) fn all(site: &Site) -> HttpResponse {
    HttpResponse::Ok().json(SiteDescription {
        version: env!("CARGO_PKG_VERSION").to_owned(),
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
