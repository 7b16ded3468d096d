//! Neuroglancer, and other clients of its precomputed format: `info`, and chunks on the grid that it describes.
//!
//! From its sources: `parseMultiscaleVolumeInfo` and `PrecomputedMultiscaleVolumeChunkSource`
//! (`datasource/precomputed`), and `decodeRawChunk` and `decodeCompressedSegmentationChunk` (`sliceview/backend_chunk_decoders`).
//! It takes 404 for a chunk without data. cloud-volume accepts the content coding `deflate` in words, and then fails on
//! it.

use serde::Deserialize;

use super::Viewer;
use super::answer::{Codec, ORIGIN};
use super::report::{Checked, Report};
use crate::base::description::{ChannelDescription, DatasetDescription, SiteDescription};
use crate::tools::client::{Answer, Client, Method};

/// The content codings that browsers accept.
const BROWSER: &[(&str, &str)] = &[("Origin", ORIGIN), ("Accept-Encoding", "gzip, deflate, br, zstd")];
/// cloud-volume's headers.
const PYTHON: &[(&str, &str)] =
    &[("User-Agent", "python-requests/2.32.5"), ("Accept-Encoding", "gzip, deflate, br")];

pub(super) fn play(client: &Client, site: &SiteDescription, report: &mut Report) {
    for dataset in &site.datasets {
        for channel in &dataset.channels {
            let subject = format!("{} {}", dataset.token, channel.name);
            let mut add = |check, checked| report.add(Some(Viewer::Neuroglancer), check, &subject, checked);
            if let Some(reason) = channel.left_out.get("neuroglancer") {
                add("info", Ok(Some(format!("it is left out: {reason}"))));
                continue;
            }
            match Volume::read(client, &root(dataset, channel)) {
                Err(reason) => add("info", Err(reason)),
                Ok(volume) => {
                    add("info", Ok(None));
                    add("chunks", volume.chunks(client, BROWSER));
                    add("python", volume.chunks(client, PYTHON));
                    add("grid", volume.beyond(client));
                }
            }
        }
    }
}

fn root(dataset: &DatasetDescription, channel: &ChannelDescription) -> String {
    let time = if channel.times.is_some() { "@0" } else { "" };
    format!("/neuroglancer/{}/{}{time}", dataset.token, channel.name)
}

/// `info`; triples are x, y, z.
#[derive(Debug, Deserialize)]
struct Info {
    #[serde(rename = "@type")]
    kind: String,
    data_type: String,
    num_channels: u64,
    scales: Vec<Scale>,
}

#[derive(Debug, Deserialize)]
struct Scale {
    key: String,
    size: [u64; 3],
    resolution: [f64; 3],
    voxel_offset: [i64; 3],
    chunk_sizes: Vec<[u64; 3]>,
    encoding: String,
}

/// A precomputed volume, as its clients see it.
pub(super) struct Volume {
    root: String,
    /// The bytes of a voxel, all components together.
    voxel: u64,
    scales: Vec<Scale>,
}

impl Volume {
    /// Reads `info` below a URL or path.
    pub(super) fn read(client: &Client, root: &str) -> Result<Self, String> {
        let answer = client.ask(&Method::GET, &format!("{root}/info"), BROWSER)?.found()?;
        answer.is_shared()?;
        let info: Info = serde_json::from_slice(&answer.body).map_err(|e| answer.wrong(e))?;
        if info.kind != "neuroglancer_multiscale_volume" {
            return Err(answer.wrong(format!("its @type is {:?}", info.kind)));
        }
        let bytes = match info.data_type.as_str() {
            "uint8" | "int8" => 1,
            "uint16" | "int16" => 2,
            "uint32" | "int32" | "float32" => 4,
            "uint64" => 8,
            other => return Err(answer.wrong(format!("the format has no data_type {other:?}"))),
        };
        let decreases = |pair: &[Scale]| {
            let [finer, coarser] = pair else { return false };
            finer.resolution.iter().zip(coarser.resolution).any(|(finer, coarser)| coarser < *finer)
        };
        if info.scales.is_empty() || info.scales.iter().any(|scale| scale.chunk_sizes.is_empty()) {
            return Err(answer.wrong("it lists no scales, or a scale without a chunk shape"));
        }
        if info.scales.windows(2).any(decreases) {
            return Err(answer.wrong("its scales are not in the order of their resolution, finest first"));
        }
        Ok(Self { root: root.to_owned(), voxel: bytes * info.num_channels, scales: info.scales })
    }

    /// The first and the last chunk of every shape at every scale, which must exist and have the right length.
    fn chunks(&self, client: &Client, headers: &[(&str, &str)]) -> Checked {
        for scale in &self.scales {
            for shape in &scale.chunk_sizes {
                for is_last in [false, true] {
                    let (url, voxels) = scale.chunk(&self.root, *shape, is_last);
                    let answer = client.ask(&Method::GET, &url, headers)?.found()?;
                    if headers.iter().any(|(_, value)| *value == ORIGIN) {
                        answer.is_shared()?;
                    }
                    scale.check(&answer, voxels * self.voxel, headers)?;
                }
            }
        }
        Ok(None)
    }

    /// A chunk off the grid does not exist.
    fn beyond(&self, client: &Client) -> Checked {
        let Some(scale) = self.scales.first() else { return Ok(None) };
        let [x, y, z] = scale.size.map(|edge| edge + 1);
        let answer =
            client.get(&format!("{}/{}/{x}-{}_{y}-{}_{z}-{}", self.root, scale.key, x + 1, y + 1, z + 1))?;
        match answer.status {
            404 => Ok(None),
            status => Err(answer.wrong(format!("it is not a chunk of the grid, but the status is {status}"))),
        }
    }

    /// The first chunk of the first scale, which CATMAID's `checkCanary` names by its whole shape.
    pub(super) fn canary(&self, client: &Client) -> Checked {
        let Some(scale) = self.scales.first() else { return Ok(None) };
        let Some(shape) = scale.chunk_sizes.first() else { return Ok(None) };
        let bounds =
            scale.voxel_offset.iter().zip(shape).map(|(at, edge)| format!("{at}-{}", at + *edge as i64));
        let bounds = bounds.collect::<Vec<_>>().join("_");
        let answer = client.ask(&Method::GET, &format!("{}/{}/{bounds}", self.root, scale.key), BROWSER)?;
        answer.found()?.is_shared()?;
        Ok(None)
    }
}

impl Scale {
    /// The URL of the first or the last chunk of a shape, and its number of voxels.
    fn chunk(&self, root: &str, shape: [u64; 3], is_last: bool) -> (String, u64) {
        let mut voxels = 1;
        let along = |axis: usize| {
            let (size, edge) = (self.size[axis], shape[axis].max(1));
            let start = if is_last { size.saturating_sub(1) / edge * edge } else { 0 };
            let end = (start + edge).min(size);
            voxels *= end - start;
            let at = |place: u64| self.voxel_offset[axis] + place as i64;
            format!("{}-{}", at(start), at(end))
        };
        let bounds = [0, 1, 2].map(along).join("_");
        (format!("{root}/{}/{bounds}", self.key), voxels)
    }

    /// Whether a body decodes to a chunk of so many bytes, with a coding that the client can decode.
    fn check(&self, answer: &Answer, bytes: u64, headers: &[(&str, &str)]) -> Result<(), String> {
        let coding = answer.header("content-encoding").unwrap_or("identity");
        let is_python = headers == PYTHON;
        let is_raw = self.encoding == "raw";
        let codec = match coding {
            "identity" => Codec::None,
            "gzip" => Codec::Gzip,
            "deflate" if is_python => return Err(answer.wrong("it is deflate, on which cloud-volume fails")),
            "deflate" => Codec::Zlib,
            other => {
                return Err(answer.wrong(format!("its Content-Encoding is {other}, which few clients know")));
            }
        };
        // Compressed segmentations have no length that is known beforehand; gzip states it in its last four bytes.
        let stated = answer.body.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
        let decoded = answer.decoded(codec, if is_raw { bytes } else { stated.into() })?;
        let length = decoded.len();
        if is_raw && length as u64 != bytes {
            return Err(answer.wrong(format!("it has {length} bytes; a chunk of this extent has {bytes}")));
        }
        // One channel: its data begin at the second 32-bit word.
        if !is_raw && decoded.first_chunk().map(|word| u32::from_le_bytes(*word)) != Some(1) {
            return Err(answer.wrong("it does not begin as compressed_segmentation does"));
        }
        Ok(())
    }
}
