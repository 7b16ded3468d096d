//! Metadata files for other viewers, made from the descriptions of datasets: CATMAID's projects,
//! Viking's volume, ndstore's info.
//!
//! Some of the files contain absolute URLs of tiles, with the host that the client used
//! ([`client`]). Because these files depend on the request's headers, caches must not store them;
//! and because they repeat the host many times, their size is limited. Nothing here reads a voxel.

pub(super) mod catmaid;
pub(super) mod info;
pub(super) mod viking;

use std::hash::Hash;
use std::io;
use std::sync::Arc;

use voltile_base::name::Name;
use voltile_base::request::PrecomputedVolume;

use super::caching::NO_STORE;
use super::context::Context;
use super::documents::{self, BASE, Document};
use super::escape::{in_json, in_markup};
use super::problem::{self, Answer};
use super::{client, cors};
use crate::catalog::{Catalog, Precomputed};

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
    let parts = context.path.split('/').filter(|part| !part.is_empty());
    // Check the file name first: nearly every path is that of a tile.
    let file = MetadataFile::named(parts.clone().next_back()?)?;
    let segments: Vec<&str> = parts.collect();
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
) -> Answer {
    let dataset = Arc::clone(super::descriptions::named(context, token)?);
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
            let name = ("volume.vikingxml", token, mount);
            let content_type = "text/xml; charset=utf-8";
            answer_with_urls(context, &name, content_type, in_markup, move |out| {
                viking::write(&catalog.describe_dataset(&dataset), &address, out)
            })
            .await
        }
    }
}

/// `/projects.json`
pub(super) async fn projects(context: &Context<'_>) -> Answer {
    let catalog = Arc::clone(&context.catalog);
    let site = Arc::clone(context.site);
    answer_with_urls(
        context,
        &"projects.json",
        "application/json",
        in_json,
        move |out| {
            let find = |token: &str, channel: &str| find_precomputed(&catalog, token, channel);
            catmaid::write(&catalog.describe(), find, &site.server.mounts, out)
        },
    )
    .await
}

/// A channel in the precomputed format, if it can be offered.
fn find_precomputed(catalog: &Catalog, token: &str, channel: &str) -> Option<Precomputed> {
    let volume = PrecomputedVolume {
        token: Name::new(token).ok()?.into(),
        channel: Name::new(channel).ok()?,
        time: None,
    };
    let (_, precomputed) = catalog.precomputed_volume(&volume).ok()?;
    Some(precomputed.clone())
}

/// The response with a document in which `write` has written [`BASE`] for the public address that
/// the client used; `escape` escapes that address for the format.
async fn answer_with_urls(
    context: &Context<'_>,
    name: &impl Hash,
    content_type: &'static str,
    escape: fn(&str) -> String,
    write: impl FnOnce(&mut &mut [u8]) -> io::Result<()> + Send + 'static,
) -> Answer {
    let build = move || Document::addressed(content_type, write);
    let mut response = match context.base() {
        Err(error) => problem::bad_request(&error.to_string()),
        Ok(base) => match documents::find(context, name, 0, None, build).await {
            Ok(document) => document.response(context.request, NO_STORE, Some(escape(&base))),
            Err(error) => problem::response(&error),
        },
    };
    cors::add_to_vary(response.headers_mut(), client::DECISIVE);
    Ok(response)
}
