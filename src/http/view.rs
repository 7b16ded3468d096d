//! What a page chooses to see: `/view/TOKEN/LAYERS/…`, tiles and overviews with a range, gamma and
//! colours, of slices and of slabs, and the range of what is visible. Newer views displace older
//! ones because browsers give up what they no longer want: it leaves the queue.

use actix_web::HttpResponse;
use voltile_base::paint::TileFormat;
use voltile_base::request::ViewRequest;

use super::body::Pieces;
use super::caching::kept;
use super::context::Context;
use super::tiles::{described, is_confirmed};
use crate::service::{Demand, TileError, Urgency};

/// The response to a path, given without `/view/`.
pub(super) async fn answer(context: &Context<'_>, path: &str) -> HttpResponse {
    context.response(found(context, path).await)
}

async fn found(context: &Context<'_>, path: &str) -> Result<HttpResponse, TileError> {
    let Context {
        site,
        request,
        record,
        catalog,
        ..
    } = context;
    let demand = Demand {
        urgency: Urgency::View,
        ..context.demand()
    };
    let (identified, token, content_type) = match ViewRequest::parse(path, request.query_string())?
    {
        ViewRequest::Tile(tile, format) => (
            site.service.identify_view(catalog, &tile, format).await?,
            tile.token,
            format.content_type(),
        ),
        ViewRequest::Overview(tile) => (
            site.service
                .identify_overview_of_view(catalog, &tile)
                .await?,
            tile.token,
            TileFormat::Png.content_type(),
        ),
        ViewRequest::Range(range) => (
            site.service.identify_range(catalog, &range).await?,
            range.token,
            "application/json",
        ),
    };
    record.set_dataset(&identified);
    let etag = identified.key().etag();
    let fresh = || kept(identified.keeping(), &token, &site.cache_control);
    if is_confirmed(site, request, &identified, &etag) {
        return Ok(described(HttpResponse::NotModified(), etag, fresh()).finish());
    }
    let made = site
        .service
        .fetch(&identified, demand, &record.trace)
        .await?;
    Ok(described(HttpResponse::Ok(), etag, fresh())
        .content_type(content_type)
        .body(Pieces::from_whole(made.bytes)))
}
