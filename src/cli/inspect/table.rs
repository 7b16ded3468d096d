//! The contents of a file as text.
//!
//! Names, labels and units come from the file: each is escaped, so that none can move a terminal's
//! cursor or imitate another line. Writing to a string cannot fail, so results are ignored.

use std::fmt::Write;

use voltile_base::description::{ChannelDescription, LevelDescription, StorageDescription};
use voltile_base::geometry::{Plane, Xyz};
use voltile_base::units::{self, bytes};

use crate::catalog::advice::Warning;
use crate::catalog::{Inspection, LevelCost};
use crate::cli::output::{counted, escaped};

pub(super) fn table(inspection: &Inspection, warnings: &[Warning], configuration: &str) -> String {
    let description = &inspection.description;
    let mut out = format!("token      {}\n", description.token);
    for channel in &description.channels {
        let _ = writeln!(out, "{}", in_one_line(channel));
    }
    for recognised in &description.layouts {
        let _ = writeln!(
            out,
            "layout     {}: {}",
            recognised.layout,
            escaped(&recognised.because)
        );
    }
    for (channel, costs) in description.channels.iter().zip(&inspection.costs) {
        describe_channel(&mut out, channel, costs);
    }
    for notice in description.notices.iter().flatten() {
        let severity = notice.severity.name();
        let about = escaped(&notice.about);
        let text = escaped(&notice.text);
        let _ = writeln!(out, "\n{severity:<10} {about}: {text}");
    }
    for warning in warnings {
        let problem = escaped(&warning.problem);
        let _ = writeln!(out, "\nwarning    {}: {problem}", warning.channel);
        if let Some(mend) = &warning.mend {
            let _ = writeln!(out, "  fix it   {}", escaped(mend));
        }
    }
    let _ = writeln!(
        out,
        "\nTo serve it with your own configuration:\n\n{configuration}"
    );
    out
}

/// Summarises a channel in a line, for the list at the top.
fn in_one_line(channel: &ChannelDescription) -> String {
    let size = channel.levels.first().map(|level| level.size);
    let [x, y, z] = size.unwrap_or_default();
    let mut line = format!(
        "  {:<16} {} of {}, {x} × {y} × {z}",
        channel.name, channel.kind, channel.dtype
    );
    if let Some(times) = channel.times {
        let _ = write!(line, ", {}", counted(times, "time"));
    }
    if let Some(size) = channel.facts.voxel_size {
        let voxel = voxel_text(size, channel.facts.voxel_unit.as_deref());
        let _ = write!(line, ", voxels of {voxel}");
    }
    if let Some([lo, hi]) = channel.window {
        let _ = write!(line, ", shown from {lo} to {hi}");
    }
    line
}

fn describe_channel(out: &mut String, channel: &ChannelDescription, costs: &[LevelCost]) {
    let facts = &channel.facts;
    let _ = write!(out, "\nchannel    {}", channel.name);
    if let Some(label) = &facts.label {
        let _ = write!(out, " ({})", escaped(label));
    }
    let _ = writeln!(out, ": {} of {}", channel.kind, channel.dtype);
    if let Some(reason) = &facts.labels_because {
        let _ = writeln!(out, "  kind     labels, because {}", escaped(reason));
    }
    if let Some([x, y, z]) = channel.offset.filter(|offset| *offset != [0; 3]) {
        let _ = writeln!(
            out,
            "  offset   {x}, {y}, {z} voxels (x, y, z) from the first channel"
        );
    }
    if !channel.missing.is_empty() {
        let values = channel.missing.join(", ");
        let _ = writeln!(
            out,
            "  missing  {values} (black, and left out of windows and means)"
        );
    }
    if let Some(times) = channel.times {
        let _ = writeln!(out, "  times    {times}");
    }
    if let Some(size) = facts.voxel_size {
        let voxel = voxel_text(size, facts.voxel_unit.as_deref());
        let _ = writeln!(out, "  voxel    {voxel} (x × y × z)");
    }
    if let Some(transform) = &channel.transform
        && let Some(words) = &transform.in_words
    {
        let _ = writeln!(out, "  space    {}", escaped(words));
    }
    if let Some([lo, hi]) = channel.window {
        let _ = writeln!(out, "  window   {lo} to {hi}");
    }
    let _ = writeln!(
        out,
        "  level    size (x × y × z)       factor      read (inflated) for a tile: xy, xz, yz"
    );
    for (level, cost) in channel.levels.iter().zip(costs) {
        describe_level(out, level, cost);
    }
    for (level, cost) in channel.levels.iter().zip(costs) {
        if let (Some(path), Some(storage)) = (&level.path, &level.storage) {
            describe_storage(out, path, storage, cost);
        }
    }
}

/// A voxel size with its unit; in nanometres if an edge is shorter than a thousandth of the unit.
fn voxel_text(size: Xyz<f64>, unit: Option<&str>) -> String {
    let is_tiny = size.x.min(size.y).min(size.z) < 1e-3;
    let (size, unit) = match unit.and_then(units::in_nanometres) {
        Some(factor) if is_tiny => (size.map(|edge| edge * factor), "nm".to_owned()),
        _ => (size, unit.map_or("of an unknown unit".to_owned(), escaped)),
    };
    // Seven significant digits (`.6e` prints six after the first): 32-bit floats hold no more.
    let Xyz { x, y, z } = size.map(|edge| format!("{edge:.6e}").parse().unwrap_or(edge));
    format!("{x} × {y} × {z} {unit}")
}

fn describe_level(out: &mut String, level: &LevelDescription, cost: &LevelCost) {
    let tiles = Plane::ALL.map(|plane| match cost.tile.get(plane.name()) {
        _ if !level.is_offered(plane) => "not offered".to_owned(),
        Some(tile) if tile.cost.bytes_inflated == 0 => bytes(tile.cost.bytes_read),
        Some(tile) => format!(
            "{} ({})",
            bytes(tile.cost.bytes_read),
            bytes(tile.cost.bytes_inflated)
        ),
        None => "unknown".to_owned(),
    });
    let tiles = tiles.join(", ");
    let size = level.size.map(|extent| extent.to_string()).join(" × ");
    let factor = level.factor.map(|factor| factor.to_string()).join(" × ");
    let from = match (&level.path, &level.sidecar) {
        (Some(_), Some(sidecar)) => format!("from {}", escaped(sidecar)),
        (Some(_), None) => "stored".to_owned(),
        (None, _) => "made".to_owned(),
    };
    let _ = writeln!(
        out,
        "  {:<8} {size:<22} {factor:<11} {tiles} ({from})",
        level.level
    );
    if let Some(requests) = requests_text(cost) {
        let _ = writeln!(out, "  fetched  {requests}");
    }
}

fn describe_storage(out: &mut String, path: &str, storage: &StorageDescription, cost: &LevelCost) {
    let axes = cost.axes.as_deref().unwrap_or_default();
    let _ = write!(
        out,
        "  stored   {}, {:?} by the axes {axes}, {}",
        escaped(path),
        storage.shape,
        storage.layout
    );
    if let Some(chunk) = &storage.chunk {
        let _ = write!(out, " in {chunk:?}");
    }
    let filters = match storage.filters.as_slice() {
        [] => "none".to_owned(),
        filters => escaped(&filters.join(", ")),
    };
    let _ = writeln!(out, "; filters: {filters}");
    if let Some(tally) = &cost.stored {
        let raw = bytes(tally.raw_bytes);
        let _ = write!(out, "           {raw} in {}", bytes(tally.stored_bytes));
        if let Some(ratio) = cost.compression {
            let _ = write!(out, ", {ratio:.2} to 1");
        }
        if storage.chunk.is_some() {
            let written = tally.chunks_written;
            let _ = write!(out, "; {written} of {} chunks written", tally.chunks);
        }
        if tally.datasets > 1 {
            let _ = write!(out, "; in {} datasets of it", tally.datasets);
        }
        if tally.unreadable > 0 {
            let _ = write!(out, "; {} could not be read", tally.unreadable);
        }
        out.push('\n');
    }
    let _ = writeln!(out, "           read {}", escaped(&storage.reading));
    describe_pass_through(out, cost);
}

/// Says for each kind of client whether stored chunks are sent to it unchanged.
fn describe_pass_through(out: &mut String, cost: &LevelCost) {
    for (client, pass) in [("Neuroglancer", &cost.neuroglancer), ("Zarr", &cost.zarr)] {
        let Some(pass) = pass else { continue };
        let words = match (pass.passed_through, &pass.problem) {
            (true, _) => format!("sent to {client} as stored"),
            (false, None) => format!("encoded for {client}"),
            (false, Some(problem)) => format!("encoded for {client}: {}", escaped(problem)),
        };
        let _ = writeln!(out, "           {words}");
    }
}

/// The requests to a store that a tile of each plane takes; `None` for local files.
fn requests_text(cost: &LevelCost) -> Option<String> {
    let mut planes = Vec::new();
    for plane in Plane::ALL {
        let Some(store) = cost.tile.get(plane.name()).and_then(|tile| tile.store) else {
            continue;
        };
        planes.push(format!(
            "{}: {}, {}, {}",
            plane.name(),
            counted(store.requests, "request"),
            bytes(store.bytes),
            counted(store.round_trips, "round trip")
        ));
    }
    (!planes.is_empty()).then(|| planes.join("; "))
}
