//! CATMAID: its importer, the canary tile that it requests before it shows a stack, and the tiles of its tile
//! layers.
//!
//! From its sources: `PreProject`, `PreStack`, `PreMirror` and `check_http_accessibility`
//! (`control/importer.py`), `Double3D` (`fields.py`), `getTileURL`, `getCanaryUrl`, `checkCanary` and
//! `getOverviewURL` (`tile-source.js`), and `tilesForLocation` (`layers/tile-layer.js`). The page stalls on a
//! tile with status 404. A stack of source type 14 is a volume in Neuroglancer's precomputed format.

use serde_json::Value;

use super::Viewer;
use super::answer::ORIGIN;
use super::neuroglancer::Volume;
use super::report::{Checked, Report};
use crate::base::description::SiteDescription;
use crate::tools::client::{Answer, Client, Method};

/// The edge of the canvas for an overview.
const MAP: u32 = 192;

pub(super) fn play(client: &Client, site: &SiteDescription, report: &mut Report) {
    let stacks = match client.get("/projects.json").and_then(|answer| stacks(answer, site)) {
        Ok(stacks) => stacks,
        Err(reason) => return report.add(Some(Viewer::Catmaid), "projects", "/projects.json", Err(reason)),
    };
    report.add(Some(Viewer::Catmaid), "projects", "/projects.json", Ok(None));
    for stack in &stacks {
        for mirror in &stack.mirrors {
            let subject = format!("{} at {}", stack.title, mirror.base);
            let mut add = |check, checked| report.add(Some(Viewer::Catmaid), check, &subject, checked);
            if let Some(root) = mirror.precomputed_root() {
                add("chunks", Volume::read(client, root).and_then(|volume| volume.canary(client)));
                continue;
            }
            add("importer", client.get(&mirror.importers_tile()).and_then(Answer::found).map(|_| None));
            add("canary", stack.canary(client, mirror));
            add("cors", stack.cors(client, mirror));
            add("head", stack.head(client, mirror));
            add("preflight", stack.preflight(client, mirror));
            add("edges", stack.edges(client, mirror));
            add("overview", stack.overview(client, mirror));
        }
    }
}

/// What CATMAID reads of a stack; triples are columns, rows, slices.
struct Stack {
    title: String,
    dimension: [f64; 3],
    canary: [f64; 3],
    factors: Vec<[f64; 3]>,
    mirrors: Vec<Mirror>,
}

struct Mirror {
    base: String,
    extension: String,
    has_chunks: bool,
}

/// The stacks in a project file that belong to the selected datasets.
fn stacks(answer: Answer, site: &SiteDescription) -> Result<Vec<Stack>, String> {
    let answer = answer.found()?;
    let kind = answer.header("content-type").unwrap_or("missing");
    if !kind.contains("json") {
        return Err(
            answer.wrong(format!("its Content-Type is {kind}; the importer requires one that contains json"))
        );
    }
    let projects: Vec<Value> = serde_json::from_slice(&answer.body).map_err(|e| answer.wrong(e))?;
    let mut stacks = Vec::new();
    for project in &projects {
        let project = project.get("project").ok_or_else(|| answer.wrong("an entry has no project"))?;
        let title = text(project, "title").map_err(|e| answer.wrong(e))?;
        if site.datasets.iter().any(|dataset| dataset.token == title) {
            for stack in project.get("stacks").and_then(Value::as_array).into_iter().flatten() {
                stacks.push(Stack::read(&title, stack).map_err(|e| answer.wrong(e))?);
            }
        }
    }
    if stacks.is_empty() { Err(answer.wrong("it names no stack")) } else { Ok(stacks) }
}

fn text(value: &Value, name: &str) -> Result<String, String> {
    let found = value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    found.map(str::to_owned).ok_or_else(|| format!("a {name} is missing"))
}

/// "(1, 2.5, 3)"
fn triple(text: &str) -> Result<[f64; 3], String> {
    let wrong = || format!("{text:?} is not three numbers such as (1, 2, 3)");
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).ok_or_else(wrong)?;
    let numbers: Result<Vec<f64>, _> = inner.split(',').map(|number| number.trim().parse()).collect();
    numbers.ok().and_then(|numbers| numbers.try_into().ok()).ok_or_else(wrong)
}

impl Mirror {
    fn read(value: &Value) -> Result<Self, String> {
        text(value, "title")?;
        let base = text(value, "url")?;
        let base = if base.ends_with('/') { base } else { format!("{base}/") };
        let has_chunks = value.get("tile_source_type").and_then(Value::as_u64) == Some(14);
        Ok(Self { base, extension: text(value, "fileextension")?, has_chunks })
    }

    /// `NeuroglancerPrecomputedImageBlockSource.rootURL`; `None` if the mirror has tiles.
    fn precomputed_root(&self) -> Option<&str> {
        let (root, _) = self.base.split_once("/%SCALE_DATASET%")?;
        self.has_chunks.then_some(root)
    }

    /// `check_http_accessibility`
    fn importers_tile(&self) -> String {
        format!("{}0/0_0_0.{}", self.base, self.extension)
    }

    /// `DefaultTileSource.getTileURL`
    fn tile(&self, slice: u64, [column, row]: [u64; 2], zoom: usize) -> String {
        format!("{}{slice}/{row}_{column}_{zoom}.{}", self.base, self.extension)
    }
}

impl Stack {
    fn read(project: &str, value: &Value) -> Result<Self, String> {
        let factors = value.get("downsample_factors").and_then(Value::as_array).into_iter().flatten();
        let factors: Vec<[f64; 3]> =
            factors.map(|factor| triple(factor.as_str().unwrap_or_default())).collect::<Result<_, _>>()?;
        let mirrors = value.get("mirrors").and_then(Value::as_array).into_iter().flatten();
        let stack = Self {
            title: format!("{project} {}", text(value, "title")?),
            dimension: triple(&text(value, "dimension")?)?,
            canary: triple(&text(value, "canary_location")?)?,
            factors,
            mirrors: mirrors.map(Mirror::read).collect::<Result<_, _>>()?,
        };
        triple(&text(value, "resolution")?)?;
        if stack.factors.is_empty() || stack.mirrors.is_empty() {
            return Err(format!("the stack {} has no levels or no mirror", stack.title));
        }
        Ok(stack)
    }

    /// `getCanaryUrl`
    fn canary_url(&self, mirror: &Mirror) -> String {
        let [x, y, z] = self.canary.map(|number| number as u64);
        mirror.tile(z, [x / 512, y / 512], 0)
    }

    /// The image that `checkCanary` loads, bypassing every cache.
    fn canary(&self, client: &Client, mirror: &Mirror) -> Checked {
        client.get(&format!("{}?nocache=1234567890123", self.canary_url(mirror)))?.found()?.tile()?;
        Ok(None)
    }

    /// The request that `checkCanary` makes from a page of another origin.
    fn cors(&self, client: &Client, mirror: &Mirror) -> Checked {
        let answer = client.ask(&Method::GET, &self.canary_url(mirror), &[("Origin", ORIGIN)])?.found()?;
        answer.is_shared()?;
        match answer.header("content-type") {
            Some(kind) if kind.starts_with("image") => Ok(None),
            Some("application/png") => Ok(Some(
                "its Content-Type is application/png: CATMAID draws such tiles only without WebGL; a mount with content_type = \"image/png\" fixes it"
                    .to_owned(),
            )),
            other => Err(answer.wrong(format!("its Content-Type is {}, not an image", other.unwrap_or("missing")))),
        }
    }

    /// Proxies and download tools request only the headers, which must be the same as those of GET.
    fn head(&self, client: &Client, mirror: &Mirror) -> Checked {
        let url = self.canary_url(mirror);
        let (head, tile) = (client.ask(&Method::HEAD, &url, &[])?.found()?, client.get(&url)?.found()?);
        let length = tile.body.len().to_string();
        match head.header("content-length") {
            Some(told) if told == length => Ok(None),
            told => Err(head.wrong(format!(
                "HEAD says Content-Length {}, but GET returns {length} bytes",
                told.unwrap_or("missing")
            ))),
        }
    }

    /// The preflight request of a browser before it sends a custom header.
    fn preflight(&self, client: &Client, mirror: &Mirror) -> Checked {
        let asked = [
            ("Origin", ORIGIN),
            ("Access-Control-Request-Method", "GET"),
            ("Access-Control-Request-Headers", "x-requested-with"),
        ];
        let answer = client.ask(&Method::OPTIONS, &self.canary_url(mirror), &asked)?;
        if !(200..300).contains(&answer.status) {
            return Err(answer.wrong(format!("the response to OPTIONS is {}", answer.status)));
        }
        answer.is_shared()?;
        let lists = |name: &str, wanted: &str| {
            answer.header(name).is_some_and(|list| list.to_ascii_lowercase().contains(wanted) || list == "*")
        };
        if !lists("access-control-allow-methods", "get") {
            return Err(answer.wrong("OPTIONS does not allow GET (Access-Control-Allow-Methods)"));
        }
        match lists("access-control-allow-headers", "x-requested-with") {
            true => Ok(None),
            false => Err(answer.wrong("OPTIONS does not allow headers (Access-Control-Allow-Headers)")),
        }
    }

    /// The last tile of each level, and those one beyond, which must exist and be black.
    fn edges(&self, client: &Client, mirror: &Mirror) -> Checked {
        for (zoom, factor) in self.factors.iter().enumerate() {
            let slice = (self.canary[2] / factor[2]).floor() as u64;
            let last = |size: f64, factor: f64| ((size / factor - 1.0) / 512.0).floor().max(0.0) as u64;
            let [column, row] = [last(self.dimension[0], factor[0]), last(self.dimension[1], factor[1])];
            client.get(&mirror.tile(slice, [column, row], zoom))?.found()?.tile()?;
            for beyond in [[column + 1, row], [column, row + 1]] {
                let answer = client.get(&mirror.tile(slice, beyond, zoom))?;
                if answer.status == 404 {
                    return Err(answer.wrong(
                        "a tile beyond the volume is not found, and CATMAID waits for it; out_of_bounds = \"black\" fixes it",
                    ));
                }
                answer.found()?.tile()?;
            }
        }
        Ok(None)
    }

    /// `getOverviewURL`; a page without one draws a grid instead.
    fn overview(&self, client: &Client, mirror: &Mirror) -> Checked {
        let url = format!("{}{}/small.{}", mirror.base, self.canary[2] as u64, mirror.extension);
        let answer = client.get(&url)?;
        if answer.status == 404 {
            return Ok(Some(answer.wrong("there is no overview; CATMAID draws a grid instead")));
        }
        let answer = answer.found()?;
        let picture = answer.picture()?;
        if picture.width().max(picture.height()) > MAP {
            let (width, height) = (picture.width(), picture.height());
            return Err(answer.wrong(format!("it is {width} × {height}; CATMAID shows {MAP} pixels of it")));
        }
        Ok(None)
    }
}
