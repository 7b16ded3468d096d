//! OME-Zarr in both versions, read chunk by chunk.

use std::io::Read;
use std::ops::Range;

use half::f16;
use ndarray::{ArrayD, Axis};
use serde_json::{Value, json};

use super::voxels::escaped;
use super::{Block, Case, Format, arranged, assembled, dtype, standard, width};
use crate::common::wire::Connection;

/// The versions, with their prefixes of chunk keys.
pub const VERSIONS: [(&str, &str); 2] = [("0.4", ""), ("0.5", "c/")];

/// More chunks of a level are not read.
const MAX_CHUNKS: usize = 200;

/// An array as its metadata describes it.
pub struct Array {
    pub shape: Vec<usize>,
    pub chunks: Vec<usize>,
    pub dtype: String,
    is_big_endian: bool,
    is_fortran: bool,
    /// In the order in which they were applied.
    codecs: Vec<Value>,
    fill: Value,
}

impl Array {
    pub fn v2(document: &Value) -> Self {
        let described = document["dtype"].as_str().unwrap();
        assert_eq!(document["zarr_format"], 2);
        let filters = document["filters"].as_array().cloned().unwrap_or_default();
        let compressor =
            (!document["compressor"].is_null()).then(|| document["compressor"].clone());
        Self {
            shape: numbers(&document["shape"]),
            chunks: numbers(&document["chunks"]),
            dtype: dtype(
                described.chars().nth(1).unwrap(),
                described[2..].parse().unwrap(),
            ),
            is_big_endian: described.starts_with('>'),
            is_fortran: document["order"] == "F",
            codecs: filters.into_iter().chain(compressor).collect(),
            fill: document["fill_value"].clone(),
        }
    }

    fn v3(document: &Value) -> Self {
        assert_eq!(
            (&document["zarr_format"], &document["node_type"]),
            (&json!(3), &json!("array"))
        );
        assert_eq!(
            document["codecs"][0],
            json!({"name": "bytes", "configuration": {"endian": "little"}})
        );
        let named = |codec: &Value| json!({"id": codec["name"]});
        Self {
            shape: numbers(&document["shape"]),
            chunks: numbers(&document["chunk_grid"]["configuration"]["chunk_shape"]),
            dtype: document["data_type"].as_str().unwrap().to_owned(),
            is_big_endian: false,
            is_fortran: false,
            codecs: document["codecs"].as_array().unwrap()[1..]
                .iter()
                .map(named)
                .collect(),
            fill: document["fill_value"].clone(),
        }
    }

    /// The name of the last codec.
    pub fn codec(&self) -> Option<&str> {
        self.codecs
            .last()
            .map(|codec| codec["id"].as_str().unwrap())
    }

    /// Whether this test can decode its chunks.
    pub fn is_readable(&self) -> bool {
        let known = ["zlib", "zstd", "shuffle", "fletcher32"];
        self.codecs
            .iter()
            .all(|codec| known.contains(&codec["id"].as_str().unwrap()))
    }

    /// A chunk with a last axis of the little-endian bytes of a voxel.
    pub fn decoded(&self, stored: &[u8]) -> ArrayD<u8> {
        let mut bytes = stored.to_vec();
        for codec in self.codecs.iter().rev() {
            bytes = match codec["id"].as_str().unwrap() {
                "zlib" => {
                    let mut inflated = Vec::new();
                    flate2::read::ZlibDecoder::new(&*bytes)
                        .read_to_end(&mut inflated)
                        .unwrap();
                    inflated
                }
                "zstd" => zstd::stream::decode_all(&*bytes).unwrap(),
                "shuffle" => {
                    let width = width(&self.dtype);
                    let count = bytes.len() / width;
                    (0..bytes.len())
                        .map(|at| bytes[at % width * count + at / width])
                        .collect()
                }
                "fletcher32" => bytes[..bytes.len() - 4].to_vec(),
                other => panic!("{other}"),
            };
        }
        if self.is_big_endian {
            bytes
                .chunks_exact_mut(width(&self.dtype))
                .for_each(<[u8]>::reverse);
        }
        let mut shape = self.chunks.clone();
        let mut order: Vec<usize> = (0..=shape.len()).collect();
        if self.is_fortran {
            order[..shape.len()].reverse();
            shape.reverse();
        }
        shape.push(width(&self.dtype));
        let chunk = ArrayD::from_shape_vec(shape, bytes).expect("chunks are full size");
        standard(chunk.permuted_axes(order))
    }

    /// The voxel of chunks that were never written.
    pub fn filled(&self) -> Vec<u8> {
        let real = match self.fill.as_str() {
            Some("NaN") => f64::NAN,
            Some("Infinity") => f64::INFINITY,
            Some("-Infinity") => f64::NEG_INFINITY,
            _ => self.fill.as_f64().unwrap_or_default(),
        };
        match &*self.dtype {
            "bool" => vec![u8::from(self.fill.as_bool().unwrap_or_default())],
            "float16" => f16::from_f64(real).to_le_bytes().to_vec(),
            "float32" => (real as f32).to_le_bytes().to_vec(),
            "float64" => real.to_le_bytes().to_vec(),
            _ => {
                let unsigned = self.fill.as_u64().unwrap_or_default();
                let value = self.fill.as_i64().map_or(unsigned, i64::cast_unsigned);
                value.to_le_bytes()[..width(&self.dtype)].to_vec()
            }
        }
    }
}

pub fn numbers(list: &Value) -> Vec<usize> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_u64().unwrap() as usize)
        .collect()
}

/// The metadata of an array.
pub fn document(connection: &mut Connection, version: &str, path: &str) -> Array {
    match version {
        "0.4" => {
            let document = connection.get(&format!("/zarr/0.4/{path}/.zarray")).json();
            assert_eq!(
                (&document["order"], &document["filters"]),
                (&json!("C"), &Value::Null)
            );
            assert_eq!(document["dimension_separator"], "/");
            Array::v2(&document)
        }
        _ => Array::v3(
            &connection
                .get(&format!("/zarr/0.5/{path}/zarr.json"))
                .json(),
        ),
    }
}

/// The OME-Zarr metadata of a group, if there is one.
fn group(connection: &mut Connection, version: &str, path: &str) -> Option<Value> {
    let file = if version == "0.4" {
        ".zattrs"
    } else {
        "zarr.json"
    };
    let answer = connection.get(&format!("/zarr/{version}/{path}/{file}"));
    let pointer = if version == "0.4" {
        ""
    } else {
        "/attributes/ome"
    };
    (answer.status == 200).then(|| answer.json().pointer(pointer).unwrap().clone())
}

/// The time point and the box of an array with these axes; `colours` are the places along its axis
/// of channels. What does not vary has the extent 1.
pub fn region(
    case: &Case<'_>,
    axes: &str,
    shape: &[usize],
    colours: Range<usize>,
) -> Vec<Range<usize>> {
    let [z, y, x] = case.region.clone();
    let along = |(axis, extent): (char, &usize)| match axis {
        't' => case.time.min(extent - 1)..case.time.min(extent - 1) + 1,
        'c' => colours.clone(),
        'z' => z.clone(),
        'y' => y.clone(),
        _ => x.clone(),
    };
    axes.chars().zip(shape).map(along).collect()
}

/// The axes of an image.
pub fn axes(image: &Value) -> String {
    image["axes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|axis| axis["name"].as_str().unwrap())
        .collect()
}

/// A block of the region of an array.
pub fn block(mut bytes: ArrayD<u8>, axes: &str, dtype: String) -> Block {
    if let Some(time) = axes.find('t') {
        bytes = bytes.index_axis_move(Axis(time), 0);
    }
    Block {
        bytes: arranged(bytes, &axes.replace('t', "")),
        dtype,
    }
}

/// A version, of the image of one channel or of that which holds the channels that are alike, with
/// labels below it.
pub struct Zarr {
    version: (&'static str, &'static str),
    is_whole: bool,
}

pub const FORMATS: [Zarr; 4] = [
    Zarr {
        version: VERSIONS[0],
        is_whole: false,
    },
    Zarr {
        version: VERSIONS[1],
        is_whole: false,
    },
    Zarr {
        version: VERSIONS[0],
        is_whole: true,
    },
    Zarr {
        version: VERSIONS[1],
        is_whole: true,
    },
];

impl Zarr {
    /// The path of the image that holds a channel, and its places along the axis of channels.
    fn image(
        &self,
        connection: &mut Connection,
        case: &Case<'_>,
    ) -> Option<(String, Range<usize>)> {
        let token = escaped(case.token);
        if !self.is_whole {
            return Some((
                format!("{token}/{}.ome.zarr", escaped(case.name())),
                0..case.components(),
            ));
        }
        let whole = format!("{token}.ome.zarr");
        let channels = group(connection, self.version.0, &whole)?["omero"]["channels"].clone();
        let labels: Vec<&Value> = channels
            .as_array()?
            .iter()
            .map(|channel| &channel["label"])
            .collect();
        if let Some(place) = labels.iter().position(|label| **label == case.name()) {
            return Some((whole, place..place + case.components()));
        }
        let below =
            group(connection, self.version.0, &format!("{whole}/labels"))?["labels"].clone();
        let is_below = below
            .as_array()
            .unwrap()
            .iter()
            .any(|name| name == case.name());
        is_below.then(|| (format!("{whole}/labels/{}", escaped(case.name())), 0..1))
    }
}

impl Format for Zarr {
    fn name(&self) -> String {
        format!(
            "zarr {}{}",
            self.version.0,
            if self.is_whole { ", all channels" } else { "" }
        )
    }

    fn read(&self, connection: &mut Connection, case: &Case<'_>) -> Vec<Block> {
        let (version, prefix) = self.version;
        let Some((path, colours)) = self.image(connection, case) else {
            return Vec::new();
        };
        let Some(group) = group(connection, version, &path) else {
            return Vec::new();
        };
        let image = &group["multiscales"][0];
        let number = case.number().to_string();
        if !image["datasets"]
            .as_array()
            .unwrap()
            .iter()
            .any(|level| level["path"] == *number)
        {
            return Vec::new();
        }
        let array = document(connection, version, &format!("{path}/{number}"));
        let counts = array
            .shape
            .iter()
            .zip(&array.chunks)
            .map(|(extent, edge)| extent.div_ceil(*edge));
        if counts.product::<usize>() > MAX_CHUNKS {
            return Vec::new();
        }
        let axes = axes(image);
        let region = region(case, &axes, &array.shape, colours);
        let all = assembled(&array.chunks, &region, &array.filled(), |place| {
            let key: Vec<String> = place.iter().map(usize::to_string).collect();
            let answer = connection.get(&format!(
                "/zarr/{version}/{path}/{number}/{prefix}{}",
                key.join("/")
            ));
            if answer.status == 404 {
                assert!(
                    answer.problem().contains("never written"),
                    "{path}: {answer:?}"
                );
                return None;
            }
            assert_eq!(answer.status, 200, "{path}/{key:?}: {answer:?}");
            Some(array.decoded(&answer.body))
        });
        vec![block(all, &axes, array.dtype)]
    }
}
