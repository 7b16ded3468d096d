//! The cost of rendering one whole tile of each level and plane of a dataset with cold caches, for
//! `voltile inspect`.
//!
//! The tile is the first (row 0, column 0) of the middle slice, read from the stored level that it
//! is derived from; its pixels are square if the server makes them square.
//! [`voltile_hdf5::volume::ReadCost`] defines how reads and bytes are counted. Descriptions for
//! viewers end at the first level that fits one tile; costs continue to the last stored level.

use std::collections::BTreeMap;

use serde::Serialize;
use voltile_base::axes::AxisName;
use voltile_base::description::DatasetDescription;
use voltile_base::geometry::{LevelView, Patch, Placement, Plane, TileAddress, patch};
use voltile_hdf5::store::Requests;
use voltile_hdf5::volume::{Access, Positions, ReadCost, ReadError, Tally};

use super::{Catalog, Channel, Dataset, FileAttributes, StoredLevel};

/// The maximum number of datasets of a series that are opened to count their chunks.
const MAX_COUNTED: usize = 64;

/// The description of a dataset with all its levels and their costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// The description, with all levels.
    pub description: DatasetDescription,
    /// The costs by channel and level, in the order of the description.
    pub costs: Vec<Vec<LevelCost>>,
    /// The attributes of its file.
    pub attributes: FileAttributes,
}

/// The storage of a level and the cost of its tiles.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelCost {
    /// The axes of its dataset, slowest first; absent if the level is derived on the fly.
    pub axes: Option<String>,
    /// The chunks and bytes stored; absent if the level is derived on the fly.
    pub stored: Option<Tally>,
    /// The compression ratio: uncompressed size divided by stored size.
    pub compression: Option<f64>,
    /// Why the chunks could not be counted.
    pub damage: Option<String>,
    /// Whether Neuroglancer is sent its chunks as they are stored; absent if the level is derived
    /// on the fly.
    pub neuroglancer: Option<PassThrough>,
    /// Whether readers of Zarr v2 (OME-Zarr 0.4) are sent its chunks as they are stored; absent if
    /// the level is derived on the fly.
    pub zarr: Option<PassThrough>,
    /// The cost of one tile by name of the plane; planes of unknown cost are omitted.
    pub tile: BTreeMap<&'static str, TileCost>,
}

/// Whether stored chunks are passed through: sent as they are in the file, without being decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassThrough {
    /// Whether they are.
    pub passed_through: bool,
    /// The reason why they are not.
    pub problem: Option<String>,
}

impl PassThrough {
    fn from_check<T>(passed: Result<T, String>) -> Self {
        Self {
            passed_through: passed.is_ok(),
            problem: passed.err(),
        }
    }
}

/// The cost of one tile with cold caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TileCost {
    /// The size in memory of the stored voxels that it is derived from.
    pub bytes_wanted: u64,
    /// The cost of reading them.
    #[serde(flatten)]
    pub cost: ReadCost,
    /// The requests that fetch them, if they lie in a store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Requests>,
}

impl Catalog {
    /// Describes a dataset with every stored level and its costs, and the attributes of its file.
    /// Reads chunk indexes.
    pub fn inspect(&self, dataset: &Dataset) -> Inspection {
        let mut description = self.describe_dataset(dataset);
        description.notices = Some(dataset.notices.clone());
        let mut costs = Vec::new();
        for (channel, described) in dataset.listed().zip(&mut description.channels) {
            let tallies: Vec<_> = channel
                .all_levels()
                .map(|level| level.volumes[0].tally(MAX_COUNTED))
                .collect();
            let views = dataset.served_views(channel);
            described.levels.clear();
            let mut level_costs = Vec::new();
            for view in &views {
                let level = dataset.describe_level(channel, view);
                described.levels.push(level);
                level_costs.push(level_cost(dataset, channel, view, &tallies[view.stored]));
            }
            costs.push(level_costs);
        }
        Inspection {
            description,
            costs,
            attributes: dataset.attributes(),
        }
    }
}

fn level_cost(
    dataset: &Dataset,
    channel: &Channel,
    view: &LevelView,
    tally: &Result<Tally, ReadError>,
) -> LevelCost {
    let tally_of_source = tally.as_ref().ok();
    let mut tile = BTreeMap::new();
    if let Some(tally) = tally_of_source {
        for plane in Plane::ALL {
            let cost = tile_cost(dataset, channel, tally, view, plane);
            tile.extend(cost.map(|cost| (plane.name(), cost)));
        }
    }
    let stored = channel.stored_level(view);
    let own_tally = tally_of_source.filter(|_| view.is_stored());
    LevelCost {
        axes: stored.map(|stored| stored.source.view.axes.to_string()),
        stored: own_tally.copied(),
        compression: own_tally.and_then(Tally::compression),
        neuroglancer: stored
            .map(|stored| PassThrough::from_check(channel.passes_to_neuroglancer(stored))),
        zarr: stored.map(|stored| PassThrough::from_check(dataset.passes_to_zarr(channel, stored))),
        damage: tally.as_ref().err().map(ToString::to_string),
        tile,
    }
}

fn tile_cost(
    dataset: &Dataset,
    channel: &Channel,
    tally: &Tally,
    view: &LevelView,
    plane: Plane,
) -> Option<TileCost> {
    let slice = view.size[plane.slice_axis()] / 2;
    let address = TileAddress {
        plane,
        level: view.level,
        slice,
        row: 0,
        column: 0,
    };
    let patch = patch(
        &address,
        view,
        Placement::default(),
        dataset.orthogonal(channel),
    )?;
    let stored = channel.source(view);
    let wanted = positions(&patch, view, plane);
    let components = stored.volumes.len() as u64;
    let cost_of_one = stored.volumes[0].cost(&wanted, tally)?;
    // Whether all components of an RGB level are decoded from the same chunks.
    let shares_chunks = !stored.storage.filters.is_empty() && stored.chunk_along(AxisName::C) > 1;
    let cost = if shares_chunks {
        cost_of_one
    } else {
        cost_of_one.times(components)
    };
    let lengths = wanted.map(|runs| runs.iter().map(|run| run.end - run.start).sum::<u64>());
    let voxels = lengths.volume().saturating_mul(components);
    let bytes_wanted = voxels.saturating_mul(stored.shape.voxel.samples().voxel_bytes() as u64);
    Some(TileCost {
        bytes_wanted,
        cost,
        store: requests(stored, view, &patch),
    })
}

/// The requests that fetch the chunks of a tile from a store; `None` if they are in local files.
fn requests(stored: &StoredLevel, view: &LevelView, patch: &Patch) -> Option<Requests> {
    let mut ranges = Vec::new();
    for volume in &stored.volumes {
        let shape = volume.shape();
        if !shape.is_remote || shape.access != Access::Cached {
            return None;
        }
        for run in patch.runs() {
            let region = view.stored_region(&patch.region(run));
            let (time, only_missing) = (0, false);
            let chunks = volume.ranges(time, &region, only_missing).ok()?;
            // A chunk that was never written has no ranges.
            ranges.extend(chunks.into_iter().flat_map(|chunks| chunks.ranges));
        }
    }
    Some(Requests::of(ranges))
}

/// The stored voxels that a patch is derived from: runs along the row axis, one run along each
/// other axis.
fn positions(patch: &Patch, view: &LevelView, plane: Plane) -> Positions {
    let mut wanted = Positions::default();
    for (number, run) in patch.runs().iter().enumerate() {
        let region = view.stored_region(&patch.region(run));
        // All runs have the same columns and slices.
        for axis in [plane.row_axis(), plane.column_axis(), plane.slice_axis()] {
            if number == 0 || axis == plane.row_axis() {
                wanted[axis].push(region.start[axis]..region.end()[axis]);
            }
        }
    }
    wanted
}
