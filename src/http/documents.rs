//! Documents about what is served: each is built once for each generation of the catalogue and each view of it, off the
//! HTTP threads, and kept.
//!
//! What a document says follows from the settings (a site with other settings has documents of its own), the generation of
//! the catalogue, the entries of `[[access]]` that the request has opened, the name that the caller gives it, and from which
//! windows and statistics of channels are known. They become known while the catalogue is served: a document that was built
//! when fewer were known is built again.
//!
//! The public address of the server is not part of a document: it is inserted when the document is sent, so that requests
//! with many `Host`s are answered from one copy.

mod bounded;

use std::hash::Hash;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;
use tokio::sync::Semaphore;

use super::body::Parts;
use super::context::Context;
use super::tiles::is_known;
use super::{problem, range};
use crate::cache::{Cache, Flight, Lookup, Lost};
use crate::catalog::NotFound;
use crate::tile::TileKey;
use bounded::{Bounded, TooLarge};

/// The bytes of documents that are kept.
const MOST_KEPT: usize = 64 << 20;
/// How many documents are built at the same time, each on a thread of its own.
const MOST_BUILT: usize = 2;

/// Stands for the public address of the server while a document is built: a character that Unicode reserves for such uses.
pub(super) const BASE: &str = "\u{FDD0}";

/// A document that has been built; clones share its bytes.
#[derive(Debug, Clone)]
pub(super) struct Document {
    content_type: &'static str,
    /// What is sent, with the public address of the server between any two parts.
    parts: Arc<[Bytes]>,
    digest: TileKey,
    /// How many windows and statistics were known when it was requested.
    measured: usize,
}

/// Why there is no document.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Unbuilt {
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error("{0}")]
    Failed(String),
}

impl Unbuilt {
    /// The response instead of the document.
    pub fn response(self) -> HttpResponse {
        match self {
            Unbuilt::NotFound(error) => problem::of(&error.into()),
            Unbuilt::Lost(error) => problem::of(&error.into()),
            Unbuilt::Failed(reason) => problem::failed(&reason),
        }
    }
}

type Key = (u64, TileKey);

/// The documents of a site.
pub(super) struct Documents {
    kept: Cache<Key, Document, Unbuilt>,
    /// The newest generation of the catalogue that was requested: documents of others are not kept.
    newest: Arc<AtomicU64>,
    builders: Arc<Semaphore>,
    built: Counter,
}

/// The document that the catalogue and `name` decide, and in which `measured` windows and statistics are known: kept, or
/// built now.
pub(super) async fn find(
    context: &Context<'_>,
    name: &impl Hash,
    measured: usize,
    build: impl FnOnce() -> Result<Document, Unbuilt> + Send + 'static,
) -> Result<Document, Unbuilt> {
    let key = (context.catalog.generation(), TileKey::of(&(&context.grants, name)));
    context.site.documents.find(key, measured, build).await
}

/// The response with a document that does not contain the server's address, to be revalidated at each use.
pub(super) async fn answer(
    context: &Context<'_>,
    name: &impl Hash,
    measured: usize,
    build: impl FnOnce() -> Result<Document, Unbuilt> + Send + 'static,
) -> HttpResponse {
    match find(context, name, measured, build).await {
        Ok(document) => document.response(context.request, super::tiles::REVALIDATED),
        Err(error) => error.response(),
    }
}

impl Documents {
    /// None yet; `built` counts those that are built.
    pub fn new(built: Counter) -> Self {
        Self {
            kept: Cache::new(MOST_KEPT, Gauge::default()),
            newest: Arc::default(),
            builders: Arc::new(Semaphore::new(MOST_BUILT)),
            built,
        }
    }

    async fn find(
        &self,
        key: Key,
        measured: usize,
        build: impl FnOnce() -> Result<Document, Unbuilt> + Send + 'static,
    ) -> Result<Document, Unbuilt> {
        let (generation, _) = key;
        if self.newest.fetch_max(generation, Ordering::Relaxed) < generation {
            self.kept.clear();
        }
        loop {
            match self.kept.lookup_if(&key, |kept| kept.measured >= measured) {
                Lookup::Ready(document) => return Ok(document),
                Lookup::Wait(waiter) => {
                    let document = waiter.wait().await?;
                    // It may have been requested before something became known that this request must be told.
                    if document.measured >= measured {
                        return Ok(document);
                    }
                }
                Lookup::Lead(flight) => {
                    let waiter = flight.join();
                    self.launch(flight, key, move || Ok(Document { measured, ..build()? }));
                    return waiter.wait().await;
                }
            }
        }
    }

    /// Has a document built, unless nobody waits for it any more when its turn comes.
    fn launch(
        &self,
        flight: Flight<Key, Document, Unbuilt>,
        (generation, _): Key,
        build: impl FnOnce() -> Result<Document, Unbuilt> + Send + 'static,
    ) {
        let (newest, builders) = (Arc::clone(&self.newest), Arc::clone(&self.builders));
        let counter = self.built.clone();
        drop(tokio::spawn(async move {
            // An error means that the semaphore is closed, which never happens.
            let Ok(permit) = builders.acquire_owned().await else { return };
            let Some(flight) = flight.still_wanted() else { return };
            drop(tokio::task::spawn_blocking(move || {
                let built = build();
                let is_current = newest.load(Ordering::Relaxed) == generation;
                flight.land(built.map(|document| {
                    counter.inc();
                    // No budget has room for one of a catalogue that is not served any more.
                    let weight = if is_current { document.weight() } else { usize::MAX };
                    (document, weight)
                }));
                drop(permit);
            }));
        }));
    }
}

impl Document {
    /// A document without the server's address.
    pub fn of(content_type: &'static str, whole: impl Into<Bytes>) -> Self {
        Self::in_parts(content_type, vec![whole.into()])
    }

    /// A JSON document without the server's address.
    pub fn json(value: &impl Serialize) -> Result<Self, Unbuilt> {
        let text = serde_json::to_vec(value).map_err(|error| Unbuilt::Failed(error.to_string()))?;
        Ok(Self::of("application/json", text))
    }

    /// A document with the server's address in place of each [`BASE`] that is written. Its length is limited.
    pub fn addressed(
        content_type: &'static str,
        write: impl FnOnce(&mut Bounded) -> io::Result<()>,
    ) -> Result<Self, Unbuilt> {
        let failed = |error: &dyn std::error::Error| Unbuilt::Failed(error.to_string());
        let whole = Bounded::written(write).map_err(|error| failed(&error))?;
        let whole = Bytes::from(whole);
        let text = std::str::from_utf8(&whole).map_err(|error| failed(&error))?;
        let parts = text.split(BASE).map(|part| whole.slice_ref(part.as_bytes())).collect();
        Ok(Self::in_parts(content_type, parts))
    }

    fn in_parts(content_type: &'static str, parts: Vec<Bytes>) -> Self {
        let digest = TileKey::of(&("document", content_type, &parts));
        Self { content_type, parts: parts.into(), digest, measured: 0 }
    }

    /// How many bytes of the budget it takes, including bookkeeping.
    fn weight(&self) -> usize {
        const BOOKKEEPING: usize = 256;
        self.parts.iter().map(|part| part.len() + size_of::<Bytes>()).sum::<usize>() + BOOKKEEPING
    }

    /// The response with this document, all of it or the requested range, or with 304.
    pub fn response(&self, request: &HttpRequest, lifetime: HeaderValue) -> HttpResponse {
        self.respond(request, &self.digest.etag(), lifetime, |response, etag| {
            let whole = self.parts.first().cloned().unwrap_or_default();
            range::respond(request, response, etag, whole, None)
        })
    }

    /// The response with this document and the server's address in it, or with 304. No cache stores it: other headers of
    /// the request would bring another address. `base` is escaped as the document requires.
    pub fn addressed_response(&self, request: &HttpRequest, base: String) -> HttpResponse {
        let etag = TileKey::of(&(self.digest, &base)).etag();
        let body = Parts::new(Arc::clone(&self.parts), base.into());
        if body.length() > bounded::MOST {
            return problem::failed(&TooLarge.to_string());
        }
        self.respond(request, &etag, HeaderValue::from_static("no-store"), |mut response, _| {
            response.body(body)
        })
    }

    fn respond(
        &self,
        request: &HttpRequest,
        etag: &str,
        lifetime: HeaderValue,
        whole: impl FnOnce(HttpResponseBuilder, &str) -> HttpResponse,
    ) -> HttpResponse {
        let is_known = is_known(request, etag);
        let mut response = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
        response.insert_header((header::ETAG, etag));
        response.insert_header((header::CACHE_CONTROL, lifetime));
        if is_known {
            return response.finish();
        }
        response.content_type(self.content_type);
        whole(response, etag)
    }
}
