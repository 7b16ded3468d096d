//! Tiles and overviews below the mounts and below `/view/`: 200 with the headers that viewers need,
//! or 304 without rendering.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::header::HeaderValue;
use voltile_base::request::{TilePath, TileRequest, VersionedToken, ViewRequest, adjustments};

use super::body::Pieces;
use super::caching::{Freshness, data_lifetime};
use super::context::Context;
use super::problem::Answer;
use crate::catalog::RequestPlan;
use crate::config::Mount;
use crate::service::{Demand, Urgency};

/// Answers a request for a tile or an overview below a mount.
pub(super) async fn answer(context: &Context<'_>, mount: &Mount, path: &TilePath<'_>) -> Answer {
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
    // Neighbours are prefetched only for tiles that a user is looking at.
    let is_looked_at = !is_overview && demand.urgency == Urgency::Wanted;
    respond(
        context,
        &plan,
        &wanted.token,
        demand,
        mount.content_type.name(),
        is_looked_at.then_some(&wanted),
    )
    .await
}

/// Answers `/view/TOKEN/LAYERS/…`, given without `/view/`: tiles and overviews of a slice or slab,
/// with the range, gamma and colours that a page chooses, and the range of the visible values.
/// Views that are out of date leave the queue, because a browser gives up their requests.
pub(super) async fn answer_view(context: &Context<'_>, path: &str) -> Answer {
    let service = &context.site.service;
    let demand = Demand {
        urgency: Urgency::View,
        ..context.demand()
    };
    let wanted = ViewRequest::parse(path, context.request.query_string())?;
    let catalog = &context.catalog;
    let token = wanted.token();
    let plan = service
        .plan(catalog, token, demand, || catalog.plan_view(&wanted))
        .await?;
    let content_type = wanted.content_type();
    respond(context, &plan, token, demand, content_type, None).await
}

/// Answers a planned request: with 304 if the client's copy is current, otherwise with the
/// fetched picture or range. The neighbours of the tile `looked_at`, if any, are prefetched then.
async fn respond(
    context: &Context<'_>,
    plan: &Arc<RequestPlan>,
    token: &VersionedToken,
    demand: Demand,
    content_type: &'static str,
    looked_at: Option<&TileRequest>,
) -> Answer {
    let service = &context.site.service;
    let lifetime = data_lifetime(token, &context.site.cache_control);
    let freshness = Freshness::new(context, plan, lifetime);
    if let Some(response) = freshness.confirmed() {
        return Ok(response);
    }
    let trace = &context.record.trace;
    let tile = service.fetch(plan, demand, trace, None).await?;
    if let Some(wanted) = looked_at {
        service.look_ahead(wanted, plan, &tile);
    }
    // A body of known length gets a Content-Length, even if HEAD omits the body.
    Ok(freshness
        .add_headers(HttpResponse::Ok())
        .content_type(HeaderValue::from_static(content_type))
        .body(Pieces::new(tile.bytes, None)))
}
