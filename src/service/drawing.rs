//! One tile on a render thread: looked up in the disk cache, rendered, and written there.

use std::cell::RefCell;
use std::time::Instant;

use super::verify::{Footprint, Provisional};
use super::{TileError, Urgency, Warmed};
use crate::catalog::{Origin, Overview, Resolved};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::plan::Plan;
use crate::render::{self, RenderError, Scratch};
use crate::tier::SecondTier;
use crate::tile::{Tile, TileKey};
use crate::volume::{Decode, ReadPolicy, Yields};

/// A tile that is known to exist, whether or not it has been rendered.
#[derive(Debug)]
pub enum Identified {
    /// One of the shared black tiles: the address lies outside all volumes.
    Black(Tile),
    /// A tile.
    Made {
        /// Its key.
        key: TileKey,
        /// What it shows.
        resolved: Resolved,
    },
    /// A thumbnail of a slice.
    Overview {
        /// Its key.
        key: TileKey,
        /// What it shows.
        overview: Overview,
    },
}

impl Identified {
    /// What identifies the tile's bytes.
    pub fn key(&self) -> TileKey {
        match self {
            Identified::Black(tile) => tile.key,
            Identified::Made { key, .. } | Identified::Overview { key, .. } => *key,
        }
    }
}

/// Renders a tile's PNG, on a render thread.
pub(super) type Draw = Box<dyn FnOnce(&mut Scratch) -> Result<Vec<u8>, RenderError> + Send>;

/// How to render one tile, where it is stored, and which voxels it shows.
pub(super) struct Drawing {
    pub key: TileKey,
    pub origin: Origin,
    pub draw: Draw,
    pub footprint: Footprint,
}

impl Drawing {
    /// The rendering of one tile by its plan.
    pub fn of(key: TileKey, origin: Origin, plan: Plan) -> Self {
        let footprint = Footprint::of(std::slice::from_ref(&plan));
        Self { key, origin, draw: Box::new(move |scratch| render::render(&plan, scratch)), footprint }
    }
}

/// How chunks are read for a request: whole if the client prefetches, because it will want the tiles next to this one.
pub(super) fn policy(urgency: Urgency) -> ReadPolicy {
    let decode = match urgency {
        Urgency::Wanted => Decode::AsNeeded,
        Urgency::Prefetch => Decode::Whole,
    };
    ReadPolicy { decode, yields: Yields::Never }
}

impl Identified {
    /// How to render it, reading by that policy; `None` for a black tile.
    pub(super) fn drawing(&self, policy: ReadPolicy) -> Option<Drawing> {
        Some(match self {
            Identified::Black(_) => return None,
            Identified::Made { key, resolved } => {
                Drawing::of(*key, resolved.origin(), resolved.plan().with(policy))
            }
            Identified::Overview { key, overview } => {
                let (key, origin, mut plan) = (*key, overview.origin()?, overview.plan());
                plan.tiles.iter_mut().for_each(|tile| tile.policy = policy);
                let footprint = Footprint::of(&plan.tiles);
                let draw = Box::new(move |scratch: &mut Scratch| render::overview(&plan, scratch));
                Drawing { key, origin, draw, footprint }
            }
        })
    }

    /// The dataset that it is stored under; `None` for a black tile, which is never stored.
    pub(super) fn token(&self) -> Option<&Name> {
        match self {
            Identified::Black(_) => None,
            Identified::Made { resolved, .. } => Some(resolved.token()),
            Identified::Overview { overview, .. } => overview.tiles().first().map(Resolved::token),
        }
    }
}

/// A tile and what it takes from the cache's budget.
pub(super) fn weighed(tile: Tile) -> (Tile, usize) {
    let weight = tile.weight();
    (tile, weight)
}

/// The tile, if the disk cache has it.
pub(super) fn found(tier: Option<&SecondTier>, origin: &Origin, key: TileKey) -> Option<Tile> {
    Some(Tile::new(key, tier?.find(&origin.token, &key)?))
}

/// Renders a tile, and counts it.
pub(super) fn drawn(key: TileKey, draw: Draw, metrics: &Metrics) -> Result<Tile, RenderError> {
    metrics.renders.inc();
    let rendered = with_scratch(draw);
    if let Err(error) = &rendered {
        metrics.render_errors.inc();
        tracing::error!(%key, "a tile could not be rendered: {error}");
    }
    Ok(Tile::new(key, rendered?))
}

/// Queues a tile that was just rendered for writing, unless its files turn out to have changed.
pub(super) fn keep_later(tier: Option<&SecondTier>, origin: Origin, tile: &Tile) {
    let (Some(tier), now) = (tier, Instant::now()) else { return };
    tier.keep_later(origin.token.clone(), tile, move || origin.was_unchanged_at(now));
}

/// Writes a tile that was just rendered, unless its files turn out to have changed. A failure to write is counted and
/// logged by the disk cache; the client gets its tile all the same.
pub(super) fn keep_now(tier: Option<&SecondTier>, origin: &Origin, tile: &Tile) {
    let Some(tier) = tier else { return };
    if !origin.was_unchanged_at(Instant::now()) || tier.keep(&origin.token, &tile.key, &tile.png).is_err() {
        tracing::debug!(key = %tile.key, "a tile is not kept in the disk cache");
    }
}

/// Ensures that the disk cache has a tile: renders and writes it if it does not.
pub(super) fn warmed_by(
    tier: &SecondTier,
    drawing: Drawing,
    provisional: &Provisional,
    metrics: &Metrics,
) -> Result<Warmed, TileError> {
    if !provisional.is_refused(&drawing) && tier.has(&drawing.origin.token, &drawing.key)? {
        return Ok(Warmed::WasThere);
    }
    let Drawing { key, origin, draw, .. } = drawing;
    let tile = drawn(key, draw, metrics)?;
    if !origin.was_unchanged_at(Instant::now()) {
        return Err(TileError::Changed { token: origin.token });
    }
    tier.keep(&origin.token, &key, &tile.png)?;
    Ok(Warmed::Drawn(tile.png.len()))
}

/// Lends the thread's buffers to a job. A job within a job gets buffers of its own.
pub(super) fn with_scratch<T>(job: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<Scratch> = RefCell::default();
    }
    let mut scratch = SCRATCH.take();
    let result = job(&mut scratch);
    SCRATCH.set(scratch);
    result
}
