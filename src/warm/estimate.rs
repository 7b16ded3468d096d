//! What a work would come to, from a few tiles that are drawn to see: bytes, and time.
//!
//! Tiles are drawn in twos: the first of a place finds nothing decoded, the one behind it mostly everything. The
//! difference is what decoding takes, which the forecast has the bytes of; the rest is taken by every tile.

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

/// Tiles of one family that were drawn to see; empty where none could be, or none was tried.
#[derive(Debug, Default)]
struct Seen(Vec<Drawn>);

impl Seen {
    /// The bytes of a tile, in the mean.
    fn bytes(&self) -> Option<f64> {
        mean(self.0.iter().map(|drawn| drawn.bytes as f64))
    }

    /// The seconds that a tile takes for which nothing is decoded, in the mean.
    fn seconds(&self) -> Option<f64> {
        let decoded = self.0.iter().filter(|drawn| drawn.inflated == 0);
        mean(decoded.map(|drawn| drawn.took.as_secs_f64()))
    }

    /// The seconds that decoding took, and how many bytes came of it, if drawing alone takes so many seconds.
    fn decoding(&self, seconds: f64) -> (f64, f64) {
        let inflating = self.0.iter().filter(|drawn| drawn.inflated > 0);
        let of = |drawn: &Drawn| ((drawn.took.as_secs_f64() - seconds).max(0.0), drawn.inflated as f64);
        inflating.map(of).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0.0), |(sum, count), number| (sum + number, count + 1.0));
    (count > 0.0).then_some(sum / count)
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
    let every = samples.len().div_ceil(MOST_FAMILIES).max(1);
    let places = (PLACES / (samples.len() as u64).max(1)).clamp(1, MOST_PLACES) as usize;
    let look = |(number, sample): (usize, &Sample)| {
        let is_looked_at = number % every == 0 && !stop.is_told();
        if is_looked_at { Seen::at(sample, places, probe) } else { Seen::default() }
    };
    let seen: Vec<Seen> = samples.iter().enumerate().map(look).collect();
    // Of families that were not looked at the others tell.
    let bytes = mean(seen.iter().filter_map(Seen::bytes)).unwrap_or_default();
    let seconds = mean(seen.iter().filter_map(Seen::seconds)).unwrap_or_default();
    let total = |of: fn(&Seen) -> Option<f64>, other: f64| {
        let each =
            samples.iter().zip(&seen).map(|(sample, seen)| sample.tiles as f64 * of(seen).unwrap_or(other));
        each.sum::<f64>()
    };
    let decoding = seen.iter().map(|seen| seen.decoding(seen.seconds().unwrap_or(seconds)));
    let (took, inflated) = decoding.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let decoding = if inflated > 0.0 { took / inflated * forecast.read.inflated as f64 } else { 0.0 };
    let drawing = total(Seen::seconds, seconds) / threads.max(1) as f64;
    let tiles = work.total();
    let left = tiles.saturating_sub(done) as f64 / tiles.max(1) as f64;
    let paced = rate.map_or(0.0, |rate| tiles as f64 / rate);
    let Forecast { read, once } = forecast;
    Estimate {
        tiles,
        done,
        bytes: total(Seen::bytes, bytes) as u64,
        seconds: (decoding + drawing).max(paced) * left,
        chunks_read: read.count,
        bytes_inflated: read.inflated,
        bytes_of_one_pass: once.inflated,
        passes: forecast.passes(),
        samples: seen.iter().map(|seen| seen.0.len() as u64).sum(),
    }
}

impl Seen {
    /// Draws a family's samples.
    fn at(sample: &Sample, places: usize, probe: &dyn Probe) -> Self {
        let tiles = sample.places.iter().take(places).flatten();
        let draw = |tile: &TileRequest| {
            let drawn = probe.draw(tile);
            tracing::debug!("{tile}, drawn to see: {drawn:?}");
            drawn
        };
        Self(tiles.filter_map(draw).collect())
    }
}
