//! Rate-limited error log: a full disk logs a few lines a minute instead of one per tile.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{TierError, TierKind};

/// The time in which at most [`MAX_LINES`] lines per kind of error are logged.
const PERIOD: Duration = Duration::from_secs(60);
const MAX_LINES: usize = 3;

/// The errors logged recently about a tier, by kind of error.
#[derive(Debug)]
pub(super) struct ErrorLog {
    tier: TierKind,
    errors: Mutex<HashMap<LoggedKind, LoggedErrors>>,
}

/// The variant of an error, and the attempted operation.
type LoggedKind = (Discriminant<TierError>, &'static str);

#[derive(Debug)]
struct LoggedErrors {
    /// The start of the current period.
    since: Instant,
    /// The number of lines logged in this period.
    lines: usize,
    /// The number of errors suppressed since the last line.
    suppressed: usize,
}

impl ErrorLog {
    /// An empty log.
    pub fn new(tier: TierKind) -> Self {
        Self {
            tier,
            errors: Mutex::default(),
        }
    }

    /// Logs an error, unless the limit for its kind is reached.
    pub fn log(&self, error: &TierError) {
        if error.is_skipped() {
            return;
        }
        let doing = if let TierError::System { doing, .. } = error {
            *doing
        } else {
            ""
        };
        let Some(suppressed) = self.admit((discriminant(error), doing), Instant::now()) else {
            return;
        };
        let more = if suppressed > 0 {
            format!(" ({suppressed} similar errors suppressed)")
        } else {
            String::new()
        };
        let key = self.tier.key();
        match error {
            TierError::Corrupt { .. } | TierError::Unreachable { .. } => {
                tracing::warn!("{key}: {error}{more}");
            }
            _ => tracing::error!("{key}: {error}{more}"),
        }
    }

    /// The number of errors of this kind suppressed since the last logged one; `None` if this one
    /// is suppressed too.
    fn admit(&self, kind: LoggedKind, now: Instant) -> Option<usize> {
        let mut errors = self.errors.lock();
        let logged = errors.entry(kind).or_insert(LoggedErrors {
            since: now,
            lines: 0,
            suppressed: 0,
        });
        if now.duration_since(logged.since) >= PERIOD {
            logged.since = now;
            logged.lines = 0;
        }
        if logged.lines == MAX_LINES {
            logged.suppressed += 1;
            return None;
        }
        logged.lines += 1;
        Some(std::mem::take(&mut logged.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_own_limit() {
        let (log, start) = (ErrorLog::new(TierKind::Directory), Instant::now());
        let kind = discriminant(&TierError::Resting);
        let admit = |doing, seconds| log.admit((kind, doing), start + Duration::from_secs(seconds));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|second| admit("written", second)),
            [Some(0), Some(0), Some(0), None, None]
        );
        assert_eq!(admit("opened", 5), Some(0));
        assert_eq!(
            [61, 62].map(|second| admit("written", second)),
            [Some(2), Some(0)]
        );
    }
}
