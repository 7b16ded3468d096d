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
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod listen;
mod neuroglancer;
mod openapi;
mod page;
mod problem;
mod range;
mod security;
mod tiles;
mod viewers;
mod voxels;
mod zarr;

use std::sync::Arc;
use std::time::SystemTime;

use actix_web::http::Method;
use actix_web::http::header::{self, HeaderValue, InvalidHeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use tokio::sync::Semaphore;

use crate::config;
use crate::description::CachesDescription;
use crate::request::{NEUROGLANCER, TilePath, VOXELS, ZARR, first_segment};
use crate::service::TileService;
use cors::Cors;
pub use listen::start;
pub use page::has_viewer;

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
    /// Permits for the memory of boxes of voxels that are being made or sent, in MiB.
    boxes: Arc<Semaphore>,
}

impl Site {
    /// Takes the mounts, headers, thread count and cache descriptions from the settings. Fails if `cache_control` is
    /// not a valid header value, which reading the configuration has ruled out.
    pub fn new(service: Arc<TileService>, settings: &config::Settings) -> Result<Self, InvalidHeaderValue> {
        let (caches, threads) = ((&settings.cache).into(), settings.render.threads.get());
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
            boxes: Arc::new(Semaphore::new(boxes::MOST_MIB as usize)),
        })
    }

    fn mount(&self, path: &TilePath<'_>) -> Option<&config::Mount> {
        self.mounts.iter().find(|mount| mount.tile_service.as_str() == path.tile_service)
    }
}

async fn answer(site: web::Data<Site>, request: HttpRequest) -> HttpResponse {
    let mut response = match *request.method() {
        Method::OPTIONS => cors::preflight(&request),
        Method::GET | Method::HEAD => found(&site, &request).await,
        _ => problem::method_not_allowed(),
    };
    site.cors.add(&request, response.headers_mut());
    security::add(response.headers_mut());
    response
}

async fn found(site: &Site, request: &HttpRequest) -> HttpResponse {
    // The raw path: a router would decode percent-escapes before the path is split.
    let path = request.uri().path();
    if let Some(answer) = page::answer(path, request, &site.service.catalog(), &site.mounts) {
        return answer;
    }
    // On the heap, so that the future of every tile is not as large as these.
    match first_segment(path) {
        (VOXELS, rest) => return Box::pin(voxels::answer(site, request, rest)).await,
        (NEUROGLANCER, rest) => return Box::pin(neuroglancer::answer(site, request, rest)).await,
        (ZARR, rest) => return Box::pin(zarr::answer(site, request, rest)).await,
        _ => {}
    }
    match path {
        "/datasets.json" => descriptions::all(site),
        "/metrics" => metrics(site),
        "/healthz" => HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("ok\n"),
        "/openapi.json" => openapi::document(),
        "/projects.json" => viewers::projects(site, request),
        _ => match described(path) {
            Some(token) => descriptions::one(site, request, token).await,
            None => below_mounts(site, request, path).await,
        },
    }
}

/// Answers paths below a mount: metadata files of viewers, and tiles.
async fn below_mounts(site: &Site, request: &HttpRequest, path: &str) -> HttpResponse {
    if let Some(file) = viewers::answer(site, request, path) {
        return file;
    }
    match TilePath::split(path) {
        Some(Ok(path)) => match site.mount(&path) {
            Some(mount) => tiles::answer(site, mount, &path, request).await,
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
    match site.service.measured().text() {
        Ok(text) => HttpResponse::Ok()
            .insert_header((
                header::CONTENT_TYPE,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ))
            .body(text),
        Err(_) => problem::failed("the counters could not be written"),
    }
}
