//! Metadata files for other viewers, made from descriptions: CATMAID's projects, Viking's volume, ndstore's info.
//!
//! Some contain absolute URLs of tiles, with the host that the client used ([`asked`]). Such a document depends on
//! the request's headers, so it must not be stored by caches; and it repeats the host many times, so its size is
//! limited. Nothing here reads a voxel.

pub(super) mod catmaid;
pub(super) mod info;
pub(super) mod viking;

use std::hash::Hash;
use std::sync::Arc;

use actix_web::HttpResponse;

use super::context::Context;
use super::documents::{self, BASE, Document, Unbuilt};
use super::{asked, cors, problem};
use crate::name::Name;
use crate::request::PrecomputedVolume;

/// The path segments allowed between a mount's name and a token, as in ndtilecache and ndstore.
const BETWEEN: [&[&str]; 5] = [&[], &["tilecache"], &["tilecache", "viking"], &["ca"], &["sd"]];

/// A metadata file of a dataset that a path names.
pub(super) struct File<'p> {
    kind: FileKind,
    /// The mount below which it was requested.
    mount: &'p str,
    token: &'p str,
}

#[derive(Clone, Copy)]
enum FileKind {
    /// With or without a trailing slash.
    Info,
    /// Viking uses two spellings of the name, which differ in case.
    VikingXml,
}

impl<'p> File<'p> {
    /// The metadata file that a request names; `None` for other paths.
    pub fn requested(context: &Context<'p>) -> Option<Self> {
        let segments = || context.path.split('/').filter(|segment| !segment.is_empty());
        // Check the file name first: nearly every path is that of a tile.
        let kind = match segments().next_back()? {
            name if name.eq_ignore_ascii_case("info") => FileKind::Info,
            name if name.eq_ignore_ascii_case("volume.vikingxml") => FileKind::VikingXml,
            _ => return None,
        };
        let segments: Vec<&str> = segments().collect();
        let [mount, between @ .., token, _] = segments.as_slice() else { return None };
        let is_known = BETWEEN.contains(&between)
            && context.site.mounts.iter().any(|m| m.tile_service.as_str() == *mount);
        is_known.then_some(Self { kind, mount, token })
    }
}

/// The response with a metadata file.
pub(super) async fn answer(context: &Context<'_>, file: File<'_>) -> HttpResponse {
    let dataset = match super::descriptions::named(context, file.token) {
        Ok(dataset) => Arc::clone(dataset),
        Err(problem) => return *problem,
    };
    let catalog = Arc::clone(&context.catalog);
    match file.kind {
        FileKind::Info => {
            let (name, measured) = (("info", dataset.token.clone()), dataset.measured());
            documents::answer(context, &name, measured, move || {
                Document::json(&info::of(&dataset, &catalog.describe_dataset(&dataset)))
            })
            .await
        }
        FileKind::VikingXml => {
            let name = ("volume.vikingxml", dataset.token.clone(), file.mount);
            let mount = format!("{BASE}/{}", file.mount);
            addressed(context, &name, super::escaped, move || {
                let description = catalog.describe_dataset(&dataset);
                Document::addressed("text/xml; charset=utf-8", |out| viking::write(&description, &mount, out))
            })
            .await
        }
    }
}

/// `/projects.json`
pub(super) async fn projects(context: &Context<'_>) -> HttpResponse {
    let (catalog, site) = (Arc::clone(&context.catalog), Arc::clone(context.site));
    addressed(context, &"projects.json", escaped_in_json, move || {
        let precomputed = |token: &str, channel: &str| {
            let (token, channel) = (Name::new(token).ok()?, Name::new(channel).ok()?);
            let volume = PrecomputedVolume { token: token.into(), channel, time: None };
            catalog.precomputed_volume(&volume).ok().map(|(_, precomputed)| precomputed.clone())
        };
        Document::addressed("application/json", |out| {
            catmaid::write(&catalog.describe(), precomputed, &site.mounts, BASE, out)
        })
    })
    .await
}

/// A document with absolute URLs, below the public address that the client used.
async fn addressed(
    context: &Context<'_>,
    name: &impl Hash,
    escape: fn(&str) -> String,
    build: impl FnOnce() -> Result<Document, Unbuilt> + Send + 'static,
) -> HttpResponse {
    let mut response = match context.base() {
        Err(error) => problem::bad_request(&error.to_string()),
        Ok(base) => match documents::find(context, name, 0, build).await {
            Ok(document) => document.addressed_response(context.request, escape(&base)),
            Err(error) => error.response(),
        },
    };
    cors::add_to_vary(response.headers_mut(), asked::DECISIVE);
    response
}

/// Escapes text for a string in JSON.
fn escaped_in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default().to_owned()
}
