//! Tile responses: 200 with the headers that viewers need, or 304 without rendering.

use std::sync::Arc;

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};
use voltile_base::request::{TilePath, VersionedToken, adjustments};
use voltile_base::tile::Tile;

use super::body::Pieces;
use super::caching::{cache_control, is_known};
use super::context::Context;
use crate::catalog::{CachePolicy, RequestPlan};
use crate::config::Mount;
use crate::service::{Demand, TileError, Urgency};

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
    let service = &context.site.service;
    let catalog = &context.catalog;
    let is_overview = path.is_overview();
    let mut wanted = if is_overview {
        path.overview()?
    } else {
        path.request()?
    };
    if mount.adjustable {
        wanted.adjust = adjustments(context.request.query_string())?;
    }
    let demand = context.demand();
    let plan = service
        .plan(catalog, &wanted.token, demand, || match is_overview {
            true => catalog.plan_overview(&wanted),
            false => catalog.plan_tile(&wanted),
        })
        .await?;
    let content_type = mount.content_type.name();
    // Neighbours are prefetched only for tiles that a user is looking at.
    let is_looked_at = !is_overview && demand.urgency == Urgency::Wanted;
    respond(
        context,
        &plan,
        &wanted.token,
        demand,
        content_type,
        |tile| {
            if is_looked_at {
                service.look_ahead(&wanted, &plan, tile);
            }
        },
    )
    .await
}

/// Answers a planned request: with 304 if the client's copy is current, otherwise with the
/// fetched picture or range. Calls `on_fetched` before the response is made.
pub(super) async fn respond(
    context: &Context<'_>,
    plan: &Arc<RequestPlan>,
    token: &VersionedToken,
    demand: Demand,
    content_type: &'static str,
    on_fetched: impl FnOnce(&Tile),
) -> Result<HttpResponse, TileError> {
    let site = context.site;
    let etag = plan.key.etag();
    if let Some(response) = confirmed(context, plan, &etag, token, &site.cache_control) {
        return Ok(response);
    }
    let trace = &context.record.trace;
    let tile = site.service.fetch(plan, demand, trace).await?;
    on_fetched(&tile);
    let fresh = cache_control(plan.cache_policy(), token, &site.cache_control);
    // A body of known length gets a Content-Length, even if HEAD omits the body.
    Ok(described(HttpResponse::Ok(), etag, fresh)
        .content_type(HeaderValue::from_static(content_type))
        .body(Pieces::from_whole(tile.bytes)))
}

/// Records the dataset of a request, and confirms the client's copy with 304 if it is current. A
/// copy of incomplete data is never confirmed. `otherwise` is the `Cache-Control` for addresses
/// without a version.
pub(super) fn confirmed(
    context: &Context<'_>,
    plan: &RequestPlan,
    etag: &str,
    token: &VersionedToken,
    otherwise: &HeaderValue,
) -> Option<HttpResponse> {
    context.record.set_dataset(&plan.origin.dataset);
    if !is_known(context.request, etag) {
        return None;
    }
    let policy = plan.cache_policy();
    if policy == CachePolicy::No {
        return None;
    }
    let fresh = cache_control(policy, token, otherwise);
    Some(not_modified(context, etag, fresh))
}

/// The response with 304, which is counted.
pub(super) fn not_modified(context: &Context<'_>, etag: &str, fresh: HeaderValue) -> HttpResponse {
    context.site.service.metrics().not_modified.inc();
    described(HttpResponse::NotModified(), etag.to_owned(), fresh).finish()
}

/// A response with an ETag, and with the `Cache-Control` `fresh`.
pub(super) fn described(
    mut response: HttpResponseBuilder,
    etag: String,
    fresh: HeaderValue,
) -> HttpResponseBuilder {
    response.insert_header((header::ETAG, etag));
    response.insert_header((header::CACHE_CONTROL, fresh));
    response
}
