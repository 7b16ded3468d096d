//! Tiles as answers: 200 with all that viewers need, or 304 without a render.

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};

use super::{Site, problem};
use crate::config::Mount;
use crate::request::TilePath;
use crate::service::TileError;

/// Answers a request for a tile below a mount.
pub(super) async fn answer(
    site: &Site,
    mount: &Mount,
    path: &TilePath,
    request: &HttpRequest,
) -> HttpResponse {
    match tile(site, mount, path, request).await {
        Ok(response) => response,
        Err(error) => problem::of(&error),
    }
}

async fn tile(
    site: &Site,
    mount: &Mount,
    path: &TilePath,
    request: &HttpRequest,
) -> Result<HttpResponse, TileError> {
    let wanted = path.request()?;
    let identified = site.service.identify(&wanted).await?;
    let etag = identified.key().etag();
    if is_known(request, &etag) {
        site.service.metrics().not_modified.inc();
        return Ok(described(HttpResponse::NotModified(), site, etag).finish());
    }
    let tile = site.service.fetch(identified).await?;
    // A body of known length gets its Content-Length, also where HEAD leaves the body out.
    Ok(described(HttpResponse::Ok(), site, etag).content_type(mount.content_type.name()).body(tile.png))
}

fn described(mut response: HttpResponseBuilder, site: &Site, etag: String) -> HttpResponseBuilder {
    response.insert_header((header::ETAG, etag));
    response.insert_header((header::CACHE_CONTROL, site.cache_control.as_str()));
    response
}

/// Whether the client says that it has this very tile (RFC 9110, section 13.1.2: compared weakly).
fn is_known(request: &HttpRequest, etag: &str) -> bool {
    let values = request.headers().get_all(header::IF_NONE_MATCH).filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
