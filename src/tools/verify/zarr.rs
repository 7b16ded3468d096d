//! Readers of OME-Zarr: the documents of both versions, and the first and last chunk of every array.
//!
//! By the specifications: OME-Zarr 0.4 and 0.5 (`multiscales`), Zarr v2 (`.zarray`, `.zmetadata`) and v3 (`zarr.json`,
//! the codecs `bytes`, `gzip` and `zstd`). A chunk that does not exist holds the fill value; every other one has the full
//! chunk shape, also at the edge.

use serde::Deserialize;
use serde_json::Value;

use super::Viewer;
use super::answer::{Codec, ORIGIN};
use super::report::{Checked, Report};
use crate::base::description::SiteDescription;
use crate::tools::client::{Answer, Client, Method};

pub(super) fn play(client: &Client, site: &SiteDescription, report: &mut Report) {
    for dataset in &site.datasets {
        for version in ["0.4", "0.5"] {
            let root = format!("/zarr/{version}/{}.ome.zarr", dataset.token);
            let subject = format!("{} {version}", dataset.token);
            let mut add = |check, checked| report.add(Some(Viewer::Zarr), check, &subject, checked);
            match arrays(client, &root, version) {
                Err(reason) => add("metadata", Err(reason)),
                Ok(arrays) => {
                    add("metadata", Ok(None));
                    add("chunks", arrays.iter().try_fold(None, |_, array| array.chunks(client)));
                }
            }
        }
    }
}

/// An array as its readers see it.
struct Array {
    url: String,
    /// What follows `url` in the address of a chunk, before its indexes.
    prefix: &'static str,
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

/// The arrays of an image.
fn arrays(client: &Client, root: &str, version: &str) -> Result<Vec<Array>, String> {
    let is_v2 = version == "0.4";
    let (document, answer) = if is_v2 {
        let group = json(client, &format!("{root}/.zgroup"))?;
        if group.0.get("zarr_format") != Some(&Value::from(2)) {
            return Err(group.1.wrong("its zarr_format is not 2"));
        }
        json(client, &format!("{root}/.zattrs"))?
    } else {
        let (mut group, answer) = json(client, &format!("{root}/zarr.json"))?;
        let ome = group.pointer_mut("/attributes/ome").map(Value::take);
        (ome.ok_or_else(|| answer.wrong("it has no attributes.ome"))?, answer)
    };
    let images: Multiscales = serde_json::from_value(document).map_err(|e| answer.wrong(e))?;
    let image = images.multiscales.first().ok_or_else(|| answer.wrong("multiscales is empty"))?;
    let has_scale =
        |level: &Level| level.transformations.first().is_some_and(|first| first["type"] == "scale");
    if image.datasets.is_empty() || !image.datasets.iter().all(has_scale) {
        return Err(answer.wrong("it lists no datasets, or one without a scale"));
    }
    let read = |level: &Level| {
        let url = format!("{root}/{}", level.path);
        let array = if is_v2 { Array::v2(client, url) } else { Array::v3(client, url) }?;
        match array.shape.len() == image.axes.len() && array.chunk.len() == array.shape.len() {
            true => Ok(array),
            false => Err(answer.wrong(format!(
                "it has {} axes, but level {} has {} dimensions",
                image.axes.len(),
                level.path,
                array.shape.len()
            ))),
        }
    };
    let arrays = image.datasets.iter().map(read).collect::<Result<Vec<_>, String>>()?;
    if is_v2 {
        let (all, answer) = json(client, &format!("{root}/.zmetadata"))?;
        let is_listed = |level: &&Level| all["metadata"].get(format!("{}/.zarray", level.path)).is_some();
        if let Some(missing) = image.datasets.iter().find(|level| !is_listed(level)) {
            return Err(answer.wrong(format!("the consolidated metadata lacks level {}", missing.path)));
        }
    }
    Ok(arrays)
}

/// A document, and the response that held it.
fn json(client: &Client, url: &str) -> Result<(Value, Answer), String> {
    let answer = client.ask(&Method::GET, url, &[("Origin", ORIGIN)])?.found()?;
    answer.is_shared()?;
    let value = serde_json::from_slice(&answer.body).map_err(|e| answer.wrong(e))?;
    Ok((value, answer))
}

fn extents(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

impl Array {
    /// Reads `.zarray`.
    fn v2(client: &Client, url: String) -> Result<Self, String> {
        let (array, answer) = json(client, &format!("{url}/.zarray"))?;
        let read = || {
            let codec = match array["compressor"]["id"].as_str() {
                None if array["compressor"].is_null() => Codec::None,
                Some("zlib") => Codec::Zlib,
                Some("gzip") => Codec::Gzip,
                Some("zstd") => Codec::Zstd,
                _ => return None,
            };
            let element = array["dtype"].as_str()?.get(2..)?.parse().ok()?;
            let (shape, chunk) = (extents(&array["shape"])?, extents(&array["chunks"])?);
            let is_usual =
                array["filters"].is_null() && array["dimension_separator"] == "/" && array["order"] == "C";
            is_usual.then_some((shape, chunk, element, codec))
        };
        let (shape, chunk, element, codec) =
            read().ok_or_else(|| answer.wrong("its readers do not all know such an array"))?;
        Ok(Self { url, prefix: "", shape, chunk, element, codec })
    }

    /// Reads `zarr.json`.
    fn v3(client: &Client, url: String) -> Result<Self, String> {
        let (array, answer) = json(client, &format!("{url}/zarr.json"))?;
        let read = || {
            let codecs = array["codecs"].as_array()?.iter().map(|codec| codec["name"].as_str());
            let codec = match codecs.collect::<Option<Vec<_>>>()?.as_slice() {
                ["bytes"] => Codec::None,
                ["bytes", "gzip"] => Codec::Gzip,
                ["bytes", "zstd"] => Codec::Zstd,
                _ => return None,
            };
            let bits =
                |name: &str| name.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse::<u64>();
            let element = match array["data_type"].as_str()? {
                "bool" => 1,
                name => bits(name).ok()? / 8,
            };
            let chunk = extents(&array["chunk_grid"]["configuration"]["chunk_shape"])?;
            Some((extents(&array["shape"])?, chunk, element, codec))
        };
        let (shape, chunk, element, codec) =
            read().ok_or_else(|| answer.wrong("its readers do not all know such an array"))?;
        Ok(Self { url, prefix: "c/", shape, chunk, element, codec })
    }

    /// The first and the last chunk, which are whole or do not exist; and none behind them.
    fn chunks(&self, client: &Client) -> Checked {
        let last = self
            .shape
            .iter()
            .zip(&self.chunk)
            .map(|(extent, edge)| extent.saturating_sub(1) / (*edge).max(1));
        let last: Vec<u64> = last.collect();
        for place in [vec![0; last.len()], last.clone()] {
            let url = self.chunk_url(&place);
            let answer = client.ask(&Method::GET, &url, &[("Origin", ORIGIN)])?;
            if answer.status == 404 {
                continue;
            }
            let answer = answer.found()?;
            answer.is_shared()?;
            self.check(&answer)?;
            let head = client.ask(&Method::HEAD, &url, &[])?.found()?;
            let length = answer.body.len().to_string();
            if head.header("content-length") != Some(length.as_str()) {
                return Err(
                    head.wrong(format!("HEAD does not say Content-Length {length}, the length of the chunk"))
                );
            }
        }
        let beyond = client.get(&self.chunk_url(&last.iter().map(|index| index + 1).collect::<Vec<_>>()))?;
        match beyond.status {
            404 => Ok(None),
            status => Err(beyond.wrong(format!("it lies beyond the array, but the status is {status}"))),
        }
    }

    fn chunk_url(&self, place: &[u64]) -> String {
        let place: Vec<String> = place.iter().map(u64::to_string).collect();
        format!("{}/{}{}", self.url, self.prefix, place.join("/"))
    }

    /// Whether a body decodes to a whole chunk.
    fn check(&self, answer: &Answer) -> Result<(), String> {
        let bytes = self.chunk.iter().fold(self.element, |product, edge| product.saturating_mul(*edge));
        let length = answer.decoded(self.codec, bytes)?.len();
        match length as u64 == bytes {
            true => Ok(()),
            false => Err(answer.wrong(format!("it has {length} bytes; a chunk has {bytes}"))),
        }
    }
}
