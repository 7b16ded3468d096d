//! Neuroglancer's precomputed format: each chunk shape that `info` lists, as browsers and other
//! clients ask for it.

use std::io::Read;

use flate2::read::{GzDecoder, ZlibDecoder};
use ndarray::ArrayD;
use serde_json::Value;

use super::volumes::STORAGES;
use super::voxels::escaped;
use super::{Block, Case, Format, assembled, width};
use crate::common::wire::{Answer, Connection};

pub const BROWSER: [(&str, &str); 2] = [
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("User-Agent", "Mozilla/5.0"),
];
/// A client that cannot decode what HDF5 calls deflate.
pub const REQUESTS: [(&str, &str); 2] = [
    ("Accept-Encoding", "gzip, deflate, br"),
    ("User-Agent", "python-requests/2.32.5"),
];

/// A client, with the headers of its requests.
pub struct Precomputed(&'static str, &'static [(&'static str, &'static str)]);

pub const CLIENTS: [Precomputed; 3] = [
    Precomputed("precomputed, browser", &BROWSER),
    Precomputed("precomputed, requests", &REQUESTS),
    Precomputed("precomputed, plain", &[]),
];

/// A body without its content coding.
pub fn plain(answer: &Answer) -> Vec<u8> {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(
        answer.header("content-type"),
        Some("application/octet-stream")
    );
    assert!(
        answer
            .header("vary")
            .unwrap()
            .contains("Accept-Encoding, User-Agent")
    );
    let mut all = Vec::new();
    match answer.header("content-encoding") {
        None => all.clone_from(&answer.body),
        Some("deflate") => drop(
            ZlibDecoder::new(&answer.body[..])
                .read_to_end(&mut all)
                .unwrap(),
        ),
        Some("gzip") => drop(
            GzDecoder::new(&answer.body[..])
                .read_to_end(&mut all)
                .unwrap(),
        ),
        Some(other) => panic!("{other}"),
    }
    all
}

/// Decodes `compressed_segmentation` with blocks of 8 × 8 × 8; a label has `words` 32-bit words.
fn labels(file: &[u8], [x, y, z]: [usize; 3], words: usize) -> Vec<u64> {
    let file: Vec<u32> = file
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let channel = &file[file[0] as usize..];
    let (columns, rows) = (x.div_ceil(8), y.div_ceil(8));
    let label = |at: usize| {
        let (i, j, k) = (at % x, at / x % y, at / x / y);
        let block = 2 * (i / 8 + columns * (j / 8 + rows * (k / 8)));
        let (table, bits) = (
            (channel[block] & 0xff_ffff) as usize,
            channel[block] as usize >> 24,
        );
        let bit = bits * (i % 8 + 8 * (j % 8 + 8 * (k % 8)));
        let packed = if bits == 0 {
            0
        } else {
            channel[channel[block + 1] as usize + bit / 32] >> (bit % 32)
        };
        let index = (u64::from(packed) & ((1 << bits) - 1)) as usize;
        let entry = &channel[table + index * words..][..words];
        entry
            .iter()
            .rev()
            .fold(0, |label: u64, word| (label << 32) | u64::from(*word))
    };
    (0..x * y * z).map(label).collect()
}
fn triple(value: &Value) -> [i64; 3] {
    [0, 1, 2].map(|axis| value[axis].as_i64().unwrap())
}

impl Format for Precomputed {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn read(&self, connection: &mut Connection, case: &Case<'_>) -> Vec<Block> {
        // The content coding depends on how chunks are stored.
        if self.1 != BROWSER && case.token != STORAGES {
            return Vec::new();
        }
        let time = if case.has_times() {
            format!("@{}", case.time)
        } else {
            String::new()
        };
        let volume = format!(
            "/neuroglancer/{}/{}{time}",
            escaped(case.token),
            escaped(case.name())
        );
        let info = connection.get(&format!("{volume}/info"));
        if info.status != 200 {
            return Vec::new();
        }
        let info = info.json();
        let number = case.number().to_string();
        let scales = info["scales"].as_array().unwrap();
        let Some(scale) = scales.iter().find(|scale| scale["key"] == *number) else {
            return Vec::new();
        };
        let (size, offset) = (triple(&scale["size"]), triple(&scale["voxel_offset"]));
        let dtype = info["data_type"].as_str().unwrap().to_owned();
        let width = width(&dtype);
        let colours = info["num_channels"].as_u64().unwrap() as usize;
        let mut blocks = Vec::new();
        for [x, y, z] in scale["chunk_sizes"].as_array().unwrap().iter().map(triple) {
            let edges = [colours, z as usize, y as usize, x as usize];
            let [z, y, x] = case.region.clone();
            let region = [0..colours, z, y, x];
            let bytes = assembled(&edges, &region, &vec![0; width], |place| {
                let start = [0, 1, 2].map(|axis| (place[3 - axis] * edges[3 - axis]) as i64);
                let end =
                    [0, 1, 2].map(|axis| size[axis].min(start[axis] + edges[3 - axis] as i64));
                let name = [0, 1, 2].map(|axis| {
                    format!(
                        "{}-{}",
                        start[axis] + offset[axis],
                        end[axis] + offset[axis]
                    )
                });
                let target = format!("{volume}/{number}/{}", name.join("_"));
                let mut body = plain(&connection.ask("GET", &target, self.1));
                let [x, y, z] = [0, 1, 2].map(|axis| (end[axis] - start[axis]) as usize);
                if scale["encoding"] == "compressed_segmentation" {
                    let all = labels(&body, [x, y, z], width / 4);
                    body.clear();
                    for label in all {
                        body.extend_from_slice(&label.to_le_bytes()[..width]);
                    }
                }
                Some(ArrayD::from_shape_vec(vec![colours, z, y, x, width], body).expect(&target))
            });
            blocks.push(Block {
                dtype: dtype.clone(),
                bytes,
            });
        }
        blocks
    }
}
