//! Overviews: small pictures of a whole slice, composed of a few tiles of a coarse level.
//!
//! CATMAID requests one for each slice and draws it unscaled into a map of 192 pixels. `voltile
//! inspect` draws them in the terminal, at other sizes.

use voltile_base::geometry::{LevelView, TILE, TileAddress, Xyz};
use voltile_base::request::{SlabRequest, TileRequest};
use voltile_base::tile::TileKey;
use voltile_render::plan;

use super::{Catalog, Channel, Dataset, NotFound, Origin, Resolved};

/// The maximum width and height in pixels, unless another is asked for.
const MAX_EXTENT: (usize, usize) = (192, 192);
/// The maximum number of tiles that an overview is composed of.
const MAX_TILES: u64 = 16;

/// A request for an overview with its names resolved.
#[derive(Debug)]
pub struct Overview {
    origin: Origin,
    tiles: Vec<Resolved>,
    across: usize,
    extent: (usize, usize),
    most: (usize, usize),
}

impl Catalog {
    /// Resolves a request for an overview, given as a request for the first tile of the slice.
    /// Reads no data.
    pub fn overview(&self, request: &TileRequest) -> Result<Overview, NotFound> {
        let outside = || NotFound::Outside {
            token: request.token.token.clone(),
        };
        let first = self.resolve_names(request)?;
        let (dataset, channel) = first.subject().ok_or_else(outside)?;
        let plane = request.address.plane;
        let (view, (columns, rows)) =
            fitting(dataset, channel, &request.address).ok_or_else(|| NotFound::NoOverview {
                channel: channel.name.clone(),
                plane,
            })?;
        let full = LevelView {
            factor: Xyz::all(1),
            ..view
        };
        let (slice, slab) = slices_at(dataset, &full, &view, &request.address, request.slab);
        // A channel that ends before the first tile is black.
        let (columns, rows) = (columns.max(1), rows.max(1));
        let (across, down) = (columns.div_ceil(TILE as u64), rows.div_ceil(TILE as u64));
        let tile = |row: u64, column: u64| {
            let address = TileAddress {
                plane,
                level: view.level,
                slice,
                row,
                column,
            };
            self.resolve(&TileRequest {
                address,
                slab,
                ..request.clone()
            })
            .map(Resolved::showing_missing)
        };
        let all = (0..down).flat_map(|row| (0..across).map(move |column| (row, column)));
        let tiles = all
            .map(|(row, column)| tile(row, column))
            .collect::<Result<Vec<_>, _>>()?;
        let extent = (columns as usize, rows as usize);
        let origin = tiles.first().unwrap_or(&first).origin();
        Ok(Overview {
            origin,
            tiles,
            across: across as usize,
            extent,
            most: MAX_EXTENT,
        })
    }
}

/// The finest level at which a slice fits one tile, or else is one tile wide and at most
/// [`MAX_TILES`] high; and the drawn size of the slice.
fn fitting(
    dataset: &Dataset,
    channel: &Channel,
    address: &TileAddress,
) -> Option<(LevelView, (u64, u64))> {
    let (grid, orthogonal) = (dataset.grid_offset(channel), dataset.orthogonal(channel));
    let mut drawn = dataset
        .views(channel)
        .map(|view| (view, view.drawn(address.plane, grid, orthogonal)));
    let small = drawn
        .clone()
        .find(|(_, (columns, rows))| *columns.max(rows) <= TILE as u64);
    small.or_else(|| {
        drawn.find(|(_, (columns, rows))| {
            *columns <= TILE as u64 && *rows <= MAX_TILES * TILE as u64
        })
    })
}

/// Converts the slice or slab at one level that an address begins with to that at another level,
/// which is not finer.
pub(super) fn slices_at(
    dataset: &Dataset,
    from: &LevelView,
    to: &LevelView,
    address: &TileAddress,
    slab: Option<SlabRequest>,
) -> (u64, Option<SlabRequest>) {
    let axis = address.plane.slice_axis();
    let offset = |view: &LevelView| view.shift(dataset.style.offset)[axis];
    let step = i128::from(to.factor[axis] / from.factor[axis].max(1)).max(1);
    let converted = |slice: u64| (i128::from(slice) - offset(from)).div_euclid(step) + offset(to);
    let first = converted(address.slice);
    let Some(slab) = slab else {
        // Negative numbers lie outside, as does u64::MAX.
        return (u64::try_from(first).unwrap_or(u64::MAX), None);
    };
    let number = |slice: i128| slice.clamp(0, i128::from(u64::MAX)) as u64;
    let end = number(converted(slab.end.saturating_sub(1)) + 1);
    (number(first), Some(SlabRequest { end, ..slab }))
}

impl Overview {
    /// The origin of its picture.
    pub fn origin(&self) -> Origin {
        self.origin.clone()
    }

    /// The tiles that it is composed of, row by row; not empty.
    pub fn tiles(&self) -> &[Resolved] {
        &self.tiles
    }

    /// This overview, at most this wide and high, in pixels.
    #[must_use]
    pub fn within(self, most: (usize, usize)) -> Self {
        Self { most, ..self }
    }

    /// The key of the rendering: a digest of everything that determines its bytes.
    pub fn key(&self) -> TileKey {
        let tiles: Vec<TileKey> = self.tiles.iter().map(Resolved::key).collect();
        TileKey::digest(&("overview", self.most, self.across, self.extent, tiles))
    }

    /// The plan for the renderer: what to read and how to paint it.
    pub fn plan(&self) -> plan::Overview {
        let tiles = self.tiles.iter().map(Resolved::plan).collect();
        plan::Overview {
            tiles,
            across: self.across,
            extent: self.extent,
            most: self.most,
        }
    }
}
