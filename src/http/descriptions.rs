//! JSON descriptions: of the whole site, or of one dataset with statistics of its channels.
//!
//! The site's description never reads a voxel. That of one dataset may: it waits until its channels have been
//! sampled, which happens once.

use std::sync::Arc;

use actix_web::HttpResponse;

use super::context::Context;
use super::documents::{self, Document};
use super::{page, problem};
use crate::catalog::{Dataset, NotFound};
use crate::config::{Caches, Mount, Settings};
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

/// The description of a site without its datasets. `started`: in milliseconds since 1970.
pub(super) fn of_site(settings: &Settings, started: u64) -> SiteDescription {
    let server = &settings.server;
    SiteDescription {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        mounts: server.mounts.iter().map(MountDescription::from).collect(),
        datasets: Vec::new(),
        caches: (&settings.cache).into(),
        threads: settings.render.threads.get(),
        started,
        neuroglancer: page::neuroglancer().map(str::to_owned).or_else(|| server.neuroglancer.clone()),
        protected: false,
    }
}

/// `/datasets.json`
pub(super) async fn all(context: &Context<'_>) -> HttpResponse {
    let measured = context.catalog.datasets().map(|dataset| dataset.measured()).sum();
    let (site, catalog) = (Arc::clone(context.site), Arc::clone(&context.catalog));
    let protected = !context.sees_everything();
    documents::answer(context, &"datasets.json", measured, move || {
        let datasets = catalog.describe();
        Document::json(&SiteDescription { datasets, protected, ..site.description.clone() })
    })
    .await
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
    let problems = match context.site.service.sample_all(dataset, context.demand()).await {
        Ok(problems) => problems,
        Err(busy) => return problem::of(&busy.into()),
    };
    let (catalog, dataset) = (Arc::clone(&context.catalog), Arc::clone(dataset));
    // Problems may differ at the next request.
    let (name, measured) = (("dataset.json", dataset.token.clone(), problems.clone()), dataset.measured());
    documents::answer(context, &name, measured, move || {
        Document::json(&catalog.describe_sampled(&dataset, &problems))
    })
    .await
}
