//! OME-Zarr images: 0.4 (Zarr v2) below `/zarr/0.4/` and 0.5 (Zarr v3) below `/zarr/0.5/`.
//!
//! Documents are made from the catalogue. Chunks are boxes of voxels in the arrays' compression; in 0.4 that is the
//! file's own where stored chunks can be passed through. Chunks that were never written do not exist, as in a store.

mod fill;
mod ome;
mod omero;
mod v2;
mod v3;

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use serde_json::Value;

use super::context::Context;
use super::tiles::{described, is_any, is_confirmed, is_known};
use super::{boxes, problem, range};
use crate::catalog::{Image, NotFound};
use crate::geometry::Level;
use crate::name::Name;
use crate::plan::BoxEncoding;
use crate::request::{BoxRequest, ZarrNode, ZarrPart, ZarrRequest, ZarrVersion};
use crate::service::{Identified, TileError};
use crate::tile::TileKey;

/// The response to a path, given without `/zarr/`.
pub(super) async fn answer(context: &Context<'_>, path: &str) -> HttpResponse {
    let answered = match ZarrRequest::parse(path) {
        Ok(wanted) => found(context, &wanted).await,
        Err(malformed) => Err(malformed.into()),
    };
    context.site.service.use_pause();
    answered.unwrap_or_else(|error| problem::of(&error))
}

async fn found(context: &Context<'_>, wanted: &ZarrRequest) -> Result<HttpResponse, TileError> {
    let Context { site, request, catalog, .. } = context;
    match &wanted.part {
        ZarrPart::Chunk { label, level, place } => {
            let find = |image: &Image| boxed(image, wanted.version, label.as_ref(), *level, place);
            let service = &site.service;
            let identified =
                service.identify_chunk(catalog, &wanted.token, wanted.channel.as_ref(), find).await?;
            chunk(context, identified).await
        }
        ZarrPart::Document(node, document) => {
            let image = site.service.image(catalog, &wanted.token, wanted.channel.as_ref()).await?;
            if *node == ZarrNode::Image && document.has_attributes() {
                site.service.measure_windows(&image, context.demand()).await;
            }
            let value = match wanted.version {
                ZarrVersion::V04 => v2::document(&image, node, *document)?,
                ZarrVersion::V05 => v3::document(&image, node)?,
            };
            Ok(json(request, &value))
        }
    }
}

/// A document. Clients revalidate it: it changes when windows are measured, and when the file changes.
fn json(request: &HttpRequest, value: &Value) -> HttpResponse {
    let body = value.to_string();
    let etag = TileKey::of(&("document", body.as_str())).etag();
    let is_known = is_known(request, &etag);
    let mut response = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response.insert_header((header::ETAG, etag.as_str()));
    response.insert_header((header::CACHE_CONTROL, HeaderValue::from_static("no-cache")));
    if is_known {
        return response.finish();
    }
    response.content_type("application/json");
    range::respond(request, response, &etag, Bytes::from(body), None)
}

/// The box of voxels that a chunk holds, and how it is encoded.
fn boxed(
    image: &Image,
    version: ZarrVersion,
    label: Option<&Name>,
    level: Level,
    place: &[u64],
) -> Result<(BoxRequest, BoxEncoding), NotFound> {
    let arrays = label.map_or_else(|| Ok(image.multiscale()), |label| image.label(label))?;
    let level = arrays.level(level)?;
    let format = match version {
        ZarrVersion::V04 => level.as_stored(arrays.voxel()),
        ZarrVersion::V05 => level.in_zstd(arrays.voxel()),
    };
    Ok((arrays.chunk(level, place)?, BoxEncoding::WrittenChunk(format)))
}

async fn chunk(context: &Context<'_>, identified: Identified) -> Result<HttpResponse, TileError> {
    let Context { site, request, .. } = context;
    let etag = identified.key().etag();
    // The name of a chunk says nothing of its shape and coding, which change with the file: a cached copy must be
    // revalidated, as the metadata must.
    let fresh = (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // `*` matches only a chunk that exists, which is not known yet.
    if !is_any(request) && is_confirmed(site, request, &identified, &etag) {
        return Ok(described(HttpResponse::NotModified(), site, etag).insert_header(fresh).finish());
    }
    let (chunk, permit) = match boxes::fetch(context, identified).await {
        Ok(fetched) => fetched,
        Err(problem) => return Ok(problem),
    };
    if chunk.is_empty() {
        return Err(NotFound::Unwritten.into());
    }
    let mut response = described(HttpResponse::Ok(), site, etag.clone());
    response.insert_header(fresh);
    response.content_type("application/octet-stream");
    Ok(range::respond(request, response, &etag, chunk, Some(permit)))
}
