//! Boxes of voxels: `/voxels/TOKEN/CHANNEL/LEVEL/x0-x1_y0-y1_z0-z1.npy`, and `.raw` with shape and type in headers.

use std::sync::Arc;

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};

use super::body::Pieces;
use super::tiles::{described, is_known};
use super::{Site, asked, problem};
use crate::plan::BoxFormat;
use crate::request::{BoxRequest, Malformed, VOXELS, VoxelsFile};
use crate::service::TileError;

/// The most memory of boxes that are being made or sent, in MiB.
pub(super) const MOST_MIB: u32 = 2048;

static SHAPE: HeaderName = HeaderName::from_static("x-voltile-shape");
static TYPE: HeaderName = HeaderName::from_static("x-voltile-type");

/// Whether a path is below `/voxels`.
pub(super) fn is_below(path: &str) -> bool {
    path.trim_start_matches('/').split('/').next() == Some(VOXELS)
}

/// The response to a path below `/voxels`.
pub(super) async fn answer(site: &Site, request: &HttpRequest, path: &str) -> HttpResponse {
    let Some(parsed) = BoxRequest::of_path(path, request.query_string()) else {
        return problem::not_found(&Malformed::VoxelsShape.to_string());
    };
    let answered = found(site, request, parsed).await;
    site.service.use_pause();
    answered.unwrap_or_else(|error| problem::of(&error))
}

async fn found(
    site: &Site,
    request: &HttpRequest,
    parsed: Result<(BoxRequest, VoxelsFile), Malformed>,
) -> Result<HttpResponse, TileError> {
    let (wanted, file) = parsed?;
    let format = match file {
        VoxelsFile::Npy => BoxFormat::Npy,
        VoxelsFile::Raw => BoxFormat::Raw,
    };
    let identified = site.service.identify_box(&wanted, format).await?;
    let etag = identified.key().etag();
    if is_known(request, &etag) && !site.service.is_suspect(&identified) {
        site.service.metrics().not_modified.inc();
        return Ok(described(HttpResponse::NotModified(), site, etag).finish());
    }
    let about = identified.cutout().map(|cutout| (cutout.shape(), cutout.voxel()));
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
