//! The layouts and channels that are discovered in the real files of the shared data next to the
//! project.
//!
//! The expectations are in `layouts_genuine.txt`: a line for each file with its layout, and below
//! it one for each channel: name, label in the file, kind, axes, size (x, y, z), factors of the
//! levels along x, time points, voxel size, display range, colour; `-` for none.
//! `scripts/extra/real-files` compares pixels.

use std::path::Path;

use crate::common::made::{axes, found, size};
use crate::common::shared_data;
use voltile::layout::{FoundChannel, FoundLevel, Paths};

const EXPECTED: &str = include_str!("layouts_genuine.txt");

/// The layout and the channels that are discovered in a file, in the form of the list.
fn described(name: &str, path: &Path) -> String {
    let found = found(path);
    let channels: String = found
        .channels
        .iter()
        .map(|channel| format!("    {}\n", line(path, channel)))
        .collect();
    format!("{name}: {}\n{channels}", found.layout)
}

fn line(path: &Path, channel: &FoundChannel) -> String {
    let label = channel.facts.label.as_deref().unwrap_or("-");
    let [x, y, z] = size(path, channel);
    let factor = |level: &FoundLevel| {
        level
            .factor
            .map_or("?".to_owned(), |factor| factor.x.to_string())
    };
    let levels: Vec<String> = channel.levels.iter().map(factor).collect();
    let times = match &channel.levels[0].paths {
        Paths::Times(times) => times.len().to_string(),
        _ => "-".to_owned(),
    };
    let unit = channel.facts.voxel_unit.as_deref().unwrap_or("?");
    let voxel = channel.facts.voxel_size.map_or("-".to_owned(), |size| {
        format!("{},{},{} {unit}", size.x, size.y, size.z)
    });
    let range = channel
        .range
        .map_or("-".to_owned(), |range| range.to_string());
    let (kind, colour) = (
        channel.kind.name(),
        channel.facts.colour.as_deref().unwrap_or("-"),
    );
    format!(
        "{} ({label}) {kind} {} {x}x{y}x{z} levels {} times {times} voxel {voxel} range {range} colour {colour}",
        channel.name,
        axes(channel),
        levels.join(","),
    )
}

#[test]
fn real_files_open_with_everything_that_they_describe() {
    let Some(data) = shared_data() else { return };
    let blocks = EXPECTED
        .split("\n\n")
        .filter(|block| !block.trim().is_empty());
    for block in blocks {
        let (name, _) = block
            .split_once(": ")
            .expect("a block begins with the file");
        assert_eq!(described(name, &data.join(name)).trim(), block.trim());
    }
}
