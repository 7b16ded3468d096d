//! The report and the estimate of a work, in words.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::estimate::Estimate;
use super::forecast::Forecast;
use super::journal::Failure;
use super::run::{Ending, Outcome};
use crate::units::bytes;

/// The maximum number of failures listed.
const MOST_LISTED: usize = 1000;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// `finished`, `stopped`, or why it could not continue.
    pub ending: String,
    /// All tiles of the work, or of one shard.
    pub tiles: u64,
    /// Of one shard with a journal: the tiles of the whole work that no shard has done yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
    /// Those done by earlier runs.
    pub before: u64,
    /// Those drawn, or returned by a server.
    pub made: u64,
    /// Those that existed already.
    pub held: u64,
    /// Those that are empty.
    pub black: u64,
    /// Those that failed.
    pub failed: u64,
    /// The bytes of those drawn.
    pub bytes: u64,
    /// The duration.
    pub seconds: f64,
    /// The tiles that were rendered, if known.
    pub drawn: Option<u64>,
    /// The tiles evicted from the cache directory meanwhile, if known.
    pub evicted: Option<u64>,
    /// The bytes inflated, if known.
    pub bytes_inflated: Option<u64>,
    /// The inflated size of everything once.
    pub bytes_of_one_pass: u64,
    /// The tiles that failed, except those beyond the recorded maximum.
    pub failures: Vec<Failure>,
}

/// What was counted during a run, if known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    /// Tiles rendered.
    pub drawn: Option<u64>,
    /// Bytes inflated.
    pub inflated: Option<u64>,
    /// Tiles evicted from the cache directory.
    pub evicted: Option<u64>,
}

impl Report {
    /// The report on a run.
    pub fn new(outcome: Outcome, forecast: &Forecast, counted: Counted) -> Self {
        let ending = match outcome.ending {
            Ending::Finished => "finished".to_owned(),
            Ending::Stopped => "stopped".to_owned(),
            Ending::Over(why) => why,
        };
        Self {
            ending,
            tiles: outcome.tiles,
            left: outcome.left,
            before: outcome.before,
            made: outcome.made,
            held: outcome.held,
            black: outcome.black,
            failed: outcome.failed,
            bytes: outcome.bytes,
            seconds: outcome.took.as_secs_f64(),
            drawn: counted.drawn,
            evicted: counted.evicted,
            bytes_inflated: counted.inflated,
            bytes_of_one_pass: forecast.once.inflated,
            failures: outcome.failures,
        }
    }

    /// The failed tiles, one line each, up to the maximum.
    pub fn failures(&self) -> impl Iterator<Item = String> + '_ {
        let listed = self.failures.iter().take(MOST_LISTED);
        let shown = self.failures.len().min(MOST_LISTED) as u64;
        let more = self.failed.saturating_sub(shown);
        let more = (more > 0).then(|| format!("and {} more", counted(more)));
        listed.map(|failure| format!("{}: {}", failure.tile, failure.why)).chain(more)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.made + self.held + self.black;
        let time = lasting(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        write!(f, "{} of {} tiles in {time}: ", counted(done), counted(self.tiles))?;
        write!(f, "{} made ({}), ", counted(self.made), bytes(self.bytes))?;
        write!(f, "{} there already, {} empty, ", counted(self.held), counted(self.black))?;
        write!(f, "{} failed", counted(self.failed))?;
        if self.before > 0 {
            write!(f, "; {} were done before", counted(self.before))?;
        }
        match self.left {
            Some(0) => write!(f, "; all tiles of the whole are done")?,
            Some(left) => write!(f, "; {} of the whole are not done yet", counted(left))?,
            None => {}
        }
        let per_second = |count: u64| count as f64 / self.seconds.max(0.001);
        let speed = bytes(per_second(self.bytes) as u64);
        write!(f, "\n{:.1} tiles/s, {speed}/s", per_second(done))?;
        if let Some(drawn) = self.drawn {
            write!(f, "; {} rendered", counted(drawn))?;
        }
        let Some(inflated) = self.bytes_inflated else { return Ok(()) };
        write!(f, "\n{} inflated", bytes(inflated))?;
        if self.bytes_of_one_pass > 0 {
            let share = inflated as f64 / self.bytes_of_one_pass as f64;
            write!(f, ", {share:.2} of one pass ({})", bytes(self.bytes_of_one_pass))?;
        }
        Ok(())
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tiles, about {}", counted(self.tiles), bytes(self.bytes))?;
        write!(f, ", about {}", minutes(self.seconds))?;
        if self.done > 0 {
            write!(f, " for the {} that are left", counted(self.tiles - self.done))?;
        }
        write!(f, "\nat most {} chunks read", counted(self.chunks_read))?;
        if self.bytes_of_one_pass > 0 {
            write!(f, ", {} inflated: {:.2} passes", bytes(self.bytes_inflated), self.passes)?;
        } else {
            write!(f, ", nothing inflated")?;
        }
        write!(f, "\nestimated from {} tiles", self.samples)
    }
}

/// A number with thousands separators.
fn counted(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}

fn lasting(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn minutes(seconds: f64) -> String {
    match seconds / 60.0 {
        minutes if minutes < 0.1 => "0.1 minutes".to_owned(),
        minutes if minutes < 10.0 => format!("{minutes:.1} minutes"),
        minutes if minutes < 600.0 => format!("{minutes:.0} minutes"),
        minutes => format!("{:.0} hours", minutes / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!([0, 999, 1000, 12_345_678].map(counted), ["0", "999", "1,000", "12,345,678"]);
        assert_eq!(lasting(Duration::from_secs(125)), "2 min 5 s");
        assert_eq!(
            [1.0, 90.0, 3600.0, 86_400.0].map(minutes),
            ["0.1 minutes", "1.5 minutes", "60 minutes", "24 hours"]
        );
    }
}
