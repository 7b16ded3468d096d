//! Neuroglancer, and other clients of its precomputed format: `info`, and chunks on the grid that it describes.
//!
//! From its sources: `parseMultiscaleVolumeInfo` and `PrecomputedMultiscaleVolumeChunkSource`
//! (`datasource/precomputed`), and `decodeRawChunk` and `decodeCompressedSegmentationChunk` (`sliceview/backend_chunk_decoders`).
//! It takes 404 for a chunk without data.

use serde::Deserialize;

use super::report::Report;
use super::request::{Codec, Header, Need, ORIGIN, Request, document};
use crate::base::description::SiteDescription;
use crate::tools::client::Client;

/// The content codings that browsers accept.
const BROWSER: &[Header] = &[ORIGIN, ("Accept-Encoding", "gzip, deflate, br, zstd")];
/// cloud-volume's headers.
const PYTHON: &[Header] =
    &[("User-Agent", "python-requests/2.32.5"), ("Accept-Encoding", "gzip, deflate, br")];

pub(super) fn play(client: &Client, site: &SiteDescription, report: &mut Report) {
    for dataset in &site.datasets {
        for channel in &dataset.channels {
            let subject = format!("{} {}", dataset.token, channel.name);
            if let Some(reason) = channel.left_out.get("neuroglancer") {
                report.add("info", &subject, Ok(Some(format!("it is left out: {reason}"))));
                continue;
            }
            let time = if channel.times.is_some() { "@0" } else { "" };
            let root = format!("/neuroglancer/{}/{}{time}", dataset.token, channel.name);
            if let Some(volume) = report.read("info", &subject, Volume::read(client, &root)) {
                report.run(client, &subject, &volume.requests());
            }
        }
    }
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
        let (info, answer): (Info, _) = document(client, &format!("{root}/info"), BROWSER)?;
        let decreases = |pair: &[Scale]| {
            let [finer, coarser] = pair else { return false };
            finer.resolution.iter().zip(coarser.resolution).any(|(finer, coarser)| coarser < *finer)
        };
        let bytes = match info.data_type.as_str() {
            _ if info.kind != "neuroglancer_multiscale_volume" => {
                return Err(answer.wrong(format!("its @type is {:?}", info.kind)));
            }
            "uint8" | "int8" => 1,
            "uint16" | "int16" => 2,
            "uint32" | "int32" | "float32" => 4,
            "uint64" => 8,
            other => return Err(answer.wrong(format!("the format has no data_type {other:?}"))),
        };
        if info.scales.is_empty() || info.scales.iter().any(|scale| scale.chunk_sizes.is_empty()) {
            return Err(answer.wrong("it lists no scales, or a scale without a chunk shape"));
        }
        if info.scales.windows(2).any(decreases) {
            return Err(answer.wrong("its scales are not in the order of their resolution, finest first"));
        }
        Ok(Self { root: root.to_owned(), voxel: bytes * info.num_channels, scales: info.scales })
    }

    fn requests(&self) -> Vec<Request> {
        let mut requests = self.chunks("chunks", BROWSER, &[Need::Found, Need::Shared]);
        requests.extend(self.chunks("python", PYTHON, &[Need::Found]));
        requests.extend(self.scales.first().map(|scale| {
            let [x, y, z] = scale.size.map(|edge| edge + 1);
            let url = format!("{}/{}/{x}-{}_{y}-{}_{z}-{}", self.root, scale.key, x + 1, y + 1, z + 1);
            Request::get("grid", url, &[], [Need::Missing("it is not a chunk of the grid")])
        }));
        requests
    }

    /// The first and the last chunk of every shape at every scale, which must exist and have the right length.
    fn chunks(&self, check: &'static str, headers: &'static [Header], needs: &[Need]) -> Vec<Request> {
        let shapes =
            self.scales.iter().flat_map(|scale| scale.chunk_sizes.iter().map(move |shape| (scale, shape)));
        let both = shapes
            .flat_map(|(scale, shape)| [false, true].map(|is_last| (scale, scale.chunk(*shape, is_last))));
        let request = |(scale, (bounds, voxels)): (&Scale, (String, u64))| {
            let codec = Codec::Named { is_cloud_volume: headers == PYTHON };
            let mut needs = needs.to_vec();
            needs.push(match scale.encoding.as_str() {
                "raw" => Need::Bytes(codec, voxels * self.voxel),
                _ => Need::Segmentation(codec),
            });
            Request::get(check, format!("{}/{}/{bounds}", self.root, scale.key), headers, needs)
        };
        both.map(request).collect()
    }

    /// The first chunk of the first scale, which CATMAID's `checkCanary` names by its whole shape.
    pub(super) fn canary(&self) -> Vec<Request> {
        let first = self.scales.first().and_then(|scale| Some((scale, scale.chunk_sizes.first()?)));
        let request = |(scale, shape): (&Scale, &[u64; 3])| {
            let bounds =
                scale.voxel_offset.iter().zip(shape).map(|(at, edge)| format!("{at}-{}", at + *edge as i64));
            let url = format!("{}/{}/{}", self.root, scale.key, bounds.collect::<Vec<_>>().join("_"));
            Request::get("chunks", url, BROWSER, [Need::Found, Need::Shared])
        };
        first.map(request).into_iter().collect()
    }
}

impl Scale {
    /// The bounds of the first or the last chunk of a shape, as in URLs, and its number of voxels.
    fn chunk(&self, shape: [u64; 3], is_last: bool) -> (String, u64) {
        let mut voxels = 1;
        let bounds = [0, 1, 2].map(|axis: usize| {
            let (size, edge) = (self.size[axis], shape[axis].max(1));
            let start = if is_last { size.saturating_sub(1) / edge * edge } else { 0 };
            let end = (start + edge).min(size);
            voxels *= end - start;
            let number = |place: u64| self.voxel_offset[axis] + place as i64;
            format!("{}-{}", number(start), number(end))
        });
        (bounds.join("_"), voxels)
    }
}
