//! VikingXML: the description of a volume that Viking needs to request tiles.
//!
//! The elements are the ones that are read by `TileServerInfo.CreateFromElement` and
//! `Volume.Initialize` of Viking's `VolumeModel`, as ndstore's `xmlInfo` wrote them, with one
//! difference: ndstore rounded the size of the grid down, so that Viking never requested the tiles
//! along two edges. Viking halves the grid from level to level and rounds up
//! (`OCPTileServerMapping.PopulateLevels`), and uses the same section number at all levels: levels
//! that reduce z cannot be offered.

use std::io::{self, Write};
use std::ops::Range;

use voltile_base::description::{ChannelDescription, DatasetDescription};
use voltile_base::geometry::{Plane, TILE};
use voltile_base::request::VIKING;
use voltile_base::units;

use crate::http::escape::in_markup;

/// Writes the XML of a dataset. `mount` is the URL of a mount.
pub(super) fn write(
    dataset: &DatasetDescription,
    mount: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let host = in_markup(&format!("{mount}/tilecache/{VIKING}"));
    let sections = sections(dataset);
    write!(
        out,
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <Volume name=\"{token}\" num_sections=\"{count}\" num_stos=\"0\" path=\"{host}\" host=\"{host}\" InputChecksum=\"\">\n",
        token = in_markup(dataset.address()),
        count = sections.end.saturating_sub(sections.start).max(0),
    )?;
    if let Some(length) = dataset.channels.iter().find_map(pixel_width) {
        writeln!(
            out,
            "  <Scale UnitsOfMeasure=\"nm\" UnitsPerPixel=\"{length}\"/>"
        )?;
    }
    for channel in &dataset.channels {
        tile_server(out, channel, &host)?;
    }
    for number in sections {
        writeln!(out, "  <Section Number=\"{number}\"/>")?;
    }
    out.write_all(b"</Volume>\n")
}

/// Writes a channel's element. Each channel has one, because channels may differ in extent and
/// levels.
fn tile_server(out: &mut impl Write, channel: &ChannelDescription, host: &str) -> io::Result<()> {
    let usable = channel.levels.iter().take_while(|level| {
        let [_, _, z] = level.factor;
        z == 1 && level.is_offered(Plane::Xy)
    });
    let (Some(last), Some(full)) = (usable.last(), channel.levels.first()) else {
        return Ok(());
    };
    let [width, height, _]: [u64; 3] = channel
        .end(full)
        .map(|length| length.div_ceil(TILE as u64))
        .into();
    let name = in_markup(&channel.name);
    let dtype = in_markup(&channel.dtype);
    writeln!(
        out,
        "  <OCPTileServer CoordSpaceName=\"volume\" host=\"{host}\" FilePrefix=\"\" FilePostfix=\".png\" \
         TileXDim=\"{TILE}\" TileYDim=\"{TILE}\" GridXDim=\"{width}\" GridYDim=\"{height}\" MaxLevel=\"{}\">\n    \
         <Channel Name=\"{name}\" Path=\"{name}\" Datatype=\"{dtype}\"/>\n  </OCPTileServer>",
        last.level
    )
}

/// The numbers of all sections, as in tile paths.
fn sections(dataset: &DatasetDescription) -> Range<i64> {
    let [_, _, first] = dataset.offset;
    let depth = dataset
        .channels
        .iter()
        .filter_map(|channel| Some(channel.end(channel.levels.first()?).z));
    let end = first.saturating_add_unsigned(depth.max().unwrap_or(0));
    // Paths have no negative numbers.
    first.max(0)..end
}

/// The width of a pixel in nanometres.
fn pixel_width(channel: &ChannelDescription) -> Option<f64> {
    Some(channel.facts.voxel_size?.x * units::nanometres(channel.facts.voxel_unit.as_deref()))
}
