//! Fetches boxes of voxels and chunks, within the memory set aside for all that are being made or sent.

use std::sync::Arc;

use actix_web::HttpResponse;
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::context::Context;
use super::problem;
use crate::service::{Identified, TileError};
use crate::trace::Outcome;

/// The most memory of boxes that are being made or sent, in MiB.
pub(super) const MOST_MIB: u32 = 2048;

/// A box, and the permit for its memory until it is sent; the response with the error if there is none.
pub(super) async fn fetch(
    context: &Context<'_>,
    identified: Identified,
) -> Result<(Bytes, OwnedSemaphorePermit), HttpResponse> {
    let site = context.site;
    let cutout = identified.cutout().zip(identified.encoding());
    let bytes = cutout.as_ref().map_or(0, |(plan, encoding)| encoding.bytes(plan));
    let mib = u32::try_from(bytes >> 20).unwrap_or(u32::MAX).saturating_add(1);
    if mib > MOST_MIB {
        let problem = format!("it has {} MiB, more than the memory for boxes, {MOST_MIB} MiB", bytes >> 20);
        return Err(problem::of(&TileError::TooLarge(problem)));
    }
    let Ok(permit) = Arc::clone(&site.boxes).try_acquire_many_owned(mib) else {
        return Err(problem::busy(&format!(
            "other boxes take up the memory for boxes, {MOST_MIB} MiB; request it again later, or smaller ones"
        )));
    };
    if let Some(chunk) = cutout.and_then(|(plan, encoding)| site.service.cached_chunk(&plan, encoding)) {
        context.record.trace.set_outcome(Outcome::Passed);
        return Ok((chunk, permit));
    }
    let voxels = site.service.fetch(identified, context.demand(), &context.record.trace).await;
    voxels.map(|voxels| (voxels.bytes, permit)).map_err(|error| problem::of(&error))
}
