//! Requests to one server. The number of requests at once is limited, requests that fail are
//! repeated, and none are sent while the server is down.

use std::future::pending;
use std::ops::Range;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use voltile_base::flow::breaker::{Breaker, BreakerRule};
use voltile_base::metrics::StoreMetrics;

use super::error::StoreError;
use super::transport::{MAX_REQUESTS, READ_TIMEOUT, RETRY_PAUSE, RangeBytes, Transport};
use super::version::Version;

/// The number of times a request is sent before its failure is reported.
const ATTEMPTS: u32 = 4;
/// The pause before the second attempt. Each later pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// A request is not repeated once about this much time has passed since the first attempt.
const LAST_REPEAT: Duration = Duration::from_secs(20);

/// The slowest rate of an answer that is waited for, in bytes per second. At this rate,
/// [`MAX_REQUESTS`] answers together need a line of one megabit per second.
const MIN_BYTES_PER_SECOND: u64 = 2 << 10;

/// A request that takes this many times as long as usual is raced by a second request.
const SLOWNESS: f64 = 8.0;
/// A request that has taken less than this is not raced.
const SOONEST_RACE: Duration = Duration::from_secs(2);
/// Transferring this many bytes is assumed to take as long as waiting for the first byte. The
/// estimate is rough, but [`SLOWNESS`] leaves room for errors.
const BYTES_PER_UNIT: f64 = (256 << 10) as f64;

/// A server whose recent failures outnumber its recent successes by `failures` is considered down:
/// it gets only one request after each pause.
const RULE: BreakerRule = BreakerRule {
    failures: 8,
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(15),
};

/// A server, and how it answered lately.
#[derive(Debug)]
pub(super) struct Host {
    name: String,
    /// Limits how many requests are in flight at once; never closed.
    places: Semaphore,
    breaker: Breaker,
    metrics: StoreMetrics,
    /// The last failure, while the breaker is open.
    problem: Mutex<Option<String>>,
    pace: AnswerPace,
}

/// Estimates how long an answer should take, from the average number of seconds per unit of work of
/// the last answers (`None` before the first answer). The first byte of an answer is one unit of
/// work, and so are each [`BYTES_PER_UNIT`] bytes.
#[derive(Debug, Default)]
struct AnswerPace(Mutex<Option<f64>>);

impl AnswerPace {
    fn units_of_work(range: &Range<u64>) -> f64 {
        1.0 + range.end.saturating_sub(range.start) as f64 / BYTES_PER_UNIT
    }

    fn add(&self, range: &Range<u64>, took: Duration) {
        let new = took.as_secs_f64() / Self::units_of_work(range);
        let mut average = self.0.lock();
        // An exponential average, in which the newest answer weighs one eighth.
        *average = Some(average.map_or(new, |old| old + (new - old) / 8.0));
    }

    /// The time after which a request counts as slow; `None` before the first answer.
    fn slow_after(&self, range: &Range<u64>) -> Option<Duration> {
        let average = (*self.0.lock())?;
        let seconds = SLOWNESS * average * Self::units_of_work(range);
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(READ_TIMEOUT);
        Some(time.clamp(SOONEST_RACE, READ_TIMEOUT))
    }
}

impl Host {
    pub fn new(name: String, metrics: StoreMetrics) -> Self {
        let places = Semaphore::new(MAX_REQUESTS);
        Self {
            name,
            places,
            breaker: Breaker::new(RULE),
            metrics,
            problem: Mutex::default(),
            pace: AnswerPace::default(),
        }
    }

    /// Describes the last failure, while the server is considered down.
    pub fn problem(&self) -> Option<String> {
        let problem = self.problem.lock().clone()?;
        let is_down = self.breaker.is_open();
        is_down.then(|| format!("{} is unavailable: {problem}", self.name))
    }

    /// Requests a range, and repeats the request if it fails. Fails if the object does not have the
    /// expected version.
    pub async fn get(
        &self,
        transport: &dyn Transport,
        range: Range<u64>,
        expected: Option<&Version>,
    ) -> Result<RangeBytes, StoreError> {
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            let result = self.attempt(transport, range.clone(), expected).await;
            let is_last = attempt == ATTEMPTS || began.elapsed() + pause > LAST_REPEAT;
            match result {
                Err((error, true)) if !is_last => {
                    self.metrics.retries.inc();
                    tracing::debug!("a request to {} is repeated: {error}", self.name);
                }
                Err((error, _)) => return Err(error),
                Ok(part) => return Ok(part),
            }
            // Varied by half, so that requests that failed together are not repeated together.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause *= 2;
            attempt += 1;
        }
    }

    /// Sends a request once. The flag beside an error says whether the request is to be repeated.
    async fn attempt(
        &self,
        transport: &dyn Transport,
        range: Range<u64>,
        expected: Option<&Version>,
    ) -> Result<RangeBytes, (StoreError, bool)> {
        let Ok(_place) = self.places.acquire().await else {
            return Err((self.refusal(), false));
        };
        let Some(permit) = self.breaker.permit().or_else(|| self.breaker.probe()) else {
            self.metrics.refused.inc();
            return Err((self.refusal(), false));
        };
        let began = Instant::now();
        let answer = timeout(time_limit(&range), self.race(transport, &range, expected)).await;
        let result =
            answer.unwrap_or_else(|_| Err(StoreError::unavailable("it does not answer in time")));
        let received = match &result {
            Ok(part) => Some(part.bytes.len() as u64),
            // That an object is missing or has changed is an answer, not a failure.
            Err(StoreError::Missing | StoreError::Changed) => Some(0),
            Err(_) => None,
        };
        self.metrics.observe(began.elapsed(), received);
        match result {
            Ok(part) => {
                self.note_success(permit.succeeded());
                match expected {
                    Some(expected) if !expected.matches(&part.version) => {
                        Err((StoreError::Changed, false))
                    }
                    _ => Ok(part),
                }
            }
            Err(error) if error.is_transient() => {
                let went_down = permit.failed();
                self.note_failure(&error, went_down);
                Err((error, true))
            }
            // Even an answer that refuses the request shows that the server is up.
            Err(error) => {
                self.note_success(permit.succeeded());
                Err((error, false))
            }
        }
    }

    /// Sends a request. If the answer takes much longer than earlier answers did, a second request
    /// races the first, and the first answer wins. A second request that is slow as well is
    /// replaced by a new one, because the server may have become fast again.
    async fn race(
        &self,
        transport: &dyn Transport,
        range: &Range<u64>,
        expected: Option<&Version>,
    ) -> Result<RangeBytes, StoreError> {
        let request = async || {
            let began = Instant::now();
            let answer = transport.get(range.clone(), expected).await;
            answer.inspect(|_| self.pace.add(range, began.elapsed()))
        };
        let first = request();
        let Some(mut patience) = self.pace.slow_after(range) else {
            return first.await;
        };
        tokio::pin!(first);
        if let Ok(answer) = timeout(patience, &mut first).await {
            return answer;
        }
        loop {
            patience = (2 * patience).min(READ_TIMEOUT);
            let second = async {
                if let Ok(_place) = self.places.try_acquire() {
                    self.metrics.retries.inc();
                    if let Ok(part) = request().await {
                        return part;
                    }
                }
                // Without a free place, or if the second request fails, the first goes on alone
                // until this patience ends.
                pending().await
            };
            tokio::select! {
                answer = &mut first => return answer,
                raced = timeout(patience, second) => {
                    if let Ok(part) = raced {
                        return Ok(part);
                    }
                }
            }
        }
    }

    fn note_failure(&self, error: &StoreError, went_down: bool) {
        let text = match error {
            StoreError::Unavailable { problem, .. } => problem.clone(),
            other => other.to_string(),
        };
        if went_down {
            self.metrics.unreachable.inc();
            tracing::warn!(
                "{} is unavailable ({text}); its datasets are, too, until it answers",
                self.name
            );
        }
        if self.breaker.is_open() {
            *self.problem.lock() = Some(text);
        }
    }

    fn note_success(&self, came_back: bool) {
        if came_back {
            self.metrics.unreachable.dec();
            *self.problem.lock() = None;
            tracing::info!("{} answers again", self.name);
        }
    }

    /// The error of a request that is not sent, because the server is considered down.
    fn refusal(&self) -> StoreError {
        let until_probe = self.breaker.until_probe().unwrap_or_default();
        let problem = self.problem.lock().clone();
        StoreError::Unavailable {
            problem: problem.unwrap_or_else(|| "it failed repeatedly".to_owned()),
            retry_after: until_probe.max(RETRY_PAUSE),
        }
    }
}

/// How long a request may take. An answer that keeps arriving is waited for, even if it shares a
/// slow line with other answers. If no bytes arrive for a while, the transport gives up earlier.
fn time_limit(range: &Range<u64>) -> Duration {
    READ_TIMEOUT + Duration::from_secs(range.end.saturating_sub(range.start) / MIN_BYTES_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::transport::RangeAnswer;

    /// Answers after a while.
    #[derive(Debug)]
    struct Slow(Duration);

    impl Transport for Slow {
        fn get<'a>(&'a self, range: Range<u64>, _: Option<&'a Version>) -> RangeAnswer<'a> {
            Box::pin(async move {
                tokio::time::sleep(self.0).await;
                let bytes = Bytes::from(vec![0; (range.end - range.start) as usize]);
                Ok(RangeBytes {
                    version: Version::new(1 << 30, None, None),
                    bytes,
                })
            })
        }
    }

    /// Answers at once, except for requests that begin in the period `slow`.
    #[derive(Debug)]
    struct Trickling {
        began: tokio::time::Instant,
        slow: Range<Duration>,
    }

    impl Transport for Trickling {
        fn get<'a>(&'a self, range: Range<u64>, expected: Option<&'a Version>) -> RangeAnswer<'a> {
            let is_slow = self.slow.contains(&self.began.elapsed());
            let answer = Slow(Duration::from_secs(if is_slow { 3600 } else { 0 }));
            Box::pin(async move { answer.get(range, expected).await })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_is_raced_by_others_until_the_server_is_fast_again() {
        let host = Host::new("slow".to_owned(), StoreMetrics::default());
        let began = tokio::time::Instant::now();
        let server = Trickling {
            began,
            slow: Duration::from_secs(1)..Duration::from_secs(60),
        };
        assert!(host.get(&server, 0..1 << 20, None).await.is_ok());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(host.get(&server, 0..1 << 20, None).await.is_ok());
        let took = began.elapsed();
        assert!((60..76).contains(&took.as_secs()), "{took:?}");
        assert!(
            (3..=6).contains(&host.metrics.retries.get()),
            "{}",
            host.metrics.retries.get()
        );
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
