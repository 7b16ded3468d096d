//! The OpenAPI document: every path that is answered, and the shape of every JSON answer, taken from the types.
//!
//! The grammar of paths is [`crate::request`]'s and not a router's, so the functions here are never called: they carry
//! what is said of a path. A test asks for every path in the document and holds each answer to its schema.

#![allow(dead_code, reason = "what stands here is read by the derives, and nothing calls it")]

use actix_web::HttpResponse;
use utoipa::{IntoParams, OpenApi, ToSchema};

use super::descriptions::SiteDescription;
use super::problem::Problem;
use super::viewers::catmaid::CatmaidProject;
use super::viewers::info::Info;
use crate::catalog::DatasetDescription;

/// `/openapi.json`
pub(super) fn document() -> HttpResponse {
    HttpResponse::Ok().json(Document::openapi())
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "voltile",
        description = "Tiles straight from raw HDF5 volumes. Everything is read with GET or HEAD; OPTIONS answers preflights. \
                       Repeated slashes are merged, and numbers may begin with zeros."
    ),
    tags(
        (name = "tiles", description = "512 × 512 PNGs"),
        (name = "descriptions", description = "What is served"),
        (name = "viewers", description = "Files that other viewers ask for"),
        (name = "server", description = "The server itself")
    ),
    paths(
        tile, tile_at_time, composite, composite_at_time, viking_tile, overview, datasets, dataset, document_path,
        projects, info, viking_volume, page, metrics, health
    )
)]
struct Document;

/// The orientation of a slice: its columns, then its rows.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum PlaneName {
    Xy,
    Xz,
    Yz,
}

/// Where a dataset is.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct InDataset {
    /// The first segment of a mount's path; `/datasets.json` lists the mounts.
    #[param(example = "ndtilecache")]
    tile_service: String,
    /// The dataset.
    token: String,
}

/// One channel.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct OfChannel {
    /// The channel.
    channel: String,
}

/// Several channels in colours.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct OfChannels {
    /// One to six channels with commas between, each NAME, or NAME:COLOUR with one of C M Y R G B.
    #[param(example = "c0:R,c1:G")]
    channels: String,
}

/// Which slice.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct OfSlice {
    /// The orientation.
    #[param(inline)]
    plane: PlaneName,
    /// The position along the axis that the plane does not contain, in voxels of the level.
    slice: u64,
}

/// When.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct AtTime {
    /// The time point; only of a series.
    time: u64,
}

/// Which tile of a slice.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct AtPlace {
    /// The tile's row.
    row: u64,
    /// The tile's column.
    column: u64,
    /// The level: 0 is full resolution, each further one halves x and y.
    level: u64,
}

/// What adjustable mounts answer; others ignore every query.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
struct Adjusted {
    /// Colours by channel, with commas between: red, green, blue, cyan, magenta, yellow, white.
    color: Option<String>,
    /// What becomes black, by channel.
    min: Option<String>,
    /// What becomes white, by channel.
    max: Option<String>,
    /// The exponent of the curve between them, by channel.
    gamma: Option<String>,
}

macro_rules! picture {
    ($name:ident, $path:literal, $doc:literal, $($params:ident),+) => {
        #[doc = $doc]
        #[utoipa::path(
            get, path = $path, tag = "tiles", params($($params),+, Adjusted),
            responses(
                (status = 200, description = "The PNG", content(("application/png"), ("image/png")),
                    headers(
                        ("ETag" = String, description = "Strong: made of everything that decides the pixels"),
                        ("Cache-Control" = String, description = "As configured"),
                        ("Content-Length" = u64, description = "Always there")
                    )),
                (status = 304, description = "The client named the ETag; nothing was rendered"),
                (status = 404, description = "Malformed, or there is no such thing", body = Problem, content_type = "application/problem+json"),
                (status = 500, description = "The data could not be read", body = Problem, content_type = "application/problem+json"),
                (status = 503, description = "The render queue is full; see Retry-After", body = Problem, content_type = "application/problem+json")
            )
        )]
        fn $name() {}
    };
}

picture!(
    tile,
    "/{tile_service}/tilecache/{token}/{channel}/{plane}/{slice}/{row}_{column}_{level}.png",
    "A tile of one channel; of a series, its first time point.",
    InDataset,
    OfChannel,
    OfSlice,
    AtPlace
);
picture!(
    tile_at_time,
    "/{tile_service}/tilecache/{token}/{channel}/{plane}/{time}/{slice}/{row}_{column}_{level}.png",
    "A tile of one channel at a time point.",
    InDataset,
    OfChannel,
    OfSlice,
    AtTime,
    AtPlace
);
picture!(
    composite,
    "/{tile_service}/tilecache/mcfc/{token}/{channels}/{plane}/{slice}/{row}_{column}_{level}.png",
    "A tile of several channels in colours, added up.",
    InDataset,
    OfChannels,
    OfSlice,
    AtPlace
);
picture!(
    composite_at_time,
    "/{tile_service}/tilecache/mcfc/{token}/{channels}/{plane}/{time}/{slice}/{row}_{column}_{level}.png",
    "A tile of several channels in colours at a time point.",
    InDataset,
    OfChannels,
    OfSlice,
    AtTime,
    AtPlace
);
picture!(
    viking_tile,
    "/{tile_service}/tilecache/viking/{token}/volume/{channel}/{level}/X{column}_Y{row}_Z{slice}.png",
    "A tile of the plane xy, in Viking's form.",
    InDataset,
    OfChannel,
    AtPlace,
    OfVikingSlice
);
picture!(
    overview,
    "/{tile_service}/tilecache/{token}/{channel}/{plane}/{slice}/small.png",
    "A whole slice within 192 × 192 pixels, for CATMAID's map. Composites and time points have one too.",
    InDataset,
    OfChannel,
    OfSlice
);

/// Which slice, in Viking's form.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct OfVikingSlice {
    /// The position along z, in voxels of the level.
    slice: u64,
}

/// Everything that is served. Never reads a voxel: windows are absent until they have been measured.
#[utoipa::path(get, path = "/datasets.json", tag = "descriptions",
    responses((status = 200, description = "All datasets", body = SiteDescription)))]
fn datasets() {}

/// One dataset, with windows, percentiles and histograms of its channels, which are measured at the first call.
#[utoipa::path(get, path = "/datasets/{token}.json", tag = "descriptions",
    params(("token" = String, Path, description = "The dataset")),
    responses(
        (status = 200, description = "The dataset; a channel that cannot be read says so in its `problem`", body = DatasetDescription),
        (status = 404, description = "There is no such dataset", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The render queue is full; see Retry-After", body = Problem, content_type = "application/problem+json")
    ))]
fn dataset() {}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "descriptions", responses((status = 200, description = "OpenAPI 3.1")))]
fn document_path() {}

/// Projects for CATMAID's importer: one for each dataset, with a stack for each channel in xy and xz.
#[utoipa::path(get, path = "/projects.json", tag = "viewers",
    responses(
        (status = 200, description = "The projects", body = Vec<CatmaidProject>),
        (status = 400, description = "The request names no well-formed host", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "It would be larger than 16 MiB", body = Problem, content_type = "application/problem+json")
    ))]
fn projects() {}

/// What ndstore said of a dataset, for its old clients. Also below `tilecache`, `ca` and `sd`.
#[utoipa::path(get, path = "/{tile_service}/{token}/info/", tag = "viewers", params(InDataset),
    responses(
        (status = 200, description = "The dataset in ndstore's shape", body = Info),
        (status = 404, description = "There is no such dataset", body = Problem, content_type = "application/problem+json")
    ))]
fn info() {}

/// The volume file that Viking opens. Also without `viking`, and below `ca` and `sd`.
#[utoipa::path(get, path = "/{tile_service}/tilecache/viking/{token}/volume.vikingxml", tag = "viewers", params(InDataset),
    responses(
        (status = 200, description = "VikingXML", body = String, content_type = "text/xml; charset=utf-8"),
        (status = 400, description = "The request names no well-formed host", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such dataset", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "It would be larger than 16 MiB", body = Problem, content_type = "application/problem+json")
    ))]
fn viking_volume() {}

/// The page.
#[utoipa::path(get, path = "/", tag = "server",
    responses((status = 200, description = "HTML", body = String, content_type = "text/html; charset=utf-8")))]
fn page() {}

/// Counters for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, description = "OpenMetrics", body = String, content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8")))]
fn metrics() {}

/// Whether the server answers.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, description = "ok", body = String, content_type = "text/plain; charset=utf-8")))]
fn health() {}
