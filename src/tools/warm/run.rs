//! Does the work: takes tiles in order, several at once, with a maximum rate and a way to stop at
//! any time.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::time::{self, MissedTickBehavior};
use voltile_base::flow::interest::Interest;
use voltile_base::request::TileRequest;

use super::work::WarmWork;
use crate::tools::progress::Progress;

/// The maximum number of failures that are listed; all are counted.
const MAX_FAILURES: usize = 1000;

/// The result of producing a tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TileOutcome {
    /// The tile was rendered, or returned by a server: its size in bytes.
    Rendered(u64),
    /// It was stored already.
    Stored,
    /// It is empty and need not be stored.
    Empty,
    /// This tile failed.
    Failed(String),
    /// No further tile can succeed, for a reason that does not concern this tile.
    Over(String),
    /// It was abandoned because the interest in the work is gone.
    Stopped,
}

/// Renders and stores tiles.
pub trait Producer {
    /// Makes sure that a tile is stored. Returns as soon as possible once the interest is gone.
    fn fill(&self, tile: &TileRequest, interest: &Interest) -> impl Future<Output = TileOutcome>;
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// All tiles were tried.
    #[default]
    Finished,
    /// It was stopped.
    Stopped,
    /// It could not continue, for this reason.
    #[serde(untagged)]
    Over(String),
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct WarmReport {
    /// `finished`, `stopped`, or why it could not continue.
    pub ending: Ending,
    /// All tiles of the work.
    pub tiles: u64,
    /// The tiles that were rendered, or returned by a server.
    pub rendered: u64,
    /// The tiles that were stored already.
    pub stored: u64,
    /// The tiles that are empty.
    pub empty: u64,
    /// The tiles that failed.
    pub failed: u64,
    /// The bytes of the rendered tiles.
    pub bytes: u64,
    /// The duration of the run.
    pub seconds: f64,
    /// Tiles evicted from the cache directory, if this process rendered the tiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evicted: Option<u64>,
    /// Bytes inflated, if this process rendered the tiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_inflated: Option<u64>,
    /// The first of the tiles that failed: the path of each below a mount, and why.
    pub failures: Vec<String>,
}

/// Waits for `pause`, or until the interest is gone; returns whether it is gone.
pub(super) async fn is_stopped_during(pause: Duration, interest: &Interest) -> bool {
    time::timeout(pause, interest.clone().gone()).await.is_ok()
}

/// Does the work: at most `at_once` tiles at the same time, and at most `rate` begun in a second.
/// Stops once the interest is gone.
pub async fn run(
    work: &WarmWork,
    producer: &impl Producer,
    at_once: NonZeroUsize,
    rate: Option<f64>,
    interest: &Interest,
    progress: &Progress,
) -> WarmReport {
    let began = Instant::now();
    progress.begin(work.total(), 0);
    let mut turns = rate.map(|rate| time::interval(Duration::from_secs_f64(1.0 / rate)));
    if let Some(turns) = &mut turns {
        turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
    }
    let in_turn = stream::unfold((work.tiles(), turns), async |(mut tiles, mut turns)| {
        if let Some(turns) = &mut turns {
            turns.tick().await;
        }
        Some((tiles.next()?, (tiles, turns)))
    });
    let filled = in_turn
        .take_until(interest.clone().gone())
        .map(async |tile| {
            let outcome = producer.fill(&tile, interest).await;
            (tile, outcome)
        });
    let mut filled = pin!(filled.buffer_unordered(at_once.get()));
    let mut report = WarmReport {
        tiles: work.total(),
        ..WarmReport::default()
    };
    while let Some((tile, outcome)) = filled.next().await {
        let is_failed = matches!(outcome, TileOutcome::Failed(_));
        match outcome {
            TileOutcome::Rendered(bytes) => {
                report.rendered += 1;
                report.bytes = report.bytes.saturating_add(bytes);
            }
            TileOutcome::Stored => report.stored += 1,
            TileOutcome::Empty => report.empty += 1,
            TileOutcome::Failed(why) => {
                report.failed += 1;
                if report.failures.len() < MAX_FAILURES {
                    report.failures.push(format!("{tile}: {why}"));
                }
            }
            TileOutcome::Over(why) => {
                report.ending = Ending::Over(why);
                break;
            }
            TileOutcome::Stopped => continue,
        }
        progress.advance(1, is_failed);
    }
    if !interest.is_there() && report.ending == Ending::Finished {
        report.ending = Ending::Stopped;
    }
    report.seconds = began.elapsed().as_secs_f64();
    report
}

#[cfg(test)]
mod tests;
