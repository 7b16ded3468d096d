//! Finds the bottleneck and what would help, from the measured stages and from the calculated cost
//! of a tile (the same as in `voltile inspect`). Pure functions over rows.
//!
//! The stage that takes most of a tile's time is the bottleneck. If that is reading voxels, the
//! verdict says why so much has to be read: the level is computed from a finer one, or the chunk
//! shape does not suit the plane. The latter is the case if a tile reads more than twice what it
//! would with chunks of 64 × 64 × 64 voxels, the shape that `voltile pyramid --rechunk` writes, and
//! more than one such chunk: below that no other shape would be better.

use std::collections::BTreeMap;

use bytesize::ByteSize;
use serde::Serialize;

use super::pattern::Course;
use super::row::{Row, Stages, State, Subject};
use super::server_work::ReadTimes;
use crate::catalog::{TileCost, advice};
use crate::geometry::{Axis, Plane, Xyz};

/// The side of the cubic chunks used for comparison.
const CUBE: u64 = 64;
/// A computed level is said to need storing if a tile reads at least this many times its voxels.
const DERIVED_FROM_MANY: f64 = 3.0;

/// What would help: its name, and how.
const MORE_THREADS: (&str, &str) = ("more_threads", "more cores, and render.threads to use them");
const LIGHTER_FILTER: (&str, &str) = (
    "lighter_filter",
    "a filter that decodes faster, such as lz4 or zstd, or none",
);
const MORE_CHUNKS_KEPT: (&str, &str) = (
    "more_chunks_kept",
    "a larger cache.chunks, so that chunks are found decoded",
);
const MORE_TILES_KEPT: (&str, &str) = (
    "more_tiles_kept",
    "a larger cache.tiles, so that tiles requested again are not rendered again",
);

/// What takes most of a tile's time, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Chunks, or rows of contiguous data, lie across the plane: too much is read for what is
    /// shown.
    ChunkShape,
    /// The level is not stored, and computed from many voxels for every tile.
    MadeLevel,
    /// Reading from disk.
    Disk,
    /// Copying stored bytes from the page cache.
    Memory,
    /// Decoding chunks.
    Inflate,
    /// Reading through the HDF5 library, one thread at a time.
    Library,
    /// Waiting for a chunk that another thread decodes.
    Waiting,
    /// Assembling, averaging, windowing and colouring slices.
    Drawing,
    /// Encoding PNGs.
    Encoder,
    /// Looking up names and computing keys: tiles are cheap.
    Planning,
}

/// What would help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Help {
    /// Its name, for programs.
    pub help: &'static str,
    /// In words: the command or the setting.
    pub how: String,
}

/// The verdict on rows with the same bottleneck.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The dataset.
    pub token: String,
    /// The channel.
    pub channel: String,
    /// What was in memory before.
    pub state: State,
    /// The rows, in words.
    pub rows: String,
    /// The bottleneck.
    pub limit: Limit,
    /// The smallest and the largest share of a tile's time that it takes.
    pub share: [f64; 2],
    /// The bottleneck in words, with the reason.
    pub says: String,
    /// What would help, best first.
    pub helps: Vec<Help>,
}

/// A row with its subject, and the bottleneck.
#[derive(Debug, Clone)]
struct Evidence<'a> {
    row: &'a Row,
    subject: &'a Subject,
    /// The planes that it requests, the one with the worst read amplification first.
    planes: Vec<(&'a str, &'a TileCost)>,
    limit: Limit,
    /// The share of a tile's time that the bottleneck takes.
    share: f64,
}

/// The verdicts, one for each group of rows with the same bottleneck. `small` means that PNGs are
/// compressed for size rather than speed.
pub fn verdicts(rows: &[Row], subjects: &[Subject], small: bool) -> Vec<Verdict> {
    let mut groups: BTreeMap<(&str, &str, State, Limit), Vec<Evidence<'_>>> = BTreeMap::new();
    let fewest = rows.iter().map(|row| row.threads).min();
    for row in rows
        .iter()
        .filter(|row| Some(row.threads) == fewest && row.tiles > 0)
    {
        let Course {
            token,
            channel,
            level,
            ..
        } = &row.course;
        let own = |subject: &&Subject| {
            (&subject.token, &subject.channel, subject.level) == (token, channel, *level)
        };
        let Some(subject) = subjects.iter().find(own) else {
            continue;
        };
        let evidence = Evidence::new(row, subject);
        groups
            .entry((token, channel, row.state, evidence.limit))
            .or_default()
            .push(evidence);
    }
    groups
        .values()
        .filter_map(|group| verdict(group, small))
        .collect()
}

/// Bytes read or inflated, whichever is more.
fn bytes(tile: &TileCost) -> u64 {
    tile.cost.bytes_read.max(tile.cost.bytes_inflated)
}

/// Bytes read per byte needed.
fn amplification(tile: &TileCost) -> u64 {
    bytes(tile) / tile.bytes_wanted.max(1)
}

impl<'a> Evidence<'a> {
    fn new(row: &'a Row, subject: &'a Subject) -> Self {
        let cost = |plane: &'a str| Some((plane, subject.tile.get(plane)?));
        let mut planes: Vec<_> = row.course.plane.split('+').filter_map(cost).collect();
        planes.sort_by_key(|(_, tile)| std::cmp::Reverse(amplification(tile)));
        let mut evidence = Self {
            row,
            subject,
            planes,
            limit: Limit::Planning,
            share: 0.0,
        };
        let (time, limit) = evidence.bottleneck();
        (evidence.limit, evidence.share) = (limit, time / row.stages.sum().max(f64::MIN_POSITIVE));
        evidence
    }

    /// The read amplification in the worst plane.
    fn amplification(&self) -> u64 {
        self.planes
            .first()
            .map_or(0, |(_, tile)| amplification(tile))
    }

    /// What takes most of a tile's time, and how much.
    fn bottleneck(&self) -> (f64, Limit) {
        let Stages {
            plan,
            reading:
                ReadTimes {
                    read,
                    inflate,
                    library,
                    wait,
                },
            draw,
            encode,
        } = self.row.stages;
        let is_from_disk = self.row.state == State::Disk && self.row.is_from_disk() != Some(false);
        let way = greatest(&[
            (
                read,
                if is_from_disk {
                    Limit::Disk
                } else {
                    Limit::Memory
                },
            ),
            (inflate, Limit::Inflate),
            (library, Limit::Library),
        ]);
        let other = greatest(&[
            (wait, Limit::Waiting),
            (draw, Limit::Drawing),
            (encode, Limit::Encoder),
            (plan, Limit::Planning),
        ]);
        let access = read + inflate + library;
        let is_access = access >= other.0;
        if (is_access || other.1 == Limit::Drawing) && self.is_derived_from_many() {
            (access + draw, Limit::MadeLevel)
        } else if !is_access {
            other
        } else if self.lies_across() {
            (access, Limit::ChunkShape)
        } else {
            way
        }
    }

    fn is_derived_from_many(&self) -> bool {
        let wanted = self
            .planes
            .iter()
            .map(|(_, tile)| tile.bytes_wanted)
            .max()
            .unwrap_or(0);
        self.subject.derived && wanted as f64 >= DERIVED_FROM_MANY * self.row.voxel_bytes
    }

    fn lies_across(&self) -> bool {
        let Some((plane, tile)) = self.planes.first() else {
            return false;
        };
        let axis = Plane::from_name(plane).map_or(Axis::Z, Plane::slice_axis);
        // Cubic chunks would make it read this many slices; a flatter volume has no more.
        let of_cubes = tile
            .bytes_wanted
            .saturating_mul(CUBE.min(Xyz::from(self.subject.size)[axis]));
        bytes(tile) > CUBE.pow(3).max(2 * of_cubes)
    }

    /// Why so much is read, if that is the bottleneck.
    fn because(&self) -> String {
        let Some((plane, tile)) = self.planes.first() else {
            return String::new();
        };
        let (cost, wanted) = (advice::cost_text(tile), ByteSize(tile.bytes_wanted));
        let takes = format!("a tile in {plane} takes {cost}, for {wanted} of voxels");
        let storage = self.subject.storage.as_ref();
        match (self.limit, storage.map(|storage| &storage.chunk)) {
            (Limit::ChunkShape, Some(Some(chunk))) => {
                format!("; {takes}: chunks of {chunk:?} lie across the plane, or are large")
            }
            (Limit::ChunkShape, Some(None)) => {
                format!("; {takes}: the data is contiguous, row after row")
            }
            (Limit::MadeLevel, _) => format!("; the level is not stored, and {takes}"),
            (Limit::Disk | Limit::Inflate, _) => format!("; {takes}"),
            (Limit::Library, _) => storage
                .map(|storage| format!("; {}", storage.reading))
                .unwrap_or_default(),
            _ => String::new(),
        }
    }

    /// What would help, best first.
    fn helps(&self, small: bool) -> Vec<Help> {
        let filters = self
            .subject
            .storage
            .iter()
            .flat_map(|storage| &storage.filters);
        let slow = ["deflate", "bzip2", "szip", "nbit", "scaleoffset"];
        let is_slow = filters
            .into_iter()
            .any(|filter| slow.iter().any(|name| filter.starts_with(name)));
        // Chunks requested again should be found decoded.
        let forgets = self.row.state == State::Warm && self.row.chunks.decoded > 0;
        let file = &self.subject.file;
        let helps: &[(&'static str, &str)] = match self.limit {
            Limit::ChunkShape | Limit::Library => {
                let how = format!(
                    "a copy in chunks that suit all planes: {}",
                    advice::rechunk(file)
                );
                return vec![Help {
                    help: "rechunk",
                    how,
                }];
            }
            Limit::MadeLevel => {
                let how = format!("storing the levels once: {}", advice::store_levels(file));
                return vec![Help {
                    help: "store_levels",
                    how,
                }];
            }
            Limit::Disk => &[(
                "faster_disk",
                "a faster disk, or more memory for the page cache",
            )],
            Limit::Inflate if forgets => &[MORE_CHUNKS_KEPT, MORE_THREADS],
            Limit::Inflate if is_slow => &[MORE_THREADS, LIGHTER_FILTER],
            Limit::Encoder if small => &[("fast_png", "png = \"fast\""), MORE_TILES_KEPT],
            Limit::Encoder => &[MORE_THREADS, MORE_TILES_KEPT],
            Limit::Inflate | Limit::Memory | Limit::Drawing | Limit::Planning => &[MORE_THREADS],
            Limit::Waiting => &[],
        };
        helps
            .iter()
            .map(|(help, how)| Help {
                help,
                how: (*how).to_owned(),
            })
            .collect()
    }
}

fn greatest(stages: &[(f64, Limit)]) -> (f64, Limit) {
    let nothing = (f64::MIN, Limit::Planning);
    stages.iter().fold(
        nothing,
        |most, stage| if stage.0 > most.0 { *stage } else { most },
    )
}

/// The verdict on rows of a channel with the same bottleneck; `None` if there are no rows.
fn verdict(group: &[Evidence<'_>], small: bool) -> Option<Verdict> {
    // The reason is given for the worst row.
    let worst = group
        .iter()
        .rev()
        .max_by_key(|evidence| evidence.amplification())?;
    let shares = || group.iter().map(|evidence| evidence.share);
    let share = [
        shares().fold(f64::MAX, f64::min),
        shares().fold(0.0, f64::max),
    ];
    let Course { token, channel, .. } = &worst.row.course;
    Some(Verdict {
        token: token.clone(),
        channel: channel.clone(),
        state: worst.row.state,
        rows: named(group),
        limit: worst.limit,
        share,
        says: format!(
            "{} takes {} of a tile's time{}",
            words(worst.limit),
            percent(share),
            worst.because()
        ),
        helps: worst.helps(small),
    })
}

fn words(limit: Limit) -> &'static str {
    match limit {
        Limit::ChunkShape => "reading voxels of chunks that are not shown",
        Limit::MadeLevel => "computing the level from a finer one",
        Limit::Disk => "the disk",
        Limit::Memory => "copying stored bytes from the page cache",
        Limit::Inflate => "inflating chunks",
        Limit::Library => "reading through the HDF5 library",
        Limit::Waiting => "waiting for chunks that another thread decodes",
        Limit::Drawing => "drawing",
        Limit::Encoder => "encoding PNGs",
        Limit::Planning => "resolving requests",
    }
}

fn percent([least, greatest]: [f64; 2]) -> String {
    let [least, greatest] = [least, greatest].map(|share| (100.0 * share).round());
    if least == greatest {
        format!("{least} %")
    } else {
        format!("{least} to {greatest} %")
    }
}

/// Rows in words: `level 0 random xy, xz, scroll xy; level 1 walk`.
fn named(group: &[Evidence<'_>]) -> String {
    let mut levels: BTreeMap<u8, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for Evidence { row, .. } in group {
        let Course {
            level,
            pattern,
            plane,
            ..
        } = &row.course;
        levels
            .entry(*level)
            .or_default()
            .entry(pattern.name())
            .or_default()
            .push(plane);
    }
    let pattern = |(pattern, planes): (&str, Vec<&str>)| format!("{pattern} {}", planes.join(", "));
    let level = |(level, patterns): (u8, BTreeMap<&str, Vec<&str>>)| {
        format!(
            "level {level} {}",
            patterns
                .into_iter()
                .map(pattern)
                .collect::<Vec<_>>()
                .join(", ")
        )
    };
    levels.into_iter().map(level).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
pub(super) mod tests;
