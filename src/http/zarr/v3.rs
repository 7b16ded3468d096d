//! The documents of Zarr v3: one for each group and array.

use serde_json::{Map, Value, json};
use voltile_base::request::{LABELS, ZarrNode, ZarrVersion};

use super::{fill, ome};
use crate::catalog::{ArrayLevel, Multiscale, NotFound, ZarrImage};

/// The document of a group or an array. A group's document repeats the documents of all nodes
/// below it, in the form that zarr-python calls consolidated metadata: a group cannot be listed
/// over HTTP.
pub(super) fn document(image: &ZarrImage, node: &ZarrNode) -> Result<Value, NotFound> {
    let mut below = Map::new();
    let metadata = match node {
        ZarrNode::Image => {
            add_arrays(&mut below, "", &image.multiscale());
            if let Ok(labels) = ome::labels(image) {
                below.insert(LABELS.to_owned(), group(labels));
                add_labels(&mut below, &format!("{LABELS}/"), image)?;
            }
            ome::image(image)
        }
        ZarrNode::Labels => {
            add_labels(&mut below, "", image)?;
            ome::labels(image)?
        }
        ZarrNode::Label(name) => {
            let arrays = image.label(name)?;
            add_arrays(&mut below, "", &arrays);
            ome::label(&arrays, name.as_str())
        }
        ZarrNode::Array(label, level) => {
            let arrays = image.arrays(label.as_ref())?;
            return Ok(array(&arrays, arrays.level(*level)?));
        }
    };
    let mut document = group(metadata);
    document["consolidated_metadata"] =
        json!({"kind": "inline", "must_understand": false, "metadata": below});
    Ok(document)
}

/// The document of a group. The facts that OME-Zarr cannot express are moved out of its metadata,
/// into an attribute beside it.
fn group(mut metadata: Value) -> Value {
    metadata["version"] = ZarrVersion::V05.name().into();
    let fields = metadata.as_object_mut();
    let own = fields.and_then(|fields| fields.remove(ome::OWN));
    let mut attributes = json!({"ome": metadata});
    if let Some(own) = own {
        attributes[ome::OWN] = own;
    }
    json!({"zarr_format": 3, "node_type": "group", "attributes": attributes})
}

/// Adds the documents of all label images and their arrays.
fn add_labels(
    documents: &mut Map<String, Value>,
    prefix: &str,
    image: &ZarrImage,
) -> Result<(), NotFound> {
    for name in image.labels() {
        let arrays = image.label(name)?;
        let metadata = ome::label(&arrays, name.as_str());
        documents.insert(format!("{prefix}{name}"), group(metadata));
        add_arrays(documents, &format!("{prefix}{name}/"), &arrays);
    }
    Ok(())
}

/// Adds the documents of the arrays of a multiscale group.
fn add_arrays(documents: &mut Map<String, Value>, prefix: &str, arrays: &Multiscale<'_>) {
    for level in arrays.levels {
        documents.insert(
            format!("{prefix}{}", level.level.number()),
            array(arrays, level),
        );
    }
}

fn array(arrays: &Multiscale<'_>, level: &ArrayLevel) -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": arrays.shape(level),
        "data_type": arrays.voxel().name(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": arrays.chunk_shape(level)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill::value(level.fill.as_ref(), arrays.voxel()),
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "zstd", "configuration": {"level": 1, "checksum": false}},
        ],
        "dimension_names": arrays.axes.letters(),
        "attributes": {},
    })
}
