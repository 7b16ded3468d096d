//! Readers of OME-Zarr: the documents of both versions, and the first and last chunk of every array.
//!
//! By the specifications: OME-Zarr 0.4 and 0.5 (`multiscales`), Zarr v2 (`.zarray`, `.zmetadata`) and v3 (`zarr.json`,
//! the codecs `bytes`, `gzip` and `zstd`). A chunk that does not exist holds the fill value; every other one has the full
//! chunk shape, also at the edge.

use serde::Deserialize;
use serde_json::Value;

use super::report::Report;
use super::request::{Codec, Need, ORIGIN, Request, document};
use crate::base::description::SiteDescription;
use crate::tools::client::{Answer, Client};

pub(super) fn play(client: &Client, site: &SiteDescription, report: &mut Report) {
    for dataset in &site.datasets {
        for version in ["0.4", "0.5"] {
            let root = format!("/zarr/{version}/{}.ome.zarr", dataset.token);
            let subject = format!("{} {version}", dataset.token);
            let arrays = arrays(client, &root, version == "0.4");
            if let Some(arrays) = report.read("metadata", &subject, arrays) {
                let requests: Vec<Request> = arrays.iter().flat_map(Array::requests).collect();
                report.run(client, &subject, &requests);
            }
        }
    }
}

/// An array as its readers see it.
struct Array {
    /// The address of a chunk before its indexes.
    chunks: String,
    shape: Vec<u64>,
    chunk: Vec<u64>,
    /// The bytes of an element.
    element: u64,
    codec: Codec,
}

#[derive(Deserialize)]
struct Multiscales {
    multiscales: Vec<Multiscale>,
}

#[derive(Deserialize)]
struct Multiscale {
    axes: Vec<Value>,
    datasets: Vec<Level>,
}

#[derive(Deserialize)]
struct Level {
    path: String,
    #[serde(rename = "coordinateTransformations")]
    transformations: Vec<Value>,
}

fn json(client: &Client, url: &str) -> Result<(Value, Answer), String> {
    document(client, url, &[ORIGIN])
}

/// The arrays of an image.
fn arrays(client: &Client, root: &str, is_v2: bool) -> Result<Vec<Array>, String> {
    let (ome, answer) = if is_v2 {
        let (group, answer) = json(client, &format!("{root}/.zgroup"))?;
        if group["zarr_format"] != 2 {
            return Err(answer.wrong("its zarr_format is not 2"));
        }
        json(client, &format!("{root}/.zattrs"))?
    } else {
        let (mut group, answer) = json(client, &format!("{root}/zarr.json"))?;
        (group["attributes"]["ome"].take(), answer)
    };
    let images: Multiscales = serde_json::from_value(ome).map_err(|e| answer.wrong(e))?;
    let image = images.multiscales.first().ok_or_else(|| answer.wrong("multiscales is empty"))?;
    let has_scale =
        |level: &Level| level.transformations.first().is_some_and(|first| first["type"] == "scale");
    if image.datasets.is_empty() || !image.datasets.iter().all(has_scale) {
        return Err(answer.wrong("it lists no datasets, or one without a scale"));
    }
    let mut arrays = Vec::new();
    for Level { path, .. } in &image.datasets {
        let file = if is_v2 { ".zarray" } else { "zarr.json" };
        let (array, described) = json(client, &format!("{root}/{path}/{file}"))?;
        let url = format!("{root}/{path}");
        let read = if is_v2 { Array::v2(&url, &array) } else { Array::v3(&url, &array) };
        let array = read.ok_or_else(|| described.wrong("its readers do not all know such an array"))?;
        let (axes, dimensions) = (image.axes.len(), array.shape.len());
        if (axes, array.chunk.len()) != (dimensions, dimensions) {
            let problem = format!("it has {axes} axes, but level {path} has {dimensions} dimensions");
            return Err(answer.wrong(problem));
        }
        arrays.push(array);
    }
    if is_v2 {
        let (all, answer) = json(client, &format!("{root}/.zmetadata"))?;
        let is_listed = |level: &&Level| all["metadata"].get(format!("{}/.zarray", level.path)).is_some();
        if let Some(missing) = image.datasets.iter().find(|level| !is_listed(level)) {
            return Err(answer.wrong(format!("the consolidated metadata lacks level {}", missing.path)));
        }
    }
    Ok(arrays)
}

fn extents(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

impl Array {
    /// From `.zarray`.
    fn v2(url: &str, array: &Value) -> Option<Self> {
        let codec = match array["compressor"]["id"].as_str() {
            None if array["compressor"].is_null() => Codec::None,
            Some("zlib") => Codec::Zlib,
            Some("gzip") => Codec::Gzip,
            Some("zstd") => Codec::Zstd,
            _ => return None,
        };
        let is_usual =
            array["filters"].is_null() && array["dimension_separator"] == "/" && array["order"] == "C";
        let element = array["dtype"].as_str()?.get(2..)?.parse().ok()?;
        let (shape, chunk) = (extents(&array["shape"])?, extents(&array["chunks"])?);
        is_usual.then_some(Self { chunks: url.to_owned(), shape, chunk, element, codec })
    }

    /// From `zarr.json`.
    fn v3(url: &str, array: &Value) -> Option<Self> {
        let codecs = array["codecs"].as_array()?.iter().map(|codec| codec["name"].as_str());
        let codec = match codecs.collect::<Option<Vec<_>>>()?.as_slice() {
            ["bytes"] => Codec::None,
            ["bytes", "gzip"] => Codec::Gzip,
            ["bytes", "zstd"] => Codec::Zstd,
            _ => return None,
        };
        let element = match array["data_type"].as_str()? {
            "bool" => 1,
            name => name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().ok()? / 8,
        };
        let chunk = extents(&array["chunk_grid"]["configuration"]["chunk_shape"])?;
        Some(Self { chunks: format!("{url}/c"), shape: extents(&array["shape"])?, chunk, element, codec })
    }

    /// The first and the last chunk, which are whole or do not exist; and none behind them.
    fn requests(&self) -> Vec<Request> {
        let both = self.shape.iter().zip(&self.chunk);
        let last: Vec<u64> = both.map(|(extent, edge)| extent.saturating_sub(1) / (*edge).max(1)).collect();
        let url = |place: &dyn Fn(u64) -> u64| {
            let place: Vec<String> = last.iter().map(|index| place(*index).to_string()).collect();
            format!("{}/{}", self.chunks, place.join("/"))
        };
        let bytes = self.chunk.iter().fold(self.element, |product, edge| product.saturating_mul(*edge));
        let whole =
            [Need::MayBeMissing, Need::Found, Need::Shared, Need::Bytes(self.codec, bytes), Need::Head];
        vec![
            Request::get("chunks", url(&|_| 0), &[ORIGIN], whole.clone()),
            Request::get("chunks", url(&|last| last), &[ORIGIN], whole),
            Request::get("chunks", url(&|last| last + 1), &[], [Need::Missing("it lies beyond the array")]),
        ]
    }
}
