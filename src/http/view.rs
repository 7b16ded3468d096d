//! `/view/TOKEN/LAYERS/…`: tiles and overviews with a range, gamma and colours that a page chooses,
//! of slices and of slabs, and the range of the visible values. Newer views displace older views,
//! because a browser gives up requests that it no longer needs: they leave the queue.

use actix_web::HttpResponse;
use voltile_base::paint::TileFormat;
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
    let catalog = &context.catalog;
    let demand = Demand {
        urgency: Urgency::View,
        ..context.demand()
    };
    let wanted = ViewRequest::parse(path, context.request.query_string())?;
    let (identified, token, content_type) = match wanted {
        ViewRequest::Tile(tile, format) => (
            service.identify_view(catalog, &tile, format).await?,
            tile.token,
            format.content_type(),
        ),
        ViewRequest::Overview(tile) => (
            service.identify_overview_of_view(catalog, &tile).await?,
            tile.token,
            TileFormat::Png.content_type(),
        ),
        ViewRequest::Range(range) => (
            service.identify_range(catalog, &range).await?,
            range.token,
            "application/json",
        ),
    };
    respond(context, &identified, &token, demand, content_type, |_| {}).await
}
