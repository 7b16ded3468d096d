//! Estimates the bytes and time of a work from a few sample tiles.
//!
//! Tiles are sampled in pairs: for the first at a place nothing is decoded yet, for the next mostly
//! everything. The difference is the cost of decoding, in proportion to the bytes; the rest is the
//! cost of every tile.

use std::time::Instant;

use serde::Serialize;

use super::run::{Outcome, Producer, Stop};
use super::work::Work;

/// The number of sampled places.
const PLACES: u64 = 24;

/// The estimated cost of a work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The tiles.
    pub tiles: u64,
    /// The bytes of all PNGs, approximately.
    pub bytes: u64,
    /// The time in seconds, approximately.
    pub seconds: f64,
    /// The number of chunks, or other boxes, to read.
    pub chunks_read: u64,
    /// Their inflated size in bytes.
    pub bytes_inflated: u64,
    /// The number of sample tiles.
    pub samples: u64,
}

/// Estimates a work, for a number of threads and a maximum rate.
pub fn estimate(
    work: &Work,
    producer: &dyn Producer,
    threads: usize,
    rate: Option<f64>,
    stop: &Stop,
) -> Estimate {
    let (tiles, (chunks_read, bytes_inflated)) = (work.total(), work.boxes());
    let (mut samples, mut bytes, mut inflated) = (0, 0, 0);
    // Seconds of those samples for which chunks were decoded, and of all others.
    let (mut decoding, mut decoded) = (Vec::new(), Vec::new());
    let count_inflated = || {
        producer
            .counters()
            .map_or(0, |counters| counters.bytes_inflated)
    };
    let mut before = count_inflated();
    for tile in work
        .samples(PLACES)
        .iter()
        .take_while(|_| !stop.is_requested())
    {
        let began = Instant::now();
        let Outcome::Rendered(length) = producer.fill(tile, stop) else {
            continue;
        };
        let seconds = began.elapsed().as_secs_f64();
        let after = count_inflated();
        if after > before {
            decoding.push(seconds);
        } else {
            decoded.push(seconds);
        }
        (samples, bytes, inflated) = (
            samples + 1,
            bytes + length,
            inflated + after.saturating_sub(before),
        );
        before = after;
    }
    let per_tile = decoded.iter().sum::<f64>() / decoded.len().max(1) as f64;
    let spent: f64 = decoding
        .iter()
        .map(|seconds| (seconds - per_tile).max(0.0))
        .sum();
    let seconds = spent / inflated.max(1) as f64 * bytes_inflated as f64
        + per_tile * tiles as f64 / threads.max(1) as f64;
    Estimate {
        tiles,
        bytes: (bytes as f64 / samples.max(1) as f64 * tiles as f64) as u64,
        seconds: seconds.max(rate.map_or(0.0, |rate| tiles as f64 / rate)),
        chunks_read,
        bytes_inflated,
        samples,
    }
}
