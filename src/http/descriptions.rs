//! JSON descriptions: of the whole site, or of one dataset with statistics of its channels.
//!
//! The site's description never reads a voxel. That of one dataset may: it waits until its channels have been
//! sampled, which happens once.

use actix_web::HttpResponse;

use super::context::Context;
use super::{page, problem};
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
pub(super) fn all(context: &Context<'_>) -> HttpResponse {
    let site = context.site;
    HttpResponse::Ok().json(SiteDescription {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        mounts: site.mounts.iter().map(MountDescription::from).collect(),
        datasets: context.catalog.describe(),
        caches: site.caches,
        threads: site.threads,
        started: site.started,
        neuroglancer: page::neuroglancer().map(str::to_owned).or_else(|| site.neuroglancer.clone()),
    })
}

/// `/datasets/TOKEN.json`
pub(super) async fn one(context: &Context<'_>, token: &str) -> HttpResponse {
    let Some(dataset) = Name::new(token).ok().and_then(|token| context.catalog.dataset(&token)) else {
        return problem::no_dataset(token);
    };
    match context.site.service.describe(&context.catalog, dataset, context.demand()).await {
        Ok(description) => HttpResponse::Ok().json(description),
        Err(busy) => problem::of(&busy.into()),
    }
}
