//! Rate-limited error log: a full disk logs a few lines a minute instead of one per tile.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::TierError;

/// At most [`MOST`] lines per kind of error are logged in this time.
const PERIOD: Duration = Duration::from_secs(60);
const MOST: usize = 3;

/// What was logged recently, by kind of error.
#[derive(Debug, Default)]
pub(super) struct ErrorLog(Mutex<HashMap<&'static str, Logged>>);

#[derive(Debug)]
struct Logged {
    since: Instant,
    lines: usize,
    suppressed: usize,
}

impl ErrorLog {
    /// Logs an error, unless the limit for its kind is reached.
    pub fn log(&self, error: &TierError) {
        // Logged once when the directory disappeared.
        if matches!(error, TierError::Away { .. }) {
            return;
        }
        let Some(suppressed) = self.admit(kind(error), Instant::now()) else { return };
        let more =
            if suppressed > 0 { format!(" ({suppressed} similar errors suppressed)") } else { String::new() };
        match error {
            TierError::Corrupt { .. } => tracing::warn!("cache.directory: {error}{more}"),
            _ => tracing::error!("cache.directory: {error}{more}"),
        }
    }

    /// The number of errors of this kind suppressed since the last logged one; `None` if this one is suppressed too.
    fn admit(&self, kind: &'static str, now: Instant) -> Option<usize> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let logged = kinds.entry(kind).or_insert(Logged { since: now, lines: 0, suppressed: 0 });
        if now.duration_since(logged.since) >= PERIOD {
            (logged.since, logged.lines) = (now, 0);
        }
        if logged.lines == MOST {
            logged.suppressed += 1;
            return None;
        }
        logged.lines += 1;
        Some(std::mem::take(&mut logged.suppressed))
    }
}

fn kind(error: &TierError) -> &'static str {
    match error {
        TierError::System { doing, .. } => doing,
        TierError::Corrupt { .. } => "corrupt",
        TierError::Full { .. } => "full",
        TierError::Away { .. } => "away",
        TierError::Foreign { .. } | TierError::Format { .. } | TierError::NoDirectory { .. } => "misnamed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_own_limit() {
        let (log, start) = (ErrorLog::default(), Instant::now());
        let admit = |kind, seconds| log.admit(kind, start + Duration::from_secs(seconds));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|second| admit("written", second)),
            [Some(0), Some(0), Some(0), None, None]
        );
        assert_eq!(admit("opened", 5), Some(0));
        assert_eq!([61, 62].map(|second| admit("written", second)), [Some(2), Some(0)]);
    }
}
