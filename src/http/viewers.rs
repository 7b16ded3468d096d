//! Files that other viewers ask for, made from descriptions: CATMAID's projects, Viking's volume, the ancestor's info.
//!
//! Some name tiles by whole addresses, with the host that the client asked ([`asked`]). Such a document differs by who asks
//! for it and how, so it is not to be stored; and it holds the host's name many times, so its size is bounded. Nothing here
//! reads a voxel.

mod bounded;
pub(super) mod catmaid;
pub(super) mod info;
pub(super) mod viking;

use std::io;
use std::sync::Arc;

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};

use super::{Site, asked, cors, problem};
use crate::catalog::{Dataset, DatasetDescription};
use crate::name::Name;
use bounded::Bounded;

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
            File::VikingXml => addressed(site, request, "text/xml; charset=utf-8", |base, out| {
                viking::write(&description, &format!("{base}/{mount}"), out)
            }),
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
    addressed(site, request, "application/json", |base, out| {
        catmaid::write(&site.service.catalog().describe(), &site.mounts, base, out)
    })
}

/// A document that names tiles below the scheme and host that the client asked.
fn addressed(
    site: &Site,
    request: &HttpRequest,
    content_type: &'static str,
    write: impl FnOnce(&str, &mut Bounded) -> io::Result<()>,
) -> HttpResponse {
    let mut response = match asked::base(request, &site.trusted_proxies) {
        Err(error) => problem::bad_request(&error.to_string()),
        Ok(base) => match Bounded::written(|out| write(&base, out)) {
            Ok(document) => HttpResponse::Ok().content_type(content_type).body(document),
            Err(error) => problem::failed(&error.to_string()),
        },
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    cors::add_to_vary(response.headers_mut(), asked::DECISIVE);
    response
}
