//! Estimates the bytes and time of a work from a few sample tiles.
//!
//! Tiles are sampled in pairs: for the first at a place nothing is decoded yet, for the next mostly everything. The
//! difference is the cost of decoding, in proportion to the bytes; the rest is the cost of every tile.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::report::{duration, grouped};
use super::run::Stop;
use super::work::Work;
use crate::base::request::TileRequest;
use crate::base::units::bytes;

/// The number of sampled places.
const PLACES: u64 = 24;

/// A sample tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The bytes of its PNG.
    pub bytes: u64,
    /// The bytes inflated for it.
    pub inflated: u64,
    /// How long it took.
    pub took: Duration,
}

/// Renders sample tiles.
pub trait Probe {
    /// Renders a tile; `None` if that fails, or the tile is black.
    fn render(&self, tile: &TileRequest) -> Option<Sample>;
}

/// The estimated cost of a work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The tiles.
    pub tiles: u64,
    /// The bytes of all PNGs, approximately.
    pub bytes: u64,
    /// The time in seconds, approximately.
    pub seconds: f64,
    /// The number of chunks, or other boxes, to read, each counted once.
    pub chunks_read: u64,
    /// Their inflated size in bytes.
    pub bytes_inflated: u64,
    /// The number of sample tiles.
    pub samples: u64,
}

/// Estimates `tiles` tiles of a work, for a number of threads and a maximum rate.
pub fn estimate(
    work: &Work,
    probe: &dyn Probe,
    tiles: u64,
    threads: usize,
    rate: Option<f64>,
    stop: &Stop,
) -> Estimate {
    let requests = work.samples(PLACES).into_iter().take_while(|_| !stop.is_requested());
    let samples: Vec<Sample> = requests.filter_map(|tile| probe.render(&tile)).collect();
    let seconds = |sample: &Sample| sample.took.as_secs_f64();
    let (decoding, decoded): (Vec<&Sample>, Vec<&Sample>) =
        samples.iter().partition(|sample| sample.inflated > 0);
    let per_tile = mean(decoded.into_iter().map(seconds));
    let took: f64 = decoding.iter().map(|sample| (seconds(sample) - per_tile).max(0.0)).sum();
    let inflated: u64 = decoding.iter().map(|sample| sample.inflated).sum();
    let boxes = work.boxes();
    let part = |of: u64| (of as f64 * (tiles as f64 / work.total().max(1) as f64)) as u64;
    let decoding = took / inflated.max(1) as f64 * part(boxes.inflated) as f64;
    let fastest = rate.map_or(0.0, |rate| tiles as f64 / rate);
    Estimate {
        tiles,
        bytes: (mean(samples.iter().map(|sample| sample.bytes as f64)) * tiles as f64) as u64,
        seconds: (decoding + per_tile * tiles as f64 / threads.max(1) as f64).max(fastest),
        chunks_read: part(boxes.count),
        bytes_inflated: part(boxes.inflated),
        samples: samples.len() as u64,
    }
}

/// 0 if there are none.
fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = numbers.fold((0.0, 0.0), |(sum, count), number| (sum + number, count + 1.0));
    sum / f64::max(count, 1.0)
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = duration(Duration::try_from_secs_f64(self.seconds).unwrap_or(Duration::MAX));
        write!(f, "{} tiles, about {}, about {time}", grouped(self.tiles), bytes(self.bytes))?;
        write!(f, "\n{} chunks to read, {} inflated", grouped(self.chunks_read), bytes(self.bytes_inflated))?;
        write!(f, "\nestimated from {} tiles", self.samples)
    }
}
