//! The documents of Zarr v2.

use serde_json::{Map, Value, json};
use voltile_base::request::{LABELS, ZarrDocument, ZarrNode, ZarrVersion};
use voltile_hdf5::volume::VoxelType;
use voltile_render::plan::Coding;

use super::{fill, ome};
use crate::catalog::{ArrayLevel, Multiscale, NotFound, ZarrImage};

/// A document of a group or an array.
pub(super) fn document(
    image: &ZarrImage,
    node: &ZarrNode,
    document: ZarrDocument,
) -> Result<Value, NotFound> {
    match (node, document) {
        (ZarrNode::Image, ZarrDocument::Consolidated) => Ok(consolidated(image)),
        (ZarrNode::Array(label, level), ZarrDocument::Array) => {
            let arrays = image.arrays(label.as_ref())?;
            Ok(array(&arrays, arrays.level(*level)?))
        }
        (ZarrNode::Array(label, level), ZarrDocument::Attributes) => {
            let arrays = image.arrays(label.as_ref())?;
            arrays.level(*level)?;
            Ok(array_attributes(&arrays))
        }
        (ZarrNode::Image | ZarrNode::Labels | ZarrNode::Label(_), ZarrDocument::Attributes) => {
            attributes(image, node)
        }
        (ZarrNode::Image | ZarrNode::Labels | ZarrNode::Label(_), ZarrDocument::Group) => {
            // A group without attributes does not exist.
            attributes(image, node).map(|_| group())
        }
        (_, document) => {
            let name = match document {
                ZarrDocument::Group => ".zgroup",
                ZarrDocument::Attributes => ".zattrs",
                ZarrDocument::Array => ".zarray",
                ZarrDocument::Consolidated => ".zmetadata",
                ZarrDocument::Metadata => "zarr.json",
            };
            let problem = format!("this group or array has no {name}");
            Err(NotFound::Other(problem))
        }
    }
}

pub(super) fn group() -> Value {
    json!({"zarr_format": 2})
}

/// The attributes of a group. In OME-Zarr 0.4, each part of the metadata names the version.
fn attributes(image: &ZarrImage, node: &ZarrNode) -> Result<Value, NotFound> {
    let mut attributes = match node {
        ZarrNode::Labels => ome::labels(image)?,
        ZarrNode::Label(name) => ome::label(&image.label(name)?, name.as_str()),
        _ => ome::image(image),
    };
    for part in ["/multiscales/0", "/omero", "/image-label"] {
        if let Some(part) = attributes.pointer_mut(part) {
            part["version"] = ZarrVersion::V04.name().into();
        }
    }
    Ok(attributes)
}

/// The names of the axes, as xarray expects them.
pub(super) fn array_attributes(arrays: &Multiscale<'_>) -> Value {
    json!({"_ARRAY_DIMENSIONS": arrays.axes.letters()})
}

fn array(arrays: &Multiscale<'_>, level: &ArrayLevel) -> Value {
    let format = level.as_stored(arrays.voxel());
    let compressor = match format.coding {
        Coding::Identity => Value::Null,
        Coding::Zlib => json!({"id": "zlib", "level": 1}),
        Coding::Gzip => json!({"id": "gzip", "level": 1}),
        Coding::Zstd => json!({"id": "zstd", "level": 1}),
    };
    json!({
        "zarr_format": 2,
        "shape": arrays.shape(level),
        "chunks": arrays.chunk_shape(level),
        "dtype": dtype(arrays.voxel(), format.is_big_endian),
        "compressor": compressor,
        "filters": null,
        "fill_value": fill::value(level.fill.as_ref(), arrays.voxel()),
        "order": "C",
        "dimension_separator": "/",
    })
}

/// NumPy's type string: byte order, the initial of the type's name, and its bytes; `<u2` is
/// little-endian uint16.
pub(super) fn dtype(voxel: VoxelType, is_big_endian: bool) -> String {
    let order = match (voxel.stored_bytes(), is_big_endian) {
        (1, _) => "|",
        (_, true) => ">",
        (_, false) => "<",
    };
    format!("{order}{}{}", &voxel.name()[..1], voxel.stored_bytes())
}

/// The groups of an image, each with the prefix of its documents' keys, its attributes, and its
/// arrays if it is a multiscale group.
pub(super) fn groups(image: &ZarrImage) -> Vec<(String, Value, Option<Multiscale<'_>>)> {
    let mut nodes = vec![
        (String::new(), ZarrNode::Image, Some(image.multiscale())),
        (format!("{LABELS}/"), ZarrNode::Labels, None),
    ];
    for name in image.labels() {
        let node = ZarrNode::Label(name.clone());
        nodes.push((format!("{LABELS}/{name}/"), node, image.label(name).ok()));
    }
    // An image without labels has no group of labels.
    let groups = nodes.into_iter().filter_map(|(prefix, node, arrays)| {
        Some((prefix, attributes(image, &node).ok()?, arrays))
    });
    groups.collect()
}

/// `.zmetadata` of an image: all of its documents.
fn consolidated(image: &ZarrImage) -> Value {
    let mut metadata = Map::new();
    for (prefix, attributes, arrays) in groups(image) {
        metadata.insert(format!("{prefix}.zgroup"), group());
        metadata.insert(format!("{prefix}.zattrs"), attributes);
        let Some(arrays) = arrays else { continue };
        for level in arrays.levels {
            let place = format!("{prefix}{}", level.level.number());
            metadata.insert(format!("{place}/.zarray"), array(&arrays, level));
            metadata.insert(format!("{place}/.zattrs"), array_attributes(&arrays));
        }
    }
    zmetadata(&metadata)
}

/// The content of `.zmetadata` that holds these documents, by key.
pub(super) fn zmetadata(metadata: &Map<String, Value>) -> Value {
    json!({"zarr_consolidated_format": 1, "metadata": metadata})
}
