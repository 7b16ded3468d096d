//! The OpenAPI document: every path that is served, and the schema of every JSON response, derived
//! from the types.
//!
//! Paths are parsed by [`crate::base::request`] and not by a router, so they are listed here. A
//! test requests every path in the document and checks each response against its schema.

use actix_web::HttpResponse;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem, Paths,
};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder};
use utoipa::openapi::{
    Content, HeaderBuilder, Ref, RefOr, Required, ResponseBuilder, Responses, Schema, Type,
};
use utoipa::{OpenApi, PartialSchema};

use super::context::Context;
use super::documents;
use super::neuroglancer::VolumeInfo;
use super::problem::Problem;
use super::viewers::catmaid::CatmaidProject;
use super::viewers::info::Info;
use crate::base::description::{
    DatasetDescription, LivenessDescription, RangeDescription, ReadinessDescription,
    SiteDescription,
};
use crate::base::paint::{BOX_FILES, BoxFile};

/// `/openapi.json`
pub(super) async fn document(context: &Context<'_>) -> HttpResponse {
    documents::answer(context, &"openapi.json", 0, || {
        let mut document = Document::openapi();
        document.paths = paths();
        documents::Document::json(&document)
    })
    .await
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
        (name = "view", description = "What a page chooses to see; absent if `server.adjust` is false"),
        (name = "voxels", description = "Boxes of voxels in the data's own type"),
        (name = "neuroglancer", description = "Neuroglancer's precomputed format"),
        (name = "zarr", description = "OME-Zarr images"),
        (name = "descriptions", description = "Datasets, channels and levels"),
        (name = "viewers", description = "Metadata files for other viewers"),
        (name = "server", description = "The server itself")
    ),
    components(schemas(
        CatmaidProject, DatasetDescription, Info, LivenessDescription, Problem, RangeDescription, ReadinessDescription,
        SiteDescription, VolumeInfo
    ))
)]
struct Document;

/// The paths: their tag, name and address, and what is there.
const PATHS: &str = "\
tiles tile /{tile_service}/tilecache/{token}/{channel}/{plane}/{slice}/{row}_{column}_{level}.png
    A tile of one channel; the first time point of a time series.
tiles tile_at_time /{tile_service}/tilecache/{token}/{channel}/{plane}/{time}/{slice}/{row}_{column}_{level}.png
    A tile of one channel at a time point.
tiles composite /{tile_service}/tilecache/mcfc/{token}/{channels}/{plane}/{slice}/{row}_{column}_{level}.png
    A composite tile: several channels in colours, summed.
tiles composite_at_time /{tile_service}/tilecache/mcfc/{token}/{channels}/{plane}/{time}/{slice}/{row}_{column}_{level}.png
    A composite tile at a time point.
tiles viking_tile /{tile_service}/tilecache/viking/{token}/volume/{channel}/{level}/X{column}_Y{row}_Z{slice}.png
    A tile of the plane xy, in Viking's path syntax.
tiles overview /{tile_service}/tilecache/{token}/{channel}/{plane}/{slice}/small.png
    A whole slice within 192 × 192 pixels, for CATMAID's map. Composites and time points have them, too.
view view_tile /view/{token}/{layers}/{plane}/{slice}/{row}_{column}_{level}.png
    A tile drawn with a range, gamma and colour map for each channel; the first time point of a time series.
view view_tile_at_time /view/{token}/{layers}/{plane}/{time}/{slice}/{row}_{column}_{level}.png
    Such a tile at a time point.
view range /view/{token}/{channel}/range.json
    The range of the values that a rectangle of a slice shows: percentiles of at most 4,194,304 voxels.
descriptions datasets /datasets.json
    Everything that is served. Never reads a voxel: windows are absent until they have been measured.
descriptions dataset /datasets/{token}.json
    One dataset, with windows, percentiles and histograms of its channels, which are measured at the first request.
descriptions about /datasets/{token}/about.json
    What `voltile inspect --json` says of the file: the description, the cost of tiles of each level, and warnings. Reads chunk indexes.
descriptions labels /datasets/{token}/{channel}/labels.json
    Names and properties of labels, if the channel has a table of them: a page in the order of ids, or what is searched for.
descriptions document_path /openapi.json
    This document.
voxels voxels /voxels/{token}/{channel}/{level}/{box}
    A box of voxels of any level, in the data's own type: C order z, y, x (and colours last), little-endian.
viewers projects /projects.json
    Projects for CATMAID's importer: one for each dataset, with a stack for each channel in xy and xz.
viewers info /{tile_service}/{token}/info/
    The dataset as described by ndstore, for its old clients. Also below `tilecache`, `ca` and `sd`.
viewers viking_volume /{tile_service}/tilecache/viking/{token}/volume.vikingxml
    The volume file that Viking opens. Also without `viking`, and below `ca` and `sd`.
neuroglancer precomputed_info /neuroglancer/{token}/{channel}/info
    A channel in Neuroglancer's precomputed format; the first time point of a time series.
neuroglancer precomputed_info_at_time /neuroglancer/{token}/{channel}@{time}/info
    A channel at a time point in Neuroglancer's precomputed format.
neuroglancer segment_properties /neuroglancer/{token}/{channel}/segment_properties/info
    Names and properties of labels, if the channel has a table of at most 500,000. Also of `{channel}@{time}`.
neuroglancer precomputed_chunk /neuroglancer/{token}/{channel}/{level}/{x0}-{x1}_{y0}-{y1}_{z0}-{z1}
    A chunk of the channel, also of `{channel}@{time}`. A stored chunk is passed through if it has the form that is asked for.
zarr zarr_attributes /zarr/0.4/{token}.ome.zarr/.zattrs
    The image of a dataset in OME-Zarr 0.4: axes, levels, scale, channels and windows, which are measured at the first request.
zarr zarr_group /zarr/0.4/{token}.ome.zarr/.zgroup
    Marks a group of Zarr v2.
zarr zarr_channel /zarr/0.4/{token}/{channel}.ome.zarr/.zattrs
    The image of one channel. All other paths exist below it, too, except `labels/`.
zarr zarr_array /zarr/0.4/{token}.ome.zarr/{level}/.zarray
    The array of a level in Zarr v2.
zarr zarr_consolidated /zarr/0.4/{token}.ome.zarr/.zmetadata
    All documents of the image and its label images in one.
zarr zarr_chunk /zarr/0.4/{token}.ome.zarr/{level}/{chunk}
    A chunk of a level: the file's own bytes where stored chunks can be passed through, else Zstandard.
zarr zarr3_group /zarr/0.5/{token}.ome.zarr/zarr.json
    The image of a dataset in OME-Zarr 0.5. `/zarr/0.5/TOKEN/CHANNEL.ome.zarr/` is that of one channel.
zarr zarr3_array /zarr/0.5/{token}.ome.zarr/{level}/zarr.json
    The array of a level in Zarr v3.
zarr zarr3_chunk /zarr/0.5/{token}.ome.zarr/{level}/c/{chunk}
    A chunk of a level: Zstandard.
zarr references /references/{token}.json
    References in kerchunk's format: an OME-Zarr 0.4 image whose chunks lie in the HDF5 files. `/references/TOKEN/CHANNEL.json` is one channel. Only with `server.references`.
server page /
    The viewer: a web page.
server events /events
    Tells which datasets were added, changed or removed, as server-sent events, for as long as the client listens.
server metrics /metrics
    Counters for Prometheus.
server health /healthz
    Whether the server is up.
server livez /livez
    Whether the process answers.
server readyz /readyz
    Whether requests should be sent to this server, and what is wrong with what it serves.";

/// The parameters: the tag or the name of the paths that have them, their place, name, type and
/// example (or a dash), and what they are. Those in a path apply where it names them. Of several
/// that apply, the last one is meant.
const PARAMETERS: &str = "\
* path tile_service string ndtilecache The first segment of a mount's path; `/datasets.json` lists the mounts.
* path token string - The name of the dataset.
descriptions path token string - The dataset
voxels path token string - The dataset
zarr path token string - The name of the dataset. `TOKEN/CHANNEL.ome.zarr` is the image of one channel.
* path channel string - The name of the channel.
voxels path channel string - The channel; for `.tif` up to six, with commas between
* path channels string c0:R,c1:G One to six channels with commas between, each NAME, or NAME:COLOUR with one of C M Y R G B.
* path plane plane - The orientation.
* path layers string c0:0:4095:1:fire,c1:100:900:0.5:00ff00 One to six layers with commas between, each CHANNEL:LO:HI:GAMMA:MAP. MAP is grey, inverted, fire, viridis, magma, cyanhot, or six hexadecimal digits.
* path slice count - The index along the axis perpendicular to the plane, in voxels of the level.
* path time count - The time point; only for a time series.
* path row count - The tile's row.
* path column count - The tile's column.
tiles path level count - The level: 0 is full resolution, each further one halves x and y.
view path level count - The level: 0 is full resolution, each further one halves x and y.
neuroglancer path level count - The level.
voxels path level count - The level
zarr path level count - The number of the level. Arrays of label images are below `labels/NAME/`.
viking_tile path slice count - The position along z, in voxels of the level.
* path x0 integer - The first position along x.
* path x1 integer - The first position after the chunk along x.
* path y0 integer - The first position along y.
* path y1 integer - The first position after the chunk along y.
* path z0 integer - The first position along z.
* path z1 integer - The first position after the chunk along z.
* path box string 0-64_0-64_0-1.npy `x0-x1_y0-y1_z0-z1` in voxels of the level, ends exclusive, and its format: {formats}
* path chunk string - The position in the chunk grid, slowest axis first, with `/` between: `T/C/Z/Y/X`, without the axes that the image lacks.
labels query id count - The id of the only label that is asked for.
labels query search string - Text that a name or another text of the label contains, in upper or lower case.
labels query after count - The page begins after this id.
labels query count count 100 The number of labels in the page, at most 1000.
range query plane plane xy The orientation.
range query slice count 0 The index along the axis perpendicular to the plane, in voxels of the level.
range query time count - The time point; the first without it.
range query level count 0 The level.
range query box string 0,0,512,512 `x0,y0,x1,y1` in pixels of the level, ends exclusive.
tiles query color string - Colours by channel, with commas between: red, green, blue, cyan, magenta, yellow, white.
tiles query min string - The value shown as black, by channel.
tiles query max string - The value shown as white, by channel.
tiles query gamma string - The exponent of the gamma curve, by channel.
voxels query time count - The time point; the first without it";

fn paths() -> Paths {
    let mut paths = Paths::new();
    let lines: Vec<&str> = PATHS.lines().collect();
    for pair in lines.chunks(2) {
        let [tag, id, path] = words(pair[0]);
        let operation = OperationBuilder::new().tag(tag).operation_id(Some(id));
        let operation = operation.summary(pair.get(1).map(|summary| summary.trim()));
        let parameters = parameters(tag, id, path);
        let operation = operation.parameters((!parameters.is_empty()).then_some(parameters));
        let operation = operation.responses(responses(tag, id));
        paths
            .paths
            .insert(path.to_owned(), PathItem::new(HttpMethod::Get, operation));
    }
    paths
}

/// Splits a line of a table at spaces; the last part may contain some.
fn words<const COUNT: usize>(line: &str) -> [&str; COUNT] {
    let mut words = line.splitn(COUNT, ' ');
    std::array::from_fn(|_| words.next().unwrap_or_default())
}

fn parameters(tag: &str, id: &str, path: &str) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for line in PARAMETERS.lines() {
        let [scope, place, name, kind, example, description] = words(line);
        let is_in_query = place == "query";
        let applies = [tag, id, "*"].contains(&scope)
            && (is_in_query || path.contains(&format!("{{{name}}}")));
        if !applies {
            continue;
        }
        parameters.retain(|other| other.name != name);
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(if is_in_query {
                ParameterIn::Query
            } else {
                ParameterIn::Path
            })
            .required(if is_in_query {
                Required::False
            } else {
                Required::True
            })
            .description(Some(description.replace("{formats}", &box_formats())))
            .schema(Some(type_of(kind)))
            .example((example != "-").then(|| example.into()));
        parameters.push(parameter.build());
    }
    parameters
}

/// The formats of boxes of voxels.
fn box_formats() -> String {
    let about = |file: &BoxFile| {
        format!(
            "`{}` ({}): {}",
            file.suffix, file.content_type, file.description
        )
    };
    BOX_FILES.each_ref().map(about).join("; ")
}

fn type_of(kind: &str) -> RefOr<Schema> {
    match kind {
        "count" => u64::schema(),
        "integer" => i64::schema(),
        "plane" => {
            let plane = ObjectBuilder::new()
                .schema_type(Type::String)
                .enum_values(Some(["xy", "xz", "yz"]));
            plane
                .description(Some(
                    "The orientation of a slice: its columns, then its rows.",
                ))
                .into()
        }
        _ => String::schema(),
    }
}

/// The responses: the tags or names of the paths that have it, its status, its body, and its
/// description. A later line replaces one of the same status.
const RESPONSES: &str = "\
tiles,view 200 png The PNG
tiles,view 304 - `If-None-Match` names the ETag; nothing is rendered
tiles,view 404 Problem The path is malformed, or names something unknown
range 200 RangeDescription The range; nulls if nothing is there
range 304 - `If-None-Match` names the ETag
datasets 200 SiteDescription All datasets
dataset 200 DatasetDescription The dataset; a channel that cannot be read has a `problem`
about 200 json The description, with additions
labels 200 json A page of labels
labels 404 Problem The path is malformed, or names something unknown
labels 500 Problem The table of names is wrong: the row, the column, and what is expected
document_path 200 - OpenAPI 3.1
projects 200 CatmaidProject[] The projects
info 200 Info The dataset in ndstore's JSON format
viking_volume 200 xml VikingXML
datasets,dataset,about,labels,projects,info 304 - `If-None-Match` names the ETag
projects,viking_volume 400 Problem The host is missing or malformed
dataset,about,info,viking_volume 404 Problem There is no such dataset
projects,viking_volume 500 Problem The document would be larger than 16 MiB
voxels 200 box The voxels
voxels 304 - `If-None-Match` names the ETag; nothing is read
voxels 404 Problem The path is malformed, or names something that does not exist
voxels 413 Problem The box needs more voxels than `render.max_voxels_per_box`, or a quarter of `render.boxes`
voxels 503 Problem The render queue is full, or the file system does not answer; see Retry-After
neuroglancer 200 VolumeInfo The levels and their chunk shapes
neuroglancer 304 - `If-None-Match` names the ETag
neuroglancer 404 Problem The path is malformed, or names something unknown, or the format has no such voxels
neuroglancer 500 Problem A file has changed and is being reopened
neuroglancer 503 Problem The file system does not respond; see Retry-After
segment_properties 200 json Neuroglancer's segment properties
labels,segment_properties 413 Problem The table of names, or what is requested of it, is too large
precomputed_chunk 200 bytes The voxels, in the encoding named in `info`; compressed as `Content-Encoding` says
precomputed_chunk 304 - `If-None-Match` names the ETag; nothing is read
precomputed_chunk 404 Problem The path is malformed, names something unknown, or is not a chunk of the level
zarr 200 json JSON, as the Zarr and OME-Zarr specifications describe it
zarr 206 - The range that was requested
zarr 304 - `If-None-Match` names the ETag
zarr 404 Problem The path is malformed, or names something unknown
zarr 416 - The range begins beyond the end
zarr 500 Problem The file has changed and has not been reopened yet
zarr_chunk,zarr3_chunk 200 bytes The chunk, compressed as the array's metadata says
zarr_chunk,zarr3_chunk 304 - `If-None-Match` names the ETag; nothing is read
zarr_chunk,zarr3_chunk 404 Problem The path is malformed, there is no such chunk, or it was never written
page 200 html HTML
events 200 events Events
events 503 Problem There are 32 listeners at the client's address
metrics 200 metrics OpenMetrics
health 200 text ok
livez 200 LivenessDescription It does.
readyz 200 ReadinessDescription They should.
readyz 503 ReadinessDescription It is being stopped, or nothing can be served.
tiles,view,voxels,precomputed_chunk,zarr_chunk,zarr3_chunk 500 Problem The data could not be read
tiles,view,dataset,labels,precomputed_chunk,zarr_chunk,zarr3_chunk 503 Problem The render queue is full; see Retry-After";

/// The headers of responses with the status 200: the tags or names of the paths that have it, its
/// name, and its description.
const HEADERS: &str = "\
tiles,view_tile,view_tile_at_time ETag Strong: a digest of everything that decides the pixels
tiles,view_tile,view_tile_at_time Cache-Control As configured
tiles,view_tile,view_tile_at_time Content-Length Always present
voxels ETag Strong: a digest of everything that decides the voxels
voxels X-Voltile-Shape Of `.raw`: the extents, such as 1,64,64
voxels X-Voltile-Type Of `.raw`: NumPy's name of the type, such as uint16
precomputed_chunk ETag Strong: a digest of everything that decides the bytes, one per content coding
precomputed_chunk Cache-Control As configured
precomputed_chunk Vary Includes Accept-Encoding and User-Agent
precomputed_chunk Content-Length Always present
zarr ETag Strong
zarr Content-Length Always present";

fn responses(tag: &str, id: &str) -> Responses {
    let applies = |scopes: &str| scopes.split(',').any(|scope| [tag, id].contains(&scope));
    let mut responses = Responses::new();
    for line in RESPONSES.lines() {
        let [scopes, status, body, description] = words(line);
        if !applies(scopes) {
            continue;
        }
        let (content_types, schema) = body_of(body);
        let response = ResponseBuilder::new().description(description);
        let response = content_types
            .into_iter()
            .fold(response, |response, content_type| {
                response.content(content_type, Content::new(schema.clone()))
            });
        let headers = HEADERS.lines().filter(|_| status == "200").map(words::<3>);
        let headers = headers.filter(|[scopes, ..]| applies(scopes));
        let response = headers.fold(response, |response, [_, name, description]| {
            let schema = if name == "Content-Length" {
                u64::schema()
            } else {
                String::schema()
            };
            let header = HeaderBuilder::new()
                .schema(Some(schema))
                .description(Some(description));
            response.header(name, header.build())
        });
        responses
            .responses
            .insert(status.to_owned(), response.into());
    }
    responses
}

/// The content types of a body, and its schema: a type among the components, unless it has a name
/// of its own here.
fn body_of(name: &str) -> (Vec<&'static str>, Option<RefOr<Schema>>) {
    let component = |name: &str| -> RefOr<Schema> { Ref::from_schema_name(name).into() };
    match name {
        "-" => (Vec::new(), None),
        "png" => (vec!["application/png", "image/png"], None),
        "box" => (
            BOX_FILES.iter().map(|file| file.content_type).collect(),
            None,
        ),
        "bytes" => (vec!["application/octet-stream"], Some(Vec::<u8>::schema())),
        "html" => (vec!["text/html; charset=utf-8"], Some(String::schema())),
        "xml" => (vec!["text/xml; charset=utf-8"], Some(String::schema())),
        "text" => (vec!["text/plain; charset=utf-8"], Some(String::schema())),
        "events" => (vec!["text/event-stream"], Some(String::schema())),
        "metrics" => (
            vec!["application/openmetrics-text; version=1.0.0; charset=utf-8"],
            Some(String::schema()),
        ),
        "json" => (vec!["application/json"], Some(serde_json::Value::schema())),
        "Problem" => (vec!["application/problem+json"], Some(component(name))),
        name => (
            vec!["application/json"],
            Some(match name.strip_suffix("[]") {
                Some(item) => ArrayBuilder::new().items(component(item)).into(),
                None => component(name),
            }),
        ),
    }
}
