//! Neuroglancer's precomputed format: `/neuroglancer/TOKEN/CHANNEL/info`, the chunks of the volume,
//! and the properties of labels.
//!
//! A stored chunk that is a zlib stream is sent as it is, because HTTP's `deflate` is the same
//! format. Neuroglancer takes 404 for empty data, so a chunk inside the volume is never 404, even
//! if it was never written.

mod info;

use actix_web::HttpResponse;
use actix_web::http::header;
use voltile_base::request::{PrecomputedChunk, PrecomputedFile, PrecomputedVolume};
use voltile_render::plan::Coding;

use super::body::Pieces;
use super::caching::{Freshness, REVALIDATED, data_lifetime};
use super::context::Context;
use super::document::MAX_LENGTH;
use super::documents::{self, Document};
use super::problem::{self, Answer};
use super::{codings, cors, labels};
use crate::catalog::NotFound;
pub(super) use info::VolumeInfo;

/// The response to a path, given without `/neuroglancer/`.
pub(super) async fn answer(context: &Context<'_>, path: &str) -> Answer {
    match PrecomputedFile::parse(path).transpose()? {
        None => Ok(problem::not_found(&context.site.nothing_here())),
        Some(PrecomputedFile::Info(volume)) => description(context, &volume).await,
        Some(PrecomputedFile::SegmentProperties(volume)) => properties(context, &volume).await,
        Some(PrecomputedFile::Chunk(wanted)) => chunk(context, &wanted).await,
    }
}

async fn description(context: &Context<'_>, volume: &PrecomputedVolume) -> Answer {
    let service = &context.site.service;
    let precomputed = service.precomputed(&context.catalog, volume).await?;
    let dataset = context.catalog.requested_dataset(&volume.token)?;
    let names = dataset.names(&volume.channel).ok();
    // A fault of the table of names is reported to requests for the table, and for the description
    // of the dataset.
    let labels = match names {
        Some(names) => service.names(dataset, names).await.ok(),
        None => None,
    };
    let has_properties = labels.is_some_and(|labels| labels.left_out().is_none());
    // Chunk shapes change if a file is rewritten, and names come and go: a cached copy must be
    // revalidated.
    let lifetime = if names.is_some() {
        REVALIDATED
    } else {
        data_lifetime(&volume.token, &REVALIDATED)
    };
    let name = (
        "precomputed",
        &volume.token.token,
        &volume.channel,
        has_properties,
    );
    let document = documents::find(context, &name, 0, None, move || {
        Document::json(&VolumeInfo::new(&precomputed, has_properties))
    });
    Ok(document.await?.response(context.request, lifetime, None))
}

/// The names and properties of the labels of a channel, which are the same at all time points.
async fn properties(context: &Context<'_>, volume: &PrecomputedVolume) -> Answer {
    let dataset = context.catalog.requested_dataset(&volume.token)?;
    let names = dataset.names(&volume.channel)?;
    let table = context.site.service.names(dataset, names).await?;
    let channel = volume.channel.clone();
    // An earlier request has found that the table is too large.
    if table.unwritable.get().is_some() {
        return Err(labels::too_large().into());
    }
    if let Some(reason) = table.left_out() {
        return Err(NotFound::not_precomputed(&channel, &reason).into());
    }
    let name = (
        "segment_properties",
        &volume.token.token,
        channel,
        names.reads(),
    );
    let document = documents::find(context, &name, 0, None, move || {
        labels::segment_properties(&table)
    })
    .await?;
    if document.length() > MAX_LENGTH {
        return documents::answer_long(context, document, labels::too_large);
    }
    Ok(document.response(context.request, REVALIDATED, None))
}

async fn chunk(context: &Context<'_>, wanted: &PrecomputedChunk) -> Answer {
    let site = context.site;
    let accepted = codings::accepted(context.request);
    let service = &site.service;
    let catalog = &context.catalog;
    let demand = context.demand();
    let token = &wanted.volume.token;
    let plan = service
        .plan(catalog, token, demand, || {
            catalog.plan_precomputed(wanted, accepted)
        })
        .await?;
    let freshness = Freshness::new(context, &plan, data_lifetime(token, &site.cache_control));
    let mut response = if let Some(response) = freshness.confirmed() {
        response
    } else {
        let trace = &context.record.trace;
        let coding = plan.cutout().map(|(_, encoding)| encoding.coding());
        match service.fetch_box(&plan, demand, trace).await {
            Err(error) => problem::response(&error),
            Ok((chunk, held)) => {
                let mut response = freshness.add_headers(HttpResponse::Ok());
                response.content_type("application/octet-stream");
                if let Some(coding) = coding.and_then(content_coding) {
                    response.insert_header((header::CONTENT_ENCODING, coding));
                }
                response.body(Pieces::new(chunk, Some(held)))
            }
        }
    };
    cors::add_to_vary(response.headers_mut(), codings::DECISIVE);
    Ok(response)
}

/// HTTP's name of a compression; `None` if nothing is compressed.
fn content_coding(coding: Coding) -> Option<&'static str> {
    match coding {
        Coding::Identity => None,
        Coding::Zlib => Some("deflate"),
        Coding::Gzip => Some("gzip"),
        Coding::Zstd => Some("zstd"),
    }
}
