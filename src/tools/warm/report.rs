//! What a run did, in JSON and in words.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::base::units::bytes;

/// The maximum number of failures listed.
const MAX_LISTED: usize = 1000;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// All tiles were tried.
    Finished,
    /// It was stopped.
    Stopped,
    /// It could not continue: why.
    #[serde(untagged)]
    Over(String),
}

/// A tile that failed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Its path below a mount.
    pub tile: String,
    /// Why.
    pub why: String,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// `finished`, `stopped`, or why it could not continue.
    pub ending: Ending,
    /// All tiles of the work, or of one shard.
    pub tiles: u64,
    /// Those rendered, or returned by a server.
    pub made: u64,
    /// Those that were stored already.
    pub held: u64,
    /// Those that are empty.
    pub black: u64,
    /// Those that failed.
    pub failed: u64,
    /// The bytes of those rendered.
    pub bytes: u64,
    /// The duration.
    pub seconds: f64,
    /// What was counted meanwhile.
    #[serde(flatten)]
    pub counted: Counted,
    /// The first of the tiles that failed.
    pub failures: Vec<Failure>,
}

/// What was counted during a run, if known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counted {
    /// Tiles rendered.
    pub drawn: Option<u64>,
    /// Tiles evicted from the cache directory.
    pub evicted: Option<u64>,
    /// Bytes inflated.
    pub bytes_inflated: Option<u64>,
}

impl Report {
    /// The report on a run of that many tiles, before the first.
    pub(super) fn begun(tiles: u64) -> Self {
        Self {
            ending: Ending::Finished,
            tiles,
            made: 0,
            held: 0,
            black: 0,
            failed: 0,
            bytes: 0,
            seconds: 0.0,
            counted: Counted::default(),
            failures: Vec::new(),
        }
    }

    /// The failed tiles, one line each, up to the maximum.
    pub fn failures(&self) -> impl Iterator<Item = String> + '_ {
        let listed = self.failures.iter().take(MAX_LISTED);
        let more = self.failed.saturating_sub(listed.len() as u64);
        let more = (more > 0).then(|| format!("and {} more", grouped(more)));
        listed.map(|failure| format!("{}: {}", failure.tile, failure.why)).chain(more)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.made + self.held + self.black;
        let time = duration(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        write!(f, "{} of {} tiles in {time}: ", grouped(done), grouped(self.tiles))?;
        write!(f, "{} made ({}), ", grouped(self.made), bytes(self.bytes))?;
        write!(f, "{} there already, {} empty, ", grouped(self.held), grouped(self.black))?;
        write!(f, "{} failed", grouped(self.failed))?;
        let per_second = |count: u64| count as f64 / self.seconds.max(0.001);
        let speed = bytes(per_second(self.bytes) as u64);
        write!(f, "\n{:.1} tiles/s, {speed}/s", per_second(done))?;
        if let Some(drawn) = self.counted.drawn {
            write!(f, "; {} rendered", grouped(drawn))?;
        }
        match self.counted.bytes_inflated {
            Some(inflated) => write!(f, "\n{} inflated", bytes(inflated)),
            None => Ok(()),
        }
    }
}

/// A number with thousands separators.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}

/// A duration, in seconds, minutes or hours.
pub(super) fn duration(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 60..36_000 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} hours", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!([0, 999, 1000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
        assert_eq!(
            [1, 125, 86_400].map(|seconds| duration(Duration::from_secs(seconds))),
            ["1.0 s", "2 min 5 s", "24 hours"]
        );
    }
}
