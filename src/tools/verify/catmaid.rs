//! CATMAID: its importer, the canary tile that it requests before it shows a stack, and the tiles of its tile
//! layers.
//!
//! From its sources: `PreProject`, `PreStack`, `PreMirror` and `check_http_accessibility`
//! (`control/importer.py`), `Double3D` (`fields.py`), `getTileURL`, `getCanaryUrl`, `checkCanary` and
//! `getOverviewURL` (`tile-source.js`), and `tilesForLocation` (`layers/tile-layer.js`). The page stalls on a
//! tile with status 404. A stack of source type 14 is a volume in Neuroglancer's precomputed format.

use serde::Deserialize;

use super::neuroglancer::Volume;
use super::report::Report;
use super::request::{Need, ORIGIN, PREFLIGHT, Request};
use crate::base::description::SiteDescription;
use crate::tools::client::{Client, Method};

/// The source type of a mirror in the precomputed format.
const PRECOMPUTED: u64 = 14;

pub(super) fn play(client: &Client, site: &SiteDescription, report: &mut Report) {
    for project in report.read("projects", "/projects.json", projects(client, site)).iter().flatten() {
        for (stack, mirror) in
            project.stacks.iter().flat_map(|stack| stack.mirrors.iter().map(move |m| (stack, m)))
        {
            let subject = format!("{} {} at {}", project.title, stack.title, mirror.base());
            let requests = match mirror.precomputed_root() {
                Some(root) => Volume::read(client, root).map(|volume| volume.canary()),
                None => Ok(stack.requests(mirror)),
            };
            match requests {
                Ok(requests) => report.run(client, &subject, &requests),
                Err(reason) => report.add("chunks", &subject, Err(reason)),
            }
        }
    }
}

#[derive(Deserialize)]
struct Entry {
    project: Project,
}

#[derive(Deserialize)]
struct Project {
    title: String,
    #[serde(default)]
    stacks: Vec<Stack>,
}

/// What CATMAID reads of a stack; triples are columns, rows, slices.
#[derive(Deserialize)]
struct Stack {
    title: String,
    dimension: Triple,
    canary_location: Triple,
    #[serde(rename = "resolution")]
    _resolution: Triple,
    #[serde(default)]
    downsample_factors: Vec<Triple>,
    #[serde(default)]
    mirrors: Vec<Mirror>,
}

#[derive(Deserialize)]
struct Mirror {
    #[serde(rename = "title")]
    _title: String,
    url: String,
    fileextension: String,
    tile_source_type: Option<u64>,
}

/// "(1, 2.5, 3)"
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Triple([f64; 3]);

impl TryFrom<String> for Triple {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or_default();
        let numbers: Option<Vec<f64>> = inner.split(',').map(|number| number.trim().parse().ok()).collect();
        let triple = numbers.and_then(|numbers| numbers.try_into().ok()).map(Self);
        triple.ok_or_else(|| format!("{text:?} is not three numbers such as (1, 2, 3)"))
    }
}

/// The projects of the selected datasets.
fn projects(client: &Client, site: &SiteDescription) -> Result<Vec<Project>, String> {
    let answer = client.get("/projects.json")?.found()?;
    let kind = answer.header("content-type").unwrap_or("missing");
    if !kind.contains("json") {
        let why = "the importer requires one that contains json";
        return Err(answer.wrong(format!("its Content-Type is {kind}; {why}")));
    }
    let entries: Vec<Entry> = serde_json::from_slice(&answer.body).map_err(|e| answer.wrong(e))?;
    let mut projects: Vec<Project> = entries.into_iter().map(|entry| entry.project).collect();
    projects.retain(|project| site.datasets.iter().any(|dataset| dataset.token == project.title));
    let mut stacks = projects.iter().flat_map(|project| &project.stacks).peekable();
    if stacks.peek().is_none() {
        return Err(answer.wrong("it names no stack"));
    }
    match stacks.find(|stack| stack.downsample_factors.is_empty() || stack.mirrors.is_empty()) {
        Some(stack) => Err(answer.wrong(format!("the stack {} has no levels or no mirror", stack.title))),
        None => Ok(projects),
    }
}

impl Mirror {
    fn base(&self) -> String {
        format!("{}/", self.url.strip_suffix('/').unwrap_or(&self.url))
    }

    /// `NeuroglancerPrecomputedImageBlockSource.rootURL`; `None` if the mirror has tiles.
    fn precomputed_root(&self) -> Option<&str> {
        let (root, _) = self.url.split_once("/%SCALE_DATASET%")?;
        (self.tile_source_type == Some(PRECOMPUTED)).then_some(root)
    }

    /// `DefaultTileSource.getTileURL`
    fn tile(&self, slice: u64, [column, row]: [u64; 2], zoom: usize) -> String {
        format!("{}{slice}/{row}_{column}_{zoom}.{}", self.base(), self.fileextension)
    }
}

impl Stack {
    fn requests(&self, mirror: &Mirror) -> Vec<Request> {
        let [x, y, z] = self.canary_location.0.map(|number| number as u64);
        let (base, extension) = (mirror.base(), &mirror.fileextension);
        // `getCanaryUrl`
        let canary = mirror.tile(z, [x / 512, y / 512], 0);
        let uncached = format!("{canary}?nocache=1234567890123");
        let preflight = Request::get("preflight", canary.clone(), PREFLIGHT, [Need::Allowing, Need::Shared]);
        let mut requests = vec![
            // `check_http_accessibility`
            Request::get("importer", format!("{base}0/0_0_0.{extension}"), &[], [Need::Found]),
            // `checkCanary`: an image that bypasses every cache, and from a page of another origin.
            Request::get("canary", uncached, &[], [Need::Tile]),
            Request::get("cors", canary.clone(), &[ORIGIN], [Need::Found, Need::Shared, Need::ImageType]),
            // Proxies and download tools request only the headers.
            Request::get("head", canary, &[], [Need::Found, Need::Head]),
            Request { method: Method::OPTIONS, ..preflight },
        ];
        // The last tile of each level, and the tiles beyond it, which must exist and be black.
        for (zoom, Triple(factor)) in self.downsample_factors.iter().enumerate() {
            let slice = (self.canary_location.0[2] / factor[2]).floor() as u64;
            let last =
                |axis: usize| ((self.dimension.0[axis] / factor[axis] - 1.0) / 512.0).floor().max(0.0) as u64;
            let [column, row] = [last(0), last(1)];
            for place in [[column, row], [column + 1, row], [column, row + 1]] {
                let why = "a tile is not found, and CATMAID waits for it; out_of_bounds = \"black\" fixes it for tiles beyond the volume";
                let needs = [Need::NotMissing(why), Need::Tile];
                requests.push(Request::get("edges", mirror.tile(slice, place, zoom), &[], needs));
            }
        }
        // `getOverviewURL`; a page without one draws a grid instead.
        requests.push(Request::get(
            "overview",
            format!("{base}{z}/small.{extension}"),
            &[],
            [Need::Overview],
        ));
        requests
    }
}
