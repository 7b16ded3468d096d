//! What limits, in plain words, and what would help: told from the stages that were measured and from the cost that a
//! tile is known to have (`voltile inspect` tells the same). Pure functions over rows.
//!
//! The stage that takes most of a tile's time limits it. Where that is getting at voxels, it is asked why so much has to
//! be read: because the level is made of a finer one, or because chunks suit the plane badly. They do where a tile reads
//! more than twice what it would of cubes of 64 voxels, the shape that `voltile pyramid --rechunk` gives, and more than one
//! such cube: of less no other shape would take less.

use std::collections::BTreeMap;

use bytesize::ByteSize;
use serde::Serialize;

use super::row::{Row, State, Subject};
use crate::catalog::TileCost;
use crate::geometry::{Axis, Plane, Xyz};

/// The side of the cubes that chunks are compared with.
const CUBE: u64 = 64;
/// From how many times the voxels of a tile on a made level is one that should be stored.
const MADE_OF_MANY: f64 = 3.0;

/// What takes most of a tile's time, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Chunks, or lines of data in one piece, lie across the plane: too much is read for what is shown.
    ChunkShape,
    /// The level is not stored, and made of many voxels for every tile.
    MadeLevel,
    /// Bytes come from the disk.
    Disk,
    /// Stored bytes are copied from the system's cache.
    Memory,
    /// Chunks are decoded.
    Inflate,
    /// The HDF5 library reads, one thread at a time.
    Library,
    /// Threads wait for a chunk that one of them decodes.
    Waiting,
    /// Slices are put together, averaged, windowed and coloured.
    Drawing,
    /// PNGs are encoded.
    Encoder,
    /// Names are looked up and keys made: tiles are cheap.
    Planning,
}

/// What would help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Help {
    /// A copy in other chunks: `voltile pyramid FILE --rechunk OUT`.
    Rechunk,
    /// Storing the levels that are made: `voltile pyramid FILE`.
    StoreLevels,
    /// A faster disk, or more memory, in which the system keeps what was read.
    FasterDisk,
    /// A larger `cache.chunks`.
    MoreChunksKept,
    /// A filter that is undone faster, or none.
    LighterFilter,
    /// More threads, on more cores.
    MoreThreads,
    /// `png = "fast"`.
    FastPng,
    /// A larger `cache.tiles`, so that what was encoded is not encoded again.
    MoreTilesKept,
}

/// What was found of some rows that are limited alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The dataset.
    pub token: String,
    /// The channel.
    pub channel: String,
    /// What was in memory before.
    pub state: State,
    /// Which rows, in words.
    pub rows: String,
    /// What limits them.
    pub limit: Limit,
    /// The least and the greatest share of a tile's time that it takes.
    pub share: [f64; 2],
    /// The same in words, with the reason.
    pub says: String,
    /// What would help, best first.
    pub helps: Vec<Help>,
}

/// What is known of one row.
#[derive(Debug, Clone)]
struct Evidence<'a> {
    row: &'a Row,
    subject: &'a Subject,
    /// The planes that it asks for, the one that reads most in vain first.
    planes: Vec<(&'a str, &'a TileCost)>,
}

/// The verdicts on rows, those that are limited alike together. `small` says that PNGs are made small rather than fast.
pub fn verdicts(rows: &[Row], subjects: &[Subject], small: bool) -> Vec<Verdict> {
    let mut groups: BTreeMap<(&str, &str, State, Limit), Vec<Evidence<'_>>> = BTreeMap::new();
    let fewest = rows.iter().map(|row| row.threads).min();
    for row in rows.iter().filter(|row| Some(row.threads) == fewest && row.tiles > 0) {
        let own = |subject: &&Subject| {
            (&subject.token, &subject.channel, subject.level) == (&row.token, &row.channel, row.level)
        };
        let Some(subject) = subjects.iter().find(own) else { continue };
        let evidence = Evidence::new(row, subject);
        let key = (row.token.as_str(), row.channel.as_str(), row.state, evidence.limit());
        groups.entry(key).or_default().push(evidence);
    }
    let verdict = |((token, channel, state, limit), group): ((&str, &str, State, Limit), Vec<_>)| {
        of_group(token, channel, state, limit, &group, small)
    };
    groups.into_iter().map(verdict).collect()
}

/// What is read or inflated, whichever is more.
fn bytes(tile: &TileCost) -> u64 {
    tile.cost.bytes_read.max(tile.cost.bytes_inflated)
}

/// How many times what is wanted is read.
fn amplification(tile: &TileCost) -> u64 {
    bytes(tile) / tile.bytes_wanted.max(1)
}

impl<'a> Evidence<'a> {
    fn new(row: &'a Row, subject: &'a Subject) -> Self {
        let cost = |plane: &'a str| Some((plane, subject.tile.get(plane)?));
        let mut planes: Vec<_> = row.plane.split('+').filter_map(cost).collect();
        planes.sort_by_key(|(_, tile)| std::cmp::Reverse(amplification(tile)));
        Self { row, subject, planes }
    }

    /// How many times what is wanted is read, in the worst plane.
    fn amplification(&self) -> u64 {
        self.planes.first().map_or(0, |(_, tile)| amplification(tile))
    }

    fn limit(&self) -> Limit {
        let stages = self.row.stages;
        let (_, way) = greatest(&[
            (stages.read, if self.is_from_disk() { Limit::Disk } else { Limit::Memory }),
            (stages.inflate, Limit::Inflate),
            (stages.library, Limit::Library),
        ]);
        let (most, other) = greatest(&[
            (stages.wait, Limit::Waiting),
            (stages.draw, Limit::Drawing),
            (stages.encode, Limit::Encoder),
            (stages.plan, Limit::Planning),
        ]);
        let access = stages.read + stages.inflate + stages.library;
        let getting_at_voxels = access >= most;
        if (getting_at_voxels || other == Limit::Drawing) && self.is_made_of_many() {
            return Limit::MadeLevel;
        }
        match getting_at_voxels {
            true if self.lies_across() => Limit::ChunkShape,
            true => way,
            false => other,
        }
    }

    /// The share of a tile's time that its limit takes.
    fn share(&self) -> f64 {
        let stages = self.row.stages;
        let access = stages.read + stages.inflate + stages.library;
        let time = match self.limit() {
            Limit::MadeLevel => access + stages.draw,
            Limit::ChunkShape => access,
            Limit::Disk | Limit::Memory => stages.read,
            Limit::Inflate => stages.inflate,
            Limit::Library => stages.library,
            Limit::Waiting => stages.wait,
            Limit::Drawing => stages.draw,
            Limit::Encoder => stages.encode,
            Limit::Planning => stages.plan,
        };
        time / stages.sum().max(f64::MIN_POSITIVE)
    }

    fn is_from_disk(&self) -> bool {
        self.row.state == State::Disk && self.row.is_from_disk() != Some(false)
    }

    fn is_made_of_many(&self) -> bool {
        let wanted = self.planes.iter().map(|(_, tile)| tile.bytes_wanted).max().unwrap_or(0);
        self.subject.made && wanted as f64 >= MADE_OF_MANY * self.row.voxel_bytes
    }

    fn lies_across(&self) -> bool {
        let Some((plane, tile)) = self.planes.first() else { return false };
        let axis = Plane::from_name(plane).map_or(Axis::Z, Plane::slice_axis);
        // Of cubes it would read so many slices; a volume that is flatter has no more.
        let of_cubes = tile.bytes_wanted.saturating_mul(CUBE.min(Xyz::from(self.subject.size)[axis]));
        bytes(tile) > CUBE.pow(3).max(2 * of_cubes)
    }

    /// Why so much is read, where that is why.
    fn because(&self) -> String {
        let Some((plane, tile)) = self.planes.first() else { return String::new() };
        let cost = tile.cost;
        let inflated = match cost.bytes_inflated {
            0 => String::new(),
            bytes => format!(" that come to {}", ByteSize(bytes)),
        };
        let takes = format!(
            "a tile in {plane} takes {} of {}{inflated}, for {} of voxels",
            if cost.reads == 1 { "one read".to_owned() } else { format!("{} reads", cost.reads) },
            ByteSize(cost.bytes_read),
            ByteSize(tile.bytes_wanted)
        );
        let storage = self.subject.storage.as_ref();
        match (self.limit(), storage.map(|storage| &storage.chunk)) {
            (Limit::ChunkShape, Some(Some(chunk))) => {
                format!("{takes}: chunks of {chunk:?} lie across the plane, or are large")
            }
            (Limit::ChunkShape, Some(None)) => {
                format!("{takes}: the voxels lie in one piece, line after line")
            }
            (Limit::MadeLevel, _) => format!("the level is not stored, and {takes}"),
            (Limit::Disk | Limit::Inflate, _) => takes,
            (Limit::Library, _) => storage.map(|storage| storage.reading.clone()).unwrap_or_default(),
            _ => String::new(),
        }
    }

    fn helps(&self, small: bool) -> Vec<Help> {
        let filters = self.subject.storage.iter().flat_map(|storage| &storage.filters);
        let slow = ["deflate", "bzip2", "szip", "nbit", "scaleoffset"];
        let is_slow = filters.into_iter().any(|filter| slow.iter().any(|name| filter.starts_with(name)));
        // What is asked for again should be found decoded.
        let forgets = self.row.state == State::Warm && self.row.chunks.decoded > 0;
        match self.limit() {
            Limit::ChunkShape | Limit::Library => vec![Help::Rechunk],
            Limit::MadeLevel => vec![Help::StoreLevels],
            Limit::Disk => vec![Help::FasterDisk],
            Limit::Inflate if forgets => vec![Help::MoreChunksKept, Help::MoreThreads],
            Limit::Inflate if is_slow => vec![Help::MoreThreads, Help::LighterFilter],
            Limit::Encoder if small => vec![Help::FastPng, Help::MoreTilesKept],
            Limit::Encoder => vec![Help::MoreThreads, Help::MoreTilesKept],
            Limit::Inflate | Limit::Memory | Limit::Drawing | Limit::Planning => vec![Help::MoreThreads],
            Limit::Waiting => Vec::new(),
        }
    }
}

fn greatest(stages: &[(f64, Limit)]) -> (f64, Limit) {
    let nothing = (f64::MIN, Limit::Planning);
    stages.iter().fold(nothing, |most, stage| if stage.0 > most.0 { *stage } else { most })
}

fn of_group(
    token: &str,
    channel: &str,
    state: State,
    limit: Limit,
    group: &[Evidence<'_>],
    small: bool,
) -> Verdict {
    let shares = || group.iter().map(Evidence::share);
    let share = [shares().fold(f64::MAX, f64::min), shares().fold(0.0, f64::max)];
    // The one that it concerns most tells why.
    let worst = group.iter().rev().max_by_key(|evidence| evidence.amplification());
    let because = worst.map(Evidence::because).filter(|text| !text.is_empty());
    let because = because.map(|text| format!("; {text}")).unwrap_or_default();
    let says = format!("{} takes {} of a tile's time{because}", words(limit), percent(share));
    Verdict {
        token: token.to_owned(),
        channel: channel.to_owned(),
        state,
        rows: named(group),
        limit,
        share,
        says,
        helps: worst.map(|evidence| evidence.helps(small)).unwrap_or_default(),
    }
}

fn words(limit: Limit) -> &'static str {
    match limit {
        Limit::ChunkShape => "reading what chunks hold beside what is shown",
        Limit::MadeLevel => "making the level of finer voxels",
        Limit::Disk => "the disk",
        Limit::Memory => "copying what is stored from the system's cache",
        Limit::Inflate => "inflating chunks",
        Limit::Library => "reading through the HDF5 library",
        Limit::Waiting => "waiting for chunks that another thread decodes",
        Limit::Drawing => "drawing",
        Limit::Encoder => "encoding PNGs",
        Limit::Planning => "finding out what is asked for",
    }
}

fn percent([least, greatest]: [f64; 2]) -> String {
    let [least, greatest] = [least, greatest].map(|share| (100.0 * share).round());
    if least == greatest { format!("{least} %") } else { format!("{least} to {greatest} %") }
}

/// Rows in words: `level 0 random xy, xz, scroll xy; level 1 walk`.
fn named(group: &[Evidence<'_>]) -> String {
    let mut levels: BTreeMap<u8, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for Evidence { row, .. } in group {
        levels.entry(row.level).or_default().entry(row.pattern.name()).or_default().push(&row.plane);
    }
    let pattern = |(pattern, planes): (&str, Vec<&str>)| format!("{pattern} {}", planes.join(", "));
    let level = |(level, patterns): (u8, BTreeMap<&str, Vec<&str>>)| {
        format!("level {level} {}", patterns.into_iter().map(pattern).collect::<Vec<_>>().join(", "))
    };
    levels.into_iter().map(level).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
pub(super) mod tests;
