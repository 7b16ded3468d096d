//! Tile responses: 200 with the headers that viewers need, or 304 without rendering.

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};

use super::body::Pieces;
use super::context::Context;
use super::{Site, problem};
use crate::config::Mount;
use crate::request::{TilePath, VersionedToken, adjustments};
use crate::service::{Identified, TileError, Urgency};

/// Answers a request for a tile or an overview below a mount.
pub(super) async fn answer(context: &Context<'_>, mount: &Mount, path: &TilePath<'_>) -> HttpResponse {
    let answered = tile(context, mount, path).await;
    context.site.service.use_pause();
    answered.unwrap_or_else(|error| problem::of(&error))
}

async fn tile(context: &Context<'_>, mount: &Mount, path: &TilePath<'_>) -> Result<HttpResponse, TileError> {
    let Context { site, request, record, catalog, .. } = context;
    let is_overview = path.is_overview();
    let mut wanted = if is_overview { path.overview()? } else { path.request()? };
    if mount.adjustable {
        wanted.adjust = adjustments(request.query_string())?;
    }
    let demand = context.demand();
    let identified = if is_overview {
        site.service.identify_overview(catalog, &wanted, demand).await?
    } else {
        site.service.identify(catalog, &wanted, demand).await?
    };
    record.set_dataset(&identified);
    let etag = identified.key().etag();
    if is_confirmed(site, request, &identified, &etag) {
        return Ok(described(HttpResponse::NotModified(), site, etag, &wanted.token).finish());
    }
    let tile = site.service.fetch(identified, demand, &record.trace).await?;
    // Neighbours are only prefetched for tiles that a user is looking at: not for overviews, nor for prefetches.
    if !is_overview && demand.urgency == Urgency::Wanted {
        site.service.look_ahead(&wanted, &tile);
    }
    // A body of known length gets a Content-Length, even if HEAD omits the body.
    let content_type = HeaderValue::from_static(mount.content_type.name());
    Ok(described(HttpResponse::Ok(), site, etag, &wanted.token)
        .content_type(content_type)
        .body(Pieces::of(tile.bytes)))
}

/// Whether the client's copy is current, which is counted. A copy with voxels of a corrupt chunk is not confirmed:
/// rendering it again reports the error.
pub(super) fn is_confirmed(site: &Site, request: &HttpRequest, identified: &Identified, etag: &str) -> bool {
    let is_confirmed = is_known(request, etag) && !site.service.is_suspect(identified);
    if is_confirmed {
        site.service.metrics().not_modified.inc();
    }
    is_confirmed
}

/// With the headers of something that is cached: its ETag, and how long it may be kept without asking.
pub(super) fn described(
    mut response: HttpResponseBuilder,
    site: &Site,
    etag: String,
    dataset: &VersionedToken,
) -> HttpResponseBuilder {
    response.insert_header((header::ETAG, etag));
    response.insert_header((header::CACHE_CONTROL, lifetime(dataset, &site.cache_control)));
    response
}

/// The `Cache-Control` of what an address names: what is there at the address of a version never changes.
pub(super) fn lifetime(dataset: &VersionedToken, otherwise: &HeaderValue) -> HeaderValue {
    if dataset.version.is_some() { IMMUTABLE } else { otherwise.clone() }
}

/// For a year, as long as makes sense.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// To be revalidated at each use.
pub(super) const REVALIDATED: HeaderValue = HeaderValue::from_static("no-cache");

/// Whether `If-None-Match` is `*`, which names every existing representation.
pub(super) fn is_any(request: &HttpRequest) -> bool {
    request.headers().get_all(header::IF_NONE_MATCH).any(|value| value.as_bytes().trim_ascii() == b"*")
}

/// Whether `If-None-Match` names this ETag (RFC 9110, section 13.1.2: weak comparison).
pub(super) fn is_known(request: &HttpRequest, etag: &str) -> bool {
    let values = request.headers().get_all(header::IF_NONE_MATCH).filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
