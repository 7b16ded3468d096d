//! Overviews: small pictures of a whole slice, composed of a few tiles of a coarse level.
//!
//! CATMAID requests one for each slice and draws it unscaled into a map of 192 pixels.

use voltile_base::geometry::{LevelView, TILE, TileAddress, Xyz};
use voltile_base::request::{SlabRequest, TileRequest};
use voltile_base::tile::TileKey;
use voltile_render::plan;

use super::resolve::ResolvedTile;
use super::{Catalog, Channel, Dataset, NotFound, RequestPlan, Subject};

/// The maximum number of tiles that an overview is composed of.
const MAX_TILES: u64 = 16;

impl Catalog {
    /// Plans a request for an overview, given as a request for the first tile of the slice.
    pub fn plan_overview(&self, request: &TileRequest) -> Result<RequestPlan, NotFound> {
        let first = self.resolve_names(request)?;
        let dataset = &first.dataset;
        let Some(channel) = first.channels().next() else {
            return Err(NotFound::Outside(request.token.token.clone()));
        };
        let plane = request.address.plane;
        let found = overview_level(dataset, channel, &request.address);
        let Some((view, (columns, rows))) = found else {
            return Err(NotFound::Other(format!(
                "the channel {} has no overview in the plane {plane}: its slices are too long and thin",
                channel.name
            )));
        };
        // The slice in the request is numbered as at full resolution.
        let full = LevelView {
            factor: Xyz::all(1),
            ..view
        };
        let (slice, slab) = slices_at(dataset, &full, &view, &request.address, request.slab);
        // A channel that ends before the first tile is black.
        let columns = columns.max(1);
        let rows = rows.max(1);
        let across = columns.div_ceil(TILE as u64);
        let extent = (columns as usize, rows as usize);
        let mut tiles = Vec::new();
        for row in 0..rows.div_ceil(TILE as u64) {
            for column in 0..across {
                let address = TileAddress {
                    plane,
                    level: view.level,
                    slice,
                    row,
                    column,
                };
                let tile = self.resolve(&TileRequest {
                    address,
                    slab,
                    ..request.clone()
                })?;
                tiles.push(tile.showing_missing());
            }
        }
        // All tiles show the same channels.
        let first_tile = tiles.first().unwrap_or(&first);
        Ok(join_tiles(first_tile, &tiles, across as usize, extent))
    }
}

/// The plan of an overview that is joined from tiles, `across` of them side by side. The channels
/// are taken from `first`, one of these tiles.
fn join_tiles(
    first: &ResolvedTile,
    tiles: &[ResolvedTile],
    across: usize,
    extent: (usize, usize),
) -> RequestPlan {
    let keys: Vec<TileKey> = tiles.iter().map(ResolvedTile::key).collect();
    let key = TileKey::digest(&("overview", plan::Overview::MAX_EXTENT, across, extent, keys));
    let subject = Subject::Overview(plan::Overview {
        tiles: tiles.iter().map(ResolvedTile::plan).collect(),
        across,
        extent,
    });
    RequestPlan::new(key, first.origin(), subject, first.unmeasured())
}

/// The finest level at which a slice fits one tile, or else the finest at which it is at most one
/// tile wide and [`MAX_TILES`] tiles high; and the drawn width and height of the slice.
fn overview_level(
    dataset: &Dataset,
    channel: &Channel,
    address: &TileAddress,
) -> Option<(LevelView, (u64, u64))> {
    let grid = dataset.grid_offset(channel);
    let orthogonal = dataset.orthogonal(channel);
    let drawn = dataset
        .views(channel)
        .map(|view| (view, view.drawn(address.plane, grid, orthogonal)));
    for tiles_down in [1, MAX_TILES] {
        let max_rows = tiles_down * TILE as u64;
        for (view, (columns, rows)) in drawn.clone() {
            if columns <= TILE as u64 && rows <= max_rows {
                return Some((view, (columns, rows)));
            }
        }
    }
    None
}

/// Converts the number of an address's slice, and the end of the slab that begins there if there is
/// one, from level `from` to level `to`, which is not finer: with a step of 4, slice 9 becomes 2.
pub(super) fn slices_at(
    dataset: &Dataset,
    from: &LevelView,
    to: &LevelView,
    address: &TileAddress,
    slab: Option<SlabRequest>,
) -> (u64, Option<SlabRequest>) {
    let axis = address.plane.slice_axis();
    let shift_from = from.shift(dataset.style.offset)[axis];
    let shift_to = to.shift(dataset.style.offset)[axis];
    let step = i128::from(to.factor[axis] / from.factor[axis].max(1)).max(1);
    let converted = |slice: u64| (i128::from(slice) - shift_from).div_euclid(step) + shift_to;
    let first = converted(address.slice);
    let Some(slab) = slab else {
        // Negative numbers lie outside, as does u64::MAX.
        return (u64::try_from(first).unwrap_or(u64::MAX), None);
    };
    // The end is exclusive: the last slice is converted.
    let end = clamped(converted(slab.end.saturating_sub(1)) + 1);
    (clamped(first), Some(SlabRequest { end, ..slab }))
}

fn clamped(slice: i128) -> u64 {
    slice.clamp(0, i128::from(u64::MAX)) as u64
}
