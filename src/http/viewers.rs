//! Files that other viewers ask for, made from descriptions: CATMAID's projects, Viking's volume, the ancestor's info.
//!
//! They name tiles by whole addresses, with the host that the client asked (a proxy in front may say another in
//! `Forwarded` or `X-Forwarded-Host`). Nothing here reads a voxel.

pub(super) mod catmaid;
pub(super) mod info;
pub(super) mod viking;

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse};

use super::{Site, problem};
use crate::catalog::{Dataset, DatasetDescription};
use crate::name::Name;

/// What may stand between a mount's name and a token, as the ancestors had it.
const BETWEEN: [&[&str]; 5] = [&[], &["tilecache"], &["tilecache", "viking"], &["ca"], &["sd"]];

/// The files that a dataset has below a mount.
enum File {
    /// `info`, or `info/`.
    Info,
    /// `volume.vikingxml`, which Viking writes in two ways.
    VikingXml,
}

impl File {
    fn named(name: &str) -> Option<Self> {
        match name {
            _ if name.eq_ignore_ascii_case("info") => Some(File::Info),
            _ if name.eq_ignore_ascii_case("volume.vikingxml") => Some(File::VikingXml),
            _ => None,
        }
    }
}

/// Answers a path below a mount that ends in a dataset's file; `None` where it does not.
pub(super) fn answer(site: &Site, request: &HttpRequest, path: &str) -> Option<HttpResponse> {
    let segments = || path.split('/').filter(|segment| !segment.is_empty());
    // The name first: nearly every path is a tile's, and goes on from here.
    let file = File::named(segments().next_back()?)?;
    let segments: Vec<&str> = segments().collect();
    let [mount, between @ .., token, _] = segments.as_slice() else { return None };
    let is_known =
        BETWEEN.contains(&between) && site.mounts.iter().any(|m| m.tile_service.as_str() == *mount);
    is_known.then(|| {
        let Some((dataset, description)) = dataset(site, token) else {
            return problem::not_found(&no_dataset(token));
        };
        match file {
            File::Info => HttpResponse::Ok().json(info::of(&dataset, &description)),
            File::VikingXml => viking::answer(&description, &format!("{}/{mount}", base(request))),
        }
    })
}

fn dataset(site: &Site, token: &str) -> Option<(Arc<Dataset>, DatasetDescription)> {
    let catalog = site.service.catalog();
    let dataset = catalog.dataset(&Name::new(token).ok()?)?;
    Some((Arc::clone(dataset), catalog.describe_dataset(dataset)))
}

/// Says that there is no such dataset.
pub(super) fn no_dataset(token: &str) -> String {
    format!("there is no dataset {token:?}; /datasets.json lists what there is")
}

/// `/projects.json`
pub(super) fn projects(site: &Site, request: &HttpRequest) -> HttpResponse {
    let datasets = site.service.catalog().describe();
    HttpResponse::Ok().json(catmaid::projects(&datasets, &site.mounts, &base(request)))
}

/// The scheme and host that the client asked.
fn base(request: &HttpRequest) -> String {
    let connection = request.connection_info();
    format!("{}://{}", connection.scheme(), connection.host())
}
