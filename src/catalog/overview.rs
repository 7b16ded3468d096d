//! Overviews: which level shows a whole slice in a few tiles, and the key of the small picture made from them.
//!
//! CATMAID asks for one beside the tiles of a slice, and draws it as large as it comes into a map of 192 pixels.

use super::{Catalog, Channel, Dataset, NotFound, Resolved};
use crate::geometry::{LevelView, TILE, TileAddress};
use crate::plan;
use crate::request::TileRequest;
use crate::tile::TileKey;

/// The longer edge of an overview, in pixels.
const EDGE: usize = 192;
/// The most tiles that one is put together from.
const MOST_TILES: u64 = 16;

/// An overview whose names are known.
#[derive(Debug)]
pub struct Overview {
    tiles: Vec<Resolved>,
    across: usize,
    extent: (usize, usize),
}

impl Catalog {
    /// Finds what a request for an overview names, which is read as one for the slice's first tile. Nothing is read.
    pub fn overview(&self, request: &TileRequest) -> Result<Overview, NotFound> {
        let outside = || NotFound::Outside { token: request.token.clone() };
        let first = self.resolve(request)?;
        let (dataset, channel) = first.subject().ok_or_else(outside)?;
        let plane = request.address.plane;
        let (view, (columns, rows)) = fitting(dataset, channel, &request.address)
            .ok_or_else(|| NotFound::NoOverview { channel: channel.name.clone(), plane })?;
        let slice = slice_at(dataset, &view, &request.address);
        let (across, down) = (columns.div_ceil(TILE as u64), rows.div_ceil(TILE as u64));
        let tile = |row: u64, column: u64| {
            let address = TileAddress { plane, level: view.level, slice, row, column };
            self.resolve(&TileRequest { address, ..request.clone() })
        };
        let all = (0..down).flat_map(|row| (0..across).map(move |column| (row, column)));
        let tiles = all.map(|(row, column)| tile(row, column)).collect::<Result<Vec<_>, _>>()?;
        Ok(Overview { tiles, across: across as usize, extent: (columns as usize, rows as usize) })
    }
}

/// The finest level at which a slice is one tile wide and not too many tiles high, and its extent as drawn.
fn fitting(dataset: &Dataset, channel: &Channel, address: &TileAddress) -> Option<(LevelView, (u64, u64))> {
    let mut drawn =
        dataset.views(channel).map(|view| (view, view.drawn(address.plane, dataset.orthogonal(channel))));
    let small = drawn.clone().find(|(_, (columns, rows))| *columns.max(rows) <= TILE as u64);
    small.or_else(|| {
        drawn.find(|(_, (columns, rows))| *columns <= TILE as u64 && *rows <= MOST_TILES * TILE as u64)
    })
}

/// The number, in voxels of a level, of the slice that a number at full resolution means.
fn slice_at(dataset: &Dataset, view: &LevelView, address: &TileAddress) -> u64 {
    let axis = address.plane.slice_axis();
    let (offset, factor) = (i128::from(dataset.offset[axis]), i128::from(view.factor[axis]));
    let slice = (i128::from(address.slice) - offset).div_euclid(factor) + offset.div_euclid(factor);
    // What lies before the first slice is outside, and so is what no volume reaches.
    u64::try_from(slice).unwrap_or(u64::MAX)
}

impl Overview {
    /// The tiles that it is made from; never none.
    pub fn tiles(&self) -> &[Resolved] {
        &self.tiles
    }

    /// The key of the rendering: everything that decides its bytes.
    pub fn key(&self) -> TileKey {
        let tiles: Vec<TileKey> = self.tiles.iter().map(Resolved::key).collect();
        TileKey::of(&("overview", EDGE, self.across, self.extent, tiles))
    }

    /// What to read and how to paint it.
    pub fn plan(&self) -> plan::Overview {
        let tiles = self.tiles.iter().map(Resolved::plan).collect();
        plan::Overview { tiles, across: self.across, extent: self.extent, edge: EDGE }
    }
}
