//! What tiles of a dataset cost to make: for each level and plane, what one whole tile reads from cold.
//!
//! The tile is the first (row 0, column 0) of the middle slice, drawn as it is served: with square pixels where they
//! are, from the stored level that it is made from. How pieces and bytes are counted is told by
//! [`crate::volume::ReadCost`]. Descriptions for viewers end at the first level that fits a tile; these go on to the
//! last that is stored.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use super::{Catalog, Channel, Dataset, DatasetDescription, StoredLevel};
use crate::axes::AxisName;
use crate::geometry::{LevelView, Patch, Plane, TileAddress, Xyz, patch};
use crate::volume::{Positions, ReadCost, ReadError, Tally};

/// Of how many datasets of a series the chunks are counted.
const MOST_COUNTED: usize = 64;

/// A dataset, described with all its levels, and what they cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// The description.
    pub description: DatasetDescription,
    /// The cost of each channel's levels, in the order of the description.
    pub costs: Vec<Vec<LevelCost>>,
}

/// What a level takes to store and its tiles to make.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelCost {
    /// The axes of its dataset, slowest first; absent where it is made on the fly.
    pub axes: Option<String>,
    /// What of it is stored; absent where it is made on the fly.
    pub stored: Option<Tally>,
    /// How many times smaller it is stored than it is.
    pub compression: Option<f64>,
    /// Why that cannot be told.
    pub damage: Option<String>,
    /// What one tile takes, by the name of the plane; absent where it cannot be told.
    pub tile: BTreeMap<&'static str, TileCost>,
}

/// What one tile takes from cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TileCost {
    /// The bytes that the stored voxels that it is made from take in memory.
    pub bytes_wanted: u64,
    /// What reading them takes.
    #[serde(flatten)]
    pub cost: ReadCost,
}

impl Catalog {
    /// Describes a dataset with every level that is stored and what each costs. Lists of chunks are read.
    pub fn inspect(&self, dataset: &Dataset) -> Inspection {
        let mut description = self.describe_dataset(dataset);
        let channels = dataset.channels.values().zip(&mut description.channels);
        let costs = channels
            .map(|(channel, described)| {
                let views = views(dataset, channel);
                described.levels =
                    views.iter().filter_map(|view| self.describe_level(dataset, channel, view)).collect();
                costs(dataset, channel, &views)
            })
            .collect();
        Inspection { description, costs }
    }
}

/// The levels up to the first that fits a tile, or the last that is stored.
fn views(dataset: &Dataset, channel: &Channel) -> Vec<LevelView> {
    let all: Vec<LevelView> = dataset.views(channel).collect();
    let fits = all.iter().position(LevelView::fits_one_tile).unwrap_or(all.len());
    let last = all.iter().rposition(LevelView::is_stored).unwrap_or(0);
    all.into_iter().take(fits.max(last) + 1).collect()
}

fn costs(dataset: &Dataset, channel: &Channel, views: &[LevelView]) -> Vec<LevelCost> {
    let tallies: Vec<Result<Tally, ReadError>> = channel.all_levels().map(tally).collect();
    let cost = |view: &LevelView| {
        let (stored, tally) = (channel.source(view), tallies.get(view.stored));
        let known = tally.and_then(|tally| tally.as_ref().ok());
        let own = known.filter(|_| view.is_stored());
        let tile =
            |plane: Plane| Some((plane.name(), tile_cost(dataset, channel, stored?, known?, view, plane)?));
        LevelCost {
            axes: stored.filter(|_| view.is_stored()).map(|stored| stored.source.view.axes.to_string()),
            stored: own.copied(),
            compression: own.and_then(Tally::compression),
            damage: tally.and_then(|tally| tally.as_ref().err()).map(ToString::to_string),
            tile: Plane::ALL.into_iter().filter_map(tile).collect(),
        }
    };
    views.iter().map(cost).collect()
}

fn tally(level: &StoredLevel) -> Result<Tally, ReadError> {
    level.volumes.first().map_or(Ok(Tally::default()), |volume| volume.storage().tally(MOST_COUNTED))
}

fn tile_cost(
    dataset: &Dataset,
    channel: &Channel,
    stored: &StoredLevel,
    tally: &Tally,
    view: &LevelView,
    plane: Plane,
) -> Option<TileCost> {
    let slice = view.size[plane.slice_axis()] / 2;
    let address = TileAddress { plane, level: view.level, slice, row: 0, column: 0 };
    let patch = patch(&address, view, Xyz::all(0), dataset.orthogonal(channel))?;
    let wanted = positions(&patch, view, plane);
    let components = stored.volumes.len() as u64;
    let volume = stored.volumes.first()?;
    let once = volume.storage().cost(&wanted, tally)?;
    let cost = if stored.shares_chunks() { once } else { once.times(components) };
    let length = |runs: Vec<Range<u64>>| runs.iter().map(|run| run.end - run.start).sum::<u64>();
    let voxels = wanted.map(length).volume().saturating_mul(components);
    let bytes_wanted = voxels.saturating_mul(volume.shape().voxel.samples().voxel_bytes() as u64);
    Some(TileCost { bytes_wanted, cost })
}

/// The stored voxels that a patch is made from: runs along the axis of its rows, one run along the others.
fn positions(patch: &Patch, view: &LevelView, plane: Plane) -> Positions {
    let mut wanted = Positions::default();
    for (number, run) in patch.runs().iter().enumerate() {
        let region = view.stored_region(&patch.region(run));
        for axis in [plane.row_axis(), plane.column_axis(), plane.slice_axis()] {
            if number == 0 || axis == plane.row_axis() {
                wanted[axis].push(region.start[axis]..region.end()[axis]);
            }
        }
    }
    wanted
}

impl StoredLevel {
    /// Whether all its components are had from the same decoded chunks.
    pub(super) fn shares_chunks(&self) -> bool {
        let place = self.source.view.axes.position(AxisName::C);
        let extent = place.and_then(|place| self.storage.chunk.as_ref()?.get(place));
        !self.storage.filters.is_empty() && extent.is_some_and(|extent| *extent > 1)
    }
}
