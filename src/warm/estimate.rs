//! Estimates the bytes and time of a work from a few sample tiles.
//!
//! Tiles are sampled in pairs: the first at a place finds nothing decoded, the next one mostly everything.
//! The difference is the cost of decoding, whose bytes the forecast knows; the remainder applies to every
//! tile.

use std::time::Duration;

use serde::Serialize;

use super::forecast::Forecast;
use super::run::Stop;
use super::work::{Sample, Work};
use crate::request::TileRequest;

/// The approximate number of sampled places, in total.
const PLACES: u64 = 24;
/// The maximum number of places of one family, and of sampled families.
const MOST_PLACES: u64 = 3;
const MOST_FAMILIES: usize = 64;

/// A sample tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// The bytes of its PNG.
    pub bytes: u64,
    /// The bytes inflated for it.
    pub inflated: u64,
    /// How long it took.
    pub took: Duration,
}

/// Draws sample tiles.
pub trait Probe {
    /// Draws a tile; `None` if that fails, or the tile is black.
    fn draw(&self, tile: &TileRequest) -> Option<Drawn>;
}

/// The estimated cost of a work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The tiles.
    pub tiles: u64,
    /// Those done by an earlier run.
    pub done: u64,
    /// The bytes of all PNGs, approximately.
    pub bytes: u64,
    /// The remaining time in seconds, approximately.
    pub seconds: f64,
    /// The number of chunks, or other boxes, to read.
    pub chunks_read: u64,
    /// Their inflated size in bytes.
    pub bytes_inflated: u64,
    /// The bytes if everything were inflated once.
    pub bytes_of_one_pass: u64,
    /// How many times everything is inflated.
    pub passes: f64,
    /// The number of sample tiles.
    pub samples: u64,
}

/// The samples of one family; empty if all failed, or none was tried.
#[derive(Debug, Default)]
struct Seen(Vec<Drawn>);

impl Seen {
    /// The mean size of a tile in bytes.
    fn bytes(&self) -> Option<f64> {
        mean(self.0.iter().map(|drawn| drawn.bytes as f64))
    }

    /// The mean time in seconds of a tile for which nothing is decoded yet.
    fn seconds(&self) -> Option<f64> {
        let decoded = self.0.iter().filter(|drawn| drawn.inflated == 0);
        mean(decoded.map(|drawn| drawn.took.as_secs_f64()))
    }

    /// The seconds spent decoding, and the bytes decoded, if drawing alone takes `seconds` per tile.
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

/// Estimates `tiles` tiles of a work, of which `done` are done, for a number of threads and a maximum rate.
pub fn estimate(
    work: &Work,
    probe: &dyn Probe,
    (tiles, done): (u64, u64),
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
    // Families without samples are estimated from the others.
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
    let all = work.total().max(1) as f64;
    let part = |of: u64| (of as f64 * (tiles as f64 / all)) as u64;
    let left = tiles.saturating_sub(done) as f64 / all;
    let paced = rate.map_or(0.0, |rate| all / rate);
    let Forecast { read, once } = forecast;
    Estimate {
        tiles,
        done,
        bytes: part(total(Seen::bytes, bytes) as u64),
        seconds: (decoding + drawing).max(paced) * left,
        chunks_read: part(read.count),
        bytes_inflated: part(read.inflated),
        bytes_of_one_pass: part(once.inflated),
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
            tracing::debug!("sample {tile}: {drawn:?}");
            drawn
        };
        Self(tiles.filter_map(draw).collect())
    }
}
