//! Tile responses: 200 with the headers that viewers need, or 304 without rendering.

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use voltile_base::request::{TilePath, adjustments};

use super::body::Pieces;
use super::caching::{is_known, kept};
use super::context::Context;
use super::site::Site;
use crate::config::Mount;
use crate::service::{Identified, Keeping, TileError, Urgency};

/// Answers a request for a tile or an overview below a mount.
pub(super) async fn answer(
    context: &Context<'_>,
    mount: &Mount,
    path: &TilePath<'_>,
) -> HttpResponse {
    context.response(tile(context, mount, path).await)
}

async fn tile(
    context: &Context<'_>,
    mount: &Mount,
    path: &TilePath<'_>,
) -> Result<HttpResponse, TileError> {
    let Context {
        site,
        request,
        record,
        catalog,
        ..
    } = context;
    let is_overview = path.is_overview();
    let mut wanted = if is_overview {
        path.overview()?
    } else {
        path.request()?
    };
    if mount.adjustable {
        wanted.adjust = adjustments(request.query_string())?;
    }
    let demand = context.demand();
    let identified = if is_overview {
        Box::pin(site.service.identify_overview(catalog, &wanted, demand)).await?
    } else {
        site.service.identify(catalog, &wanted, demand).await?
    };
    record.set_dataset(&identified);
    let etag = identified.key().etag();
    let fresh = || kept(identified.keeping(), &wanted.token, &site.cache_control);
    if is_confirmed(site, request, &identified, &etag) {
        return Ok(described(HttpResponse::NotModified(), etag, fresh()).finish());
    }
    let tile = site
        .service
        .fetch(&identified, demand, &record.trace)
        .await?;
    // Neighbours are only prefetched for tiles that a user is looking at: not for overviews, nor
    // for prefetches.
    if !is_overview && demand.urgency == Urgency::Wanted {
        site.service.look_ahead(&wanted, &identified, &tile);
    }
    // A body of known length gets a Content-Length, even if HEAD omits the body.
    let content_type = HeaderValue::from_static(mount.content_type.name());
    Ok(described(HttpResponse::Ok(), etag, fresh())
        .content_type(content_type)
        .body(Pieces::from_whole(tile.bytes)))
}

/// Whether the client's copy is current, which is counted. A copy of what is not complete yet is
/// not confirmed.
pub(super) fn is_confirmed(
    site: &Site,
    request: &HttpRequest,
    identified: &Identified,
    etag: &str,
) -> bool {
    let is_confirmed = is_known(request, etag) && identified.keeping() != Keeping::No;
    if is_confirmed {
        site.service.metrics().not_modified.inc();
    }
    is_confirmed
}

/// With the headers of something that is cached: its ETag, and how long it may be kept without
/// asking.
pub(super) fn described(
    mut response: HttpResponseBuilder,
    etag: String,
    fresh: HeaderValue,
) -> HttpResponseBuilder {
    response.insert_header((header::ETAG, etag));
    response.insert_header((header::CACHE_CONTROL, fresh));
    response
}
