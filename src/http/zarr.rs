//! OME-Zarr images: 0.4 (Zarr v2) below `/zarr/0.4/` and 0.5 (Zarr v3) below `/zarr/0.5/`.
//!
//! Documents are made from the catalogue. Chunks are boxes of voxels in the arrays' compression. In
//! 0.4 this is the compression of the file where stored chunks can be passed through. Chunks that
//! were never written do not exist, as in a Zarr store.

mod fill;
mod ome;
mod omero;
pub(super) mod references;
mod v2;
mod v3;

use actix_web::HttpResponse;
use voltile_base::paint::Kind;
use voltile_base::request::{
    ZarrChunk, ZarrDocument, ZarrNode, ZarrPart, ZarrRequest, ZarrVersion,
};

use super::caching::{Freshness, REVALIDATED, data_lifetime, is_any};
use super::context::Context;
use super::documents::{self, Document};
use super::problem::Answer;
use super::range;
use crate::catalog::NotFound;

/// The response to a path, given without `/zarr/`.
pub(super) async fn answer(context: &Context<'_>, path: &str) -> Answer {
    let wanted = ZarrRequest::parse(path)?;
    match &wanted.part {
        ZarrPart::Chunk(place) => chunk(context, &wanted, place).await,
        ZarrPart::Document(node, document) => metadata(context, &wanted, node, *document).await,
    }
}

async fn metadata(
    context: &Context<'_>,
    wanted: &ZarrRequest,
    node: &ZarrNode,
    document: ZarrDocument,
) -> Answer {
    let service = &context.site.service;
    let image = service
        .image(&context.catalog, &wanted.token, wanted.channel.as_ref())
        .await?;
    // Windows are in the attributes of the image's group.
    let has_windows = document.has_attributes();
    if *node == ZarrNode::Image && has_windows {
        service.measure_windows(&image, context.demand()).await;
    }
    let measured = if has_windows {
        image.dataset().measured()
    } else {
        0
    };
    // Windows that could not be measured are missing, but only for now. `is_whole` is decided
    // before the document is made, because more windows may become known meanwhile.
    let mut channels = image.multiscale().channels.into_iter();
    let is_whole = !has_windows
        || channels.all(|channel| channel.kind == Kind::Labels || channel.window().is_some());
    let lifetime = if is_whole {
        data_lifetime(&wanted.token, &REVALIDATED)
    } else {
        REVALIDATED
    };
    let version = wanted.version;
    let name = (
        "zarr",
        &wanted.token.token,
        &wanted.channel,
        version,
        node,
        document,
    );
    let node = node.clone();
    let built = documents::find(context, &name, measured, None, move || {
        Document::json(&match version {
            ZarrVersion::V04 => v2::document(&image, &node, document)?,
            ZarrVersion::V05 => v3::document(&image, &node)?,
        })
    });
    Ok(built.await?.response(context.request, lifetime, None))
}

async fn chunk(context: &Context<'_>, wanted: &ZarrRequest, place: &ZarrChunk) -> Answer {
    let request = context.request;
    let service = &context.site.service;
    let catalog = &context.catalog;
    let demand = context.demand();
    let plan = service
        .plan(catalog, &wanted.token, demand, || {
            catalog.plan_chunk(wanted, place)
        })
        .await?;
    // The shape and coding of chunks may change with the file, although their addresses do not: a
    // cached copy must be revalidated, like the metadata, unless its address has a version.
    let freshness = Freshness::new(context, &plan, data_lifetime(&wanted.token, &REVALIDATED));
    // `*` matches only chunks that exist, and whether this one does is not known yet.
    if !is_any(request)
        && let Some(response) = freshness.confirmed()
    {
        return Ok(response);
    }
    let trace = &context.record.trace;
    let (chunk, held) = service.fetch_box(&plan, demand, trace).await?;
    if chunk.is_empty() {
        let problem = "the chunk was never written: all of its voxels have the fill value";
        return Err(NotFound::Other(problem.to_owned()).into());
    }
    if is_any(request)
        && let Some(response) = freshness.not_modified()
    {
        return Ok(response);
    }
    let mut response = freshness.add_headers(HttpResponse::Ok());
    response.content_type("application/octet-stream");
    let etag = &freshness.etag;
    Ok(range::respond(request, response, etag, chunk, Some(held)))
}
