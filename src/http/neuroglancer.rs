//! Neuroglancer's precomputed format: `/neuroglancer/TOKEN/CHANNEL/info` and its chunks.
//!
//! A stored chunk that is a zlib stream is sent as it is, because HTTP's `deflate` is the same format. Neuroglancer takes
//! 404 for empty data, so chunks that exist are never 404, not even those that were never written.

mod info;

use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderValue};

use super::body::Pieces;
use super::caching::{REVALIDATED, lifetime};
use super::context::Context;
use super::documents::{self, Document};
use super::tiles::{described, is_confirmed};
use super::{boxes, codings, cors, problem};
use crate::base::request::{PrecomputedChunk, PrecomputedFile, PrecomputedVolume};
use crate::render::plan::Coding;
use crate::service::TileError;
pub(super) use info::VolumeInfo;

/// The response to a path, given without `/neuroglancer/`.
pub(super) async fn answer(context: &Context<'_>, path: &str) -> HttpResponse {
    let answered = match PrecomputedFile::parse(path) {
        None => return problem::not_found(&context.site.nothing_here()),
        Some(Err(malformed)) => Err(malformed.into()),
        Some(Ok(PrecomputedFile::Info(volume))) => description(context, &volume).await,
        Some(Ok(PrecomputedFile::Chunk(wanted))) => chunk(context, &wanted).await,
    };
    context.site.service.use_pause();
    answered.unwrap_or_else(|error| problem::response(&error))
}

async fn description(context: &Context<'_>, volume: &PrecomputedVolume) -> Result<HttpResponse, TileError> {
    let precomputed = context.site.service.precomputed(&context.catalog, volume).await?;
    // Chunk shapes change if a file is rewritten: a cached copy must be revalidated.
    let fresh = lifetime(&volume.token, &REVALIDATED);
    let name = ("precomputed", &volume.token.token, &volume.channel);
    let info =
        documents::find(context, &name, 0, move || Document::json(&VolumeInfo::new(&precomputed))).await;
    Ok(info?.response(context.request, fresh, None))
}

async fn chunk(context: &Context<'_>, wanted: &PrecomputedChunk) -> Result<HttpResponse, TileError> {
    let Context { site, request, catalog, .. } = context;
    let identified = site.service.identify_precomputed(catalog, wanted, codings::accepted(request)).await?;
    context.record.set_dataset(&identified);
    let (etag, coding) =
        (identified.key().etag(), identified.cutout().map(|(_, encoding)| encoding.coding()));
    let mut response = if is_confirmed(site, request, &identified, &etag) {
        described(HttpResponse::NotModified(), site, etag, &wanted.volume.token).finish()
    } else {
        match boxes::fetch(context, identified).await {
            Err(problem) => problem,
            Ok((chunk, held)) => {
                let mut response = described(HttpResponse::Ok(), site, etag, &wanted.volume.token);
                response.content_type("application/octet-stream");
                if let Some(coding) = coding.and_then(content_coding) {
                    response.insert_header((header::CONTENT_ENCODING, HeaderValue::from_static(coding)));
                }
                response.body(Pieces::new(chunk, Some(held)))
            }
        }
    };
    cors::add_to_vary(response.headers_mut(), codings::DECISIVE);
    Ok(response)
}

/// The name of a compression as a content coding; `None` if there is none.
fn content_coding(coding: Coding) -> Option<&'static str> {
    match coding {
        Coding::Identity => None,
        Coding::Zlib => Some("deflate"),
        Coding::Gzip => Some("gzip"),
        Coding::Zstd => Some("zstd"),
    }
}
