//! The file `info`, which describes a volume to Neuroglancer and other readers of the precomputed
//! format.

use serde::Serialize;
use utoipa::ToSchema;
use voltile_base::request::SEGMENT_PROPERTIES;

use crate::catalog::Precomputed;

/// The block shape of `compressed_segmentation`.
const BLOCK: [u64; 3] = [8; 3];

/// A volume in the precomputed format. All triples are x, y, z.
#[derive(Debug, Serialize, ToSchema)]
pub struct VolumeInfo {
    /// Always `neuroglancer_multiscale_volume`.
    #[serde(rename = "@type")]
    kind: &'static str,
    /// `image` or `segmentation`.
    r#type: &'static str,
    /// The type of its values.
    data_type: &'static str,
    /// The number of values per voxel: 3 for RGB.
    num_channels: usize,
    /// The levels, finest first.
    scales: Vec<ScaleInfo>,
    /// The folder with names and properties of labels; absent if they have none, or too many for
    /// Neuroglancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    segment_properties: Option<&'static str>,
}

/// A level in the precomputed format.
#[derive(Debug, Serialize, ToSchema)]
struct ScaleInfo {
    /// The number of the level.
    key: String,
    /// The extent in voxels.
    size: [u64; 3],
    /// The size of a voxel in nanometres; 1 at full resolution if it is unknown.
    resolution: [f64; 3],
    /// The position of the first voxel, in voxels of the level.
    voxel_offset: [i64; 3],
    /// The chunk shapes; most clients use the first.
    chunk_sizes: Vec<[u64; 3]>,
    /// `raw` or `compressed_segmentation`.
    encoding: &'static str,
    /// The block shape; only for `compressed_segmentation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    compressed_segmentation_block_size: Option<[u64; 3]>,
}

impl VolumeInfo {
    pub(super) fn new(precomputed: &Precomputed, has_properties: bool) -> Self {
        let encoding = precomputed.encoding;
        let scales = precomputed.scales.iter().map(|scale| ScaleInfo {
            key: scale.level.number().to_string(),
            size: scale.size.into(),
            resolution: scale.resolution.into(),
            voxel_offset: scale.offset.into(),
            chunk_sizes: scale
                .chunk_sizes
                .iter()
                .map(|&shape| shape.into())
                .collect(),
            encoding: if encoding.is_compressed {
                "compressed_segmentation"
            } else {
                "raw"
            },
            compressed_segmentation_block_size: encoding.is_compressed.then_some(BLOCK),
        });
        Self {
            kind: "neuroglancer_multiscale_volume",
            r#type: if encoding.is_segmentation {
                "segmentation"
            } else {
                "image"
            },
            data_type: encoding.data_type(),
            num_channels: precomputed.components,
            scales: scales.collect(),
            segment_properties: has_properties.then_some(SEGMENT_PROPERTIES),
        }
    }
}
