//! The OpenAPI document: every path that is served, and the schema of every JSON response, derived from the types.
//!
//! Paths are parsed by [`crate::request`] and not by a router, so the functions here are never called: they only carry
//! the documentation of a path. A test requests every path in the document and checks each response against its schema.

#![allow(dead_code, reason = "these items are only read by derive macros")]

use actix_web::HttpResponse;
use utoipa::{IntoParams, OpenApi, ToSchema};

use super::context::Context;
use super::documents;
use super::neuroglancer::VolumeInfo;
use super::problem::Problem;
use super::viewers::catmaid::CatmaidProject;
use super::viewers::info::Info;
use crate::description::{DatasetDescription, LivenessDescription, ReadinessDescription, SiteDescription};

/// `/openapi.json`
pub(super) async fn document(context: &Context<'_>) -> HttpResponse {
    documents::answer(context, &"openapi.json", 0, || documents::Document::json(&Document::openapi())).await
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "voltile",
        description = "Tiles straight from raw HDF5 volumes. Paths accept GET and HEAD, and OPTIONS for preflights. \
                       Repeated slashes are merged, and numbers may have leading zeros."
    ),
    tags(
        (name = "tiles", description = "512 × 512 PNGs"),
        (name = "voxels", description = "Boxes of voxels in the data's own type"),
        (name = "neuroglancer", description = "Neuroglancer's precomputed format"),
        (name = "zarr", description = "OME-Zarr images"),
        (name = "descriptions", description = "Datasets, channels and levels"),
        (name = "viewers", description = "Metadata files for other viewers"),
        (name = "server", description = "The server itself")
    ),
    paths(
        tile, tile_at_time, composite, composite_at_time, viking_tile, overview, datasets, dataset, document_path,
        voxels, precomputed_info, precomputed_info_at_time, precomputed_chunk, zarr_attributes, zarr_array,
        zarr_consolidated, zarr_group, zarr_channel, zarr_chunk, zarr3_group, zarr3_array, zarr3_chunk, projects, info,
        viking_volume, page, metrics, health, livez, readyz
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

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct InDataset {
    /// The first segment of a mount's path; `/datasets.json` lists the mounts.
    #[param(example = "ndtilecache")]
    tile_service: String,
    /// The name of the dataset.
    token: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct OfChannel {
    /// The name of the channel.
    channel: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct OfChannels {
    /// One to six channels with commas between, each NAME, or NAME:COLOUR with one of C M Y R G B.
    #[param(example = "c0:R,c1:G")]
    channels: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct OfSlice {
    /// The orientation.
    #[param(inline)]
    plane: PlaneName,
    /// The index along the axis perpendicular to the plane, in voxels of the level.
    slice: u64,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct AtTime {
    /// The time point; only for a time series.
    time: u64,
}

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

/// Query parameters of adjustable mounts; other mounts ignore the query.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
struct Adjusted {
    /// Colours by channel, with commas between: red, green, blue, cyan, magenta, yellow, white.
    color: Option<String>,
    /// The value shown as black, by channel.
    min: Option<String>,
    /// The value shown as white, by channel.
    max: Option<String>,
    /// The exponent of the gamma curve, by channel.
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
                        ("ETag" = String, description = "Strong: a digest of everything that decides the pixels"),
                        ("Cache-Control" = String, description = "As configured"),
                        ("Content-Length" = u64, description = "Always present")
                    )),
                (status = 304, description = "`If-None-Match` names the ETag; nothing is rendered"),
                (status = 404, description = "The path is malformed, or names something unknown", body = Problem, content_type = "application/problem+json"),
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
    "A tile of one channel; the first time point of a time series.",
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
    "A composite tile: several channels in colours, summed.",
    InDataset,
    OfChannels,
    OfSlice,
    AtPlace
);
picture!(
    composite_at_time,
    "/{tile_service}/tilecache/mcfc/{token}/{channels}/{plane}/{time}/{slice}/{row}_{column}_{level}.png",
    "A composite tile at a time point.",
    InDataset,
    OfChannels,
    OfSlice,
    AtTime,
    AtPlace
);
picture!(
    viking_tile,
    "/{tile_service}/tilecache/viking/{token}/volume/{channel}/{level}/X{column}_Y{row}_Z{slice}.png",
    "A tile of the plane xy, in Viking's path syntax.",
    InDataset,
    OfChannel,
    AtPlace,
    OfVikingSlice
);
picture!(
    overview,
    "/{tile_service}/tilecache/{token}/{channel}/{plane}/{slice}/small.png",
    "A whole slice within 192 × 192 pixels, for CATMAID's map. Composites and time points have them, too.",
    InDataset,
    OfChannel,
    OfSlice
);

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct OfVikingSlice {
    /// The position along z, in voxels of the level.
    slice: u64,
}

/// Everything that is served. Never reads a voxel: windows are absent until they have been measured.
#[utoipa::path(get, path = "/datasets.json", tag = "descriptions",
    responses(
        (status = 200, description = "All datasets", body = SiteDescription),
        (status = 304, description = "`If-None-Match` names the ETag")
    ))]
fn datasets() {}

/// One dataset, with windows, percentiles and histograms of its channels, which are measured at the first request.
#[utoipa::path(get, path = "/datasets/{token}.json", tag = "descriptions",
    params(("token" = String, Path, description = "The dataset")),
    responses(
        (status = 200, description = "The dataset; a channel that cannot be read has a `problem`", body = DatasetDescription),
        (status = 304, description = "`If-None-Match` names the ETag"),
        (status = 404, description = "There is no such dataset", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The render queue is full; see Retry-After", body = Problem, content_type = "application/problem+json")
    ))]
fn dataset() {}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "descriptions", responses((status = 200, description = "OpenAPI 3.1")))]
fn document_path() {}

/// A box of voxels of any level, in the data's own type: C order z, y, x (and colours last), little-endian.
#[utoipa::path(get, path = "/voxels/{token}/{channel}/{level}/{box}", tag = "voxels",
    params(
        ("token" = String, Path, description = "The dataset"),
        ("channel" = String, Path, description = "The channel"),
        ("level" = u64, Path, description = "The level"),
        ("box" = String, Path, description = "`x0-x1_y0-y1_z0-z1.npy` or `.raw`, in voxels of the level, ends exclusive", example = "0-64_0-64_0-1.npy"),
        ("time" = Option<u64>, Query, description = "The time point; the first without it")
    ),
    responses(
        (status = 200, description = "The voxels, as a NumPy file or raw", content_type = "application/octet-stream",
            headers(
                ("ETag" = String, description = "Strong: a digest of everything that decides the voxels"),
                ("X-Voltile-Shape" = String, description = "Of `.raw`: the extents, such as 1,64,64"),
                ("X-Voltile-Type" = String, description = "Of `.raw`: NumPy's name of the type, such as uint16")
            )),
        (status = 304, description = "`If-None-Match` names the ETag; nothing is read"),
        (status = 404, description = "The path is malformed, or names something that does not exist", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The box needs more voxels than `render.max_voxels_per_box`, or a quarter of `render.boxes`", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "The data could not be read", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The render queue is full, or the file system does not answer; see Retry-After", body = Problem, content_type = "application/problem+json")
    ))]
fn voxels() {}

/// Projects for CATMAID's importer: one for each dataset, with a stack for each channel in xy and xz.
#[utoipa::path(get, path = "/projects.json", tag = "viewers",
    responses(
        (status = 200, description = "The projects", body = Vec<CatmaidProject>),
        (status = 304, description = "`If-None-Match` names the ETag"),
        (status = 400, description = "The host is missing or malformed", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "The document would be larger than 16 MiB", body = Problem, content_type = "application/problem+json")
    ))]
fn projects() {}

/// The dataset as described by ndstore, for its old clients. Also below `tilecache`, `ca` and `sd`.
#[utoipa::path(get, path = "/{tile_service}/{token}/info/", tag = "viewers", params(InDataset),
    responses(
        (status = 200, description = "The dataset in ndstore's JSON format", body = Info),
        (status = 304, description = "`If-None-Match` names the ETag"),
        (status = 404, description = "There is no such dataset", body = Problem, content_type = "application/problem+json")
    ))]
fn info() {}

/// The volume file that Viking opens. Also without `viking`, and below `ca` and `sd`.
#[utoipa::path(get, path = "/{tile_service}/tilecache/viking/{token}/volume.vikingxml", tag = "viewers", params(InDataset),
    responses(
        (status = 200, description = "VikingXML", body = String, content_type = "text/xml; charset=utf-8"),
        (status = 400, description = "The host is missing or malformed", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such dataset", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "The document would be larger than 16 MiB", body = Problem, content_type = "application/problem+json")
    ))]
fn viking_volume() {}

macro_rules! precomputed {
    ($name:ident, $path:literal, $doc:literal, $($params:ident),+) => {
        #[doc = $doc]
        #[utoipa::path(get, path = $path, tag = "neuroglancer", params($($params),+),
            responses(
                (status = 200, description = "The levels and their chunk shapes", body = VolumeInfo),
                (status = 304, description = "`If-None-Match` names the ETag"),
                (status = 404, description = "The path is malformed, or names something unknown, or the format has no such voxels", body = Problem, content_type = "application/problem+json"),
                (status = 500, description = "A file has changed and is being reopened", body = Problem, content_type = "application/problem+json"),
                (status = 503, description = "The file system does not respond; see Retry-After", body = Problem, content_type = "application/problem+json")
            ))]
        fn $name() {}
    };
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct PrecomputedPath {
    /// The name of the dataset.
    token: String,
    /// The name of the channel.
    channel: String,
}

precomputed!(
    precomputed_info,
    "/neuroglancer/{token}/{channel}/info",
    "A channel in Neuroglancer's precomputed format; the first time point of a time series.",
    PrecomputedPath
);
precomputed!(
    precomputed_info_at_time,
    "/neuroglancer/{token}/{channel}@{time}/info",
    "A channel at a time point in Neuroglancer's precomputed format.",
    PrecomputedPath,
    AtTime
);

/// The bounds of a chunk, with the level's `voxel_offset` added: multiples of one of the level's chunk shapes, clipped
/// at its end.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct Bounds {
    /// The level.
    level: u64,
    /// The first position along x.
    x0: i64,
    /// The first position after the chunk along x.
    x1: i64,
    /// The first position along y.
    y0: i64,
    /// The first position after the chunk along y.
    y1: i64,
    /// The first position along z.
    z0: i64,
    /// The first position after the chunk along z.
    z1: i64,
}

/// A chunk of the channel, also of `{channel}@{time}`. A stored chunk is passed through if it has the form that is asked
/// for.
#[utoipa::path(get, path = "/neuroglancer/{token}/{channel}/{level}/{x0}-{x1}_{y0}-{y1}_{z0}-{z1}", tag = "neuroglancer",
    params(PrecomputedPath, Bounds),
    responses(
        (status = 200, description = "The voxels, in the encoding named in `info`; compressed as `Content-Encoding` says", body = Vec<u8>, content_type = "application/octet-stream",
            headers(
                ("ETag" = String, description = "Strong: a digest of everything that decides the bytes, one per content coding"),
                ("Cache-Control" = String, description = "As configured"),
                ("Vary" = String, description = "Includes Accept-Encoding and User-Agent"),
                ("Content-Length" = u64, description = "Always present")
            )),
        (status = 304, description = "`If-None-Match` names the ETag; nothing is read"),
        (status = 404, description = "The path is malformed, names something unknown, or is not a chunk of the level", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "The data could not be read", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The render queue is full; see Retry-After", body = Problem, content_type = "application/problem+json")
    ))]
fn precomputed_chunk() {}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct InImage {
    /// The name of the dataset. `TOKEN/CHANNEL.ome.zarr` is the image of one channel.
    token: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct OfArray {
    /// The number of the level. Arrays of label images are below `labels/NAME/`.
    level: u64,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
struct AtChunk {
    /// The position in the chunk grid, slowest axis first, with `/` between: `T/C/Z/Y/X`, without the axes that the
    /// image lacks.
    chunk: String,
}

macro_rules! zarr_document {
    ($name:ident, $path:literal, $doc:literal, $($params:ident),+) => {
        #[doc = $doc]
        #[utoipa::path(
            get, path = $path, tag = "zarr", params($($params),+),
            responses(
                (status = 200, description = "JSON, as the Zarr and OME-Zarr specifications describe it", body = serde_json::Value,
                    headers(("ETag" = String, description = "Strong"), ("Content-Length" = u64, description = "Always present"))),
                (status = 206, description = "The range that was requested"),
                (status = 304, description = "`If-None-Match` names the ETag"),
                (status = 404, description = "The path is malformed, or names something unknown", body = Problem, content_type = "application/problem+json"),
                (status = 416, description = "The range begins beyond the end"),
                (status = 500, description = "The file has changed and has not been reopened yet", body = Problem, content_type = "application/problem+json")
            )
        )]
        fn $name() {}
    };
}

macro_rules! zarr_chunk {
    ($name:ident, $path:literal, $doc:literal) => {
        #[doc = $doc]
        #[utoipa::path(
            get, path = $path, tag = "zarr", params(InImage, OfArray, AtChunk),
            responses(
                (status = 200, description = "The chunk, compressed as the array's metadata says", body = Vec<u8>, content_type = "application/octet-stream",
                    headers(("ETag" = String, description = "Strong"), ("Content-Length" = u64, description = "Always present"))),
                (status = 206, description = "The range that was requested"),
                (status = 304, description = "`If-None-Match` names the ETag; nothing is read"),
                (status = 404, description = "The path is malformed, there is no such chunk, or it was never written", body = Problem, content_type = "application/problem+json"),
                (status = 416, description = "The range begins beyond the end"),
                (status = 500, description = "The data could not be read", body = Problem, content_type = "application/problem+json"),
                (status = 503, description = "The render queue is full; see Retry-After", body = Problem, content_type = "application/problem+json")
            )
        )]
        fn $name() {}
    };
}

zarr_document!(
    zarr_attributes,
    "/zarr/0.4/{token}.ome.zarr/.zattrs",
    "The image of a dataset in OME-Zarr 0.4: axes, levels, scale, channels and windows, which are measured at the first request.",
    InImage
);
zarr_document!(zarr_group, "/zarr/0.4/{token}.ome.zarr/.zgroup", "Marks a group of Zarr v2.", InImage);
zarr_document!(
    zarr_channel,
    "/zarr/0.4/{token}/{channel}.ome.zarr/.zattrs",
    "The image of one channel. All other paths exist below it, too, except `labels/`.",
    InImage,
    OfChannel
);
zarr_document!(
    zarr_array,
    "/zarr/0.4/{token}.ome.zarr/{level}/.zarray",
    "The array of a level in Zarr v2.",
    InImage,
    OfArray
);
zarr_document!(
    zarr_consolidated,
    "/zarr/0.4/{token}.ome.zarr/.zmetadata",
    "All documents of the image and its label images in one.",
    InImage
);
zarr_document!(
    zarr3_group,
    "/zarr/0.5/{token}.ome.zarr/zarr.json",
    "The image of a dataset in OME-Zarr 0.5. `/zarr/0.5/TOKEN/CHANNEL.ome.zarr/` is that of one channel.",
    InImage
);
zarr_document!(
    zarr3_array,
    "/zarr/0.5/{token}.ome.zarr/{level}/zarr.json",
    "The array of a level in Zarr v3.",
    InImage,
    OfArray
);
zarr_chunk!(
    zarr_chunk,
    "/zarr/0.4/{token}.ome.zarr/{level}/{chunk}",
    "A chunk of a level: the file's own bytes where stored chunks can be passed through, else Zstandard."
);
zarr_chunk!(zarr3_chunk, "/zarr/0.5/{token}.ome.zarr/{level}/c/{chunk}", "A chunk of a level: Zstandard.");

/// The viewer: a web page.
#[utoipa::path(get, path = "/", tag = "server",
    responses((status = 200, description = "HTML", body = String, content_type = "text/html; charset=utf-8")))]
fn page() {}

/// Counters for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, description = "OpenMetrics", body = String, content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8")))]
fn metrics() {}

/// Whether the server is up.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, description = "ok", body = String, content_type = "text/plain; charset=utf-8")))]
fn health() {}

/// Whether the process answers.
#[utoipa::path(get, path = "/livez", tag = "server",
    responses((status = 200, description = "It does.", body = LivenessDescription, content_type = "application/json")))]
fn livez() {}

/// Whether requests should be sent to this server, and what is wrong with what it serves.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses(
        (status = 200, description = "They should.", body = ReadinessDescription, content_type = "application/json"),
        (status = 503, description = "It is being stopped, or nothing can be served.", body = ReadinessDescription,
            content_type = "application/json")))]
fn readyz() {}
