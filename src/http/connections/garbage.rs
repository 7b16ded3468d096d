//! Logs connections that did not send HTTP, or whose TLS handshake failed, at most once a minute.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest time between two log lines.
const PAUSE: Duration = Duration::from_secs(60);

/// Counts such connections since the last log line.
#[derive(Debug, Default)]
pub(super) struct Garbage(Mutex<Unsaid>);

#[derive(Debug, Default)]
struct Unsaid {
    count: u64,
    said: Option<Instant>,
}

impl Garbage {
    /// Counts one more, and logs the count if there was no log line within the last minute.
    pub fn tell(&self, client: Option<IpAddr>, problem: &str) {
        let Some(count) = self.count(Instant::now()) else { return };
        let from = client.map_or_else(|| "the Unix socket".to_owned(), |client| client.to_string());
        if count == 1 {
            tracing::warn!("a connection from {from} was refused: {problem}");
        } else {
            tracing::warn!("{count} connections were refused, the last one from {from}: {problem}");
        }
    }

    /// The count since the last log line, if it is time for another.
    fn count(&self, now: Instant) -> Option<u64> {
        let mut unsaid = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unsaid.count += 1;
        if unsaid.said.is_some_and(|said| now.duration_since(said) < PAUSE) {
            return None;
        }
        unsaid.said = Some(now);
        Some(std::mem::take(&mut unsaid.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_line_a_minute_with_the_count() {
        let (garbage, start) = (Garbage::default(), Instant::now());
        let count = |second| garbage.count(start + Duration::from_secs(second));
        assert_eq!([0, 1, 30, 59].map(count), [Some(1), None, None, None]);
        assert_eq!([60, 61, 200].map(count), [Some(4), None, Some(2)]);
    }
}
