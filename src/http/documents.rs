//! Documents about the served datasets: each is built once for each generation of the catalogue and
//! each set of datasets that a request may see, off the HTTP threads, and kept.
//!
//! The text of a document follows from the settings (a site with other settings has documents of
//! its own), the generation of the catalogue, the entries of `[[access]]` that the request has
//! opened, the name that the caller gives it, and from which windows and statistics of channels are
//! known. Windows and statistics become known while the catalogue is served: a document that was
//! built when fewer were known is built again.
//!
//! Only a few documents are built at once: each takes one of the places. Documents that read files
//! have places of their own, so that they do not delay documents that read no files; and they give
//! their place back when a file is stuck ([`voltile_base::flow::stalls`]).

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use voltile_base::flow::cache::{Flight, Lookup};
use voltile_base::tile::TileKey;

use super::caching::REVALIDATED;
use super::context::Context;
pub(super) use super::document::{BASE, Document};
use super::problem::{self, Answer};
use crate::catalog::Dataset;
use crate::service::{TileError, TileService};

/// After this time a document that is still being built gives back its place.
const PATIENCE: Duration = Duration::from_secs(10);

/// The document with this name, in which at least `measured` windows and statistics are known: the
/// kept one, or one that is built now. `reads` is the dataset whose files are read for it.
pub(super) async fn find(
    context: &Context<'_>,
    name: &impl Hash,
    measured: usize,
    reads: Option<&Arc<Dataset>>,
    build: impl FnOnce() -> Result<Document, TileError> + Send + 'static,
) -> Result<Document, TileError> {
    let documents = &context.site.documents;
    let service = &context.site.service;
    let files = reads.into_iter().flat_map(|dataset| dataset.files());
    let generation = context.catalog.generation();
    if documents.newest.fetch_max(generation, Ordering::Relaxed) < generation {
        documents.kept.clear();
    }
    let key = (generation, TileKey::digest(&(&context.grants, name)));
    let flight = loop {
        let lookup = documents
            .kept
            .lookup_if(&key, |kept| kept.measured >= measured);
        match lookup {
            Lookup::Ready(document) => return Ok(document),
            Lookup::Wait(waiter) => {
                let document = service.landed(files.clone(), waiter).await?;
                // An earlier request may have been content with fewer windows than this one: then
                // look again.
                if document.measured >= measured {
                    return Ok(document);
                }
            }
            Lookup::Lead(flight) => break flight,
        }
    };
    let waiter = flight.join();
    let places = match reads {
        Some(_) => &documents.readers,
        None => &documents.builders,
    };
    let newest = Arc::clone(&documents.newest);
    // A task of its own, which goes on if this client leaves and other clients wait.
    drop(tokio::spawn(build_in_turn(
        Arc::clone(service),
        Arc::clone(places),
        reads.cloned(),
        flight,
        move || {
            let mut document = build()?;
            document.measured = measured;
            // A document of a catalogue that is not served any more is not kept: its weight exceeds
            // the budget.
            let is_current = newest.load(Ordering::Relaxed) == generation;
            let weight = if is_current {
                document.weight()
            } else {
                usize::MAX
            };
            Ok((document, weight))
        },
    )));
    service.landed(files, waiter).await
}

/// Builds a document on a thread of its own, once there is a place for it. The place is given back
/// when the document is built, a file of the dataset that it `reads` is stuck, or [`PATIENCE`] is
/// over.
async fn build_in_turn(
    service: Arc<TileService>,
    places: Arc<Semaphore>,
    reads: Option<Arc<Dataset>>,
    flight: Flight<(u64, TileKey), Document, TileError>,
    build: impl FnOnce() -> Result<(Document, usize), TileError> + Send + 'static,
) {
    // An error means that the semaphore is closed, which never happens.
    let Ok(_place) = places.acquire_owned().await else {
        return;
    };
    let Some(flight) = flight.still_wanted() else {
        return;
    };
    let landed = flight.join();
    let stalls = service.stalls().clone();
    let built = service.metrics().documents.clone();
    drop(tokio::task::spawn_blocking(move || {
        let document = stalls
            .watched(build)
            .unwrap_or_else(|stuck| Err(stuck.into()));
        if document.is_ok() {
            built.inc();
        }
        flight.land(document);
    }));
    // The place is given back now, even if the thread is still building.
    let files = reads.iter().flat_map(|dataset| dataset.files());
    let _ = tokio::time::timeout(PATIENCE, service.landed(files, landed)).await;
}

/// The response with a document that does not contain the server's address, to be revalidated at
/// each use.
pub(super) async fn answer(
    context: &Context<'_>,
    name: &impl Hash,
    measured: usize,
    build: impl FnOnce() -> Result<Document, TileError> + Send + 'static,
) -> Answer {
    let document = find(context, name, measured, None, build).await?;
    Ok(document.response(context.request, REVALIDATED, None))
}

/// The response with a document that may be too long to be kept. Because each request may then have
/// a copy of its own, memory for boxes is held until the copy is sent. `too_large` is the error if
/// one client may not hold that much.
pub(super) fn answer_long(
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
