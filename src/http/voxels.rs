//! Boxes of voxels: `/voxels/TOKEN/CHANNEL/LEVEL/x0-x1_y0-y1_z0-z1.npy`, and `.raw` with shape,
//! type and missing parts in headers.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::header::{HeaderName, HeaderValue};
use tokio::task::spawn_blocking;
use voltile_base::geometry::Region;
use voltile_base::paint::BoxFormat;
use voltile_base::request::BoxRequest;
use voltile_render::plan::Cutout;

use super::body::Pieces;
use super::caching::{Freshness, data_lifetime};
use super::context::Context;
use super::problem::Answer;
use crate::catalog::RequestPlan;

static SHAPE: HeaderName = HeaderName::from_static("x-voltile-shape");
static TYPE: HeaderName = HeaderName::from_static("x-voltile-type");
static MISSING: HeaderName = HeaderName::from_static("x-voltile-missing");
/// The maximum length of the list of missing parts, in bytes: proxies in front of voltile refuse
/// responses whose headers are longer than 4 KiB together.
const MAX_LIST: usize = 2 << 10;

/// The response to a path, given without `/voxels/`.
pub(super) async fn answer(context: &Context<'_>, path: &str) -> Answer {
    let (wanted, file) = BoxRequest::parse(path, context.request.query_string())?;
    let service = &context.site.service;
    let catalog = &context.catalog;
    let demand = context.demand();
    let plan = service
        .plan(catalog, &wanted.token, demand, || {
            catalog.plan_box(&wanted, file.format)
        })
        .await?;
    let lifetime = data_lifetime(&wanted.token, &context.site.cache_control);
    let freshness = Freshness::new(context, &plan, lifetime);
    if let Some(response) = freshness.confirmed() {
        return Ok(response);
    }
    let trace = &context.record.trace;
    let (voxels, held) = service.fetch_box(&plan, demand, trace).await?;
    let mut response = freshness.add_headers(HttpResponse::Ok());
    response.content_type(file.content_type);
    if let Some((cutout, _)) = plan.cutout().filter(|_| file.format == BoxFormat::Raw) {
        let shape: Vec<String> = cutout.shape().iter().map(u64::to_string).collect();
        if let Ok(shape) = HeaderValue::from_str(&shape.join(",")) {
            response.insert_header((SHAPE.clone(), shape));
        }
        let voxel = HeaderValue::from_static(cutout.voxel.name());
        response.insert_header((TYPE.clone(), voxel));
        let missing = missing_list(&plan, cutout).await;
        if let Some(Ok(missing)) = missing.map(HeaderValue::try_from) {
            response.insert_header((MISSING.clone(), missing));
        }
    }
    Ok(response.body(Pieces::new(voxels, Some(held))))
}

/// The value of `X-Voltile-Missing`, which only stored levels have, and only if it is not too long.
async fn missing_list(plan: &Arc<RequestPlan>, cutout: &Cutout) -> Option<String> {
    if !cutout.view.is_stored() {
        return None;
    }
    if !cutout.is_there {
        return Some(ranges(&cutout.region));
    }
    if !plan.origin.has_gaps() {
        return Some(String::new());
    }
    // On a thread that may block: this may have to open a file of a series.
    let plan = Arc::clone(plan);
    let parts = spawn_blocking(move || missing_parts(plan.cutout()?.0)).await;
    parts.ok().flatten()
}

/// The parts of a box that the files lack, in any component, as ranges in voxels of the level, such
/// as `0-64_0-64_3-4,0-64_0-64_8-9`; empty if nothing is missing. `None` if the list would be
/// longer than [`MAX_LIST`].
fn missing_parts(cutout: &Cutout) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut length = 0;
    for volume in &cutout.components {
        for gap in volume.gaps(cutout.time, &cutout.region) {
            let part = ranges(&gap);
            if parts.contains(&part) {
                continue;
            }
            // One more for the comma.
            length += part.len() + 1;
            if length > MAX_LIST {
                return None;
            }
            parts.push(part);
        }
    }
    Some(parts.join(","))
}

/// A region in the syntax of addresses of boxes: `x0-x1_y0-y1_z0-z1`.
fn ranges(region: &Region) -> String {
    let start = region.start;
    let end = region.end();
    format!(
        "{}-{}_{}-{}_{}-{}",
        start.x, end.x, start.y, end.y, start.z, end.z
    )
}
