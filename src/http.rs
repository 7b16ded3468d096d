//! The HTTP server: tile paths in, tiles out, and the headers that viewers rely on.
//!
//! One handler answers every path, because tile paths are parsed by [`crate::request`] and not by a router: repeated
//! slashes merge, numbers have bounds, and a malformed path is a 404 with a reason. Nothing here blocks: slow work is
//! awaited from the service.

mod asked;
mod body;
mod boxes;
mod codings;
mod connections;
mod cors;
mod descriptions;
mod listen;
mod neuroglancer;
mod openapi;
mod page;
mod problem;
mod range;
mod record;
mod security;
mod tiles;
mod viewers;
mod voxels;
mod zarr;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix_web::http::Method;
use actix_web::http::header::{self, HeaderValue, InvalidHeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use tokio::sync::Semaphore;

use crate::config;
use crate::description::CachesDescription;
use crate::metrics::Form;
use crate::request::{NEUROGLANCER, TilePath, VOXELS, ZARR, first_segment};
use crate::service::TileService;
use cors::Cors;
pub use listen::start;
pub use page::has_viewer;
use record::Record;

/// The methods allowed on every path (`Allow` header).
const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// Shared state of all request handlers.
pub struct Site {
    service: Arc<TileService>,
    mounts: Vec<config::Mount>,
    cache_control: HeaderValue,
    cors: Cors,
    trusted_proxies: Vec<config::Network>,
    caches: CachesDescription,
    threads: usize,
    started: u64,
    neuroglancer: Option<String>,
    log: config::Log,
    deadline: Duration,
    /// Permits for the memory of boxes of voxels that are being made or sent, in MiB.
    boxes: Arc<Semaphore>,
}

impl Site {
    /// Takes the mounts, headers, thread count and cache descriptions from the settings. Fails if `cache_control` is
    /// not a valid header value, which reading the configuration has ruled out.
    pub fn new(service: Arc<TileService>, settings: &config::Settings) -> Result<Self, InvalidHeaderValue> {
        let (caches, threads) = ((&settings.cache).into(), settings.render.threads.get());
        let (log, deadline) = (settings.log, settings.render.deadline);
        let settings = &settings.server;
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let started = u64::try_from(started.as_millis()).unwrap_or(u64::MAX);
        let cors = Cors::new(&settings.cors_origins);
        let cache_control = HeaderValue::from_str(&settings.cache_control)?;
        Ok(Self {
            service,
            mounts: settings.mounts.clone(),
            cache_control,
            cors,
            trusted_proxies: settings.trusted_proxies.clone(),
            caches,
            threads,
            started,
            neuroglancer: settings.neuroglancer.clone(),
            log,
            deadline,
            boxes: Arc::new(Semaphore::new(boxes::MOST_MIB as usize)),
        })
    }

    fn mount(&self, path: &TilePath<'_>) -> Option<&config::Mount> {
        self.mounts.iter().find(|mount| mount.tile_service.as_str() == path.tile_service)
    }
}

async fn answer(site: web::Data<Site>, request: HttpRequest) -> HttpResponse {
    let record = Record::of(&request);
    let mut response = match *request.method() {
        Method::OPTIONS => cors::preflight(&request),
        Method::GET | Method::HEAD => found(&site, &request, &record).await,
        _ => problem::method_not_allowed(),
    };
    site.cors.add(&request, response.headers_mut());
    security::add(response.headers_mut());
    record.finish(&site, &request, &mut response);
    response
}

/// Answers a request for a render if it is done in time. Otherwise it is given up, unless another request waits for it.
async fn in_time(site: &Site, answer: impl Future<Output = HttpResponse>) -> HttpResponse {
    match tokio::time::timeout(site.deadline, answer).await {
        Ok(response) => response,
        Err(_) => {
            site.service.metrics().overdue.inc();
            problem::busy(&format!(
                "it was not rendered within {} (render.deadline); request it again later",
                humantime::format_duration(site.deadline)
            ))
        }
    }
}

async fn found(site: &Site, request: &HttpRequest, record: &Record) -> HttpResponse {
    // The raw path: a router would decode percent-escapes before the path is split.
    let path = request.uri().path();
    if let Some(answer) = page::answer(path, request, &site.service.catalog(), &site.mounts) {
        record.set_form(Form::Page);
        return answer;
    }
    // On the heap, so that the future of every tile is not as large as these.
    match first_segment(path) {
        (VOXELS, rest) => {
            record.set_form(Form::Box);
            return Box::pin(in_time(site, voxels::answer(site, request, record, rest))).await;
        }
        (NEUROGLANCER, rest) => {
            record.set_form(Form::Precomputed);
            return Box::pin(in_time(site, neuroglancer::answer(site, request, record, rest))).await;
        }
        (ZARR, rest) => {
            record.set_form(Form::Zarr);
            return Box::pin(in_time(site, zarr::answer(site, request, record, rest))).await;
        }
        _ => {}
    }
    record.set_form(form_of(path));
    match path {
        "/datasets.json" => descriptions::all(site),
        "/metrics" => metrics(site),
        "/healthz" => HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("ok\n"),
        "/openapi.json" => openapi::document(),
        "/projects.json" => viewers::projects(site, request),
        _ => match described(path) {
            Some(token) => descriptions::one(site, request, token).await,
            None => below_mounts(site, request, record, path).await,
        },
    }
}

/// What an address outside of all mounts stands for.
fn form_of(path: &str) -> Form {
    match path {
        "/metrics" | "/healthz" => Form::Health,
        "/projects.json" => Form::Viewer,
        "/datasets.json" | "/openapi.json" => Form::Description,
        path if described(path).is_some() => Form::Description,
        _ => Form::Other,
    }
}

/// Answers paths below a mount: metadata files of viewers, and tiles.
async fn below_mounts(site: &Site, request: &HttpRequest, record: &Record, path: &str) -> HttpResponse {
    if let Some(file) = viewers::answer(site, request, path) {
        record.set_form(Form::Viewer);
        return file;
    }
    match TilePath::split(path) {
        Some(Ok(path)) => match site.mount(&path) {
            Some(mount) => {
                record.set_form(if path.is_overview() { Form::Overview } else { Form::Tile });
                in_time(site, tiles::answer(site, mount, &path, request, record)).await
            }
            None => problem::not_found(&unknown_mount(site, path.tile_service)),
        },
        Some(Err(malformed)) => problem::not_found(&malformed.to_string()),
        None => problem::not_found(&nothing_here(site)),
    }
}

/// The token in `/datasets/TOKEN.json`.
fn described(path: &str) -> Option<&str> {
    path.strip_prefix("/datasets/")?.strip_suffix(".json").filter(|token| !token.contains('/'))
}

fn unknown_mount(site: &Site, name: &str) -> String {
    let mounts: Vec<&str> = site.mounts.iter().map(|mount| mount.tile_service.as_str()).collect();
    format!("there is no tile service {name:?}; there is {}", mounts.join(", "))
}

fn nothing_here(site: &Site) -> String {
    let mounts = site.mounts.iter().map(|mount| format!("/{}/tilecache/", mount.tile_service));
    format!("there is nothing at this path; tiles are below {}", mounts.collect::<Vec<_>>().join(" and "))
}

/// Escapes text for HTML and XML, including attribute values in double quotes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn metrics(site: &Site) -> HttpResponse {
    match site.service.measured().text(|_| true) {
        Ok(text) => HttpResponse::Ok()
            .insert_header((
                header::CONTENT_TYPE,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ))
            .body(text),
        Err(_) => problem::failed("the counters could not be written"),
    }
}
