//! Long documents, within the memory for boxes that are being made or sent.

use std::sync::Arc;

use futures_util::FutureExt;

use super::caching::REVALIDATED;
use super::context::Context;
use super::document::Document;
use super::problem::{self, Answer};
use crate::service::TileError;

/// The response with a document that may be too long to be kept: then each request has a copy of
/// its own, so memory is held for it until it is sent.
pub(super) fn respond(
    context: &Context<'_>,
    mut document: Document,
    too_large: fn() -> TileError,
) -> Answer {
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
