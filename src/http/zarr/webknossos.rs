//! `datasource-properties.json`: a dataset for WEBKNOSSOS, whose layers are the OME-Zarr images of single channels.
//!
//! Source: the "DatasetProperties" of WEBKNOSSOS's Python library. Layers have one type each, and magnifications are powers of two.

use serde_json::{Map, Value, json};

use super::ome::Space;
use crate::base::paint::{Kind, Window};
use crate::base::request::{VersionedToken, ZarrVersion};
use crate::catalog::{Catalog, Channel, Multiscale, NotFound};
use crate::geometry::Xyz;
use crate::volume::VoxelType;

/// The document of a dataset. Channels that WEBKNOSSOS cannot show are left out.
pub(super) fn document(
    catalog: &Catalog,
    token: &VersionedToken,
    version: ZarrVersion,
) -> Result<Value, NotFound> {
    let dataset = catalog.known(token)?;
    let (mut layers, mut space) = (Vec::new(), None);
    for channel in dataset.listed() {
        // A channel may have no chunks that are small enough.
        let Ok(image) = catalog.image(token, Some(&channel.name)) else { continue };
        let arrays = image.multiscale();
        space.get_or_insert_with(|| Space::new(&arrays));
        layers.extend(layer(&arrays, channel, version));
    }
    let voxel = space.as_ref().map_or(Xyz::all(1.0), |space| space.voxel);
    let unit = space.and_then(|space| space.unit).unwrap_or("nanometer");
    Ok(json!({
        "id": {"name": dataset.token.as_str(), "team": ""},
        "dataLayers": layers,
        "scale": {"factor": [voxel.x, voxel.y, voxel.z], "unit": unit},
        "version": 1,
    }))
}

fn layer(arrays: &Multiscale<'_>, channel: &Channel, version: ZarrVersion) -> Option<Value> {
    let letters = arrays.axes().letters();
    let order: Map<String, Value> =
        letters.iter().enumerate().map(|(place, letter)| (letter.to_string(), json!(place))).collect();
    let mags =
        arrays.levels().iter().filter(|level| level.factor.map(u64::is_power_of_two) == Xyz::all(true));
    let mags: Vec<Value> = mags
        .map(|level| {
            let Xyz { x, y, z } = level.factor;
            let path = format!("./{}.ome.zarr/{}", channel.name, level.level.number());
            json!({"mag": [x, y, z], "path": path, "axisOrder": order})
        })
        .collect();
    let Xyz { x, y, z } = channel.size();
    let axes =
        arrays.axes().times.map(|times| json!({"name": "t", "bounds": [0, times], "index": order.get("t")}));
    let window = channel.window().filter(|window| *window != Window::AsStored && channel.kind == Kind::Image);
    let view = window.map(|window| {
        let (start, end) = window.limits();
        json!({"intensityRange": [start.min(end), start.max(end)], "isInverted": start > end})
    });
    Some(json!({
        // Names of layers do not begin with a dot.
        "name": channel.name.as_str().trim_start_matches('.'),
        "category": if channel.kind == Kind::Labels { "segmentation" } else { "color" },
        "boundingBox": {"topLeft": [0, 0, 0], "width": x, "height": y, "depth": z},
        "additionalAxes": axes.as_slice(),
        "elementClass": element_class(channel)?,
        "dataFormat": if version == ZarrVersion::V04 { "zarr" } else { "zarr3" },
        "numChannels": if channel.kind == Kind::Rgb { 3 } else { 1 },
        "mags": mags,
        "defaultViewConfiguration": view,
    }))
}

/// WEBKNOSSOS's name of the voxels' type; `None` if it has no such voxels.
fn element_class(channel: &Channel) -> Option<&'static str> {
    match (channel.kind, channel.voxel) {
        (Kind::Rgb, VoxelType::U8) => Some("uint24"),
        (Kind::Rgb, _) | (_, VoxelType::Bool | VoxelType::F16) => None,
        (_, VoxelType::F32) => Some("float"),
        (_, VoxelType::F64) => Some("double"),
        (_, voxel) => Some(voxel.name()),
    }
}
