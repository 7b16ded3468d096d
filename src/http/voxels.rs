//! Boxes of voxels: `/voxels/TOKEN/CHANNEL/LEVEL/x0-x1_y0-y1_z0-z1.npy`, and `.raw` with shape and type in headers.

use std::sync::Arc;

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};

use super::body::Pieces;
use super::tiles::{described, is_confirmed};
use super::{Site, asked, problem};
use crate::paint::BoxFormat;
use crate::request::BoxRequest;
use crate::service::TileError;

/// The most memory of boxes that are being made or sent, in MiB.
pub(super) const MOST_MIB: u32 = 2048;

static SHAPE: HeaderName = HeaderName::from_static("x-voltile-shape");
static TYPE: HeaderName = HeaderName::from_static("x-voltile-type");

/// The response to a path, given without `/voxels/`.
pub(super) async fn answer(site: &Site, request: &HttpRequest, path: &str) -> HttpResponse {
    let answered = found(site, request, path).await;
    site.service.use_pause();
    answered.unwrap_or_else(|error| problem::of(&error))
}

async fn found(site: &Site, request: &HttpRequest, path: &str) -> Result<HttpResponse, TileError> {
    let (wanted, format) = BoxRequest::parse(path, request.query_string())?;
    let identified = site.service.identify_box(&wanted, format).await?;
    let etag = identified.key().etag();
    if is_confirmed(site, request, &identified, &etag) {
        return Ok(described(HttpResponse::NotModified(), site, etag).finish());
    }
    let about = identified.cutout().map(|cutout| (cutout.shape(), cutout.voxel));
    let bytes = about.as_ref().map_or(0, |(shape, voxel)| {
        shape.iter().fold(voxel.stored_bytes() as u64, |product, extent| product.saturating_mul(*extent))
    });
    let mib = u32::try_from(bytes >> 20).unwrap_or(u32::MAX).saturating_add(1).min(MOST_MIB);
    let Ok(permit) = Arc::clone(&site.boxes).try_acquire_many_owned(mib) else {
        return Ok(problem::busy(&format!(
            "other boxes take up the memory for boxes, {MOST_MIB} MiB; request it again later, or smaller ones"
        )));
    };
    let demand = asked::demand(request, &site.trusted_proxies);
    let voxels = site.service.fetch(identified, demand).await?;
    let mut response = described(HttpResponse::Ok(), site, etag);
    response.content_type("application/octet-stream");
    if let Some((shape, voxel)) = about
        && format == BoxFormat::Raw
    {
        let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
        if let Ok(shape) = HeaderValue::from_str(&shape.join(",")) {
            response.insert_header((SHAPE.clone(), shape));
        }
        response.insert_header((TYPE.clone(), HeaderValue::from_static(voxel.name())));
    }
    Ok(response.body(Pieces::holding(voxels.png, permit)))
}
