//! What a work would come to, from a few tiles that are drawn to see: bytes, and time.
//!
//! Tiles are drawn in twos: the first of a place finds nothing decoded, the one behind it everything. The difference is
//! what decoding takes, which the forecast has the bytes of; the rest is taken by every tile.

use std::time::Duration;

use serde::Serialize;

use super::forecast::Forecast;
use super::run::Stop;
use super::work::{Sample, Work};
use crate::request::TileRequest;

/// About how many places are looked at, in all.
const PLACES: u64 = 24;
/// The most places of one family, and the most families that are looked at.
const MOST_PLACES: u64 = 3;
const MOST_FAMILIES: usize = 64;

/// A tile that was drawn to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// The bytes of its PNG.
    pub bytes: u64,
    /// The bytes that were inflated for it.
    pub inflated: u64,
    /// How long it took.
    pub took: Duration,
}

/// Whoever can draw a tile to see what that takes.
pub trait Probe {
    /// Draws a tile; `None` where it cannot be had, or nothing is in it.
    fn draw(&self, tile: &TileRequest) -> Option<Drawn>;
}

/// What a work would come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The tiles.
    pub tiles: u64,
    /// Those that an earlier run has done already.
    pub done: u64,
    /// The bytes of all PNGs, about.
    pub bytes: u64,
    /// How long the rest takes, about, in seconds.
    pub seconds: f64,
    /// The chunks, or other boxes, that are read.
    pub chunks_read: u64,
    /// The bytes that these inflate to.
    pub bytes_inflated: u64,
    /// The same if everything were inflated once.
    pub bytes_of_one_pass: u64,
    /// How many times everything is inflated.
    pub passes: f64,
    /// The tiles that were drawn to see.
    pub samples: u64,
}

/// What tiles of one family take, as far as was seen.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    bytes: f64,
    seconds: f64,
}

/// Sums up what was drawn.
#[derive(Debug, Default)]
struct Sums {
    drawn: u64,
    decoding: f64,
    inflated: u64,
}

/// Estimates a work of which so many tiles are done, by so many threads at no more than a rate.
pub fn estimate(
    work: &Work,
    probe: &dyn Probe,
    done: u64,
    threads: usize,
    rate: Option<f64>,
    stop: &Stop,
) -> Estimate {
    let forecast = work.forecast();
    let samples = work.samples(MOST_PLACES);
    let (mut sums, mut all) = (Sums::default(), Vec::new());
    let every = samples.len().div_ceil(MOST_FAMILIES).max(1);
    let places = (PLACES / (samples.len() as u64).max(1)).clamp(1, MOST_PLACES) as usize;
    for (number, sample) in samples.iter().enumerate() {
        let looked_at = number % every == 0 && !stop.is_told();
        all.push(if looked_at { sums.look(sample, places, probe) } else { None });
    }
    let seen: Vec<Seen> = all.iter().copied().flatten().collect();
    let mean = |of: fn(&Seen) -> f64| seen.iter().map(of).sum::<f64>() / (seen.len().max(1) as f64);
    let mean = Seen { bytes: mean(|seen| seen.bytes), seconds: mean(|seen| seen.seconds) };
    let total = |of: fn(Seen) -> f64| {
        let each =
            samples.iter().zip(&all).map(|(sample, seen)| sample.tiles as f64 * of(seen.unwrap_or(mean)));
        each.sum::<f64>()
    };
    let tiles = work.total();
    let left = tiles.saturating_sub(done) as f64 / tiles.max(1) as f64;
    let decoding = sums.decoding / sums.inflated.max(1) as f64 * forecast.read.inflated as f64;
    let drawing = total(|seen| seen.seconds) / threads.max(1) as f64;
    let paced = rate.map_or(0.0, |rate| tiles as f64 / rate);
    let Forecast { read, once } = forecast;
    Estimate {
        tiles,
        done,
        bytes: total(|seen| seen.bytes) as u64,
        seconds: (decoding + drawing).max(paced) * left,
        chunks_read: read.count,
        bytes_inflated: read.inflated,
        bytes_of_one_pass: once.inflated,
        passes: forecast.passes(),
        samples: sums.drawn,
    }
}

impl Sums {
    /// Draws a family's samples; `None` where nothing could be drawn.
    fn look(&mut self, sample: &Sample, places: usize, probe: &dyn Probe) -> Option<Seen> {
        let (mut bytes, mut seconds, mut tiles) = (0.0, 0.0, 0.0);
        for place in sample.places.iter().take(places) {
            let drawn: Vec<Drawn> = place.iter().filter_map(|tile| probe.draw(tile)).collect();
            let Some(cold) = drawn.first() else { continue };
            // Without one behind it, decoding is taken for all that it took.
            let warm = drawn.get(1).map_or(0.0, |behind| behind.took.as_secs_f64());
            if cold.inflated > 0 {
                self.decoding += (cold.took.as_secs_f64() - warm).max(0.0);
                self.inflated += cold.inflated;
            }
            let alone = if cold.inflated > 0 { warm } else { cold.took.as_secs_f64() };
            bytes += drawn.iter().map(|drawn| drawn.bytes as f64).sum::<f64>() / drawn.len() as f64;
            seconds += alone;
            tiles += 1.0;
            self.drawn += drawn.len() as u64;
        }
        (tiles > 0.0).then(|| Seen { bytes: bytes / tiles, seconds: seconds / tiles })
    }
}
