//! Tiles as answers: 200 with all that viewers need, or 304 without a render.

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};

use super::body::Pieces;
use super::{Site, asked, problem};
use crate::config::Mount;
use crate::request::{TilePath, adjustments};
use crate::service::{TileError, Urgency};

/// Answers a request for a tile below a mount.
pub(super) async fn answer(
    site: &Site,
    mount: &Mount,
    path: &TilePath<'_>,
    request: &HttpRequest,
) -> HttpResponse {
    let answered = tile(site, mount, path, request).await;
    site.service.use_pause();
    answered.unwrap_or_else(|error| problem::of(&error))
}

async fn tile(
    site: &Site,
    mount: &Mount,
    path: &TilePath<'_>,
    request: &HttpRequest,
) -> Result<HttpResponse, TileError> {
    let is_overview = path.is_overview();
    let mut wanted = if is_overview { path.overview()? } else { path.request()? };
    if mount.adjustable {
        wanted.adjust = adjustments(request.query_string())?;
    }
    let demand = asked::demand(request, &site.trusted_proxies);
    let identified = if is_overview {
        site.service.identify_overview(&wanted, demand).await?
    } else {
        site.service.identify(&wanted, demand).await?
    };
    let etag = identified.key().etag();
    // A client's copy of a tile of a corrupt chunk is not confirmed: it is drawn again, which says what is wrong.
    if is_known(request, &etag) && !site.service.is_suspect(&identified) {
        site.service.metrics().not_modified.inc();
        return Ok(described(HttpResponse::NotModified(), site, etag).finish());
    }
    let tile = site.service.fetch(identified, demand).await?;
    // Whoever looks at a slice is likely to look at the next; an overview is read as a tile that nobody asked for, and
    // what nobody looks at yet has no neighbours that anybody will look at next.
    if !is_overview && demand.urgency == Urgency::Wanted {
        site.service.look_ahead(&wanted, &tile);
    }
    // A body of known length gets its Content-Length, also where HEAD leaves the body out.
    let content_type = HeaderValue::from_static(mount.content_type.name());
    Ok(described(HttpResponse::Ok(), site, etag).content_type(content_type).body(Pieces::of(tile.png)))
}

fn described(mut response: HttpResponseBuilder, site: &Site, etag: String) -> HttpResponseBuilder {
    response.insert_header((header::ETAG, etag));
    response.insert_header((header::CACHE_CONTROL, site.cache_control.clone()));
    response
}

/// Whether the client says that it has this very tile (RFC 9110, section 13.1.2: compared weakly).
pub(super) fn is_known(request: &HttpRequest, etag: &str) -> bool {
    let values = request.headers().get_all(header::IF_NONE_MATCH).filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
