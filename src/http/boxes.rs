//! Fetches boxes of voxels and chunks, within the memory for all that are being made or sent.

use std::sync::Arc;
use std::time::Instant;

use actix_web::HttpResponse;
use bytes::Bytes;
use futures_util::FutureExt;
use voltile_base::flow::trace::Stage;

use super::caching::REVALIDATED;
use super::context::Context;
use super::document::Document;
use super::problem;
use crate::service::{CachePolicy, HeldMemory, Identified, TileError};

/// A box, the memory that is held for it until it is sent, and how long it may be cached.
pub(super) async fn fetch(
    context: &Context<'_>,
    identified: Identified,
) -> Result<(Bytes, Arc<HeldMemory>, CachePolicy), TileError> {
    let service = &context.site.service;
    let demand = context.demand();
    let trace = &context.record.trace;
    let bytes = identified
        .cutout()
        .map_or(0, |(plan, encoding)| encoding.bytes(plan));
    let began = Instant::now();
    let held = Arc::new(service.boxes().hold(demand.client, bytes).await?);
    trace.add(Stage::Queue, began.elapsed());
    let identified = identified.holding(Arc::clone(&held));
    let whole = service.fetch(&identified, demand, trace).await?.bytes;
    held.shrink_to(whole.len());
    Ok((whole, held, identified.cache_policy()))
}

/// The response with a document that may be too long to be kept: then each request has a copy of
/// its own, so memory is held for it until it is sent.
pub(super) fn respond(
    context: &Context<'_>,
    mut document: Document,
    too_large: fn() -> TileError,
) -> Result<HttpResponse, TileError> {
    let length = document.length();
    let boxes = context.site.service.boxes();
    let holding = boxes.hold(context.demand().client, length as u64);
    let Some(held) = holding.now_or_never() else {
        return Ok(problem::busy(
            "the memory for boxes (render.boxes) is in use; ask again in a moment",
        ));
    };
    let held = held.map_err(|_| too_large())?;
    held.shrink_to(length);
    document.held = Some(Arc::new(held));
    Ok(document.response(context.request, REVALIDATED, None))
}
