//! Fetches boxes of voxels and chunks, within the memory for all that are being made or sent.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::context::Context;
use crate::flow::trace::Stage;
use crate::service::{Held, Identified, Keeping, TileError};

/// A box, the memory that is held for it until it is sent, and for how long it may be kept.
pub(super) async fn fetch(
    context: &Context<'_>,
    identified: Identified,
) -> Result<(Bytes, Arc<Held>, Keeping), TileError> {
    let (service, demand, trace) = (&context.site.service, context.demand(), &context.record.trace);
    let bytes = identified.cutout().map_or(0, |(plan, encoding)| encoding.bytes(&plan));
    let began = Instant::now();
    let held = Arc::new(service.boxes().hold(demand.client, bytes).await?);
    trace.add(Stage::Queue, began.elapsed());
    let identified = identified.holding(Arc::clone(&held));
    let whole = service.fetch(&identified, demand, trace).await?.bytes;
    held.shrink_to(whole.len());
    Ok((whole, held, identified.keeping()))
}
