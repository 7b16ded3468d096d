//! VikingXML: what Viking must know of a volume to ask for its tiles.
//!
//! The elements are those that `TileServerInfo.CreateFromElement` and `Volume.Initialize` of Viking's `VolumeModel` read,
//! as the ancestor's `xmlInfo` wrote them, with one difference: the ancestor rounded the size of the grid down, so that
//! Viking never asked for the tiles along two edges. Viking halves the grid from level to level and rounds up
//! (`OCPTileServerMapping.PopulateLevels`), and keeps the section number: levels that reduce z cannot be offered.

use std::fmt::Write;

use actix_web::HttpResponse;

use crate::catalog::{ChannelDescription, DatasetDescription};
use crate::geometry::{TILE, in_nanometres};
use crate::request::VIKING;

/// The XML of a dataset, as an answer. `mount` is the address of a mount.
pub(super) fn answer(dataset: &DatasetDescription, mount: &str) -> HttpResponse {
    HttpResponse::Ok().content_type("text/xml; charset=utf-8").body(volume(dataset, mount))
}

/// The XML of a dataset.
fn volume(dataset: &DatasetDescription, mount: &str) -> String {
    let host = escaped(&format!("{mount}/tilecache/{VIKING}"));
    let sections = sections(dataset);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <Volume name=\"{token}\" num_sections=\"{count}\" num_stos=\"0\" path=\"{host}\" host=\"{host}\" InputChecksum=\"\">\n",
        token = escaped(&dataset.token),
        count = sections.clone().count(),
    );
    // Writing to a string cannot fail.
    if let Some(length) = dataset.channels.iter().find_map(pixel) {
        let _ = writeln!(out, "  <Scale UnitsOfMeasure=\"nm\" UnitsPerPixel=\"{length}\"/>");
    }
    dataset.channels.iter().for_each(|channel| tile_server(&mut out, channel, &host));
    for number in sections {
        let _ = writeln!(out, "  <Section Number=\"{number}\"/>");
    }
    out.push_str("</Volume>\n");
    out
}

/// One element for each channel, because channels may differ in extent and levels.
fn tile_server(out: &mut String, channel: &ChannelDescription, host: &str) {
    let usable = channel.levels.iter().take_while(|level| {
        let [_, _, z] = level.factor;
        z == 1 && level.planes.contains(&"xy")
    });
    let (Some(last), Some(full)) = (usable.last(), channel.levels.first()) else { return };
    let [width, height, _] = full.size.map(|length| length.div_ceil(TILE as u64));
    let (name, dtype) = (escaped(&channel.name), escaped(channel.dtype));
    let _ = writeln!(
        out,
        "  <OCPTileServer CoordSpaceName=\"volume\" host=\"{host}\" FilePrefix=\"\" FilePostfix=\".png\" \
         TileXDim=\"{TILE}\" TileYDim=\"{TILE}\" GridXDim=\"{width}\" GridYDim=\"{height}\" MaxLevel=\"{}\">\n    \
         <Channel Name=\"{name}\" Path=\"{name}\" Datatype=\"{dtype}\"/>\n  </OCPTileServer>",
        last.level
    );
}

/// The numbers of all sections, as tiles' addresses have them.
fn sections(dataset: &DatasetDescription) -> impl Iterator<Item = i64> + Clone + use<> {
    let [_, _, first] = dataset.offset;
    let depth =
        dataset.channels.iter().filter_map(|channel| channel.levels.first()).map(|level| level.size[2]);
    let behind = first.saturating_add_unsigned(depth.max().unwrap_or(0));
    first.max(0)..behind
}

/// The width of a pixel in nanometres.
fn pixel(channel: &ChannelDescription) -> Option<f64> {
    let [x, _, _] = channel.voxel_size?;
    Some(x * channel.voxel_unit.as_deref().and_then(in_nanometres).unwrap_or(1.0))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
