//! `/view/TOKEN/LAYERS/…`: tiles and overviews with a range, gamma and colours that a page chooses,
//! of slices and of slabs, and the range of the visible values. Newer views displace older views,
//! because a browser gives up requests that it no longer needs: they leave the queue.

use actix_web::HttpResponse;
use voltile_base::request::ViewRequest;

use super::context::Context;
use super::tiles::respond;
use crate::service::{Demand, TileError, Urgency};

/// The response to a path, given without `/view/`.
pub(super) async fn answer(context: &Context<'_>, path: &str) -> HttpResponse {
    context.response(found(context, path).await)
}

async fn found(context: &Context<'_>, path: &str) -> Result<HttpResponse, TileError> {
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
    respond(context, &plan, token, demand, wanted.content_type(), |_| {}).await
}
