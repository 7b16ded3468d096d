//! Logs what goes wrong, but not for every tile: a full disk has a few lines a minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::TierError;

/// How long nothing more is said of the same kind of thing once enough has been said.
const PAUSE: Duration = Duration::from_secs(60);
/// How many lines of a kind there may be before that.
const MOST: usize = 3;

/// What was logged lately, by kind.
#[derive(Debug, Default)]
pub(super) struct ErrorLog(Mutex<HashMap<&'static str, Said>>);

#[derive(Debug)]
struct Said {
    since: Instant,
    lines: usize,
    kept_back: usize,
}

impl ErrorLog {
    /// Logs an error, unless much was logged of its kind within the last minute.
    pub fn log(&self, error: &TierError) {
        // That was logged when the directory went.
        if matches!(error, TierError::Away { .. }) {
            return;
        }
        let Some(kept_back) = self.may_tell(kind(error), Instant::now()) else { return };
        let more =
            if kept_back > 0 { format!(" (and {kept_back} more like it before)") } else { String::new() };
        match error {
            TierError::Corrupt { .. } => tracing::warn!("cache.directory: {error}{more}"),
            _ => tracing::error!("cache.directory: {error}{more}"),
        }
    }

    /// How many of the kind were kept back before; `None` where this one is to be, too.
    fn may_tell(&self, kind: &'static str, now: Instant) -> Option<usize> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = said.entry(kind).or_insert(Said { since: now, lines: 0, kept_back: 0 });
        if now.duration_since(said.since) >= PAUSE {
            (said.since, said.lines) = (now, 0);
        }
        if said.lines == MOST {
            said.kept_back += 1;
            return None;
        }
        said.lines += 1;
        Some(std::mem::take(&mut said.kept_back))
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
    fn much_of_one_kind_is_told_in_few_lines_and_other_kinds_are_told_too() {
        let (log, start) = (ErrorLog::default(), Instant::now());
        let told = |kind, seconds| log.may_tell(kind, start + Duration::from_secs(seconds));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|second| told("written", second)),
            [Some(0), Some(0), Some(0), None, None]
        );
        assert_eq!(told("opened", 5), Some(0));
        assert_eq!([61, 62].map(|second| told("written", second)), [Some(2), Some(0)]);
    }
}
