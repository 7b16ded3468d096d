//! The documents of Zarr v3: one for each group and array.

use serde_json::{Value, json};

use super::{fill, ome};
use crate::catalog::{ArrayLevel, Image, Multiscale, NotFound};
use crate::request::{ZarrNode, ZarrVersion};

/// The document of a group or an array.
pub(super) fn document(image: &Image, node: &ZarrNode) -> Result<Value, NotFound> {
    Ok(match node {
        ZarrNode::Image => group(ome::image(image, ZarrVersion::V05)),
        ZarrNode::Labels => group(ome::labels(image)?),
        ZarrNode::Label(name) => group(ome::label(&image.label(name)?, name.as_str(), ZarrVersion::V05)),
        ZarrNode::Array(label, level) => {
            let arrays = label.as_ref().map_or_else(|| Ok(image.multiscale()), |label| image.label(label))?;
            array(&arrays, arrays.level(*level)?)
        }
    })
}

fn group(mut ome: Value) -> Value {
    ome["version"] = ZarrVersion::V05.name().into();
    json!({"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}})
}

fn array(arrays: &Multiscale<'_>, level: &ArrayLevel) -> Value {
    let names: Vec<String> = arrays.axes().letters().into_iter().map(String::from).collect();
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": arrays.shape(level),
        "data_type": arrays.voxel().name(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": arrays.chunk_shape(level)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill::value(level, arrays.voxel()),
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "zstd", "configuration": {"level": 1, "checksum": false}},
        ],
        "dimension_names": names,
        "attributes": {},
    })
}
