//! One tile on a render thread: identified, looked for in the second tier, drawn, and written there.

use std::cell::RefCell;
use std::time::Instant;

use super::verify::{Footprint, Provisional};
use super::{TileError, Urgency, Warmed};
use crate::activity;
use crate::catalog::{Origin, Overview, Resolved};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::render::{self, RenderError, Scratch};
use crate::tier::SecondTier;
use crate::tile::{Tile, TileKey};

/// A tile that is known to exist, before anybody has made it.
#[derive(Debug)]
pub enum Identified {
    /// It lies outside: one of the shared black tiles.
    Black(Tile),
    /// It is to be found or made.
    Made {
        /// Its key.
        key: TileKey,
        /// What it shows.
        resolved: Resolved,
    },
    /// It is a slice drawn small, to be found or made.
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

/// What has a tile's picture drawn, on a render thread.
pub(super) type Draw = Box<dyn FnOnce(&mut Scratch) -> Result<Vec<u8>, RenderError> + Send>;

/// What is going to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Draws {
    /// A tile, and who knows what then.
    One,
    /// Everything.
    All,
}

/// What drawing a tile takes: whose it is, and how it is drawn. None of it for one that is black.
pub(super) struct Drawing {
    pub key: TileKey,
    pub origin: Origin,
    pub draw: Draw,
    pub footprint: Footprint,
}

impl Draws {
    /// What is drawn for a request of that urgency and those that are likely to follow it.
    pub fn of(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Wanted => Draws::One,
            Urgency::Prefetch => Draws::All,
        }
    }
}

impl Drawing {
    pub fn for_whom(self, draws: Draws) -> Self {
        let Self { key, origin, draw, footprint } = self;
        let draw: Draw = match draws {
            Draws::One => draw,
            Draws::All => Box::new(move |scratch| activity::thoroughly(|| draw(scratch))),
        };
        Self { key, origin, draw, footprint }
    }
}

impl Identified {
    /// What drawing it takes; `None` for a tile that is black.
    pub(super) fn drawing(&self) -> Option<Drawing> {
        Some(match self {
            Identified::Black(_) => return None,
            Identified::Made { key, resolved } => {
                let (key, origin, plan) = (*key, resolved.origin(), resolved.plan());
                let footprint = Footprint::of(std::slice::from_ref(&plan));
                let draw = Box::new(move |scratch: &mut Scratch| render::render(&plan, scratch));
                Drawing { key, origin, draw, footprint }
            }
            Identified::Overview { key, overview } => {
                let (key, origin, plan) = (*key, overview.origin()?, overview.plan());
                let footprint = Footprint::of(&plan.tiles);
                let draw = Box::new(move |scratch: &mut Scratch| render::overview(&plan, scratch));
                Drawing { key, origin, draw, footprint }
            }
        })
    }

    /// The token that it is kept under; `None` for a tile that is black, which is never kept.
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

/// The tile as the second tier has it.
pub(super) fn found(tier: Option<&SecondTier>, origin: &Origin, key: TileKey) -> Option<Tile> {
    Some(Tile::new(key, tier?.find(&origin.token, &key)?))
}

/// Draws a tile, which is counted.
pub(super) fn drawn(key: TileKey, draw: Draw, metrics: &Metrics) -> Result<Tile, RenderError> {
    metrics.renders.inc();
    let rendered = with_scratch(draw);
    if let Err(error) = &rendered {
        metrics.render_errors.inc();
        tracing::error!(%key, "a tile could not be rendered: {error}");
    }
    Ok(Tile::new(key, rendered?))
}

/// Has a tile that was just drawn written, unless its files turn out to have changed.
pub(super) fn keep_later(tier: Option<&SecondTier>, origin: Origin, tile: &Tile) {
    let (Some(tier), now) = (tier, Instant::now()) else { return };
    tier.keep_later(origin.token.clone(), tile, move || origin.was_unchanged_at(now));
}

/// Writes a tile that was just drawn, unless its files turn out to have changed. That it could not be written is counted and
/// logged, and concerns nobody who waits for it.
pub(super) fn keep_now(tier: Option<&SecondTier>, origin: &Origin, tile: &Tile) {
    let Some(tier) = tier else { return };
    if !origin.was_unchanged_at(Instant::now()) || tier.keep(&origin.token, &tile.key, &tile.png).is_err() {
        tracing::debug!(key = %tile.key, "a tile is not kept in the second tier");
    }
}

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

/// Lends the thread's buffers to a job. They are taken out meanwhile, so that a job within a job gets fresh ones.
pub(super) fn with_scratch<T>(job: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<Scratch> = RefCell::default();
    }
    let mut scratch = SCRATCH.take();
    let result = job(&mut scratch);
    SCRATCH.set(scratch);
    result
}
