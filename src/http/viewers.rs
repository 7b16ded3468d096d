//! Metadata files for other viewers, made from descriptions: CATMAID's projects, Viking's volume, ndstore's info.
//!
//! Some contain absolute URLs of tiles, with the host that the client used ([`asked`]). Such a document depends on
//! the request's headers, so it must not be stored by caches; and it repeats the host many times, so its size is
//! limited. Nothing here reads a voxel.

mod bounded;
pub(super) mod catmaid;
pub(super) mod info;
pub(super) mod viking;

use std::io;
use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderValue};

use super::context::Context;
use super::{asked, cors, problem};
use crate::catalog::Dataset;
use crate::description::DatasetDescription;
use crate::name::Name;
use crate::request::PrecomputedVolume;
use bounded::Bounded;

/// The path segments allowed between a mount's name and a token, as in ndtilecache and ndstore.
const BETWEEN: [&[&str]; 5] = [&[], &["tilecache"], &["tilecache", "viking"], &["ca"], &["sd"]];

/// The metadata files of a dataset.
enum File {
    /// With or without a trailing slash.
    Info,
    /// Viking uses two spellings of the name, which differ in case.
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

/// Answers a path that names a metadata file of a dataset below a mount; `None` for other paths.
pub(super) fn answer(context: &Context<'_>) -> Option<HttpResponse> {
    let segments = || context.path.split('/').filter(|segment| !segment.is_empty());
    // Check the file name first: nearly every path is that of a tile.
    let file = File::named(segments().next_back()?)?;
    let segments: Vec<&str> = segments().collect();
    let [mount, between @ .., token, _] = segments.as_slice() else { return None };
    let is_known =
        BETWEEN.contains(&between) && context.site.mounts.iter().any(|m| m.tile_service.as_str() == *mount);
    is_known.then(|| {
        let (dataset, description) = match dataset(context, token) {
            Ok(found) => found,
            Err(problem) => return *problem,
        };
        match file {
            File::Info => HttpResponse::Ok().json(info::of(&dataset, &description)),
            File::VikingXml => addressed(context, "text/xml; charset=utf-8", |base, out| {
                viking::write(&description, &format!("{base}/{mount}"), out)
            }),
        }
    })
}

fn dataset(
    context: &Context<'_>,
    segment: &str,
) -> Result<(Arc<Dataset>, DatasetDescription), Box<HttpResponse>> {
    let dataset = super::descriptions::named(context, segment)?;
    Ok((Arc::clone(dataset), context.catalog.describe_dataset(dataset)))
}

/// `/projects.json`
pub(super) fn projects(context: &Context<'_>) -> HttpResponse {
    let Context { catalog, site, .. } = context;
    let precomputed = |token: &str, channel: &str| {
        let (token, channel) = (Name::new(token).ok()?, Name::new(channel).ok()?);
        let volume = PrecomputedVolume { token: token.into(), channel, time: None };
        catalog.precomputed_volume(&volume).ok().map(|(_, precomputed)| precomputed.clone())
    };
    addressed(context, "application/json", |base, out| {
        catmaid::write(&catalog.describe(), precomputed, &site.mounts, base, out)
    })
}

/// A document with absolute URLs, below the public address that the client used.
fn addressed(
    context: &Context<'_>,
    content_type: &'static str,
    write: impl FnOnce(&str, &mut Bounded) -> io::Result<()>,
) -> HttpResponse {
    let mut response = match context.base() {
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
