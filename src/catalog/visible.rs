//! The visible part of a slice: the tiles that a rectangle shows, and the range of their values.

use std::ops::Range;
use std::sync::Arc;

use voltile_base::description::RangeDescription;
use voltile_base::geometry::{LevelView, Orthogonal, Plane, TILE, TileAddress};
use voltile_base::paint::{Finite, Kind};
use voltile_base::request::{Adjustment, RangeRequest, SlabRequest, TileRequest, ViewRequest};
use voltile_base::tile::TileKey;
use voltile_render::{plan, survey};

use super::overview::slices_at;
use super::resolve::ResolvedTile;
use super::{Catalog, Channel, Dataset, NotFound, Origin, RequestPlan, Subject};

/// The maximum number of pixels of a rectangle; a larger one is read at a coarser level.
const MAX_PIXELS: u64 = 1 << 22;
/// The maximum number of stored voxels that are read. If the tiles of the rectangle need more, only
/// every second, third, … of them is read, but at least one.
const MAX_VOXELS: u64 = 1 << 22;

/// A rectangle of pixels of a slice, or of a slab, at a level.
struct TileRectangle {
    /// The address of the first tile of the slice.
    address: TileAddress,
    slab: Option<SlabRequest>,
    /// The columns of pixels, counted from the first column of the first tile.
    columns: Range<u64>,
    /// The rows of pixels, counted from the first row of the first tile.
    rows: Range<u64>,
    /// The stored voxels that a whole tile reads.
    voxels_per_tile: u64,
}

impl Catalog {
    /// Plans a request of the page, in which the user may adjust how channels are shown. Only
    /// images can be adjusted.
    pub fn plan_view(&self, request: &ViewRequest) -> Result<RequestPlan, NotFound> {
        match request {
            ViewRequest::Tile(tile, format) => {
                let resolved = self.resolve(tile)?;
                for channel in resolved.channels() {
                    ensure_image(channel)?;
                }
                Ok(resolved.showing_missing().encoded_as(*format).planned())
            }
            ViewRequest::Overview(first) => {
                for channel in self.resolve_names(first)?.channels() {
                    ensure_image(channel)?;
                }
                self.plan_overview(first)
            }
            ViewRequest::Range(range) => self.plan_range(range),
        }
    }

    /// Plans a request for the range of the visible values.
    fn plan_range(&self, request: &RangeRequest) -> Result<RequestPlan, NotFound> {
        let dataset = self.requested_dataset(&request.first_tile.token)?;
        let time = dataset.time_of(request.first_tile.time, [&request.channel]);
        let channel = dataset.channel_at(&request.channel, time)?;
        ensure_image(channel)?;
        let shown = self.shown_rectangle(dataset, channel, request)?;
        let mut tiles = Vec::new();
        let mut parts = Vec::new();
        for (address, part) in shown.tiles() {
            match self.resolve_part(request, address, shown.slab) {
                Ok(tile) => {
                    tiles.push(tile);
                    parts.push(part);
                }
                Err(NotFound::Outside(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let level = shown.address.level.number();
        let keys: Vec<TileKey> = tiles.iter().map(ResolvedTile::key).collect();
        let key = TileKey::digest(&("range", level, &parts, keys));
        let plan = plan::Visible {
            tiles: tiles.iter().map(ResolvedTile::plan).collect(),
            parts,
            level,
        };
        let origin = Origin::new(dataset, vec![Arc::clone(channel)]);
        let subject = Subject::Range(plan);
        Ok(RequestPlan::new(key, origin, subject, Vec::new()))
    }

    /// The rectangle that is asked for, at its level, or at a coarser one if it has too many
    /// pixels.
    fn shown_rectangle(
        &self,
        dataset: &Dataset,
        channel: &Channel,
        request: &RangeRequest,
    ) -> Result<TileRectangle, NotFound> {
        let asked = dataset.view(channel, request.first_tile.address.level)?;
        let mut shown = TileRectangle::at(dataset, channel, request, &asked, &asked);
        let coarser_views = dataset
            .views(channel)
            .filter(|view| view.level > asked.level);
        for view in coarser_views {
            if shown.pixels() <= MAX_PIXELS {
                break;
            }
            let coarser = TileRectangle::at(dataset, channel, request, &asked, &view);
            let part = self.resolve_part(request, coarser.address, coarser.slab);
            // If a tile of the coarser level is too costly, the rectangle stays too large.
            if let Err(NotFound::TooCostly(_)) = part {
                break;
            }
            shown = coarser;
        }
        Ok(shown)
    }

    /// Resolves a tile of the requested range.
    fn resolve_part(
        &self,
        request: &RangeRequest,
        address: TileAddress,
        slab: Option<SlabRequest>,
    ) -> Result<ResolvedTile, NotFound> {
        // The values do not depend on the window in force; with a fixed window, the key does not
        // depend on it either.
        let fixed_window = Adjustment {
            lo: Finite::new(0.0),
            hi: Finite::new(1.0),
            ..Adjustment::default()
        };
        self.resolve(&TileRequest {
            address,
            slab,
            adjust: vec![fixed_window],
            ..request.first_tile.clone()
        })
    }
}

fn ensure_image(channel: &Channel) -> Result<(), NotFound> {
    match channel.kind {
        Kind::Image => Ok(()),
        kind => Err(NotFound::Other(format!(
            "the channel {} holds {}, which have no range, gamma and colour map; ask for its tiles as they are",
            channel.name,
            kind.name()
        ))),
    }
}

impl TileRectangle {
    /// The rectangle that is asked for, at the level `view` instead of `asked`.
    fn at(
        dataset: &Dataset,
        channel: &Channel,
        request: &RangeRequest,
        asked: &LevelView,
        view: &LevelView,
    ) -> Self {
        let TileRequest { address, slab, .. } = request.first_tile;
        let plane = address.plane;
        let orthogonal = dataset.orthogonal(channel);
        let step = view
            .factor
            .zip(asked.factor, |factor, asked| (factor / asked.max(1)).max(1));
        // With square pixels, rows are as high as columns are wide.
        let is_square = plane != Plane::Xy && matches!(orthogonal, Orthogonal::Isotropic(_));
        let row_axis = if is_square {
            plane.column_axis()
        } else {
            plane.row_axis()
        };
        let (columns, rows) = view.drawn(plane, dataset.grid_offset(channel), orthogonal);
        let (slice, slab) = slices_at(dataset, asked, view, &address, slab);
        let depth = slab.map_or(1, |slab| slab.end.saturating_sub(slice));
        Self {
            address: TileAddress {
                level: view.level,
                slice,
                ..address
            },
            slab,
            columns: at_step(&request.columns, step[plane.column_axis()], columns),
            rows: at_step(&request.rows, step[row_axis], rows),
            voxels_per_tile: view.voxels_per_slab(plane, depth),
        }
    }

    fn pixels(&self) -> u64 {
        let columns = self.columns.end - self.columns.start;
        columns.saturating_mul(self.rows.end - self.rows.start)
    }

    /// The tiles that are read among those that the rectangle touches: the address of each, and the
    /// columns and rows of its pixels that lie in the rectangle.
    fn tiles(&self) -> impl Iterator<Item = (TileAddress, [Range<usize>; 2])> {
        let tile_columns = tiles_touched(&self.columns);
        let tile_rows = tiles_touched(&self.rows);
        let width = tile_columns.end - tile_columns.start;
        let count = width.saturating_mul(tile_rows.end - tile_rows.start);
        // Every `step`-th tile is read.
        let step = count
            .saturating_mul(self.voxels_per_tile)
            .div_ceil(MAX_VOXELS)
            .clamp(1, count.max(1));
        // In the middle of the first `step` tiles, so that a single tile is the one in the middle.
        let first = (step - 1) / 2;
        (first..count).step_by(step as usize).map(move |number| {
            let row = tile_rows.start + number / width;
            let column = tile_columns.start + number % width;
            let address = TileAddress {
                row,
                column,
                ..self.address
            };
            let columns = part_in_tile(&self.columns, column);
            let rows = part_in_tile(&self.rows, row);
            (address, [columns, rows])
        })
    }
}

/// A range of pixels at a level that is coarser by `step`, clipped to the level's end: with a step
/// of 4, 6..9 becomes 1..3.
fn at_step(asked: &Range<u64>, step: u64, end: u64) -> Range<u64> {
    let end = end.min(asked.end.div_ceil(step));
    (asked.start / step).min(end)..end
}

/// The numbers of the tiles along an axis that a range of pixels touches.
fn tiles_touched(range: &Range<u64>) -> Range<u64> {
    range.start / TILE as u64..range.end.div_ceil(TILE as u64)
}

/// The part of a range of pixels that lies in the tile with this number, counted from the tile's
/// first pixel: 500..600 is 0..88 in tile 1.
fn part_in_tile(range: &Range<u64>, tile: u64) -> Range<usize> {
    let edge = TILE as u64;
    let start = range.start.saturating_sub(tile * edge).min(edge);
    let end = range.end.saturating_sub(tile * edge).min(edge);
    start as usize..end as usize
}

/// The range of the finite values that are visible at a level: percentiles by the rules of windows.
pub(super) fn range_of(mut values: Vec<f64>, level: u8) -> RangeDescription {
    // This sorts the values.
    let window = survey::window_of(&mut values).map(|window| window.limits());
    RangeDescription {
        low: window.map(|(low, _)| low),
        high: window.map(|(_, high)| high),
        min: values.first().copied(),
        max: values.last().copied(),
        voxels: values.len() as u64,
        level,
    }
}
