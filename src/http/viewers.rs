//! Metadata files for other viewers, made from descriptions: CATMAID's projects, Viking's volume,
//! ndstore's info.
//!
//! Some contain absolute URLs of tiles, with the host that the client used ([`client`]). Such a
//! document depends on the request's headers, so it must not be stored by caches; and it repeats
//! the host many times, so its size is limited. Nothing here reads a voxel.

pub(super) mod catmaid;
pub(super) mod info;
pub(super) mod viking;

use std::hash::Hash;
use std::sync::Arc;

use actix_web::HttpResponse;
use voltile_base::name::Name;
use voltile_base::request::PrecomputedVolume;

use super::caching::NO_STORE;
use super::context::Context;
use super::documents::{self, BASE, Document};
use super::escape::{in_json, in_markup};
use super::{client, cors, problem};
use crate::catalog::{Catalog, Precomputed};
use crate::service::TileError;

/// The path segments allowed between a mount's name and a token, as in ndtilecache and ndstore.
const BETWEEN: [&[&str]; 5] = [
    &[],
    &["tilecache"],
    &["tilecache", "viking"],
    &["ca"],
    &["sd"],
];

/// The metadata files of a dataset.
pub(super) enum MetadataFile {
    /// `info`, with or without a trailing slash.
    Info,
    /// `volume.vikingxml`; Viking uses two spellings of the name, which differ in case.
    VikingXml,
}

impl MetadataFile {
    fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("info") {
            Some(MetadataFile::Info)
        } else if name.eq_ignore_ascii_case("volume.vikingxml") {
            Some(MetadataFile::VikingXml)
        } else {
            None
        }
    }
}

/// The metadata file that a path below a mount names, with the mount and the token; `None` for
/// other paths.
pub(super) fn requested<'p>(context: &Context<'p>) -> Option<(MetadataFile, &'p str, &'p str)> {
    let segments = context.path.split('/');
    let segments = segments.filter(|segment| !segment.is_empty());
    // Check the file name first: nearly every path is that of a tile.
    let file = MetadataFile::named(segments.clone().next_back()?)?;
    let segments: Vec<&str> = segments.collect();
    let [mount, between @ .., token, _] = segments.as_slice() else {
        return None;
    };
    let mut mounts = context.site.server.mounts.iter();
    let is_known =
        BETWEEN.contains(&between) && mounts.any(|known| known.tile_service.as_str() == *mount);
    is_known.then_some((file, *mount, *token))
}

/// The response with a metadata file.
pub(super) async fn answer(
    context: &Context<'_>,
    (file, mount, token): (MetadataFile, &str, &str),
) -> HttpResponse {
    let dataset = match super::descriptions::named(context, token) {
        Ok(dataset) => Arc::clone(dataset),
        Err(problem) => return *problem,
    };
    let catalog = Arc::clone(&context.catalog);
    let token = dataset.token.clone();
    match file {
        MetadataFile::Info => {
            let measured = dataset.measured();
            documents::answer(context, &("info", token), measured, move || {
                Document::json(&info::describe(
                    &dataset,
                    &catalog.describe_dataset(&dataset),
                ))
            })
            .await
        }
        MetadataFile::VikingXml => {
            let address = format!("{BASE}/{mount}");
            addressed(
                context,
                &("volume.vikingxml", token, mount),
                in_markup,
                move || {
                    let description = catalog.describe_dataset(&dataset);
                    Document::addressed("text/xml; charset=utf-8", |out| {
                        viking::write(&description, &address, out)
                    })
                },
            )
            .await
        }
    }
}

/// `/projects.json`
pub(super) async fn projects(context: &Context<'_>) -> HttpResponse {
    let catalog = Arc::clone(&context.catalog);
    let site = Arc::clone(context.site);
    addressed(context, &"projects.json", in_json, move || {
        Document::addressed("application/json", |out| {
            catmaid::write(
                &catalog.describe(),
                |token, channel| precomputed(&catalog, token, channel),
                &site.server.mounts,
                out,
            )
        })
    })
    .await
}

fn precomputed(catalog: &Catalog, token: &str, channel: &str) -> Option<Precomputed> {
    let volume = PrecomputedVolume {
        token: Name::new(token).ok()?.into(),
        channel: Name::new(channel).ok()?,
        time: None,
    };
    let (_, precomputed) = catalog.precomputed_volume(&volume).ok()?;
    Some(precomputed.clone())
}

/// A document with absolute URLs, below the public address that the client used.
async fn addressed(
    context: &Context<'_>,
    name: &impl Hash,
    escape: fn(&str) -> String,
    build: impl FnOnce() -> Result<Document, TileError> + Send + 'static,
) -> HttpResponse {
    let mut response = match context.base() {
        Err(error) => problem::bad_request(&error.to_string()),
        Ok(base) => match documents::find(context, name, 0, None, build).await {
            Ok(document) => document.response(context.request, NO_STORE, Some(escape(&base))),
            Err(error) => problem::response(&error),
        },
    };
    cors::add_to_vary(response.headers_mut(), client::DECISIVE);
    response
}
