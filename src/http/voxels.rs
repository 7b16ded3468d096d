//! Boxes of voxels: `/voxels/TOKEN/CHANNEL/LEVEL/x0-x1_y0-y1_z0-z1.npy`, and `.raw` with shape and
//! type in headers.

use actix_web::HttpResponse;
use actix_web::http::header::{HeaderName, HeaderValue};
use voltile_base::request::BoxRequest;

use super::body::Pieces;
use super::boxes;
use super::caching::cache_control;
use super::context::Context;
use super::tiles::{confirmed, described};
use crate::service::TileError;

static SHAPE: HeaderName = HeaderName::from_static("x-voltile-shape");
static TYPE: HeaderName = HeaderName::from_static("x-voltile-type");

/// The response to a path, given without `/voxels/`.
pub(super) async fn answer(context: &Context<'_>, path: &str) -> HttpResponse {
    context.response(found(context, path).await)
}

async fn found(context: &Context<'_>, path: &str) -> Result<HttpResponse, TileError> {
    let (wanted, file) = BoxRequest::parse(path, context.request.query_string())?;
    let service = &context.site.service;
    let identified = service
        .identify_box(&context.catalog, &wanted, file.format, context.demand())
        .await?;
    let etag = identified.key().etag();
    let lifetime = &context.site.cache_control;
    if let Some(response) = confirmed(context, &identified, &etag, &wanted.token, lifetime) {
        return Ok(response);
    }
    let about = identified
        .cutout()
        .map(|(cutout, _)| (cutout.shape(), cutout.voxel));
    let (voxels, held, policy) = boxes::fetch(context, identified).await?;
    let fresh = cache_control(policy, &wanted.token, lifetime);
    let mut response = described(HttpResponse::Ok(), etag, fresh);
    response.content_type(file.content_type);
    if let Some((shape, voxel)) = about
        && file.is_bare
    {
        let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
        if let Ok(shape) = HeaderValue::from_str(&shape.join(",")) {
            response.insert_header((SHAPE.clone(), shape));
        }
        response.insert_header((TYPE.clone(), HeaderValue::from_static(voxel.name())));
    }
    Ok(response.body(Pieces::new(voxels, Some(held))))
}
