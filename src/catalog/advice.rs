//! Warnings about channels that cannot be served well, with the command that fixes the problem.
//!
//! A tile is expensive if it reads or inflates more than [`MAX_BYTES`] (at half a gigabyte per
//! second, an eighth of a second of one core), or takes more than [`MAX_READS`] reads. If its level
//! is stored, the chunk shape does not suit the plane; otherwise the level should be stored.

use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use serde::Serialize;
use serde_json::{Value, json};
use voltile_base::description::{ChannelDescription, LevelDescription};
use voltile_base::geometry::Plane;
use voltile_hdf5::store::Location;

use super::{Inspection, LevelCost, TileCost};

/// The maximum number of bytes that a tile should read or inflate.
const MAX_BYTES: u64 = 64 << 20;
/// The maximum number of reads for a tile.
const MAX_READS: u64 = 4096;

/// Why a channel cannot be served well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The name of the channel.
    pub channel: String,
    /// The problem.
    pub problem: String,
    /// The command that fixes it, if there is one.
    pub mend: Option<String>,
}

impl Inspection {
    /// The description, with the costs added to each level, and attributes and warnings at the top
    /// level.
    pub fn json(&self, warnings: &[Warning]) -> Result<Value, serde_json::Error> {
        let mut value = serde_json::to_value(&self.description)?;
        for (number, costs) in self.costs.iter().enumerate() {
            for (level, cost) in costs.iter().enumerate() {
                let described = value.pointer_mut(&format!("/channels/{number}/levels/{level}"));
                if let (Some(Value::Object(level)), Value::Object(cost)) =
                    (described, serde_json::to_value(cost)?)
                {
                    level.extend(cost);
                }
            }
        }
        if let Some(object) = value.as_object_mut() {
            object.insert("attributes".to_owned(), json!(self.attributes));
            object.insert("warnings".to_owned(), json!(warnings));
        }
        Ok(value)
    }
}

/// All warnings about a file's channels.
pub fn warnings(inspection: &Inspection, file: &Location) -> Vec<Warning> {
    let channels = inspection
        .description
        .channels
        .iter()
        .zip(&inspection.costs);
    channels
        .flat_map(|(channel, costs)| channel_warnings(channel, costs, file))
        .collect()
}

/// A level and its costs.
type CostedLevel<'a> = (&'a LevelDescription, &'a LevelCost);

fn channel_warnings(
    channel: &ChannelDescription,
    costs: &[LevelCost],
    file: &Location,
) -> Vec<Warning> {
    let levels: Vec<CostedLevel<'_>> = channel.levels.iter().zip(costs).collect();
    let mut problems = Vec::new();
    for (level, cost) in &levels {
        if let Some(damage) = &cost.damage
            && level.path.is_some()
        {
            problems.push((damage.clone(), None));
        }
    }
    let expensive = expensive_planes(&levels);
    if let Some(problem) = storage_problem(&levels, &expensive) {
        problems.push((problem, Some(rechunk(file))));
    }
    if let Some(problem) = unstored_problem(&levels, &expensive) {
        problems.push((problem, Some(store_levels(file))));
    }
    let warnings = problems.into_iter().map(|(problem, mend)| Warning {
        channel: channel.name.clone(),
        problem,
        mend,
    });
    warnings.collect()
}

fn is_expensive(tile: &TileCost) -> bool {
    tile.cost.reads > MAX_READS || tile.cost.bytes_read.max(tile.cost.bytes_inflated) > MAX_BYTES
}

/// The planes in which a tile of any stored level is expensive.
fn expensive_planes(levels: &[CostedLevel<'_>]) -> Vec<Plane> {
    let stored = levels.iter().filter(|(level, _)| level.path.is_some());
    let mut planes = Plane::ALL.to_vec();
    planes.retain(|plane| {
        let mut tiles = stored
            .clone()
            .filter_map(|(_, cost)| cost.tile.get(plane.name()));
        tiles.any(is_expensive)
    });
    planes
}

/// Why tiles of stored levels are expensive in the expensive planes; `None` if there are none.
fn storage_problem(levels: &[CostedLevel<'_>], expensive: &[Plane]) -> Option<String> {
    // Only stored levels have a storage.
    let worst_by_level = levels.iter().filter_map(|(level, cost)| {
        let worst = expensive
            .iter()
            .filter_map(|plane| cost.tile.get(plane.name()))
            .max_by_key(|tile| cost_in_bytes(tile))?;
        Some((level.storage.as_ref()?, *worst))
    });
    let (storage, worst) = worst_by_level.max_by_key(|(_, worst)| cost_in_bytes(worst))?;
    let because = match &storage.chunk {
        None => "its data is contiguous, row after row".to_owned(),
        Some(chunk) if worst.cost.reads > MAX_READS => {
            format!("its chunks {chunk:?} are small or narrow")
        }
        Some(chunk) => format!("its chunks {chunk:?} are large, or lie across the plane"),
    };
    Some(format!(
        "a tile in {} takes {}: {because}",
        plane_names(expensive),
        cost_text(&worst)
    ))
}

/// The problem with levels that are not stored, if some are expensive or not served in all planes.
/// Planes in which stored levels are expensive are ignored: there, storing more levels is no cure.
fn unstored_problem(levels: &[CostedLevel<'_>], expensive: &[Plane]) -> Option<String> {
    let mut numbers = Vec::new();
    let mut tiles = Vec::new();
    let mut are_all_offered = true;
    for (level, cost) in levels {
        let planes = Plane::ALL.iter().filter(|plane| !expensive.contains(plane));
        let level_tiles = planes.filter_map(|plane| cost.tile.get(plane.name()));
        let has_all_planes = level.planes.len() == Plane::ALL.len();
        let should_be_stored = !has_all_planes || level_tiles.clone().any(is_expensive);
        if level.path.is_none() && should_be_stored {
            numbers.push(level.level.to_string());
            tiles.extend(level_tiles);
            are_all_offered &= has_all_planes;
        }
    }
    let worst = tiles.into_iter().max_by_key(cost_in_bytes);
    let takes = worst.map_or(String::new(), |worst| {
        format!(", and a tile takes up to {}", cost_text(&worst))
    });
    let limit = if are_all_offered {
        ""
    } else {
        "; in some planes, a tile needs more voxels than render.max_voxels_per_tile allows"
    };
    match numbers.as_slice() {
        [] => None,
        [number] => Some(format!("the level {number} is not stored{takes}{limit}")),
        numbers => Some(format!(
            "the levels {} are not stored{takes}{limit}",
            numbers.join(", ")
        )),
    }
}

/// The cost of a tile, where a read counts as the bytes that could be transferred in the same time.
fn cost_in_bytes(tile: &TileCost) -> u64 {
    tile.cost
        .bytes_read
        .max(tile.cost.bytes_inflated)
        .saturating_add(tile.cost.reads.saturating_mul(MAX_BYTES / MAX_READS))
}

/// The cost of reading a tile in words, e.g. `3 reads, 1.0 MiB in all, which inflate to 2.0 MiB`.
fn cost_text(tile: &TileCost) -> String {
    let cost = tile.cost;
    let bytes = ByteSize(cost.bytes_read);
    let (reads, inflate) = match cost.reads {
        1 => (format!("one read of {bytes}"), "inflates"),
        reads => (format!("{reads} reads, {bytes} in all"), "inflate"),
    };
    match cost.bytes_inflated {
        0 => reads,
        bytes => format!("{reads}, which {inflate} to {}", ByteSize(bytes)),
    }
}

fn plane_names(planes: &[Plane]) -> String {
    match planes {
        [xy, xz, yz] => format!("{}, {} and {}", xy.name(), xz.name(), yz.name()),
        fewer => {
            let names: Vec<_> = fewer.iter().map(|plane| plane.name()).collect();
            names.join(" and ")
        }
    }
}

/// The command that writes a copy in chunks that suit all planes.
fn rechunk(file: &Location) -> String {
    let stem = file.stem().unwrap_or_default();
    let name = format!("{stem}.rechunked.h5");
    // The copy of an object is written to the working directory: nothing is written to a store.
    let out = file
        .path()
        .map_or_else(|| PathBuf::from(&name), |path| path.with_file_name(&name));
    format!(
        "voltile pyramid {} --rechunk {}",
        shell_quoted(file.as_path()),
        shell_quoted(&out)
    )
}

/// The command that computes the levels that a file lacks.
fn store_levels(file: &Location) -> String {
    if file.is_remote() {
        return rechunk(file);
    }
    format!("voltile pyramid {}", shell_quoted(file.as_path()))
}

/// A path quoted for the shell.
fn shell_quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text
        .chars()
        .all(|letter| letter.is_alphanumeric() || "/._-+,:@%".contains(letter))
    {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
