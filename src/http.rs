//! The HTTP server: tile paths in, tiles out, and the headers that viewers rely on.
//!
//! One handler answers every path, because tile paths are parsed by [`voltile_base::request`] and
//! not by a router: repeated slashes merge, numbers have bounds, and a malformed path is a 404 with
//! a reason. Nothing here blocks: slow work is awaited from the service.

mod body;
mod caching;
mod client;
mod codings;
mod connections;
mod context;
mod cors;
mod descriptions;
mod document;
mod documents;
mod escape;
mod events;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../fuzz/checks/requests.rs"]
pub(crate) mod fuzzing;
mod health;
mod labels;
mod listen;
mod neuroglancer;
mod openapi;
mod page;
mod problem;
mod protection;
mod range;
mod record;
mod security;
mod site;
pub mod systemd;
mod tiles;
mod viewers;
mod voxels;
mod zarr;

use std::sync::Arc;

use actix_web::http::Method;
use actix_web::{HttpRequest, HttpResponse, web};
use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, ready};
use voltile_base::metrics::Form;
use voltile_base::request::{
    NEUROGLANCER, REFERENCES, TilePath, VIEW, VOXELS, ZARR, first_segment,
};

use context::{Context, Refusal};
pub use listen::{Certificates, Endpoint, ListenError, Listening, Sockets, start};
pub use page::assets::has_viewer;
use problem::{Answer, WaitingDataset};
use record::RequestRecord;
pub use site::LiveSite;
use site::Site;
use zarr::references;
pub use zarr::references::write as write_references;

use crate::service::TileError;

async fn answer(live: web::Data<LiveSite>, request: HttpRequest) -> HttpResponse {
    let site = live.get();
    let record = RequestRecord::start(&request);
    let mut response = match *request.method() {
        Method::OPTIONS => cors::preflight(&request),
        Method::GET | Method::HEAD => answer_get(&site, &request, &record).await,
        _ => problem::method_not_allowed(),
    };
    cors::add(&site.server.cors_origins, &request, response.headers_mut());
    security::add(response.headers_mut());
    record.finish(&site, &request, &mut response);
    response
}

/// Answers GET or HEAD, unless the host or the secret is refused. If the request needs a dataset
/// that waits to be opened, waits for the opening once, and then answers anew.
async fn answer_get(
    site: &Arc<Site>,
    request: &HttpRequest,
    record: &RequestRecord,
) -> HttpResponse {
    // A wrong host is refused only below, because the addresses of `health` answer for every host.
    let host_check = client::check_host(request, &site.server);
    let mut has_waited = false;
    loop {
        let context = match Context::new(site, request, record) {
            Ok(context) => context,
            Err(refusal) => {
                return match (host_check, refusal) {
                    (Err(error), _) => problem::misdirected(&error.to_string()),
                    (Ok(()), Refusal::Secret(rest)) => page::refused(request, rest),
                    (Ok(()), Refusal::Slash(segment)) => {
                        page::add_slash(segment, request.query_string())
                    }
                };
            }
        };
        if let Some(health) = health::answer(&context).await {
            record.set_form(Form::Health);
            return protection::apply(&context, health);
        }
        if let Err(error) = host_check {
            return problem::misdirected(&error.to_string());
        }
        let mut response = dispatch(&context).await;
        let waiting = response.extensions_mut().remove::<WaitingDataset>();
        match waiting {
            Some(WaitingDataset(token)) if !has_waited => {
                let opened = site.service.until_opened(&token);
                // If opening takes too long, the next answer is the same.
                let _ = tokio::time::timeout(site.deadline, opened).await;
                has_waited = true;
            }
            _ => return protection::apply(&context, response),
        }
    }
}

/// Answers a request, and records its form. An answer that takes longer than `render.deadline` is
/// given up (its work goes on only if another request waits for it), and the response is 503.
///
/// Not an `async fn`: its future would have room for the answer's future twice. The future that is
/// returned is boxed, so that the futures that contain it stay small.
fn in_time<'r>(
    context: &'r Context<'_>,
    form: Form,
    answer: impl Future<Output = Answer> + 'r,
) -> LocalBoxFuture<'r, HttpResponse> {
    let site = context.site;
    context.record.set_form(form);
    let answered = tokio::time::timeout(site.deadline, answer).map(|result| {
        let Ok(answer) = result else {
            site.service.metrics().overdue.inc();
            return problem::busy(&format!(
                "it was not made within {} (render.deadline); request it again later",
                humantime::format_duration(site.deadline)
            ));
        };
        // Idle threads may use the pause after the response.
        site.service.use_pause();
        answer.unwrap_or_else(|error| *error.0)
    });
    Box::pin(answered)
}

/// Answers a request by its path.
async fn dispatch(context: &Context<'_>) -> HttpResponse {
    if let Some(answer) = page::answer(context) {
        context.record.set_form(Form::Page);
        return answer;
    }
    // The raw path: a router would decode percent-escapes before the path is split.
    let answer = match context.path {
        // If the page is built in, `page::answer` has answered `/`.
        "/" | "/simple" => in_time(context, Form::Page, page::simple(context)),
        "/datasets.json" => in_time(context, Form::Description, descriptions::all(context)),
        "/events" => in_time(context, Form::Description, ready(events::answer(context))),
        "/metrics" => in_time(context, Form::Health, ready(metrics(context))),
        "/openapi.json" => in_time(context, Form::Description, openapi::document(context)),
        "/projects.json" => in_time(context, Form::Viewer, viewers::projects(context)),
        path => match first_segment(path) {
            (VOXELS, rest) => in_time(context, Form::Box, voxels::answer(context, rest)),
            (VIEW, rest) if context.site.description.adjust => {
                in_time(context, Form::View, tiles::answer_view(context, rest))
            }
            (NEUROGLANCER, rest) => in_time(
                context,
                Form::Precomputed,
                neuroglancer::answer(context, rest),
            ),
            (REFERENCES, rest) => in_time(
                context,
                Form::Description,
                references::answer(context, rest),
            ),
            (ZARR, rest) => in_time(context, Form::Zarr, zarr::answer(context, rest)),
            ("datasets", rest) => {
                in_time(context, Form::Description, below_datasets(context, rest))
            }
            _ => return below_mounts(context).await,
        },
    };
    answer.await
}

/// Answers paths below `/datasets/`.
async fn below_datasets(context: &Context<'_>, path: &str) -> Answer {
    let segments: Vec<&str> = path.split('/').collect();
    match (segments.as_slice(), path.strip_suffix(".json")) {
        ([token, "about.json"], _) => descriptions::about(context, token).await,
        ([token, channel, "labels.json"], _) => labels::page(context, token, channel).await,
        ([_], Some(token)) => descriptions::one(context, token).await,
        _ => Ok(problem::not_found(&context.site.nothing_here())),
    }
}

/// Answers paths below a mount: metadata files of viewers, and tiles.
async fn below_mounts(context: &Context<'_>) -> HttpResponse {
    if let Some(file) = viewers::requested(context) {
        return in_time(context, Form::Viewer, viewers::answer(context, file)).await;
    }
    let site = context.site;
    match TilePath::split(context.path) {
        Some(Ok(path)) => match site.mount(&path) {
            Some(mount) => {
                let form = if path.is_overview() {
                    Form::Overview
                } else {
                    Form::Tile
                };
                in_time(context, form, tiles::answer(context, mount, &path)).await
            }
            None => problem::not_found(&site.unknown_mount(path.tile_service)),
        },
        Some(Err(malformed)) => problem::not_found(&malformed.to_string()),
        None => problem::not_found(&site.nothing_here()),
    }
}

/// The metrics; protected datasets are named only to requests that may see them.
fn metrics(context: &Context<'_>) -> Answer {
    let metrics = context.site.service.current_metrics();
    let text = metrics
        .text(|dataset| context.catalog.dataset(dataset).is_some())
        .map_err(|_| TileError::Document("the counters could not be written".to_owned()))?;
    Ok(HttpResponse::Ok()
        .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
        .body(text))
}
