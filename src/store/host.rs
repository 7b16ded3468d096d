//! Requests to one server: a bounded number at once, repeated when they fail, and given up while the server is down.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::error::StoreError;
use super::transport::{MAX_AT_ONCE, Part, RETRY, Transport, WAITING};
use super::version::Version;
use crate::flow::breaker::{Breaker, Rule};
use crate::metrics::StoreMetrics;

/// How often a request is made before its failure is reported.
const ATTEMPTS: u32 = 4;
/// The pause before the second attempt; each further one is preceded by one twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The time from the first attempt after which none is repeated.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer that arrives more slowly is given up, in bytes per second: 64 of them at once take a megabit.
const SLOWEST: u64 = 2 << 10;

/// A server that fails so often in a row is not asked, but for one request after each pause.
const RULE: Rule =
    Rule { failures: 8, first_pause: Duration::from_secs(1), longest_pause: Duration::from_secs(15) };

/// A server.
#[derive(Debug)]
pub(super) struct Host {
    name: String,
    permits: Semaphore,
    breaker: Breaker,
    metrics: StoreMetrics,
    problem: Mutex<Option<String>>,
}

impl Host {
    pub fn new(name: String, metrics: StoreMetrics) -> Self {
        let permits = Semaphore::new(MAX_AT_ONCE);
        Self { name, permits, breaker: Breaker::new(RULE), metrics, problem: Mutex::default() }
    }

    /// What happened last, while it does not answer.
    pub fn problem(&self) -> Option<String> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let problem = problem.filter(|_| self.breaker.is_open())?;
        Some(format!("{} is unavailable: {problem}", self.name))
    }

    /// The bytes in a range, of the expected version.
    pub async fn get(
        &self,
        transport: &dyn Transport,
        range: Range<u64>,
        expected: Option<&Version>,
    ) -> Result<Part, StoreError> {
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let result = self.attempt(transport, range.clone(), expected).await;
            let is_last = attempt == ATTEMPTS || began.elapsed() + pause > PATIENCE;
            match result {
                Err((error, true)) if !is_last => {
                    self.metrics.retries.inc();
                    tracing::debug!("a request to {} is repeated: {error}", self.name);
                }
                Err((error, _)) => return Err(error),
                Ok(part) => return Ok(part),
            }
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause *= 2;
        }
        Err(self.refusal())
    }

    /// One request. The error says whether it is to be repeated.
    async fn attempt(
        &self,
        transport: &dyn Transport,
        range: Range<u64>,
        expected: Option<&Version>,
    ) -> Result<Part, (StoreError, bool)> {
        let Ok(_place) = self.permits.acquire().await else { return Err((self.refusal(), false)) };
        let Some(permit) = self.breaker.permit().or_else(|| self.breaker.probe()) else {
            self.metrics.refused.inc();
            return Err((self.refusal(), false));
        };
        let began = Instant::now();
        let patience = patience(&range);
        let answer = tokio::time::timeout(patience, transport.get(range, expected)).await;
        let in_time = answer.unwrap_or_else(|_| Err(silence()));
        self.metrics.observe(began.elapsed(), in_time.as_ref().ok().map(|part| part.bytes.len() as u64));
        match in_time {
            Ok(part) => {
                self.recover(permit.succeeded());
                match expected {
                    Some(expected) if !expected.is_of(&part.version) => Err((StoreError::Changed, false)),
                    _ => Ok(part),
                }
            }
            Err(error) if error.may_pass() => {
                let is_down = permit.failed();
                self.note(&error, is_down);
                Err((error, true))
            }
            // It answered: the object is at fault, not the server.
            Err(error) => {
                self.recover(permit.succeeded());
                Err((error, false))
            }
        }
    }

    fn note(&self, error: &StoreError, is_down: bool) {
        let text = match error {
            StoreError::Unavailable { problem, .. } => problem.clone(),
            other => other.to_string(),
        };
        if is_down {
            self.metrics.unreachable.inc();
            tracing::warn!("{} is unavailable ({text}); its datasets are, too, until it answers", self.name);
        }
        if self.breaker.is_open() {
            *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
    }

    fn recover(&self, is_back: bool) {
        if is_back {
            self.metrics.unreachable.dec();
            *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
            tracing::info!("{} answers again", self.name);
        }
    }

    /// The error without a request, while the server does not answer.
    fn refusal(&self) -> StoreError {
        let retry_after = self.breaker.until_probe().unwrap_or(RETRY).max(RETRY);
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        StoreError::Unavailable {
            problem: problem.unwrap_or_else(|| "it failed repeatedly".to_owned()),
            retry_after,
        }
    }
}

/// How long a request may take: an answer that keeps arriving over a slow line, beside others, is waited for. (Silence
/// ends a request earlier.)
fn patience(range: &Range<u64>) -> Duration {
    WAITING + Duration::from_secs(range.end.saturating_sub(range.start) / SLOWEST)
}

fn silence() -> StoreError {
    StoreError::Unavailable { problem: "it does not answer in time".to_owned(), retry_after: RETRY }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::future::BoxFuture;

    use super::*;

    /// Answers after a while.
    #[derive(Debug)]
    struct Slow(Duration);

    impl Transport for Slow {
        fn get<'a>(
            &'a self,
            range: Range<u64>,
            _: Option<&'a Version>,
        ) -> BoxFuture<'a, Result<Part, StoreError>> {
            Box::pin(async move {
                tokio::time::sleep(self.0).await;
                let bytes = Bytes::from(vec![0; (range.end - range.start) as usize]);
                Ok(Part { version: Version::new(1 << 30, None, None), bytes })
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn long_answers_may_take_long_and_short_ones_may_not() {
        let host = Host::new("slow".to_owned(), StoreMetrics::default());
        let slow = Slow(Duration::from_secs(120));
        assert!(host.get(&slow, 0..1 << 20, None).await.is_ok());
        let error = host.get(&slow, 0..100, None).await.unwrap_err();
        assert!(error.to_string().contains("in time"), "{error}");
    }
}
