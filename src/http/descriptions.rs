//! JSON descriptions: of the whole site, or of one dataset with statistics of its channels.
//!
//! The site's description never reads a voxel. That of one dataset may: it waits until its channels have been
//! sampled, which happens once.

use std::sync::Arc;

use actix_web::HttpResponse;

use super::context::Context;
use super::{page, problem};
use crate::catalog::{Dataset, NotFound};
use crate::config::{Caches, Mount};
use crate::description::{CachesDescription, MountDescription, SiteDescription};
use crate::request::VersionedToken;

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

/// The dataset that a segment of a path names, perhaps with a version; otherwise the response that says there is none.
pub(super) fn named<'c>(
    context: &'c Context<'_>,
    segment: &str,
) -> Result<&'c Arc<Dataset>, Box<HttpResponse>> {
    let wanted = VersionedToken::new(segment).map_err(|_| Box::new(problem::no_dataset(segment)))?;
    context.catalog.known(&wanted).map_err(|error| {
        Box::new(match error {
            NotFound::Token { token, .. } => problem::no_dataset(token.as_str()),
            other => problem::of(&other.into()),
        })
    })
}

/// `/datasets/TOKEN.json`
pub(super) async fn one(context: &Context<'_>, token: &str) -> HttpResponse {
    let dataset = match named(context, token) {
        Ok(dataset) => dataset,
        Err(problem) => return *problem,
    };
    match context.site.service.describe(&context.catalog, dataset, context.demand()).await {
        Ok(description) => HttpResponse::Ok().json(description),
        Err(busy) => problem::of(&busy.into()),
    }
}
